/* Owns loops whose threads are started for them, where XLA's are not. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_getaffinity */
#endif
#include "ext/emulator/kb_hostcuda.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

enum {
    PARTS = 64,
    START_AFTER_NS = 200000, /* a thread takes about a tenth of this to start */
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

static int64_t now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void kb_hostcuda_for(int64_t count, kb_pool_function *function, void *data)
{
    loop l = {{function, data, .count = count, .part = count > PARTS ? count / PARTS : 1}, 0};
    int64_t begun = now_ns(), n = 0;
    while (now_ns() - begun < START_AFTER_NS)
        if (!run_part(&l))
            return;
    pthread_t threads[CPU_SETSIZE];
    cpu_set_t allowed;
    int64_t most = (count - l.next) / l.of.part;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        most = 1;
    else if (most > CPU_COUNT(&allowed))
        most = CPU_COUNT(&allowed);
    while (n < most - 1 && pthread_create(&threads[n], NULL, run_parts, &l) == 0)
        n++;
    (void)run_parts(&l);
    while (n > 0)
        (void)pthread_join(threads[--n], NULL);
}
