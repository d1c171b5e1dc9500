/* Owns the loop that is shared among XLA's threads: its parts, and its life, which lasts until the
 * last scheduled task has seen that nothing is left. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime, in kb_ticks.h */

#include "core/kb_pool.h"

#include "core/kb_error.h"
#include "core/kb_float_mode.h"
#include "core/kb_parked_threads.h"
#include "core/kb_ticks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

enum {
    PARTS_PER_THREAD = 4,
    INVITED_AT_ONCE = 2, /* tasks that one thread schedules: scheduling a task costs about 1 us */
    SPIN_TICKS = 50 * KB_TICKS_PER_US, /* a thread that sleeps takes longer to come back */
};

/* Threads that change one counter do not slow down threads that read its neighbours in memory. */
typedef struct counter {
    char apart[KB_CACHE_LINE];
    _Atomic(int64_t) value;
} counter;

typedef struct loop {
    kb_pool_loop of;
    const kb_xla_frame *xla; /* valid while a thread still runs a part */
    bool parks;              /* its threads wait for the next loop */
    pthread_mutex_t lock;
    pthread_cond_t all_done;
    counter next;
    counter done;
    counter uninvited; /* tasks that are still to schedule */
    counter users;     /* the caller, and every scheduled task */
    counter sleeping;  /* 1 if the caller may wait for all_done */
} loop;

static void drop(loop *l)
{
    if (atomic_fetch_sub(&l->users.value, 1) == 1)
        free(l);
}

/* The beginning of a part; the loop's count or more if none is left. */
static int64_t take_part(loop *l)
{
    return atomic_fetch_add(&l->next.value, l->of.part);
}

static void run_part(loop *l, int64_t begin)
{
    int64_t left = l->of.count - begin, size = left < l->of.part ? left : l->of.part;
    l->of.function(l->of.data, begin, begin + size);
    if (atomic_fetch_add(&l->done.value, size) + size < l->of.count)
        return;
    if (!atomic_load(&l->sleeping.value))
        return;
    pthread_mutex_lock(&l->lock);
    pthread_cond_broadcast(&l->all_done);
    pthread_mutex_unlock(&l->lock);
}

static void run_parts(loop *l)
{
    for (int64_t begin; (begin = take_part(l)) < l->of.count;)
        run_part(l, begin);
}

int64_t kb_pool_num_threads(const kb_xla_frame *xla)
{
    int64_t n = 1;
    kb_xla_num_threads args = {
        .struct_size = KB_XLA_SIZE(kb_xla_num_threads, num_threads), // NOLINT: of a pointer
        .context = xla->context,
        .num_threads = &n,
    };
    return kb_xla_succeeded(xla->api, xla->api->thread_pool_num_threads(&args)) && n > 1 ? n : 1;
}

static kb_xla_task run_task;

/* A thread that has come to wait for a loop is there at once. */
static bool schedule(loop *l)
{
    if (kb_parked_hand(l, 1) == 1)
        return true;
    kb_xla_schedule args = {
        .struct_size = KB_XLA_SIZE(kb_xla_schedule, data), // NOLINT: of a pointer
        .context = l->xla->context,
        .task = run_task,
        .data = l,
    };
    return kb_xla_succeeded(l->xla->api, l->xla->api->thread_pool_schedule(&args));
}

/* Schedules some of the tasks; those schedule the others. */
static void invite(loop *l)
{
    for (int i = 0; i < INVITED_AT_ONCE && atomic_load(&l->next.value) < l->of.count; i++) {
        if (atomic_fetch_sub(&l->uninvited.value, 1) <= 0)
            return;
        atomic_fetch_add(&l->users.value, 1);
        if (schedule(l))
            continue;
        drop(l);
        return;
    }
}

/* A thread that comes late accesses nothing but the loop. While a thread runs a part, the caller
 * waits, so that XLA's frame stays valid. Returns whether this thread should wait for another loop.
 */
static bool help(loop *l)
{
    bool parks = l->parks;
    int64_t begin = take_part(l);
    if (begin < l->of.count) {
        invite(l);
        run_part(l, begin); // NOLINT(clang-analyzer-unix.Malloc): `users` keeps it
        run_parts(l);
    }
    drop(l);
    return parks;
}

static void run_task(void *data)
{
    kb_parked_thread thread = {.entered = kb_ticks()};
    uint64_t mode = kb_float_mode_exact();
    for (loop *l = data; l && help(l);)
        l = kb_parked_wait(&thread);
    kb_parked_leave(&thread);
    kb_float_mode_restore(mode);
}

/* NULL without memory. */
static loop *loop_new(const kb_xla_frame *xla, const kb_pool_loop *of)
{
    loop *l = malloc(sizeof *l);
    if (l)
        *l = (loop){
            .of = *of,
            .xla = xla,
            .lock = PTHREAD_MUTEX_INITIALIZER,
            .all_done = PTHREAD_COND_INITIALIZER,
            .users = {.value = 1},
        };
    return l;
}

/* The thread that does the last part after `sleeping` is set takes the lock, and so does not miss
 * that this thread waits. Otherwise, no thread takes the lock. */
static void wait_for_others(loop *l)
{
    for (uint64_t begun = kb_ticks(); kb_ticks() - begun < SPIN_TICKS; kb_ticks_pause())
        if (atomic_load(&l->done.value) == l->of.count)
            return;
    pthread_mutex_lock(&l->lock);
    atomic_store(&l->sleeping.value, 1);
    while (atomic_load(&l->done.value) != l->of.count)
        pthread_cond_wait(&l->all_done, &l->lock);
    pthread_mutex_unlock(&l->lock);
}

/* What is left of a loop, with other threads; the end of it. */
static void share(loop *l, int64_t n_tasks)
{
    l->parks = kb_parked_begin();
    atomic_fetch_add(&l->users.value, n_tasks);
    int64_t handed = kb_parked_hand(l, n_tasks), rest = n_tasks - handed;
    atomic_fetch_sub(&l->users.value, rest);
    atomic_store(&l->uninvited.value, rest);
    invite(l);
    run_parts(l); // NOLINT(clang-analyzer-unix.Malloc): this thread is a user
    wait_for_others(l);
    kb_parked_end();
    drop(l);
}

void kb_pool_run(const kb_xla_frame *xla, const kb_pool_loop *of)
{
    int64_t n_parts = of->count / of->part + (of->count % of->part != 0);
    int64_t n_threads = of->n_threads < n_parts ? of->n_threads : n_parts;
    loop *l = n_threads > 1 ? loop_new(xla, of) : NULL;
    if (l)
        share(l, n_threads - 1);
    else if (of->count > 0)
        of->function(of->data, 0, of->count);
}

void kb_pool_for(const kb_xla_frame *xla, int64_t count, kb_pool_function *function, void *data)
{
    int64_t n_threads = count > 1 ? kb_pool_num_threads(xla) : 1;
    int64_t n_parts = n_threads * PARTS_PER_THREAD;
    const kb_pool_loop of = {
        .function = function,
        .data = data,
        .count = count,
        .part = count > n_parts ? count / n_parts : 1,
        .n_threads = n_threads,
    };
    kb_pool_run(xla, &of);
}
