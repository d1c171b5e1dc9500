/* Proves the stages of a GPU program on the CPU: its code is compiled when XLA compiles the call,
 * and what the execution finds wrong is an error of the call. */
#include "ext/emulator/kb_check.h"
#include "ext/emulator/kb_guard.h"
#include "ext/emulator/kb_hostcuda.h"
#include "ext/emulator/kb_spread.h"
#include "target.h"

#include "core/kb_handler.h"
#include "cuda/kb_stream.h"

#include <stdio.h>
#include <stdlib.h>

_Static_assert(_Generic(&kb_hostcuda_launch, fake_cuda_execute * : 1, default : 0) &&
                   (int)FAKE_CUDA_DIGEST == (int)KB_HOSTCUDA_DIGEST,
               "the fake executes with kb_hostcuda_launch");

enum { IMAGE_SIZE = KB_HOSTCUDA_DIGEST + 32 };

static int n_compiled;
static bool is_fresh; /* what a checked kernel has seen of its output */
static bool writes_input;

/* Doubles, as target_double. */
static void double_all(void *const *parameters, const uint32_t sizes[6], int64_t begin, int64_t end,
                       const char **outside)
{
    (void)sizes, (void)end, (void)outside;
    if (begin == 0)
        target_double(NULL, "", NULL, NULL, 0, 3,
                      (const uint64_t[]){*(const uint64_t *)parameters[0],
                                         *(const uint64_t *)parameters[1],
                                         *(const uint64_t *)parameters[2]});
}

/* Looks at its output before it doubles. */
static void double_checked(void *const *parameters, kb_thread *thread)
{
    uint64_t output = *(const uint64_t *)parameters[1];
    if (thread->index != 0)
        return;
    is_fresh = kb_unwritten_find(output, sizeof(float) * TARGET_N) != NULL;
    double_all(parameters, NULL, 0, 0, NULL);
    if (writes_input)
        **(float *const *)parameters[0] = 0;
}

static bool is_apart;

/* The same of CUDA C++, whose arrays lie far apart for the call. */
static void double_apart(void *const *parameters, kb_thread *thread)
{
    enum { LEAST = 30 }; /* bits */
    uint64_t from = *(const uint64_t *)parameters[0], to = *(const uint64_t *)parameters[1];
    is_apart = (from > to ? from - to : to - from) >> LEAST != 0;
    double_checked(parameters, thread);
}

static kb_status compile(const char *image, size_t size, kb_error *err)
{
    static const kb_hostcuda_code apart = {
        .threads = {.run = double_apart, .stack = 256, .checked = &kb_spread_launches}};
    static const kb_check_table table = {.kernel = "kernel"};
    static const kb_hostcuda_code checked = {
        .threads = {.run = double_checked, .stack = 256, .checked = &table}};
    (void)size;
    n_compiled++;
    if (image[0] == 'D')
        return kb_hostcuda_add(image, &apart, err);
    if (image[0] == 'C')
        return kb_hostcuda_add(image, &checked, err);
    return kb_hostcuda_add(image, &(kb_hostcuda_code){.blocks = double_all}, err);
}

static void write_image(char image[IMAGE_SIZE + 1], int letter)
{
    memset(image, letter, KB_HOSTCUDA_DIGEST);
    snprintf(image + KB_HOSTCUDA_DIGEST, IMAGE_SIZE + 1 - KB_HOSTCUDA_DIGEST, "\n%s%d",
             KB_HOSTCUDA_ABI_LINE, KB_HOSTCUDA_ABI);
}

/* With an image that ends behind so many characters. */
static void init(target_call *c, uint64_t id, int n_characters)
{
    static char image[IMAGE_SIZE + 1];
    program_text p;
    program_simple(&p, id, "entry");
    write_image(image, 'a' + (int)id);
    image[n_characters] = '\0';
    p.functions[0].images[0] = (program_image){.cc = KB_HOSTCUDA_CC, .text = image};
    target_call_init(c, id, &p);
}

static void test_runs(void)
{
    target_call c;
    init(&c, 1, IMAGE_SIZE);
    target_expect(kb_emulator.targets[0].instantiate, &c, 0, NULL);
    target_expect(kb_emulator.targets[0].instantiate, &c, 0, NULL);
    CHECK_INT(n_compiled, 1);
    target_expect(kb_emulator.targets[0].execute, &c, 0, NULL);
    CHECK(target_doubled(&c));
    kb_stream_set_debug(KB_DEBUG_POISON);
    target_expect(kb_emulator.targets[0].execute, &c, 0, NULL);
    CHECK(target_doubled(&c));
    kb_stream_set_debug(0);
    c.f.frame.args.size = 0; /* the frame is not that of the kernel */
    target_expect(kb_emulator.targets[0].execute, &c, KB_INVALID_ARGUMENT, "simple");
    CHECK(!target_doubled(&c));
    target_call_free(&c);
}

static void test_refused(void)
{
    target_call c;
    init(&c, 2, KB_HOSTCUDA_DIGEST - 1);
    target_expect(kb_emulator.targets[0].instantiate, &c, KB_FAILED_PRECONDITION,
                  "simple: the program has no code for the CPU");
    target_call_free(&c);
    init(&c, 7, 8);
    target_expect(kb_emulator.targets[0].instantiate, &c, KB_FAILED_PRECONDITION,
                  "no code for the CPU");
    target_expect(kb_emulator.targets[0].execute, &c, KB_INTERNAL,
                  "cuLibraryLoadData"); /* of another one */
    kb_stream_set_debug(KB_DEBUG_CHECKED);
    target_expect(kb_emulator.targets[0].execute, &c, KB_INTERNAL, "cuLibraryLoadData");
    kb_stream_set_debug(0);
    target_call_free(&c);
    kb_hostcuda_compile = NULL;
    init(&c, 3, IMAGE_SIZE);
    target_expect(kb_emulator.targets[0].instantiate, &c, KB_FAILED_PRECONDITION,
                  "simple: nothing here compiles a CUDA kernel for the CPU");
    target_call_free(&c);
}

/* A call whose kernel another one brings, in either order of instantiation. */
static void test_elsewhere(void)
{
    target_call carrier, call, strange;
    init(&carrier, 4, IMAGE_SIZE);
    target_call_init(&call, 4, NULL);
    fake_attr_remove(&call.f, "digest");
    bool yes = true;
    fake_attr_scalar(&call.f, "elsewhere", KB_DTYPE_PRED, &yes, sizeof yes);
    carrier.f.frame.args.size = carrier.f.frame.rets.size = 0;
    int before = n_compiled;
    target_expect(kb_emulator.targets[0].instantiate, &call, 0, NULL);
    target_expect(kb_emulator.targets[0].execute, &call, KB_NOT_FOUND,
                  "not registered in this process");
    target_expect(kb_handler_idle, &carrier, 0, NULL);
    CHECK_INT(n_compiled, before);
    target_expect(kb_emulator.targets[0].instantiate, &carrier, 0, NULL);
    CHECK_INT(n_compiled, before + 1);
    target_expect(kb_handler_idle, &carrier, 0, NULL);
    carrier.f.frame.args.size = carrier.f.frame.rets.size = 1;
    CHECK(!target_doubled(&carrier));
    target_expect(kb_emulator.targets[0].execute, &call, 0, NULL);
    CHECK(target_doubled(&call));
    target_expect(kb_emulator.targets[0].instantiate, &call, 0, NULL);

    target_call_init(&strange, 5, NULL);
    fake_attr_remove(&strange.f, "call");
    fake_attr_scalar(&strange.f, "elsewhere", KB_DTYPE_PRED, &yes, sizeof yes);
    target_expect(kb_emulator.targets[0].instantiate, &strange, KB_INVALID_ARGUMENT,
                  "without its key");
    target_call_free(&strange);
    target_call_free(&call);
    target_call_free(&carrier);
}

/* A call of a loaded program, which XLA executes without instantiating it. */
static void test_not_instantiated(void)
{
    target_call call;
    init(&call, 6, IMAGE_SIZE);
    int before = n_compiled;
    target_expect(kb_emulator.targets[0].execute, &call, 0, NULL);
    CHECK(target_doubled(&call));
    CHECK_INT(n_compiled, before + 1);
    target_call_free(&call);
}

enum { ALL_CHECKED, LAST_IS_NOT, FIRST_IS_NOT, N_MIXTURES };

/* A fill of y's first element and a checked launch; and a launch that is not. */
static void init_checked(target_call *c, uint64_t id, int mixture)
{
    static char images[2][IMAGE_SIZE + 1];
    program_text p;
    program_simple(&p, id, "entry");
    write_image(images[0], 'C');
    write_image(images[1], 'U');
    p.functions[0].images[0] = (program_image){.cc = KB_HOSTCUDA_CC, .text = images[0]};
    p.functions[1] = p.functions[0];
    p.functions[1].id = id + 1;
    p.functions[1].images[0].text = images[1];
    int first = mixture == FIRST_IS_NOT;
    p.steps[1] = p.steps[2] = p.steps[0];
    p.steps[first ? 0 : 2].function = 1;
    p.steps[first] = (program_step){
        .kind = KB_STEP_FILL,
        .fill = {.buffer = 1, .item_size = sizeof(float), .count = gpu_constant(1, 1)}};
    p.n_functions = 2;
    p.n_steps = mixture == ALL_CHECKED ? 2 : 3;
    target_call_init(c, id, &p);
}

/* What nothing has written is known where every launch is checked, whatever other steps there are;
 * inputs are compared where that is asked for. */
static void test_checked(void)
{
    for (int mixture = 0; mixture < N_MIXTURES; mixture++) {
        target_call c;
        init_checked(&c, 20 + 10 * (uint64_t)mixture, mixture);
        target_expect(kb_emulator.targets[0].instantiate, &c, 0, NULL);
        CHECK(kb_stream_debug() & KB_DEBUG_CHECKED);
        bool all = mixture == ALL_CHECKED; /* the entry of this test says nothing of its writes */
        const char *unwritten = "no thread wrote 7 of the 8 elements of output 0 (y), the first of "
                                "them element 1";
        target_expect(kb_emulator.targets[0].execute, &c, KB_INTERNAL, all ? unwritten : NULL);
        CHECK(target_doubled(&c));
        CHECK_INT(is_fresh, all);
        writes_input = true;
        target_expect(kb_emulator.targets[0].execute, &c, KB_INTERNAL, all ? unwritten : NULL);
        CHECK(c.x[0] == 0);
        kb_stream_set_debug(KB_DEBUG_INPUTS);
        c.x[0] = 1;
        target_expect(kb_emulator.targets[0].execute, &c, KB_INTERNAL,
                      "simple: the kernel wrote to input 0");
        CHECK(c.x[0] == 1);
        writes_input = false;
        kb_stream_set_debug(0);
        target_call_free(&c);
    }
}

static void test_spread(void)
{
    static char image[IMAGE_SIZE + 1];
    target_call c;
    program_text p;
    program_simple(&p, 60, "entry");
    write_image(image, 'D');
    p.functions[0].images[0] = (program_image){.cc = KB_HOSTCUDA_CC, .text = image};
    target_call_init(&c, 60, &p);
    target_expect(kb_emulator.targets[0].instantiate, &c, 0, NULL);
    kb_stream_set_debug(KB_DEBUG_CHECKED);
    is_fresh = false;
    target_expect(kb_emulator.targets[0].execute, &c, KB_INTERNAL,
                  "no thread wrote 8 of the 8 elements");
    CHECK(is_apart && is_fresh);
    CHECK(target_doubled(&c));
    kb_stream_set_debug(0);
    target_call_free(&c);
}

/* XLA records no graph of calls on the CPU. */
static void test_metadata(void)
{
    kb_xla_handler *const handlers[] = {kb_emulator.targets[0].instantiate,
                                        kb_emulator.targets[0].execute};
    for (int i = 0; i < 2; i++) {
        fake_frame f;
        fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
        fake_ask_metadata(&f);
        CHECK(handlers[i](&f.frame) == NULL);
        CHECK_INT(f.metadata.traits, 0);
        fake_frame_free(&f);
    }
}

int main(void)
{
    kb_hostcuda_compile = compile;
    test_metadata();
    test_runs();
    test_checked();
    test_spread();
    test_not_instantiated();
    test_elsewhere();
    test_refused();
    CHECK_INT(fake_errors_alive(), 0);
    return kb_test_end("test_target_host");
}
