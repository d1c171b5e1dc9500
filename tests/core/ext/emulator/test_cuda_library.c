/* Proves that a library of CUDA C++ for the CPU gets what it may call, that its kernel runs by
 * launches and by its own, that the arrays of a checked call are moved, and that bytes which are
 * damaged or of another version are refused. */
#include "core/kb_batch.h"
#include "cuda/kb_stream.h"
#include "ext/emulator/kb_cuda_code.h"
#include "gpu.h"
#include "module/kb_module.h"
#include "module/kb_source.h"
#include "sealed.h"
#include "targets/kb_targets.h"
#include "torture.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 1 << 20, N = 32, BLOCKS = 3, COLUMNS = 8 };

static uint8_t room[ROOM];
static uint32_t results[BLOCKS][N][COLUMNS];
static int32_t failing = -1; /* the thread that fails */
static void *results_at = results;
static void *const parameters[] = {&results_at, &failing};
static const uint32_t sizes[6] = {BLOCKS, 1, 1, N, 1, 1};
static char digest[KB_HOSTCUDA_DIGEST];
static kb_error err;

/* An image with the library of a file; its size. */
static size_t image_of(const char *path, uint32_t version, uint32_t cooperative)
{
    uint8_t *at = room + SEALED_BODY;
    sealed_begin(room, KB_CUDA_LIBRARY_MAGIC, version);
    sealed_put_u32(&at, cooperative);
    FILE *file = fopen(path, "rb");
    if (!file)
        abort();
    size_t size = (size_t)(at - room) + fread(at, 1, (size_t)(room + ROOM - at), file);
    fclose(file);
    sealed_sign(room, size, digest, sizeof digest);
    return size;
}

static kb_status load(const char *path, uint32_t version, uint32_t cooperative)
{
    digest[0]++;
    size_t size = image_of(path, version, cooperative);
    kb_status s = kb_cuda_code_load(digest, room, size, "a sample", &err);
    const kb_hostcuda_code *code = kb_hostcuda_find(digest);
    CHECK_INT(code != NULL, s == KB_OK);
    if (s == KB_OK)
        CHECK_INT(((const kb_cuda_kernel *)code->owner)->n_parameters, 2);
    return s;
}

static void check_results(bool cooperative, uint32_t dynamic_shared)
{
    for (uint32_t block = 0; block < BLOCKS; block++)
        for (uint32_t i = 0; i < N; i++) {
            const uint32_t *got = results[block][i], mirrored = N - 1 - i;
            CHECK_INT(got[0], mirrored * mirrored);
            CHECK_INT(got[1], 11);
            CHECK_INT(got[2], i == N - 1 ? i : i + 1);
            CHECK_INT(got[3], 0xAAAAAAAA);
            CHECK_INT(got[4], UINT32_C(15) << (i / 4 * 4));
            CHECK(got[5] >> i & 1);
            CHECK_INT(got[6], cooperative ? mirrored * mirrored : dynamic_shared);
            CHECK_INT(got[7], 1);
        }
    memset(results, 0, sizeof results);
}

static void test_launches(void)
{
    for (uint32_t cooperative = 0; cooperative < 2; cooperative++) {
        CHECK_INT(load(SAMPLE, KB_HOSTCUDA_ABI, cooperative), KB_OK);
        CHECK_INT(kb_hostcuda_launch(digest, sizes, 4 * N, parameters, NULL, &err), KB_OK);
        check_results(cooperative, 4 * N);
    }
    const uint32_t most = 227 * 1024; /* what a loop has of its own is not counted */
    CHECK_INT(load(SAMPLE, KB_HOSTCUDA_ABI, 0), KB_OK);
    CHECK_INT(kb_hostcuda_launch(digest, sizes, most, parameters, NULL, &err), KB_OK);
    check_results(false, most);
    CHECK_INT(load(SAMPLE, KB_HOSTCUDA_ABI, 1), KB_OK);
    failing = 7;
    CHECK_INT(kb_hostcuda_launch(digest, sizes, 4 * N, parameters, NULL, &err), KB_INTERNAL);
    CHECK_HAS(err.message, "thread (7, 0, 0): the sample fails");
    failing = -1;
    CHECK_INT(kb_hostcuda_launch(digest, sizes, 4 * N, parameters, NULL, &err), KB_OK);
    check_results(true, 4 * N);
}

/* A module gets what it may call when its description is read, and one of another version is
 * refused then. */
static void test_described(void)
{
    void *library = NULL;
    const kb_module *module = NULL;
    CHECK_INT(kb_module_open(SAMPLE_OF_ANOTHER_SLOT, &library, &err), KB_OK);
    CHECK_INT(kb_module_describe(library, &module, &err), KB_INVALID_ARGUMENT);
    CHECK_HAS(err.message, "the module was built from CUDA C++ for version ");
    if (!CHECK_INT(kb_module_open(SAMPLE, &library, &err), KB_OK))
        return;
    const kb_cuda_host_slot_type *slot = dlsym(library, "kb_cuda_host_slot");
    CHECK(slot && !slot->functions);
    CHECK_INT(kb_module_describe(library, &module, &err), KB_OK);
    CHECK(slot && slot->functions);
}

/* The functions of a module launch kernels themselves. */
static void test_own_launches(void)
{
    void *library = dlopen(SAMPLE, RTLD_NOW | RTLD_LOCAL);
    int (*launch)(const kb_cuda_launch *, char[]) = NULL;
    void *found = library ? dlsym(library, "sample_launch") : NULL;
    if (!CHECK(found != NULL) || !CHECK_INT(kb_cuda_host_connect(library, &err), KB_OK))
        return;
    memcpy(&launch, &found, sizeof found);
    char fault[KB_CUDA_FAULT_SIZE] = "";
    kb_cuda_launch how = {.sizes = {BLOCKS, 1, 1, N, 1, 1}, .parameters = parameters};
    for (how.cooperative = 0; how.cooperative < 2; how.cooperative++) {
        how.shared = how.cooperative ? 0 : 4 * N;
        how.fixed_shared = 4 * N - how.shared;
        CHECK_INT(launch(&how, fault), 0);
        check_results(how.cooperative, how.shared);
    }
    how.cooperative = 0;
    how.shared = 4 * N;
    failing = 3;
    CHECK_INT(launch(&how, fault), 2);
    CHECK_HAS(fault, "launch of sample, grid (3, 1, 1), block (32, 1, 1): block (");
    CHECK_HAS(fault, "thread (3, 0, 0): the sample fails");
    memcpy(how.sizes, (uint32_t[6]){2, 3, 4, 7, 6, 5}, sizeof how.sizes);
    CHECK_INT(launch(&how, fault), 2);
    CHECK_HAS(fault, "launch of sample, grid (2, 3, 4), block (7, 6, 5): block (");
    memcpy(how.sizes, (uint32_t[6]){BLOCKS, 1, 1, N, 1, 1}, sizeof how.sizes);
    failing = -1;
    how.sizes[3] = 2048;
    CHECK_INT(launch(&how, fault), 1);
}

static const kb_cuda_host *functions;

static kb_status run_function(kb_source_function *run, void *x)
{
    gpu_call c;
    gpu_call_init(&c, 1);
    gpu_arg(&c, KB_DTYPE_F32, 1, 1, (int64_t[]){3}, x, 0);
    const kb_source_step step = {.run = run};
    kb_kernel kernel = {.name = "op1", .source = ""};
    kb_step plan;
    CHECK_INT(kb_source_plan(&step, NULL, &kernel, &plan, &err), KB_OK);
    kb_status s = gpu_run(&c, kernel.plan.steps, kernel.plan.n_steps);
    err = c.err;
    kernel.free_owner(kernel.owner);
    gpu_call_free(&c);
    return s;
}

/* A launch in a call, which fails with the fault of the launch, whatever it says afterwards. */
static const kb_cuda_kernel *launched;
static int code_of_function;
static bool fails_before;

static int launching_function(const kb_call *call)
{
    char fault[KB_CUDA_FAULT_SIZE] = "";
    const kb_cuda_launch how = {.sizes = {BLOCKS, 1, 1, N, 1, 1},
                                .shared = 4 * N,
                                .loop = launched->loop,
                                .parameters = parameters,
                                .name = "sample"};
    if (fails_before)
        (void)call->services->fail(call, KB_INVALID_ARGUMENT, "said before");
    CHECK_INT(functions->launch(call, &how, fault), failing < 0 ? 0 : 2);
    if (failing >= 0)
        (void)call->services->fail(call, KB_INVALID_ARGUMENT, "said behind");
    return code_of_function;
}

static void test_launch_in_a_call(void)
{
    float x[3] = {0};
    void *library = dlopen(SAMPLE, RTLD_NOW | RTLD_LOCAL);
    const kb_cuda_host_slot_type *slot = library ? dlsym(library, "kb_cuda_host_slot") : NULL;
    launched = library ? dlsym(library, "kb_cuda_kernel_description") : NULL;
    if (!CHECK(slot && launched) || !CHECK_INT(kb_cuda_host_connect(library, &err), KB_OK))
        return;
    functions = slot->functions;
    CHECK_INT(run_function(launching_function, x), KB_OK);
    check_results(false, 4 * N);
    for (failing = 5; failing < 7; failing++)
        for (code_of_function = 0; code_of_function < 2; code_of_function++) {
            CHECK_INT(run_function(launching_function, x), KB_INTERNAL);
            CHECK_HAS(err.message, "op1: launch of sample, grid (3, 1, 1), block (32, 1, 1): ");
            CHECK_HAS(err.message, failing == 5 ? "thread (5, 0, 0)" : "thread (6, 0, 0)");
            CHECK_HAS(err.message, "KB3004");
        }
    fails_before = true;
    CHECK_INT(run_function(launching_function, x), KB_INVALID_ARGUMENT);
    CHECK_HAS(err.message, "op1: said before");
    CHECK_HAS(err.message, "KB3005");
    failing = -1;
    code_of_function = 0;
}

/* Launches and faults by the names of the operation and the kernel, while they are counted. */
static void check_counts(const char *name, uint64_t launches, uint64_t faults)
{
    const kb_launches *l = kb_hostcuda_launches;
    while (l && strcmp(l->name, name) != 0)
        l = l->next;
    CHECK_INT(l != NULL, launches > 0);
    CHECK(!l || (l->counts[0] == launches && l->counts[1] == faults));
}

static void test_counts(void)
{
    float x[3] = {0};
    char fault[KB_FAULT_SIZE];
    fails_before = false;
    check_counts("op1: sample", 0, 0);
    kb_stream_set_debug(KB_DEBUG_COUNT_LAUNCHES);
    CHECK_INT(load(SAMPLE, KB_HOSTCUDA_ABI, 0), KB_OK);
    CHECK_INT(run_function(launching_function, x), KB_OK);
    failing = 4;
    CHECK_INT(kb_hostcuda_run(kb_hostcuda_find(digest), sizes, 4 * N, parameters, NULL, fault),
              KB_HOSTCUDA_FAULT);
    CHECK_INT(run_function(launching_function, x), KB_INTERNAL);
    CHECK_INT(run_function(launching_function, x), KB_INTERNAL);
    kb_stream_set_debug(0);
    CHECK_INT(run_function(launching_function, x), KB_INTERNAL);
    failing = -1;
    check_counts("a sample", 1, 1);
    check_counts("op1: sample", 3, 2);
}

/* A checked kernel, whose second thread reads what the first one has handed over or not. */
static float *handed;
static bool has_fence;
static float variable;

static void hand_over(kb_thread *t, uint32_t i)
{
    if (i == 1)
        functions->access(t, &variable, 4, KB_CUDA_ATOMIC, "");
    if (i == 1 && has_fence)
        functions->fence(t);
    functions->access(t, handed, 4, i == 0 ? KB_CUDA_WRITE : KB_CUDA_READ, "");
    if (i == 0)
        *handed = 4;
    if (i == 0 && has_fence)
        functions->fence(t);
    if (i == 0)
        functions->access(t, &variable, 4, KB_CUDA_ATOMIC, "");
}

static uint32_t checked_loop(void *const *given, kb_cuda_thread *threads, const uint32_t index[3],
                             uint32_t first)
{
    (void)given, (void)index;
    for (uint32_t i = first; i < 2; i++)
        hand_over((kb_thread *)(void *)((char *)threads + (size_t)i * functions->thread_size), i);
    return 1;
}

static uint32_t unchecked_loop(void *const *given, kb_cuda_thread *threads, const uint32_t index[3],
                               uint32_t first)
{
    (void)given, (void)index, (void)first;
    functions->fence((kb_thread *)(void *)threads); /* of which nobody hears */
    return 1;
}

static int handing_function(const kb_call *call)
{
    char fault[KB_CUDA_FAULT_SIZE] = "";
    kb_cuda_launch how = {.sizes = {1, 1, 1, 2, 1, 1}, .loop = unchecked_loop, .name = "hands"};
    CHECK_INT(functions->launch(call, &how, fault), 0);
    how.loop = checked_loop;
    how.checked = 1;
    void *entered = functions->enter(call);
    handed = call->outputs[0].data;
    CHECK_INT(functions->launch(call, &how, fault), has_fence ? 0 : 2);
    functions->leave(call, entered);
    return KB_OK;
}

static void test_fences(void)
{
    float x[] = {1, 2, 3};
    for (int i = 0; i < 2; i++) {
        gpu_call c;
        gpu_call_init(&c, 1);
        gpu_ret(&c, KB_DTYPE_F32, 1, 1, (int64_t[]){3}, x);
        const kb_source_step step = {.run = handing_function};
        kb_kernel kernel = {.name = "op1", .source = ""};
        kb_step plan;
        has_fence = i;
        CHECK_INT(kb_source_plan(&step, NULL, &kernel, &plan, &err), KB_OK);
        CHECK_INT(gpu_run(&c, kernel.plan.steps, kernel.plan.n_steps),
                  has_fence ? KB_OK : KB_INTERNAL);
        if (!has_fence)
            CHECK_HAS(c.err.message, "a data race: it reads element [0] of 'y' (f32[3])");
        kernel.free_owner(kernel.owner);
        gpu_call_free(&c);
    }
}

/* Buffers of a call whose kernel has no names for them are called by what they are. */
static uint32_t reading_loop(void *const *given, kb_cuda_thread *threads, const uint32_t index[3],
                             uint32_t first)
{
    (void)given, (void)index, (void)first;
    functions->access((kb_thread *)(void *)threads, handed + 3, 4, KB_CUDA_READ, "");
    return 1;
}

static bool reads_output;

static int reading_function(const kb_call *call)
{
    char fault[KB_CUDA_FAULT_SIZE] = "";
    const kb_cuda_launch how = {
        .sizes = {1, 1, 1, 1, 1, 1}, .loop = reading_loop, .name = "reads", .checked = 1};
    void *entered = functions->enter(call);
    handed = reads_output ? call->outputs[0].data : (float *)(uintptr_t)call->inputs[0].data;
    CHECK_INT(functions->launch(call, &how, fault), 2);
    functions->leave(call, entered);
    return KB_OK;
}

static void test_without_names(void)
{
    float x[3] = {0}, y[3] = {0};
    for (int i = 0; i < 2; i++) {
        gpu_call c;
        gpu_call_init(&c, 1);
        gpu_arg(&c, KB_DTYPE_F32, 1, 1, (int64_t[]){3}, x, 0);
        gpu_ret(&c, KB_DTYPE_F32, 1, 1, (int64_t[]){3}, y);
        const kb_source_step step = {.run = reading_function};
        kb_kernel kernel = {.name = "op1", .source = ""};
        kb_step plan;
        CHECK_INT(kb_source_plan(&step, NULL, &kernel, &plan, &err), KB_OK);
        CHECK_INT(gpu_read(&c), KB_OK);
        c.s.kernel.buffers = NULL;
        c.s.kernel.plan = kernel.plan;
        c.frame.driver = NULL;
        reads_output = i;
        CHECK_INT(kb_batch_run(&c.frame, &c.err), KB_INTERNAL);
        CHECK_HAS(c.err.message, i ? "reads 'output' (f32[3]) out of bounds"
                                   : "reads 'input' (f32[3]) out of bounds");
        kernel.free_owner(kernel.owner);
        gpu_call_free(&c);
    }
}

/* Without memory for the arrays of a checked call, the call fails. */
static int entering_function(const kb_call *call)
{
    torture_arm(TORTURE_MEMORY, 1, true);
    void *entered = functions->enter(call);
    (void)torture_disarm();
    CHECK_PTR(entered, NULL);
    functions->leave(call, entered);
    return KB_RESOURCE_EXHAUSTED;
}

static void test_no_memory_to_enter(void)
{
    float x[3] = {0};
    CHECK_INT(run_function(entering_function, x), KB_RESOURCE_EXHAUSTED);
    CHECK_HAS(err.message, "op1: no memory to check accesses");
}

/* A program brings its library, or machine code: the first bytes tell which. */
static void test_provided(void)
{
    digest[0]++;
    const size_t size = image_of(SAMPLE, KB_HOSTCUDA_ABI, 0);
    kb_targets_begin();
    char text[KB_HOSTCUDA_DIGEST + 64];
    memcpy(text, digest, KB_HOSTCUDA_DIGEST);
    (void)snprintf(text + KB_HOSTCUDA_DIGEST, sizeof text - KB_HOSTCUDA_DIGEST, "\n%s%d",
                   KB_HOSTCUDA_ABI_LINE, KB_HOSTCUDA_ABI);
    const kb_image images[] = {{KB_HOSTCUDA_CC, text, strlen(text) + 1},
                               {KB_HOSTCUDA_CODE_CC, room, size}};
    const kb_function f = {.n_images = 2, .images = images};
    CHECK_INT(kb_hostcuda_provide(&f, "op1", &err), KB_OK);
    CHECK(kb_hostcuda_find(digest) != NULL);
    CHECK_INT(kb_hostcuda_launch(digest, sizes, 4 * N, parameters, NULL, &err), KB_OK);
    check_results(false, 4 * N);
    text[0]++;
    room[0] = 'X'; /* no library, so it is taken for machine code */
    CHECK_INT(kb_hostcuda_provide(&f, "op1", &err), KB_INVALID_ARGUMENT);
    CHECK_HAS(err.message, "op1: the machine code of a kernel for the CPU is damaged");
}

/* What checked code does around its launches: the second input is also the first output, and what
 * is written to the first one is lost. */
static int checked_function(const kb_call *call)
{
    enum { APART = 32 }; /* the bits of the least distance between arrays */
    void *entered = functions->enter(call);
    if (!entered)
        return KB_RESOURCE_EXHAUSTED;
    float *x = call->inputs[0].data, *y = call->inputs[1].data, *z = call->outputs[1].data;
    CHECK_PTR(y, call->outputs[0].data);
    CHECK((uintptr_t)x >> APART != (uintptr_t)y >> APART);
    CHECK((uintptr_t)y >> APART != (uintptr_t)z >> APART);
    for (int i = 0; i < 3; i++) {
        z[i] = 10 * x[i] + y[i];
        y[i] = -y[i];
        x[i] = 0;
    }
    functions->leave(call, entered);
    return KB_OK;
}

static void test_checked_call(void)
{
    void *library = dlopen(SAMPLE, RTLD_NOW | RTLD_LOCAL);
    const kb_cuda_host_slot_type *slot = library ? dlsym(library, "kb_cuda_host_slot") : NULL;
    if (!CHECK(slot != NULL) || !CHECK_INT(kb_cuda_host_connect(library, &err), KB_OK))
        return;
    functions = slot->functions;
    float x[] = {1, 2, 3}, y[] = {4, 5, 6}, z[] = {0, 0, 0};
    gpu_call c;
    gpu_call_init(&c, 1);
    gpu_arg(&c, KB_DTYPE_F32, 1, 1, (int64_t[]){3}, x, 0);
    gpu_arg(&c, KB_DTYPE_F32, 1, 1, (int64_t[]){3}, y, 0);
    gpu_ret(&c, KB_DTYPE_F32, 1, 1, (int64_t[]){3}, y);
    gpu_ret(&c, KB_DTYPE_F32, 1, 1, (int64_t[]){3}, z);
    const kb_source_step step = {.run = checked_function};
    kb_kernel kernel = {.name = "op1", .source = ""};
    kb_step plan;
    CHECK_INT(kb_source_plan(&step, NULL, &kernel, &plan, &err), KB_OK);
    CHECK_INT(gpu_run(&c, kernel.plan.steps, kernel.plan.n_steps), KB_OK);
    kernel.free_owner(kernel.owner);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(x[i], i + 1);
        CHECK_INT(y[i], -4 - i);
        CHECK_INT(z[i], 10 * (i + 1) + 4 + i);
    }
    gpu_call_free(&c);
}

static void refused_as(const char *image, const uint8_t *bytes, size_t size, const void *owner)
{
    char expected[128];
    (void)snprintf(expected, sizeof expected, "a sample: the %s is damaged", image);
    CHECK_INT(kb_cuda_code_load(owner, bytes, size, "a sample", &err), KB_INVALID_ARGUMENT);
    CHECK_HAS(err.message, expected);
}

static const char library_image[] = "library of a CUDA kernel for the CPU",
                  code_image[] = "machine code of a kernel for the CPU";

static void refused(const uint8_t *bytes, size_t size, const void *owner)
{
    refused_as(memcmp(bytes, "KBCL", 4) == 0 ? library_image : code_image, bytes, size, owner);
}

static void test_refused(void)
{
    CHECK_INT(load(SAMPLE, KB_HOSTCUDA_ABI + 1, 0), KB_FAILED_PRECONDITION);
    CHECK_HAS(err.message, "was built for ABI 2 of kernbridge, and this kernbridge has ABI 1");
    CHECK_INT(load(SAMPLE_OF_ANOTHER_SLOT, KB_HOSTCUDA_ABI, 0), KB_FAILED_PRECONDITION);
    CHECK_HAS(err.message, "build it again (in a sample)");
    CHECK_INT(load(SAMPLE_OF_ANOTHER_KERNEL, KB_HOSTCUDA_ABI, 0), KB_FAILED_PRECONDITION);
    CHECK_HAS(err.message, "has no kernel of this version (in a sample)");
    CHECK_INT(load(LIBRARY_SAMPLE, KB_HOSTCUDA_ABI, 0), KB_FAILED_PRECONDITION);
    CHECK_HAS(err.message, "has no kernel of this version (in a sample)");
    size_t size = image_of(SAMPLE, KB_HOSTCUDA_ABI, 0);
    sealed_each_flip(room, size, 1999, digest, refused);
    digest[0]++;
    refused(room, size, digest); /* whole, and of another kernel */
}

/* Bytes that are no library, and a system that has no memory for one. */
static void test_not_opened(void)
{
    CHECK_INT(load("/dev/null", KB_HOSTCUDA_ABI, 0), KB_FAILED_PRECONDITION);
    CHECK_HAS(err.message, "file too short (in a sample)");
    kb_status s = KB_RESOURCE_EXHAUSTED;
    long n = 0;
    while (s == KB_RESOURCE_EXHAUSTED) {
        torture_fail_nth(++n);
        s = load(SAMPLE, KB_HOSTCUDA_ABI, 0);
        torture_fail_nth(0);
        if (s != KB_OK)
            CHECK_HAS(err.message, "no memory");
    }
    CHECK_INT(s, KB_OK);
    CHECK(n > 1);
}

static void test_format(void)
{
    static const char *const libraries[] = {"KBCL", "KBCLx"};
    static const char *const others[] = {"KBC", "KBCM", "KBCK", "KBCC", ""};
    for (int i = 0; i < 2; i++)
        refused_as(library_image, (const uint8_t *)libraries[i], strlen(libraries[i]), digest);
    for (int i = 0; i < 5; i++)
        refused_as(code_image, (const uint8_t *)others[i], strlen(others[i]), digest);
    refused_as(code_image, (const uint8_t *)"KBCL", 3, digest);
}

int main(void)
{
    memset(digest, 'a', sizeof digest);
    test_format();
    test_launches();
    test_described();
    test_own_launches();
    gpu_start();
    test_launch_in_a_call();
    test_counts();
    test_checked_call();
    test_fences();
    test_no_memory_to_enter();
    test_without_names();
    test_provided();
    test_refused();
    test_not_opened();
    return kb_test_end("test_cuda_library");
}
