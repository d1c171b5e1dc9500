/* Proves that no GPU program, whatever it says, makes the core leave its memory or overflow a
 * number, be it refused, or read and run. Bytes are read as changes to a good program, to its
 * fields and to its bytes, so that most come past the first check. It runs on the fake driver, over
 * buffers of exactly their size: fills and copies really happen there. */
#include "fuzz.h"

#include "core/kb_batch.h"
#include "cuda/kb_program.h"
#include "cuda/kb_stream.h"
#include "gpu.h"
#include "program.h"
#include "sample.h"
#include "sealed.h"

#include <stdlib.h>

enum { LEVELS = 3, ELEMENTS_MAX = 64 };

static struct {
    long read, not_read, ran, not_ran, launches;
} counts;

/* A field that holds an index or a size, or NULL for the next kind of change. */
static uint32_t *small_field(program_text *p, program_step *s, reader *r)
{
    program_function *f = &p->functions[byte(r) % PROGRAM_FUNCTIONS];
    uint32_t *const fields[] = {
        &p->n_inputs,
        &p->n_outputs,
        &p->n_hidden,
        &p->n_functions,
        &f->n_words,
        &f->n_sizes,
        &f->sizes[byte(r) % PROGRAM_WORDS],
        &f->n_images,
        &f->images[0].cc,
        &f->shared,
        &s->kind,
        &s->wide,
        &s->function,
        &s->launch.n_words,
        &s->launch.n_zeroed,
        &s->launch.shared,
        &s->launch.flags,
        &s->launch.block[0],
        &s->launch.block[1],
        &s->launch.cluster[byte(r) % 3],
        &s->zeroed[0],
        &s->fill.buffer,
        &s->fill.item_size,
        &s->copy.to,
        &s->copy.from,
        (uint32_t *)&p->buffers[byte(r) % 4].dtype,
        &p->version,
        &p->n_steps,
        (uint32_t *)&p->buffers[byte(r) % 4].rank,
    };
    return fields[byte(r) % (sizeof fields / sizeof *fields)];
}

static void change_value(kb_value *v, reader *r)
{
    switch (byte(r) % 5) {
    case 0:
        v->kind = (kb_value_kind)(byte(r) % 4);
        break;
    case 1:
        v->buffer = (uint32_t)number(r);
        break;
    case 2:
        v->axis = (uint32_t)number(r);
        break;
    case 3:
        v->divisor = (uint32_t)number(r);
        break;
    default:
        v->constant = number(r);
    }
}

static void change_word(program_step *s, reader *r)
{
    int i = byte(r) % PROGRAM_WORDS;
    switch (byte(r) % 5) {
    case 0:
        s->words[i].kind = byte(r) % 5;
        break;
    case 1:
        s->words[i].buffer = (uint32_t)number(r);
        break;
    case 2:
        s->words[i].axis = (uint32_t)number(r);
        break;
    case 3:
        s->words[i].value = number(r);
        break;
    default:
        s->words[i].reach = number(r);
    }
}

/* A larger image, or none. */
static void change_image(program_text *p, reader *r)
{
    program_image *image = &p->functions[byte(r) % PROGRAM_FUNCTIONS].images[byte(r) % 2];
    image->text = byte(r) % 4 ? "FAKE first 6\n############################\n" : NULL;
}

static void change_field(program_text *p, reader *r)
{
    program_step *s = &p->steps[byte(r) % 4];
    switch (byte(r) % 13) {
    case 12:
        change_image(p, r);
        break;
    case 0:
    case 1:
        *small_field(p, s, r) = (uint32_t)number(r);
        break;
    case 2:
    case 3:
        change_value(&s->launch.grid[byte(r) % 3], r);
        break;
    case 4:
        change_value(&s->fill.count, r);
        break;
    case 5:
        change_value(&s->copy.size, r);
        break;
    case 6:
        s->fill.offset = number(r);
        break;
    case 7:
        s->fill.pattern[byte(r) % 2] = (uint64_t)number(r);
        break;
    case 8:
        s->copy.to_offset = number(r);
        break;
    case 9:
        s->copy.from_offset = number(r);
        break;
    default:
        change_word(s, r);
    }
}

/* Few: a program that is not read proves little. */
static void change_bytes(uint8_t *bytes, size_t *size, reader *r)
{
    uint8_t what = byte(r);
    if (what < 200)
        return;
    for (int n = what % 4; n >= 0; n--)
        bytes[((size_t)byte(r) << 8 | byte(r)) % *size] = byte(r);
    if (what > 250)
        *size = ((size_t)byte(r) << 8 | byte(r)) % *size + 1;
}

/* An operand or result as XLA would hand it over, its memory a block of its own. */
static void add_buffer(fake_frame *f, const kb_buffer_spec *spec, bool result, int64_t mask,
                       const int64_t *sizes, reader *r, void **block)
{
    int64_t dims[KB_RANK_MAX + LEVELS], rank = 0, own = 1, count = 1;
    for (int level = LEVELS - 1; level >= 0; level--)
        if (mask >> level & 1)
            count *= dims[rank++] = sizes[level];
    for (int32_t d = 0; d < spec->rank; d++) {
        int64_t dim = byte(r) % 8;
        dim = own * dim > ELEMENTS_MAX ? 1 : dim;
        own *= dim;
        dims[rank++] = dim;
    }
    size_t size = (size_t)(count * own) * kb_dtype_bits(spec->dtype) / 8;
    *block = size ? calloc(1, size) : NULL;
    (result ? fake_ret : fake_arg)(f, spec->dtype, *block, rank, dims);
}

static kb_status call(const kb_kernel *kernel, const fake_frame *f, int64_t *words, size_t n_words,
                      void *stream, kb_error *err)
{
    kb_xla_array array = {KB_DTYPE_S64, n_words, words};
    kb_frame frame;
    kb_stream_scope scope;
    kb_status s = kb_frame_read(&frame, kernel, &f->frame, &array, err);
    fake_stream_set(stream, false);
    if (s == KB_OK)
        s = kb_stream_enter(&scope, &frame, err);
    if (s != KB_OK)
        return s;
    s = kb_batch_run(&frame, err);
    kb_stream_leave(&scope);
    return s;
}

static kb_status run(const kb_kernel *kernel, reader *r, kb_error *err)
{
    static void *stream;
    uint32_t n = kb_kernel_n_buffers(kernel);
    int64_t n_levels = byte(r) % (LEVELS + 1), all = (1 << n_levels) - 1, sizes[LEVELS];
    int64_t *words = calloc(2 + (size_t)kernel->n_inputs, sizeof *words);
    void **blocks = calloc(n + 1, sizeof *blocks);
    fake_frame f;
    if (!stream)
        stream = fake_cuda_stream_create(1);
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    for (int level = 0; level < LEVELS; level++)
        sizes[level] = byte(r) % 4;
    words[0] = kernel->key;
    words[1] = n_levels;
    for (uint32_t i = 0; i < n; i++) {
        bool result = i >= kernel->n_inputs;
        int64_t mask = result ? all : byte(r) & all;
        if (!result)
            words[2 + i] = mask;
        add_buffer(&f, &kernel->buffers[i], result, mask, sizes, r, &blocks[i]);
    }
    kb_status s = call(kernel, &f, words, n_levels ? 2 + (size_t)kernel->n_inputs : 1, stream, err);
    for (uint32_t i = 0; i < n; i++)
        free(blocks[i]);
    free(blocks);
    free(words);
    fake_frame_free(&f);
    return s;
}

static void check_error(kb_status s, const kb_error *err)
{
    if (s == KB_OK)
        return;
    require(err->status == s, "an error has another status than the function gave");
    require(*err->message && strlen(err->message) < KB_ERROR_CAPACITY, "an error has no message");
}

static const uint8_t digest[KB_DIGEST_SIZE] = {1};

static void read_and_run(const uint8_t *bytes, size_t size, reader *r)
{
    kb_kernel kernel, *copy = NULL;
    kb_error err;
    kb_status s = kb_program_read(bytes, size, digest, byte(r) % 8 == 0, &kernel, &err);
    if (s == KB_OK) {
        s = kb_kernel_copy(&kernel, &copy, &err);
        if (s != KB_OK)
            kernel.free_owner(kernel.owner);
    }
    ++*(s == KB_OK ? &counts.read : &counts.not_read);
    check_error(s, &err);
    if (!copy)
        return;
    s = run(copy, r, &err);
    ++*(s == KB_OK ? &counts.ran : &counts.not_ran);
    check_error(s, &err);
    require(fake_cuda_n_contexts() == 1, "a context was left on the stack");
    sample_free_kernel(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const kb_driver *cu;
    reader r = {data, data + size};
    program_text p;
    size_t program_size;
    if (!cu)
        cu = gpu_start();
    program_init(&p);
    for (int n = byte(&r) % 4; n > 0; n--)
        change_field(&p, &r);
    uint8_t *bytes = program_write(&p, digest, &program_size);
    bool signs = byte(&r) % 4 != 1;
    change_bytes(bytes, &program_size, &r);
    if (signs)
        sealed_sign(bytes, program_size, digest, KB_DIGEST_SIZE);
    uint8_t *exact = malloc(program_size);
    memcpy(exact, bytes, program_size);
    free(bytes);
    read_and_run(exact, program_size, &r);
    free(exact);
    counts.launches += fake_cuda_n_launches();
    fake_cuda_reset();
    kb_function_free_all();
    require(fake_cuda_n_libraries() == 0, "a library was left");
    return 0;
}

const char fuzz_name[] = "fuzz_program";

bool fuzz_tell(uint64_t n)
{
    printf(
        "fuzz_program: %llu programs; %ld read, %ld refused; run: %ld passed, with %ld launches, "
        "%ld refused\n",
        (unsigned long long)n, counts.read, counts.not_read, counts.ran, counts.launches,
        counts.not_ran);
    return counts.read && counts.not_read && counts.ran && counts.not_ran && counts.launches;
}
