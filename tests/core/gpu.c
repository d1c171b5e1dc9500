/* Owns the making of GPU calls. */
#include "gpu.h"

#include "core/kb_batch.h"
#include "core/kb_plan.h"
#include "cuda/kb_stream.h"
#include "module/kb_source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *shared_stream;

const kb_driver *gpu_start(void)
{
    kb_error err;
    setenv("KERNBRIDGE_LIBCUDA", FAKE_CUDA_LIBRARY, 1);
    const kb_driver *cu = kb_driver_get(&err);
    if (!CHECK(cu != NULL)) {
        fprintf(stderr, "%s\n", err.message);
        abort();
    }
    kb_plan_runners[KB_STEP_LAUNCH] = kb_launch_run;
    kb_plan_runners[KB_STEP_FILL] = kb_fill_run;
    kb_plan_runners[KB_STEP_COPY] = kb_copy_run;
    shared_stream = fake_cuda_stream_create(0);
    gpu_use_device(0);
    return cu;
}

void gpu_use_device(int device)
{
    kb_error err;
    kb_cu_context popped;
    const kb_driver *cu = kb_driver_get(&err);
    while (fake_cuda_n_contexts() > 0)
        (void)cu->cuCtxPopCurrent(&popped);
    CHECK_INT(cu->cuCtxPushCurrent(fake_cuda_context(device)), KB_CU_SUCCESS);
}

kb_function *gpu_function(const char *entry, uint32_t n_words)
{
    char text[128];
    snprintf(text, sizeof text, "FAKE %.80s %u\n", entry, n_words);
    uint64_t id = 5381;
    for (const char *at = entry; *at; at++)
        id = (id * 33 + (unsigned char)*at) & UINT32_MAX;
    kb_image image = {.cc = 90, .bytes = text, .size = strlen(text)};
    kb_function from = {.entry = entry, .n_words = n_words, .n_images = 1, .images = &image};
    sample_digest(from.digest, id);
    kb_function *function = NULL;
    kb_error err;
    if (!CHECK_INT(kb_function_hold(&from, &function, &err), KB_OK))
        abort();
    return function;
}

kb_launch_step gpu_launch(const char *entry, uint32_t n_words)
{
    const kb_value one = gpu_constant(1, 1);
    return (kb_launch_step){
        .function = gpu_function(entry, n_words),
        .grid = {one, one, one},
        .block = {1, 1, 1},
        .cluster = {1, 1, 1},
    };
}

void gpu_call_init(gpu_call *c, uint64_t id)
{
    memset(c, 0, sizeof *c);
    sample_init(&c->s, id, NULL);
    fake_frame_init(&c->f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    c->stream = shared_stream;
}

void gpu_call_free(gpu_call *c)
{
    fake_frame_free(&c->f);
}

kb_xla_buffer *gpu_arg(gpu_call *c, int32_t dtype, int32_t rank, int64_t n_dims,
                       const int64_t *dims, void *data, int64_t mask)
{
    c->masks[c->s.kernel.n_inputs] = mask;
    sample_input(&c->s, dtype, rank, "x");
    return fake_arg(&c->f, dtype, data, n_dims, dims);
}

kb_xla_buffer *gpu_ret(gpu_call *c, int32_t dtype, int32_t rank, int64_t n_dims,
                       const int64_t *dims, void *data)
{
    sample_output(&c->s, dtype, rank, "y");
    return fake_ret(&c->f, dtype, data, n_dims, dims);
}

kb_xla_buffer *gpu_hidden(gpu_call *c, int32_t dtype, int32_t rank, int64_t n_dims,
                          const int64_t *dims, void *data)
{
    sample_hidden(&c->s, dtype, rank, "z");
    return fake_ret(&c->f, dtype, data, n_dims, dims);
}

void gpu_call_sample(gpu_call *c, gpu_memory memory)
{
    fake_cuda_reset();
    memset(memory, 0x11, sizeof(gpu_memory));
    gpu_call_init(c, 1);
    gpu_arg(c, KB_DTYPE_F32, 2, 2, (const int64_t[]){2, 3}, memory[GPU_X], 0);
    gpu_arg(c, KB_DTYPE_S16, 0, 0, NULL, memory[GPU_N], 0);
    gpu_ret(c, KB_DTYPE_F64, 1, 1, (const int64_t[]){5}, memory[GPU_Y]);
    gpu_hidden(c, KB_DTYPE_U8, 1, 1, (const int64_t[]){7}, memory[GPU_Z]);
}

kb_value gpu_constant(int64_t x, uint32_t divisor)
{
    return (kb_value){.kind = KB_VALUE_CONSTANT, .divisor = divisor, .constant = x};
}

kb_value gpu_extent(uint32_t buffer, uint32_t axis, uint32_t divisor)
{
    return (kb_value){.kind = KB_VALUE_EXTENT, .buffer = buffer, .axis = axis, .divisor = divisor};
}

kb_value gpu_count(uint32_t buffer, uint32_t divisor)
{
    return (kb_value){.kind = KB_VALUE_COUNT, .buffer = buffer, .divisor = divisor};
}

kb_status gpu_read(gpu_call *c)
{
    kb_xla_array *call = sample_call(&c->f, &c->s.kernel, c->n_levels, c->masks);
    kb_status s = kb_frame_read(&c->frame, &c->s.kernel, &c->f.frame, call, &c->err);
    c->frame.driver = kb_driver_get(&c->err);
    c->frame.stream = c->stream;
    c->frame.device = c->device;
    return s;
}

/* A function of a module for the CPU has no driver. */
static bool is_for_cpu(const kb_step *step)
{
    return step->kind == KB_STEP_SOURCE && !((const kb_source_step *)step->other)->cuda;
}

kb_status gpu_run(gpu_call *c, const kb_step *steps, uint32_t n)
{
    c->s.kernel.plan = (kb_plan){.n_steps = n, .steps = steps};
    kb_status s = gpu_read(c);
    if (n > 0 && is_for_cpu(steps))
        c->frame.driver = NULL;
    return s == KB_OK ? kb_batch_run(&c->frame, &c->err) : s;
}

kb_status gpu_run_one(gpu_call *c, kb_step_kind kind, const void *step, bool wide)
{
    const kb_step one = {.kind = kind, .wide = wide, .other = step};
    return gpu_run(c, &one, 1);
}
