/* Proves that the driver of the CPU runs every block of a launch once, on threads of XLA's pool
 * too, fills and copies, and refuses what it cannot run. */
#include "copies.h"
#include "cuda/kb_step.h"
#include "cuda/kb_stream.h"
#include "ext/emulator/kb_hostcuda.h"
#include "fake_xla.h"
#include "kb_test.h"
#include "targets/kb_targets.h"

#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

enum { N_BLOCKS = 24 };

static const char digest[KB_HOSTCUDA_DIGEST + 1] =
    "0123456789012345678901234567890123456789012345678901234567890123";
static const char other[KB_HOSTCUDA_DIGEST + 1] =
    "x123456789012345678901234567890123456789012345678901234567890123";

static _Atomic(int) ran[N_BLOCKS];
static _Atomic(int) wrong;
static int n_compiled;

/* Its one parameter points at a number. */
static const char *left; /* what the kernel says that it would have left */

static void kernel(void *const *parameters, const uint32_t sizes[6], int64_t begin, int64_t end,
                   const char **outside)
{
    if (left && begin == 0)
        *outside = left;
    const uint32_t expected[6] = {2, 3, 4, 64, 8, 2};
    if (*(const int *)parameters[0] != 42 || memcmp(sizes, expected, sizeof expected) != 0)
        atomic_fetch_add(&wrong, 1);
    for (int64_t i = begin; i < end; i++)
        atomic_fetch_add(&ran[i], 1);
}

static kb_cu_kernel load(const char *image)
{
    const kb_driver *cu = &kb_hostcuda_driver;
    kb_cu_library library = NULL;
    kb_cu_kernel found = NULL;
    CHECK_INT(cu->cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0), KB_CU_SUCCESS);
    CHECK_INT(cu->cuLibraryGetKernel(&found, library, "any"), KB_CU_SUCCESS);
    return found;
}

static kb_cu_result launch(kb_cu_kernel k, uint32_t grid_x, uint32_t block_x, void *stream)
{
    int number = 42;
    void *parameters[] = {&number};
    kb_cu_launch how = {.grid = {grid_x, 3, 4}, .block = {block_x, 8, 2}, .stream = stream};
    return kb_hostcuda_driver.cuLaunchKernelEx(&how, (kb_cu_function)k, parameters, NULL);
}

static void test_launch(void)
{
    kb_error err;
    CHECK_INT(kb_hostcuda_add(digest, &(kb_hostcuda_code){.blocks = kernel}, &err), KB_OK);
    CHECK(kb_hostcuda_find(digest) && !kb_hostcuda_find(other));
    CHECK_INT(kb_stream_debug(), 0); /* the code is not checked */
    kb_cu_kernel k = load(digest);
    for (int threads = 0; threads <= 4; threads += 2) {
        fake_frame f;
        fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
        fake_pool_set(threads ? threads : 1, false);
        for (int i = 0; i < N_BLOCKS; i++)
            atomic_store(&ran[i], 0);
        CHECK_INT(launch(k, 2, 64, threads ? (void *)&f.frame : NULL), KB_CU_SUCCESS);
        fake_pool_join();
        for (int i = 0; i < N_BLOCKS; i++)
            CHECK_INT(atomic_load(&ran[i]), 1);
        fake_frame_free(&f);
    }
    CHECK_INT(atomic_load(&wrong), 0);
    left = "'out' (float32[1d])";
    CHECK_INT(launch(k, 2, 64, NULL), KB_HOSTCUDA_FAULT);
    const char *fault = NULL;
    (void)kb_hostcuda_driver.cuGetErrorString(KB_HOSTCUDA_FAULT, &fault);
    CHECK_HAS(fault, "a thread writes to 'out' (float32[1d]) out of bounds; the write was left");
    left = NULL;
    CHECK_INT(launch(k, 0, 64, NULL), 1);
    CHECK_INT(launch(k, 1, 65, NULL), 1); /* 1040 threads */
    const uint32_t too_deep[6] = {1, 1, 1, 1, 1, 65}, too_high[6] = {1, 65536, 1, 1, 1, 1};
    void *none[1] = {NULL};
    CHECK_INT(kb_hostcuda_launch(digest, too_deep, 0, none, NULL, &err), KB_INVALID_ARGUMENT);
    CHECK_HAS(err.message, "at most 64 along z");
    CHECK_INT(kb_hostcuda_launch(digest, too_high, 0, none, NULL, &err), KB_INVALID_ARGUMENT);
}

static void names_the_first(void *const *parameters, const uint32_t sizes[6], int64_t begin,
                            int64_t end, const char **outside)
{
    (void)parameters, (void)sizes, (void)end;
    static const struct timespec pause = {.tv_nsec = 1000000};
    if (begin > 0) /* if other threads run: the first blocks have ended by then */
        (void)nanosleep(&pause, NULL);
    *outside = begin > 0 ? "'later'" : "'first'";
}

/* Of several faults in a launch, the first one is told; of several codes for a digest, the newest
 * one runs. */
static void test_the_first_fault(void)
{
    static const char twice[KB_HOSTCUDA_DIGEST + 1] =
        "y123456789012345678901234567890123456789012345678901234567890123";
    const uint32_t sizes[6] = {N_BLOCKS, 1, 1, 1024, 1, 1};
    void *none[1] = {NULL};
    kb_error err;
    CHECK_INT(kb_hostcuda_add(twice, &(kb_hostcuda_code){.blocks = kernel}, &err), KB_OK);
    CHECK_INT(kb_hostcuda_add(twice, &(kb_hostcuda_code){.blocks = names_the_first}, &err), KB_OK);
    CHECK(kb_hostcuda_find(twice)->blocks == names_the_first);
    CHECK_INT(kb_hostcuda_launch(twice, sizes, 0, none, NULL, &err), KB_INTERNAL);
    CHECK_HAS(err.message, "a thread writes to 'first' out of bounds");
}

static kb_status compile(const char *image, size_t size, kb_error *err)
{
    n_compiled++;
    if (size < KB_HOSTCUDA_DIGEST + 2)
        return kb_error_set(err, KB_INVALID_ARGUMENT, "too short");
    return kb_hostcuda_add(image, &(kb_hostcuda_code){.blocks = kernel}, err);
}

static void write_image(char *bytes, size_t size, const char *line, long abi)
{
    memset(bytes, 0, size);
    snprintf(bytes, size, "%s\n%s%ld\n;", other, line, abi);
}

static void expect_other_abi(const char *line, long abi, const char *text)
{
    char bytes[KB_HOSTCUDA_DIGEST + 64], wanted[256];
    write_image(bytes, sizeof bytes, line, abi);
    const kb_image image = {KB_HOSTCUDA_CC, bytes, sizeof bytes};
    kb_function f = {.n_images = 1, .images = &image};
    kb_error err;
    CHECK_INT(kb_hostcuda_provide(&f, "op", &err), KB_FAILED_PRECONDITION);
    snprintf(wanted, sizeof wanted,
             "op: the program's code for the CPU was generated %s, and this kernbridge has ABI %d: "
             "export the program again with this version",
             text, KB_HOSTCUDA_ABI);
    CHECK_TEXT(err.message, wanted);
}

/* Refused before it is compiled, and where this process knows the code as well. */
static void test_other_abi(void)
{
    n_compiled = 0;
    expect_other_abi(KB_HOSTCUDA_ABI_LINE, 1000, "for ABI 1000 of kernbridge");
    expect_other_abi(KB_HOSTCUDA_ABI_LINE, -7, "for ABI -7 of kernbridge");
    expect_other_abi("define void @kb_blocks() ; ", KB_HOSTCUDA_ABI, "without a number of its ABI");
    char bytes[KB_HOSTCUDA_DIGEST + 2] = {0}; /* which ends behind the digest */
    memcpy(bytes, other, KB_HOSTCUDA_DIGEST);
    const kb_image image = {KB_HOSTCUDA_CC, bytes, KB_HOSTCUDA_DIGEST + 1};
    kb_function f = {.n_images = 1, .images = &image};
    kb_error err;
    CHECK_INT(kb_hostcuda_provide(&f, "op", &err), KB_FAILED_PRECONDITION);
    CHECK_HAS(err.message, "without a number of its ABI");
    CHECK_INT(n_compiled, 0);
}

static void test_provide(void)
{
    char bytes[KB_HOSTCUDA_DIGEST + 32];
    write_image(bytes, sizeof bytes, KB_HOSTCUDA_ABI_LINE, KB_HOSTCUDA_ABI);
    const kb_image images[] = {{90, "cubin", 6}, {KB_HOSTCUDA_CC, bytes, sizeof bytes}};
    kb_function f = {.n_images = 1, .images = images};
    kb_error err;
    kb_cu_library library;
    CHECK_INT(kb_hostcuda_driver.cuLibraryLoadData(&library, other, NULL, NULL, 0, NULL, NULL, 0),
              200);
    CHECK_INT(kb_hostcuda_provide(&f, "op", &err), KB_FAILED_PRECONDITION);
    CHECK_HAS(err.message, "op: the program has no code for the CPU");
    f.n_images = 2;
    kb_hostcuda_compile = NULL;
    CHECK_INT(kb_hostcuda_provide(&f, "op", &err), KB_FAILED_PRECONDITION);
    CHECK_HAS(err.message, "op: nothing here compiles");
    kb_hostcuda_compile = compile;
    CHECK_INT(kb_hostcuda_provide(&f, "op", &err), KB_OK);
    CHECK_INT(kb_hostcuda_provide(&f, "op", &err), KB_OK);
    CHECK_INT(n_compiled, 1);
    CHECK(load(other) != NULL);
    bytes[sizeof bytes - 1] = 'x'; /* a text that does not end */
    CHECK_INT(kb_hostcuda_provide(&f, "op", &err), KB_FAILED_PRECONDITION);
}

static kb_status loaded = KB_OK;
static int n_loaded;

static kb_status load_code(const char *ir, const void *bytes, size_t size, const char *what,
                           kb_error *err)
{
    n_loaded++;
    CHECK(size == 4 && memcmp(bytes, "code", size) == 0);
    CHECK_TEXT(what, "op");
    if (loaded == KB_OK)
        return kb_hostcuda_add(ir, &(kb_hostcuda_code){.blocks = kernel}, err);
    return kb_error_set(err, loaded, "op: it does not fit");
}

/* Machine code is loaded in place of a compile, which is asked for where it cannot run. */
static void test_provide_code(void)
{
    char bytes[KB_HOSTCUDA_DIGEST + 32];
    write_image(bytes, sizeof bytes, KB_HOSTCUDA_ABI_LINE, KB_HOSTCUDA_ABI);
    const kb_image images[] = {{KB_HOSTCUDA_CODE_CC, "code", 4},
                               {KB_HOSTCUDA_CC, bytes, sizeof bytes}};
    kb_function f = {.n_images = 2, .images = images};
    const struct {
        kb_status loaded;
        bool compiler;
        kb_status expected;
        int n_compiled;
        const char *text;
    } cases[] = {
        {KB_OK, true, KB_OK, 0, NULL},
        {KB_FAILED_PRECONDITION, true, KB_OK, 1, NULL},
        {KB_FAILED_PRECONDITION, false, KB_FAILED_PRECONDITION, 0,
         "op: it does not fit. Nor can the kernel be compiled again: op: nothing here compiles"},
        {KB_INVALID_ARGUMENT, true, KB_INVALID_ARGUMENT, 0, "op: it does not fit"},
    };
    kb_hostcuda_load = load_code;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kb_error err;
        bytes[0] = (char)('p' + i); /* a digest that nobody knows */
        loaded = cases[i].loaded;
        n_loaded = n_compiled = 0;
        kb_hostcuda_compile = cases[i].compiler ? compile : NULL;
        CHECK_INT(kb_hostcuda_provide(&f, "op", &err), cases[i].expected);
        CHECK_INT(n_loaded, 1);
        CHECK_INT(n_compiled, cases[i].n_compiled);
        if (cases[i].text)
            CHECK_HAS(err.message, cases[i].text);
    }
    kb_hostcuda_load = NULL;
}

static void test_memory(void)
{
    const kb_driver *cu = &kb_hostcuda_driver;
    unsigned char bytes[16] = {0}, moved[16] = {0};
    kb_cu_address to = (kb_cu_address)(uintptr_t)bytes;
    CHECK_INT(cu->cuMemsetD8Async(to, 7, 3, NULL), KB_CU_SUCCESS);
    CHECK_INT(cu->cuMemsetD16Async(to + 4, 0x0201, 2, NULL), KB_CU_SUCCESS);
    CHECK_INT(cu->cuMemsetD2D32Async(to + 8, 4, 0x04030201, 1, 2, NULL), KB_CU_SUCCESS);
    const unsigned char expected[16] = {7, 7, 7, 0, 1, 2, 1, 2, 1, 2, 3, 4, 1, 2, 3, 4};
    CHECK_INT(memcmp(bytes, expected, sizeof bytes), 0);
    CHECK_INT(cu->cuMemcpyDtoDAsync((kb_cu_address)(uintptr_t)moved, to, 16, NULL), KB_CU_SUCCESS);
    CHECK_INT(memcmp(moved, expected, sizeof moved), 0);
    unsigned char out[2], in[2] = {9, 8};
    CHECK_INT(cu->cuMemcpyDtoHAsync(out, to, 2, NULL), KB_CU_SUCCESS);
    CHECK_INT(out[1], 7);
    CHECK_INT(cu->cuMemcpyHtoDAsync(to, in, 2, NULL), KB_CU_SUCCESS);
    CHECK_INT(bytes[1], 8);
}

static _Atomic(int) sums[N_BLOCKS];
#ifdef KB_FIBRE_TSAN /* which takes most of a millisecond for each fibre */
enum { N_IN_BLOCK = 36 };
#else
enum { N_IN_BLOCK = 200 };
#endif

/* One thread of a block: all add to a place that is shared, and the first tells the sum. */
static void add_up(void *const *parameters, kb_thread *t)
{
    uint32_t *s = (uint32_t *)(void *)t->shared;
    uint32_t block = t->ctaid[0] + 2 * (t->ctaid[1] + 3 * t->ctaid[2]);
    if (t->index == 0)
        *s = *(const uint32_t *)parameters[0];
    kb_barrier(t, 0);
    *s += t->index + block;
    kb_barrier(t, 1);
    if (t->index == 1)
        atomic_store(&sums[block], (int)*s);
    if (*(const uint32_t *)parameters[0] == 13 && block == 7 && t->index == 0)
        kb_block_fail(t, "was told to");
}

static const char strange[] = "z123456789012345678901234567890123456789012345678901234567890123";
static const char threads_digest[] =
    "y123456789012345678901234567890123456789012345678901234567890123";

static void test_threads(void)
{
    kb_error err;
    const kb_hostcuda_code code = {.threads = {.run = add_up, .shared = 8, .stack = 64}};
    CHECK_INT(kb_hostcuda_add(threads_digest, &code, &err), KB_OK);
    uint32_t number = 42;
    void *parameters[] = {&number};
    const uint32_t sizes[6] = {2, 3, 4, N_IN_BLOCK / 4, 4, 1};
    for (int threads = 0; threads <= 4; threads += 2) {
        fake_frame f;
        fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
        fake_pool_set(threads ? threads : 1, false);
        memset((void *)sums, 0, sizeof sums);
        CHECK_INT(kb_hostcuda_launch(threads_digest, sizes, 0, parameters,
                                     threads ? &f.frame : NULL, &err),
                  KB_OK);
        fake_pool_join();
        for (int i = 0; i < N_BLOCKS; i++)
            CHECK_INT(atomic_load(&sums[i]),
                      42 + N_IN_BLOCK * (N_IN_BLOCK - 1) / 2 + N_IN_BLOCK * i);
        fake_frame_free(&f);
    }
    number = 13;
    CHECK_INT(kb_hostcuda_launch(threads_digest, sizes, 0, parameters, NULL, &err), KB_INTERNAL);
    CHECK_HAS(err.message, "block (1, 0, 1), thread (0, 0, 0): was told to");
    kb_cu_kernel k = load(threads_digest);
    kb_cu_launch how = {.grid = {2, 3, 4}, .block = {N_IN_BLOCK / 4, 4, 1}};
    kb_cu_result failed =
        kb_hostcuda_driver.cuLaunchKernelEx(&how, (kb_cu_function)k, parameters, NULL);
    CHECK_INT(failed, 9001);
    kb_driver_fail(&err, &kb_hostcuda_driver, failed, "cuLaunchKernelEx", "op");
    CHECK_HAS(err.message, "op: block (");
    char name[32];
    CHECK_TEXT(kb_entry_name("_ZN10kernbridge18scale_0123456789abB2v1B8cwExx", name, sizeof name),
               "scale");
    CHECK_TEXT(kb_entry_name("_ZN10kernbridge5scaleExx", name, sizeof name),
               "_ZN10kernbridge5scaleExx");
    CHECK_TEXT(kb_entry_name("_ZN10kernbridge99scale_0123456789ab", name, sizeof name),
               "_ZN10kernbridge99scale_01234567");
    CHECK_TEXT(kb_entry_name("_ZN10kernbridge13_0123456789abE", name, sizeof name),
               "_ZN10kernbridge13_0123456789abE");
    CHECK_TEXT(kb_entry_name("_ZN10kernbridge14k_0123456789abE", name, sizeof name), "k");
    /* No module's, one that is as long as the rest, and hashes that are none. */
    static const char *const names[][2] = {
        {"_ZN10kernbridgf14k_0123456789ab", "_ZN10kernbridgf14k_0123456789ab"},
        {"_ZN10kernbridge14k_0123456789ab", "k"},
        {"_ZN10kernbridge15k_0123456789ab", "_ZN10kernbridge15k_0123456789ab"},
        {"_ZN10kernbridge14k_cdef01234567cd", "k"},
        {"_ZN10kernbridge15kk_0123456789ab", "kk"},
        {"_ZN10kernbridge14kk0123456789abE", "_ZN10kernbridge14kk0123456789abE"},
        {"_ZN10kernbridge14k_g123456789abE", "_ZN10kernbridge14k_g123456789abE"},
        {"_ZN10kernbridge14k_0123456789agE", "_ZN10kernbridge14k_0123456789agE"},
        {"_ZN10kernbridge14_k0123456789abE", "_ZN10kernbridge14_k0123456789abE"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char whole[64];
        CHECK_TEXT(kb_entry_name(names[i][0], whole, sizeof whole), names[i][1]);
    }
    CHECK_TEXT(kb_entry_name("scale", name, sizeof name), "scale");
    CHECK_HAS(err.message, "was told to");
    how.shared = 227 * 1024;
    CHECK_INT(kb_hostcuda_driver.cuLaunchKernelEx(&how, (kb_cu_function)k, parameters, NULL), 1);
    int value = 0;
    CHECK_INT(kb_hostcuda_driver.cuKernelGetAttribute(&value, KB_CU_KERNEL_STATIC_SHARED, k, 0), 0);
    CHECK_INT(value, 8);
    CHECK_INT(kb_hostcuda_launch(strange, sizes, 0, parameters, NULL, &err), KB_NOT_FOUND);
}

/* Each thread of a grid tells all others its number, twice; one block ends early. */
static atomic_int n_counted;

static void count_and_fail(void *const *parameters, kb_thread *t)
{
    (void)parameters;
    atomic_fetch_add(&n_counted, 1);
    kb_block_fail(t, "at once");
}

/* What has not begun when a block fails, or is interrupted, does not begin. */
static void test_a_fault_ends_the_launch(void)
{
    const kb_hostcuda_code code = {.threads = {.run = count_and_fail, .stack = 64}};
    const uint32_t sizes[6] = {20000, 1, 1, 1, 1, 1}; /* many parts */
    char fault[KB_FAULT_SIZE] = "";
    CHECK_INT(kb_hostcuda_run(&code, sizes, 0, NULL, NULL, fault), KB_HOSTCUDA_FAULT);
    CHECK_HAS(fault, "block (0, 0, 0), thread (0, 0, 0): at once");
    CHECK_INT(atomic_load(&n_counted), 1);
}

static void tell_all(void *const *parameters, kb_thread *t)
{
    uint32_t *told = parameters[0], *seen = parameters[1];
    uint32_t n = t->nctaid[0] * t->ntid[0], i = t->ctaid[0] * t->ntid[0] + t->index;
    for (uint32_t round = 1; round <= 2; round++) {
        told[i] = i * round;
        kb_grid_barrier(t, 0);
        uint32_t sum = 0;
        for (uint32_t k = 0; k < n; k++)
            sum += told[k];
        seen[i] = sum;
        kb_barrier(t, 1);
        kb_grid_barrier(t, 2);
    }
    if (t->ctaid[0] == 1 || t->index == 7)
        return;
    kb_grid_barrier(t, 3);
}

static const char grid_digest[] =
    "g123456789012345678901234567890123456789012345678901234567890123";

static void test_cooperative(void)
{
    kb_error err;
    const kb_hostcuda_code code = {.threads = {.run = tell_all, .stack = 64}, .cooperative = true};
    CHECK_INT(kb_hostcuda_add(grid_digest, &code, &err), KB_OK);
    uint32_t told[200] = {0}, totals[200] = {0};
    void *parameters[] = {told, totals};
    uint32_t sizes[6] = {5, 1, 1, 40, 1, 1};
    CHECK_INT(kb_hostcuda_launch(grid_digest, sizes, 0, parameters, NULL, &err), KB_OK);
    for (int i = 0; i < 200; i++)
        CHECK_INT(totals[i], 2 * 199 * 200 / 2);
    sizes[0] = 65536 / 40 + 1;
    memset(totals, 0, sizeof totals);
    CHECK_INT(kb_hostcuda_launch(grid_digest, sizes, 0, parameters, NULL, &err), KB_INTERNAL);
    CHECK_HAS(err.message, "at most 65536 threads");
    for (int i = 0; i < 200; i++)
        CHECK_INT(totals[i], 0); /* no thread of it has run */
}

static void test_words(void)
{
    kb_error err;
    const kb_driver *cu = &kb_hostcuda_driver;
    kb_driver_fail(&err, cu, 1, "cuLaunchKernelEx", "op");
    CHECK_HAS(err.message, "CUDA_ERROR_INVALID_VALUE");
    CHECK_HAS(err.message, "1 to 1024 threads");
    kb_driver_fail(&err, cu, 200, "cuLibraryLoadData", "op");
    CHECK_HAS(err.message, "CUDA_ERROR_INVALID_IMAGE");
    int value = -1;
    CHECK_INT(cu->cuDeviceGetAttribute(&value, KB_CU_DEVICE_CC_MAJOR, KB_DEVICE_HOST), 0);
    CHECK_INT(value, KB_HOSTCUDA_CC / 10);
}

/* No code that programs carry is loaded before targets are registered. */
static void test_before_targets(void)
{
    char ir[KB_HOSTCUDA_DIGEST + 64] = "";
    memset(ir, 'a', KB_HOSTCUDA_DIGEST);
    (void)snprintf(ir + KB_HOSTCUDA_DIGEST, 64, "\n%s%d\n", KB_HOSTCUDA_ABI_LINE, KB_HOSTCUDA_ABI);
    const kb_image images[] = {{KB_HOSTCUDA_CC, ir, sizeof ir}, {KB_HOSTCUDA_CODE_CC, "KBCC", 4}};
    const kb_function function = {.entry = "f", .n_images = 2, .images = images};
    kb_error err;
    CHECK_INT(kb_hostcuda_provide(&function, "op", &err), KB_FAILED_PRECONDITION);
    CHECK_HAS(err.message, "op: nothing here compiles a CUDA kernel for the CPU");
    kb_targets_begin();
    CHECK_INT(kb_hostcuda_provide(&function, "op", &err), KB_INVALID_ARGUMENT);
    CHECK_HAS(err.message, "is damaged");
    kb_hostcuda_load = NULL;
}

static _Atomic(int) ran_there, ran_here;

static void count_there(bool is_there)
{
    CHECK(!is_there || pthread_mutex_trylock(&there.lock) != 0);
    atomic_fetch_add(is_there ? &ran_there : &ran_here, 1);
}

#define COUNTERS(place, is_there)                                                                  \
    static void blocks_##place(void *const *parameters, const uint32_t sizes[6], int64_t begin,    \
                               int64_t end, const char **outside)                                  \
    {                                                                                              \
        (void)parameters, (void)sizes, (void)outside;                                              \
        for (int64_t i = begin; i < end; i++)                                                      \
            count_there(is_there);                                                                 \
    }                                                                                              \
    static void run_##place(void *const *parameters, kb_thread *t)                                 \
    {                                                                                              \
        (void)parameters, (void)t;                                                                 \
        count_there(is_there);                                                                     \
    }                                                                                              \
    static uint32_t loop_##place(void *const *parameters, kb_thread *threads,                      \
                                 const uint32_t index[3], uint32_t first)                          \
    {                                                                                              \
        (void)parameters, (void)threads, (void)index, (void)first;                                 \
        count_there(is_there);                                                                     \
        return 0;                                                                                  \
    }
COUNTERS(here, false)
COUNTERS(there, true)

static void test_variables(void)
{
    static const uint32_t three[6] = {3, 1, 1, 1, 1, 1};
    const struct {
        kb_hostcuda_code code;
        ptrdiff_t offset;
    } pairs[] = {
        {{.blocks = blocks_here},
         (const char *)(uintptr_t)blocks_there - (const char *)(uintptr_t)blocks_here},
        {{.threads = {.run = run_here, .stack = 4096}},
         (const char *)(uintptr_t)run_there - (const char *)(uintptr_t)run_here},
        {{.threads = {.loop = loop_here, .stack = 4096}},
         (const char *)(uintptr_t)loop_there - (const char *)(uintptr_t)loop_here},
    };
    for (int i = 0; i < 3; i++) {
        kb_hostcuda_code code = pairs[i].code;
        char fault[KB_FAULT_SIZE] = "";
        fake_frame f;
        code.variables = &variables;
        there.offset = pairs[i].offset;
        ran_there = ran_here = 0;
        fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
        has_copy = false;
        CHECK_INT(kb_hostcuda_run(&code, three, 0, NULL, &f.frame, fault), KB_HOSTCUDA_FAULT);
        CHECK_TEXT(fault, "no copy");
        CHECK_PTR(entered_for, &f.frame);
        CHECK_INT(ran_there + ran_here, 0);
        has_copy = true;
        CHECK_INT(kb_hostcuda_run(&code, three, 0, NULL, NULL, fault), KB_CU_SUCCESS);
        CHECK_PTR(entered_for, NULL);
        CHECK_INT(ran_there, 3);
        CHECK_INT(ran_here, 0);
        CHECK_INT(pthread_mutex_trylock(&there.lock), 0);
        CHECK_INT(pthread_mutex_unlock(&there.lock), 0);
        code.variables = NULL;
        CHECK_INT(kb_hostcuda_run(&code, three, 0, NULL, NULL, fault), KB_CU_SUCCESS);
        CHECK_INT(ran_here, 3);
        fake_frame_free(&f);
    }
}

int main(void)
{
    test_before_targets();
    test_launch();
    test_the_first_fault();
    test_other_abi();
    test_provide();
    test_provide_code();
    test_other_abi();
    test_memory();
    test_threads();
    test_a_fault_ends_the_launch();
    test_cooperative();
    test_words();
    test_variables();
    return kb_test_end("test_hostcuda");
}
