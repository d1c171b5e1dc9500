/* Proves the whole text of what the checked mode reports: of wrong indices, one of many and one
 * like another; of shapes with as many axes as there may be; of threads and blocks of three axes;
 * and the lines of the source. */
#include "check_steps.h"

static const uint32_t one_thread[6] = {1, 1, 1, 1, 1, 1};
static const step nothing[] = {{END, 0, 0, 0, 0}};

/* The fault of a launch; "" if there is none. */
static const char *launched(const kb_check_table *about, kb_block_entry *entry, const step steps[],
                            const uint32_t sizes[6], void **given)
{
    static char fault[KB_FAULT_SIZE];
    const kb_hostcuda_code code = {
        .threads = {.run = entry, .shared = 32, .stack = 256, .checked = about}};
    fault[0] = '\0';
    script = steps;
    kb_cu_result result = kb_hostcuda_run(&code, sizes, 16, given, NULL, fault);
    CHECK_INT(result, fault[0] ? KB_HOSTCUDA_FAULT : KB_CU_SUCCESS);
    kb_block *block = kb_block_take(&code.threads, sizes, 16);
    if (CHECK(block))
        forget_frames(block);
    kb_block_give_back(block);
    return fault;
}

/* An index, and the array that it was used on. */
typedef struct used {
    int64_t index, extent;
    uint32_t axis;
    int array;
} used;

static void *view_of(kb_thread *t, const used *u, void *local)
{
    return kb_check_wrong(t, address_of(t, u->array, local), u->index, u->extent, u->axis);
}

static void read_at(kb_thread *t, void *at)
{
    (void)memory_of(t, at, ITEM, KB_CHECK_HOW(KB_ACCESS_READ, 2), 0);
}

static const used first = {7, 5, 2, Y};
static const used *second; /* wrong too, and made later */
static bool reads_first;

static void make_two(void *const *unused, kb_thread *t)
{
    int32_t local[5] = {0};
    (void)unused;
    void *one = view_of(t, &first, local), *other = view_of(t, second, local);
    read_at(t, reads_first ? one : other);
}

/* One that differs in a single word is another one. */
static void test_like_another(void)
{
    static const struct {
        used second;
        const char *fault;
    } cases[] = {
        {{7, 5, 2, Y},
         "'y' (int32[2d]) out of bounds: index 7 of axis 2, whose extent is 5 (of "
         "shape (3, 4)) (at k.py:2)"},
        {{8, 5, 2, Y},
         "'y' (int32[2d]) out of bounds: index 8 of axis 2, whose extent is 5 (of "
         "shape (3, 4)) (at k.py:2)"},
        {{7, 6, 2, Y},
         "'y' (int32[2d]) out of bounds: index 7 of axis 2, whose extent is 6 (of "
         "shape (3, 4)) (at k.py:2)"},
        {{7, 5, 1, Y},
         "'y' (int32[2d]) out of bounds: index 7 of axis 1, whose extent is 5 (of "
         "shape (3, 4)) (at k.py:2)"},
        {{7, 5, 2, X},
         "'x' (int32[1d]) out of bounds: index 7 of axis 2, whose extent is 5 (of "
         "shape (10,)) (at k.py:2)"},
        {{-1, 5, 0, Z},
         "'z' (int32[2d]) out of bounds: index -6 of axis 0, whose extent is 5 (of "
         "shape (3, 2)) (at k.py:2)"},
        {{0, 0, 0, S},
         "the shared array out of bounds: index 0 of axis 0, whose extent is 0 (of "
         "shape (2, 3)) (at k.py:2)"},
        {{7, 5, 2, DYNAMIC},
         "the dynamic array out of bounds: index 7 of axis 2, whose extent is "
         "5 (of shape (4,)) (at k.py:2)"},
        {{7, 5, 2, LOCAL},
         "the local array out of bounds: index 7 of axis 2, whose extent is 5 (at k.py:2)"},
        {{7, 5, 2, RAW},
         "a constant array out of bounds: index 7 of axis 2, whose extent is 5 (at k.py:2)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int which = 0; which < 2; which++) {
            char expected[256];
            reads_first = which;
            second = &cases[i].second;
            (void)snprintf(expected, sizeof expected, "block (0, 0, 0), thread (0, 0, 0): reads %s",
                           cases[which ? 0 : i].fault);
            CHECK_TEXT(launched(&table, make_two, nothing, one_thread, parameters), expected);
        }
}

/* How many wrong indices follow the first before those of the same kind come again; how often. */
static int n_kinds, n_rounds;

static void make_many(void *const *unused, kb_thread *t)
{
    (void)unused;
    void *held = view_of(t, &first, NULL), *last = view_of(t, &first, NULL);
    for (int i = 0; i < n_rounds; i++)
        for (int k = 0; k < n_kinds; k++)
            last = view_of(t, &(used){100 + k, 9, 0, X}, NULL);
    read_at(t, reads_first ? held : last);
}

static void test_many(void)
{
    static const struct {
        int kinds, rounds;
        bool first;
        const char *fault;
    } cases[] = {
        {8, 300, true, "reads 'y' (int32[2d]) out of bounds: index 7 of axis 2"},
        {8, 300, false, "reads 'x' (int32[1d]) out of bounds: index 107 of axis 0"},
        /* which comes again too late to be found, so that the first is forgotten in the end */
        {9, 300, true, "reads 'x' (int32[1d]) out of bounds: index 103 of axis 0"},
        {1, 1000, true, "reads 'y' (int32[2d]) out of bounds: index 7 of axis 2"},
        {255, 1, true, "reads 'y' (int32[2d]) out of bounds: index 7 of axis 2"},
        {255, 1, false, "reads 'x' (int32[1d]) out of bounds: index 354 of axis 0"},
        {256, 1, false, "reads 'x' (int32[1d]) out of bounds: index 355 of axis 0"},
        {600, 3, false, "reads 'x' (int32[1d]) out of bounds: index 699 of axis 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        n_kinds = cases[i].kinds;
        n_rounds = cases[i].rounds;
        reads_first = cases[i].first;
        CHECK_HAS(launched(&table, make_many, nothing, one_thread, parameters), cases[i].fault);
    }
}

static void read_wrongly(void *const *unused, kb_thread *t)
{
    (void)unused;
    read_at(t, view_of(t, &(used){10, 10, 17, X}, NULL));
}

/* Leaves marks where the next functions have their variables. */
static __attribute__((noinline)) void mark_stack(void)
{
    volatile char marks[8192];
    for (size_t i = 0; i < sizeof marks; i++)
        marks[i] = 'm';
}

enum { OUTSIDE, WRONG, RACE, N_FAULTS };

static int which;
static uint32_t unknown; /* a place */

static void access_somewhere(void *const *unused, kb_thread *t)
{
    char *at = address_of(t, X, NULL);
    uint32_t kind = t->index ? KB_ACCESS_READ : KB_ACCESS_WRITE;
    (void)unused;
    if (which == OUTSIDE)
        at += (size_t)10 * ITEM;
    if (which == WRONG)
        at = kb_check_wrong(t, at, 3, 3, 0);
    mark_stack();
    (void)memory_of(t, at, ITEM, KB_CHECK_HOW(kind, unknown), 0);
}

/* Where the code does not say where it is, the message says nothing of it. */
static void test_no_places(void)
{
    static const char *const faults[N_FAULTS] = {
        "block (0, 0, 0), thread (0, 0, 0): writes 'x' (int32[1d]) out of bounds: element [10], "
        "and it has 10",
        "block (0, 0, 0), thread (0, 0, 0): writes 'x' (int32[1d]) out of bounds: index 3 of axis "
        "0, whose extent is 3 (of shape (10,))",
        "block (0, 0, 0), thread (1, 0, 0): a data race: it reads element [0] of 'x' (int32[1d]), "
        "which thread (0, 0, 0) writes, with no barrier between"};
    static const uint32_t places[] = {0, 10, 12, 70000};
    static const uint32_t two_threads[6] = {1, 1, 1, 2, 1, 1};
    for (which = 0; which < N_FAULTS; which++)
        for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
            unknown = places[i];
            CHECK_TEXT(launched(&table, access_somewhere, nothing, two_threads, parameters),
                       faults[which]);
        }
}

/* As many axes as there may be, and of them as many sizes of two digits as fit into a number. */
static void test_shapes(void)
{
    static const kb_check_array wide[1] = {
        {"'m' (int32[32d])", ITEM, KB_CHECK_DIMS, 0, KB_CHECK_CONSTANT, 0, 0, NULL, ITEM}};
    static const kb_check_table about = {"kernel", wide, 1, 0, 0, 3, sites, 0};
    enum { TENS = 18 };
    int64_t all[1 + KB_CHECK_DIMS] = {(int64_t)(uintptr_t)x};
    void *given[1 + KB_CHECK_DIMS];
    char expected[512] = "block (0, 0, 0), thread (0, 0, 0): reads 'm' (int32[32d]) out of bounds: "
                         "index 10 of axis 17, whose extent is 10 (of shape (10";
    for (int i = 0; i < KB_CHECK_DIMS; i++) {
        all[1 + i] = i < TENS ? 10 : 1;
        if (i)
            strcat(expected, i < TENS ? ", 10" : ", 1");
    }
    strcat(expected, ")) (at k.py:2)");
    for (int i = 0; i < 1 + KB_CHECK_DIMS; i++)
        given[i] = &all[i];
    CHECK_TEXT(launched(&about, read_wrongly, nothing, one_thread, given), expected);
}

/* Who races with whom, in a block of three axes. */
static void test_threads(void)
{
    static const uint32_t cube[6] = {1, 1, 1, 5, 7, 2};
    static const step race[] = {{WRITE, 59, X, 3, 1}, {READ, 66, X, 3, 0}, {END, 0, 0, 0, 0}};
    CHECK_TEXT(
        launched(&table, run_script, race, cube, parameters),
        "block (0, 0, 0), thread (1, 6, 1): a data race: it reads element [3] of 'x' "
        "(int32[1d]) (at k.py:2), which thread (4, 4, 1) writes (at k.py:1), with no barrier "
        "between\n    k.py:1: x[i] += 1");
}

static uint32_t writer[3], reader[3]; /* blocks */
static bool uses_last;                /* of the arguments; else the first */

static void write_and_read(void *const *unused, kb_thread *t)
{
    static const step write[2] = {{WRITE, 0, X, 1, 77}, {WRITE, 0, CONSTANT, 1, 77}};
    static const step read[2] = {{READ, 0, X, 1, 0}, {READ, 0, CONSTANT, 1, 0}};
    bool writes = memcmp(t->ctaid, writer, sizeof writer) == 0;
    (void)unused;
    script = writes ? &write[uses_last] : &read[uses_last];
    if (t->index == 0 && (writes || memcmp(t->ctaid, reader, sizeof reader) == 0))
        access_memory(t, script, writes ? 1 : 2, NULL);
}

/* In which blocks, of one thread and of several, whether threads may wait or not. */
static void test_blocks(void)
{
    static const struct {
        uint32_t sizes[6], writer[3], reader[3];
    } cases[] = {
        {{2, 3, 4, 1, 1, 1}, {0, 1, 2}, {1, 2, 3}}, {{5, 4, 3, 3, 1, 1}, {4, 2, 1}, {0, 3, 1}},
        {{3, 1, 1, 1, 1, 1}, {0, 0, 0}, {2, 0, 0}}, {{1, 3, 1, 1, 1, 1}, {0, 1, 0}, {0, 2, 0}},
        {{1, 1, 3, 1, 1, 1}, {0, 0, 1}, {0, 0, 2}}, {{7, 2, 2, 2, 1, 1}, {6, 0, 0}, {0, 1, 0}},
    };
    kb_check_array alike[sizeof arrays / sizeof *arrays];
    kb_check_table whole = table; /* in which z is not the slice of a batch */
    memcpy(alike, arrays, sizeof alike);
    alike[B] = alike[X];
    alike[CONSTANT].flags = 0;
    whole.arrays = alike;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int how = 0; how < 4; how++) {
            char expected[512];
            whole.waits = how & 1;
            uses_last = how & 2;
            const uint32_t *w = cases[i].writer, *r = cases[i].reader;
            memcpy(writer, w, sizeof writer);
            memcpy(reader, r, sizeof reader);
            (void)snprintf(
                expected, sizeof expected,
                "block (%u, %u, %u), thread (0, 0, 0): a data race between blocks: it reads "
                "element [1] of '%c' (int32[1d]) (at k.py:2), which thread (0, 0, 0) of block (%u, "
                "%u, %u) writes (at k.py:1), with no barrier of the grid between\n"
                "    k.py:1: x[i] += 1",
                r[0], r[1], r[2], uses_last ? 'c' : 'x', w[0], w[1], w[2]);
            CHECK_TEXT(launched(&whole, write_and_read, nothing, cases[i].sizes, parameters),
                       expected);
        }
}

/* Two lines of the source, with all of their text. */
static void test_lines(void)
{
    enum { TEXT = 200 };
    static char lines[2][TEXT + 16] = {"k.py:1\t", "k.py:2\t"};
    const char *const long_sites[3] = {"", lines[0], lines[1]};
    static const step race[] = {{WRITE, 0, X, 1, 1}, {READ, 1, X, 1, 0}, {END, 0, 0, 0, 0}};
    static const uint32_t two_threads[6] = {1, 1, 1, 2, 1, 1};
    kb_check_table about = table;
    char expected[1024];
    about.sites = long_sites;
    about.n_sites = 3;
    for (int i = 0; i < 2; i++)
        memset(lines[i] + strlen(lines[i]), 'a' + i, TEXT);
    (void)snprintf(expected, sizeof expected,
                   "block (0, 0, 0), thread (1, 0, 0): a data race: it reads element [1] of 'x' "
                   "(int32[1d]) (at k.py:2), which thread (0, 0, 0) writes (at k.py:1), with no "
                   "barrier between\n    k.py:2: %s\n    k.py:1: %s",
                   strchr(lines[1], '\t') + 1, strchr(lines[0], '\t') + 1);
    CHECK_TEXT(launched(&about, run_script, race, two_threads, parameters), expected);
}

static const struct shuffle {
    uint32_t mask, thread, from; /* the only one that reads another lane than its own */
    const char *why;             /* it cannot; or NULL */
} * shuffle;

static void read_lane(void *const *unused, kb_thread *t)
{
    (void)unused;
    if (t->index == 34 || !(shuffle->mask >> t->lane & 1))
        return;
    uint32_t from = t->index == shuffle->thread ? shuffle->from : t->lane;
    (void)kb_shuffle(t, shuffle->mask, 1, t->index, 31, 0, 2); /* most keep their own values */
    (void)kb_shuffle(t, shuffle->mask, 0, t->index, from, 31, 2);
}

/* Which lanes a shuffle cannot read, in the second warp of a block, which has 8 lanes. */
static void test_shuffles(void)
{
    static const uint32_t two_warps[6] = {1, 1, 1, 40, 1, 1};
    static const struct shuffle cases[] = {
        {UINT32_MAX, 35, 1, NULL},
        {UINT32_MAX, 32, 7, NULL},
        {UINT32_MAX, 3, 31, NULL},
        {0xB, 33, 4, "is not in its mask"},
        {0xB, 32, 31, "is not in its mask"},
        {UINT32_MAX, 39, 8, "is beyond the threads of the block"},
        {UINT32_MAX, 35, 31, "is beyond the threads of the block"},
        {UINT32_MAX, 35, 2, "has ended"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char expected[256] = "";
        shuffle = &cases[i];
        if (shuffle->why)
            (void)snprintf(expected, sizeof expected,
                           "block (0, 0, 0), thread (%u, 0, 0): reads lane %u in a warp shuffle "
                           "with the mask 0x%08x (at k.py:2), and this lane %s: the value is "
                           "undefined on a GPU",
                           shuffle->thread, shuffle->from, shuffle->mask, shuffle->why);
        CHECK_TEXT(launched(&table, read_lane, nothing, two_warps, parameters), expected);
    }
}

int main(void)
{
    set_up();
    test_like_another();
    test_many();
    test_no_places();
    test_shapes();
    test_threads();
    test_blocks();
    test_lines();
    test_shuffles();
    return kb_test_end("test_check_messages");
}
