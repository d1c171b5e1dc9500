/* Proves that threads of a block wait for each other as CUDA says: barriers and their forms,
 * operations of warps, ends of threads; that what can never go on ends with a fault, and that the
 * block's memory serves the next one. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sigaltstack */
#endif
#include "ext/emulator/kb_hostcuda.h"
#include "kb_test.h"
#include "torture.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FULL = -1 };

static uint32_t out[4][1024];
static const uint32_t one_block[6] = {1, 1, 1, 96, 1, 1};

/* The first block of a cooperative grid, by itself. */
static bool run_in_grid(kb_block *b, void *const *parameters)
{
    bool well = true;
    kb_block_begin(b, parameters, (const uint32_t[3]){0, 0, 0});
    while (well && b->n_live)
        well = kb_block_go_on(b);
    return well;
}

static bool run_either(kb_block_entry *entry, const uint32_t sizes[6], uint32_t shared,
                       bool is_cooperative, char *fault)
{
    kb_block_code code = {.run = entry, .shared = shared, .stack = 256};
    kb_block *b = kb_block_take(&code, sizes, 64);
    CHECK(b != NULL);
    void *parameters[] = {out};
    bool ended = is_cooperative ? run_in_grid(b, parameters)
                                : kb_block_run_range(b, parameters, sizes, 0, 1);
    if (!ended)
        memcpy(fault, b->fault, KB_FAULT_SIZE);
    kb_block_give_back(b);
    return ended;
}

static bool run(kb_block_entry *entry, const uint32_t sizes[6], uint32_t shared, char *fault)
{
    return run_either(entry, sizes, shared, false, fault);
}

static void sum(void *const *parameters, kb_thread *t)
{
    uint32_t *s = (uint32_t *)(void *)t->shared, *to = parameters[0];
    s[t->index] = t->index * t->index;
    for (uint32_t k = 64; k; k /= 2) {
        kb_barrier(t, k);
        if (t->index < k && t->index + k < t->ntid[0])
            s[t->index] += s[t->index + k];
    }
    kb_barrier(t, 0);
    to[t->index] = s[0];
}

static void test_barriers(void)
{
    for (uint32_t n = 1; n <= 128; n += 31) {
        uint32_t sizes[6] = {1, 1, 1, n, 1, 1};
        CHECK(run(sum, sizes, 128 * 4, NULL));
        for (uint32_t i = 0; i < n; i++)
            CHECK_INT(out[0][i], (n - 1) * n * (2 * n - 1) / 6);
    }
}

static void reduce(void *const *parameters, kb_thread *t)
{
    uint32_t(*to)[1024] = parameters[0];
    to[0][t->index] = kb_barrier_reduce(t, KB_REDUCE_COUNT, t->index % 3 == 0, 1);
    to[1][t->index] = kb_barrier_reduce(t, KB_REDUCE_AND, t->index < 96, 2) * 10 +
                      kb_barrier_reduce(t, KB_REDUCE_AND, t->index != 5, 3);
    to[2][t->index] = kb_barrier_reduce(t, KB_REDUCE_OR, t->index == 95, 4) * 10 +
                      kb_barrier_reduce(t, KB_REDUCE_OR, t->index == 96, 5);
    if (t->index >= 40)
        return; /* who has ended is not waited for */
    to[3][t->index] = kb_barrier_reduce(t, KB_REDUCE_COUNT, 1, 6);
}

static void test_reductions(void)
{
    CHECK(run(reduce, one_block, 0, NULL));
    for (int i = 0; i < 96; i++) {
        CHECK_INT(out[0][i], 32);
        CHECK_INT(out[1][i], 10);
        CHECK_INT(out[2][i], 10);
        if (i < 40)
            CHECK_INT(out[3][i], 40);
    }
}

static void places(void *const *parameters, kb_thread *t)
{
    uint32_t(*to)[1024] = parameters[0];
    to[0][t->index] = t->tid[0] + 100 * t->tid[1] + 10000 * t->tid[2];
    to[1][t->index] = t->lane;
    to[2][t->index] = t->dynamic_shared;
}

static void test_places(void)
{
    const uint32_t sizes[6] = {1, 1, 1, 5, 3, 4};
    CHECK(run(places, sizes, 0, NULL));
    for (uint32_t i = 0; i < 60; i++) {
        CHECK_INT(out[0][i], i % 5 + 100 * (i / 5 % 3) + 10000 * (i / 15));
        CHECK_INT(out[1][i], i % 32);
        CHECK_INT(out[2][i], 64);
    }
}

static void count_blocks(void *const *parameters, kb_thread *t)
{
    uint32_t(*to)[1024] = parameters[0];
    to[0][t->ctaid[0] + 2 * (t->ctaid[1] + 3 * t->ctaid[2])] += 1 + 100 * t->index;
}

/* Threads that do not wait: each of them in each block of the grid. */
static void test_blocks_alone(void)
{
    const uint32_t sizes[6] = {2, 3, 4, 5, 1, 1};
    const kb_block_code code = {.run = count_blocks, .stack = 256};
    void *parameters[] = {out};
    kb_block *b = kb_block_take(&code, sizes, 0);
    for (uint32_t first = 0; first < 24; first++) {
        memset(out, 0, sizeof out);
        CHECK(kb_block_run_range(b, parameters, sizes, first, 24 - first / 3));
        for (uint32_t i = 0; i < 25; i++)
            CHECK_INT(out[0][i], i >= first && i < 24 - first / 3 ? 1005 : 0);
        for (uint32_t i = 0; i < 5; i++)
            CHECK(b->threads[i].stack == KB_NO_STACK); /* no fibre is left */
    }
    kb_block_give_back(b);
}

static uint32_t low(uint64_t word)
{
    return (uint32_t)word;
}

static uint32_t high(uint64_t word)
{
    enum { BITS = 32 };
    return (uint32_t)(word >> BITS);
}

/* A loop as modules have it: `waited` says whether the running thread has waited. */
static bool waited;
static uint32_t n_stacks; /* that threads of the last block began to wait on */

static void wait_in(kb_thread *t, uint32_t site)
{
    kb_barrier(t, site);
    waited = true;
}

static uint32_t looped(void *const *parameters, kb_thread *threads, const uint32_t index[3],
                       uint32_t first)
{
    uint32_t(*to)[1024] = parameters[0];
    waited = false;
    for (uint32_t i = first;; i++) {
        kb_thread *t = &threads[i];
        uint32_t block = index[0] + 3 * index[1];
        if (block % 2 == 1 && i % 3 == 1) { /* in every second block, a third of the threads */
            n_stacks++;
            wait_in(t, 1);
            wait_in(t, 2);
            to[1][block] += kb_barrier_reduce(t, KB_REDUCE_COUNT, i == 4, 3);
            waited = true;
        }
        to[0][block] += 1 + 1000 * i;
        if (waited || i + 1 == t->ntid[0])
            return i;
    }
}

/* A loop over threads. One that waits gets a stack; one that has ended is passed over. */
static void test_loops(void)
{
    const uint32_t sizes[6] = {3, 2, 1, 40, 1, 1};
    const kb_block_code code = {.loop = looped, .stack = 256};
    void *parameters[] = {out};
    kb_block *b = kb_block_take(&code, sizes, 0);
    if (!CHECK(b != NULL))
        return;
    memset(out, 0, sizeof out);
    CHECK(kb_block_run_range(b, parameters, sizes, 0, 6));
    for (uint32_t i = 0; i < 6; i++) {
        CHECK_INT(out[0][i], 40 + 1000 * 39 * 20);
        CHECK_INT(out[1][i], i % 2 ? 13 : 0); /* each of 13 threads counts one */
    }
    CHECK_INT(n_stacks, 3 * 13);
    const uint32_t index[3] = {1, 0, 0};
    kb_block_begin(b, parameters, index);
    while (b->n_live)
        CHECK(kb_block_go_on(b));
    kb_block_end(b);
    CHECK_INT(out[1][1], 26);
    kb_block_give_back(b);
}

/* Each thread waits once, in one of these ways, and then counts. */
static uint32_t waiting_loop(void *const *parameters, kb_thread *threads, const uint32_t index[3],
                             uint32_t first)
{
    uint32_t(*to)[1024] = parameters[0];
    kb_thread *t = &threads[first];
    (void)index;
    if (to[1][0] == 0)
        to[0][first] = 1 + kb_barrier_reduce(t, KB_REDUCE_COUNT, 1, 1);
    else if (to[1][0] == 1)
        kb_grid_barrier(t, 1), to[0][first]++;
    else /* lanes in pairs, of which the second does not wait */
        to[0][first] += low(kb_shuffle(t, UINT32_C(3) << (t->lane & ~1u), 3, first, 1, 31, 1));
    return first;
}

static void test_first_waits(void)
{
    const uint32_t sizes[6] = {1, 1, 1, 70, 1, 1};
    const kb_block_code code = {.loop = waiting_loop, .stack = 256};
    void *parameters[] = {out};
    for (uint32_t how = 0; how < 3; how++)
        for (int k = 0; k < 2; k++) { /* also where another block has been */
            kb_block *b = kb_block_take(&code, sizes, 0);
            memset(out, 0, sizeof out);
            out[1][0] = how;
            CHECK(how == 1 ? run_in_grid(b, parameters)
                           : kb_block_run_range(b, parameters, sizes, 0, 1));
            for (uint32_t i = 0; i < 70; i++)
                CHECK_INT(out[0][i], how == 0 ? 71 : how == 1 ? 1 : i ^ 1);
            kb_block_give_back(b);
        }
}

static uint32_t stuck_loop(void *const *parameters, kb_thread *threads, const uint32_t index[3],
                           uint32_t first)
{
    (void)index;
    for (uint32_t i = first; i < threads->ntid[0]; i++)
        if (parameters) {
            kb_barrier(&threads[i], 3);
            return *(uint32_t *)parameters[0] += i, i;
        } else if (i % 32 == 0)
            kb_warp_barrier(&threads[i], 3, 1); /* lane 1 has none */
        else
            kb_barrier(&threads[i], 2);
    return first;
}

/* Of a warp, one lane shuffles and the other one votes. */
static uint32_t divided_loop(void *const *parameters, kb_thread *threads, const uint32_t index[3],
                             uint32_t first)
{
    (void)parameters, (void)index;
    if (first == 0)
        (void)kb_shuffle(threads, 3, 0, 0, 1, 31, 1);
    (void)kb_vote(threads + 1, 3, 0, 1, 2);
    return 1;
}

static void test_divided_loop(void)
{
    const uint32_t sizes[6] = {1, 1, 1, 2, 1, 1};
    const kb_block_code code = {.loop = divided_loop, .stack = 256};
    kb_block *b = kb_block_take(&code, sizes, 0);
    if (!CHECK(b != NULL))
        return;
    CHECK(!kb_block_run_range(b, NULL, sizes, 0, 1));
    CHECK_HAS(b->fault, "thread (0, 0, 0): waits in a warp shuffle for the lanes 0x00000003, and "
                        "thread (1, 0, 0) of these stands in a warp vote: neither can continue");
    kb_block_give_back(b);
}

static void test_faults_of_loops(void)
{
    const uint32_t sizes[6] = {4, 1, 1, 40, 1, 1};
    const kb_block_code code = {.loop = stuck_loop, .stack = 256};
    kb_block *b = kb_block_take(&code, sizes, 0);
    if (!CHECK(b != NULL))
        return;
    CHECK(!kb_block_run_range(b, NULL, sizes, 2, 4));
    CHECK_HAS(b->fault, "block (2, 0, 0), thread (0, 0, 0): waits in __syncwarp");
    void *parameters[] = {out}; /* the threads do not wait for what is stuck */
    out[0][0] = 0;
    CHECK(kb_block_run_range(b, parameters, sizes, 1, 3));
    CHECK_INT(out[0][0], 2 * 40 * 39 / 2);
    kb_block_give_back(b);
}

static void warps(void *const *parameters, kb_thread *t)
{
    uint32_t(*to)[1024] = parameters[0], i = t->index;
    to[0][i] = low(kb_shuffle(t, FULL, 2, i, 1, 31, 0)); /* down */
    to[1][i] = low(kb_vote(t, FULL, 3, i % 2, 1));       /* ballot */
    to[2][i] = low(kb_match(t, FULL, 0, i / 4, 2));
    kb_warp_barrier(t, FULL, 3);
    to[3][i] = i % 32 < 7 ? kb_active_mask(t, 4) : kb_active_mask(t, 5);
}

static void test_warps(void)
{
    CHECK(run(warps, one_block, 0, NULL));
    for (uint32_t i = 0; i < 96; i++) {
        CHECK_INT(out[0][i], i % 32 == 31 ? i : i + 1);
        CHECK_INT(out[1][i], 0xAAAAAAAA);
        CHECK_INT(out[2][i], UINT32_C(15) << (i % 32 / 4 * 4));
        CHECK_INT(out[3][i], i % 32 < 7 ? 0x7F : 0xFFFFFF80);
    }
}

/* Lanes that end after a barrier are in no later operation of their warp. */
static void fewer(void *const *parameters, kb_thread *t)
{
    uint32_t(*to)[1024] = parameters[0], i = t->index;
    kb_barrier(t, 1);
    if (i % 3 == 0)
        to[0][i] = low(kb_vote(t, FULL, 3, 1, 2)); /* ballot */
}

static void test_fewer_lanes(void)
{
    CHECK(run(fewer, one_block, 0, NULL));
    for (uint32_t i = 0; i < 96; i += 3)
        CHECK_INT(out[0][i], i < 32 ? 0x49249249 : i < 64 ? 0x92492492 : 0x24924924);
}

/* Distances and segments as PTX has them: [lane, mode, b, c, from, predicate]. */
static const uint32_t cases[][6] = {
    {0, 0, 5, 31, 5, 1},       {9, 0, 3, 0x181F, 11, 1}, {9, 0, 63, 31, 31, 1},
    {4, 1, 5, 0, 4, 0},        {5, 1, 5, 0, 0, 1},       {17, 1, 2, 0x1000, 17, 0},
    {18, 1, 2, 0x1000, 16, 1}, {31, 2, 1, 31, 31, 0},    {14, 2, 1, 0x181F, 15, 1},
    {15, 2, 1, 0x181F, 15, 0}, {13, 3, 7, 31, 10, 1},    {7, 3, 16, 0x181F, 7, 0},
    {3, 3, 31, 31, 28, 1},
};

static void shuffle_cases(void *const *parameters, kb_thread *t)
{
    uint32_t(*to)[1024] = parameters[0];
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t got = kb_shuffle(t, FULL, cases[i][1], t->lane, cases[i][2], cases[i][3], i);
        if (t->index == cases[i][0]) {
            to[0][i] = low(got);
            to[1][i] = high(got);
        }
    }
}

static void test_shuffles(void)
{
    CHECK(run(shuffle_cases, one_block, 0, NULL));
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_INT(out[0][i], cases[i][4]);
        CHECK_INT(out[1][i], cases[i][5]);
    }
}

static void votes_of_some(void *const *parameters, kb_thread *t)
{
    uint32_t(*to)[1024] = parameters[0], i = t->index;
    if (i % 32 == 9)
        return;
    to[0][i] = low(kb_vote(t, FULL, 3, 1, 0)); /* without the lane that ended */
    uint32_t half = i % 2 ? 0xAAAAAAAA : 0x55555555;
    uint64_t all = kb_vote(t, half, 0, i % 2, 1), any = kb_vote(t, half, 1, i % 2, 2);
    uint64_t same = kb_vote(t, half, 2, i % 2, 3), none = kb_vote(t, FULL, 2, i % 2, 4);
    to[1][i] = high(all) + 2 * high(any) + 4 * high(same) + 8 * high(none);
    to[2][i] = low(kb_match(t, half, 1, i % 2, 5));
    uint64_t differs = kb_match(t, half, 1, i, 6);
    to[3][i] = high(differs) | low(differs);
}

static void test_votes(void)
{
    CHECK(run(votes_of_some, one_block, 0, NULL));
    for (uint32_t i = 0; i < 96; i++) {
        if (i % 32 == 9)
            continue;
        CHECK_INT(out[0][i], 0xFFFFFDFF);
        CHECK_INT(out[1][i], i % 2 ? 7 : 4);
        CHECK_INT(out[2][i], i % 2 ? 0xAAAAA8AA : 0x55555555);
        CHECK_INT(out[3][i], 0);
    }
}

static void spin(void *const *parameters, kb_thread *t)
{
    volatile uint32_t *flag = parameters[0];
    if (t->index == 0)
        while (!*flag)
            kb_poll(t, 1, 0);
    if (t->index == 95)
        *flag = 1;
}

/* Lane 0 waits for lane 1, which ends without waiting; lane 2 waits for what lane 0 does then. */
static uint32_t wait_for_ended(void *const *parameters, kb_thread *threads, const uint32_t index[3],
                               uint32_t first)
{
    volatile uint32_t *flag = parameters[0];
    (void)index;
    if (first == 0) {
        kb_warp_barrier(&threads[0], 3, 1);
        *flag = 1;
        return 0;
    }
    for (int i = 0; i < 1000 && !*flag; i++)
        kb_poll(&threads[2], 1, 2);
    flag[1] = *flag;
    return 2;
}

static void test_waiting_for_ended(void)
{
    static const uint32_t sizes[6] = {1, 1, 1, 3, 1, 1};
    const kb_block_code code = {.loop = wait_for_ended, .stack = 256};
    kb_block *b = kb_block_take(&code, sizes, 0);
    void *parameters[] = {out};
    memset(out, 0, sizeof out);
    CHECK(kb_block_run_range(b, parameters, sizes, 0, 1));
    CHECK_INT(out[0][1], 1);
    kb_block_give_back(b);
}

static void divided(void *const *parameters, kb_thread *t)
{
    (void)parameters;
    if (t->index == 40)
        kb_barrier(t, 1);
    else
        kb_warp_barrier(t, FULL, 2);
    if (t->index / 32 != 1)
        kb_barrier(t, 1);
}

/* Lanes 2 and 3 wait for lane 4; lane 0, which they wait for, too, has ended, and the others, among
 * them those of other warps, are in no operation of the warp. */
static void divided_apart(void *const *parameters, kb_thread *t)
{
    (void)parameters;
    if (t->index == 34 || t->index == 35)
        kb_warp_barrier(t, 0x1D, 1);
    else if (t->index != 32)
        kb_barrier(t, 2);
}

static void first_apart(void *const *parameters, kb_thread *t)
{
    (void)parameters;
    if (t->index == 0)
        kb_barrier(t, 1);
    else
        kb_warp_barrier(t, FULL, 1);
}

static void divided_barriers(void *const *parameters, kb_thread *t)
{
    (void)parameters;
    if (t->index == 7)
        kb_grid_barrier(t, 1);
    else
        kb_barrier(t, 2);
}

static void stranger(void *const *parameters, kb_thread *t)
{
    (void)parameters;
    if (t->index == 7)
        (void)kb_shuffle(t, 1, 0, 0, 0, 31, 0);
}

static void divided_shuffle(void *const *parameters, kb_thread *t)
{
    (void)parameters;
    (void)kb_shuffle(t, FULL, t->index == 7, 0, 1, 31, 0);
}

static void leaver(void *const *parameters, kb_thread *t)
{
    (void)parameters;
    if (t->index == 7)
        kb_write_outside(t, "'out' (float32[1d])");
}

static void raiser(void *const *parameters, kb_thread *t)
{
    (void)parameters;
    kb_barrier(t, 1);
    if (t->index == 7)
        kb_place(t, "f.py:12 in 'f'");
    if (t->index == out[0][0])
        kb_raise(t, "ValueError: bad");
    if (out[0][0] == UINT32_MAX)
        kb_assert(t, "i < n", "f.cu", 12);
}

static void interrupted(void *const *parameters, kb_thread *t)
{
    (void)parameters;
    if (t->index == 95)
        atomic_fetch_add(&kb_interrupts, 1);
    if (out[0][0] == 1)
        kb_barrier(t, 1);
    else if (out[0][0] == 2)
        kb_warp_barrier(t, FULL, 1);
    else
        kb_poll(t, 1, 1);
}

static volatile sig_atomic_t n_heard;

static void hear(int number)
{
    (void)number;
    n_heard++;
}

static volatile sig_atomic_t n_informed;

static void hear_info(int number, siginfo_t *info, void *context)
{
    n_informed += number == SIGINT && info->si_signo == SIGINT && context != NULL;
}

static struct timespec clock_now; /* in place of the system's, for blocks */

int clock_gettime(clockid_t clock, struct timespec *now)
{
    CHECK_INT(clock, CLOCK_MONOTONIC_COARSE);
    *now = clock_now;
    return 0;
}

/* Polls until the clock is read: at each eighth pause. */
static void poll_until_look(kb_thread *t)
{
    enum { LOOK_EACH = 8 };
    for (int i = 0; i < LOOK_EACH; i++)
        kb_poll(t, 1, 1);
}

/* The clock is read from the eighth pause on; 100 ms later, the block watches for interrupts. */
static void last_long(void *const *parameters, kb_thread *t)
{
    enum { SECOND = 5, BEGIN = 999000000, LATER = 99999999 - 1000000, EIGHTH = 8 };
    (void)parameters;
    clock_now = (struct timespec){SECOND, BEGIN};
    for (int i = 1; i < EIGHTH; i++)
        kb_poll(t, 1, 1);
    CHECK_INT(t->block->watch.begun, 0);
    kb_poll(t, 1, 1);
    CHECK_INT(t->block->watch.begun, SECOND * 1000 + 999);
    clock_now = (struct timespec){SECOND + 1, LATER};
    poll_until_look(t);
    CHECK(!t->block->watch.watches); /* after 99 ms */
    clock_now.tv_nsec++;
    poll_until_look(t);
    CHECK(t->block->watch.watches);
    CHECK_INT(t->block->watch.begun, SECOND * 1000 + 999);
    out[0][0] = 1;
    (void)raise(SIGINT);
    kb_poll(t, 1, 1);
}

/* A block that takes long is interrupted by SIGINT itself; one that does not leaves it alone. */
static void test_long_block(void)
{
    const uint32_t one_thread[6] = {1, 1, 1, 1, 1, 1};
    char fault[KB_FAULT_SIZE] = "";
    struct sigaction before, now = {.sa_handler = hear};
    CHECK_INT(sigaction(SIGINT, &now, &before), 0);
    n_heard = 0;
    CHECK(!run(last_long, one_thread, 0, fault));
    CHECK_HAS(fault, ": the launch was interrupted by SIGINT (Ctrl-C)");
    CHECK_INT(out[0][0], 1);
    CHECK_INT(n_heard, 1);
    uint32_t n = kb_interrupts;
    raise(SIGINT); /* it does not watch any more */
    CHECK_INT(kb_interrupts, n);
    CHECK_INT(sigaction(SIGINT, &before, NULL), 0);
}

/* SIGINT is counted while somebody watches, and the handler that was there is called. */
static void test_interrupts(void)
{
    char fault[KB_FAULT_SIZE] = "";
    for (uint32_t how = 1; how <= 3; how++) {
        out[0][0] = how;
        CHECK(!run(interrupted, one_block, 0, fault));
        CHECK_HAS(fault, ": the launch was interrupted by SIGINT (Ctrl-C)");
    }
    struct sigaction before, now = {.sa_handler = hear};
    CHECK_INT(sigaction(SIGINT, &now, &before), 0);
    uint32_t n = kb_interrupts;
    kb_interrupt_watch();
    kb_interrupt_watch();
    raise(SIGINT);
    kb_interrupt_unwatch();
    raise(SIGINT);
    kb_interrupt_unwatch();
    raise(SIGINT);
    CHECK_INT(n_heard, 3);
    CHECK_INT(kb_interrupts, n + 2);
    now = (struct sigaction){.sa_sigaction = hear_info, .sa_flags = SA_SIGINFO};
    CHECK_INT(sigaction(SIGINT, &now, NULL), 0);
    kb_interrupt_watch();
    raise(SIGINT);
    kb_interrupt_unwatch();
    CHECK_INT(n_informed, 1);
    CHECK_INT(n_heard, 3);
    CHECK_INT(kb_interrupts, n + 3);
    n++;
    now = (struct sigaction){.sa_handler = SIG_IGN};
    CHECK_INT(sigaction(SIGINT, &now, NULL), 0);
    kb_interrupt_watch();
    raise(SIGINT);
    kb_interrupt_unwatch();
    CHECK_INT(kb_interrupts, n + 2);
    const struct sigaction none = {.sa_handler = SIG_DFL};
    CHECK_INT(sigaction(SIGINT, &none, &now), 0);
    CHECK(now.sa_handler == SIG_IGN);
    kb_interrupt_watch();
    CHECK_INT(sigaction(SIGINT, NULL, &now), 0);
    CHECK(now.sa_handler == SIG_DFL);
    kb_interrupt_unwatch();
    CHECK_INT(sigaction(SIGINT, &before, NULL), 0);
}

/* A handler that has come meanwhile stays. If it puts ours back later, that calls the one that was
 * there first, and not itself. */
static void test_handler_put_back(void)
{
    struct sigaction before, ours, now = {.sa_handler = hear};
    CHECK_INT(sigaction(SIGINT, &now, &before), 0);
    kb_interrupt_watch();
    now = (struct sigaction){.sa_sigaction = hear_info, .sa_flags = SA_SIGINFO};
    CHECK_INT(sigaction(SIGINT, &now, &ours), 0);
    kb_interrupt_unwatch();
    CHECK_INT(sigaction(SIGINT, &ours, &now), 0);
    CHECK(now.sa_sigaction == hear_info);
    n_heard = 0;
    uint32_t n = kb_interrupts;
    kb_interrupt_watch();
    raise(SIGINT);
    CHECK_INT(kb_interrupts, n + 1);
    CHECK_INT(n_heard, 1);
    kb_interrupt_unwatch();
    CHECK_INT(sigaction(SIGINT, &before, &now), 0);
    CHECK(now.sa_handler == hear);
}

/* Lanes of a warp that come to different places see those at the same place as active. */
static void at_two_places(void *const *parameters, kb_thread *t)
{
    uint32_t(*to)[1024] = parameters[0];
    to[0][t->index] = kb_active_mask(t, 1 + t->lane % 2);
}

static void test_active_masks(void)
{
    memset(out, 0, sizeof out);
    CHECK(run(at_two_places, one_block, 0, NULL));
    for (uint32_t i = 0; i < 96; i++)
        CHECK_INT(out[0][i], i % 2 ? 0xAAAAAAAA : 0x55555555);
}

/* What a block leaves when it ends with a fault is not there in the next one. */
static void leave_behind(void *const *parameters, kb_thread *t)
{
    uint32_t(*to)[1024] = parameters[0];
    kb_place(t, "k.py:1");
    if (to[0][0] == 0 && t->index % 32 == 0)
        kb_warp_barrier(t, 3, 1); /* lane 1 is in another barrier */
    else if (to[0][0] == 0)
        kb_barrier(t, 1);
    else if (t->index)
        (void)kb_active_mask(t, 1);
    else {
        kb_poll(t, 1, 1);
        kb_raise(t, "left behind");
    }
}

static void begin_anew(void *const *parameters, kb_thread *t)
{
    uint32_t(*to)[1024] = parameters[0];
    if (to[0][0] == 2)
        kb_raise(t, "anew");
    if (to[0][0] == 3)
        to[1][t->index] = kb_active_mask(t, 1);
    else if (t->lane < 2) {
        if (t->lane == 0) {
            kb_poll(t, 1, 2);
            to[2][t->index / 32] = 1;
        }
        kb_warp_barrier(t, 3, 1);
        to[1][t->index] = to[2][t->index / 32];
    } else {
        to[1][t->index] = 1;
    }
}

static void test_what_is_left_behind(void)
{
    const kb_block_code first = {.run = leave_behind, .stack = 256},
                        next = {.run = begin_anew, .stack = 256};
    void *parameters[] = {out};
    for (uint32_t how = 0; how < 4; how++)
        for (uint32_t n = 33; n < 50; n += 7) {
            const uint32_t sizes[6] = {1, 1, 1, n, 1, 1};
            kb_block *b = kb_block_take(&first, one_block, 0);
            memset(out, 0, sizeof out);
            out[0][0] = how == 3;
            CHECK(!kb_block_run_range(b, parameters, one_block, 0, 1));
            CHECK_HAS(b->fault, how == 3 ? "thread (0, 0, 0): left behind, raised at k.py:1"
                                         : "thread (0, 0, 0): waits in cuda.syncwarp");
            kb_block_give_back(b);
            kb_block *same = kb_block_take(&next, sizes, 0);
            CHECK_PTR(same, b);
            out[0][0] = how;
            CHECK_INT(kb_block_run_range(same, parameters, sizes, 0, 1), how != 2);
            if (how == 2)
                CHECK_TEXT(same->fault, "block (0, 0, 0), thread (0, 0, 0): anew");
            else
                for (uint32_t i = 0; i < n; i++)
                    CHECK_INT(out[1][i], how < 3  ? 1
                                         : i < 32 ? UINT32_MAX
                                                  : (UINT64_C(1) << (n - 32)) - 1);
            kb_block_give_back(same);
        }
}

static void divided_grid(void *const *parameters, kb_thread *t)
{
    (void)parameters;
    if (t->index == 40)
        kb_grid_barrier(t, 1);
    else
        kb_warp_barrier(t, FULL, 2);
}

/* What a recursion must leave, to some hundred bytes. */
static void measure_recursion(void *const *parameters, kb_thread *t)
{
    enum { FRAMES = 1024 };
    const kb_block *b = t->block;
    (void)parameters;
    if (t->index != 2)
        return;
    const unsigned char *begins =
        b->stacks; /* of the stack on which threads run that do not wait */
    uint64_t left = (uintptr_t)__builtin_frame_address(0) - (uintptr_t)begins - KB_STACK_LEFT;
    kb_recurse(t, 0);
    kb_recurse(t, left - FRAMES);
    out[3][0] = 1;
    kb_recurse(t, left + FRAMES / 8);
    out[3][0] = 2;
}

static void recurse_without_end(void *const *parameters, kb_thread *t)
{
    (void)parameters;
    kb_recurse(t, UINT64_MAX - 1);
}

static uint32_t descend(kb_thread *t, uint32_t levels)
{
    volatile unsigned char variables[200];
    kb_recurse(t, sizeof variables);
    variables[0] = (unsigned char)levels;
    return levels ? descend(t, levels - 1) + variables[0] % 2 : 0;
}

static void descender(void *const *parameters, kb_thread *t)
{
    (void)parameters;
    kb_barrier(t, 1);
    out[1][t->index] = descend(t, t->index == 9 ? out[0][0] : 10);
}

static void test_faults(void)
{
    const uint32_t few[6] = {1, 1, 1, 20, 1, 1};
    char fault[KB_FAULT_SIZE] = "";
    out[0][0] = 0;
    CHECK(run(spin, one_block, 0, NULL));
    CHECK(!run(divided, one_block, 0, fault));
    CHECK_HAS(fault, "block (0, 0, 0), thread (32, 0, 0): waits in cuda.syncwarp for the lanes "
                     "0xffffffff, and thread (40, 0, 0) of these stands in cuda.syncthreads");
    const uint32_t cube[6] = {1, 1, 1, 3, 4, 8};
    CHECK(!run(divided_apart, cube, 0, fault));
    CHECK_HAS(fault, "thread (1, 3, 2): waits in cuda.syncwarp for the lanes 0x0000001d, and "
                     "thread (0, 0, 3) of these stands in cuda.syncthreads: ");
    CHECK(!run(first_apart, one_block, 0, fault));
    CHECK_HAS(fault, "and thread (0, 0, 0) of these stands in cuda.syncthreads: ");
    for (int i = 0; i < 2; i++) { /* also where the block before had more threads, in a warp */
        CHECK(!run_either(divided_barriers, i ? one_block : few, 0, true, fault));
        CHECK_TEXT(fault, "block (0, 0, 0), thread (0, 0, 0): threads of the block wait for each "
                          "other, and none can continue");
    }
    CHECK(!run(stranger, one_block, 0, fault));
    CHECK_HAS(fault, "thread (7, 0, 0): calls a warp shuffle with the mask 0x00000001");
    CHECK(!run(divided_shuffle, one_block, 0, fault));
    CHECK_HAS(fault,
              "thread (0, 0, 0): waits in a warp shuffle for the lanes 0xffffffff, and thread "
              "(7, 0, 0) of these stands in a warp shuffle with another mask or mode: ");
    CHECK(!run(leaver, one_block, 0, fault));
    CHECK_HAS(fault, "thread (7, 0, 0): writes to 'out' (float32[1d]) out of bounds; the write was "
                     "left out");
    out[0][0] = 7;
    CHECK(!run(raiser, one_block, 0, fault));
    CHECK_TEXT(fault,
               "block (0, 0, 0), thread (7, 0, 0): ValueError: bad, raised at f.py:12 in 'f'");
    out[0][0] = 8; /* a thread that is nowhere, also when its memory was that of thread 7 */
    CHECK(!run(raiser, one_block, 0, fault));
    CHECK_TEXT(fault, "block (0, 0, 0), thread (8, 0, 0): ValueError: bad");
    out[0][0] = UINT32_MAX;
    CHECK(!run(raiser, one_block, 0, fault));
    CHECK_HAS(fault, ", 0, 0): the assertion (i < n) at f.cu:12 failed");
    out[0][0] = 20;
    CHECK(run(descender, one_block, 0, NULL));
    CHECK_INT(out[1][8], 5);
    CHECK_INT(out[1][9], 10);
    out[0][0] = UINT32_MAX;
    CHECK(!run(descender, one_block, 0, fault));
    CHECK_HAS(fault, "block (0, 0, 0), thread (9, 0, 0): a device function calls itself too often: "
                     "the stack of a thread has ");
    out[3][0] = 0;
    CHECK(!run(measure_recursion, one_block, 0, fault));
    CHECK_INT(out[3][0], 1);
    CHECK_HAS(fault, "thread (2, 0, 0): a device function calls itself too often");
    CHECK(!run(recurse_without_end, one_block, 0, fault));
    CHECK_HAS(fault, "thread (0, 0, 0): a device function calls itself too often");
    CHECK(!run(divided_grid, one_block, 0, fault));
    CHECK_HAS(fault, "thread (40, 0, 0): calls grid.sync() in a launch that is not cooperative");
    CHECK(!run_either(divided_grid, one_block, 0, true, fault));
    CHECK_HAS(fault, "thread (32, 0, 0): waits in cuda.syncwarp for the lanes 0xffffffff, and "
                     "thread (40, 0, 0) of these stands in the synchronisation of the grid: ");
    CHECK(run(sum, one_block, 128 * 4, NULL)); /* and the next block runs */
}

#ifdef KB_FIBRE_TSAN /* which takes most of a millisecond for each fibre */
enum { N_SUMS = 6 };
#else
enum { N_SUMS = 50 };
#endif

static void *run_sums(void *unused)
{
    (void)unused;
    for (int i = 0; i < N_SUMS; i++) {
        static const kb_block_code code = {.run = sum, .shared = 512, .stack = 64};
        uint32_t own[96] = {0};
        void *parameters[] = {own};
        kb_block *b = kb_block_take(&code, one_block, 0);
        if (!b || !kb_block_run_range(b, parameters, one_block, 0, 1) ||
            own[95] != 95 * 96 * 191 / 6)
            return (void *)(uintptr_t)1;
        kb_block_give_back(b);
    }
    return NULL;
}

static void test_at_once(void)
{
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, run_sums, NULL), 0);
    for (int i = 0; i < 3; i++) {
        void *wrong = NULL;
        CHECK_INT(pthread_join(threads[i], &wrong), 0);
        CHECK(wrong == NULL);
    }
}

/* A fault as the handler of signals tells it. */
typedef struct told_fault {
    int number, code;
} told_fault;

static uint32_t be_told(void *const *parameters, kb_thread *threads, const uint32_t index[3],
                        uint32_t first)
{
    const told_fault *told = parameters[0];
    (void)index;
    kb_fault_end(told->number, told->code, threads);
    return first;
}

static uint32_t do_nothing(void *const *parameters, kb_thread *threads, const uint32_t index[3],
                           uint32_t first)
{
    (void)parameters, (void)threads, (void)index;
    return first;
}

/* A fault is the block's if it touches the guard below its stacks, and not their first byte, or if
 * it is of a division. */
static const struct {
    int number, code;
    intptr_t below;
    const char *text; /* or NULL */
} of_signals[] = {
    {SIGSEGV, 0, 0, NULL},
    {SIGSEGV, 0, -1, NULL},
    {SIGSEGV, 0, KB_FAULT_GUARD + 1, NULL},
    {SIGBUS, 0, 1, NULL},
    {SIGFPE, FPE_FLTDIV, 1, NULL},
    {SIGSEGV, 0, 1, "needs more than its stack"},
    {SIGSEGV, 0, KB_FAULT_GUARD, "needs more than its stack"},
    {SIGTRAP, 0, 1, "divides an integer by zero"},
    {SIGFPE, FPE_INTDIV, 1, "divides an integer by zero"},
};

static uint32_t faulting_loop(void *const *parameters, kb_thread *threads, const uint32_t index[3],
                              uint32_t first)
{
    (void)index, (void)first;
    size_t i = *(const size_t *)parameters[0];
    kb_fault_end(of_signals[i].number, of_signals[i].code,
                 threads->block->stacks - of_signals[i].below);
    return 1;
}

static void test_what_faults_are(void)
{
    const kb_block_code code = {.loop = faulting_loop, .stack = 256};
    const uint32_t sizes[6] = {1, 1, 1, 1, 1, 1};
    for (size_t i = 0; i < sizeof of_signals / sizeof *of_signals; i++) {
        void *parameters[] = {&i};
        kb_block *b = kb_block_take(&code, sizes, 0);
        CHECK_INT(kb_block_run_range(b, parameters, sizes, 0, 1), !of_signals[i].text);
        if (of_signals[i].text)
            CHECK_HAS(b->fault, of_signals[i].text);
        kb_block_give_back(b);
    }
}

/* A thread that has a stack for handlers keeps it. */
static void *run_with_own_stack(void *unused)
{
    const kb_block_code code = {.loop = do_nothing, .stack = 256};
    const uint32_t sizes[6] = {1, 1, 1, 1, 1, 1};
    enum { ROOM = 64 * 1024 };
    static char own[ROOM];
    stack_t now, before;
    (void)unused;
    CHECK_INT(sigaltstack(&(stack_t){.ss_sp = own, .ss_size = ROOM}, &before), 0);
    kb_block *b = kb_block_take(&code, sizes, 0);
    CHECK(kb_block_run_range(b, NULL, sizes, 0, 1));
    kb_block_give_back(b);
    CHECK_INT(sigaltstack(&before, &now), 0);
    CHECK_PTR(now.ss_sp, own);
    return NULL;
}

static void test_own_signal_stack(void)
{
    pthread_t thread;
    if (CHECK_INT(pthread_create(&thread, NULL, run_with_own_stack, NULL), 0))
        pthread_join(thread, NULL);
}

static void test_divisions(void)
{
    static const struct {
        told_fault told;
        bool divides;
    } rows[] = {
        {{SIGFPE, FPE_INTDIV}, true}, {{SIGFPE, FPE_FLTDIV}, false}, {{SIGTRAP, 0}, true},
        {{SIGTRAP, 1}, true},         {{SIGILL, FPE_INTDIV}, false}, {{SIGSEGV, 1}, false},
    };
    const uint32_t sizes[6] = {2, 3, 4, 1, 1, 1};
    const kb_block_code code = {.loop = be_told, .stack = 256}, idle = {.loop = do_nothing};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        told_fault told = rows[i].told;
        kb_block *b = kb_block_take(&code, sizes, 0);
        CHECK_INT(kb_block_run_range(b, (void *[]){&told}, sizes, 23, 24), !rows[i].divides);
        if (rows[i].divides)
            CHECK_TEXT(b->fault, "block (1, 2, 3): a thread divides an integer by zero, or the "
                                 "lowest one by -1: test the divisor");
        kb_block_give_back(b);
        b = kb_block_take(&idle, sizes, 0);
        CHECK(kb_block_run_range(b, NULL, sizes, 23, 24));
        kb_fault_end(told.number, told.code, b); /* which no block runs for any more */
        kb_block_give_back(b);
    }
}

#if !defined(KB_FIBRE_ASAN) && !defined(KB_FIBRE_TSAN)
/* Fills `n` bytes of the stack below it. */
static __attribute__((noinline)) void use_stack(size_t n)
{
    volatile unsigned char here[1024];
    for (size_t i = 0; i < sizeof here; i++)
        here[i] = (unsigned char)n;
    if (n > sizeof here)
        use_stack(n - sizeof here);
    here[0] = here[1];
}

static void use_much(void *const *parameters, kb_thread *t)
{
    enum { SMALL = 16 * 1024, LARGE = 40 * 1024 };
    int much = *(int *)parameters[0];
    use_stack(t->index == 1 && much == 1 ? LARGE : SMALL);
    kb_barrier(t, 0);
    for (int i = 1; i < much; i++)
        kb_barrier(t, 0);
    use_stack(t->index == 1 && much == 2 ? LARGE : SMALL);
    if (t->index == 1 && much > 2) /* its end alone, so that the others may go on */
        memset(t->block->stacks + t->stack * t->block->stack, 0, 1);
    out[0][0] = 0;
    for (int i = 0; i < 8 && much > 2; i++)
        kb_barrier(t, 0);
    out[0][0] = 1;
}

static void test_stacks_have_ends(void)
{
    kb_block_code code = {.run = use_much, .stack = 256};
    kb_block *b = kb_block_take(&code, one_block, 0);
    int much = 0;
    void *parameters[] = {&much};
    CHECK(kb_block_run_range(b, parameters, one_block, 0, 1));
    /* Before a barrier, and before the end; and where there are many, at each eighth. */
    for (much = 1; much <= 20; much++) {
        out[0][0] = 0;
        CHECK(!kb_block_run_range(b, parameters, one_block, 0, 1));
        CHECK(much == 2 || out[0][0] == 0);
        CHECK_HAS(b->fault, "block (0, 0, 0), thread (1, 0, 0): used more than the 37184 bytes of "
                            "its stack: the kernel's variables take 256");
    }
    kb_block_give_back(b);
}

static uint32_t write_below(void *const *parameters, kb_thread *threads, const uint32_t index[3],
                            uint32_t first)
{
    (void)index;
    volatile unsigned char *stacks = threads->block->stacks;
    stacks[-*(int *)parameters[0]] = 1;
    return first;
}

static uint32_t overflow(void *const *parameters, kb_thread *threads, const uint32_t index[3],
                         uint32_t first)
{
    enum { MUCH = 200 * 1024 };
    (void)parameters, (void)threads, (void)index;
    use_stack(MUCH);
    return first;
}

/* A large frame may leave the lowest stack at once: all of the guard below it ends the block. */
static void test_guard_below_stacks(void)
{
    const kb_block_code code = {.loop = write_below, .stack = 256};
    const uint32_t sizes[6] = {1, 1, 1, 1, 1, 1};
    kb_block *b;
    for (int i = 0; i < 4; i++) {
        int below = i % 2 ? KB_FAULT_GUARD : 1;
        void *given[] = {&below};
        b = kb_block_take(&code, sizes, 0);
        CHECK(!(i < 2 ? kb_block_run_range(b, given, sizes, 0, 1) : run_in_grid(b, given)));
        CHECK_HAS(b->fault, "block (0, 0, 0): a thread needs more than its stack");
        kb_block_give_back(b);
    }
    const kb_block_code deep = {.loop = overflow, .stack = 256};
    b = kb_block_take(&deep, sizes, 0); /* its stack has no room for a handler */
    CHECK(!kb_block_run_range(b, NULL, sizes, 0, 1));
    CHECK_HAS(b->fault, "block (0, 0, 0): a thread needs more than its stack");
    kb_block_give_back(b);
}

/* A fault after the block has ended is not the block's: it ends a process. */
static void test_faults_behind_blocks(void)
{
    static const uint32_t sizes[6] = {1, 1, 1, 1, 1, 1};
    const kb_block_code code = {.loop = do_nothing, .stack = 256};
    for (int i = 0; i < 2; i++) {
        int status = 0;
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            kb_block *b = kb_block_take(&code, sizes, 0);
            bool well = i ? kb_block_run_range(b, NULL, sizes, 0, 1) : run_in_grid(b, NULL);
            ((volatile unsigned char *)b->stacks)[-1] = 1;
            _exit(well);
        }
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    }
}
#else /* the sanitizers' own frames are larger, and they hear of faults first */
static void test_stacks_have_ends(void)
{
}

static void test_guard_below_stacks(void)
{
}

static void test_faults_behind_blocks(void)
{
}
#endif

static void test_blocks_are_given_back(void)
{
    static const uint32_t large[6] = {64, 1, 1, 1024, 1, 1};
#if !defined(KB_FIBRE_ASAN) && !defined(KB_FIBRE_TSAN)
    enum { N = 512 };
#else /* whose blocks have up to 3 MB */
    enum { N = 32 };
#endif
    kb_block_code code = {.run = places, .stack = 256};
    kb_block *taken[N];
    for (int i = 0; i < N; i++)
        taken[i] = kb_block_take(&code, large, 0);
    for (int i = 0; i < N; i++)
        kb_block_give_back(taken[i]);
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    CHECK(kb_block_kept() > 0);
    CHECK(kb_block_kept() <= 1024 * (uint32_t)n);
}

/* How much memory a new block has: of a stack, pages and five lines; of shared memory, pages. */
static void test_new_blocks(void)
{
    static const struct {
        uint32_t stack, shared, dynamic;
        size_t of_stack, of_shared;
    } wanted[] = {
        {0, 0, 0, 33088, 4096},          {1, 4032, 0, 37184, 4096},
        {4096, 4033, 0, 37184, 8192},    {4097, 2000, 2032, 41280, 4096},
        {8193, 2000, 2033, 45376, 8192}, {100000, 0, 100000, 135488, 102400},
    };
    kb_block *taken = NULL;
    CHECK_INT(kb_block_kept(), 0);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        for (uint32_t n = 1; n <= 65; n += 32) {
            const kb_block_code code = {
                .run = places, .stack = wanted[i].stack, .shared = wanted[i].shared};
            const uint32_t sizes[6] = {1, 1, 1, n, 1, 1};
            kb_block *b = kb_block_take(&code, sizes, wanted[i].dynamic);
            if (!CHECK(b != NULL))
                return;
            CHECK_INT(b->stack, (long long)wanted[i].of_stack);
            CHECK_INT(b->stacks_size, (long long)wanted[i].of_stack * n);
            CHECK_INT(b->shared_size, (long long)wanted[i].of_shared);
            CHECK_INT(b->capacity, n);
            CHECK_INT((uintptr_t)b->threads % KB_LINE, 0);
            b->stacks[b->stacks_size - 1] = b->shared[b->shared_size - 1] = 1;
            b->threads[n - 1].result = b->warps[(n - 1) / KB_WARP].live = 1;
            b->next = taken;
            taken = b;
        }
    while (taken) {
        kb_block *next = taken->next;
        kb_block_give_back(taken);
        taken = next;
    }
}

/* Whether there is memory in the page of an address. */
static bool is_mapped(unsigned char *at)
{
    enum { PAGE = 4096 };
    return msync(at - (uintptr_t)at % PAGE, PAGE, MS_ASYNC) == 0;
}

/* How many threads' memory is kept: a block of so many, and no larger one; and several that have no
 * more together. What is kept is used as it is. */
static void test_what_is_kept(void)
{
    enum { MARK = 77 };
    long n_processors = sysconf(_SC_NPROCESSORS_ONLN);
    const uint32_t max = 1024 * (uint32_t)n_processors;
    const uint32_t whole[6] = {1, 1, 1, max, 1, 1}, larger[6] = {1, 1, 1, max + 1, 1, 1};
    const uint32_t smaller[6] = {1, 1, 1, max - 1, 1, 1}, one[6] = {1, 1, 1, 1, 1, 1};
    const kb_block_code code = {.run = places};
    kb_block *before = NULL;
    while (kb_block_kept() > 0) {
        kb_block *b = kb_block_take(&code, one, 0);
        b->next = before;
        before = b;
    }
    long mappings = torture_count().mappings;
    kb_block *b = kb_block_take(&code, larger, 0);
    unsigned char *stacks = b->stacks, *shared = b->shared;
    size_t stacks_size = b->stacks_size;
    kb_block_give_back(b);
    CHECK_INT(kb_block_kept(), 0);
    CHECK_INT(torture_count().mappings, mappings);
    CHECK(!is_mapped(stacks) && !is_mapped(stacks + stacks_size - 4096) && !is_mapped(shared));
    CHECK(!is_mapped(stacks - KB_FAULT_GUARD));
    b = kb_block_take(&code, whole, 0);
    b->shared[0] = b->stacks[0] = MARK;
    b->threads[0].result = MARK;
    b->watch.begun = b->watch.n_pauses = MARK;
    b->checks = (struct kb_checks *)(void *)b; /* of an earlier launch */
    b->threads[0].place = "k.py:1";
    kb_block_give_back(b);
    CHECK_INT(kb_block_kept(), max);
    CHECK_PTR(kb_block_take(&code, whole, 0), b);
    CHECK_INT(kb_block_kept(), 0);
    CHECK_INT(b->capacity, max);
    CHECK(b->watch.begun == 0 && b->watch.n_pauses == 0 && !b->checks);
    CHECK_PTR(b->threads[0].place, NULL);
    CHECK(b->shared[0] == MARK && b->stacks[0] == MARK && b->threads[0].result == MARK);
    kb_block *most = kb_block_take(&code, smaller, 0);
    kb_block *last = kb_block_take(&code, one, 0), *other = kb_block_take(&code, one, 0);
    CHECK(run_in_grid(last, (void *[]){out}));
    CHECK(last->threads[0].stack != KB_NO_STACK);
    kb_block_give_back(most);
    CHECK_INT(kb_block_kept(), max - 1);
    kb_block_give_back(last);
    CHECK(last->threads[0].stack == KB_NO_STACK); /* its fibre has been forgotten */
    CHECK_INT(kb_block_kept(), max);
    kb_block_give_back(other);
    kb_block_give_back(b);
    CHECK_INT(kb_block_kept(), max);
    CHECK_PTR(kb_block_take(&code, one, 0), last);
    CHECK_PTR(kb_block_take(&code, one, 0), most);
    CHECK_INT(most->n_threads, 1);
    CHECK_INT(kb_block_kept(), 0);
    kb_block_give_back(last);
    kb_block_give_back(most);
    while (before) {
        kb_block *next = before->next;
        kb_block_give_back(before);
        before = next;
    }
}

int main(void)
{
    test_new_blocks();
    test_barriers();
    test_reductions();
    test_places();
    test_blocks_alone();
    test_loops();
    test_first_waits();
    test_faults_of_loops();
    test_divided_loop();
    test_warps();
    test_fewer_lanes();
    test_interrupts();
    test_handler_put_back();
    test_long_block();
    test_shuffles();
    test_votes();
    test_waiting_for_ended();
    test_active_masks();
    test_what_faults_are();
    test_own_signal_stack();
    test_faults();
    test_what_is_left_behind();
    test_at_once();
    test_stacks_have_ends();
    test_divisions();
    test_guard_below_stacks();
    test_faults_behind_blocks();
    test_blocks_are_given_back();
    test_what_is_kept();
    return kb_test_end("test_block");
}
