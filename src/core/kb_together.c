/* Owns the errors of calls that several devices make together. */
#include "core/kb_together.h"

#include "core/kb_attrs.h"
#include "core/kb_dtype.h"
#include "core/kb_frame.h"
#include "core/kb_handler.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef struct place {
    int64_t run;
    int64_t call;
} place;

static struct {
    place place;
    kb_error error;
} kept[KB_TOGETHER_MAX]; /* under the lock, as n_kept */
static uint64_t n_kept;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool has_failed; /* whether anything has ever been kept */

static bool find_place(const kb_xla_frame *frame, place *found)
{
    const kb_xla_scalar *call = KB_ATTRS_FIND(&frame->attrs, "together", KB_XLA_ATTR_SCALAR);
    if (!call || call->dtype != KB_DTYPE_S64 ||
        frame->api->struct_size < KB_XLA_SIZE(kb_xla_api, run_id_get))
        return false;
    kb_xla_run_id_get args = {.struct_size = KB_XLA_SIZE(kb_xla_run_id_get, run_id),
                              .context = frame->context};
    kb_xla_error *error = frame->api->run_id_get(&args);
    if (error) {
        kb_xla_error_destroy destroy = {
            .struct_size = KB_XLA_SIZE(kb_xla_error_destroy, error), // NOLINT: of a pointer
            .error = error,
        };
        frame->api->error_destroy(&destroy);
        return false;
    }
    *found = (place){args.run_id, *(const int64_t *)call->value};
    return true;
}

KB_COLD kb_status kb_together_keep(const kb_xla_frame *frame, const kb_error *err)
{
    place here;
    if (!kb_frame_is_whole(frame) || !find_place(frame, &here))
        return err->status;
    pthread_mutex_lock(&lock);
    kept[n_kept % KB_TOGETHER_MAX].place = here;
    kept[n_kept % KB_TOGETHER_MAX].error = *err;
    n_kept++;
    pthread_mutex_unlock(&lock);
    atomic_store_explicit(&has_failed, true, memory_order_release);
    return KB_OK;
}

/* The first error that was kept for this run and call. */
static KB_COLD kb_status take(const kb_xla_frame *frame, kb_error *err)
{
    place here;
    if (!kb_frame_is_whole(frame))
        return kb_frame_refuse(frame, "a kernbridge call of several devices", err);
    kb_status s = KB_OK;
    if (!find_place(frame, &here))
        return s;
    pthread_mutex_lock(&lock);
    uint64_t n = n_kept < KB_TOGETHER_MAX ? n_kept : KB_TOGETHER_MAX;
    for (uint64_t i = 0; i < n && s == KB_OK; i++) {
        const place *there = &kept[(n_kept - n + i) % KB_TOGETHER_MAX].place;
        if (there->run == here.run && there->call == here.call) {
            *err = kept[(n_kept - n + i) % KB_TOGETHER_MAX].error;
            s = err->status;
        }
    }
    pthread_mutex_unlock(&lock);
    return s;
}

static kb_status execute(const kb_xla_frame *frame, kb_error *err)
{
    return KB_LIKELY(!atomic_load_explicit(&has_failed, memory_order_acquire)) ? KB_OK
                                                                               : take(frame, err);
}

kb_xla_error *kb_together_execute(kb_xla_frame *frame)
{
    return kb_handler_handle(frame, 0, execute);
}
