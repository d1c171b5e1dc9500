/* Proves that CUDA kernels on the CPU survive whatever the system and XLA refuse: machine code that
 * is placed, blocks on many threads, fibres, cooperative grids, and the checked mode. See
 * scenario.h. */
#include "check_steps.h"
#include "cuda_code.h"
#include "scenario.h"

#include <stdlib.h>

/* Known code is kept: a second run must not add it again. */
static kb_status add_once(const char *digest, const kb_hostcuda_code *code, kb_error *err)
{
    return kb_hostcuda_find(digest) ? KB_OK : kb_hostcuda_add(digest, code, err);
}

/* A digest of 64 characters that begins with this one. */
static const char *digest_of(char first)
{
    static char digest[KB_HOSTCUDA_DIGEST + 1];
    memset(digest, '0', KB_HOSTCUDA_DIGEST);
    digest[0] = first;
    return digest;
}

/* Places machine code, and runs enough blocks that other threads come. */
static kb_status run_placed(kb_error *err)
{
    enum { BLOCKS = 4096 };
    static const cuda_code_text text = {.abi = KB_HOSTCUDA_ABI};
    static int64_t out[BLOCKS];
    const char *digest = digest_of('a');
    int64_t *at = out;
    void *parameter[] = {&at};
    const uint32_t sizes[6] = {BLOCKS, 1, 1, 256, 1, 1};
    size_t size;
    fake_frame f;
    uint8_t *bytes = cuda_code_write(&text, digest, &size);
    kb_status s = KB_OK;
    if (!kb_hostcuda_find(digest))
        s = kb_cuda_code_load(digest, bytes, size, "op", err);
    free(bytes);
    if (s != KB_OK)
        return s;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    s = kb_hostcuda_launch(digest, sizes, 0, parameter, &f.frame, err);
    for (int i = 0; s == KB_OK && i < BLOCKS; i++) {
        CHECK_INT(out[i], i);
        out[i] = 0;
    }
    fake_pool_join();
    fake_frame_free(&f);
    return s;
}

/* Each thread counts the threads of its block, and those of the grid if that is cooperative, of
 * which each block ends at another time. */
static _Atomic(int) counted;

static void count_threads(void *const *unused, kb_thread *t)
{
    (void)unused;
    int *of_block = (int *)(void *)t->shared;
    if (t->index == 0)
        *of_block = 0;
    kb_barrier(t, 1);
    atomic_fetch_add(&counted, 1);
    __atomic_fetch_add(of_block, 1, __ATOMIC_RELAXED);
    kb_barrier(t, 2);
    CHECK_INT(*of_block, t->ntid[0]);
}

static void count_in_grid(void *const *unused, kb_thread *t)
{
    (void)unused;
    atomic_fetch_add(&counted, 1);
    kb_grid_barrier(t, 1);
    CHECK_INT(atomic_load(&counted), t->nctaid[0] * t->ntid[0]);
    if (t->ctaid[0] == 1)
        return;
    for (uint32_t site = 2; site < (t->ctaid[0] ? 4 : 6); site++)
        kb_grid_barrier(t, site);
    atomic_fetch_add(&counted, 1);
}

static kb_status run_code(char name, const kb_hostcuda_code *code, uint32_t n_blocks, kb_error *err)
{
    const uint32_t sizes[6] = {n_blocks, 1, 1, 96, 1, 1};
    void *none[1] = {NULL};
    fake_frame f;
    counted = 0;
    kb_status s = add_once(digest_of(name), code, err);
    if (s != KB_OK)
        return s;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    s = kb_hostcuda_launch(digest_of(name), sizes, 16, none, &f.frame, err);
    if (s == KB_OK)
        CHECK_INT(counted, 96 * (code->cooperative ? 2 * n_blocks - 1 : n_blocks));
    fake_pool_join();
    fake_frame_free(&f);
    return s;
}

static kb_status run_one_block(kb_error *err)
{
    const kb_hostcuda_code code = {.threads = {.run = count_threads, .shared = 64, .stack = 64}};
    return run_code('b', &code, 1, err);
}

static kb_status run_grid(kb_error *err)
{
    const kb_hostcuda_code code = {.threads = {.run = count_in_grid, .stack = 64},
                                   .cooperative = true};
    return run_code('c', &code, 3, err);
}

static kb_status run_checked(kb_error *err)
{
    static const step steps[] = {{WRITE, 2, X, 9, 1}, /* which a barrier of the warp orders */
                                 {LANES, ALL, 0, -1, 0},  {READ, 3, X, 9, 0},
                                 {BARRIER, ALL, 0, 0, 0}, {WRITE, 5, S, 3, 1},
                                 {END, 0, 0, 0, 0}};
    static const uint32_t one_block[6] = {1, 1, 1, N_THREADS, 1, 1};
    const kb_hostcuda_code code = {.threads = {.run = run_script, .shared = 32, .checked = &table}};
    kb_error found;
    const step wrong[] = {{WRITE, 2, X, 10, 1}, {END, 0, 0, 0, 0}};
    set_up();
    kb_status s = add_once(digest_of('d'), &code, err);
    if (s != KB_OK)
        return s;
    script = steps;
    s = kb_hostcuda_launch(digest_of('d'), one_block, 64, parameters, NULL, err);
    if (s != KB_OK)
        return s;
    script = wrong;
    s = kb_hostcuda_launch(digest_of('d'), one_block, 64, parameters, NULL, &found);
    CHECK_INT(s, KB_INTERNAL);
    if (strstr(found.message, "no memory")) {
        *err = found;
        return s;
    }
    CHECK_HAS(found.message, "writes 'x' (int32[1d]) out of bounds");
    kb_block *block = kb_block_take(&code.threads, one_block, 64);
    if (block)
        forget_frames(block);
    if (block)
        kb_block_give_back(block);
    return block ? KB_OK : kb_error_set(err, KB_RESOURCE_EXHAUSTED, "no memory");
}

int main(void)
{
    scenario_torture(&(scenario){
        .name = "placed code",
        .run = run_placed,
        .at_least =
            {[TORTURE_MEMORY] = 6, [TORTURE_MAPPING] = 3, [TORTURE_LIBRARY] = 1, [TORTURE_XLA] = 1},
        .survives = "malloc dlsym schedule num_threads",
        .words = "which this process does not have",
    });
    scenario_torture(&(scenario){
        .name = "fibres",
        .run = run_one_block,
        .at_least = {[TORTURE_MEMORY] = 4, [TORTURE_MAPPING] = 2},
        .survives = "mprotect", /* of the guard below the stacks */
        .words = "no memory",
    });
    scenario_torture(&(scenario){
        .name = "cooperative grid",
        .run = run_grid,
        .at_least = {[TORTURE_MEMORY] = 8, [TORTURE_MAPPING] = 6},
        .survives = "mprotect",
        .words = "no memory",
    });
    scenario_torture(&(scenario){
        .name = "checked mode",
        .run = run_checked,
        .at_least = {[TORTURE_MEMORY] = 10, [TORTURE_MAPPING] = 2},
        .survives = "mprotect",
        .words = "no memory",
    });
    return kb_test_end("test_torture_blocks");
}
