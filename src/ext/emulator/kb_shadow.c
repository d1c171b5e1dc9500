/* Owns the cells of launches: one set waits for the next launch. */
#include "ext/emulator/kb_shadow.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT_CELLS = 1 << 21 }; /* 64 MiB */

static const uint32_t too_late = UINT32_C(1) << 31;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static kb_shadow *unused; /* under the lock */

static kb_shadow *exchange(kb_shadow *next)
{
    pthread_mutex_lock(&lock);
    kb_shadow *before = unused;
    unused = next;
    pthread_mutex_unlock(&lock);
    return before;
}

static void free_shadow(kb_shadow *s)
{
    if (!s)
        return;
    free(s->cells);
    free(s->more);
    free(s);
}

kb_shadow *kb_shadow_take(size_t n_cells)
{
    kb_shadow *s = exchange(NULL);
    if (s && s->n_cells >= n_cells) {
        (void)kb_shadow_renew(s);
        return s;
    }
    free_shadow(s);
    s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->n_cells = n_cells;
    s->cells = calloc(n_cells, sizeof *s->cells);
    s->more = calloc(n_cells, sizeof *s->more);
    if (s->cells && s->more)
        return s;
    free_shadow(s);
    return NULL;
}

void kb_shadow_give_back(kb_shadow *s)
{
    if (s)
        free_shadow(s->n_cells <= KEPT_CELLS ? exchange(s) : s);
}

bool kb_shadow_is_late(const kb_shadow *s)
{
    return s->time >= too_late;
}

bool kb_shadow_renew(kb_shadow *s)
{
    if (!kb_shadow_is_late(s))
        return false;
    memset(s->cells, 0, s->n_cells * sizeof *s->cells);
    memset(s->more, 0, s->n_cells * sizeof *s->more);
    s->time = 0;
    return true;
}
