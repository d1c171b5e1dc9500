/* Owns fills and copies of GPU memory. A step that serves several slices does them one by one,
 * unless they lie behind each other without a gap. */
#include "cuda/kb_driver.h"
#include "cuda/kb_step.h"

static KB_COLD kb_status refuse(const kb_frame *frame, uint32_t buffer, int64_t offset,
                                int64_t size, int64_t bytes, kb_error *err)
{
    return kb_error_set(
        err, KB_INVALID_ARGUMENT,
        "%s: the plan touches %lld bytes from byte %lld of buffer %u (%s), which has "
        "%lld: the program is damaged, or was recorded for other shapes",
        frame->kernel->name, (long long)size, (long long)offset, buffer,
        frame->kernel->buffers[buffer].name, (long long)bytes);
}

/* `size` bytes from `offset` of a buffer, or KB_INVALID_ARGUMENT. */
static kb_status take_range(const kb_frame *frame, uint32_t buffer, int64_t offset, int64_t size,
                            kb_cu_address *address, kb_error *err)
{
    const kb_xla_buffer *b = kb_frame_buffer(frame, buffer);
    int64_t bytes = kb_buffer_size(b);
    if (size < 0 || offset > bytes || size > bytes - offset)
        return refuse(frame, buffer, offset, size, bytes, err);
    *address = (kb_cu_address)(uintptr_t)b->data + (kb_cu_address)offset;
    return KB_OK;
}

static int64_t distance(const kb_frame *frame, uint32_t buffer)
{
    return frame->strides ? frame->strides[buffer] : 0;
}

/* A part of the pattern that has 4 bytes. */
static uint32_t part(const kb_fill_step *step, uint32_t i)
{
    return (uint32_t)(step->pattern[i / 2] >> (i % 2 * 32));
}

static bool is_uniform(const kb_fill_step *step)
{
    for (uint32_t i = 1; i < step->item_size / 4; i++)
        if (part(step, i) != part(step, i - 1))
            return false;
    return true;
}

/* 8 and 16 bytes at a time: a column for each part. */
static kb_cu_result fill_columns(const kb_driver *cu, const kb_fill_step *step, kb_cu_address to,
                                 size_t n, kb_cu_stream stream)
{
    kb_cu_result code = KB_CU_SUCCESS;
    for (uint32_t i = 0; code == KB_CU_SUCCESS && i < step->item_size / 4; i++) {
        code = cu->cuMemsetD2D32Async(to, step->item_size, part(step, i), 1, n, stream);
        to += 4;
    }
    return code;
}

static kb_cu_result fill(const kb_driver *cu, const kb_fill_step *step, kb_cu_address to, size_t n,
                         kb_cu_stream stream)
{
    switch (step->item_size) {
    case 1:
        return cu->cuMemsetD8Async(to, (unsigned char)step->pattern[0], n, stream);
    case 2:
        return cu->cuMemsetD16Async(to, (unsigned short)step->pattern[0], n, stream);
    default:
        if (is_uniform(step))
            return cu->cuMemsetD32Async(to, part(step, 0), n * (step->item_size / 4), stream);
        return fill_columns(cu, step, to, n, stream);
    }
}

kb_status kb_fill_run(const void *given, const kb_frame *frame, kb_error *err)
{
    const kb_fill_step *step = given;
    const kb_driver *cu = frame->driver;
    int64_t n, size, n_slices = frame->n_slices;
    kb_cu_address to = 0;
    kb_status s = kb_value_read(&step->count, frame, &n, err);
    if (s != KB_OK)
        return s;
    if (__builtin_mul_overflow(n, (int64_t)step->item_size, &size))
        size = -1;
    s = take_range(frame, step->buffer, step->offset, size, &to, err);
    if (s != KB_OK || n == 0)
        return s;
    if (distance(frame, step->buffer) == size) {
        n *= n_slices;
        n_slices = 1;
    }
    for (int64_t i = 0; i < n_slices; i++) {
        kb_cu_result code = fill(cu, step, to, (size_t)n, frame->stream);
        if (code != KB_CU_SUCCESS)
            return kb_driver_fail(err, cu, code, "a fill of GPU memory", frame->kernel->name);
        to += (kb_cu_address)distance(frame, step->buffer);
    }
    return KB_OK;
}

kb_status kb_copy_run(const void *given, const kb_frame *frame, kb_error *err)
{
    const kb_copy_step *step = given;
    const kb_driver *cu = frame->driver;
    int64_t size, n_slices = frame->n_slices;
    kb_cu_address to = 0, from = 0;
    kb_status s = kb_value_read(&step->size, frame, &size, err);
    if (s == KB_OK)
        s = take_range(frame, step->to, step->to_offset, size, &to, err);
    if (s == KB_OK)
        s = take_range(frame, step->from, step->from_offset, size, &from, err);
    if (s != KB_OK || size == 0)
        return s;
    if (distance(frame, step->to) == size && distance(frame, step->from) == size) {
        size *= n_slices;
        n_slices = 1;
    }
    for (int64_t i = 0; i < n_slices; i++) {
        kb_cu_result code = cu->cuMemcpyDtoDAsync(to, from, (size_t)size, frame->stream);
        if (code != KB_CU_SUCCESS)
            return kb_driver_fail(err, cu, code, "cuMemcpyDtoDAsync", frame->kernel->name);
        to += (kb_cu_address)distance(frame, step->to);
        from += (kb_cu_address)distance(frame, step->from);
    }
    return KB_OK;
}
