/* Proves which sizes a launch on the CPU may have, each at its limit and one beyond, that launches
 * are counted, and which ones are alone. */
#include "cuda/kb_stream.h"
#include "ext/emulator/kb_hostcuda.h"
#include "fake_xla.h"
#include "kb_test.h"
#include "torture.h"

#include <pthread.h>
#include <time.h>

enum { THREADS = KB_HOSTCUDA_THREADS_MAX, SHARED = KB_HOSTCUDA_SHARED_MAX };

static int64_t n_blocks;

static void count(void *const *parameters, const uint32_t sizes[6], int64_t begin, int64_t end,
                  const char **outside)
{
    (void)parameters, (void)sizes, (void)outside;
    __atomic_fetch_add(&n_blocks, end - begin, __ATOMIC_RELAXED);
}

static kb_cu_result launch(const uint32_t sizes[6], uint32_t of_kernel, uint32_t dynamic)
{
    const kb_hostcuda_code code = {.blocks = count, .threads = {.shared = of_kernel}};
    char fault[KB_FAULT_SIZE];
    n_blocks = 0;
    return kb_hostcuda_run(&code, sizes, dynamic, NULL, NULL, fault);
}

static void test_sizes(void)
{
    static const uint32_t most[6] = {100000, 65535, 65535, THREADS, THREADS, 64};
    for (int i = 0; i < 6; i++) {
        uint32_t sizes[6] = {1, 1, 1, 1, 1, 1};
        sizes[i] = most[i];
        CHECK_INT(launch(sizes, 0, 0), KB_CU_SUCCESS);
        CHECK_INT(n_blocks, i < 3 ? most[i] : 1);
        sizes[i] = i ? most[i] + 1 : (uint32_t)INT32_MAX + 1;
        CHECK_INT(launch(sizes, 0, 0), KB_CU_INVALID_VALUE);
        sizes[i] = 0;
        CHECK_INT(launch(sizes, 0, 0), KB_CU_INVALID_VALUE);
        CHECK_INT(n_blocks, 0);
    }
    const uint32_t whole[6] = {2, 3, 4, 8, 4, 32}, large[6] = {1, 1, 1, 8, 4, 33};
    CHECK_INT(launch(whole, 0, 0), KB_CU_SUCCESS);
    CHECK_INT(n_blocks, 24);
    CHECK_INT(launch(large, 0, 0), KB_CU_INVALID_VALUE);
}

static void test_shared_memory(void)
{
    static const uint32_t one[6] = {1, 1, 1, 1, 1, 1};
    static const struct {
        uint32_t of_kernel, dynamic;
        bool fits;
    } cases[] = {{0, SHARED, true},      {SHARED, 0, true},     {SHARED - 100, 100, true},
                 {0, SHARED + 1, false}, {SHARED, 1, false},    {SHARED - 100, 101, false},
                 {SHARED + 1, 0, false}, {0, UINT32_MAX, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_INT(launch(one, cases[i].of_kernel, cases[i].dynamic),
                  cases[i].fits ? KB_CU_SUCCESS : KB_CU_INVALID_VALUE);
}

static void nothing(void *const *parameters, kb_thread *thread)
{
    (void)parameters, (void)thread;
}

/* How many threads of a grid may wait for each other. The first block has no memory: what fits is
 * not run. */
static void test_cooperative_grids(void)
{
    static const struct {
        uint32_t sizes[6];
        bool fits;
    } cases[] = {{{64, 1, 1, THREADS, 1, 1}, true},   {{65, 1, 1, THREADS, 1, 1}, false},
                 {{4, 2, 8, 32, 16, 2}, true},        {{4, 2, 9, 32, 16, 2}, false},
                 {{32768, 2, 1, 1, 1, 1}, true},      {{65537, 1, 1, 1, 1, 1}, false},
                 {{65, 1, 1, 1000, 1, 1}, true},      {{66, 1, 1, 1000, 1, 1}, false},
                 {{65535, 65535, 1, 1, 1, 64}, false}};
    const kb_hostcuda_code code = {.threads = {.run = nothing}, .cooperative = true};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char fault[KB_FAULT_SIZE] = "";
        torture_fail_nth(1);
        CHECK_INT(kb_hostcuda_run(&code, cases[i].sizes, 0, NULL, NULL, fault), KB_HOSTCUDA_FAULT);
        torture_fail_nth(0);
        CHECK_TEXT(fault, cases[i].fits
                              ? "no memory for the stacks of a block's threads"
                              : "a cooperative grid has at most 65536 threads on the CPU");
    }
}

static void faulty(void *const *parameters, const uint32_t sizes[6], int64_t begin, int64_t end,
                   const char **outside)
{
    (void)parameters, (void)begin, (void)end;
    *outside = sizes[0] == 2 ? "out" : NULL;
}

/* Launches that run are counted under a name, and those with a fault. */
static void test_counts(void)
{
    static const uint32_t sizes[][6] = {
        {1, 1, 1, 1, 1, 1}, {2, 1, 1, 1, 1, 1}, {0, 1, 1, 1, 1, 1}, {3, 1, 1, 1, 1, 1}};
    char fault[KB_FAULT_SIZE];
    kb_hostcuda_code code = {.blocks = faulty};
    CHECK(!kb_hostcuda_counts("op", NULL));
    kb_stream_set_debug(KB_DEBUG_COUNT_LAUNCHES);
    _Atomic(uint64_t) *counts = code.counts = kb_hostcuda_counts("op", NULL);
    CHECK(counts && counts != kb_hostcuda_counts("op", "kernel"));
    CHECK(counts == kb_hostcuda_counts("op", NULL));
    for (int i = 0; i < 4; i++)
        (void)kb_hostcuda_run(&code, sizes[i], 0, NULL, NULL, fault);
    kb_stream_set_debug(0);
    CHECK_INT((int64_t)counts[0], 3);
    CHECK_INT((int64_t)counts[1], 1);
}

static int64_t n_alone;

static void count_alone(void *const *parameters, const uint32_t sizes[6], int64_t begin,
                        int64_t end, const char **outside)
{
    if (kb_alone())
        __atomic_fetch_add(&n_alone, end - begin, __ATOMIC_RELAXED);
    if (parameters) /* of a launch in whose midst another one begins */
        faulty(NULL, sizes, begin, end, outside);
}

static bool other_ran;

static void run_other(void *const *parameters, const uint32_t sizes[6], int64_t begin, int64_t end,
                      const char **outside)
{
    (void)parameters, (void)sizes, (void)begin, (void)end, (void)outside;
    CHECK(!kb_alone());
    __atomic_store_n(&other_ran, true, __ATOMIC_SEQ_CST);
}

static void *launch_other(void *data)
{
    static const uint32_t one[6] = {1, 1, 1, 1, 1, 1};
    const kb_hostcuda_code code = {.blocks = run_other, .concurrent = true};
    char fault[KB_FAULT_SIZE];
    CHECK_INT(kb_hostcuda_run(&code, one, 0, NULL, data, fault), KB_CU_SUCCESS);
    return NULL;
}

static pthread_t other;

/* Another launch begins, and runs when this one has ended. */
static void run_with_other(void *const *parameters, const uint32_t sizes[6], int64_t begin,
                           int64_t end, const char **outside)
{
    (void)parameters, (void)sizes, (void)begin, (void)end, (void)outside;
    CHECK_INT(pthread_create(&other, NULL, launch_other, NULL), 0);
    const struct timespec a_while = {.tv_nsec = 20 * 1000 * 1000};
    (void)nanosleep(&a_while, NULL);
    CHECK(kb_alone());
    CHECK(!__atomic_load_n(&other_ran, __ATOMIC_SEQ_CST));
}

static void test_another_waits(const kb_xla_frame *xla)
{
    static const uint32_t one[6] = {1, 1, 1, 1, 1, 1};
    const kb_hostcuda_code code = {.blocks = run_with_other, .concurrent = true};
    char fault[KB_FAULT_SIZE];
    CHECK_INT(kb_hostcuda_run(&code, one, 0, NULL, xla, fault), KB_CU_SUCCESS);
    CHECK_INT(pthread_join(other, NULL), 0);
    CHECK(other_ran);
}

/* How many blocks of a launch are told that it is alone. */
static int64_t alone(bool concurrent, uint32_t n, const kb_xla_frame *xla)
{
    static void *const parameters[] = {NULL};
    const kb_hostcuda_code code = {.blocks = count_alone, .concurrent = concurrent};
    const uint32_t sizes[6] = {n, 1, 1, 256, 1, 1};
    char fault[KB_FAULT_SIZE];
    n_alone = 0;
    CHECK_INT(kb_hostcuda_run(&code, sizes, 0, parameters, xla, fault),
              n == 2 ? KB_HOSTCUDA_FAULT : KB_CU_SUCCESS);
    CHECK(!kb_alone());
    return n_alone;
}

/* Launches of a call are alone on one thread, until there is one that no call waits for. */
static void test_alone(void)
{
    fake_frame f;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    fake_pool_set(4, false);
    CHECK_INT(alone(true, 64, &f.frame), 64);
    CHECK_INT(alone(false, 64, &f.frame), 0);
    CHECK_INT(alone(true, 2, &f.frame), 2); /* and fails */
    CHECK_INT(alone(true, 65, &f.frame), 0);
    fake_pool_join();
    fake_pool_set(1, false);
    CHECK_INT(alone(true, 65, &f.frame), 65);
    test_another_waits(&f.frame);
    CHECK_INT(alone(true, 65, &f.frame), 0);
    CHECK_INT(alone(true, 65, NULL), 0);
    CHECK_INT(alone(true, 1, &f.frame), 0);
    fake_frame_free(&f);
}

int main(void)
{
    test_alone();
    test_sizes();
    test_shared_memory();
    test_cooperative_grids();
    test_counts();
    return kb_test_end("test_hostlaunch");
}
