/* GPU calls for tests: the core's driver is the fake, memory is the host's, and a call is built
 * buffer by buffer and run with any list of steps. */
#ifndef GPU_H
#define GPU_H

#include "cuda/kb_driver.h"
#include "cuda/kb_function.h"
#include "cuda/kb_step.h"
#include "fake_cuda.h"
#include "kb_test.h"
#include "sample.h"

/* First thing in main: has the core open the fake, and sets the plan's runners. */
const kb_driver *gpu_start(void);

/* Makes device 0's context current on this thread, in place of what is. */
void gpu_use_device(int device);

/* A function of one image for compute capability 9.0, "FAKE <entry> <n_words>". Its digest is made
 * of the entry: an entry has one number of words in a program. */
kb_function *gpu_function(const char *entry, uint32_t n_words);

/* A launch of it: grid and block of 1, no words. */
kb_launch_step gpu_launch(const char *entry, uint32_t n_words);

/* op<id>, called on `stream` of `device`. */
typedef struct gpu_call {
    sample s;
    fake_frame f;
    kb_frame frame;
    kb_error err;
    void *stream;
    int device;
    int64_t n_levels;
    int64_t masks[SAMPLE_BUFFERS];
} gpu_call;

/* Without a batch, on a stream of device 0 that all calls share. */
void gpu_call_init(gpu_call *c, uint64_t id);
void gpu_call_free(gpu_call *c);

/* Operands, then results, then hidden results: `rank` axes of its own, behind the `n_dims - rank`
 * of the batch. An operand has the batch levels of `mask`. */
kb_xla_buffer *gpu_arg(gpu_call *c, int32_t dtype, int32_t rank, int64_t n_dims,
                       const int64_t *dims, void *data, int64_t mask);
kb_xla_buffer *gpu_ret(gpu_call *c, int32_t dtype, int32_t rank, int64_t n_dims,
                       const int64_t *dims, void *data);
kb_xla_buffer *gpu_hidden(gpu_call *c, int32_t dtype, int32_t rank, int64_t n_dims,
                          const int64_t *dims, void *data);

/* op1(x: f32[2, 3], n: s16) -> (y: f64[5]; hidden z: u8[7]), each in `memory`, all bytes 0x11,
 * after a reset of the fake. */
enum { GPU_X, GPU_N, GPU_Y, GPU_Z };
typedef char gpu_memory[4][64];
void gpu_call_sample(gpu_call *c, gpu_memory memory);

/* Numbers of a step. */
kb_value gpu_constant(int64_t x, uint32_t divisor);
kb_value gpu_extent(uint32_t buffer, uint32_t axis, uint32_t divisor);
kb_value gpu_count(uint32_t buffer, uint32_t divisor);

/* Reads the frame, so that steps can be run on it. */
kb_status gpu_read(gpu_call *c);

/* Reads the frame and runs the steps as a plan. */
kb_status gpu_run(gpu_call *c, const kb_step *steps, uint32_t n);

/* One step; `wide` only matters in a batch. */
kb_status gpu_run_one(gpu_call *c, kb_step_kind kind, const void *step, bool wide);

#endif
