/* Owns the walk over the slices of a batch: the moving of data addresses; and the decision whether
 * the slices are shared among threads, and what each thread does then. They are shared as soon as
 * what is left of them, at the time of a slice in the last part that was measured, takes long
 * enough. A table remembers the times for the next batch. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime, in kb_ticks.h */

#include "core/kb_slices.h"

#include "core/kb_pool.h"
#include "core/kb_running.h"
#include "core/kb_ticks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

static kb_status take_memory(kb_cursor *cursor, const kb_slices *slices, kb_error *err)
{
    uint32_t n = slices->n_buffers;
    cursor->buffers = cursor->inline_buffers;
    cursor->pointers = cursor->inline_pointers;
    cursor->allocated = NULL;
    if (n <= KB_CURSOR_BUFFERS)
        return KB_OK;
    cursor->allocated = calloc(n, sizeof *cursor->buffers + sizeof *cursor->pointers);
    if (!cursor->allocated)
        return kb_error_set(err, KB_RESOURCE_EXHAUSTED,
                            "%s: no memory for a batch of %u levels over %u buffers",
                            slices->frame->kernel->name, slices->n_levels, n);
    cursor->buffers = cursor->allocated;
    cursor->pointers = (void **)(cursor->buffers + n);
    return KB_OK;
}

kb_status kb_cursor_open(kb_cursor *cursor, const kb_slices *slices, kb_error *err)
{
    kb_status s = take_memory(cursor, slices, err);
    if (s != KB_OK)
        return s;
    for (uint32_t i = 0; i < slices->n_buffers; i++) {
        kb_xla_buffer *buffer = &cursor->buffers[i];
        cursor->pointers[i] = buffer;
        *buffer = *kb_frame_raw(slices->frame, i);
        int64_t batch_rank = buffer->rank - slices->frame->kernel->buffers[i].rank;
        buffer->rank -= batch_rank;
        if (batch_rank)
            buffer->dims += batch_rank;
    }
    int64_t *dims = cursor->dims;
    for (uint32_t i = 0; slices->rows && i < slices->n_buffers; i++) {
        if (!kb_frame_has_rows(slices->frame, i))
            continue;
        kb_xla_buffer *buffer = &cursor->buffers[i];
        for (int64_t d = 0; d < buffer->rank; d++)
            dims[d] = d < slices->frame->n_row_axes ? 1 : buffer->dims[d];
        buffer->dims = dims;
        dims += buffer->rank;
    }
    cursor->frame = *slices->frame;
    cursor->frame.inputs = cursor->pointers;
    cursor->frame.outputs = cursor->pointers + slices->frame->kernel->n_inputs;
    return KB_OK;
}

void kb_cursor_close(kb_cursor *cursor)
{
    free(cursor->allocated);
}

/* A buffer without an address has no elements, and keeps none. */
void kb_cursor_seek(kb_cursor *cursor, const kb_slices *slices, const kb_slice_group *inner,
                    int64_t index)
{
    for (uint32_t i = 0; i < slices->n_buffers; i++) {
        char *data = kb_frame_raw(slices->frame, i)->data;
        int64_t left = index;
        for (uint32_t level = 0; data && level < slices->n_levels; level++) {
            if (level >= inner->first && level < inner->end)
                continue;
            data += left % slices->size[level] * slices->strides[level * slices->n_buffers + i];
            left /= slices->size[level];
        }
        cursor->buffers[i].data = data;
    }
}

/* To the next slice of the innermost level. */
static void advance(kb_cursor *cursor, const kb_slices *slices)
{
    for (uint32_t i = 0; i < slices->n_buffers; i++)
        if (cursor->buffers[i].data)
            cursor->buffers[i].data = (char *)cursor->buffers[i].data + slices->strides[i];
}

/* Slices that are rows, in one call. */
static kb_status run_rows(const kb_slices *slices, kb_cursor *cursor, const kb_step *step,
                          int64_t begin, int64_t end, int64_t *failed, kb_error *err)
{
    int64_t first = begin * slices->rows, last = end * slices->rows;
    int64_t *dims = cursor->dims;
    for (uint32_t i = 0; i < slices->n_buffers; i++) {
        char *data = kb_frame_raw(slices->frame, i)->data;
        if (!kb_frame_has_rows(slices->frame, i))
            continue;
        cursor->buffers[i].data = data ? data + begin * slices->strides[i] : NULL;
        dims[0] = (last < slices->n_rows ? last : slices->n_rows) - first;
        dims += cursor->buffers[i].rank;
    }
    *failed = begin;
    return kb_plan_step(step, &cursor->frame, err);
}

static kb_status run(const kb_slices *slices, kb_cursor *cursor, const kb_step *step, int64_t begin,
                     int64_t end, int64_t *failed, kb_error *err)
{
    if (slices->rows)
        return run_rows(slices, cursor, step, begin, end, failed, err);
    static const kb_slice_group none = {0, 0, 1};
    cursor->frame.n_slices = 1;
    cursor->frame.strides = NULL;
    for (int64_t slice = begin; slice < end; slice++) {
        if (slice == begin || slice % slices->size[0] == 0)
            kb_cursor_seek(cursor, slices, &none, slice);
        else
            advance(cursor, slices);
        kb_status s = kb_plan_step(step, &cursor->frame, err);
        if (s != KB_OK) {
            kb_error_note(err, " [slice %lld of a batch of %lld]", (long long)slice,
                          (long long)slices->count);
            *failed = slice;
            return s;
        }
    }
    return KB_OK;
}

kb_status kb_slices_run(const kb_slices *slices, kb_cursor *cursor, const kb_step *step,
                        int64_t begin, int64_t end, int64_t *failed, kb_error *err)
{
    kb_running *running = kb_running_enter(slices->frame->kernel);
    kb_status s = run(slices, cursor, step, begin, end, failed, err);
    kb_running_leave(running);
    return s;
}

enum {
    SHARED_FROM = 50 * KB_TICKS_PER_US, /* for all slices together, on one thread */
    TICKS_OF_TASK = SHARED_FROM / 2,    /* the least that a thread is woken for */
    TICKS_OF_PART = 10 * KB_TICKS_PER_US,
    PARTS_PER_THREAD = 8,
    SITES = 256,
    SITE_SHIFT = 64 - 8,
    COST_BITS = 32,
};

/* A step, and what its slices cost: the upper bits of the hash, then ticks of a slice. */
static _Atomic(uint64_t) sites[SITES];

/* Of a step and the sizes of its slices. */
static uint64_t hash_site(const kb_slices *slices, const kb_step *step)
{
    static const uint64_t factor = 0x9E3779B97F4A7C15u;
    uint64_t hash = (uint64_t)(uintptr_t)step;
    for (uint32_t i = 0; i < slices->n_buffers; i++)
        hash = hash * factor + (uint64_t)slices->strides[i];
    return (hash ^ hash >> COST_BITS) * factor;
}

/* Ticks of a slice; 0, which is worth nothing, if it has not been measured. */
static int64_t recall(uint64_t site)
{
    uint64_t kept = atomic_load_explicit(&sites[site >> SITE_SHIFT], memory_order_relaxed);
    return (uint32_t)(kept >> COST_BITS) == (uint32_t)site ? (int64_t)(uint32_t)kept : 0;
}

static void remember(uint64_t site, int64_t cost)
{
    uint64_t kept = site << COST_BITS | (uint32_t)cost;
    atomic_store_explicit(&sites[site >> SITE_SHIFT], kept, memory_order_relaxed);
}

/* Ticks of one of n slices, the first of which began then; at least 1. */
static int64_t cost_of(uint64_t begun, int64_t n)
{
    int64_t cost = ((int64_t)(kb_ticks() - begun) + n) / n;
    return cost < UINT32_MAX ? cost : UINT32_MAX;
}

/* What the threads of a batch share; it lies on the stack of the call. */
typedef struct sharing {
    const kb_slices *slices;
    const kb_step *step;
    uint64_t site;
    int64_t first;           /* slice of the shared ones */
    _Atomic(int64_t) failed; /* the first slice that failed, or their number */
    pthread_mutex_t lock;    /* of the error */
    kb_error *err;
} sharing;

static KB_COLD void note_failure(sharing *s, int64_t slice, const kb_error *err)
{
    pthread_mutex_lock(&s->lock);
    if (slice < atomic_load(&s->failed)) {
        *s->err = *err;
        atomic_store(&s->failed, slice);
    }
    pthread_mutex_unlock(&s->lock);
}

/* Parts are taken in their order, so every slice before one that failed has a thread, and runs: the
 * first failure is found whichever comes first. */
static void run_part(void *data, int64_t begin, int64_t end)
{
    sharing *s = data;
    bool measured = begin == 0;
    begin += s->first;
    end += s->first;
    if (begin > atomic_load_explicit(&s->failed, memory_order_relaxed))
        return;
    kb_cursor cursor;
    kb_error err;
    int64_t failed = begin;
    uint64_t begun = kb_ticks();
    kb_status status = kb_cursor_open(&cursor, s->slices, &err);
    if (status == KB_OK)
        status = kb_slices_run(s->slices, &cursor, s->step, begin, end, &failed, &err);
    kb_cursor_close(&cursor);
    if (status != KB_OK)
        note_failure(s, failed, &err);
    else if (measured)
        remember(s->site, cost_of(begun, end - begin));
}

/* Shares the slices from `first` on, of which one takes `cost` ticks. */
static kb_status share(const kb_slices *slices, const kb_step *step, int64_t first, int64_t cost,
                       int64_t n_threads, uint64_t site, kb_error *err)
{
    sharing s = {
        .slices = slices,
        .step = step,
        .site = site,
        .first = first,
        .failed = slices->count,
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .err = err,
    };
    int64_t count = slices->count - first, worth = 1 + cost * count / TICKS_OF_TASK;
    int64_t part = 1 + TICKS_OF_PART / cost, most = 1 + count / (n_threads * PARTS_PER_THREAD);
    const kb_pool_loop loop = {
        .function = run_part,
        .data = &s,
        .count = count,
        .part = part < most ? part : most,
        .n_threads = n_threads < worth ? n_threads : worth,
    };
    kb_pool_run(slices->frame->xla, &loop);
    return atomic_load(&s.failed) < slices->count ? err->status : KB_OK;
}

static bool overlap(const kb_xla_buffer *a, const kb_xla_buffer *b)
{
    uintptr_t at_a = (uintptr_t)a->data, at_b = (uintptr_t)b->data;
    return at_a < at_b + kb_buffer_bytes(b) && at_b < at_a + kb_buffer_bytes(a);
}

static bool cut_alike(const kb_slices *slices, uint32_t i, uint32_t j)
{
    uint32_t n_levels = slices->rows ? 1 : slices->n_levels;
    for (uint32_t level = 0; level < n_levels; level++)
        if (slices->strides[level * slices->n_buffers + i] !=
            slices->strides[level * slices->n_buffers + j])
            return false;
    return true;
}

/* Whether no slice writes to memory that another one uses: each output is the memory of nothing
 * else, or of an input that is cut as the output is. */
static bool are_apart(const kb_slices *slices)
{
    uint32_t n_inputs = slices->frame->kernel->n_inputs;
    for (uint32_t o = n_inputs; o < slices->n_buffers; o++) {
        const kb_xla_buffer *output = kb_frame_raw(slices->frame, o);
        for (uint32_t i = 0; i < o; i++) {
            const kb_xla_buffer *other = kb_frame_raw(slices->frame, i);
            bool same = i < n_inputs && other->data == output->data && cut_alike(slices, i, o);
            if (!same && overlap(other, output))
                return false;
        }
    }
    return true;
}

/* Threads that `count` slices may be shared among. */
static int64_t count_threads(const kb_slices *slices, int64_t count)
{
    return count > 1 && are_apart(slices) ? kb_pool_num_threads(slices->frame->xla) : 1;
}

/* Runs parts of the slices here, the first one of them alone, until what is left is worth sharing.
 * A part that took less than half of its time says little: the first slices find cold caches. */
static kb_status run_measured(const kb_slices *slices, kb_cursor *cursor, const kb_step *step,
                              kb_error *err)
{
    uint64_t site = hash_site(slices, step), start = kb_ticks();
    int64_t done = 0, part = 1, failed, cost = recall(site);
    bool tells = cost != 0;
    while (done < slices->count) {
        int64_t left = slices->count - done;
        if (tells && left > SHARED_FROM / cost) {
            int64_t n_threads = count_threads(slices, left);
            if (n_threads > 1)
                return share(slices, step, done, cost, n_threads, site, err);
        }
        part = part < left ? part : left;
        uint64_t begun = kb_ticks();
        kb_status s = kb_slices_run(slices, cursor, step, done, done + part, &failed, err);
        if (s != KB_OK)
            return s;
        cost = cost_of(begun, part);
        tells = cost * part > TICKS_OF_PART / 2;
        done += part;
        part = 1 + TICKS_OF_PART / cost;
    }
    remember(site, cost_of(start, done));
    return KB_OK;
}

kb_status kb_share_run(const kb_slices *slices, kb_cursor *cursor, const kb_step *step,
                       kb_error *err)
{
    int64_t failed;
    kb_slice_order order = slices->frame->order;
    kb_concurrency is = KB_CONCURRENT_NEVER;
    if (slices->count > 1 && order != KB_SLICES_IN_ORDER)
        is = kb_plan_concurrency(step, slices->frame);
    if (is == KB_CONCURRENT || (is == KB_CONCURRENT_IF_TOLD && order == KB_SLICES_AT_ONCE))
        return run_measured(slices, cursor, step, err);
    return kb_slices_run(slices, cursor, step, 0, slices->count, &failed, err);
}
