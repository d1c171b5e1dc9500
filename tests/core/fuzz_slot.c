/* Proves that no call of a public target, whatever its counts, buffers and attributes, makes the
 * core hand a function anything but what it was bound with: its counts, its attributes by name and
 * type, and tensors that describe the buffers. Slots are bound anew between calls. */
#include "fuzz.h"

#include "core/kb_dtype.h"
#include "sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ATTRIBUTES = 6, BUFFERS = 6, RANK = 4, ROOM = 64 };

const char fuzz_name[] = "fuzz_slot";

static const int32_t dtypes[] = {KB_DTYPE_PRED, KB_DTYPE_S8,  KB_DTYPE_S32, KB_DTYPE_S64,
                                 KB_DTYPE_U16,  KB_DTYPE_F16, KB_DTYPE_F32, KB_DTYPE_F64,
                                 KB_DTYPE_BF16, KB_DTYPE_C64, KB_DTYPE_C128};
static const char *const names[] = {"a", "b", "aa", "ab", "zeta", "", "b\xff", "alpha"};
enum { DTYPES = sizeof dtypes / sizeof *dtypes, NAMES = sizeof names / sizeof *names };

static struct {
    long ran, refused;
} counts;

static struct {
    const kb_slot_target *target;
    const kb_xla_frame *frame;
    uint64_t sum;
    int calls;
} now;

/* Reads all that the call says that it has. */
static int look(const kb_call *call)
{
    const kb_slot_target *t = now.target;
    now.calls++;
    require(call->n_inputs == now.frame->args.size && call->n_outputs == now.frame->rets.size,
            "another number of tensors");
    require(t->n_inputs == KB_ANY_COUNT || call->n_inputs == t->n_inputs, "a number of inputs");
    require(t->n_outputs == KB_ANY_COUNT || call->n_outputs == t->n_outputs, "a number of outputs");
    require(call->n_attributes == (int32_t)t->step.n_attributes, "a number of attributes");
    for (int32_t i = 0; i < call->n_inputs + call->n_outputs; i++) {
        const kb_tensor *x =
            i < call->n_inputs ? &call->inputs[i] : &call->outputs[i - call->n_inputs];
        int64_t count = 1;
        for (int32_t d = x->ndim - 1; d >= 0; d--) {
            require(x->shape[d] >= 0 && (count == 0 || x->strides[d] == count), "a stride");
            count *= x->shape[d];
        }
        require(x->size == count && x->dl_dtype.bits > 0, "a size");
    }
    for (int32_t i = 0; i < call->n_attributes; i++) {
        size_t size = (size_t)kb_dtype_bits(t->attributes[i].dtype) / 8;
        const uint8_t *bytes = call->attributes[i];
        for (size_t k = 0; k < size; k++)
            now.sum += bytes[k];
    }
    return 0;
}

static void bind(kb_slot *slot, kb_slot_target *t, kb_slot_attribute *attributes, reader *r)
{
    kb_error err;
    uint32_t n = byte(r) % (ATTRIBUTES + 1);
    for (uint32_t i = 0; i < n; i++)
        attributes[i] = (kb_slot_attribute){.name = names[(byte(r) % 2 + 2 * i) % NAMES],
                                            .dtype = dtypes[byte(r) % DTYPES]};
    *t = (kb_slot_target){
        .name = "load 'm.f'",
        .n_inputs = byte(r) % (BUFFERS + 2) - 1,
        .n_outputs = byte(r) % (BUFFERS + 2) - 1,
        .step = {.run = look, .n_attributes = n, .zeroed = byte(r) % 4 == 0},
        .attributes = attributes,
    };
    require(kb_slot_bind(slot, sample_target(t), &err) == KB_OK, "a target is not bound");
}

/* What a slot was bound with is never freed, and knows what it was bound with before. */
static void unbind(const kb_slot *slot)
{
    for (const kb_slot_target *bound = slot->target, *before; bound; bound = before) {
        before = bound->before;
        free((void *)(uintptr_t)bound);
    }
}

static void add_attributes(fake_frame *f, const kb_slot_target *t, reader *r)
{
    static const uint8_t bytes[ROOM] = {1, 2, 3};
    uint32_t n = byte(r) % 3 ? t->step.n_attributes : byte(r) % (ATTRIBUTES + 1);
    for (uint32_t i = 0; i < n; i++) {
        bool own = i < t->step.n_attributes && byte(r) % 8;
        const char *name = own ? t->attributes[i].name : names[byte(r) % NAMES];
        int32_t dtype = own ? t->attributes[i].dtype : dtypes[byte(r) % DTYPES];
        size_t size = (size_t)kb_dtype_bits(dtype) / 8;
        bool complex = dtype == KB_DTYPE_C64 || dtype == KB_DTYPE_C128;
        if (own && (dtype == KB_DTYPE_F16 || dtype == KB_DTYPE_BF16))
            dtype = KB_DTYPE_U16;
        switch (byte(r) % 16) {
        case 0:
            fake_attr_string(f, name, (const char *)bytes, byte(r) % ROOM);
            break;
        case 1:
            fake_attr_array(f, name, dtype, 1, bytes, size);
            break;
        case 2:
            fake_attr_array(f, name, dtype, 0, bytes, 0);
            break;
        default:
            if (complex)
                fake_attr_array(f, name, dtype == KB_DTYPE_C64 ? KB_DTYPE_F32 : KB_DTYPE_F64, 2,
                                bytes, size);
            else
                fake_attr_scalar(f, name, dtype, bytes, size);
        }
    }
}

static void add_buffers(fake_frame *f, int32_t expected, bool result, void **blocks, reader *r)
{
    int32_t n = expected >= 0 && byte(r) % 8 ? expected : byte(r) % (BUFFERS + 1);
    for (int32_t i = 0; i < n; i++) {
        int64_t dims[RANK], rank = byte(r) % (RANK + 1), count = 1;
        bool strange = byte(r) % 64 == 0;
        for (int64_t d = 0; d < rank; d++) {
            dims[d] = byte(r) % 4;
            count *= dims[d];
        }
        int32_t dtype = strange ? (int32_t)number(r) : dtypes[byte(r) % DTYPES];
        size_t size = strange ? ROOM : (size_t)count * kb_dtype_bits(dtype) / 8;
        blocks[i] = size ? calloc(1, size) : NULL;
        if (strange && rank > 0) {
            dims[byte(r) % rank] = INT64_MIN; /* an extent that no memory has */
        }
        (result ? fake_ret : fake_arg)(f, dtype, blocks[i], rank, dims);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    reader r = {data, data + size};
    kb_slot slot = {0};
    kb_slot_attribute attributes[ATTRIBUTES];
    kb_slot_target target;
    for (int n = byte(&r) % 3 + 1; n > 0; n--) {
        fake_frame f;
        void *inputs[BUFFERS] = {0}, *outputs[BUFFERS] = {0};
        bind(&slot, &target, attributes, &r);
        fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
        add_attributes(&f, &target, &r);
        add_buffers(&f, target.n_inputs, false, inputs, &r);
        add_buffers(&f, target.n_outputs, true, outputs, &r);
        now.target = &target;
        now.frame = &f.frame;
        now.calls = 0;
        kb_xla_error *error = slot.handle(&slot, &f.frame);
        require((error == NULL) == (now.calls == 1), "a call ran and failed, or neither");
        require(!error || *error->message, "an error without a message");
        ++*(error ? &counts.refused : &counts.ran);
        fake_error_destroy(error);
        require(fake_errors_alive() == 0, "an error was left");
        for (int i = 0; i < BUFFERS; i++) {
            free(inputs[i]);
            free(outputs[i]);
        }
        fake_frame_free(&f);
    }
    unbind(&slot);
    return 0;
}

bool fuzz_tell(uint64_t n)
{
    printf("fuzz_slot: %llu inputs: %ld calls ran, %ld refused\n", (unsigned long long)n,
           counts.ran, counts.refused);
    return counts.ran && counts.refused;
}
