/* Proves what the checked mode reports of accesses and barriers, and what it lets pass: kernels are
 * lists of steps, each of which one thread or all threads do, on arrays of every sort. */
#include "check_steps.h"

#include "allocation.h"
#include "ext/emulator/kb_check.h"

static const uint32_t one_block[6] = {1, 1, 1, N_THREADS, 1, 1}, two[6] = {1, 1, 2, 70, 1, 1};

/* The first fault of the blocks; empty if there is none. */
static const char *run_with(const kb_check_table *about, const step steps[],
                            const uint32_t sizes[6], uint32_t dynamic)
{
    static char fault[KB_FAULT_SIZE];
    kb_block_code code = {.run = run_script, .shared = 32, .stack = 256, .checked = about};
    script = steps;
    fault[0] = '\0';
    kb_checks *checks = kb_checks_new(about, sizes, dynamic, parameters, false);
    kb_block *block = kb_block_take(&code, sizes, dynamic);
    if (!CHECK(checks && block))
        return "no memory";
    block->checks = checks;
    for (uint32_t i = 0; i < sizes[2] && !fault[0]; i++) {
        int64_t first = (int64_t)sizes[0] * sizes[1] * i;
        if (!kb_block_run_range(block, parameters, sizes, first, first + 1))
            memcpy(fault, block->fault, sizeof fault);
    }
    forget_frames(block);
    kb_block_give_back(block);
    kb_checks_free(checks);
    return fault;
}

static const char *run(const step steps[], const uint32_t sizes[6], uint32_t dynamic)
{
    return run_with(&table, steps, sizes, dynamic);
}

static void check_rows(const row rows[], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *got = run(rows[i].steps, one_block, 16);
        bool held = rows[i].fault ? CHECK_HAS(got, rows[i].fault) : CHECK_TEXT(got, "");
        if (!held)
            fprintf(stderr, "in row %zu\n", i);
    }
}

static void test_bounds(void)
{
    static const row rows[] = {
        {{{READ, 3, X, 0, 0}, {READ, 3, X, 9, 0}, {WRITE, 3, X, 9, 1}}, NULL},
        {{{READ, 3, X, 10, 0}},
         "block (0, 0, 0), thread (3, 0, 0): reads 'x' (int32[1d]) out of bounds: element [10], "
         "and "
         "it has 10 (at k.py:1)"},
        {{{READ, 0, X, 9, 0}, {WRITE, 0, X, -1, 0}},
         "writes 'x' (int32[1d]) out of bounds: element [-1], and it has 10 (at k.py:2)"},
        {{{ATOMIC, 69, X, 12, 0}}, "thread (69, 0, 0): updates 'x' (int32[1d]) out of bounds"},
        {{{READ, 0, Y, 11, 0}}, NULL},
        {{{READ, 0, Y, 13, 0}},
         "reads 'y' (int32[2d]) out of bounds: element [3, 1], and it has 12"},
        {{{READ, 0, Y, -1, 0}}, "element [-1, 3]"},
        {{{READ, 0, Z, -12, 0}, {READ, 0, Z, 2, 0}}, NULL},
        {{{READ, 0, Z, -13, 0}},
         "reads 'z' (int32[2d]) out of bounds: element [-13], and it has 15 (at k.py:1)"},
        {{{READ, 0, Z, 3, 0}}, "reads 'z' (int32[2d]) out of bounds: element [3]"},
        {{{READ, 0, CONSTANT, 1, 0}, {READ, 1, CONSTANT, 1, 0}}, NULL},
        {{{READ, 0, CONSTANT, 2, 0}}, "reads 'c' (int32[1d]) out of bounds"},
        {{{READ, 0, PART, 3, 0}},
         "reads 'part' (int32[1d]) out of bounds: element [3], and it has 3"},
        {{{WRITE, 0, S, 5, 1}, {READ, 0, S, 5, 0}}, NULL},
        {{{WRITE, 0, S, 6, 1}},
         "writes the shared array out of bounds: element [2, 0], and it has 6"},
        {{{READ, 0, S, -1, 1}}, "reads the shared array out of bounds: element [-1, 2]"},
        {{{WRITE, 0, DYNAMIC, 3, 1}}, NULL},
        {{{WRITE, 0, DYNAMIC, 4, 1}},
         "writes the dynamic array out of bounds: element [4], and it has 4"},
        {{{WRITE, 0, LOCAL, 4, 1}, {READ, 1, LOCAL, 0, 0}}, NULL},
        {{{WRITE, 66, LOCAL, 5, 1}},
         "thread (66, 0, 0): writes the local array out of bounds: element [5], and it has 5"},
        {{{READ, 0, LOCAL, -1, 1}}, "reads the local array out of bounds: element [-1]"},
        {{{WRITE, 0, RAW, 2, 1}, {READ, 1, RAW, 3, 0}}, NULL},
    };
    check_rows(rows, sizeof rows / sizeof *rows);
}

/* Threads that wait for nobody run one after the other, with their own arrays at the same place. */
static void test_threads_that_do_not_wait(void)
{
    static const row rows[] = {
        {{{WRITE, 0, LOCAL, 4, 1}, {WRITE, 0, DYNAMIC, 3, 1}, {READ, 1, LOCAL, 0, 0}}, NULL},
        {{{WRITE, ALL, LOCAL, 4, 1}, {WRITE, 1, S, 5, 1}, {READ, 1, S, 5, 0}}, NULL},
        {{{WRITE, 66, LOCAL, 5, 1}},
         "thread (66, 0, 0): writes the local array out of bounds: element [5], and it has 5"},
        {{{WRITE, 0, LOCAL, 4, 1}, {WRITE, 0, DYNAMIC, 4, 1}},
         "writes the dynamic array out of bounds: element [4], and it has 4"},
    };
    kb_check_table about = table;
    about.waits = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *got = run_with(&about, rows[i].steps, one_block, 16);
        if (rows[i].fault)
            CHECK_HAS(got, rows[i].fault);
        else
            CHECK_TEXT(got, "");
    }
}

static void test_indices(void)
{
    static const row rows[] = {
        {{{INDEX, 0, 0, 3, 4}, {READ, 0, Y, 3, 0}}, NULL},
        {{{INDEX, 0, 0, 4, 4}, {READ, 0, Y, 4, 0}},
         "reads 'y' (int32[2d]) out of bounds: index 4 of axis 1, whose extent is 4 (of shape (3, "
         "4)) (at k.py:2)"},
        {{{INDEX, 0, 0, -2, 4}, {WRITE, 0, Y, 4, 0}},
         "writes 'y' (int32[2d]) out of bounds: index -6 of axis 1"},
        {{{INDEX, 0, 0, 9, 4}, {INDEX, 0, 0, 8, 4}, {READ, 0, S, 0, 0}},
         "reads the shared array out of bounds: index 9 of"},
        {{{INDEX, 0, 0, 5, 5}, {READ, 0, LOCAL, 0, 0}},
         "reads the local array out of bounds: index 5 of"},
        {{{INDEX, 0, 0, 5, 5}, {READ, 0, RAW, 0, 0}},
         "reads a constant array out of bounds: index 5 of"},
        {{{INDEX, 0, 0, 5, 5}, {READ, 1, Y, 0, 0}}, NULL}, /* of another thread */
        /* at a place that the table does not name */
        {{{FENCE, 2, 0, 0, 0},
          {FENCE, 2, 0, 0, 0},
          {FENCE, 2, 0, 0, 0},
          {FENCE, 2, 0, 0, 0},
          {FENCE, 2, 0, 0, 0},
          {FENCE, 2, 0, 0, 0},
          {FENCE, 2, 0, 0, 0},
          {FENCE, 2, 0, 0, 0},
          {FENCE, 2, 0, 0, 0},
          {READ, 1, X, 10, 0}},
         "element [10], and it has 10"},
        /* a view that nobody reads, and views one after the other */
        {{{INDEX, 0, 0, 3, 3}, {VIEW, 0, Y, 12, 0}, {READ, 0, X, 0, 0}, {WRITE, 0, S, 0, 1}}, NULL},
        {{{INDEX, 0, 0, 3, 3}, {VIEW, 0, Y, 12, 0}, {INDEX, 0, 0, 7, 2}, {WRITE, 0, S, 0, 1}},
         "writes the shared array out of bounds: index 7 of axis 1, whose extent is 2"},
        /* the same index of another extent */
        {{{INDEX, 0, 0, 3, 3}, {VIEW, 0, Y, 12, 0}, {INDEX, 0, 0, 3, 2}, {WRITE, 0, Y, 0, 1}},
         "writes 'y' (int32[2d]) out of bounds: index 3 of axis 1, whose extent is 2"},
    };
    check_rows(rows, sizeof rows / sizeof *rows);
}

static void test_blocks_of_three_axes(void)
{
    static const uint32_t cube[6] = {1, 1, 1, 8, 4, 2};
    const step last[] = {{INDEX, 63, 0, 5, 5}, {READ, 63, X, 0, 0}, {END, 0, 0, 0, 0}};
    const step race[] = {{WRITE, 62, LOCAL, 4, 1}, {WRITE, 63, LOCAL, 5, 1}, {END, 0, 0, 0, 0}};
    CHECK_HAS(run(last, cube, 0),
              "thread (7, 3, 1): reads 'x' (int32[1d]) out of bounds: index 5 of axis 1");
    CHECK_HAS(run(race, cube, 0), "thread (7, 3, 1): writes the local array out of bounds");
}

static void test_shared_memory(void)
{
    static const row rows[] = {
        {{{READ, 0, S, 4, 0}},
         "reads element [1, 1] of the shared array, which no thread of the block has written (at "
         "k.py:1)\n    k.py:1: x[i] += 1"},
        {{{ATOMIC, 0, DYNAMIC, 1, 0}}, "updates element [1] of the dynamic array, which no thread"},
        {{{WRITE, 0, S, 1, 1}, {READ, 0, S, 2, 1}}, "element [0, 2]"},
        {{{WRITE, 0, DYNAMIC, 0, 1}, {READ, 1, B, 3, 0}}, NULL}, /* which lies elsewhere */
        {{{WRITE, 0, S, 1, 1}, {BARRIER, ALL, 0, 0, 0}, {READ, 5, S, 1, 1}, {ATOMIC, 5, S, 1, 1}},
         NULL},
    };
    check_rows(rows, sizeof rows / sizeof *rows);
    const step second[] = {
        {WRITE, 0, S, 0, 1}, {BARRIER, ALL, 0, 0, 0}, {READ, 1, S, 0, 1}, {END, 0, 0, 0, 0}};
    CHECK_TEXT(run(second, two, 16), ""); /* each block writes its own */
}

/* A read of what nothing has written is told when a barrier, the end or many more reads come
 * without a race: it is one that explains such a read. */
static void test_unwritten_or_race(void)
{
    enum { MANY = 4096, ROUNDS = MANY / N_THREADS, REST = MANY % N_THREADS };
    static const row rows[] = {
        {{{READ, 0, S, 4, 0}, {READ, 0, S, 4, 0}, {READ, 0, S, 5, 0}, {WRITE, 1, S, 4, 1}},
         "a data race: it writes element [1, 1] of the shared array"},
        {{{WRITE, 0, S, 4, 5}, {WRITE, 1, S, 4, 5}}, NULL}, /* the same value */
        {{{READ, 0, S, 4, 0}, {WRITE, 1, S, 4, 0}},         /* what is unwritten is no value */
         "a data race: it writes element [1, 1] of the shared array"},
        {{{READ, 0, S, 4, 0}, {BARRIER, ALL, 0, 0, 0}, {WRITE, 0, X, 1, 1}, {WRITE, 1, X, 1, 2}},
         "reads element [1, 1] of the shared array, which no thread of the block has written"},
    };
    check_rows(rows, sizeof rows / sizeof *rows);
    for (int more = 0; more < 2; more++) { /* one read, then so many */
        step steps[ROUNDS + REST + 4] = {{READ, 0, S, 4, 0}};
        int n = 1;
        for (int i = 0; i < ROUNDS; i++)
            steps[n++] = (step){READ, ALL, S, 4, 0};
        for (int i = 0; i < REST - 1 + more; i++)
            steps[n++] = (step){READ, N_THREADS - 1, S, 4, 0};
        steps[n++] = (step){WRITE, N_THREADS - 1, X, 1, 1};
        steps[n++] = (step){WRITE, N_THREADS - 2, X, 1, 2};
        steps[n] = (step){END, 0, 0, 0, 0};
        CHECK_HAS(run(steps, one_block, 16), more ? "no thread of the block has written"
                                                  : "a data race: it writes element [1] of 'x'");
    }
}

static void test_races(void)
{
    static const row rows[] = {
        {{{WRITE, 0, X, 1, 1}, {READ, 33, X, 1, 0}},
         "thread (33, 0, 0): a data race: it reads element [1] of 'x' (int32[1d]) (at k.py:2), "
         "which "
         "thread (0, 0, 0) writes (at k.py:1), with no barrier between"},
        {{{READ, 0, Y, 6, 0}, {ATOMIC, 1, Y, 6, 9}},
         "it updates element [1, 2] of 'y' (int32[2d]) (at k.py:2), which thread (0, 0, 0) reads"},
        {{{ATOMIC, 0, X, 0, 3}, {WRITE, 1, X, 0, 4}}, "which thread (0, 0, 0) updates"},
        {{{ATOMIC, 0, X, 0, 3}, {ATOMIC, 1, X, 0, 4}}, NULL},
        {{{WRITE, 0, X, 1, 2}, {WRITE, 1, X, 2, 3}}, NULL},
        {{{WRITE, 0, X, 1, 5}, {WRITE, 1, X, 1, 5}}, NULL}, /* the same value */
        {{{WRITE, 0, X, 1, 5}, {WRITE, 1, X, 1, 6}}, "it writes element [1]"},
        {{{WRITE, 0, X, 1, 1}, {BARRIER, ALL, 0, 0, 0}, {WRITE, 1, X, 1, 2}}, NULL},
        {{{WRITE, 0, X, 1, 1}, {LANES, ALL, 0, 0xF, 0}, {WRITE, 1, X, 1, 2}}, NULL},
        {{{WRITE, 3, X, 1, 1},
          {LANES, ALL, 0, 0x18, 0},
          {LANES, ALL, 0, 0x30, 0},
          {WRITE, 5, X, 1, 2}},
         NULL},
        {{{WRITE, 31, X, 1, 1},
          {LANES, ALL, 0, (int)0xC0000000, 0},
          {LANES, ALL, 0, 0x60000000, 0},
          {WRITE, 29, X, 1, 2}},
         NULL},
        {{{WRITE, 3, X, 1, 1},
          {LANES, ALL, 0, 0x30, 0},
          {LANES, ALL, 0, 0x18, 0},
          {WRITE, 5, X, 1, 2}},
         "thread (5, 0, 0): a data race: it writes"},
        {{{WRITE, 1, X, 1, 1}, /* what the first lane has seen, and what of it */
          {LANES, ALL, 0, 0x3, 0},
          {LANES, ALL, 0, 0x5, 0},
          {WRITE, 2, X, 1, 2}},
         NULL},
        {{{WRITE, 0, X, 1, 1},
          {LANES, ALL, 0, 0x3, 0},
          {LANES, ALL, 0, 0x6, 0},
          {WRITE, 2, X, 1, 2}},
         NULL},
        {{{WRITE, 3, X, 1, 1}, /* of lanes that do not take part */
          {LANES, ALL, 0, 0x18, 0},
          {LANES, ALL, 0, 0x60, 0},
          {WRITE, 5, X, 1, 2}},
         "thread (5, 0, 0): a data race: it writes"},
        {{{WRITE, 0, X, 1, 1}, {LANES, ALL, 0, 0x3, 0}, {WRITE, 2, X, 1, 2}},
         "thread (2, 0, 0): a data race: it writes"},
        {{{WRITE, 0, X, 1, 1}, {LANES, ALL, 0, 0xE, 0}, {WRITE, 1, X, 1, 2}},
         "it writes element [1]"},
        {{{WRITE, 0, X, 1, 1}, {LANES, ALL, 0, 0xF, 0}, {WRITE, 64, X, 1, 2}},
         "thread (64, 0, 0): a data race"},
        {{{WRITE, 0, X, 5, 1}, {READ, 1, ALIAS, 5, 0}}, "element [5] of 'alias'"},
        {{{WRITE, 0, X, 5, 1}, {READ, 1, PART, 1, 0}}, "element [1] of 'part'"},
        {{{WRITE, 0, X, 5, 1}, {READ, 1, PART, 0, 0}}, NULL},
        {{{WRITE, 0, Z, -12, 1}, {READ, 1, Z, -12, 0}}, "element [-12] of 'z'"},
        {{{WRITE, 0, S, 1, 1}, {READ, 1, S, 1, 0}}, "element [0, 1] of the shared array"},
        {{{WRITE, 0, LOCAL, 1, 1}, {WRITE, 1, LOCAL, 1, 2}}, NULL},
        /* a lock is handed on: write, fence, atomic; then atomic, read */
        {{{WRITE, 0, X, 1, 1},
          {FENCE, 0, 0, 0, 0},
          {ATOMIC, 0, X, 0, 1},
          {ATOMIC, 40, X, 0, 2},
          {READ, 40, X, 1, 0}},
         NULL},
        {{{WRITE, 0, X, 1, 1}, {FENCE, 0, 0, 0, 0}, {ATOMIC, 0, X, 0, 1}, {READ, 40, X, 1, 0}},
         "it reads element [1]"},
        {{{WRITE, 0, X, 1, 1}, {ATOMIC, 0, X, 0, 1}, {ATOMIC, 40, X, 0, 2}, {READ, 40, X, 1, 0}},
         "it reads element [1]"},
        {{{FENCE, 0, 0, 0, 0}, {WRITE, 0, X, 1, 1}, {ATOMIC, 40, X, 0, 2}, {READ, 40, X, 1, 0}},
         "it reads element [1]"},
    };
    check_rows(rows, sizeof rows / sizeof *rows);
}

/* Two threads write, each to one element; both are the first or the last of their arrays. */
static const char *write_two(const kb_check_table *about, const int one[2], const int other[2],
                             uint32_t dynamic)
{
    static const uint32_t two_threads[6] = {1, 1, 1, 2, 1, 1};
    const step steps[] = {
        {WRITE, 0, one[0], one[1], 100}, {WRITE, 1, other[0], other[1], 200}, {END, 0, 0, 0, 0}};
    return run_with(about, steps, two_threads, dynamic);
}

/* No element of an array, the first and the last ones, shares what is remembered with another's,
 * whichever of the shared arrays is the dynamic one, and whatever its size. */
static void test_cells_are_apart(void)
{
    kb_check_array other_order[sizeof arrays / sizeof *arrays];
    kb_check_table swapped = table;
    memcpy(other_order, arrays, sizeof arrays);
    other_order[S] = arrays[DYNAMIC];
    other_order[DYNAMIC] = arrays[S];
    swapped.arrays = other_order;
    for (int how = 0; how < 4; how++) {
        bool first = how & 1;
        uint32_t n = how & 2 ? 4 : 12; /* elements of the dynamic array */
        const int ends[][2] = {
            {X, 0},       {X, 9},
            {Y, 0},       {Y, 11},
            {Z, -12},     {Z, 2},
            {B, 0},       {B, 3},
            {S, 0},       {S, first ? (int)n - 1 : 5},
            {Z, 1},       {Z, -11},
            {DYNAMIC, 0}, {DYNAMIC, first ? 5 : (int)n - 1},
        };
        enum { N = sizeof ends / sizeof *ends };
        for (int i = 0; i < N * N; i++) {
            const char *got =
                write_two(first ? &swapped : &table, ends[i / N], ends[i % N], n * ITEM);
            if (i / N == i % N)
                CHECK_HAS(got, "thread (1, 0, 0): a data race: it writes element");
            else
                CHECK_TEXT(got, "");
        }
    }
}

/* When so much time has passed that it begins anew, what warps had seen means nothing any more. */
static void test_late(void)
{
    static const uint32_t two_blocks[6] = {2, 1, 1, N_THREADS, 1, 1};
    enum { WRITER = KB_WARP - 2, READER }; /* of the lanes of the first warp */
    const step no_warps[] = {{WRITE, WRITER, X, 1, 1}, {END, 0, 0, 0, 0}};
    const step steps[] = {{LANES, WRITER, 0, (int)0xC0000000, 0},
                          {LANES, READER, 0, (int)0xC0000000, 0},
                          {WRITE, N_THREADS + WRITER, X, 1, 1},
                          {READ, N_THREADS + READER, X, 1, 0},
                          {END, 0, 0, 0, 0}};
    kb_block_code code = {.run = run_script, .shared = 32, .stack = 256, .checked = &table};
    kb_checks *checks = kb_checks_new(&table, two_blocks, 0, parameters, false);
    kb_block *block = kb_block_take(&code, two_blocks, 0);
    if (!CHECK(checks && block))
        return;
    block->checks = checks;
    script = no_warps; /* which have seen nothing */
    checks->shadow->time = UINT32_C(1) << 31;
    CHECK(kb_block_run_range(block, parameters, two_blocks, 0, 1));
    CHECK(checks->shadow->time < 100);
    script = steps;
    checks->shadow->time = (UINT32_C(1) << 31) - 2;
    for (uint32_t i = 0; i < 2; i++)
        CHECK(kb_block_run_range(block, parameters, two_blocks, i, i + 1) == (i == 0));
    CHECK(checks->shadow->time < 100);
    CHECK_HAS(block->fault,
              "block (1, 0, 0), thread (31, 0, 0): a data race: it reads element [1]");
    forget_frames(block);
    kb_block_give_back(block);
    kb_checks_free(checks);
}

static void test_batches(void)
{
    const step inside[] = {{WRITE, 0, B, 0, 1}, {WRITE, 1, B, 3, 2}, {END, 0, 0, 0, 0}};
    const step beside[] = {{READ, 0, B, 4, 1}, {END, 0, 0, 0, 0}};
    const step before[] = {{READ, 0, B, -1, 1}, {END, 0, 0, 0, 0}};
    static const uint32_t wide[6] = {5, 1, 2, N_THREADS, 1, 1};
    for (int i = 0; i < 2; i++) { /* however many blocks a slice has */
        memset(b, 0, sizeof b);
        CHECK_TEXT(run(inside, i ? wide : two, 0), "");
        CHECK_INT(b[0], 1);
        CHECK_INT(b[3], 2);
        CHECK_INT(b[4], 1);
        CHECK_INT(b[7], 2);
    }
    CHECK_HAS(
        run(beside, two, 0),
        "block (0, 0, 0), thread (0, 0, 0): reads 'b' (int32[1d]) out of bounds: element [4]");
    CHECK_HAS(run(before, two, 0), "element [-1]");
}

static void test_barriers(void)
{
    static const row rows[] = {
        {{{BARRIER, ALL, 0, 0, 0}, {BARRIER, ALL, 0, 0, 0}}, NULL},
        {{{STOP, 0, 0, 0, 0}, {BARRIER, ALL, 0, 0, 0}},
         "thread (1, 0, 0): comes to cuda.syncthreads (at k.py:2), which 1 of the block's 70 "
         "threads "
         "never reach: they have ended"},
        {{{STOP, 5, 0, 0, 0}, {BARRIER, ALL, 0, 0, 0}},
         "thread (5, 0, 0): ends without cuda.syncthreads (at k.py:2), in which thread (0, 0, 0) "
         "waits"},
        {{{BARRIER, 0, 0, 0, 0}, {BARRIER, 1, 0, 0, 0}},
         "thread (1, 0, 0): comes to cuda.syncthreads (at k.py:2), and thread (0, 0, 0) to another "
         "(at "
         "k.py:1): all threads of a block must come to the same"},
        {{{STOP, ALL, 0, 0, 0}}, NULL},
    };
    check_rows(rows, sizeof rows / sizeof *rows);
}

/* Another thread than the first waits, in a block of three axes; those before it wait for their
 * warp. */
static void test_barriers_of_three_axes(void)
{
    static const uint32_t cube[6] = {1, 1, 1, 4, 3, 2};
    enum { WAITS = 20 };
    for (int ends = 0; ends < 2; ends++) {
        step steps[WAITS + 3] = {{BARRIER, WAITS, 0, 0, 0}, {BARRIER, WAITS + 1, 0, 0, 0}};
        if (ends)
            steps[1].does = STOP;
        for (int i = 0; i < WAITS; i++)
            steps[2 + i] = (step){LANES, i, 0, (1 << (WAITS + 1)) - 1, 0};
        CHECK_HAS(run(steps, cube, 0),
                  ends ? "thread (1, 2, 1): ends without cuda.syncthreads (at k.py:1), in which "
                         "thread (0, 2, 1) waits"
                       : "thread (1, 2, 1): comes to cuda.syncthreads (at k.py:2), and thread (0, "
                         "2, 1) to another (at k.py:1)");
    }
}

static bool make_checks(void)
{
    kb_checks *checks = kb_checks_new(&table, one_block, 64, parameters, false);
    kb_checks_free(checks);
    return checks != NULL;
}

static bool make_checks_of_grid(void)
{
    static const uint32_t three[6] = {3, 1, 1, N_THREADS, 1, 1};
    kb_checks *checks = kb_checks_new(&table, three, 64, parameters, true);
    kb_checks_free(checks);
    return checks != NULL;
}

static void test_empty_and_launched(void)
{
    static const char digest[KB_HOSTCUDA_DIGEST + 1] =
        "c123456789012345678901234567890123456789012345678901234567890123";
    const step bad[] = {{WRITE, 2, X, 10, 1}, {END, 0, 0, 0, 0}};
    const step good[] = {{WRITE, 2, X, 9, 1}, {END, 0, 0, 0, 0}};
    kb_hostcuda_code code = {.threads = {.run = run_script, .shared = 32, .checked = &table}};
    kb_error err;
    CHECK_INT(kb_hostcuda_add(digest, &code, &err), KB_OK);
    script = bad;
    CHECK_INT(kb_hostcuda_launch(digest, one_block, 0, parameters, NULL, &err), KB_INTERNAL);
    CHECK_HAS(err.message, "writes 'x' (int32[1d]) out of bounds");
    kb_block *block = kb_block_take(&code.threads, one_block, 0);
    if (CHECK(block))
        forget_frames(block);
    kb_block_give_back(block);
    script = good;
    CHECK_INT(kb_hostcuda_launch(digest, one_block, 0, parameters, NULL, &err), KB_OK);
    torture_fail_nth(1);
    CHECK_INT(kb_hostcuda_launch(digest, one_block, 0, parameters, NULL, &err), KB_INTERNAL);
    torture_fail_nth(0);
    CHECK_HAS(err.message, "no memory to check");
    words[1] = 0; /* x has no elements */
    words[14] = 0;
    CHECK_HAS(run(good, one_block, 16),
              "writes 'x' (int32[1d]) out of bounds: element [9], and it has 0");
    set_up();
}

int main(void)
{
    set_up();
    test_bounds();
    test_threads_that_do_not_wait();
    test_indices();
    test_blocks_of_three_axes();
    test_shared_memory();
    test_unwritten_or_race();
    test_races();
    test_cells_are_apart();
    test_late();
    test_batches();
    test_barriers();
    test_barriers_of_three_axes();
    test_empty_and_launched();
    each_allocation("checks", make_checks, 5);
    each_allocation("checks of a grid", make_checks_of_grid, 6);
    return kb_test_end("test_check");
}
