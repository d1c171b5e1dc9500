/* A loop whose threads are started for it, where there are none of XLA. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_getaffinity */
#endif
#include "core/kb_pool.h"
#include "core/kb_ticks.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

enum {
    PARTS = 64,                          /* of a loop */
    START_AFTER = 200 * KB_TICKS_PER_US, /* a thread takes about a tenth of this to start */
};

typedef struct loop {
    kb_pool_loop of;
    _Atomic(int64_t) next;
} loop;

/* False if nothing is left. */
static bool run_part(loop *l)
{
    int64_t begin = atomic_fetch_add(&l->next, l->of.part), left = l->of.count - begin;
    if (left > 0)
        l->of.function(l->of.data, begin, begin + (left < l->of.part ? left : l->of.part));
    return left > l->of.part;
}

static void *run_parts(void *data)
{
    while (run_part(data))
        ;
    return NULL;
}

void kb_started_for(int64_t count, kb_pool_function *function, void *data)
{
    loop l = {{function, data, .count = count, .part = count > PARTS ? count / PARTS : 1}, 0};
    uint64_t begun = kb_ticks();
    while (kb_ticks() - begun < START_AFTER)
        if (!run_part(&l))
            return;
    pthread_t threads[CPU_SETSIZE];
    cpu_set_t allowed = {0}; /* if the system does not say it: none but this thread */
    int64_t most = (count - l.next) / l.of.part, n = 0;
    (void)sched_getaffinity(0, sizeof allowed, &allowed);
    if (most > CPU_COUNT(&allowed))
        most = CPU_COUNT(&allowed);
    while (n < most - 1 && pthread_create(&threads[n], NULL, run_parts, &l) == 0)
        n++;
    (void)run_parts(&l);
    while (n > 0)
        (void)pthread_join(threads[--n], NULL);
}
