/* Owns the reading of GPU programs. */
#include "cuda/kb_program.h"

#include "core/kb_dtype.h"
#include "core/kb_fields.h"
#include "cuda/kb_step.h"

#include <limits.h>
#include <string.h>

/* The least that each takes on the wire: bounds the counts. */
enum {
    FUNCTION_SIZE = 52,
    IMAGE_SIZE = 8,
    STEP_SIZE = 16,
    WORD_SIZE = 28,
    THREADS_MAX = 1024,
};

/* What a kernel's steps point to. It lies in its own arena. */
typedef struct contents {
    kb_arena *arena;
    uint32_t n_functions;
    kb_function **functions; /* held */
} contents;

typedef struct program {
    kb_fields fields;
    kb_kernel *kernel;
    contents *contents;
    bool callbacks;
} program;

static void *take(program *p, size_t count, size_t size)
{
    return kb_fields_take(&p->fields, count, size);
}

static void expect(program *p, bool holds, const char *what)
{
    kb_fields_expect(&p->fields, holds, what);
}

static void check_buffer(program *p, uint32_t buffer)
{
    expect(p, buffer < kb_kernel_n_buffers(p->kernel), "a buffer");
}

static uint32_t read_buffer(program *p)
{
    uint32_t buffer = kb_read_u32(&p->fields.from);
    check_buffer(p, buffer);
    return buffer;
}

static int64_t read_offset(program *p)
{
    int64_t offset = kb_read_i64(&p->fields.from);
    expect(p, offset >= 0, "an offset");
    return offset;
}

static void check_axis(program *p, uint32_t buffer, uint32_t axis)
{
    expect(p, p->fields.from.failed || (int64_t)axis < p->kernel->buffers[buffer].rank, "an axis");
}

static kb_value read_value(program *p)
{
    kb_value value = {.kind = (kb_value_kind)kb_read_u32(&p->fields.from)};
    value.buffer = kb_read_u32(&p->fields.from);
    if (value.kind != KB_VALUE_CONSTANT)
        check_buffer(p, value.buffer);
    value.axis = kb_read_u32(&p->fields.from);
    value.divisor = kb_read_u32(&p->fields.from);
    value.constant = kb_read_i64(&p->fields.from);
    expect(p, value.kind <= KB_VALUE_COUNT, "a kind of value");
    expect(p, value.divisor != 0, "a divisor");
    expect(p, value.constant >= 0, "a constant");
    if (value.kind == KB_VALUE_EXTENT)
        check_axis(p, value.buffer, value.axis);
    return value;
}

/* Sizes of parameters, which must take the words that there are. */
static void read_sizes(program *p, kb_function *f)
{
    f->n_sizes = kb_read_count(&p->fields.from, sizeof(uint32_t));
    uint32_t *sizes = p->fields.from.failed ? NULL : take(p, f->n_sizes, sizeof *sizes);
    uint32_t n_words = 0;
    for (uint32_t i = 0; !p->fields.from.failed && i < f->n_sizes; i++) {
        sizes[i] = kb_read_u32(&p->fields.from);
        expect(p, sizes[i] > 0 && sizes[i] <= KB_PARAMETER_SIZE_MAX, "the size of a parameter");
        n_words += (sizes[i] + KB_WORD_SIZE - 1) / KB_WORD_SIZE;
        expect(p, n_words <= f->n_words, "the size of a parameter");
    }
    expect(p, f->n_sizes == 0 || n_words == f->n_words, "the size of a parameter");
    f->sizes = sizes;
}

static kb_function *read_function(program *p, kb_error *err)
{
    kb_function f = {0};
    kb_image images[KB_IMAGES_MAX];
    const uint8_t *digest = kb_read_bytes(&p->fields.from, KB_DIGEST_SIZE);
    if (digest)
        memcpy(f.digest, digest, KB_DIGEST_SIZE);
    f.entry = kb_fields_text(&p->fields);
    f.n_words = kb_read_u32(&p->fields.from);
    f.shared = kb_read_u32(&p->fields.from);
    expect(p, f.n_words <= KB_WORDS_MAX, "a number of parameters");
    read_sizes(p, &f);
    f.n_images = kb_read_count(&p->fields.from, IMAGE_SIZE);
    expect(p, f.shared <= INT_MAX, "a size of shared memory");
    expect(p, f.n_images > 0 && f.n_images <= KB_IMAGES_MAX, "a number of images");
    for (uint32_t i = 0; !p->fields.from.failed && i < f.n_images; i++) {
        images[i].cc = kb_read_u32(&p->fields.from);
        kb_xla_bytes image = kb_fields_bytes(&p->fields);
        images[i].size = image.size;
        images[i].bytes = image.data;
        expect(p, images[i].size > 0, "an image");
    }
    f.images = images;
    kb_function *function = NULL;
    kb_status s = p->fields.from.failed ? KB_OK : kb_function_hold(&f, &function, err);
    p->fields.no_memory |= s == KB_RESOURCE_EXHAUSTED;
    expect(p, s == KB_OK, "an image");
    return function;
}

static void read_functions(program *p, kb_error *err)
{
    contents *c = p->contents;
    uint32_t n = kb_read_count(&p->fields.from, FUNCTION_SIZE);
    c->functions = take(p, n, sizeof(kb_function *)); // NOLINT: of pointers
    for (uint32_t i = 0; !p->fields.from.failed && i < n; i++) {
        c->functions[i] = read_function(p, err);
        c->n_functions += c->functions[i] != NULL;
    }
}

static void read_word(program *p, kb_word *word)
{
    uint32_t kind = kb_read_u32(&p->fields.from), buffer = kb_read_u32(&p->fields.from);
    uint32_t axis = kb_read_u32(&p->fields.from);
    word->value = kb_read_i64(&p->fields.from);
    word->reach = read_offset(p);
    expect(p, kind <= KB_WORD_COUNT, "a kind of parameter");
    if (kind != KB_WORD_CONSTANT)
        check_buffer(p, buffer);
    expect(p, kind != KB_WORD_ADDRESS || word->value >= 0, "an offset");
    expect(p, word->reach > 0 || kind != KB_WORD_ADDRESS || word->value == 0, "a reach");
    expect(p, word->reach <= INT64_MAX - (word->value > 0 ? word->value : 0), "a reach");
    if (kind == KB_WORD_EXTENT)
        check_axis(p, buffer, axis);
    word->kind = (uint8_t)kind;
    word->buffer = (uint16_t)buffer;
    word->axis = (uint8_t)axis;
}

static void read_triple(program *p, uint32_t triple[3], uint32_t max, const char *what)
{
    for (int i = 0; i < 3; i++) {
        triple[i] = kb_read_u32(&p->fields.from);
        expect(p, triple[i] > 0 && triple[i] <= max, what);
    }
}

static const kb_launch_step *read_launch(program *p, bool wide)
{
    kb_launch_step *step = take(p, 1, sizeof *step);
    if (!step)
        return NULL;
    uint32_t function = kb_read_u32(&p->fields.from);
    expect(p, function < p->contents->n_functions, "a function");
    for (int i = 0; i < 3; i++)
        step->grid[i] = read_value(p);
    read_triple(p, step->block, THREADS_MAX, "a block");
    read_triple(p, step->cluster, THREADS_MAX, "a cluster");
    step->shared = kb_read_u32(&p->fields.from);
    step->flags = kb_read_u32(&p->fields.from);
    expect(p, step->shared <= INT_MAX, "a size of shared memory");
    expect(p, !wide || (step->grid[2].kind == KB_VALUE_CONSTANT && step->grid[2].constant == 1),
           "the grid of a wide launch");
    step->n_words = kb_read_count(&p->fields.from, WORD_SIZE);
    kb_word *words = p->fields.from.failed ? NULL : take(p, step->n_words, sizeof *words);
    for (uint32_t i = 0; !p->fields.from.failed && i < step->n_words; i++)
        read_word(p, &words[i]);
    step->words = words;
    step->n_zeroed = kb_read_count(&p->fields.from, sizeof(uint32_t));
    uint32_t *zeroed = p->fields.from.failed ? NULL : take(p, step->n_zeroed, sizeof *zeroed);
    for (uint32_t i = 0; !p->fields.from.failed && i < step->n_zeroed; i++) {
        zeroed[i] = read_buffer(p);
        expect(p, p->fields.from.failed || kb_dtype_bits(p->kernel->buffers[zeroed[i]].dtype) >= 8,
               "an output to be zeroed");
    }
    step->zeroed = zeroed;
    if (p->fields.from.failed)
        return NULL;
    step->function = p->contents->functions[function];
    expect(p, step->function->n_words == step->n_words, "a number of parameters");
    return step;
}

static const kb_fill_step *read_fill(program *p)
{
    kb_fill_step *step = take(p, 1, sizeof *step);
    if (!step)
        return NULL;
    step->buffer = read_buffer(p);
    step->item_size = kb_read_u32(&p->fields.from);
    step->offset = read_offset(p);
    step->count = read_value(p);
    for (int i = 0; i < 2; i++)
        step->pattern[i] = (uint64_t)kb_read_i64(&p->fields.from);
    uint32_t n = step->item_size;
    expect(p, n > 0 && n <= 16 && (n & (n - 1)) == 0, "the size of an element");
    return step;
}

static const kb_copy_step *read_copy(program *p)
{
    kb_copy_step *step = take(p, 1, sizeof *step);
    if (!step)
        return NULL;
    step->to = read_buffer(p);
    step->from = read_buffer(p);
    step->to_offset = read_offset(p);
    step->from_offset = read_offset(p);
    step->size = read_value(p);
    return step;
}

static void read_step(program *p, kb_step *step)
{
    int64_t *handle;
    uint32_t kind = kb_read_u32(&p->fields.from);
    step->wide = kb_read_u32(&p->fields.from) != 0;
    step->kind = (kb_step_kind)kind;
    switch (kind) {
    case KB_STEP_LAUNCH:
        step->other = read_launch(p, step->wide);
        return;
    case KB_STEP_FILL:
        step->other = read_fill(p);
        return;
    case KB_STEP_COPY:
        step->other = read_copy(p);
        return;
    case KB_STEP_CALLBACK:
        step->other = handle = take(p, 1, sizeof *handle);
        expect(p, p->callbacks, "a step that calls Python");
        if (handle)
            *handle = kb_read_i64(&p->fields.from);
        return;
    default:
        expect(p, false, "a kind of step");
    }
}

static void read_steps(program *p)
{
    uint32_t n = kb_read_count(&p->fields.from, STEP_SIZE);
    kb_step *steps = take(p, n, sizeof *steps);
    for (uint32_t i = 0; !p->fields.from.failed && i < n; i++)
        read_step(p, &steps[i]);
    p->kernel->plan = (kb_plan){.n_steps = n, .steps = steps};
    expect(p, p->fields.from.left == 0, "its end");
}

static void free_contents(void *owner)
{
    contents *c = owner;
    for (uint32_t i = 0; i < c->n_functions; i++)
        kb_function_drop(c->functions[i]);
    kb_arena_free(c->arena);
}

kb_status kb_program_read(const void *bytes, size_t size, const uint8_t digest[KB_DIGEST_SIZE],
                          bool callbacks, kb_kernel *kernel, kb_error *err)
{
    *kernel = (kb_kernel){.free_owner = free_contents};
    program p = {
        .fields = {.from = kb_reader_of(bytes, size),
                   .what = "a kernel's program",
                   .whole = "of another version of kernbridge"},
        .kernel = kernel,
        .callbacks = callbacks,
    };
    kb_status s = kb_fields_begin(&p.fields, KB_PROGRAM_MAGIC, KB_PROGRAM_VERSION, digest,
                                  sizeof *p.contents, kernel, err);
    if (s != KB_OK)
        return s;
    p.contents = kernel->owner;
    p.contents->arena = p.fields.arena;
    kernel->name = kb_fields_text(&p.fields);
    kernel->source = kb_fields_text(&p.fields);
    kb_fields_buffers(&p.fields, kernel);
    read_functions(&p, err);
    read_steps(&p);
    kernel->bytes = kb_arena_bytes(p.fields.arena);
    s = kb_fields_check(&p.fields, err);
    if (s != KB_OK)
        free_contents(p.contents);
    return s;
}
