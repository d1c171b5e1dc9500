/* Owns blocks: their memory, the turns of their threads, and the block's barrier. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#endif
#include "hostcuda/kb_block.h"

#include "core/kb_memory.h"
#include "hostcuda/kb_check.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum {
    STACK_MIN = 32 * 1024, /* beside a kernel's own variables: what it spills, the C library */
    PAGE = 4096,
    LINE = 64,
    COLOURS = 32, /* stacks begin at different lines of a page, for the sake of the caches */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static kb_block *unused; /* under the lock */

static void *map(size_t size)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
#ifdef MAP_NORESERVE
    flags |= MAP_NORESERVE;
#endif
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* Memory of at least `size` bytes in place of what was there. */
static bool grow(unsigned char **memory, size_t *there, size_t size)
{
    if (size <= *there)
        return true;
    if (*memory)
        (void)munmap(*memory, *there);
    *memory = map(size);
    *there = *memory ? size : 0;
    return *memory != NULL;
}

static void *align_up(void *memory)
{
    return (char *)memory + (LINE - (uintptr_t)memory % LINE) % LINE;
}

static bool make_room(kb_block *b, uint32_t n_threads)
{
    if (n_threads <= b->capacity)
        return true;
    kb_free(b->threads_memory);
    kb_free(b->warps);
    b->threads_memory = kb_calloc((size_t)n_threads + 1, sizeof *b->threads);
    b->threads = align_up(b->threads_memory);
    b->warps = kb_calloc((n_threads + KB_WARP - 1) / KB_WARP, sizeof *b->warps);
    b->capacity = b->threads_memory && b->warps ? n_threads : 0;
    return b->capacity != 0;
}

static size_t round_up(size_t size, size_t unit)
{
    return (size + unit - 1) / unit * unit;
}

static void free_block(kb_block *b)
{
    if (b->stacks)
        (void)munmap(b->stacks, b->stacks_size);
    if (b->shared)
        (void)munmap(b->shared, b->shared_size);
    kb_free(b->threads_memory);
    kb_free(b->warps);
    kb_free(b);
}

static void number_threads(kb_block *b, const uint32_t sizes[6], uint32_t dynamic_shared)
{
    const uint32_t *extents = sizes + 3;
    for (uint32_t i = 0; i < b->n_threads; i++) {
        kb_thread *t = &b->threads[i];
        t->tid[0] = i % extents[0];
        t->tid[1] = i / extents[0] % extents[1];
        t->tid[2] = i / extents[0] / extents[1];
        memcpy(t->ntid, extents, sizeof t->ntid);
        memcpy(t->nctaid, sizes, sizeof t->nctaid);
        t->shared = b->shared;
        t->dynamic_shared = dynamic_shared;
        t->lane = i % KB_WARP;
        t->index = i;
        t->block = b;
    }
}

kb_block *kb_block_take(const kb_block_code *code, const uint32_t sizes[6], uint32_t dynamic_shared)
{
    pthread_mutex_lock(&lock);
    kb_block *b = unused;
    if (b)
        unused = b->next;
    pthread_mutex_unlock(&lock);
    if (!b)
        b = kb_calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->code = code;
    b->checks = NULL;
    b->n_threads = sizes[3] * sizes[4] * sizes[5];
    b->stack = round_up(STACK_MIN + (size_t)code->stack + (size_t)LINE * COLOURS, PAGE);
    size_t shared = round_up((size_t)code->shared + dynamic_shared + LINE, PAGE);
    if (!make_room(b, b->n_threads) ||
        !grow(&b->stacks, &b->stacks_size, b->stack * b->n_threads) ||
        !grow(&b->shared, &b->shared_size, shared)) {
        free_block(b);
        return NULL;
    }
    number_threads(b, sizes, dynamic_shared);
    return b;
}

void kb_block_give_back(kb_block *b)
{
    pthread_mutex_lock(&lock);
    b->next = unused;
    unused = b;
    pthread_mutex_unlock(&lock);
}

static bool is_ready(const kb_block *b, const kb_thread *t)
{
    return t->state == KB_THREAD_RUNS ||
           (t->state == KB_THREAD_AT_BARRIER && t->generation != b->generation) ||
           (t->state == KB_THREAD_AT_GRID && t->generation != b->grid_generation);
}

static kb_thread *next_ready(const kb_block *b, uint32_t after)
{
    for (uint32_t i = after + 1; i < b->n_threads; i++)
        if (is_ready(b, &b->threads[i]))
            return &b->threads[i];
    for (uint32_t i = 0; i <= after; i++)
        if (is_ready(b, &b->threads[i]))
            return &b->threads[i];
    return NULL;
}

/* Where no thread can go on, those of a warp that wait at one place to learn who is there do. */
static bool converge(kb_block *b)
{
    for (uint32_t first = 0; first < b->n_threads; first += KB_WARP) {
        const kb_thread *speaker = NULL;
        uint32_t mask = 0, n = b->n_threads - first < KB_WARP ? b->n_threads - first : KB_WARP;
        for (uint32_t lane = 0; lane < n; lane++) {
            const kb_thread *t = &b->threads[first + lane];
            if (t->state != KB_THREAD_CONVERGES || (speaker && t->site != speaker->site))
                continue;
            speaker = speaker ? speaker : t;
            mask |= UINT32_C(1) << lane;
        }
        for (uint32_t lane = 0; lane < n && mask; lane++) {
            kb_thread *t = &b->threads[first + lane];
            if (!(mask >> lane & 1))
                continue;
            t->result = mask;
            t->state = KB_THREAD_RUNS;
        }
        if (mask)
            return true;
    }
    return false;
}

const char *kb_block_what(const kb_thread *t)
{
    static const char *const of_warps[] = {"cuda.syncwarp", "a warp shuffle", "a warp vote",
                                           "a warp match"};
    switch (t->state) {
    case KB_THREAD_AT_BARRIER:
        return "cuda.syncthreads";
    case KB_THREAD_IN_WARP:
        return of_warps[t->call.kind];
    case KB_THREAD_CONVERGES:
        return "cuda.activemask";
    case KB_THREAD_AT_GRID:
        return "the synchronisation of the grid";
    case KB_THREAD_ENDED:
        return "its end";
    case KB_THREAD_RUNS:
        break;
    }
    return "its code";
}

static void stuck(kb_block *b)
{
    const kb_thread *warp = NULL, *other = NULL;
    for (uint32_t i = 0; i < b->n_threads; i++) {
        const kb_thread *t = &b->threads[i];
        if (t->state == KB_THREAD_IN_WARP && !warp)
            warp = t;
    }
    for (uint32_t i = 0; warp && i < b->n_threads; i++) {
        const kb_thread *t = &b->threads[i];
        if (t != warp && i / KB_WARP == warp->index / KB_WARP && (warp->call.mask >> t->lane & 1) &&
            t->state != KB_THREAD_ENDED &&
            (t->state != KB_THREAD_IN_WARP || t->call.kind != warp->call.kind ||
             t->call.mask != warp->call.mask)) {
            other = t;
            break;
        }
    }
    if (warp && other)
        kb_block_fail(
            (kb_thread *)(uintptr_t)warp,
            "waits in %s for the lanes 0x%08x, and thread (%u, %u, %u) of these stands in "
            "%s: neither can go on",
            kb_block_what(warp), warp->call.mask, other->tid[0], other->tid[1], other->tid[2],
            kb_block_what(other));
    kb_block_fail(&b->threads[0], "threads of the block wait for each other, and none can go on");
}

static kb_thread *find_next(kb_block *b, uint32_t after)
{
    kb_thread *next = next_ready(b, after);
    if (!next && converge(b))
        next = next_ready(b, after);
    if (!next)
        stuck(b);
    return next;
}

void kb_block_wait(kb_thread *t)
{
    kb_thread *next = find_next(t->block, t->index);
    if (next != t)
        kb_fibre_switch(&t->fibre, &next->fibre);
    t->state = KB_THREAD_RUNS;
}

void kb_yield(kb_thread *t)
{
    kb_block_wait(t);
}

void kb_block_fail(kb_thread *t, const char *format, ...)
{
    kb_block *b = t->block;
    int n = snprintf(b->fault, sizeof b->fault,
                     "block (%u, %u, %u), thread (%u, %u, %u): ", t->ctaid[0], t->ctaid[1],
                     t->ctaid[2], t->tid[0], t->tid[1], t->tid[2]);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(b->fault + n, sizeof b->fault - (size_t)n, format, args);
    va_end(args);
    b->faulted = true;
    kb_fibre ended;
    kb_fibre_switch(&ended, &b->caller);
    __builtin_unreachable();
}

static void open_barrier(kb_block *b)
{
    b->reduced = b->n_true;
    b->n_true = 0;
    b->n_arrived = 0;
    b->generation++;
    if (b->checks)
        kb_checks_barrier(b->checks);
}

static void arrive(kb_thread *t, uint32_t site)
{
    kb_block *b = t->block;
    t->site = site;
    if (b->checks)
        kb_checks_arrive(t);
    if (++b->n_arrived == b->n_live) {
        open_barrier(b);
        return;
    }
    t->generation = b->generation;
    t->state = KB_THREAD_AT_BARRIER;
    kb_block_wait(t);
}

void kb_barrier(kb_thread *t, uint32_t site)
{
    arrive(t, site);
}

/* Whether it is so for all is the same as that it is not so for none. */
uint32_t kb_barrier_reduce(kb_thread *t, uint32_t reduction, uint32_t predicate, uint32_t site)
{
    bool holds = reduction == KB_REDUCE_AND ? predicate == 0 : predicate != 0;
    t->block->n_true += holds;
    arrive(t, site);
    uint32_t n = t->block->reduced;
    return reduction == KB_REDUCE_COUNT ? n : reduction == KB_REDUCE_AND ? n == 0 : n != 0;
}

uint32_t kb_active_mask(kb_thread *t, uint32_t site)
{
    t->site = site;
    t->state = KB_THREAD_CONVERGES;
    kb_block_wait(t);
    return (uint32_t)t->result;
}

void kb_grid_barrier(kb_thread *t, uint32_t site)
{
    kb_block *b = t->block;
    t->site = site;
    t->generation = b->grid_generation;
    t->state = KB_THREAD_AT_GRID;
    if (++b->n_at_grid < b->n_live) {
        kb_block_wait(t);
        return;
    }
    kb_fibre_switch(&t->fibre, &b->caller);
    t->state = KB_THREAD_RUNS;
}

static void run_thread(void *data)
{
    kb_thread *t = data;
    kb_block *b = t->block;
    kb_fibre_begun(&t->fibre);
    b->code->run(b->parameters, t);
    if (b->checks)
        kb_checks_end(t);
    t->state = KB_THREAD_ENDED;
    b->n_live--;
    uint32_t warp = t->index / KB_WARP;
    b->warps[warp].live &= ~(UINT32_C(1) << t->lane);
    if (b->n_live == b->n_at_grid)
        kb_fibre_switch(&t->fibre, &b->caller);
    if (b->n_arrived == b->n_live)
        open_barrier(b);
    if (b->warps[warp].waiting)
        kb_warp_check(b, warp);
    kb_fibre_switch(&t->fibre, &find_next(b, t->index)->fibre);
}

static void set_up_thread(kb_block *b, kb_thread *t, const uint32_t index[3])
{
    size_t top = b->stack - (size_t)LINE * (t->index % COLOURS);
    memcpy(t->ctaid, index, sizeof t->ctaid);
    t->state = KB_THREAD_RUNS;
    b->warps[t->index / KB_WARP].live |= UINT32_C(1) << t->lane;
    kb_fibre_init(&t->fibre, b->stacks + (size_t)t->index * b->stack, top, run_thread, t);
}

void kb_block_begin(kb_block *b, void *const *parameters, const uint32_t index[3])
{
    b->parameters = parameters;
    b->n_live = b->n_threads;
    b->n_arrived = b->n_true = b->n_at_grid = 0;
    b->faulted = false;
    memset(b->warps, 0, (b->n_threads + KB_WARP - 1) / KB_WARP * sizeof *b->warps);
    for (uint32_t i = 0; i < b->n_threads; i++)
        set_up_thread(b, &b->threads[i], index);
    if (b->checks)
        kb_checks_begin(b->checks);
}

bool kb_block_go_on(kb_block *b)
{
    b->n_at_grid = 0;
    b->grid_generation++;
    kb_fibre_adopt(&b->caller);
    kb_fibre_switch(&b->caller, &next_ready(b, b->n_threads - 1)->fibre);
    return !b->faulted;
}

void kb_block_end(kb_block *b)
{
    for (uint32_t i = 0; i < b->n_threads; i++)
        kb_fibre_drop(&b->threads[i].fibre);
}

bool kb_block_run(kb_block *b, void *const *parameters, const uint32_t index[3])
{
    bool well = true;
    kb_block_begin(b, parameters, index);
    while (well && b->n_live)
        well = kb_block_go_on(b);
    kb_block_end(b);
    return well;
}
