/* Proves that in a host with GPUs of two kinds a program runs on the device that it has an image
 * for, and fails on the other where it is executed there, with the reason. */
#include "cuda/kb_target.h"
#include "target.h"

#include <stdlib.h>
#include <unistd.h>

static void *streams[2];

static void init(target_call *c, program_text *p, uint64_t id, uint32_t cc)
{
    char entry[32];
    snprintf(entry, sizeof entry, "entry%d", (int)id);
    program_simple(p, id, entry);
    p->functions[0].images[0].cc = cc;
    target_call_init(c, id, p);
}

static void use(int device)
{
    fake_stream_set(streams[device], false);
    gpu_use_device(device);
}

static void check_runs(target_call *c, int device)
{
    use(device);
    target_expect(kb_target_execute, c, 0, NULL);
    CHECK(target_doubled(c));
    target_expect(kb_target_graph_execute, c, 0, NULL);
    CHECK(target_doubled(c));
}

static void check_refused(target_call *c, int device, const char *text)
{
    use(device);
    target_expect(kb_target_execute, c, KB_FAILED_PRECONDITION, text);
    target_expect(kb_target_graph_execute, c, KB_FAILED_PRECONDITION, text);
    CHECK(!target_doubled(c));
}

static void set_active(int first, int second)
{
    fake_cuda_set_active(0, first);
    fake_cuda_set_active(1, second);
}

static void test_image_for_one(void)
{
    program_text p;
    target_call c;
    set_active(1, 1);
    init(&c, &p, 1, 90);
    target_expect(kb_target_instantiate, &c, 0, NULL);
    check_runs(&c, 0);
    check_refused(&c, 1,
                  "simple: compiled for compute capability 9.0, and GPU 1 has 7.5; lower the "
                  "program again on this machine");
    check_runs(&c, 0);
    target_call_free(&c);
    init(&c, &p, 2, 75);
    target_expect(kb_target_graph_instantiate, &c, 0, NULL);
    check_refused(&c, 0, "compiled for compute capability 7.5, and GPU 0 has 9.0");
    check_runs(&c, 1);
    target_call_free(&c);
}

static void test_image_for_both(void)
{
    program_text p;
    target_call c;
    set_active(1, 1);
    init(&c, &p, 3, 90);
    target_call_free(&c);
    p.functions[0].n_images = 2;
    p.functions[0].images[1] = (program_image){.cc = 70, .text = p.image};
    target_call_init(&c, 3, &p);
    target_expect(kb_target_instantiate, &c, 0, NULL);
    check_runs(&c, 0);
    check_runs(&c, 1);
    target_call_free(&c);
}

/* Where no device can run it, XLA is told when it compiles. */
static void test_image_for_none(void)
{
    program_text p;
    target_call c;
    set_active(1, 1);
    init(&c, &p, 4, 120);
    target_expect(kb_target_instantiate, &c, KB_FAILED_PRECONDITION,
                  "compiled for compute capability 12.0, and GPU 0 has 9.0");
    target_call_free(&c);
    set_active(0, 1);
    init(&c, &p, 5, 90);
    target_expect(kb_target_instantiate, &c, KB_FAILED_PRECONDITION, "GPU 1 has 7.5");
    target_call_free(&c);
}

/* Whatever keeps one device from loading the image, the other one runs. */
static void test_one_device_fails_to_load(void)
{
    program_text p;
    target_call c;
    set_active(1, 1);
    init(&c, &p, 6, 0); /* an image of several, of which the driver chooses */
    fake_cuda_fail("cuKernelGetFunction", 2, 209);
    target_expect(kb_target_instantiate, &c, 0, NULL);
    fake_cuda_fail("cuKernelGetFunction", 1, 209);
    use(1);
    target_expect(kb_target_execute, &c, KB_INTERNAL, "cuKernelGetFunction");
    fake_cuda_reset();
    fake_cuda_set_twin("", target_double, NULL);
    check_runs(&c, 0);
    check_runs(&c, 1);
    target_call_free(&c);
}

/* The fake reads its environment when it is loaded, which is before main. */
static void run_with_two_kinds(char **arguments)
{
    if (getenv("FAKE_CUDA_CC"))
        return;
    setenv("FAKE_CUDA_CC", "90,75", 1);
    execv("/proc/self/exe", arguments);
    abort();
}

int main(int n_arguments, char **arguments)
{
    (void)n_arguments;
    run_with_two_kinds(arguments);
    gpu_start();
    streams[0] = fake_cuda_stream_create(0);
    streams[1] = fake_cuda_stream_create(1);
    fake_cuda_set_twin("", target_double, NULL);
    test_image_for_one();
    test_image_for_both();
    test_image_for_none();
    test_one_device_fails_to_load();
    CHECK_INT(fake_errors_alive(), 0);
    return kb_test_end("test_two_kinds");
}
