/* Owns the pieces of memory that were taken, each behind a link to the one before it. */
#include "core/kb_arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct piece {
    struct piece *before;
    alignas(max_align_t) char bytes[];
} piece;

struct kb_arena {
    piece *newest;
    size_t bytes;
};

kb_arena *kb_arena_new(void)
{
    return calloc(1, sizeof(kb_arena));
}

void *kb_arena_take(kb_arena *arena, size_t count, size_t size)
{
    size_t bytes;
    if (!arena || __builtin_mul_overflow(count, size, &bytes) ||
        bytes > PTRDIFF_MAX - sizeof(piece))
        return NULL;
    piece *p = calloc(1, sizeof *p + bytes);
    if (!p)
        return NULL;
    p->before = arena->newest;
    arena->newest = p;
    arena->bytes += sizeof *p + bytes;
    return p->bytes;
}

size_t kb_arena_bytes(const kb_arena *arena)
{
    return arena->bytes;
}

void kb_arena_free(kb_arena *arena)
{
    for (piece *p = arena ? arena->newest : NULL; p;) {
        piece *before = p->before;
        free(p);
        p = before;
    }
    free(arena);
}
