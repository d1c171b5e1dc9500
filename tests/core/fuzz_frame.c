/* Proves that no call frame, whatever it says, makes the handlers leave their memory, overflow a
 * number or lose an error. Bytes are read as a right call of one of a few kernels and a list of
 * changes to it, so that most inputs come past the first check. Frames are well formed in memory:
 * every array has the length that the frame gives it; only what they mean is arbitrary. */
#include "core/kb_frame.h"
#include "core/kb_handler.h"
#include "fuzz.h"
#include "sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KERNELS = 5, BUFFERS = 48, RANK = 24, WORDS = 64, SLICES_MAX = 50 };

static struct {
    long instantiated, not_instantiated, executed, not_executed;
} counts;

static sample kernels[KERNELS];
static const kb_kernel *current;
static long entry_calls;
static volatile uint64_t sink;

/* Reads every extent, as a kernel would, and no element; ends a batch that is too long to wait for.
 */
static int32_t entry(void **result, void **exception, void *const *inputs, void *const *outputs)
{
    (void)result, (void)exception;
    for (uint32_t i = 0; i < current->n_inputs + current->n_outputs; i++) {
        const kb_xla_buffer *b = sample_buffer(current, inputs, outputs, i);
        require(b->rank == current->buffers[i].rank, "a kernel was given another rank");
        for (int32_t d = 0; d < current->buffers[i].rank; d++)
            sink += (uint64_t)b->dims[d];
    }
    return ++entry_calls > SLICES_MAX;
}

static void register_kernels(void)
{
    for (uint64_t id = 0; id < KERNELS; id++)
        sample_init(&kernels[id], id, entry);
    sample_output(&kernels[0], KB_DTYPE_F32, 1, "out");
    sample_input(&kernels[1], KB_DTYPE_F32, 2, "x");
    sample_input(&kernels[1], KB_DTYPE_S32, 0, "n");
    sample_output(&kernels[1], KB_DTYPE_F64, 1, "out");
    sample_hidden(&kernels[1], KB_DTYPE_F32, 2, "x again");
    for (int i = 0; i < 20; i++)
        sample_input(&kernels[2], KB_DTYPE_U8, 1, "x");
    sample_output(&kernels[2], KB_DTYPE_U8, 2, "out");
    sample_input(&kernels[3], KB_DTYPE_S4, 1, "packed");
    sample_output(&kernels[3], KB_DTYPE_C128, 0, "out");
    sample_input(&kernels[4], KB_DTYPE_PRED, 3, "x");
    for (int i = 0; i < KERNELS; i++) {
        kb_error err;
        bool inserted;
        require(kb_registry_add(&kb_handler_registry, &kernels[i].kernel, &inserted, &err) == KB_OK,
                "a kernel was not registered");
    }
}

/* One operand or result, and one attribute, before they are laid out in memory. */
typedef struct buffer {
    int32_t dtype, type;
    int64_t rank, dims[RANK];
    bool no_address;
} buffer;

typedef struct attribute {
    const char *name;
    int32_t type, dtype;
    size_t size;
    int64_t words[WORDS * 2]; /* as many bytes as the widest dtype takes */
} attribute;

enum { CALL, DIGEST, ORIGIN, EXTRA, ATTRIBUTES };

typedef struct model {
    buffer buffers[2][BUFFERS]; /* operands, results */
    int64_t n[2];
    attribute attributes[ATTRIBUTES];
    bool extension;
} model;

static void right_call(model *m, const kb_kernel *kernel, reader *r)
{
    int64_t n_levels = byte(r) % 4, sizes[4], all = (1 << n_levels) - 1;
    for (int level = 0; level < 4; level++)
        sizes[level] = byte(r) % 4;
    memset(m, 0, sizeof *m);
    attribute *call = &m->attributes[CALL], *digest = &m->attributes[DIGEST];
    *call = (attribute){.name = "call", .type = KB_XLA_ATTR_ARRAY, .dtype = KB_DTYPE_S64};
    call->size = n_levels ? 2 + (size_t)kernel->n_inputs : 1;
    call->words[0] = kb_digest_key(kernel->digest);
    call->words[1] = n_levels;
    *digest = (attribute){.name = "digest", .type = KB_XLA_ATTR_ARRAY, .dtype = KB_DTYPE_U8};
    digest->size = KB_DIGEST_SIZE;
    memcpy(digest->words, kernel->digest, KB_DIGEST_SIZE);
    m->attributes[ORIGIN] = (attribute){.name = "origin", .type = KB_XLA_ATTR_STRING, .size = 4};

    for (uint32_t i = 0; i < kb_kernel_n_buffers(kernel); i++) {
        bool result = i >= kernel->n_inputs;
        int64_t mask = result ? all : byte(r) & all;
        if (!result)
            call->words[2 + i] = mask;
        buffer *b = &m->buffers[result][m->n[result]++];
        b->dtype = kernel->buffers[i].dtype;
        b->type = KB_XLA_BUFFER;
        for (int64_t level = n_levels - 1; level >= 0; level--)
            if (mask >> level & 1)
                b->dims[b->rank++] = sizes[level];
        for (int32_t d = 0; d < kernel->buffers[i].rank; d++)
            b->dims[b->rank++] = byte(r) % 5;
    }
}

static void change_buffer(model *m, reader *r)
{
    int list = byte(r) & 1;
    buffer *b = &m->buffers[list][m->n[list] ? byte(r) % m->n[list] : 0];
    switch (byte(r) % 8) {
    case 0:
        b->dtype = (int32_t)number(r);
        break;
    case 1:
        b->rank = number(r);
        break;
    case 2:
        b->type = (int32_t)number(r);
        break;
    case 3:
        b->no_address = true;
        b->dims[byte(r) % RANK] = 0;
        break;
    case 4:
        m->n[list] = byte(r) % BUFFERS;
        break;
    default:
        b->dims[byte(r) % 4] = number(r);
    }
}

static void change_attribute(model *m, reader *r)
{
    static const char *const names[] = {"call", "digest", "origin", "key", "", "calls", NULL};
    attribute *a = &m->attributes[byte(r) % ATTRIBUTES];
    switch (byte(r) % 8) {
    case 0:
        a->name = names[byte(r) % 7];
        break;
    case 1:
        a->type = byte(r) % 6;
        break;
    case 2:
        a->dtype = (int32_t)number(r);
        break;
    case 3:
        a->size = byte(r) % WORDS;
        break;
    default:
        a->words[byte(r) % 8] = number(r);
    }
}

static void build_buffers(fake_frame *f, const model *m)
{
    for (int list = 0; list < 2; list++) {
        for (int64_t i = 0; i < m->n[list]; i++) {
            const buffer *b = &m->buffers[list][i];
            int64_t rank = b->rank < 0 ? 0 : b->rank < RANK ? b->rank : RANK;
            bool empty = false;
            for (int64_t d = 0; d < rank; d++)
                empty |= b->dims[d] == 0;
            void *address = (void *)((uintptr_t)(i + 1) << 36); /* never read */
            if (b->no_address && empty)
                address = NULL;
            (list ? fake_ret : fake_arg)(f, b->dtype, address, rank, b->dims)->rank = b->rank;
            (list ? f->frame.rets : f->frame.args).types[i] = b->type;
        }
    }
}

static void build_attributes(fake_frame *f, const model *m)
{
    for (int i = 0; i < ATTRIBUTES; i++) {
        const attribute *a = &m->attributes[i];
        size_t width = (kb_dtype_bits(a->dtype) + 7) / 8;
        if (!a->name)
            continue;
        if (a->type == KB_XLA_ATTR_ARRAY)
            fake_attr_array(f, a->name, a->dtype, a->size, a->words, a->size * width);
        else if (a->type == KB_XLA_ATTR_STRING)
            fake_attr_string(f, a->name, (const char *)a->words, a->size);
        else if (a->type == KB_XLA_ATTR_SCALAR)
            fake_attr_scalar(f, a->name, a->dtype, a->words, width);
        else
            fake_attr(f, a->name, a->type, NULL);
    }
}

static void count(kb_xla_error *error, long *succeeded, long *refused)
{
    ++*(error ? refused : succeeded);
    if (error) {
        size_t length = strlen(error->message);
        require(error->code > 0 && error->code <= 16, "an error has no code of XLA's");
        require(length > 0 && length < KB_ERROR_CAPACITY, "an error has no message");
    }
    fake_error_destroy(error);
    require(fake_errors_alive() == 0, "an error was made and lost");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static model m;
    if (!kernels[0].kernel.name)
        register_kernels();
    reader r = {data, data + size};
    current = &kernels[byte(&r) % KERNELS].kernel;
    right_call(&m, current, &r);
    for (int n = byte(&r) % 6; n > 0; n--) {
        if (byte(&r) % 2)
            change_buffer(&m, &r);
        else
            change_attribute(&m, &r);
    }

    fake_frame f;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    build_buffers(&f, &m);
    build_attributes(&f, &m);
    entry_calls = 0;
    count(kb_handler_host_instantiate(&f.frame), &counts.instantiated, &counts.not_instantiated);
    count(kb_handler_host_execute(&f.frame), &counts.executed, &counts.not_executed);
    fake_frame_free(&f);
    return 0;
}

const char fuzz_name[] = "fuzz_frame";

bool fuzz_tell(uint64_t n)
{
    printf("fuzz_frame: %llu frames; instantiate: %ld passed, %ld refused; "
           "execute: %ld passed, %ld refused\n",
           (unsigned long long)n, counts.instantiated, counts.not_instantiated, counts.executed,
           counts.not_executed);
    return counts.instantiated && counts.not_instantiated && counts.executed && counts.not_executed;
}
