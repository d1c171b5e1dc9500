/* A batch cut into slices, and cursors that point at one of them. The description of a batch is
 * shared by threads; a cursor belongs to one. */
#ifndef KB_SLICES_H
#define KB_SLICES_H

#include "core/kb_error.h"
#include "core/kb_frame.h"
#include "core/kb_plan.h"

#include <stdint.h>

typedef struct kb_slices {
    const kb_frame *frame; /* of the call */
    uint32_t n_levels;
    uint32_t n_buffers;
    int64_t size[KB_BATCH_LEVELS_MAX];
    int64_t count;
    int64_t *strides; /* [level][buffer], bytes */
    int64_t rows;     /* of a slice, if slices are rows of the kernel; 0 if not */
    int64_t n_rows;   /* of the call; the last slice may have fewer */
} kb_slices;

/* Neighbouring levels of which every buffer has either all or none: steps can treat them as one
 * axis. */
typedef struct kb_slice_group {
    uint32_t first;
    uint32_t end;
    int64_t n_slices;
} kb_slice_group;

enum {
    KB_CURSOR_BUFFERS = 16, /* beyond these, one allocation */
    KB_CURSOR_DIMS = 32,    /* of all buffers that are cut into rows */
};

typedef struct kb_cursor {
    kb_frame frame;         /* what a step is given */
    kb_xla_buffer *buffers; /* of the frame: the kernel's own axes, the data of one slice */
    void **pointers;        /* to them */
    void *allocated;
    kb_xla_buffer inline_buffers[KB_CURSOR_BUFFERS];
    void *inline_pointers[KB_CURSOR_BUFFERS];
    int64_t dims[KB_CURSOR_DIMS]; /* of the buffers that are cut into rows */
} kb_cursor;

/* A cursor that points nowhere yet. KB_RESOURCE_EXHAUSTED is the only failure; kb_cursor_close is
 * called then too. */
kb_status kb_cursor_open(kb_cursor *cursor, const kb_slices *slices, kb_error *err);
void kb_cursor_close(kb_cursor *cursor);

/* Points every buffer at slice `index` of the levels outside `inner`; the lowest runs fastest. */
void kb_cursor_seek(kb_cursor *cursor, const kb_slices *slices, const kb_slice_group *inner,
                    int64_t index);

/* Runs a step that serves one slice at a time for the slices from `begin` to before `end`, in their
 * order, or, if slices are rows, for all of them in one call. At the first failure, whose message
 * names the slice of a batch, `*failed` is its index. */
kb_status kb_slices_run(const kb_slices *slices, kb_cursor *cursor, const kb_step *step,
                        int64_t begin, int64_t end, int64_t *failed, kb_error *err);

/* Runs a step that serves one slice at a time for every slice. Where slices may run at once and
 * take long enough, they are shared among this thread and XLA's; otherwise they run here, in their
 * order. Either way the results are the same, and so is the error: that of the first slice that
 * fails. */
kb_status kb_share_run(const kb_slices *slices, kb_cursor *cursor, const kb_step *step,
                       kb_error *err);

#endif
