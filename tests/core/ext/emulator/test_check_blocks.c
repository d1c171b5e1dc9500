/* Proves what the checked mode reports of threads of several blocks, of cooperative grids and of
 * threads that do not wait, and what it lets pass. */
#include "check_steps.h"

enum { SECOND = N_THREADS, THIRD = 2 * N_THREADS }; /* the first threads of blocks */

static const uint32_t three[6] = {3, 1, 1, N_THREADS, 1, 1};

static const char *launched(const kb_hostcuda_code *code, const step steps[],
                            const uint32_t sizes[6])
{
    static char fault[KB_FAULT_SIZE];
    fault[0] = '\0';
    script = steps;
    kb_cu_result result = kb_hostcuda_run(code, sizes, 16, parameters, NULL, fault);
    CHECK_INT(result, fault[0] ? KB_HOSTCUDA_FAULT : KB_CU_SUCCESS);
    for (int i = 0; i < 3; i++) { /* those that wait for use */
        kb_block *block = kb_block_take(&code->threads, sizes, 0);
        if (CHECK(block))
            forget_frames(block);
        kb_block_give_back(block);
    }
    return fault;
}

static void check_launches(const kb_hostcuda_code *code, const row rows[], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *got = launched(code, rows[i].steps, three);
        if (!(rows[i].fault ? CHECK_HAS(got, rows[i].fault) : CHECK_TEXT(got, "")))
            fprintf(stderr, "in row %zu\n", i);
    }
}

static void test_threads_that_do_not_wait(void)
{
    kb_check_table alone = table;
    alone.waits = 0;
    const kb_hostcuda_code code = {.threads = {.run = run_script, .shared = 32, .checked = &alone}};
    static const row rows[] = {
        {{{WRITE, 3, LOCAL, 4, 1}, {WRITE, 4, X, 4, 1}}, NULL},
        {{{WRITE, 66, LOCAL, 5, 1}}, "thread (66, 0, 0): writes the local array out of bounds"},
        {{{WRITE, 3, X, 4, 7}, {WRITE, 4, X, 4, 8}}, "thread (4, 0, 0): a data race: it writes"},
        {{{WRITE, 3, X, 4, 7}, {WRITE, SECOND, X, 4, 9}}, "a data race between blocks: it writes"},
    };
    check_launches(&code, rows, sizeof rows / sizeof *rows);
}

static void test_races(void)
{
    static const row rows[] = {
        {{{WRITE, 0, X, 1, 1}, {WRITE, SECOND, X, 2, 1}, {READ, SECOND, X, 2, 1}}, NULL},
        {{{WRITE, 5, X, 1, 1}, {READ, SECOND, X, 1, 0}},
         "block (1, 0, 0), thread (0, 0, 0): a data race between blocks: it reads element [1] of "
         "'x' (int32[1d]) (at k.py:2), which thread (5, 0, 0) of block (0, 0, 0) writes (at "
         "k.py:1), with no barrier of the grid between\n    k.py:1: x[i] += 1"},
        {{{READ, 0, X, 1, 1}, {WRITE, THIRD, X, 1, 2}}, "of block (0, 0, 0) reads"},
        {{{READ, 0, X, 1, 1}, {READ, THIRD, X, 1, 0}, {WRITE, THIRD, X, 1, 3}},
         "of block (0, 0, 0) reads"},
        {{{READ, 0, X, 1, 1},
          {READ, THIRD, X, 1, 0},
          {BARRIER, ALL, 0, 0, 0},
          {READ, THIRD + 1, X, 1, 0},
          {BARRIER, ALL, 0, 0, 0},
          {WRITE, THIRD, X, 1, 4}},
         "of block (0, 0, 0) reads"},
        {{{WRITE, 0, X, 1, 5}, {WRITE, SECOND, X, 1, 5}}, NULL},
        {{{WRITE, 0, X, 1, 6}, {WRITE, SECOND, X, 1, 7}}, "a data race between blocks: it writes"},
        {{{ATOMIC, 0, X, 1, 6}, {ATOMIC, SECOND, X, 1, 7}, {ATOMIC, THIRD, X, 1, 8}}, NULL},
        {{{ATOMIC, 0, X, 1, 6}, {WRITE, SECOND, X, 1, 9}}, "which thread (0, 0, 0) of block"},
        {{{WRITE, 0, S, 1, 6}, {WRITE, SECOND, S, 1, 9}, {READ, SECOND, S, 1, 9}}, NULL},
        {{{WRITE, 0, S, 1, 6}, {READ, SECOND, S, 1, 9}}, "no thread of the block has written"},
    };
    const kb_hostcuda_code code = {.threads = {.run = run_script, .shared = 32, .checked = &table}};
    check_launches(&code, rows, sizeof rows / sizeof *rows);
}

/* One block of a grid of three dimensions writes what another one reads. */
static void write_and_read(void *const *unused, kb_thread *t)
{
    static const step write = {WRITE, 0, X, 1, 77}, read = {READ, 0, X, 1, 0};
    uint32_t block = t->ctaid[0] + 10 * t->ctaid[1] + 100 * t->ctaid[2];
    (void)unused;
    script = block == 111 ? &write : &read;
    if (t->index == 0 && (block == 111 || block == 120))
        access_memory(t, script, 1, NULL);
}

static void test_three_dimensions(void)
{
    static const uint32_t grid[6] = {2, 3, 2, N_THREADS, 1, 1};
    kb_check_array alike[sizeof arrays / sizeof *arrays];
    kb_check_table whole = table; /* in which z is not the slice of a batch */
    memcpy(alike, arrays, sizeof alike);
    alike[B] = alike[X];
    whole.arrays = alike;
    const kb_hostcuda_code code = {
        .threads = {.run = write_and_read, .shared = 32, .checked = &whole}};
    static const step none[] = {{END, 0, 0, 0, 0}};
    CHECK_HAS(launched(&code, none, grid),
              "block (0, 2, 1), thread (0, 0, 0): a data race between blocks: it reads element [1] "
              "of 'x' (int32[1d]) (at k.py:1), which thread (0, 0, 0) of block (1, 1, 1) writes");
}

/* What is kept of each block, thread and warp has room for all of them. */
static void fence_and_wait(void *const *unused, kb_thread *t)
{
    static const step add = {ATOMIC, 0, X, 1, 0};
    (void)unused;
    kb_check_fenced(t);
    access_memory(t, &add, 1, NULL);
    kb_warp_barrier(t, t->index < 2 * KB_WARP ? UINT32_MAX : 0xFFFF, 2);
    kb_barrier(t, 3);
}

static void test_all_of_three_dimensions(void)
{
    static const uint32_t sizes[3][6] = {
        {2, 3, 2, 5, 4, 4}, {2, 1, 3, 2, 5, 8}, {2, 1, 3, 2, 8, 5}};
    const kb_hostcuda_code code = {
        .threads = {.run = fence_and_wait, .shared = 32, .checked = &table}};
    static const step none[] = {{END, 0, 0, 0, 0}};
    for (int i = 0; i < 3; i++)
        CHECK_TEXT(launched(&code, none, sizes[i]), "");
}

/* The last block reads what the others left, and what it needs for that. */
static void test_fences(void)
{
    static const row rows[] = {
        {{{WRITE, 3, X, 1, 1},
          {FENCE, 3, 0, 0, 0},
          {BARRIER, ALL, 0, 0, 0},
          {ATOMIC, 0, X, 0, 1},
          {ATOMIC, SECOND, X, 0, 2},
          {BARRIER, ALL, 0, 0, 0},
          {READ, SECOND + 9, X, 1, 0}},
         NULL},
        {{{WRITE, 3, X, 1, 2},
          {BARRIER, ALL, 0, 0, 0},
          {FENCE, 0, 0, 0, 0},
          {ATOMIC, 0, X, 0, 3},
          {ATOMIC, SECOND, X, 0, 4},
          {READ, SECOND, X, 1, 0}},
         NULL},
        {{{WRITE, 3, X, 1, 3}, /* no barrier before the fence of another thread */
          {FENCE, 0, 0, 0, 0},
          {ATOMIC, 0, X, 0, 5},
          {ATOMIC, SECOND, X, 0, 6},
          {READ, SECOND, X, 1, 0}},
         "a data race between blocks"},
        {{{WRITE, 0, X, 1, 4}, /* no fence */
          {ATOMIC, 0, X, 0, 7},
          {ATOMIC, SECOND, X, 0, 8},
          {READ, SECOND, X, 1, 0}},
         "a data race between blocks"},
        {{{WRITE, 0, X, 1, 5}, /* nothing is taken over */
          {FENCE, 0, 0, 0, 0},
          {ATOMIC, 0, X, 0, 9},
          {READ, SECOND, X, 1, 0}},
         "a data race between blocks"},
        {{{WRITE, 0, X, 1, 6}, /* by another thread, without a barrier */
          {FENCE, 0, 0, 0, 0},
          {ATOMIC, 0, X, 0, 10},
          {ATOMIC, SECOND, X, 0, 11},
          {READ, SECOND + 1, X, 1, 0}},
         "a data race between blocks"},
    };
    const kb_hostcuda_code code = {.threads = {.run = run_script, .shared = 32, .checked = &table}};
    check_launches(&code, rows, sizeof rows / sizeof *rows);
}

static void test_cooperative_grids(void)
{
    static const row rows[] = {
        {{{WRITE, 0, X, 1, 1}, {GRID, ALL, 0, 0, 0}, {READ, SECOND, X, 1, 0}}, NULL},
        {{{WRITE, SECOND, X, 1, 2}, {GRID, ALL, 0, 0, 0}, {READ, 0, X, 1, 0}}, NULL},
        {{{WRITE, SECOND, X, 1, 3}, {READ, 0, X, 1, 0}}, "of block (0, 0, 0) reads"},
        {{{GRID, ALL, 0, 0, 0}, {WRITE, 0, X, 1, 4}, {READ, SECOND + 1, X, 1, 0}},
         "block (1, 0, 0), thread (1, 0, 0): a data race between blocks"},
        {{{WRITE, 0, S, 1, 1},
          {WRITE, SECOND, S, 2, 1},
          {GRID, ALL, 0, 0, 0},
          {READ, 0, S, 1, 0},
          {READ, SECOND, S, 2, 0}},
         NULL},
        {{{WRITE, 0, S, 1, 1}, {GRID, ALL, 0, 0, 0}, {READ, SECOND, S, 1, 0}},
         "no thread of the block has written"},
        {{{WRITE, 0, X, 1, 5}, {GRID, ALL, 0, 0, 0}, {READ, 1, X, 10, 0}}, "element [10]"},
        /* What was read too early is told where the threads wait for each other for ever. */
        {{{READ, 0, S, 1, 5}, {GRID, 3, 0, 0, 0}, {BARRIER, ALL, 0, 0, 0}},
         "reads element [0, 1] of the shared array, which no thread of the block has written"},
        {{{GRID, 3, 0, 0, 0}, {BARRIER, ALL, 0, 0, 0}},
         "threads of the block wait for each other, and none can continue"},
        {{{READ, 0, S, 1, 5}, {WRITE, 1, S, 1, 5}, {GRID, ALL, 0, 0, 0}},
         "thread (1, 0, 0): a data race: it writes element [0, 1] of the shared array"},
        {{{READ, 0, S, 1, 5}, {WRITE, N_THREADS - 1, S, 1, 5}, {GRID, ALL, 0, 0, 0}},
         "thread (69, 0, 0): a data race: it writes element [0, 1] of the shared array"},
        {{{READ, 0, S, 1, 5}, {GRID, ALL, 0, 0, 0}, {WRITE, 0, S, 1, 5}},
         "block (0, 0, 0), thread (0, 0, 0): reads element [0, 1] of the shared array, which no"},
        {{{READ, 0, S, 1, 5},
          {WRITE, SECOND, X, 1, 8},
          {WRITE, SECOND + 1, X, 1, 9},
          {GRID, ALL, 0, 0, 0}},
         "block (0, 0, 0), thread (0, 0, 0): reads element [0, 1] of the shared array, which no"},
        {{{FENCE, 0, 0, 0, 0}, /* what was taken over before the barrier means nothing behind it */
          {ATOMIC, 0, X, 0, 1},
          {ATOMIC, SECOND, X, 0, 1},
          {GRID, ALL, 0, 0, 0},
          {WRITE, 0, X, 1, 31},
          {FENCE, 0, 0, 0, 0},
          {ATOMIC, 0, X, 0, 1},
          {READ, SECOND + 1, X, 1, 0}},
         "block (1, 0, 0), thread (1, 0, 0): a data race between blocks: it reads element [1]"},
        {{{WRITE, SECOND, S, 2, 1}, {WRITE, THIRD, B, 0, 1}}, NULL},
        {{{WRITE, SECOND, S, 5, 1}, {WRITE, THIRD, B, 3, 1}}, NULL},
        {{{READ, N_THREADS - 1, S, 1, 5}, {STOP, N_THREADS - 1, 0, 0, 0}, {GRID, ALL, 0, 0, 0}},
         "block (0, 0, 0), thread (69, 0, 0): reads element [0, 1] of the shared array, which no"},
    };
    const kb_hostcuda_code code = {.threads = {.run = run_script, .shared = 32, .checked = &table},
                                   .cooperative = true};
    check_launches(&code, rows, sizeof rows / sizeof *rows);
}

/* What a block has written to its shared memory, no other has written to its own. */
static void test_shared_memory_of_blocks(void)
{
    static const uint32_t single[6] = {3, 1, 1, 1, 1, 1};
    static const int elements[][2] = {{S, 0}, {S, 1}, {S, 5}, {DYNAMIC, 0}, {DYNAMIC, 3}};
    enum { N = sizeof elements / sizeof *elements };
    const kb_hostcuda_code code = {.threads = {.run = run_script, .shared = 32, .checked = &table},
                                   .cooperative = true};
    for (int writer = 0; writer < 3 * N; writer++)
        for (int reader = 0; reader < 3 * N; reader++) {
            const int *one = elements[writer % N], *other = elements[reader % N];
            const step steps[] = {{WRITE, writer / N * N_THREADS, one[0], one[1], 1},
                                  {GRID, ALL, 0, 0, 0},
                                  {READ, reader / N * N_THREADS, other[0], other[1], 0},
                                  {END, 0, 0, 0, 0}};
            const char *got = launched(&code, steps, single);
            if (writer == reader)
                CHECK_TEXT(got, "");
            else
                CHECK_HAS(got, "array, which no thread of the block has written");
        }
}

static uint32_t polls[8]; /* counted at first, and after two more and something else */

/* The first of two threads polls, and lets the other one come as far as it can. */
static void poll_and_go_on(void *const *unused, kb_thread *t)
{
    enum { MOST = 1 << 22 };
    static const step accesses[] = {{READ, 0, X, 1, 0}, {ATOMIC, 0, X, 1, 1}, {WRITE, 0, X, 1, 1}};
    uint32_t *n = &t->block->checks->n_polls;
    (void)unused;
    for (int i = 0; t->index == 0 && i < 8; i++) {
        for (int k = 0; i > 0 && i < 7 && k < 2; k++)
            kb_poll(t, 1, 2);
        if (i > 0 && i < 4) {
            script = &accesses[i - 1];
            access_memory(t, script, 1, NULL);
        } else if (i == 4)
            kb_warp_barrier(t, 1, 1);
        else if (i == 5)
            kb_barrier(t, 1);
        else if (i == 6)
            kb_grid_barrier(t, 1);
        else if (i == 7)
            kb_poll(t, 1, 2); /* meanwhile the other one ends */
        polls[i] = *n;
    }
    if (t->index == 1) {
        kb_barrier(t, 1);
        kb_grid_barrier(t, 1);
        return;
    }
    *n = MOST;
    kb_poll(t, 0, 2); /* another loop */
    *n = MOST - 1;
    kb_poll(t, 1, 2);
    polls[0] += *n == MOST;
    kb_poll(t, 1, 2);
}

/* Polls are counted until a thread does what another one can see. */
static void test_polls(void)
{
    static const uint32_t expected[8] = {1, 2, 4, 0, 0, 0, 0, 0},
                          two_threads[6] = {1, 1, 1, 2, 1, 1};
    static const step none[] = {{END, 0, 0, 0, 0}};
    const kb_hostcuda_code code = {
        .threads = {.run = poll_and_go_on, .shared = 32, .checked = &table}, .cooperative = true};
    CHECK_HAS(launched(&code, none, two_threads),
              "thread (0, 0, 0): waits (at k.py:2) for a change of memory that cannot come: ");
    for (int i = 0; i < 8; i++)
        CHECK_INT(polls[i], expected[i]);
}

int main(void)
{
    set_up();
    test_threads_that_do_not_wait();
    test_races();
    test_three_dimensions();
    test_all_of_three_dimensions();
    test_fences();
    test_cooperative_grids();
    test_shared_memory_of_blocks();
    test_polls();
    return kb_test_end("test_check_blocks");
}
