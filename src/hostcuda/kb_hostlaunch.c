/* Owns launches on the CPU: what they refuse, and how blocks are shared among threads. */
#include "core/kb_float_mode.h"
#include "core/kb_memory.h"
#include "core/kb_pool.h"
#include "hostcuda/kb_check.h"
#include "hostcuda/kb_hostcuda.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum {
    ALONE_MAX = 16 * 1024, /* threads of a launch that is not worth sharing */
    ALONE_FIBRES_MAX = 1024,
    STARTED_FACTOR = 8,          /* times as many threads of a launch are worth starting a thread */
    COOPERATIVE_MAX = 64 * 1024, /* threads of a grid */
};

/* As GPUs have them (CUDA C++ programming guide, compute capabilities). */
static const uint32_t sizes_max[6] = {
    INT32_MAX, 65535, 65535, KB_HOSTCUDA_THREADS_MAX, KB_HOSTCUDA_THREADS_MAX, 64};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of a launch's fault */

typedef struct launch {
    const kb_hostcuda_code *code;
    void *const *parameters;
    uint32_t sizes[6];
    uint32_t shared; /* dynamic, bytes */
    kb_checks *checks;
    _Atomic(bool) faulted;
    char fault[KB_FAULT_SIZE];
} launch;

static void fail(launch *l, const char *fault)
{
    pthread_mutex_lock(&lock);
    if (!atomic_exchange(&l->faulted, true))
        memcpy(l->fault, fault, sizeof l->fault);
    pthread_mutex_unlock(&lock);
}

static const char no_memory[KB_FAULT_SIZE] = "no memory for the stacks of a block's threads";

static void index_of(const launch *l, int64_t block, uint32_t index[3])
{
    int64_t row = block / l->sizes[0];
    index[0] = (uint32_t)(block % l->sizes[0]);
    index[1] = (uint32_t)(row % l->sizes[1]);
    index[2] = (uint32_t)(row / l->sizes[1]);
}

static void run_fibres(launch *l, int64_t begin, int64_t end)
{
    kb_block *block = kb_block_take(&l->code->threads, l->sizes, l->shared);
    if (!block) {
        fail(l, no_memory);
        return;
    }
    block->checks = l->checks;
    for (int64_t i = begin; i < end && !atomic_load(&l->faulted); i++) {
        uint32_t index[3];
        index_of(l, i, index);
        if (!kb_block_run(block, l->parameters, index))
            fail(l, block->fault);
    }
    kb_block_give_back(block);
}

/* True in unchecked mode, too. */
static bool begin_checks(launch *l)
{
    static const char no_table[KB_FAULT_SIZE] = "no memory to check the kernel's accesses with";
    const kb_check_table *table = l->code->threads.checked;
    if (!table)
        return true;
    l->checks = kb_checks_new(table, l->sizes, l->shared, l->parameters, l->code->cooperative);
    if (!l->checks)
        fail(l, no_table);
    return l->checks != NULL;
}

/* All blocks at once, each going on until its threads wait for the grid. */
static void run_turns(launch *l, kb_block **blocks, int64_t n_blocks)
{
    int64_t n_ended;
    bool is_first = true;
    do {
        if (l->checks && !is_first)
            kb_checks_phase(l->checks);
        is_first = false;
        n_ended = 0;
        for (int64_t i = 0; i < n_blocks; i++) {
            if (blocks[i]->n_live && !kb_block_go_on(blocks[i])) {
                fail(l, blocks[i]->fault);
                return;
            }
            n_ended += blocks[i]->n_live == 0;
        }
    } while (n_ended < n_blocks);
}

static void run_cooperative(launch *l, int64_t n_blocks, int64_t n_threads)
{
    static const char too_large[KB_FAULT_SIZE] =
        "a cooperative grid has at most 65536 threads on the CPU";
    if (n_blocks > COOPERATIVE_MAX / n_threads) {
        fail(l, too_large);
        return;
    }
    if (!begin_checks(l))
        return;
    int64_t n_taken = 0;
    kb_block **blocks = (kb_block **)kb_calloc((size_t)n_blocks, sizeof(kb_block *));
    for (; blocks && n_taken < n_blocks; n_taken++) {
        uint32_t index[3];
        index_of(l, n_taken, index);
        blocks[n_taken] = kb_block_take(&l->code->threads, l->sizes, l->shared);
        if (!blocks[n_taken])
            break;
        blocks[n_taken]->checks = l->checks;
        kb_block_begin(blocks[n_taken], l->parameters, index);
    }
    if (n_taken == n_blocks)
        run_turns(l, blocks, n_blocks);
    else
        fail(l, no_memory);
    for (int64_t i = 0; i < n_taken; i++) {
        kb_block_end(blocks[i]);
        kb_block_give_back(blocks[i]);
    }
    kb_free((void *)blocks);
    kb_checks_free(l->checks);
}

/* Blocks whose threads do not wait, on one fibre. */
static void run_alone(launch *l)
{
    kb_block *block = kb_block_take(&l->code->threads, l->sizes, l->shared);
    if (!block) {
        fail(l, no_memory);
        return;
    }
    block->checks = l->checks;
    if (!kb_block_run_alone(block, l->parameters, l->sizes))
        fail(l, block->fault);
    kb_block_give_back(block);
}

/* Blocks one after the other, which share what is known of accesses. */
static void run_checked(launch *l, int64_t n_blocks)
{
    if (!begin_checks(l))
        return;
    if (l->code->threads.checked->waits)
        run_fibres(l, 0, n_blocks);
    else
        run_alone(l);
    kb_checks_free(l->checks);
}

/* Blocks whose threads run one after the other, in loops. */
static void run_loops(launch *l, int64_t begin, int64_t end)
{
    const char *outside = NULL;
    l->code->blocks(l->parameters, l->sizes, begin, end, &outside);
    if (!outside)
        return;
    char fault[KB_FAULT_SIZE];
    (void)snprintf(fault, sizeof fault, "a thread writes to %s out of bounds%s", outside,
                   kb_hostcuda_left_out);
    fail(l, fault);
}

static void run_blocks(void *data, int64_t begin, int64_t end)
{
    launch *l = data;
    uint64_t mode = kb_float_mode_exact();
    if (l->code->blocks)
        run_loops(l, begin, end);
    else
        run_fibres(l, begin, end);
    kb_float_mode_restore(mode);
}

static void count(kb_hostcuda_counts *counts, bool faulted)
{
    atomic_fetch_add_explicit(&counts->launches, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&counts->faults, faulted, memory_order_relaxed);
}

static bool fits(const launch *l, int64_t *n_blocks, int64_t *n_threads)
{
    *n_blocks = *n_threads = 1;
    for (int i = 0; i < 3; i++) {
        if (l->sizes[i] == 0 || l->sizes[i] > sizes_max[i] || l->sizes[3 + i] == 0 ||
            l->sizes[3 + i] > sizes_max[3 + i])
            return false;
        *n_blocks *= l->sizes[i];
        *n_threads *= l->sizes[3 + i];
    }
    return *n_threads <= KB_HOSTCUDA_THREADS_MAX && l->shared <= KB_HOSTCUDA_SHARED_MAX &&
           l->code->threads.shared <= KB_HOSTCUDA_SHARED_MAX - l->shared;
}

kb_cu_result kb_hostcuda_run(const kb_hostcuda_code *code, const uint32_t sizes[6],
                             uint32_t dynamic_shared, void *const *parameters,
                             const kb_xla_frame *xla, char fault[KB_FAULT_SIZE])
{
    launch l = {.code = code, .parameters = parameters, .shared = dynamic_shared};
    int64_t n_blocks, n_threads;
    memcpy(l.sizes, sizes, sizeof l.sizes);
    if (!fits(&l, &n_blocks, &n_threads))
        return KB_CU_INVALID_VALUE;
    uint64_t mode = kb_float_mode_exact();
    int64_t alone_max = code->blocks ? ALONE_MAX : ALONE_FIBRES_MAX;
    if (code->cooperative)
        run_cooperative(&l, n_blocks, n_threads);
    else if (code->threads.checked)
        run_checked(&l, n_blocks);
    else if (n_blocks <= alone_max / n_threads)
        run_blocks(&l, 0, n_blocks);
    else if (xla)
        kb_pool_for(xla, n_blocks, run_blocks, &l);
    else
        kb_pool_for_started(n_blocks, run_blocks, &l);
    kb_float_mode_restore(mode);
    bool faulted = atomic_load(&l.faulted);
    if (code->counts)
        count(code->counts, faulted);
    if (!faulted)
        return KB_CU_SUCCESS;
    memcpy(fault, l.fault, KB_FAULT_SIZE);
    return KB_HOSTCUDA_FAULT;
}

kb_status kb_hostcuda_launch(const char digest[KB_HOSTCUDA_DIGEST], const uint32_t sizes[6],
                             uint32_t dynamic_shared, void *const *parameters,
                             const kb_xla_frame *xla, kb_error *err)
{
    char fault[KB_FAULT_SIZE];
    const kb_hostcuda_code *code = kb_hostcuda_find(digest);
    if (!code)
        return kb_error_set(err, KB_NOT_FOUND, "the kernel's machine code is not known here");
    kb_cu_result result = kb_hostcuda_run(code, sizes, dynamic_shared, parameters, xla, fault);
    if (result == KB_HOSTCUDA_FAULT)
        return kb_error_set(err, KB_INTERNAL, "%s", fault);
    if (result != KB_CU_SUCCESS)
        return kb_error_set(err, KB_INVALID_ARGUMENT, "%s", kb_hostcuda_limits);
    return KB_OK;
}

const char kb_hostcuda_left_out[] =
    "; the write was left out, and the results are not complete: pass check=True, or set "
    "KERNBRIDGE_DEBUG=check, to see the thread, the index and the line";

const char kb_hostcuda_limits[] =
    "a block has 1 to 1024 threads, at most 64 along z, and at most 227 KiB of shared memory; a "
    "grid at most 65535 blocks along y and z";
