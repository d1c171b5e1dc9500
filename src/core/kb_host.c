/* Owns the call into native host code: the lock and the thread count around parallel kernels, and
 * the turning of its status into an error, with the words for exceptions of code that came without
 * its compiler. */
#include "core/kb_host.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* The entries that numba_cpu/entry.py generates read an array at these offsets. */
_Static_assert(offsetof(kb_xla_buffer, dtype) == 16 && offsetof(kb_xla_buffer, data) == 24 &&
                   offsetof(kb_xla_buffer, rank) == 32 && offsetof(kb_xla_buffer, dims) == 40,
               "entries know the layout of an array");

_Atomic(kb_host_decoder *) kb_host_decode;
_Atomic(kb_failures_writer *) kb_failures_write;
_Atomic(int) kb_host_num_threads;
static pthread_mutex_t exclusive_lock = PTHREAD_MUTEX_INITIALIZER;

static _Atomic(int (*)(void)) get_pool_threads;
static _Atomic(void (*)(int)) set_pool_threads;
static atomic_bool pool_is_exclusive;

void kb_host_set_threading(int (*get_num_threads)(void), void (*set_num_threads)(int),
                           bool exclusive)
{
    atomic_store(&get_pool_threads, get_num_threads);
    atomic_store(&set_pool_threads, set_num_threads);
    atomic_store(&pool_is_exclusive, exclusive);
}

static KB_COLD int32_t call_parallel(const kb_host_step *step, void **result, void **exception,
                                     const kb_frame *frame)
{
    int chosen = atomic_load_explicit(&kb_host_num_threads, memory_order_relaxed);
    int wanted = chosen > 0 ? chosen : step->num_threads;
    int (*get)(void) = atomic_load(&get_pool_threads);
    void (*set)(int) = atomic_load(&set_pool_threads);
    bool alone = atomic_load(&pool_is_exclusive), sets = wanted > 0 && get && set;
    if (alone)
        pthread_mutex_lock(&exclusive_lock);
    int before = sets ? get() : 0;
    if (sets)
        set(wanted);
    int32_t status = step->entry(result, exception, frame->inputs, frame->outputs);
    if (sets)
        set(before);
    if (alone)
        pthread_mutex_unlock(&exclusive_lock);
    return status;
}

static void append_without_values(const char *text, kb_error *err)
{
    while (*text) {
        size_t plain = strcspn(text, (const char[]){KB_FAILURES_VALUE, 0});
        kb_error_append(err, "%.*s%s", (int)plain, text, text[plain] ? "..." : "");
        text += plain;
        text += *text ? 1 + strspn(text + 1, "0123456789") : 0;
        text += *text ? 1 : 0; /* the conversion */
    }
}

static void append_message(kb_numba_exception *record, kb_error *err)
{
    char message[KB_ERROR_CAPACITY];
    kb_failures_writer *write = atomic_load(&kb_failures_write);
    if (record->dynamic <= 0) {
        kb_error_append(err, "%s", record->pickle);
        return;
    }
    if (write && write(record, message, sizeof message)) {
        kb_error_append(err, "%s", message);
        return;
    }
    if (!write) /* it makes nothing (see object/kb_provided.c), and releases the payload */
        ((void *(*)(void *))(uintptr_t)record->unwrap)(record->payload);
    append_without_values(record->pickle, err);
}

KB_COLD void kb_failures_describe(const kb_failures *failures, int32_t status,
                                  kb_numba_exception *record, const char *source, kb_error *err)
{
    if (status < KB_NUMBA_USER_EXCEPTION || !record) {
        kb_error_append(err, "the kernel failed with status %d", (int)status);
        return;
    }
    const char *place = record->pickle + strlen(record->pickle) + 1;
    for (uint32_t i = failures->n_places; i-- > 0;)
        if (failures->places[i].status == status)
            place = failures->places[i].text;
    append_message(record, err);
    if (*place)
        kb_error_append(err, " (%s)", place);
    else
        kb_error_append(err, " (in the kernel at %s)", source);
    if (record->dynamic > 0)
        free(record);
}

static KB_COLD kb_status describe_failure(const kb_host_step *step, const kb_frame *frame,
                                          int32_t status, void *exception, kb_error *err)
{
    const char *source = frame->kernel->source;
    kb_host_decoder *decode = atomic_load(&kb_host_decode);
    kb_error_set(err, KB_INTERNAL, "%s: ", frame->kernel->name);
    size_t length = strlen(err->message);
    if (step->failures)
        kb_failures_describe(step->failures, status, exception, source, err);
    else if (decode)
        decode(status, exception, source, err->message + length, KB_ERROR_CAPACITY - length);
    else
        kb_error_append(err, "the kernel failed with status %d", (int)status);
    return kb_error_code(err, "KB3001");
}

kb_status kb_host_run(const kb_host_step *step, const kb_frame *frame, kb_error *err)
{
    void *result = NULL, *exception = NULL;
    int32_t status = step->parallel
                         ? call_parallel(step, &result, &exception, frame)
                         : step->entry(&result, &exception, frame->inputs, frame->outputs);
    return KB_LIKELY(status == KB_NUMBA_OK) ? KB_OK
                                            : describe_failure(step, frame, status, exception, err);
}
