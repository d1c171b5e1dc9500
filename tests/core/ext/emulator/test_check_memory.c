/* Proves what the checked mode knows of memory: what nothing of a call has written, from launch to
 * launch; that shared memory begins with zeros; and accesses that lie across elements. */
#include "check_steps.h"

#include "core/kb_dtype.h"
#include "ext/emulator/kb_guard.h"
#include "fake_xla.h"
#include "torture.h"

enum { SECOND = N_THREADS };

static const uint32_t one_block[6] = {1, 1, 1, N_THREADS, 1, 1}, slices[6] = {1, 1, 2, 70, 1, 1};
static const uint32_t three[6] = {3, 1, 1, N_THREADS, 1, 1};
static const kb_hostcuda_code
    plain = {.threads = {.run = run_script, .shared = 32, .checked = &table}},
    grids = {.threads = {.run = run_script, .shared = 32, .checked = &table}, .cooperative = true};

static char fault[KB_FAULT_SIZE]; /* of the last launch */

/* NULL text: it must succeed. */
static void launch(const kb_hostcuda_code *code, const uint32_t sizes[6], const step steps[],
                   const char *text)
{
    memset(fault, 0, sizeof fault);
    script = steps;
    kb_cu_result result = kb_hostcuda_run(code, sizes, 16, parameters, NULL, fault);
    CHECK_INT(result, text ? KB_HOSTCUDA_FAULT : KB_CU_SUCCESS);
    if (text)
        CHECK_HAS(fault, text);
    else
        CHECK_TEXT(fault, "");
    for (int i = 0; i < 3; i++) { /* those that wait for use */
        kb_block *block = kb_block_take(&code->threads, sizes, 0);
        if (CHECK(block))
            forget_frames(block);
        kb_block_give_back(block);
    }
}

/* What is written between launches may be read, and nothing beside it. */
static void fill_and_copy(const kb_driver *cu)
{
    static const step filled[] = {{READ, 0, X, 2, 0}, {READ, 0, X, 5, 0}, {END, 0, 0, 0, 0}},
                      copied[] = {{READ, 0, B, 0, 0}, {END, 0, 0, 0, 0}},
                      third[] = {{READ, 0, X, 3, 0}, {END, 0, 0, 0, 0}},
                      beside[] = {{READ, 0, B, 3, 0}, {END, 0, 0, 0, 0}};
    int32_t two[2] = {1, 2};
    uint64_t first = (uintptr_t)x;
    CHECK_INT(cu->cuMemsetD32Async(first + 2 * ITEM, 5, 1, NULL), KB_CU_SUCCESS);
    CHECK_INT(cu->cuMemcpyDtoDAsync(first + 5 * ITEM, (uintptr_t)two, ITEM, NULL), KB_CU_SUCCESS);
    CHECK_INT(cu->cuMemcpyHtoDAsync((uintptr_t)b, two, ITEM, NULL), KB_CU_SUCCESS);
    launch(&plain, one_block, filled, NULL);
    launch(&plain, one_block, copied, NULL);
    launch(&plain, one_block, third, "reads element [3] of 'x'");
    launch(&plain, one_block, beside, "reads element [3] of 'b'");
}

/* Of what its step writes, nothing is known. */
static kb_kernel kernel_of(uint32_t n_outputs)
{
    static const kb_step host = {.kind = KB_STEP_HOST};
    return (kb_kernel){
        .name = "kernel", .n_outputs = n_outputs, .plan = {.steps = &host, .n_steps = 1}};
}

/* The launches of a call, one after the other. */
static kb_status launch_all(const kb_frame *frame, kb_error *err)
{
    static const struct {
        const kb_hostcuda_code *code;
        const uint32_t *sizes;
        step steps[STEPS_MAX];
        const char *fault;
    } launches[] = {
        {&plain, one_block, {{WRITE, 3, X, 4, 1}, {WRITE, 0, X, 0, 1}}, NULL},
        {&plain, one_block, {{READ, 5, X, 4, 0}, {READ, 5, X, 0, 0}}, NULL},
        {&plain,
         one_block,
         {{READ, 2, X, 5, 0}},
         "thread (2, 0, 0): reads element [5] of 'x' (int32[1d]), which nothing has written (at "
         "k.py:1)"},
        {&plain, one_block, {{READ, 0, X, 3, 0}}, "reads element [3] of 'x'"},
        {&plain, one_block, {{ATOMIC, 0, X, 9, 1}}, "updates element [9] of 'x'"},
        {&plain,
         one_block,
         {{WRITE, 0, Y, 11, 1}, {BARRIER, ALL, 0, 0, 0}, {READ, 1, Y, 11, 0}},
         NULL},
        {&plain, one_block, {{READ, 1, Y, 10, 0}}, "reads element [2, 2] of 'y'"},
        {&plain, one_block, {{READ, 1, Y, 11, 0}}, NULL},
        {&plain,
         one_block,
         {{READ, 0, CONSTANT, 1, 0}},
         "reads element [1] of 'c' (int32[1d]), which nothing has written (at k.py:1)"},
        {&plain, slices, {{WRITE, 0, B, 1, 1}}, NULL}, /* of each slice */
        {&plain, slices, {{READ, 0, B, 1, 0}}, NULL},
        {&plain, slices, {{READ, 0, B, 2, 0}}, "reads element [2] of 'b'"},
        {&grids, three, {{WRITE, 0, X, 6, 1}, {GRID, ALL, 0, 0, 0}, {READ, SECOND, X, 6, 0}}, NULL},
        {&grids,
         three,
         {{READ, 0, X, 6, 0}, {GRID, ALL, 0, 0, 0}, {READ, 0, X, 7, 0}},
         "element [7]"},
        {&plain, one_block, {{READ, SECOND - 1, X, 6, 0}}, NULL},
    };
    (void)err;
    for (size_t i = 0; i < sizeof launches / sizeof *launches; i++)
        launch(launches[i].code, launches[i].sizes, launches[i].steps, launches[i].fault);
    fill_and_copy(frame->driver);
    return KB_OK;
}

static void test_unwritten(void)
{
    const kb_kernel kernel = kernel_of(4);
    const int64_t dims[4] = {10, 12, 8, 2};
    int32_t *const results[4] = {x, y, b, c};
    kb_error err;
    fake_frame f;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    for (int i = 0; i < 4; i++)
        fake_ret(&f, KB_DTYPE_S32, results[i], 1, &dims[i]);
    kb_frame frame = {.kernel = &kernel, .xla = &f.frame, .driver = &kb_hostcuda_driver};
    CHECK_INT(kb_unwritten_run(&frame, launch_all, &err), KB_OK);
    fake_frame_free(&f);
    const step read[] = {{READ, 2, X, 5, 0}, {END, 0, 0, 0, 0}};
    launch(&plain, one_block, read, NULL); /* outside of a call, anybody may have written */
}

/* What the first of all arguments holds, which shares its memory with no other. */
static kb_status launch_with_one(const kb_frame *frame, kb_error *err)
{
    static const kb_check_table about = {"kernel", arrays, 1, 0, 0, 10, sites, 1};
    static const kb_hostcuda_code code = {
        .threads = {.run = run_script, .shared = 32, .checked = &about}};
    static const step write[] = {{WRITE, 3, X, 4, 1}, {END, 0, 0, 0, 0}};
    static const step read[] = {{READ, 5, X, 4, 0}, {END, 0, 0, 0, 0}};
    static const step beside[] = {{READ, 5, X, 3, 0}, {END, 0, 0, 0, 0}};
    (void)frame, (void)err;
    launch(&code, one_block, write, NULL);
    launch(&code, one_block, read, NULL);
    launch(&code, one_block, beside,
           "block (0, 0, 0), thread (5, 0, 0): reads element [3] of 'x' (int32[1d]), which nothing "
           "has written (at k.py:1)\n    k.py:1: x[i] += 1");
    return KB_OK;
}

/* Takes the place of the cells that are kept, and frees its own. */
static void forget_cells(void)
{
    enum { KEPT = 1 << 21 };
    kb_shadow_give_back(kb_shadow_take(KEPT + 1));
}

/* What nothing writes to is watched where it lies, also in front of its address. */
static kb_status launch_with_constant(const kb_frame *frame, kb_error *err)
{
    static kb_check_array constant[3];
    static const kb_check_table about = {"kernel", constant, 3, 0, 0, 10, sites, 1};
    static const kb_hostcuda_code code = {
        .threads = {.run = run_script, .shared = 32, .checked = &about}};
    static const step read[] = {{READ, 5, Z, -12, 0}, {END, 0, 0, 0, 0}};
    const kb_driver *cu = frame->driver;
    (void)err;
    memcpy(constant, arrays, sizeof constant);
    constant[Z].flags |= KB_CHECK_CONSTANT;
    forget_cells(); /* so that it is the very first launch which they see */
    launch(&code, one_block, read, "reads element [-12] of 'z' (int32[2d]), which nothing has");
    CHECK_INT(cu->cuMemsetD32Async((uintptr_t)(z + 1), 5, 1, NULL), KB_CU_SUCCESS);
    launch(&code, one_block, read, NULL);
    return KB_OK;
}

static void run_with(kb_run *launches, int32_t *result, int64_t n)
{
    const kb_kernel kernel = kernel_of(1);
    const int64_t dims[1] = {n};
    kb_error err;
    fake_frame f;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    fake_ret(&f, KB_DTYPE_S32, result, 1, dims);
    kb_frame frame = {.kernel = &kernel, .xla = &f.frame, .driver = &kb_hostcuda_driver};
    CHECK_INT(kb_unwritten_run(&frame, launches, &err), KB_OK);
    fake_frame_free(&f);
}

static void test_one_result(void)
{
    run_with(launch_with_one, x, 10);
    run_with(launch_with_constant, z, 24);
}

/* Two arguments that are so large that what is known of each takes memory of its own. */
enum { MANY = 300 };

static int32_t large[2][MANY];

static void touch_ends(void *const *unused, kb_thread *t)
{
    (void)unused;
    for (const step *s = script; s->does != END && t->index == 0; s++) {
        uint64_t address = (uintptr_t)&large[s->array][s->at];
        uint64_t word = address | (uint64_t)(s->array + 1) << KB_CHECK_TAG_SHIFT;
        uint32_t kind = s->does == READ ? KB_ACCESS_READ : KB_ACCESS_WRITE;
        // NOLINTNEXTLINE(performance-no-int-to-ptr)
        (void)memory_of(t, (void *)(uintptr_t)word, ITEM, KB_CHECK_HOW(kind, 2), 0);
    }
}

static kb_status launch_with_large(const kb_frame *frame, kb_error *err)
{
    static const kb_check_array two[2] = {{"'p'", ITEM, 1, 0, 0, 0, 0, NULL, ITEM},
                                          {"'q'", ITEM, 1, 2, 0, 0, 0, NULL, ITEM}};
    static const kb_check_table about = {"kernel", two, 2, 0, 0, 10, sites, 1};
    static const kb_hostcuda_code code = {.threads = {.run = touch_ends, .checked = &about}};
    static const struct {
        step steps[4];
        const char *fault;
    } launches[] = {
        {{{WRITE, 0, 1, 0, 0}}, NULL},
        {{{READ, 0, 1, 0, 0}}, NULL},
        {{{READ, 0, 0, MANY - 1, 0}}, "reads element [299] of 'p', which nothing has written"},
        {{{WRITE, 0, 0, MANY - 1, 0}, {WRITE, 0, 1, MANY - 1, 0}, {WRITE, 0, 1, 1, 0}}, NULL},
        {{{READ, 0, 0, MANY - 1, 0}, {READ, 0, 1, MANY - 1, 0}, {READ, 0, 1, 1, 0}}, NULL},
        {{{READ, 0, 0, MANY - 2, 0}}, "reads element [298] of 'p', which nothing has written"},
        {{{READ, 0, 0, 0, 0}}, "reads element [0] of 'p', which nothing has written"},
        {{{READ, 0, 1, 2, 0}}, "reads element [2] of 'q', which nothing has written"},
    };
    (void)frame, (void)err;
    for (size_t i = 0; i < sizeof launches / sizeof *launches; i++)
        launch(&code, one_block, launches[i].steps, launches[i].fault);
    return KB_OK;
}

static void test_large_arguments(void)
{
    const kb_kernel kernel = kernel_of(2);
    const int64_t dims[1] = {MANY};
    kb_error err;
    fake_frame f;
    for (int i = 0; i < 2; i++) {
        words[2 * i] = (int64_t)(uintptr_t)large[i];
        words[2 * i + 1] = MANY;
    }
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    for (int i = 0; i < 2; i++)
        fake_ret(&f, KB_DTYPE_S32, large[i], 1, dims);
    kb_frame frame = {.kernel = &kernel, .xla = &f.frame, .driver = &kb_hostcuda_driver};
    CHECK_INT(kb_unwritten_run(&frame, launch_with_large, &err), KB_OK);
    fake_frame_free(&f);
    set_up();
}

/* As many cells as there are elements, in memory that no launch before has used: of each array the
 * first and the last, and in a cooperative grid the shared ones of each block. */
static void test_room_for_cells(void)
{
    enum { THIRD = 2 * N_THREADS };
    static const step ends[] = {
        {WRITE, 0, X, 9, 1}, {WRITE, 0, Y, 11, 1}, {WRITE, 0, Z, -12, 1},     {WRITE, 0, Z, 2, 1},
        {WRITE, 0, B, 3, 1}, {WRITE, 0, S, 5, 1},  {WRITE, 0, DYNAMIC, 3, 1}, {END, 0, 0, 0, 0}};
    static const step of_grid[] = {{WRITE, 0, S, 5, 1},           {WRITE, SECOND, S, 5, 1},
                                   {WRITE, THIRD, DYNAMIC, 3, 1}, {WRITE, THIRD, S, 5, 1},
                                   {GRID, ALL, 0, 0, 0},          {READ, 0, S, 5, 1},
                                   {READ, SECOND, S, 5, 1},       {READ, THIRD, S, 5, 1},
                                   {READ, THIRD, DYNAMIC, 3, 1},  {END, 0, 0, 0, 0}};
    forget_cells();
    launch(&plain, one_block, ends, NULL);
    forget_cells();
    launch(&plain, three, ends, NULL);
    forget_cells();
    launch(&grids, three, of_grid, NULL);
}

/* What is there before the first write, behind it, and behind a barrier of the grid. */
static void look_at_shared_memory(void *const *unused, kb_thread *t)
{
    int32_t *shared = (int32_t *)(void *)t->shared;
    (void)unused;
    if (t->index == 0) {
        x[0] = shared[1];
        shared[1] = 5;
    }
    kb_check_grid(t);
    kb_grid_barrier(t, 1);
    if (t->index == 0)
        x[1] = shared[1];
}

static void test_shared_memory(void)
{
    const kb_hostcuda_code code = {
        .threads = {.run = look_at_shared_memory, .shared = 32, .checked = &table},
        .cooperative = true};
    for (int i = 0; i < 2; i++) {
        x[0] = x[1] = -1;
        launch(&code, one_block, NULL, NULL);
        CHECK_INT(x[0], 0);
        CHECK_INT(x[1], 5);
    }
}

/* Whose last byte is what a block of more threads left there, in dynamic memory. */
static void look_at_dynamic_memory(void *const *unused, kb_thread *t)
{
    enum { LAST = 32 + 16 - 1 };
    (void)unused;
    if (t->index == 0) {
        x[0] = t->shared[LAST];
        t->shared[LAST] = 5;
    }
}

static void test_dynamic_memory(void)
{
    static const uint32_t one_thread[6] = {1, 1, 1, 1, 1, 1};
    const kb_hostcuda_code code = {
        .threads = {.run = look_at_dynamic_memory, .shared = 32, .checked = &table}};
    for (int i = 0; i < 3; i++) {
        x[0] = -1;
        launch(&code, i ? one_thread : one_block, NULL, NULL);
        CHECK_INT(x[0], 0);
    }
}

/* Accesses inside of an array that are asked about all the same. */
static void ask_inside(void *const *unused, kb_thread *t)
{
    int32_t local[5] = {0};
    void *const memory[N_ARRAYS] = {
        [X] = x + 1,         [Z] = z + 14,     [CONSTANT] = c + 1, [S] = t->shared + ITEM,
        [LOCAL] = local + 1, [RAW] = local + 1};
    (void)unused;
    if (t->index > 1)
        return;
    char *at = (char *)address_of(t, script->array, local) + ITEM;
    uint32_t kind = t->index ? KB_ACCESS_READ : KB_ACCESS_WRITE;
    CHECK_PTR(kb_check_ask(t, at, ITEM, KB_CHECK_HOW(kind, 1 + t->index), 0),
              memory[script->array]);
}

static void test_asked(void)
{
    static const struct {
        int array;
        const char *fault;
    } cases[] = {
        {X, "thread (1, 0, 0): a data race: it reads element [1] of 'x'"},
        {Z, "thread (1, 0, 0): a data race: it reads element [1] of 'z'"},
        {S, "thread (1, 0, 0): a data race: it reads element [0, 1] of the shared array"},
        {CONSTANT, NULL}, /* nothing is remembered of it */
        {LOCAL, NULL},
        {RAW, NULL},
    };
    const kb_hostcuda_code code = {
        .threads = {.run = ask_inside, .shared = 32, .stack = 256, .checked = &table}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const step array = {END, 0, cases[i].array, 0, 0};
        launch(&code, one_block, &array, cases[i].fault);
    }
}

/* Each thread has two arrays of its own, and goes beyond the one that `script` names. */
static void use_two_arrays(void *const *unused, kb_thread *t)
{
    int32_t first[5] = {0}, second[3] = {0};
    char *at[2] = {kb_check_local_array(t, first, 0), kb_check_local_array(t, second, 1)};
    const int64_t sizes[2] = {sizeof first, sizeof second};
    (void)unused;
    kb_barrier(t, 1);
    for (int i = 0; i < 2; i++)
        for (int64_t offset = 0; offset < sizes[i]; offset += ITEM)
            (void)memory_of(t, at[i] + offset, ITEM, KB_CHECK_HOW(KB_ACCESS_READ, 1), 0);
    if (t->index == (uint32_t)script->thread)
        (void)memory_of(t, at[script->at] + sizes[script->at], ITEM,
                        KB_CHECK_HOW(KB_ACCESS_READ, 2), 0);
}

static void test_local_arrays(void)
{
    static const int64_t other_shape[1] = {3};
    kb_check_array more[sizeof arrays / sizeof *arrays + 1];
    kb_check_table both = table;
    memcpy(more, arrays, sizeof arrays);
    more[LOCAL + 1] =
        (kb_check_array){"the other array", ITEM, 1, 0, 0, 0, sizeof(int32_t[3]), other_shape, 0};
    both.arrays = more;
    both.n_local = 2;
    const kb_hostcuda_code code = {
        .threads = {.run = use_two_arrays, .shared = 32, .stack = 512, .checked = &both}};
    const step none = {END, -1, 0, 0, 0}, first = {END, 69, 0, 0, 0}, second = {END, 33, 0, 1, 0};
    launch(&code, one_block, &none, NULL);
    launch(&code, one_block, &first,
           "thread (69, 0, 0): reads the local array out of bounds: element [5], and it has 5");
    launch(&code, one_block, &second,
           "thread (33, 0, 0): reads the other array out of bounds: element [3], and it has 3");
}

static int64_t unaligned;

/* Thread 0 writes element `x[9]` of x, and thread 1 reads parts of the elements 0 and 1. */
static void read_across(void *const *unused, kb_thread *t)
{
    static const step write[] = {{WRITE, 0, X, 0, 7}, {WRITE, 0, X, 1, 7}};
    (void)unused;
    if (t->index > 1)
        return;
    script = &write[x[9]];
    if (t->index == 0)
        access_memory(t, script, 1, NULL);
    else
        (void)memory_of(t, (char *)address_of(t, X, NULL) + unaligned, ITEM,
                        KB_CHECK_HOW(KB_ACCESS_READ, 2), 0);
}

static void test_across_elements(void)
{
    const kb_hostcuda_code code = {
        .threads = {.run = read_across, .shared = 32, .checked = &table}};
    for (unaligned = 1; unaligned < ITEM; unaligned++)
        for (x[9] = 0; x[9] < 2; x[9]++)
            launch(
                &code, one_block, NULL,
                x[9] ? "thread (1, 0, 0): a data race: it reads element [0] of 'x' (int32[1d]) (at "
                       "k.py:2), which thread (0, 0, 0) writes (at k.py:1)"
                     : "thread (1, 0, 0): a data race: it reads element [0] of 'x'");
}

/* Parts of shared arrays, of which the launch decides that one has 16 to 18 bytes: which thread
 * writes how many bytes, and where. */
static const struct part {
    int thread, array;
    uint64_t at, size;
} * parts;

static void write_parts(void *const *unused, kb_thread *t)
{
    (void)unused;
    for (const struct part *p = parts; p->size; p++)
        if (p->thread == (int)t->index)
            (void)memory_of(t, (char *)address_of(t, p->array, NULL) + p->at, p->size,
                            KB_CHECK_HOW(KB_ACCESS_WRITE_VALUE, 1), 1 + t->index);
}

static void test_parts_of_elements(void)
{
    enum { BYTES = 18 };
    static const struct {
        uint32_t bytes;
        struct part parts[4];
        const char *fault;
    } cases[] = {
        {BYTES,
         {{0, S, 0, 2}, {0, S, 2, 2}, {0, S, 22, 2}},
         NULL}, /* which are not written before */
        {BYTES, {{0, S, 0, 2}, {1, S, 2, 2}}, "it writes element [0, 0] of the shared array"},
        {BYTES, {{0, S, 4, 4}, {1, S, 0, 8}}, "it writes element [0, 0] of the shared array"},
        {BYTES, {{0, S, 8, 8}, {1, S, 12, 4}}, "it writes element [1, 0] of the shared array"},
        {BYTES, {{0, S, 0, 8}, {1, S, 8, 8}, {2, S, 16, 8}}, NULL},
        {BYTES, {{0, DYNAMIC, 16, 2}, {1, S, 0, 4}}, NULL}, /* the last two bytes */
        {BYTES, {{0, DYNAMIC, 16, 2}, {1, DYNAMIC, 12, 4}}, NULL},
        {BYTES,
         {{0, DYNAMIC, 16, 2}, {1, DYNAMIC, 16, 2}},
         "it writes element [4] of the dynamic array"},
        {BYTES,
         {{0, DYNAMIC, 15, 2}, {1, DYNAMIC, 12, 2}},
         "it writes element [3] of the dynamic array"},
        {BYTES,
         {{0, DYNAMIC, 15, 2}, {1, DYNAMIC, 16, 2}},
         "it writes element [4] of the dynamic array"},
        {BYTES,
         {{0, DYNAMIC, 17, 2}},
         "writes the dynamic array out of bounds: element [4], and it has 4"},
        {BYTES - 1, {{0, DYNAMIC, 16, 1}, {1, S, 0, 4}}, NULL}, /* the last byte */
        {BYTES - 1, {{0, DYNAMIC, 16, 1}, {1, DYNAMIC, 12, 4}}, NULL},
        {BYTES - 2, {{0, DYNAMIC, 15, 1}, {1, S, 0, 4}}, NULL},
        {BYTES - 2,
         {{0, DYNAMIC, 15, 1}, {1, DYNAMIC, 12, 1}},
         "it writes element [3] of the dynamic array"},
    };
    const kb_hostcuda_code code = {
        .threads = {.run = write_parts, .shared = 32, .checked = &table}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t bytes = cases[i].bytes;
        memset(fault, 0, sizeof fault);
        parts = cases[i].parts;
        CHECK_INT(kb_hostcuda_run(&code, one_block, bytes, parameters, NULL, fault),
                  cases[i].fault ? KB_HOSTCUDA_FAULT : KB_CU_SUCCESS);
        if (!(cases[i].fault ? CHECK_HAS(fault, cases[i].fault) : CHECK_TEXT(fault, "")))
            fprintf(stderr, "in case %zu\n", i);
        kb_block *block = kb_block_take(&code.threads, one_block, bytes);
        if (CHECK(block))
            forget_frames(block);
        kb_block_give_back(block);
    }
}

/* Two shared arrays of a kernel, the first of bytes. */
static void test_shared_bytes(void)
{
    static const struct {
        struct part parts[3];
        const char *fault;
    } cases[] = {
        {{{0, S, 22, 1}, {1, S, 23, 1}}, NULL},
        {{{0, S, 23, 1}, {1, DYNAMIC, 0, 4}}, NULL},
        {{{0, S, 23, 1}, {1, S, 23, 1}}, "it writes element [23] of the shared array"},
        {{{0, DYNAMIC, 0, 4}, {1, DYNAMIC, 0, 4}}, "it writes element [0] of the dynamic array"},
        {{{0, S, 24, 1}}, "writes the shared array out of bounds: element [24], and it has 24"},
    };
    kb_check_array bytes[sizeof arrays / sizeof *arrays];
    kb_check_table about = table;
    memcpy(bytes, arrays, sizeof arrays);
    bytes[S] = (kb_check_array){"the shared array", 1, 1, 0, 0, 0, 24, NULL, 1};
    bytes[DYNAMIC].flags = 0;
    bytes[DYNAMIC].offset = 24;
    bytes[DYNAMIC].size = 8;
    about.arrays = bytes;
    const kb_hostcuda_code code = {
        .threads = {.run = write_parts, .shared = 32, .checked = &about}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        parts = cases[i].parts;
        launch(&code, one_block, NULL, cases[i].fault);
    }
}

/* What generated code reads of each array: where it lies, how large it is and whether its accesses
 * are remembered. */
static bool waits;

static void look_at_rows(void *const *unused, kb_thread *t)
{
    static const uint64_t sizes[N_ARRAYS] = {
        sizeof x, sizeof y, 15 * ITEM,          4 * ITEM,       sizeof x,
        3 * ITEM, sizeof c, sizeof(int32_t[6]), sizeof(int[4]), 20};
    int32_t local[5] = {0};
    (void)unused;
    (void)kb_check_local_array(t, local, 0);
    const void *const places[N_ARRAYS] = {
        x, y, z + 1, b + (size_t)4 * t->ctaid[2], x, x + 4, c, t->shared, t->shared + 32, local};
    const kb_check_rows *rows = kb_check_rows_of(t);
    CHECK_INT(rows->n, N_ARRAYS);
    CHECK_INT(rows->of[0].first, 0);
    CHECK_INT(rows->of[0].size, (INT64_C(1) << KB_CHECK_TAG_SHIFT) - 1);
    for (int i = 0; i < N_ARRAYS - 1; i++) {
        const kb_check_row *of = &rows->of[i + 1];
        bool remembered = i != CONSTANT && i != LOCAL;
        if (i == LOCAL && waits) {
            CHECK_INT(of->size, 0);
            continue;
        }
        CHECK_INT(of->first, (long long)(uintptr_t)places[i]);
        CHECK_INT(of->size, (long long)sizes[i]);
        CHECK_INT(of->cells != NULL, remembered);
        CHECK_INT(of->unit, remembered ? ITEM : 0);
        CHECK_INT(of->since != 0, i == S || i == DYNAMIC);
    }
}

static void test_rows(void)
{
    static const uint32_t many_slices[6] = {1, 1, 2, 3, 1, 1};
    for (int i = 0; i < 2; i++) {
        kb_check_table about = table;
        about.waits = waits = i;
        const kb_hostcuda_code code = {
            .threads = {.run = look_at_rows, .shared = 32, .stack = 256, .checked = &about}};
        launch(&code, many_slices, NULL, NULL);
    }
}

/* The first number behind those of all arrays. */
static void read_nothing(void *const *unused, kb_thread *t)
{
    uint64_t word = (uintptr_t)x | (uint64_t)(N_RANGES + 2) << KB_CHECK_TAG_SHIFT;
    (void)unused;
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    (void)kb_check_ask(t, (void *)(uintptr_t)word, ITEM, KB_CHECK_HOW(KB_ACCESS_READ, 1), 0);
}

static void test_no_array(void)
{
    const kb_hostcuda_code code = {
        .threads = {.run = read_nothing, .shared = 32, .checked = &table}};
    launch(&code, one_block, NULL, "reads at an address that belongs to no array (at k.py:1)");
}

/* Lines of the source that are longer than there is room for are cut. */
static void test_long_lines(void)
{
    static char lines[2][512] = {"k.py:1\t", "k.py:2\t"};
    const char *const long_sites[3] = {"", lines[0], lines[1]};
    kb_check_table about = table;
    about.sites = long_sites;
    about.n_sites = 3;
    const kb_hostcuda_code code = {.threads = {.run = run_script, .shared = 32, .checked = &about}};
    const step race[] = {{WRITE, 0, X, 1, 1}, {READ, 1, X, 1, 0}, {END, 0, 0, 0, 0}};
    for (int i = 0; i < 2; i++)
        memset(lines[i] + strlen(lines[i]), 'a' + i, 500);
    enum { LINES = 2 * 256, BEFORE = sizeof "\n    k.py:2: " };
    char expected[LINES + 64] = "barrier between\n    k.py:2: ";
    memset(expected + strlen(expected), 'b', LINES - BEFORE);
    launch(&code, one_block, race, expected);
    const char *lines_of = strstr(fault, "\n");
    CHECK(lines_of && strlen(lines_of) == LINES - 1);
}

static uint32_t n_ran; /* threads */

static void count_and_run(void *const *given, kb_thread *t)
{
    n_ran++;
    run_script(given, t);
}

/* Each request for memory fails in turn, of a launch whose threads are more than ever before. */
static void test_no_memory(void)
{
    enum { UNCHECKED, ALONE, WAITING, N_KINDS, TRIES = 100 };
    const step write[] = {{WRITE, 0, X, 1, 1}, {END, 0, 0, 0, 0}}, nothing[] = {{END, 0, 0, 0, 0}};
    for (int kind = 0; kind < N_KINDS; kind++) {
        kb_check_table about = table;
        about.waits = kind == WAITING;
        const kb_hostcuda_code code = {.threads = {.run = count_and_run,
                                                   .shared = 32,
                                                   .stack = 256,
                                                   .checked = kind == UNCHECKED ? NULL : &about}};
        const uint32_t sizes[6] = {1, 1, 1, 64U << kind, 1, 1};
        kb_cu_result result = KB_HOSTCUDA_FAULT;
        int n = 0;
        script = kind == UNCHECKED ? nothing : write;
        while (result != KB_CU_SUCCESS && ++n < TRIES) {
            memset(fault, 0, sizeof fault);
            n_ran = 0;
            torture_fail_nth(n);
            result = kb_hostcuda_run(&code, sizes, 0, parameters, NULL, fault);
            torture_fail_nth(0);
            if (result != KB_CU_SUCCESS)
                CHECK_HAS(fault, "no memory ");
            CHECK_INT(n_ran, result == KB_CU_SUCCESS ? sizes[3] : 0);
        }
        CHECK(n > 1 && n < TRIES);
    }
}

int main(void)
{
    set_up();
    test_no_memory();
    test_unwritten();
    test_one_result();
    test_large_arguments();
    test_room_for_cells();
    test_shared_memory();
    test_dynamic_memory();
    test_asked();
    test_local_arrays();
    test_across_elements();
    test_parts_of_elements();
    test_shared_bytes();
    test_rows();
    test_no_array();
    test_long_lines();
    return kb_test_end("test_check_memory");
}
