/* Owns the steps of GPU plans. Launches: grid, parameter words, attributes, and the words of their
 * failures. Fills and copies: a step that serves several slices does them one by one, unless they
 * lie one after the other without a gap. */
#include "cuda/kb_step.h"

#include "core/kb_dtype.h"
#include "cuda/kb_driver.h"
#include "cuda/kb_stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    INLINE_WORDS = 128, /* beyond these, one allocation */
    GRID_Z_MAX = 65535, /* CUDA's limit */
    GRID_YZ_MAX = 65535,
    GRID_X_MAX = INT32_MAX,
};

typedef struct launch {
    const kb_launch_step *step;
    const kb_frame *frame;
    const kb_driver *cu;
    kb_cu_launch how;
    kb_cu_launch_attribute attributes[3];
    int64_t grid[3];
    uint64_t *words;
    void **pointers;
    void *allocated;
    uint64_t inline_words[INLINE_WORDS];
    void *inline_pointers[INLINE_WORDS];
} launch;

/* The value for this call; KB_INVALID_ARGUMENT if an extent is negative or a product overflows. */
static kb_status read_value(const kb_value *value, const kb_frame *frame, int64_t *result,
                            kb_error *err)
{
    int64_t x = value->constant;
    if (value->kind == KB_VALUE_EXTENT)
        x = kb_frame_buffer(frame, value->buffer)->dims[value->axis];
    else if (value->kind == KB_VALUE_COUNT)
        x = kb_buffer_count(kb_frame_buffer(frame, value->buffer));
    if (x < 0)
        return kb_error_set(
            err, KB_INVALID_ARGUMENT, "%s: the extent of buffer %u (%s) is negative or too large",
            frame->kernel->name, value->buffer, frame->kernel->buffers[value->buffer].name);
    *result = x / value->divisor + (x % value->divisor != 0);
    return KB_OK;
}

/* Views into a buffer were recorded for one shape. */
static kb_status check_reach(const kb_frame *frame, const kb_word *word, kb_error *err)
{
    const kb_xla_buffer *buffer = kb_frame_buffer(frame, word->buffer);
    int64_t bytes = kb_buffer_size(buffer);
    if (KB_LIKELY(word->value <= bytes && word->reach <= bytes - word->value))
        return KB_OK;
    return kb_error_set(
        err, KB_INVALID_ARGUMENT,
        "%s: the plan reaches bytes %lld to %lld of buffer %u (%s), which has %lld: "
        "the program is damaged, or was recorded for other shapes",
        frame->kernel->name, (long long)word->value,
        (long long)word->value + (long long)word->reach, word->buffer,
        frame->kernel->buffers[word->buffer].name, (long long)bytes);
}

static kb_status read_word(const kb_word *word, const kb_frame *frame, uint64_t *result,
                           kb_error *err)
{
    const kb_xla_buffer *buffer;
    switch ((kb_word_kind)word->kind) {
    case KB_WORD_CONSTANT:
        *result = (uint64_t)word->value;
        return KB_OK;
    case KB_WORD_ADDRESS:
        buffer = kb_frame_buffer(frame, word->buffer);
        *result = (uint64_t)(uintptr_t)buffer->data + (uint64_t)word->value;
        return KB_LIKELY(word->reach == 0) ? KB_OK : check_reach(frame, word, err);
    case KB_WORD_EXTENT:
        buffer = kb_frame_buffer(frame, word->buffer);
        *result = (uint64_t)buffer->dims[word->axis];
        return KB_OK;
    case KB_WORD_STRIDE:
        *result = frame->strides ? (uint64_t)frame->strides[word->buffer] : 0;
        return KB_OK;
    case KB_WORD_COUNT:
        *result = (uint64_t)kb_buffer_count(kb_frame_buffer(frame, word->buffer));
        return KB_OK;
    }
    return kb_error_set(err, KB_INTERNAL, "a launch holds a word of unknown kind %d", word->kind);
}

static kb_status take_memory(launch *l, kb_error *err)
{
    uint32_t n = l->step->n_words;
    l->words = l->inline_words;
    l->pointers = l->inline_pointers;
    l->allocated = NULL;
    if (n <= INLINE_WORDS)
        return KB_OK;
    l->allocated = calloc(n, sizeof(uint64_t) + sizeof(void *));
    if (!l->allocated)
        return kb_error_set(err, KB_RESOURCE_EXHAUSTED, "%s: no memory for %u parameters",
                            l->frame->kernel->name, n);
    l->words = l->allocated;
    l->pointers = (void **)(l->words + n);
    return KB_OK;
}

/* A number that this call decides may be too large for a parameter of four bytes. */
static kb_status check_width(const launch *l, uint32_t word, uint32_t size, kb_error *err)
{
    uint8_t kind = l->step->words[word].kind;
    bool chosen = kind == KB_WORD_EXTENT || kind == KB_WORD_COUNT;
    uint64_t value = l->words[word]; // NOLINT: sizes take just the words that were read
    if (!chosen || size >= KB_WORD_SIZE || (size == 4 && value <= INT32_MAX))
        return KB_OK;
    return kb_error_set(err, KB_INVALID_ARGUMENT,
                        "%s: %s takes a number of %u bytes where this call has %lld",
                        l->frame->kernel->name, l->step->function->entry, size, (long long)value);
}

/* Parameters of other sizes than a word begin at one. */
static kb_status point_at_parameters(launch *l, kb_error *err)
{
    const kb_function *f = l->step->function;
    for (uint32_t i = 0, word = 0; i < f->n_sizes; i++) {
        kb_status s = check_width(l, word, f->sizes[i], err);
        if (s != KB_OK)
            return s;
        l->pointers[i] = &l->words[word];
        word += (f->sizes[i] + KB_WORD_SIZE - 1) / KB_WORD_SIZE;
    }
    return KB_OK;
}

static kb_status read_words(launch *l, kb_error *err)
{
    for (uint32_t i = 0; i < l->step->n_words; i++) {
        kb_status s = read_word(&l->step->words[i], l->frame, &l->words[i], err);
        if (!KB_LIKELY(s == KB_OK))
            return s;
        l->pointers[i] = &l->words[i];
    }
    return KB_LIKELY(l->step->function->n_sizes == 0) ? KB_OK : point_at_parameters(l, err);
}

static KB_COLD kb_status refuse_grid(const launch *l, kb_error *err)
{
    return kb_error_set(
        err, KB_INVALID_ARGUMENT,
        "%s: grid (%lld, %lld, %lld) is too large, at most (%d, %d, %d) are possible; "
        "let a thread do more than one element [KB1102]",
        l->frame->kernel->name, (long long)l->grid[0], (long long)l->grid[1], (long long)l->grid[2],
        GRID_X_MAX, GRID_YZ_MAX, GRID_Z_MAX);
}

static kb_status read_grid(launch *l, kb_error *err)
{
    const kb_launch_step *step = l->step;
    kb_value x = step->grid[0];
    for (int i = 0; i < 3; i++)
        l->how.block[i] = step->block[i];
    if (step->flags & KB_LAUNCH_AUTO_BLOCK)
        x.divisor = l->how.block[0] = (uint32_t)step->function->loaded[l->frame->device].best_block;
    l->grid[0] = l->grid[1] = l->grid[2] = 0;
    kb_status s = read_value(&x, l->frame, &l->grid[0], err);
    for (int i = 1; s == KB_OK && i < 3; i++)
        s = read_value(&step->grid[i], l->frame, &l->grid[i], err);
    if (s != KB_OK)
        return s;
    if (l->grid[0] > GRID_X_MAX || l->grid[1] > GRID_YZ_MAX || l->grid[2] > GRID_Z_MAX)
        return refuse_grid(l, err);
    for (int i = 0; i < 3; i++)
        l->how.grid[i] = (uint32_t)l->grid[i];
    return KB_OK;
}

static void set_attributes(launch *l)
{
    const kb_launch_step *step = l->step;
    kb_cu_launch_attribute *next = l->attributes;
    if (step->flags & KB_LAUNCH_COOPERATES)
        *next++ = (kb_cu_launch_attribute){.id = KB_CU_LAUNCH_COOPERATIVE, .value.cooperative = 1};
    if (step->flags & KB_LAUNCH_OVERLAPS)
        *next++ = (kb_cu_launch_attribute){.id = KB_CU_LAUNCH_PROGRAMMATIC_STREAM,
                                           .value.programmatic_stream = 1};
    if (step->flags & KB_LAUNCH_CLUSTERS) {
        *next = (kb_cu_launch_attribute){.id = KB_CU_LAUNCH_CLUSTER};
        for (int i = 0; i < 3; i++)
            next->value.cluster[i] = step->cluster[i];
        next++;
    }
    l->how.attributes = l->attributes;
    l->how.n_attributes = (uint32_t)(next - l->attributes);
}

enum { N_HASH = 12, BASE = 10 }; /* as kernbridge._src.numba_cuda.compile writes them */

static const char numbered_module[] = "_ZN10kernbridge";

/* Whether a name of `n` characters ends in "_" and a hash. */
static bool is_numbered(const char *name, size_t n)
{
    if (n <= N_HASH + 1 || name[n - N_HASH - 1] != '_')
        return false;
    return strspn(name + n - N_HASH, "0123456789abcdef") >= N_HASH;
}

const char *kb_entry_name(const char *entry, char text[], size_t size)
{
    (void)snprintf(text, size, "%s", entry);
    if (strncmp(entry, numbered_module, sizeof numbered_module - 1) != 0)
        return text;
    char *name = NULL;
    unsigned long n = strtoul(entry + sizeof numbered_module - 1, &name, BASE);
    if (n > strlen(name) || !is_numbered(name, n))
        return text;
    (void)snprintf(text, size, "%.*s", (int)(n - N_HASH - 1), name);
    return text;
}

static KB_COLD kb_status describe(const launch *l, const char *call, kb_cu_result code,
                                  kb_error *err)
{
    const kb_cu_launch *how = &l->how;
    char what[1024], name[256];
    snprintf(what, sizeof what,
             "%s: launch of %s, grid (%u, %u, %u), block (%u, %u, %u), %u bytes of dynamic shared "
             "memory",
             l->frame->kernel->name, kb_entry_name(l->step->function->entry, name, sizeof name),
             how->grid[0], how->grid[1], how->grid[2], how->block[0], how->block[1], how->block[2],
             how->shared);
    (void)kb_driver_fail(err, l->cu, code, call, what);
    return kb_error_code(err, "KB3004");
}

static kb_status enqueue(const launch *l, kb_cu_kernel kernel, kb_error *err)
{
    kb_cu_result code = l->cu->cuLaunchKernelEx(&l->how, (kb_cu_function)kernel, l->pointers, NULL);
    if (!KB_LIKELY(code == KB_CU_SUCCESS))
        return describe(l, "cuLaunchKernelEx", code, err);
    if (KB_LIKELY(!(kb_stream_debug() & KB_DEBUG_SYNC)))
        return KB_OK;
    code = kb_stream_wait(l->cu, l->how.stream);
    return code == KB_CU_SUCCESS ? KB_OK : describe(l, "cuStreamSynchronize", code, err);
}

/* A batch that lies in the grid's z axis, in as many launches as that axis needs. */
static kb_status enqueue_slices(launch *l, kb_cu_kernel kernel, kb_error *err)
{
    const kb_launch_step *step = l->step;
    for (int64_t left = l->frame->n_slices; left > 0; left -= GRID_Z_MAX) {
        l->how.grid[2] = (uint32_t)(left < GRID_Z_MAX ? left : GRID_Z_MAX);
        kb_status s = enqueue(l, kernel, err);
        if (s != KB_OK)
            return s;
        for (uint32_t i = 0; left > GRID_Z_MAX && i < step->n_words; i++)
            if (step->words[i].kind == KB_WORD_ADDRESS)
                l->words[i] +=
                    (uint64_t)(l->frame->strides[step->words[i].buffer] * (int64_t)GRID_Z_MAX);
    }
    return KB_OK;
}

static kb_status zero(const launch *l, kb_error *err)
{
    for (uint32_t i = 0; i < l->step->n_zeroed; i++) {
        uint32_t buffer = l->step->zeroed[i];
        kb_fill_step fill = {
            .buffer = buffer,
            .item_size = kb_dtype_size(l->frame->kernel->buffers[buffer].dtype),
            .count = {.kind = KB_VALUE_COUNT, .buffer = buffer, .divisor = 1},
        };
        kb_status s = kb_fill_run(&fill, l->frame, err);
        if (s != KB_OK)
            return s;
    }
    return KB_OK;
}

kb_status kb_launch_run(const void *step, const kb_frame *frame, kb_error *err)
{
    launch of;
    launch *l = &of;
    l->step = step;
    l->frame = frame;
    l->cu = frame->driver;
    kb_cu_kernel kernel = kb_function_ready(l->step->function, frame->device, l->step->shared);
    kb_status s = KB_OK;
    if (!KB_LIKELY(kernel != NULL))
        s = kb_launch_prepare(step, frame, &kernel, err);
    if (s == KB_OK)
        s = read_grid(l, err);
    if (s != KB_OK)
        return s;
    if (l->grid[0] == 0 || l->grid[1] == 0 || l->grid[2] == 0)
        return l->step->flags & KB_LAUNCH_ZEROES_IF_EMPTY ? zero(l, err) : KB_OK;
    s = take_memory(l, err);
    if (s == KB_OK)
        s = read_words(l, err);
    if (s == KB_OK) {
        l->how.stream = frame->stream;
        l->how.shared = l->step->shared;
        set_attributes(l);
        s = frame->strides ? enqueue_slices(l, kernel, err) : enqueue(l, kernel, err);
    }
    free(l->allocated);
    return s;
}

kb_status kb_launch_prepare(const kb_launch_step *step, const kb_frame *frame, kb_cu_kernel *kernel,
                            kb_error *err)
{
    const kb_driver *cu = frame->driver;
    /* Loading is refused in a thread whose stream captures, unless the thread says that it knows.
     */
    int mode = KB_CU_CAPTURE_MODE_RELAXED;
    kb_cu_result code = cu->cuThreadExchangeStreamCaptureMode(&mode);
    if (code != KB_CU_SUCCESS)
        return kb_driver_fail(err, cu, code, "cuThreadExchangeStreamCaptureMode",
                              frame->kernel->name);
    kb_status s =
        kb_function_load(step->function, cu, frame->device, frame->kernel->name, kernel, err);
    (void)cu->cuThreadExchangeStreamCaptureMode(&mode);
    if (s == KB_OK)
        s = kb_function_allow_shared(step->function, cu, frame->device, step->shared,
                                     frame->kernel->name, err);
    return s;
}

/* `size` bytes from `offset` of a buffer, or KB_INVALID_ARGUMENT. */
static kb_status take_range(const kb_frame *frame, uint32_t buffer, int64_t offset, int64_t size,
                            kb_cu_address *address, kb_error *err)
{
    const kb_xla_buffer *b = kb_frame_buffer(frame, buffer);
    int64_t bytes = kb_buffer_size(b);
    if (size < 0 || offset > bytes || size > bytes - offset)
        return kb_error_set(
            err, KB_INVALID_ARGUMENT,
            "%s: the plan touches %lld bytes from byte %lld of buffer %u (%s), which has "
            "%lld: the program is damaged, or was recorded for other shapes",
            frame->kernel->name, (long long)size, (long long)offset, buffer,
            frame->kernel->buffers[buffer].name, (long long)bytes);
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
    int64_t n = 0, size = 0, n_slices = frame->n_slices;
    kb_cu_address to = 0;
    kb_status s = read_value(&step->count, frame, &n, err);
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
    int64_t size = 0, n_slices = frame->n_slices;
    kb_cu_address to = 0, from = 0;
    kb_status s = read_value(&step->size, frame, &size, err);
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
