/* Owns the loop that is shared among threads, XLA's or some that are started for it: its parts, and
 * its life, which lasts until the last scheduled task has seen that nothing is left. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_getaffinity */
#endif
#include "core/kb_pool.h"

#include "core/kb_error.h"
#include "core/kb_float_mode.h"
#include "core/kb_memory.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

enum {
    PARTS_PER_THREAD = 4,
    PARTS_STARTED = 64,      /* of a loop that may get threads of its own */
    START_AFTER_NS = 200000, /* a thread takes about a tenth of this to start */
};

typedef struct loop {
    kb_pool_function *function;
    void *data;
    int64_t count;
    int64_t part;
    _Atomic(int64_t) next;
    _Atomic(int64_t) done;
    _Atomic(int64_t) users; /* the caller, and every scheduled task */
    pthread_mutex_t lock;
    pthread_cond_t all_done;
} loop;

static void drop(loop *l)
{
    if (atomic_fetch_sub(&l->users, 1) != 1)
        return;
    pthread_cond_destroy(&l->all_done);
    pthread_mutex_destroy(&l->lock);
    kb_free(l);
}

/* False if none is left. */
static bool run_part(loop *l)
{
    int64_t begin = atomic_fetch_add(&l->next, l->part);
    if (begin >= l->count)
        return false;
    int64_t size = l->count - begin < l->part ? l->count - begin : l->part;
    l->function(l->data, begin, begin + size);
    if (atomic_fetch_add(&l->done, size) + size < l->count)
        return true;
    pthread_mutex_lock(&l->lock);
    pthread_cond_broadcast(&l->all_done);
    pthread_mutex_unlock(&l->lock);
    return true;
}

static void run_parts(loop *l)
{
    while (run_part(l))
        ;
}

static void run_task(void *data)
{
    uint64_t mode = kb_float_mode_exact();
    run_parts(data);
    kb_float_mode_restore(mode);
    drop(data);
}

static bool took_no_error(const kb_xla_frame *xla, kb_xla_error *error)
{
    if (!error)
        return true;
    kb_xla_error_destroy destroy = {
        .struct_size = KB_XLA_SIZE(kb_xla_error_destroy, error), // NOLINT: of a pointer
        .error = error,
    };
    xla->api->error_destroy(&destroy);
    return false;
}

static int64_t num_threads(const kb_xla_frame *xla)
{
    int64_t n = 1;
    kb_xla_num_threads args = {
        .struct_size = KB_XLA_SIZE(kb_xla_num_threads, num_threads), // NOLINT: of a pointer
        .context = xla->context,
        .num_threads = &n,
    };
    return took_no_error(xla, xla->api->thread_pool_num_threads(&args)) ? n : 1;
}

static void *run_started(void *data)
{
    run_task(data);
    return NULL;
}

static bool start(loop *l)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, run_started, l) != 0)
        return false;
    (void)pthread_detach(thread);
    return true;
}

static int64_t num_processors(void)
{
    cpu_set_t allowed;
    return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
}

/* Without XLA, a thread is started. */
static bool schedule(const kb_xla_frame *xla, loop *l)
{
    if (!xla)
        return start(l);
    kb_xla_schedule args = {
        .struct_size = KB_XLA_SIZE(kb_xla_schedule, data), // NOLINT: of a pointer
        .context = xla->context,
        .task = run_task,
        .data = l,
    };
    return took_no_error(xla, xla->api->thread_pool_schedule(&args));
}

/* NULL without memory. */
static loop *loop_new(int64_t count, int64_t n_parts, kb_pool_function *function, void *data)
{
    loop *l = kb_calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->function = function;
    l->data = data;
    l->count = count;
    l->part = count / n_parts;
    l->part += l->part == 0;
    atomic_store(&l->users, 1);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->all_done, NULL);
    return l;
}

/* What is left of a loop, with other threads; the end of it. */
static void share(const kb_xla_frame *xla, loop *l, int64_t n_tasks)
{
    for (int64_t i = 0; i < n_tasks; i++) {
        atomic_fetch_add(&l->users, 1);
        if (schedule(xla, l))
            continue;
        drop(l);
        break;
    }
    run_parts(l);
    pthread_mutex_lock(&l->lock);
    while (atomic_load(&l->done) < l->count)
        pthread_cond_wait(&l->all_done, &l->lock);
    pthread_mutex_unlock(&l->lock);
    drop(l);
}

void kb_pool_for(const kb_xla_frame *xla, int64_t count, kb_pool_function *function, void *data)
{
    if (count <= 0)
        return;
    int64_t n_threads = count > 1 ? num_threads(xla) : 1;
    loop *l = n_threads > 1 ? loop_new(count, n_threads * PARTS_PER_THREAD, function, data) : NULL;
    if (l)
        share(xla, l, (n_threads < count ? n_threads : count) - 1);
    else
        function(data, 0, count);
}

static int64_t now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void kb_pool_for_started(int64_t count, kb_pool_function *function, void *data)
{
    if (count <= 0)
        return;
    loop *l = count > 1 ? loop_new(count, PARTS_STARTED, function, data) : NULL;
    if (!l) {
        function(data, 0, count);
        return;
    }
    int64_t begun = now_ns();
    bool more = true;
    while (more && now_ns() - begun < START_AFTER_NS)
        more = run_part(l);
    int64_t left = more ? (count - atomic_load(&l->next)) / l->part : 0;
    int64_t n_threads = left > 1 ? num_processors() : 1;
    share(NULL, l, (n_threads < left ? n_threads : left) - 1);
}
