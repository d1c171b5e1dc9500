/* Proves that the arrays of checked CUDA C++ lie apart for a call and come back after it, what
 * messages call them, and which accesses by plain pointers are faults. */
#include "ext/emulator/kb_spread.h"

#include "allocation.h"
#include "core/kb_dtype.h"
#include "ext/emulator/kb_guard.h"
#include "ext/emulator/kb_hostcuda.h"
#include "kernbridge/cuda_host.h"
#include "sample.h"

#include <sys/resource.h>

enum { N = 6, ALIGNED = KB_CUDA_ALIGNED };

static float x[N], both[N], out[N], complex[2];
static double large[2];
static int8_t small[N];
static void *x_at, *both_at, *both_too, *out_at, *small_at, *empty_at, *complex_at, *large_at;
static const int64_t matrix[] = {2, 3}, vector[] = {N}, none[] = {0}, single[] = {1};
static kb_spread *spread;
static char fault[KB_FAULT_SIZE];

/* What the threads of a launch do. */
static void (*kernel)(kb_thread *thread);
static uint32_t fixed, dynamic; /* bytes of shared memory */
static const char code[1] = "";

static void run(void *const *parameters, kb_thread *thread)
{
    (void)parameters;
    kernel(thread);
}

static const char *launch_blocks(uint32_t n_blocks, bool cooperative, void (*given)(kb_thread *))
{
    const kb_hostcuda_code checked = {.threads = {.run = run,
                                                  .shared = fixed,
                                                  .stack = 64 * 1024,
                                                  .checked = &kb_spread_launches},
                                      .cooperative = cooperative};
    const uint32_t sizes[6] = {n_blocks, 1, 1, 2, 1, 1};
    kernel = given;
    fault[0] = '\0';
    kb_cu_result result = kb_hostcuda_run(&checked, sizes, dynamic, NULL, NULL, fault);
    CHECK_INT(result, fault[0] ? KB_HOSTCUDA_FAULT : KB_CU_SUCCESS);
    return fault;
}

static const char *launch(void (*given)(kb_thread *))
{
    return launch_blocks(1, false, given);
}

static bool add(void **data, void *at, const char *name, kb_dtype dtype, int64_t rank,
                const int64_t *dims, bool is_output)
{
    const kb_xla_buffer like = {
        .dtype = (int32_t)dtype, .rank = rank, .dims = (int64_t *)(uintptr_t)dims};
    *data = at;
    return kb_spread_add(spread, data, &like, name, is_output);
}

/* Begins a call: inputs x, both, small and empty, outputs both, which is also an input, out,
 * complex and large. */
static bool enter(void)
{
    for (int i = 0; i < N; i++) {
        x[i] = both[i] = (float)i;
        out[i] = -1;
        small[i] = (int8_t)i;
    }
    spread = kb_spread_new(8);
    if (!spread)
        return false;
    return add(&x_at, x, "x", KB_DTYPE_F32, 2, matrix, false) &&
           add(&both_at, both, "both", KB_DTYPE_F32, 1, vector, false) &&
           add(&small_at, small, "small", KB_DTYPE_S8, 1, vector, false) &&
           add(&empty_at, small, "empty", KB_DTYPE_PRED, 1, none, false) &&
           add(&both_too, both, "both_out", KB_DTYPE_F32, 1, vector, true) &&
           add(&out_at, out, "out", KB_DTYPE_F32, 1, vector, true) &&
           add(&complex_at, complex, "complex", KB_DTYPE_C64, 1, single, true) &&
           add(&large_at, large, "large", KB_DTYPE_C128, 1, single, true);
}

static void leave(void)
{
    kb_spread_leave(spread);
}

static void ask(kb_thread *thread, const void *at, uint64_t size, uint32_t how)
{
    kb_spread_access(thread, at, size, how, code);
}

static void writes_output(kb_thread *t)
{
    float *to = (float *)out_at + t->index;
    ask(t, to, 4, KB_CUDA_WRITE);
    *to = 7;
    ask(t, to, 4, KB_CUDA_READ);
    ask(t, (float *)both_at + t->index, 4, KB_CUDA_READ | ALIGNED);
    ask(t, (float *)both_too + t->index, 4, KB_CUDA_WRITE);
    ((float *)both_too)[t->index] += 10;
    ask(t, (float *)complex_at + t->index, 4, KB_CUDA_WRITE); /* a part for each thread */
    ((float *)complex_at)[t->index] = 3;
    ask(t, (char *)x_at + 2, 4, KB_CUDA_READ); /* of a packed structure */
    ask(t, &fixed, 4, KB_CUDA_WRITE);          /* memory of no array */
    ask(t, (const void *)4096, 4, KB_CUDA_READ);
    ask(t, (int8_t *)small_at + 5, 1, KB_CUDA_READ);
}

static void test_places(void)
{
    if (!CHECK(enter()))
        return;
    const void *const places[] = {x_at, small_at, both_at, empty_at, out_at};
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < i; k++) {
            uintptr_t a = (uintptr_t)places[i], b = (uintptr_t)places[k];
            CHECK((a > b ? a - b : b - a) >= UINT64_C(1) << 30);
        }
    CHECK_PTR(both_at, both_too);
    CHECK(memcmp(x_at, x, sizeof x) == 0 && memcmp(small_at, small, sizeof small) == 0);
    CHECK(((float *)out_at)[1] == 0); /* nothing, whatever was there */
    CHECK_TEXT(launch(writes_output), "");
    ((float *)x_at)[0] = 99;
    CHECK(out[0] == -1 && both[0] == 0);
    memcpy((float *)out_at + 2, x, 4 * sizeof *x);
    leave();
    CHECK(x[0] == 0 && out[0] == 7 && out[1] == 7 && out[2] == 0 && out[5] == 3);
    CHECK(both[0] == 10 && both[1] == 11 && both[2] == 2);
    CHECK(kb_spread_checks((const uint32_t[6]){1, 1, 1, 1, 1, 1}, 0, false) == NULL);
}

static void reads_past_matrix(kb_thread *t)
{
    ask(t, (float *)x_at + 5, 4, KB_CUDA_READ);
    ask(t, (float *)x_at + 6, 4, KB_CUDA_READ);
}

static void reads_before_small(kb_thread *t)
{
    ask(t, (int8_t *)small_at - 3, 1, KB_CUDA_READ);
}

static void reads_the_empty(kb_thread *t)
{
    ask(t, empty_at, 1, KB_CUDA_READ);
}

static void reads_far_away(kb_thread *t)
{
    ask(t, (float *)x_at + (1 << 26), 4, KB_CUDA_READ);
}

static void reads_null(kb_thread *t)
{
    ask(t, (const void *)4095, 1, KB_CUDA_READ);
}

static void reads_past_all(kb_thread *t)
{
    ask(t, (char *)large_at + ((char *)large_at - (char *)out_at), 4, KB_CUDA_READ);
}

static void writes_input(kb_thread *t)
{
    ask(t, (int8_t *)small_at + 2, 1, KB_CUDA_READ);
    ask(t, (int8_t *)small_at + 2, 1, KB_CUDA_WRITE);
}

static void adds_to_input(kb_thread *t)
{
    ask(t, (float *)x_at + 4, 4, KB_CUDA_ATOMIC);
}

static void reads_output(kb_thread *t)
{
    ask(t, (float *)out_at + 4, 4, KB_CUDA_READ);
}

static void reads_at_odd_address(kb_thread *t)
{
    ask(t, (char *)x_at + 4, 4, KB_CUDA_READ | ALIGNED);
    ask(t, (char *)x_at + 2, 4, KB_CUDA_READ | ALIGNED);
}

static void races(kb_thread *t)
{
    ask(t, out_at, 4, KB_CUDA_WRITE);
    *(float *)out_at = (float)t->index;
}

/* Another access comes before the value is as it was again. */
static void races_and_restores(kb_thread *t)
{
    float *at = out_at;
    ask(t, at, 4, KB_CUDA_WRITE);
    if (t->index == 0)
        return;
    float before = *at;
    *at = before + 1;
    ask(t, small_at, 1, KB_CUDA_READ);
    *at = before;
}

static void writes_the_same(kb_thread *t)
{
    ask(t, out_at, 4, KB_CUDA_WRITE | ALIGNED);
    *(float *)out_at = 5;
    ask(t, x_at, 4, KB_CUDA_READ);
}

static void reads_what_two_wrote(kb_thread *t)
{
    if (t->ctaid[0] == 0)
        writes_the_same(t);
    else
        ask(t, out_at, 4, KB_CUDA_READ | ALIGNED);
}

static void writes_the_same_unaligned(kb_thread *t)
{
    ask(t, out_at, 4, KB_CUDA_WRITE);
    *(float *)out_at = 5;
}

/* A copy of a structure of 16 bytes, which is the most that is compared. */
static void copies_the_same(kb_thread *t)
{
    ask(t, large_at, 16, KB_CUDA_WRITE | ALIGNED);
    memset(large_at, 0, 16);
    ask(t, x_at, 4, KB_CUDA_READ);
}

/* The value is as it was when the launch ends, and was not when something else was accessed, or an
 * index was wrong. */
static void copies_and_restores(kb_thread *t)
{
    float *at = out_at;
    ask(t, at, 4, KB_CUDA_WRITE | ALIGNED);
    if (t->index == 0)
        return;
    float before = *at;
    *at = before + 1;
    ask(t, &fixed, 4, KB_CUDA_READ); /* of no array */
    *at = before;
}

static void copies_and_has_wrong_index(kb_thread *t)
{
    float *at = out_at;
    ask(t, at, 4, KB_CUDA_WRITE | ALIGNED);
    if (t->index == 0)
        return;
    *at += 1;
    kb_spread_wrong_index(t, 9, "float[3]", kb_site_of_line("no_file.cu", 12));
}

static void races_in_complex(kb_thread *t)
{
    ask(t, (float *)complex_at + 1, 4, KB_CUDA_WRITE);
    ((float *)complex_at)[1] = (float)t->index;
}

static void races_in_large(kb_thread *t)
{
    ask(t, large_at, 8, KB_CUDA_WRITE);
    *(double *)large_at = (double)t->index;
}

/* As far as an index stays in the place of its array, on either side. */
static void reads_far_before(kb_thread *t)
{
    ptrdiff_t place = (char *)both_at - (char *)x_at;
    ask(t, (char *)x_at - place / 8 * 3, 4, KB_CUDA_READ);
}

static void reads_far_behind(kb_thread *t)
{
    ptrdiff_t place = (char *)both_at - (char *)x_at;
    ask(t, (char *)x_at + place / 8 * 3, 4, KB_CUDA_READ);
}

/* The threads of a block run one after the other, and tell each other by a variable of their own
 * that there is something to read. */
static void hands_over(kb_thread *t)
{
    if (t->index == 0) {
        ask(t, out_at, 4, KB_CUDA_WRITE);
        *(float *)out_at = 3;
        kb_check_fenced(t);
        ask(t, &fixed, 4, KB_CUDA_ATOMIC);
    } else {
        ask(t, &fixed, 4, KB_CUDA_ATOMIC);
        kb_check_fenced(t);
        ask(t, out_at, 4, KB_CUDA_READ);
    }
}

static void hands_over_by_a_write(kb_thread *t)
{
    if (t->index == 0) {
        ask(t, out_at, 4, KB_CUDA_WRITE);
        *(float *)out_at = 3;
        kb_check_fenced(t);
        ask(t, &fixed, 4, KB_CUDA_WRITE);
    } else {
        ask(t, &fixed, 4, KB_CUDA_READ);
        kb_check_fenced(t);
        ask(t, out_at, 4, KB_CUDA_READ);
    }
}

/* Parts of an element may be those of several threads. */
static void writes_parts(kb_thread *t)
{
    char *at = (char *)out_at + (size_t)2 * t->index;
    ask(t, at, 2, KB_CUDA_WRITE);
    at[0] = at[1] = 1;
}

static void fails_at_line(kb_thread *t)
{
    kb_check_fail_at(t, 1, 4, KB_CHECK_HOW(KB_ACCESS_ATOMIC, kb_site_of_line("no_file.cu", 9)),
                     "which fails");
}

static void adds(kb_thread *t)
{
    ask(t, out_at, 4, KB_CUDA_ATOMIC);
}

static void has_wrong_index(kb_thread *t)
{
    kb_spread_wrong_index(t, 9, "float[3]", kb_site_of_line("no_file.cu", 12));
}

/* Who wrote the same after another is not the one to blame. */
static void test_the_first_of_two_writers(void)
{
    if (!CHECK(enter()))
        return;
    CHECK_HAS(launch_blocks(2, false, reads_what_two_wrote),
              "a data race between blocks: it reads element [0] of 'out' (f32[6]), which thread "
              "(0, 0, 0) of block (0, 0, 0) writes");
    leave();
}

/* A copy of a structure of 32 bytes, which changes nothing, by both threads. */
static void copies_much(kb_thread *t)
{
    ask(t, out_at, 32, KB_CUDA_WRITE | ALIGNED);
}

static void accesses_nothing(kb_thread *t)
{
    ask(t, out_at, 4, KB_CUDA_READ);
    ask(t, (float *)out_at + t->index, 0, KB_CUDA_WRITE);
    ask(t, (float *)out_at + 8, 0, KB_CUDA_WRITE);
    ask(t, (float *)both_at + 1, 0, KB_CUDA_READ); /* which nothing has written */
}

/* A copy of more than 16 bytes is not compared with what was there. An access without bytes is
 * none. */
static void test_sizes(void)
{
    static float eight[8];
    static const int64_t dims[] = {8};
    spread = kb_spread_new(4);
    if (!CHECK(spread != NULL))
        return;
    CHECK(add(&x_at, eight, "in", KB_DTYPE_F32, 1, dims, false));
    CHECK(add(&out_at, eight, "eight", KB_DTYPE_F32, 1, dims, true));
    CHECK(add(&both_at, out, "out", KB_DTYPE_F32, 1, vector, true));
    CHECK(add(&empty_at, NULL, "none", KB_DTYPE_F32, 1, none, true));
    CHECK_HAS(launch(copies_much), "thread (1, 0, 0): a data race: it writes element [0]");
    CHECK_TEXT(launch(accesses_nothing), "");
    leave();
}

static void test_faults(void)
{
    static const struct {
        void (*kernel)(kb_thread *);
        const char *text; /* or NULL */
    } rows[] = {
        {reads_past_matrix,
         "thread (0, 0, 0): reads 'x' (f32[2, 3]) out of bounds: element [2, 0]"},
        {reads_before_small, "reads 'small' (i8[6]) out of bounds: element [-3], and it has 6"},
        {reads_the_empty, "reads 'empty' (bool[0]) out of bounds: element [0], and it has 0"},
        {reads_far_away, "reads 'x' (f32[2, 3]) out of bounds: element ["},
        {reads_null, "reads at an address that belongs to no array"},
        {reads_past_all, "reads at an address that belongs to no array"},
        {writes_input, "writes element [2] of 'small' (i8[6]), which is an input: JAX's arrays do "
                       "not change"},
        {adds_to_input, "updates element [1, 1] of 'x' (f32[2, 3]), which is an input"},
        {reads_output, "element [4] of 'out' (f32[6])"},
        {reads_at_odd_address, "of 'x' (f32[2, 3]), at an address that is no multiple of the size"},
        {races, "element [0] of 'out' (f32[6])"},
        {writes_the_same, NULL},
        {races_and_restores, "element [0] of 'out' (f32[6])"},
        {writes_the_same_unaligned, "a data race: it writes element [0] of 'out' (f32[6])"},
        {copies_the_same, NULL},
        {copies_and_restores, "a data race: it writes element [0] of 'out' (f32[6])"},
        {copies_and_has_wrong_index, "a data race: it writes element [0] of 'out' (f32[6])"},
        {races_in_complex, "a data race: it writes element [0] of 'complex' (c64[1])"},
        {races_in_large, "a data race: it writes element [0] of 'large' (c128[1])"},
        {reads_far_before, "reads 'x' (f32[2, 3]) out of bounds: element [-"},
        {reads_far_behind, "reads 'x' (f32[2, 3]) out of bounds: element ["},
        {hands_over, NULL},
        {writes_parts, NULL},
        {hands_over_by_a_write, "a data race: it reads element [0] of 'out' (f32[6])"},
        {fails_at_line, "updates element [0, 1] of 'x' (f32[2, 3]) (at no_file.cu:9), which fails"},
        {adds, "element [0] of 'out' (f32[6])"}, /* which nothing has written */
        {has_wrong_index, "the index 9 is out of bounds for an array of type float[3] (at "
                          "no_file.cu:12)"},
        {writes_output, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!CHECK(enter()))
            return;
        const char *got = launch(rows[i].kernel);
        bool held = rows[i].text ? CHECK_HAS(got, rows[i].text) : CHECK_TEXT(got, "");
        if (!held)
            fprintf(stderr, "in row %zu\n", i);
        leave();
    }
}

/* Of each output it is known apart what was written, also by a launch before. */
static void writes_all_of_out(kb_thread *t)
{
    for (int i = 0; i < N && t->index == 0; i++) {
        ask(t, (float *)out_at + i, 4, KB_CUDA_WRITE);
        ((float *)out_at)[i] = 1;
    }
}

static void reads_out(kb_thread *t)
{
    for (int i = 0; i < N; i++)
        ask(t, (float *)out_at + i, 4, KB_CUDA_READ);
}

static void reads_complex(kb_thread *t)
{
    ask(t, complex_at, 4, KB_CUDA_READ);
}

static void test_several_launches(void)
{
    if (!CHECK(enter()))
        return;
    CHECK_TEXT(launch(writes_all_of_out), "");
    CHECK_TEXT(launch(reads_out), "");
    CHECK_HAS(launch(reads_complex), "reads element [0] of 'complex' (c64[1])");
    leave();
    spread = kb_spread_new(1); /* an output alone */
    if (!CHECK(spread != NULL) || !CHECK(add(&out_at, out, "out", KB_DTYPE_F32, 1, vector, true)))
        return;
    CHECK_TEXT(launch(writes_all_of_out), "");
    out[N - 1] = 0;
    leave();
    CHECK(out[0] == 1 && out[N - 1] == 1);
}

static int first_key, second_key;
static char *first, *second, *extern_one;

static void declares(kb_thread *t)
{
    first = kb_spread_shared(t, &first_key, "a", 12, 4, NULL);
    second = kb_spread_shared(t, &second_key, "b", 3, 1, NULL);
    extern_one = kb_spread_shared(t, NULL, "c", 0, 8, NULL);
    CHECK_PTR(kb_spread_shared(t, &first_key, "a", 12, 4, NULL), first);
    CHECK_PTR(kb_spread_shared(t, NULL, "c", 0, 8, NULL), extern_one);
    CHECK(first != second && second != extern_one && first != extern_one);
}

static void uses_shared(kb_thread *t)
{
    declares(t);
    for (uint32_t i = 0; i < 3; i++) {
        ask(t, first + (size_t)(4 * t->index), 4, KB_CUDA_WRITE);
        ask(t, second + t->index, 1, KB_CUDA_WRITE);
        ask(t, extern_one + (size_t)(8 * t->index), 8, KB_CUDA_WRITE);
        kb_barrier(t, 0);
        ask(t, first + (size_t)(4 * (1 - t->index)), 4, KB_CUDA_READ);
        kb_barrier(t, 0);
    }
}

/* Of a cooperative grid, each block has arrays of its own at the same time. */
static void keeps_its_own(kb_thread *t)
{
    declares(t);
    char *own = kb_spread_shared(t, &first_key, "a", 12, 4, NULL);
    own += (size_t)(4 * t->index);
    memset(own, (int)t->ctaid[0] + 1, 4);
    kb_check_grid(t);
    kb_grid_barrier(t, 0);
    for (int i = 0; i < 4; i++)
        CHECK_INT(own[i], t->ctaid[0] + 1);
}

/* What the block before has written to it is gone. */
static void finds_zeros(kb_thread *t)
{
    char *own = kb_spread_shared(t, &first_key, "a", 12, 4, NULL);
    own += (size_t)(4 * t->index);
    for (int i = 0; i < 4; i++)
        CHECK_INT(own[i], 0);
    ask(t, own, 4, KB_CUDA_WRITE);
    memset(own, (int)t->ctaid[0] + 1, 4);
}

enum { MANY_BLOCKS = 128, CELLS = KB_SHARED_CELLS / MANY_BLOCKS };
static uint32_t declared; /* bytes */

static void declares_bytes(kb_thread *t)
{
    (void)kb_spread_shared(t, &first_key, "a", declared, 1, NULL);
}

/* The blocks of a cooperative grid share the cells. */
static void test_cells(void)
{
    for (uint32_t more = 0; more < 2; more++) {
        if (!CHECK(enter()))
            return;
        declared = CELLS + more;
        const char *got = launch_blocks(MANY_BLOCKS, true, declares_bytes);
        if (more)
            CHECK_HAS(got, "no memory to check the accesses to the shared array 'a'");
        else
            CHECK_TEXT(got, "");
        leave();
    }
}

static void leaves_first(kb_thread *t)
{
    declares(t);
    ask(t, first + 8, 4, KB_CUDA_WRITE);
    ask(t, first + 12, 4, KB_CUDA_WRITE);
}

static void leaves_second(kb_thread *t)
{
    declares(t);
    ask(t, second + 3, 1, KB_CUDA_READ);
}

static void leaves_extern(kb_thread *t)
{
    declares(t);
    ask(t, extern_one + 8, 8, KB_CUDA_WRITE);
    ask(t, extern_one + 16, 8, KB_CUDA_WRITE);
}

static void races_in_shared(kb_thread *t)
{
    declares(t);
    ask(t, second + 1, 1, KB_CUDA_WRITE);
    second[1] = (char)(1 + t->index);
}

static void reads_what_none_wrote(kb_thread *t)
{
    declares(t);
    ask(t, first, 4, KB_CUDA_READ);
}

static void declares_too_large(kb_thread *t)
{
    (void)kb_spread_shared(t, &first_key, "a", 12 * 1024, 1, NULL);
    (void)kb_spread_shared(t, &second_key, "b", 36 * 1024 + 1, 1, NULL);
}

static void declares_too_many(kb_thread *t)
{
    static char keys[63];
    for (int i = 0; i < 63; i++)
        (void)kb_spread_shared(t, &keys[i], i < 62 ? "one" : "the last", 4, 4, NULL);
}

/* The elements of one array are not those of the next, also where the bytes are no multiple. */
static void writes_neighbours(kb_thread *t)
{
    static const uint32_t items[] = {1, 2, 4, 8, 12, 16};
    static char keys[2][6];
    for (uint32_t i = 0; i < 6; i++) {
        uint32_t item = items[i], last = item & -item; /* bytes that are written together */
        char *one = kb_spread_shared(t, &keys[0][i], "one", 3 * item, item, NULL);
        char *two = kb_spread_shared(t, &keys[1][i], "two", 3 * item, item, NULL);
        ask(t, t->index ? two : one + (size_t)3 * item - last, last, KB_CUDA_WRITE);
    }
}

static void declares_words(kb_thread *t)
{
    static char keys[16];
    for (int i = 0; i < 16; i++)
        (void)kb_spread_shared(t, &keys[i], "one", 3 * 1024, 4, NULL);
}

/* Of all arrays together, 48 KiB. */
static void declares_what_there_is(kb_thread *t)
{
    static char keys[16];
    for (int i = 0; i < 16; i++)
        (void)kb_spread_shared(t, &keys[i], "one", 3 * 1024, 1, NULL);
}

static void declares_one_more(kb_thread *t)
{
    declares_what_there_is(t);
    (void)kb_spread_shared(t, &first_key, "one more", 1, 1, NULL);
}

static void test_shared_arrays(void)
{
    static const struct {
        void (*kernel)(kb_thread *);
        const char *text; /* or NULL */
    } rows[] = {
        {uses_shared, NULL},
        {leaves_first, "writes the shared array 'a' out of bounds: element [3], and it has 3"},
        {leaves_second, "reads the shared array 'b' out of bounds: element [3], and it has 3"},
        {leaves_extern,
         "writes the dynamic shared array 'c' out of bounds: element [2], and it has "
         "2"},
        {races_in_shared, "element [1] of the shared array 'b'"},
        {reads_what_none_wrote, "element [0] of the shared array 'a'"},
        {declares_too_large, "arrays up to 'b' take 49153 bytes, CUDA allows 49152"},
        {declares_too_many, "no memory to check the accesses to the shared array 'the last'"},
    };
    if (!CHECK(enter()))
        return;
    CHECK_TEXT(launch(declares_what_there_is), "");
    CHECK_TEXT(launch(declares_words), "");
    CHECK_TEXT(launch(writes_neighbours), "");
    CHECK_HAS(launch(declares_one_more),
              "the static shared arrays up to 'one more' take 49153 bytes, CUDA allows 49152");
    leave();
    dynamic = 16;
    for (uint32_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
        bool cooperative = i % 2; /* each block has shared arrays of its own */
        if (!CHECK(enter()))
            return;
        const char *got = launch_blocks(3, cooperative, rows[i / 2].kernel);
        bool held = rows[i / 2].text ? CHECK_HAS(got, rows[i / 2].text) : CHECK_TEXT(got, "");
        if (!held)
            fprintf(stderr, "in row %u\n", i);
        CHECK_TEXT(launch_blocks(3, cooperative, finds_zeros), "");
        CHECK_TEXT(launch_blocks(3, cooperative, uses_shared), ""); /* as if nothing had been */
        if (cooperative)
            CHECK_TEXT(launch_blocks(3, true, keeps_its_own), "");
        leave();
    }
    dynamic = 0;
}

static void leaves_halves(kb_thread *t)
{
    ask(t, (int8_t *)small_at + 2, 1, KB_CUDA_READ);
    ask(t, (int8_t *)small_at + 3, 1, KB_CUDA_READ);
}

/* What messages call arrays of each dtype. */
static void test_names(void)
{
    static const struct {
        kb_dtype dtype;
        const char *shown;
    } names[] = {
        {KB_DTYPE_F64, "f64"}, {KB_DTYPE_BF16, "bf16"},   {KB_DTYPE_U16, "u16"},
        {KB_DTYPE_C64, "c64"}, {KB_DTYPE_PRED, "bool"},   {KB_DTYPE_S4, "i4"},
        {KB_DTYPE_F16, "f16"}, {KB_DTYPE_TOKEN, "token"}, {KB_DTYPE_F8E5M2, "float8_e5m2"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char expected[64];
        spread = kb_spread_new(1);
        if (!CHECK(spread != NULL))
            return;
        CHECK(add(&empty_at, small, "e", names[i].dtype, 1, none, false));
        CHECK(!add(&x_at, x, "x", KB_DTYPE_F32, 2, matrix, false)); /* one too many */
        (void)snprintf(expected, sizeof expected, "reads 'e' (%s[0]) out of", names[i].shown);
        CHECK_HAS(launch(reads_the_empty), expected);
        leave();
    }
    static const int64_t five[] = {5};
    spread = kb_spread_new(1); /* elements of half a byte are packed, and their bytes are counted */
    if (!CHECK(spread != NULL) || !CHECK(add(&small_at, small, "k", KB_DTYPE_S4, 1, five, false)))
        return;
    CHECK_HAS(launch(leaves_halves), "reads 'k' (i4[5]) out of bounds: element [3], and it has 3");
    leave();
    char name[250] = "";
    memset(name, 'n', sizeof name - 1);
    int64_t many[KB_CHECK_DIMS + 1] = {[KB_CHECK_DIMS - 1] = 3};
    for (int d = 0; d < KB_CHECK_DIMS - 1; d++)
        many[d] = 1;
    spread = kb_spread_new(2);
    if (!CHECK(spread != NULL))
        return;
    const int64_t empty[] = {7, 7, 7, 0};
    CHECK(add(&empty_at, x, name, KB_DTYPE_PRED, 4, empty, false));
    char shown[300], expected[256]; /* a name that is too long is cut */
    (void)snprintf(shown, sizeof shown, "'%s' (bool[7, 7, 7, 0])", name);
    memcpy(expected, shown, sizeof expected - 1);
    expected[sizeof expected - 1] = '\0';
    (void)snprintf(shown, sizeof shown, "%s out of bounds", expected);
    CHECK_HAS(launch(reads_the_empty), shown);
    leave();
    spread = kb_spread_new(2);
    if (!CHECK(spread != NULL))
        return;
    CHECK(!add(&x_at, x, "x", KB_DTYPE_F32, KB_CHECK_DIMS + 1, many, false));
    CHECK(add(&x_at, x, "x", KB_DTYPE_F32, KB_CHECK_DIMS, many, false));
    const int64_t large_one = (INT64_C(1) << 34) + 1;
    CHECK(!add(&out_at, out, "out", KB_DTYPE_S8, 1, &large_one, false));
    CHECK(add(&out_at, out, "out", KB_DTYPE_F32, 1, none, false));
    CHECK_HAS(launch(reads_past_matrix), ", 0, 0, 2], and it has");
    leave();
    spread = kb_spread_new(0);
    CHECK(spread != NULL);
    leave();
}

/* With fewer addresses arrays lie closer together; with too few there is no call. */
static void test_addresses(void)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    const uint64_t least = UINT64_C(63) << 30, other = UINT64_C(1)
                                                       << 32; /* of a call with one array */
    struct rlimit before, limit;
    CHECK_INT(getrlimit(RLIMIT_AS, &before), 0);
    for (int enough = 0; enough < 2; enough++) {
        limit = before;
        limit.rlim_cur = enough ? least + other : least - other;
        CHECK_INT(setrlimit(RLIMIT_AS, &limit), 0);
        spread = kb_spread_new(1);
        CHECK_INT(setrlimit(RLIMIT_AS, &before), 0);
        if (CHECK_INT(spread != NULL, enough) && spread)
            leave();
    }
#endif
}

/* The buffers of a frame. */
static kb_status run_frame(const kb_frame *frame, kb_error *err)
{
    (void)err;
    x_at = kb_frame_buffer(frame, 0)->data;
    out_at = kb_frame_buffer(frame, 1)->data;
    CHECK(x_at != x && out_at != out);
    CHECK_HAS(launch(reads_past_matrix), "reads 'a' (f32[6]) out of bounds: element [6]");
    CHECK_HAS(launch(reads_output), "element [4] of 'b' (f32[6])");
    *(float *)out_at = 5;
    return KB_OK;
}

static kb_status call_frame(kb_run *runs, kb_error *err)
{
    sample s;
    fake_frame f;
    kb_frame frame;
    sample_init(&s, 3, sample_record);
    sample_input(&s, KB_DTYPE_F32, 1, "a");
    sample_output(&s, KB_DTYPE_F32, 1, "b");
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    fake_arg(&f, KB_DTYPE_F32, x, 1, vector);
    fake_ret(&f, KB_DTYPE_F32, out, 1, vector);
    kb_status status =
        kb_frame_read(&frame, &s.kernel, &f.frame, sample_call(&f, &s.kernel, 0, NULL), err);
    if (CHECK_INT(status, KB_OK))
        status = kb_spread_run(&frame, runs, err);
    fake_frame_free(&f);
    return status;
}

static kb_status run_nothing(const kb_frame *frame, kb_error *err)
{
    (void)frame, (void)err;
    return KB_OK;
}

static bool call_empty_frame(void)
{
    kb_error err;
    return had_memory(call_frame(run_nothing, &err), &err);
}

static void test_frames(void)
{
    kb_error err;
    x[1] = out[0] = out[1] = 1;
    CHECK_INT(call_frame(run_frame, &err), KB_OK);
    CHECK(out[0] == 5 && x[1] == 1);
    torture_taken before = torture_count();
    for (torture_kind kind = TORTURE_MEMORY; kind <= TORTURE_MAPPING; kind++) {
        torture_arm(kind, 1, true);
        CHECK_INT(call_frame(run_frame, &err), KB_RESOURCE_EXHAUSTED);
        CHECK(torture_disarm() != NULL);
        CHECK_HAS(err.message, "op3: no memory to check accesses");
    }
    torture_arm(TORTURE_MAPPING, 2, true); /* there are addresses, and no memory */
    CHECK_INT(call_frame(run_frame, &err), KB_RESOURCE_EXHAUSTED);
    CHECK(torture_disarm() != NULL);
    CHECK_HAS(err.message, "op3: no memory to check accesses");
    torture_taken now = torture_count();
    CHECK(now.blocks == before.blocks && now.mappings == before.mappings);
    CHECK_INT(call_frame(run_frame, &err), KB_OK);
}

/* A call inside of a call finds its own arrays, and then the first one finds its own again. */
static void test_nested(void)
{
    if (!CHECK(enter()))
        return;
    kb_spread *outer = spread;
    void *outer_at = out_at;
    if (CHECK(enter())) {
        CHECK(out_at != outer_at);
        CHECK_TEXT(launch(writes_output), "");
        leave();
    }
    spread = outer;
    out_at = outer_at;
    CHECK_HAS(launch(reads_output), "element [4] of 'out' (f32[6])");
    leave();
}

static bool call_without_memory(void)
{
    bool well = enter();
    if (spread) {
        well = well && strcmp(launch(writes_output), "") == 0;
        leave();
    }
    return well;
}

int main(void)
{
    test_places();
    test_faults();
    test_the_first_of_two_writers();
    test_several_launches();
    test_shared_arrays();
    test_cells();
    test_names();
    test_nested();
    test_addresses();
    test_frames();
    test_sizes();
    each_allocation("a frame", call_empty_frame, 5);
    each_allocation("a call", call_without_memory, 4);
    return kb_test_end("test_spread");
}
