/* Proves that each element type has the code of DLPack that dlpack.h (version 1.1) gives it, that
 * every field of a tensor is written, and how many need memory of their own. */
#include "core/kb_dtype.h"
#include "core/kb_frame.h"
#include "kb_test.h"
#include "kernbridge/kernbridge.h"
#include "module/kb_source.h"
#include "module/kb_tensors.h"
#include "sample.h"

static int code;

static int look(const kb_call *call)
{
    code = call->inputs[0].dl_dtype.code;
    return 0;
}

static int code_of(int32_t dtype)
{
    const kb_source_step step = {.run = look};
    static char memory[16];
    sample s;
    fake_frame f;
    kb_frame frame;
    kb_error err;
    code = -1;
    sample_init(&s, 1, NULL);
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    sample_input(&s, dtype, 0, "x");
    fake_arg(&f, dtype, memory, 0, NULL);
    CHECK_INT(kb_frame_read(&frame, &s.kernel, &f.frame, sample_call(&f, &s.kernel, 0, NULL), &err),
              KB_OK);
    CHECK_INT(kb_source_run(&step, &frame, &err), KB_OK);
    fake_frame_free(&f);
    return code;
}

/* Describes `n` inputs of so many dimensions of 2 in all, the last of them `last`. */
static kb_status describe(uint32_t n, int64_t n_dims, int64_t last, bool cuda, kb_tensors *tensors,
                          kb_error *err)
{
    static float memory[64];
    sample s;
    fake_frame f;
    sample_init(&s, 1, NULL);
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    for (uint32_t i = 0; i < n; i++) {
        int64_t rank = n_dims / (n - i), dims[8];
        n_dims -= rank;
        for (int64_t d = 0; d < rank; d++)
            dims[d] = i + 1 == n && d + 1 == rank ? last : 2;
        sample_input(&s, KB_DTYPE_F32, (int32_t)rank, "x");
        fake_arg(&f, KB_DTYPE_F32, &memory[i], rank, dims);
    }
    const kb_frame frame = {.kernel = &s.kernel,
                            .xla = &f.frame,
                            .inputs = f.frame.args.buffers,
                            .outputs = f.frame.rets.buffers,
                            .device = 3,
                            .n_slices = 1};
    memset(tensors, 0xFF, sizeof *tensors);
    kb_status status = kb_tensors_open(tensors, &frame, cuda, err);
    for (uint32_t i = 0; status == KB_OK && i < n; i++) {
        const kb_tensor *t = &tensors->list[i];
        const kb_xla_buffer *buffer = f.frame.args.buffers[i];
        int64_t count = 1;
        CHECK_PTR(t->data, &memory[i]);
        CHECK_INT(t->device.type, cuda ? KB_DEVICE_CUDA : KB_DEVICE_CPU);
        CHECK_INT(t->device.ordinal, cuda ? 3 : 0);
        CHECK_INT(t->ndim, buffer->rank);
        CHECK(t->dl_dtype.code == 2 && t->dl_dtype.bits == 32 && t->dl_dtype.lanes == 1);
        CHECK_PTR(t->shape, buffer->dims);
        for (int32_t d = t->ndim - 1; d >= 0; count *= t->shape[d--])
            CHECK_INT(t->strides[d], count);
        CHECK_INT(t->size, count);
        CHECK_INT(t->byte_offset, 0);
        CHECK_INT(t->type, KB_TYPE_FLOAT32);
        CHECK_INT(t->reserved, 0);
        if (i > 0) /* one behind the other */
            CHECK_PTR(t->strides, t[-1].strides + t[-1].ndim);
    }
    fake_frame_free(&f);
    return status;
}

static void test_memory(void)
{
    static const struct {
        uint32_t n;
        int64_t n_dims;
        bool allocates;
    } cases[] = {{1, 1, false},
                 {KB_TENSORS_INLINE, 2, false},
                 {KB_TENSORS_INLINE, KB_STRIDES_INLINE, false},
                 {KB_TENSORS_INLINE, KB_STRIDES_INLINE + 1, true},
                 {KB_TENSORS_INLINE + 1, 0, true},
                 {KB_TENSORS_INLINE + 1, KB_STRIDES_INLINE + 1, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int cuda = 0; cuda < 2; cuda++) {
            kb_tensors tensors;
            kb_error err;
            CHECK_INT(describe(cases[i].n, cases[i].n_dims, 2, cuda, &tensors, &err), KB_OK);
            CHECK_INT(tensors.allocated != NULL, cases[i].allocates);
            kb_tensors_close(&tensors);
        }
}

/* What was taken for tensors of which one is refused is given back, which LeakSanitizer proves. */
static void test_refused(void)
{
    kb_tensors tensors;
    kb_error err;
    CHECK_INT(describe(KB_TENSORS_INLINE + 4, 30, -1, false, &tensors, &err), KB_INVALID_ARGUMENT);
    CHECK_TEXT(err.message, "op1: input 19 has an extent that is negative or too large [KB3007]");
}

int main(void)
{
    static const struct {
        int32_t dtype;
        int code;
    } all[] = {
        {KB_DTYPE_S1, 0},          {KB_DTYPE_S2, 0},          {KB_DTYPE_U1, 1},
        {KB_DTYPE_U2, 1},          {KB_DTYPE_S4, 0},          {KB_DTYPE_S8, 0},
        {KB_DTYPE_S16, 0},         {KB_DTYPE_S32, 0},         {KB_DTYPE_S64, 0},
        {KB_DTYPE_U4, 1},          {KB_DTYPE_U8, 1},          {KB_DTYPE_U16, 1},
        {KB_DTYPE_U32, 1},         {KB_DTYPE_U64, 1},         {KB_DTYPE_F16, 2},
        {KB_DTYPE_F32, 2},         {KB_DTYPE_F64, 2},         {KB_DTYPE_BF16, 4},
        {KB_DTYPE_C64, 5},         {KB_DTYPE_C128, 5},        {KB_DTYPE_PRED, 6},
        {KB_DTYPE_F8E3M4, 7},      {KB_DTYPE_F8E4M3, 8},      {KB_DTYPE_F8E4M3B11FNUZ, 9},
        {KB_DTYPE_F8E4M3FN, 10},   {KB_DTYPE_F8E4M3FNUZ, 11}, {KB_DTYPE_F8E5M2, 12},
        {KB_DTYPE_F8E5M2FNUZ, 13}, {KB_DTYPE_F8E8M0FNU, 14},  {KB_DTYPE_F4E2M1FN, 17},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        CHECK_INT(code_of(all[i].dtype), all[i].code);
    test_memory();
    test_refused();
    return kb_test_end("test_tensors");
}
