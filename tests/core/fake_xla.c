/* Owns the fake API table, its errors and its thread pool. */
#include "fake_xla.h"

#include "core/kb_error.h"
#include "torture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MINORS = 10, TASKS_MAX = 256 };

static atomic_long errors_alive;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t released;
    int64_t num_threads;
    bool refuse;
    bool hold;
    int n_tasks;
    pthread_t tasks[TASKS_MAX];
} pool = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .released = PTHREAD_COND_INITIALIZER, .num_threads = 4};

/* The C library's, which must not fail here: a test that has no memory proves nothing. */
static void *checked(void *memory)
{
    if (!memory) {
        fputs("fake_xla: no memory\n", stderr);
        abort();
    }
    return memory;
}

static kb_xla_error *error_new(int32_t code, const char *message)
{
    kb_xla_error *error = checked(malloc(sizeof *error));
    size_t size = strlen(message) + 1;
    error->code = code;
    error->message = memcpy(checked(malloc(size)), message, size);
    atomic_fetch_add(&errors_alive, 1);
    return error;
}

/* Takes the last line away, which says where the code of a message is explained. A message that has
 * room for this line must have it. */
static void cut_way(char *message)
{
    const char *code = strstr(message, " [KB");
    char way[64];
    if (!code)
        return;
    size_t n =
        (size_t)snprintf(way, sizeof way, "\n`kernbridge explain %.6s` says more.", code + 2);
    size_t length = strlen(message);
    bool has = length >= n && strcmp(message + length - n, way) == 0;
    if (!has && length + n < KB_ERROR_CAPACITY) {
        fprintf(stderr, "fake_xla: no way to the code of: %s\n", message);
        abort();
    }
    if (has)
        message[length - n] = '\0';
}

static kb_xla_error *error_create(kb_xla_error_create *args)
{
    if (args->struct_size != KB_XLA_SIZE(kb_xla_error_create, code))
        return error_new(13, "error_create: wrong struct_size");
    kb_xla_error *error = error_new(args->code, args->message);
    cut_way(error->message);
    return error;
}

static void error_destroy(kb_xla_error_destroy *args)
{
    fake_error_destroy(args->error);
}

void fake_error_destroy(kb_xla_error *error)
{
    if (!error)
        return;
    free(error->message);
    free(error);
    atomic_fetch_sub(&errors_alive, 1);
}

long fake_errors_alive(void)
{
    return atomic_load(&errors_alive);
}

typedef struct task {
    kb_xla_task *run;
    void *data;
} task;

static void *run_task(void *memory)
{
    task t = *(task *)memory;
    free(memory);
    pthread_mutex_lock(&pool.lock);
    while (pool.hold)
        pthread_cond_wait(&pool.released, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
    t.run(t.data);
    return NULL;
}

static kb_xla_error *schedule(kb_xla_schedule *args)
{
    if (args->struct_size != KB_XLA_SIZE(kb_xla_schedule, data))
        return error_new(13, "thread_pool_schedule: wrong struct_size");
    kb_xla_error *error = NULL;
    pthread_mutex_lock(&pool.lock);
    if (pool.refuse || pool.n_tasks == TASKS_MAX || torture_fails(TORTURE_XLA, "schedule")) {
        error = error_new(12, "no thread pool");
    } else {
        task *t = checked(malloc(sizeof *t));
        *t = (task){args->task, args->data};
        if (pthread_create(&pool.tasks[pool.n_tasks], NULL, run_task, t) == 0) {
            pool.n_tasks++;
        } else {
            free(t);
            error = error_new(13, "no thread");
        }
    }
    pthread_mutex_unlock(&pool.lock);
    return error;
}

static kb_xla_error *num_threads(kb_xla_num_threads *args)
{
    if (args->struct_size != KB_XLA_SIZE(kb_xla_num_threads, num_threads))
        return error_new(13, "thread_pool_num_threads: wrong struct_size");
    pthread_mutex_lock(&pool.lock);
    *args->num_threads = pool.num_threads;
    bool refuse = pool.refuse || torture_fails(TORTURE_XLA, "num_threads");
    kb_xla_error *error = refuse ? error_new(12, "no thread pool") : NULL;
    pthread_mutex_unlock(&pool.lock);
    return error;
}

void fake_pool_set(int64_t n, bool refuse)
{
    pthread_mutex_lock(&pool.lock);
    pool.num_threads = n;
    pool.refuse = refuse;
    pthread_mutex_unlock(&pool.lock);
}

void fake_pool_hold(bool hold)
{
    pthread_mutex_lock(&pool.lock);
    pool.hold = hold;
    pthread_cond_broadcast(&pool.released);
    pthread_mutex_unlock(&pool.lock);
}

int fake_pool_scheduled(void)
{
    pthread_mutex_lock(&pool.lock);
    int n = pool.n_tasks;
    pthread_mutex_unlock(&pool.lock);
    return n;
}

void fake_pool_join(void)
{
    pthread_mutex_lock(&pool.lock);
    while (pool.n_tasks > 0) {
        pthread_t last = pool.tasks[--pool.n_tasks];
        pthread_mutex_unlock(&pool.lock);
        pthread_join(last, NULL);
        pthread_mutex_lock(&pool.lock);
    }
    pthread_mutex_unlock(&pool.lock);
}

static _Thread_local struct {
    void *stream;
    bool refuse;
} streams;

static kb_xla_error *stream_get(kb_xla_stream_get *args)
{
    if (args->struct_size != KB_XLA_SIZE(kb_xla_stream_get, stream))
        return error_new(13, "stream_get: wrong struct_size");
    args->stream = streams.stream; /* which means nothing with an error */
    if (streams.refuse || torture_fails(TORTURE_XLA, "stream_get"))
        return error_new(12, "this platform has no streams");
    return NULL;
}

void fake_stream_set(void *stream, bool refuse)
{
    streams.stream = stream;
    streams.refuse = refuse;
}

static _Thread_local int64_t run_id;

static kb_xla_error *run_id_get(kb_xla_run_id_get *args)
{
    if (args->struct_size != KB_XLA_SIZE(kb_xla_run_id_get, run_id))
        return error_new(13, "run_id_get: wrong struct_size");
    args->run_id = run_id;
    return run_id < 0 ? error_new(12, "no run") : NULL;
}

void fake_run_set(int64_t id)
{
    run_id = id;
}

static _Thread_local int32_t device;

static kb_xla_error *device_ordinal_get(kb_xla_device_ordinal *args)
{
    if (args->struct_size != KB_XLA_SIZE(kb_xla_device_ordinal, device_ordinal))
        return error_new(13, "device_ordinal_get: wrong struct_size");
    args->device_ordinal = device;
    return device < 0 ? error_new(12, "no device") : NULL;
}

void fake_device_set(int32_t ordinal)
{
    device = ordinal;
}

static kb_xla_api tables[MINORS];
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

static void fill_tables(void)
{
    for (int minor = 0; minor < MINORS; minor++)
        tables[minor] = (kb_xla_api){
            .struct_size = minor < 4 ? KB_XLA_API_SIZE : sizeof(kb_xla_api),
            .api_version = {.struct_size = KB_XLA_SIZE(kb_xla_api_version, minor_version),
                            .major_version = KB_XLA_API_MAJOR,
                            .minor_version = minor},
            .error_create = error_create,
            .error_destroy = error_destroy,
            .stream_get = stream_get,
            .thread_pool_schedule = schedule,
            .thread_pool_num_threads = num_threads,
            .run_id_get = run_id_get,
            .device_ordinal_get = device_ordinal_get,
        };
}

const kb_xla_api *fake_api(int minor)
{
    pthread_once(&tables_once, fill_tables);
    return &tables[minor];
}
