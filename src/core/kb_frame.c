/* Owns the decoding of XLA's call frame. Runs at every call: one pass over the buffers that only
 * collects differences, and a second, slow one for the message when there was any. */
#include "core/kb_frame.h"

#include "core/kb_dtype.h"

#include <stdbool.h>

const kb_xla_buffer *kb_frame_raw(const kb_frame *frame, uint32_t i)
{
    uint32_t n_inputs = frame->kernel->n_inputs;
    return i < n_inputs ? frame->xla->args.buffers[i] : frame->xla->rets.buffers[i - n_inputs];
}

bool kb_frame_is_aliased(const kb_frame *frame, uint32_t i)
{
    uint32_t n_inputs = frame->kernel->n_inputs;
    uint32_t k = i < n_inputs ? n_inputs : 0;
    uint32_t end = i < n_inputs ? kb_kernel_n_buffers(frame->kernel) : n_inputs;
    while (k < end && kb_frame_raw(frame, k)->data != kb_frame_raw(frame, i)->data)
        k++;
    return k < end;
}

uint32_t kb_frame_mask(const kb_frame *frame, uint32_t i)
{
    if (frame->n_levels == 0)
        return 0;
    if (i < frame->kernel->n_inputs)
        return (uint32_t)frame->masks[i];
    return (1u << frame->n_levels) - 1; /* results have every level */
}

bool kb_frame_has_rows(const kb_frame *frame, uint32_t i)
{
    return i >= frame->kernel->n_inputs || (frame->masks[i] & 1);
}

int64_t kb_buffer_count(const kb_xla_buffer *buffer)
{
    int64_t count = 1;
    for (int64_t d = 0; d < buffer->rank; d++)
        if (buffer->dims[d] < 0 || __builtin_mul_overflow(count, buffer->dims[d], &count))
            return -1;
    return count;
}

int64_t kb_buffer_size(const kb_xla_buffer *buffer)
{
    int64_t count = kb_buffer_count(buffer), size;
    if (count < 0 || __builtin_mul_overflow(count, kb_dtype_size(buffer->dtype), &size))
        return -1;
    return size;
}

/* The size of a nested structure is read only where the outer one has it. */
KB_COLD kb_status kb_frame_refuse(const kb_xla_frame *xla, const char *what, kb_error *err)
{
    const struct {
        const char *name;
        const size_t *given;
        size_t expected;
    } parts[] = {
        {"call frame", &xla->struct_size, KB_XLA_SIZE(kb_xla_frame, attrs)},
        {"list of operands", &xla->args.struct_size, KB_XLA_SIZE(kb_xla_buffers, buffers)},
        {"list of results", &xla->rets.struct_size, KB_XLA_SIZE(kb_xla_buffers, buffers)},
        {"list of attributes", &xla->attrs.struct_size, KB_XLA_SIZE(kb_xla_attrs, values)},
        {"table of functions", &xla->api->struct_size, KB_XLA_API_SIZE},
    };
    size_t i = 0, last = sizeof parts / sizeof *parts - 1;
    while (i < last && *parts[i].given >= parts[i].expected)
        i++;
    return kb_error_set(err, KB_FAILED_PRECONDITION,
                        "%s: XLA's %s has %zu bytes, expected %zu or more: kernbridge does not "
                        "support this version of jaxlib",
                        what, parts[i].name, *parts[i].given, parts[i].expected);
}

kb_status kb_frame_refuse_target(const kb_frame *frame, kb_error *err)
{
    return kb_error_set(err, KB_INVALID_ARGUMENT,
                        "%s: the target of the call does not run kernels of this kind: the program "
                        "is damaged, or was changed",
                        frame->kernel->name);
}

kb_status kb_frame_check_bool(const kb_frame *frame, uint32_t i, const uint8_t *data, kb_error *err)
{
    const kb_xla_buffer *buffer = kb_frame_raw(frame, frame->kernel->n_inputs + i);
    size_t size = buffer->dtype == KB_DTYPE_PRED ? kb_buffer_bytes(buffer) : 0, at = 0, n = 0;
    for (size_t k = 0; k < size; k++)
        if (data[k] > 1 && n++ == 0)
            at = k;
    if (n == 0)
        return KB_OK;
    return kb_error_set(err, KB_INTERNAL,
                        "%s: %zu of the %zu elements of output %u (%s) are neither 0 nor 1, as "
                        "bool requires, the first of them element %zu, the byte %d; write every "
                        "element, and truth values such as (x & 4) != 0 [KB3011]",
                        frame->kernel->name, n, size, i,
                        frame->kernel->buffers[frame->kernel->n_inputs + i].name, at, data[at]);
}

static const char *role(const kb_kernel *kernel, uint32_t i)
{
    return i < kernel->n_inputs ? "input" : "output";
}

static uint32_t index_in_role(const kb_kernel *kernel, uint32_t i)
{
    return i < kernel->n_inputs ? i : i - kernel->n_inputs;
}

/* The rank that buffer i must have: its own, and its batch axes. */
static int64_t rank_in_call(const kb_frame *frame, uint32_t i)
{
    return frame->kernel->buffers[i].rank + __builtin_popcount(kb_frame_mask(frame, i));
}

static KB_COLD kb_status describe_mismatch(const kb_frame *frame, kb_error *err)
{
    const kb_kernel *kernel = frame->kernel;
    for (uint32_t i = 0; i < kb_kernel_n_buffers(kernel); i++) {
        const kb_xla_buffer *raw = kb_frame_raw(frame, i);
        const kb_buffer_spec *spec = &kernel->buffers[i];
        int64_t rank = rank_in_call(frame, i);
        if (raw->dtype != spec->dtype)
            return kb_error_set(err, KB_INVALID_ARGUMENT,
                                "%s: %s %u (%s) is %s, expected %s [KB3007]", kernel->name,
                                role(kernel, i), index_in_role(kernel, i), spec->name,
                                kb_dtype_name(raw->dtype), kb_dtype_name(spec->dtype));
        if (raw->rank != rank)
            return kb_error_set(err, KB_INVALID_ARGUMENT,
                                "%s: %s %u (%s) has rank %lld, expected %lld [KB3007]",
                                kernel->name, role(kernel, i), index_in_role(kernel, i), spec->name,
                                (long long)raw->rank, (long long)rank);
    }
    return kb_error_set(err, KB_INVALID_ARGUMENT, "%s: an operand or result is not a buffer",
                        kernel->name);
}

static KB_COLD kb_status describe_counts(const kb_frame *frame, kb_error *err)
{
    const kb_kernel *kernel = frame->kernel;
    return kb_error_set(err, KB_INVALID_ARGUMENT,
                        "%s: got %lld operands and %lld results, expected %u and %u", kernel->name,
                        (long long)frame->xla->args.size, (long long)frame->xla->rets.size,
                        kernel->n_inputs, kernel->n_outputs + kernel->n_hidden);
}

static __attribute__((noinline)) kb_status read_batch(kb_frame *frame, const int64_t *words,
                                                      size_t n_words, kb_error *err)
{
    const kb_kernel *kernel = frame->kernel;
    if (n_words != 1 + (size_t)kernel->n_inputs)
        return kb_error_set(err, KB_INVALID_ARGUMENT,
                            "%s: the call describes its batch in %zu words, expected %u",
                            kernel->name, n_words, 1 + kernel->n_inputs);
    int64_t n_levels = words[0] & (KB_BATCH_ORDER - 1), order = words[0] / KB_BATCH_ORDER;
    if (words[0] < 0 || n_levels > KB_BATCH_LEVELS_MAX || order >= KB_SLICE_ORDERS)
        return kb_error_set(err, KB_INVALID_ARGUMENT,
                            "%s: got a batch of %lld nested levels, expected 0 to %d", kernel->name,
                            (long long)words[0], KB_BATCH_LEVELS_MAX);
    for (uint32_t i = 0; i < kernel->n_inputs; i++)
        if ((uint64_t)words[1 + i] >> n_levels != 0)
            return kb_error_set(err, KB_INVALID_ARGUMENT,
                                "%s: input %u (%s) names batch levels that do not exist",
                                kernel->name, i, kernel->buffers[i].name);
    frame->n_levels = order == KB_SLICES_OF_ROWS ? 0 : (uint32_t)n_levels;
    frame->n_row_axes = (uint32_t)n_levels - frame->n_levels;
    frame->order = (kb_slice_order)order;
    frame->masks = words + 1;
    return KB_OK;
}

/* 0 if the buffer is what the kernel expects, with `rank` axes; anything else if not. */
static inline uint64_t difference(const kb_xla_buffer *raw, int32_t type,
                                  const kb_buffer_spec *spec, int64_t rank)
{
    return (uint32_t)(raw->dtype ^ spec->dtype) | (uint32_t)(type ^ KB_XLA_BUFFER) |
           (uint64_t)(raw->rank ^ rank);
}

/* Compares `n` operands or results with what the kernel expects; 0 if nothing differs. */
static inline uint64_t compare(const kb_xla_buffers *list, const kb_buffer_spec *spec, uint32_t n)
{
    uint64_t differs = 0;
    for (uint32_t i = 0; i < n; i++)
        differs |= difference(list->buffers[i], list->types[i], &spec[i], spec[i].rank);
    return differs;
}

/* The same where buffers have batch axes as well. */
static __attribute__((noinline)) uint64_t compare_batched(const kb_frame *frame)
{
    const kb_kernel *kernel = frame->kernel;
    uint64_t differs = 0;
    for (uint32_t i = 0; i < kb_kernel_n_buffers(kernel); i++) {
        const kb_xla_buffers *list = i < kernel->n_inputs ? &frame->xla->args : &frame->xla->rets;
        int32_t type = list->types[index_in_role(kernel, i)];
        differs |=
            difference(kb_frame_raw(frame, i), type, &kernel->buffers[i], rank_in_call(frame, i));
    }
    return differs;
}

kb_status kb_frame_read(kb_frame *frame, const kb_kernel *kernel, const kb_xla_frame *xla,
                        const kb_xla_array *call, kb_error *err)
{
    frame->kernel = kernel;
    frame->xla = xla;
    frame->inputs = xla->args.buffers;
    frame->outputs = xla->rets.buffers;
    frame->n_levels = 0;
    frame->n_row_axes = 0;
    frame->n_slices = 1;
    frame->driver = NULL;
    frame->strides = NULL;
    uint32_t n_inputs = kernel->n_inputs, n_results = kernel->n_outputs + kernel->n_hidden;
    if (xla->args.size != n_inputs || xla->rets.size != n_results)
        return describe_counts(frame, err);

    uint64_t differs;
    if (KB_LIKELY(call->size == 1)) {
        differs = compare(&xla->args, kernel->buffers, n_inputs) |
                  compare(&xla->rets, kernel->buffers + n_inputs, n_results);
    } else {
        kb_status s = read_batch(frame, (const int64_t *)call->data + 1, call->size - 1, err);
        if (s != KB_OK)
            return s;
        differs = compare_batched(frame);
    }
    return KB_LIKELY(differs == 0) ? KB_OK : describe_mismatch(frame, err);
}
