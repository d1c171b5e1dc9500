/* What a parallel loop has done, for its tests: each index, once, by which threads. */
#ifndef LOOP_RECORD_H
#define LOOP_RECORD_H

#include "kb_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { N_MAX = 10000 };

typedef struct seen {
    _Atomic(int) times[N_MAX];
    atomic_long parts;
    atomic_long others; /* parts that another thread took */
    pthread_t caller;
    long pause_ns;
    long all; /* threads that take part */
} seen;

static seen record;

static void look(void *data, int64_t begin, int64_t end)
{
    seen *s = data;
    atomic_fetch_add(&s->parts, 1);
    if (!pthread_equal(pthread_self(), s->caller)) {
        atomic_fetch_add(&s->others, 1);
    } else if (s->pause_ns) {
        struct timespec pause = {0, s->pause_ns};
        nanosleep(&pause, NULL);
    }
    for (int64_t i = begin; i < end; i++)
        atomic_fetch_add(&s->times[i], 1);
}

static void check_each_once(int64_t count)
{
    for (int64_t i = 0; i < N_MAX; i++)
        if (atomic_load(&record.times[i]) != (i < count))
            CHECK_INT(atomic_load(&record.times[i]), i < count);
}

/* Begin a record of this thread's loop, whose parts take so long on this thread. */
static void begin_record(long pause_ns)
{
    memset(&record, 0, sizeof record);
    record.caller = pthread_self();
    record.pause_ns = pause_ns;
}

#endif
