/* Owns the loop that is shared with XLA's threads: its parts, and its life, which lasts until the
 * last scheduled task has seen that nothing is left. */
#include "core/kb_pool.h"

#include "core/kb_error.h"
#include "core/kb_float_mode.h"
#include "core/kb_memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { PARTS_PER_THREAD = 4 };

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

static void run_parts(loop *l)
{
    for (;;) {
        int64_t begin = atomic_fetch_add(&l->next, l->part);
        if (begin >= l->count)
            return;
        int64_t size = l->count - begin < l->part ? l->count - begin : l->part;
        l->function(l->data, begin, begin + size);
        if (atomic_fetch_add(&l->done, size) + size < l->count)
            continue;
        pthread_mutex_lock(&l->lock);
        pthread_cond_broadcast(&l->all_done);
        pthread_mutex_unlock(&l->lock);
    }
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

static bool schedule(const kb_xla_frame *xla, loop *l)
{
    kb_xla_schedule args = {
        .struct_size = KB_XLA_SIZE(kb_xla_schedule, data), // NOLINT: of a pointer
        .context = xla->context,
        .task = run_task,
        .data = l,
    };
    return took_no_error(xla, xla->api->thread_pool_schedule(&args));
}

/* NULL without memory. */
static loop *loop_new(int64_t count, int64_t n_threads, kb_pool_function *function, void *data)
{
    loop *l = kb_calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->function = function;
    l->data = data;
    l->count = count;
    l->part = count / (n_threads * PARTS_PER_THREAD);
    l->part += l->part == 0;
    atomic_store(&l->users, 1);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->all_done, NULL);
    return l;
}

void kb_pool_for(const kb_xla_frame *xla, int64_t count, kb_pool_function *function, void *data)
{
    if (count <= 0)
        return;
    int64_t n_threads = count > 1 ? num_threads(xla) : 1;
    loop *l = n_threads > 1 ? loop_new(count, n_threads, function, data) : NULL;
    if (!l) {
        function(data, 0, count);
        return;
    }
    int64_t n_tasks = (n_threads < count ? n_threads : count) - 1;
    for (int64_t i = 0; i < n_tasks; i++) {
        atomic_fetch_add(&l->users, 1);
        if (schedule(xla, l))
            continue;
        drop(l);
        break;
    }
    run_parts(l);
    pthread_mutex_lock(&l->lock);
    while (atomic_load(&l->done) < count)
        pthread_cond_wait(&l->all_done, &l->lock);
    pthread_mutex_unlock(&l->lock);
    drop(l);
}
