/* Proves that each element type has the code of DLPack that dlpack.h (version 1.1) gives it. */
#include "core/kb_dtype.h"
#include "core/kb_frame.h"
#include "kb_test.h"
#include "kernbridge/kernbridge.h"
#include "module/kb_source.h"
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
    return kb_test_end("test_tensors");
}
