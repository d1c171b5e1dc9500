/* Proves that every allocation on the way of a GPU call may fail: an error comes back, nothing
 * leaks (which AddressSanitizer's leak checker watches), and the same thing done again succeeds. */
#include "allocation.h"
#include "cuda/kb_poison.h"
#include "cuda/kb_program.h"
#include "cuda/kb_stream.h"
#include "cuda/kb_target.h"
#include "target.h"

#include <stdlib.h>

static bool read_program(void)
{
    static const uint8_t digest[KB_DIGEST_SIZE];
    program_text p;
    kb_kernel kernel;
    kb_error err;
    size_t size;
    kb_function_free_all();
    program_init(&p);
    uint8_t *bytes = program_write(&p, digest, &size);
    bool ok = had_memory(kb_program_read(bytes, size, digest, false, &kernel, &err), &err);
    free(bytes);
    if (ok)
        kernel.free_owner(kernel.owner);
    return ok;
}

/* More than what a chunk holds: names and words of their own. */
static bool read_large_program(void)
{
    static char name[5000], entry[3000];
    static const uint8_t digest[KB_DIGEST_SIZE];
    program_text p;
    kb_kernel kernel;
    kb_error err;
    size_t size;
    kb_function_free_all();
    memset(name, 'n', sizeof name - 1);
    memset(entry, 'e', sizeof entry - 1);
    program_init(&p);
    p.name = p.source = name;
    p.functions[0].entry = entry;
    uint8_t *bytes = program_write(&p, digest, &size);
    bool ok = had_memory(kb_program_read(bytes, size, digest, false, &kernel, &err), &err);
    free(bytes);
    if (ok)
        kernel.free_owner(kernel.owner);
    return ok;
}

static bool launch_many_words(void)
{
    static kb_word words[129];
    gpu_call c;
    gpu_call_init(&c, 1);
    kb_launch_step step = gpu_launch("many", 129);
    step.n_words = 129;
    step.words = words;
    bool ok = had_memory(gpu_run_one(&c, KB_STEP_LAUNCH, &step, false), &c.err);
    gpu_call_free(&c);
    return ok;
}

static bool launch_few_words(void)
{
    static kb_word words[128];
    gpu_call c;
    gpu_call_init(&c, 1);
    kb_launch_step step = gpu_launch("few", 128);
    step.n_words = 128;
    step.words = words;
    bool ok = had_memory(gpu_run_one(&c, KB_STEP_LAUNCH, &step, false), &c.err);
    gpu_call_free(&c);
    return ok;
}

/* The functions of both are there, so that loading does not count. */
static void make_functions(void)
{
    kb_function_free_all();
    CHECK(launch_many_words());
    CHECK(launch_few_words());
}

static bool look_for_unwritten(void)
{
    const int64_t dims[] = {1000};
    static float y[2][1000];
    kb_error err;
    gpu_call c;
    gpu_call_init(&c, 1);
    gpu_arg(&c, KB_DTYPE_F32, 1, 1, dims, y[0], 0);
    gpu_ret(&c, KB_DTYPE_F32, 1, 1, dims, y[0]);
    gpu_ret(&c, KB_DTYPE_F32, 1, 1, dims, y[1]);
    const kb_fill_step fill = {.buffer = 2, .item_size = 4, .count = gpu_count(2, 1)};
    const kb_step step = {.kind = KB_STEP_FILL, .other = &fill};
    c.s.kernel.plan = (kb_plan){.n_steps = 1, .steps = &step};
    CHECK_INT(gpu_read(&c), KB_OK);
    bool ok = had_memory(kb_poison_run(kb_driver_get(&err), &c.frame, &err), &err);
    gpu_call_free(&c);
    return ok;
}

/* XLA compiles a call: each time of an operation that is not known. */
static bool instantiate(void)
{
    static uint64_t id = 1000;
    char entry[32];
    program_text p;
    target_call c;
    snprintf(entry, sizeof entry, "entry%d", (int)++id);
    program_simple(&p, id, entry);
    target_call_init(&c, id, &p);
    kb_xla_error *error = kb_target_instantiate(&c.f.frame);
    bool ok = !error;
    if (error) {
        CHECK_INT(error->code, KB_RESOURCE_EXHAUSTED);
        CHECK_HAS(error->message, "no memory");
        fake_error_destroy(error);
        target_expect(kb_target_instantiate, &c, 0, NULL); /* of the same operation */
    }
    target_expect(kb_target_execute, &c, 0, NULL);
    CHECK(target_doubled(&c));
    target_call_free(&c);
    return ok;
}

/* Counting of nodes is for tests: without memory there is no count, and nothing else. */
static void test_count_nodes(void *stream)
{
    kb_error err;
    const kb_driver *cu = kb_driver_get(&err);
    char byte;
    CHECK_INT(fake_cuda_capture_begin(stream), 0);
    CHECK_INT(cu->cuMemsetD8Async((uintptr_t)&byte, 0, 1, stream), 0);
    torture_fail_nth(1);
    CHECK_INT(kb_stream_kernel_nodes(cu, stream), -1);
    CHECK_INT(kb_stream_kernel_nodes(cu, stream), 0);
    CHECK_INT(fake_cuda_capture_end(stream), 0);
}

int main(void)
{
    gpu_start();
    void *stream = fake_cuda_stream_create(0);
    fake_stream_set(stream, false);
    fake_cuda_set_twin("", target_double, NULL);
    each_allocation("program", read_program, 4);
    each_allocation("large program", read_large_program, 6);
    fake_cuda_reset();
    make_functions();
    torture_fail_nth(1);
    CHECK(launch_few_words()); /* takes no memory */
    CHECK(still_armed(1));
    each_allocation("many words", launch_many_words, 1);
    each_allocation("unwritten outputs", look_for_unwritten, 4);
    fake_cuda_set_twin("", target_double, NULL);
    each_allocation("instantiate", instantiate, 4);
    test_count_nodes(stream);
    CHECK_INT(fake_errors_alive(), 0);
    return kb_test_end("test_allocation_cuda");
}
