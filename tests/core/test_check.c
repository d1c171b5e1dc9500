/* Proves what the checked mode reports of accesses and barriers, and what it lets pass: kernels are
 * lists of steps, each of which one thread or all threads do, on arrays of every sort. */
#include "hostcuda/kb_check.h"

#include "allocation.h"
#include "hostcuda/kb_hostcuda.h"

#ifdef KB_FIBRE_ASAN
#include <sanitizer/asan_interface.h>
#endif

enum { N_THREADS = 70, STEPS_MAX = 12, ITEM = 4, N_SITES = STEPS_MAX + 1 };
enum { X, Y, Z, B, ALIAS, PART, CONSTANT, N_ARGUMENTS, S = N_ARGUMENTS, DYNAMIC, N_RANGES };
enum { LOCAL = N_RANGES, RAW, N_ARRAYS };
enum { ALL = -1 };

typedef enum {
    END,
    READ,
    WRITE,
    ATOMIC,
    INDEX,
    FENCE,
    BARRIER,
    LANES,
    VIEW,
    STOP,
    UNUSED
} operation;

/* `at` is an element, an index, or lanes; `value` what is written, or an extent. */
typedef struct step {
    operation does;
    int thread, array, at, value;
} step;

static const int64_t shape[2] = {2, 3}, local_shape[1] = {5};
static const kb_check_array arrays[] = {
    {"'x' (int32[1d])", ITEM, 1, 0, 0, 0, 0, NULL},
    {"'y' (int32[2d])", ITEM, 2, 2, 0, 0, 0, NULL},
    {"'z' (int32[2d])", ITEM, 2, 5, KB_CHECK_STRIDED, 0, 0, NULL},
    {"'b' (int32[1d])", ITEM, 1, 10, KB_CHECK_BATCHED, 0, 0, NULL},
    {"'alias' (int32[1d])", ITEM, 1, 13, 0, 0, 0, NULL},
    {"'part' (int32[1d])", ITEM, 1, 15, KB_CHECK_CONSTANT, 0, 0, NULL},
    {"'c' (int32[1d])", ITEM, 1, 17, KB_CHECK_CONSTANT, 0, 0, NULL},
    {"the shared array", ITEM, 2, 0, 0, 0, 24, shape},
    {"the dynamic array", ITEM, 1, 0, KB_CHECK_DYNAMIC, 32, 0, NULL},
    {"the local array", ITEM, 1, 0, 0, 0, 20, local_shape},
};
static const char *const sites[N_SITES] = {"",       "k.py:1", "k.py:2", "k.py:3", "k.py:4",
                                           "k.py:5", "k.py:6", "k.py:7", "k.py:8", "k.py:9"};
static const kb_check_table table = {"kernel", arrays, N_ARGUMENTS, 2, 1, 10, sites};

static int32_t x[10], y[12], z[24], b[8], c[2];
static int64_t words[19];
static void *parameters[19];
static const uint32_t one_block[6] = {1, 1, 1, N_THREADS, 1, 1}, two[6] = {1, 1, 2, 70, 1, 1};
static const step *script;

static void set_up(void)
{
    enum { OF_Z = 13 }; /* the element that comes first; steps of -6 and 2 elements */
    const int64_t all[19] = {(int64_t)(uintptr_t)x,
                             10,
                             (int64_t)(uintptr_t)y,
                             3,
                             4,
                             (int64_t)(uintptr_t)(z + OF_Z),
                             3,
                             2,
                             -6 * ITEM,
                             2 * ITEM,
                             (int64_t)(uintptr_t)b,
                             4 * ITEM,
                             4,
                             (int64_t)(uintptr_t)x,
                             10,
                             (int64_t)(uintptr_t)(x + 4),
                             3,
                             (int64_t)(uintptr_t)c,
                             2};
    memcpy(words, all, sizeof words);
    for (int i = 0; i < 19; i++)
        parameters[i] = &words[i];
}

static void *address_of(kb_thread *t, int array, void *local)
{
    if (array == RAW)
        return local;
    if (array == LOCAL)
        return kb_check_local(t, local, 0);
    if (array >= S)
        return kb_check_shared(t, (uint32_t)array - S);
    int64_t given = words[arrays[array].word];
    if (array == B)
        given += words[arrays[B].word + 1] * t->ctaid[2];
    uint64_t tagged = kb_check_argument(t, (uint64_t)given, (uint32_t)array);
    return (void *)(uintptr_t)tagged; // NOLINT(performance-no-int-to-ptr)
}

static void access_memory(kb_thread *t, const step *s, uint32_t site, void *local)
{
    unsigned char *at = address_of(t, s->array, local);
    at += (int64_t)s->at * ITEM;
    bool is_indexed = s > script && (s[-1].does == INDEX || s[-1].does == UNUSED);
    if (is_indexed && s[-1].thread == s->thread)
        at = kb_check_pointer(t, at);
    if (s->does == VIEW)
        return;
    uint32_t kind = s->does == READ    ? KB_ACCESS_READ
                    : s->does == WRITE ? KB_ACCESS_WRITE
                                       : KB_ACCESS_ATOMIC;
    int32_t value = s->value;
    void *memory = kb_check_access(t, at, ITEM, kind, site, s->does == WRITE ? &value : NULL);
    if (s->does != READ)
        memcpy(memory, &value, ITEM);
}

static void run_script(void *const *unused, kb_thread *t)
{
    (void)unused;
    int32_t local[5] = {0};
    uint32_t site = 1;
    for (const step *s = script; s->does != END; s++, site++) {
        if (s->thread != ALL && s->thread != (int)t->index)
            continue;
        switch (s->does) {
        case INDEX:
            kb_check_index(t, s->at, s->value, 1);
            break;
        case FENCE:
            kb_check_fence(t);
            break;
        case BARRIER:
            kb_barrier(t, site);
            break;
        case LANES:
            if (t->index < KB_WARP && s->at >> t->lane & 1)
                kb_warp_barrier(t, (uint32_t)s->at, site);
            break;
        case STOP:
            return;
        case UNUSED: /* in the first block, an index that the thread ends behind */
            if (t->ctaid[2] > 0)
                break;
            kb_check_index(t, s->at, s->value, 1);
            return;
        default:
            access_memory(t, s, site, local);
        }
    }
}

/* AddressSanitizer takes what frames of abandoned fibres marked for marks of the next ones. */
static void forget_frames(const kb_block *block)
{
#ifdef KB_FIBRE_ASAN
    __asan_unpoison_memory_region(block->stacks, block->stacks_size);
#else
    (void)block;
#endif
}

/* The first fault of the blocks; empty if there is none. */
static const char *run(const step steps[], const uint32_t sizes[6], uint32_t dynamic)
{
    static char fault[KB_FAULT_SIZE];
    kb_block_code code = {.run = run_script, .shared = 32, .stack = 256, .checked = &table};
    script = steps;
    fault[0] = '\0';
    kb_checks *checks = kb_checks_new(&table, sizes, dynamic, parameters);
    kb_block *block = kb_block_take(&code, sizes, dynamic);
    if (!CHECK(checks && block))
        return "no memory";
    block->checks = checks;
    for (uint32_t i = 0; i < sizes[2] && !fault[0]; i++) {
        uint32_t index[3] = {0, 0, i};
        if (!kb_block_run(block, parameters, index))
            memcpy(fault, block->fault, sizeof fault);
    }
    forget_frames(block);
    kb_block_give_back(block);
    kb_checks_free(checks);
    return fault;
}

typedef struct row {
    step steps[STEPS_MAX];
    const char *fault; /* part of it; or NULL */
} row;

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
        {{{READ, 0, Z, -13, 0}}, "reads 'z' (int32[2d]) out of bounds: element [-13]"},
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

static void test_indices(void)
{
    static const row rows[] = {
        {{{INDEX, 0, 0, 3, 4}, {READ, 0, Y, 3, 0}}, NULL},
        {{{INDEX, 0, 0, 4, 4}, {READ, 0, Y, 4, 0}},
         "reads 'y' (int32[2d]) out of bounds: index 4 of axis 1, whose extent is 4 (at k.py:2)"},
        {{{INDEX, 0, 0, -2, 4}, {WRITE, 0, Y, 4, 0}},
         "writes 'y' (int32[2d]) out of bounds: index -6 of axis 1"},
        {{{INDEX, 0, 0, 9, 4}, {INDEX, 0, 0, 8, 4}, {READ, 0, S, 0, 0}},
         "reads the shared array out of bounds: index 9 of"},
        {{{INDEX, 0, 0, 5, 5}, {READ, 0, LOCAL, 0, 0}},
         "reads the local array out of bounds: index 5 of"},
        {{{INDEX, 0, 0, 5, 5}, {READ, 0, RAW, 0, 0}},
         "reads a constant array out of bounds: index 5 of"},
        {{{INDEX, 0, 0, 5, 5}, {READ, 1, Y, 0, 0}}, NULL}, /* of another thread */
        /* a view that nobody reads, and views one after the other */
        {{{INDEX, 0, 0, 3, 3}, {VIEW, 0, Y, 12, 0}, {READ, 0, X, 0, 0}, {WRITE, 0, S, 0, 1}}, NULL},
        {{{INDEX, 0, 0, 3, 3}, {VIEW, 0, Y, 12, 0}, {INDEX, 0, 0, 7, 2}, {WRITE, 0, S, 0, 1}},
         "writes the shared array out of bounds: index 7 of axis 1, whose extent is 2"},
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

static void test_wrong_indices_end_with_the_block(void)
{
    /* the first block's thread ends between an index and its use; the second's makes an address */
    const step steps[] = {{UNUSED, 0, 0, 5, 5}, {WRITE, 0, X, 0, 1}, {END, 0, 0, 0, 0}};
    CHECK_TEXT(run(steps, two, 0), "");
}

static void test_shared_memory(void)
{
    static const row rows[] = {
        {{{READ, 0, S, 4, 0}},
         "reads element [1, 1] of the shared array, which no thread of the block has written (at "
         "k.py:1)"},
        {{{ATOMIC, 0, DYNAMIC, 1, 0}}, "updates element [1] of the dynamic array, which no thread"},
        {{{WRITE, 0, S, 1, 1}, {READ, 0, S, 2, 1}}, "element [0, 2]"},
        {{{WRITE, 0, S, 1, 1}, {BARRIER, ALL, 0, 0, 0}, {READ, 5, S, 1, 1}, {ATOMIC, 5, S, 1, 1}},
         NULL},
    };
    check_rows(rows, sizeof rows / sizeof *rows);
    const step second[] = {
        {WRITE, 0, S, 0, 1}, {BARRIER, ALL, 0, 0, 0}, {READ, 1, S, 0, 1}, {END, 0, 0, 0, 0}};
    CHECK_TEXT(run(second, two, 16), ""); /* each block writes its own */
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

static void test_batches(void)
{
    const step inside[] = {{WRITE, 0, B, 0, 1}, {WRITE, 1, B, 3, 2}, {END, 0, 0, 0, 0}};
    const step beside[] = {{READ, 0, B, 4, 1}, {END, 0, 0, 0, 0}};
    const step before[] = {{READ, 0, B, -1, 1}, {END, 0, 0, 0, 0}};
    CHECK_TEXT(run(inside, two, 0), "");
    CHECK_INT(b[4], 1);
    CHECK_INT(b[7], 2);
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

static bool make_checks(void)
{
    kb_checks *checks = kb_checks_new(&table, one_block, 64, parameters);
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
    kb_memory_fail_nth(1);
    CHECK_INT(kb_hostcuda_launch(digest, one_block, 0, parameters, NULL, &err), KB_INTERNAL);
    kb_memory_fail_nth(0);
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
    test_indices();
    test_blocks_of_three_axes();
    test_wrong_indices_end_with_the_block();
    test_shared_memory();
    test_races();
    test_batches();
    test_barriers();
    test_empty_and_launched();
    each_allocation("checks", make_checks, 9);
    return kb_test_end("test_check");
}
