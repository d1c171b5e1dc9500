/* Owns blocks: the turns of their threads, their stacks' ends, and the block's barrier. */
#include "hostcuda/kb_block.h"

#include "hostcuda/kb_check.h"
#include "hostcuda/kb_hostcuda.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const uint64_t canary = UINT64_C(0x6B65726E62726467); /* below each stack */

static bool is_ready(const kb_block *b, const kb_thread *t)
{
    return t->state == KB_THREAD_RUNS ||
           (t->state == KB_THREAD_AT_BARRIER && t->generation != b->generation) ||
           (t->state == KB_THREAD_AT_GRID && t->generation != b->grid_generation);
}

static bool polls(const kb_block *b, const kb_thread *t)
{
    (void)b;
    return t->state == KB_THREAD_POLLS;
}

static inline __attribute__((always_inline)) kb_thread *
next_that(bool (*may)(const kb_block *, const kb_thread *), const kb_block *b, uint32_t after)
{
    for (uint32_t i = after + 1; i < b->n_threads; i++)
        if (may(b, &b->threads[i]))
            return &b->threads[i];
    for (uint32_t i = 0; i <= after; i++)
        if (may(b, &b->threads[i]))
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
    case KB_THREAD_POLLS:
        return "a loop that waits for memory";
    case KB_THREAD_ENDED:
        return "its end";
    case KB_THREAD_RUNS:
        break;
    }
    return "its code";
}

static void stuck(kb_block *b)
{
    if (b->checks)
        kb_checks_settle(b->checks);
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
            (t->state != KB_THREAD_IN_WARP || !kb_warp_same(&t->call, &warp->call))) {
            other = t;
            break;
        }
    }
    if (warp && other)
        kb_block_fail(
            (kb_thread *)(uintptr_t)warp,
            "waits in %s for the lanes 0x%08x, and thread (%u, %u, %u) of these stands in "
            "%s%s: neither can continue",
            kb_block_what(warp), warp->call.mask, other->tid[0], other->tid[1], other->tid[2],
            kb_block_what(other),
            other->state == KB_THREAD_IN_WARP && other->call.kind == warp->call.kind
                ? " with another mask or mode"
                : "");
    kb_block_fail(&b->threads[0],
                  "threads of the block wait for each other, and none can continue");
}

/* Where no thread is ready. */
static KB_COLD kb_thread *find_other(kb_block *b, uint32_t after)
{
    kb_thread *next = converge(b) ? next_that(is_ready, b, after) : NULL;
    if (!next)
        next = next_that(polls, b, after);
    if (!next)
        stuck(b);
    return next;
}

static inline kb_thread *find_next(kb_block *b, uint32_t after)
{
    kb_thread *next = next_that(is_ready, b, after);
    return next ? next : find_other(b, after);
}

/* What lies below a thread's stack, or is its last word: none of its frames may reach it. It shares
 * a page with the beginning of the next stack, which is in use. */
static unsigned char *end_of_stack(const kb_block *b, const kb_thread *t)
{
    return b->stacks + (size_t)t->index * b->stack - (t->index ? sizeof canary : 0);
}

/* A stack that has grown into its end has damaged what lies below: the block ends. */
static void check_stack(kb_thread *t)
{
    const kb_block *b = t->block;
    uint64_t found;
    memcpy(&found, end_of_stack(b, t), sizeof found);
    if (found != canary)
        kb_block_fail(t,
                      "used more than the %zu bytes of its stack: the kernel's variables take %u, "
                      "and the functions that it calls need the rest; use smaller local arrays, or "
                      "shared ones",
                      b->stack, b->code->stack);
}

void kb_block_wait(kb_thread *t)
{
    check_stack(t);
    kb_thread *next = find_next(t->block, t->index);
    if (next != t)
        kb_fibre_switch(&t->fibre, &next->fibre);
    t->state = KB_THREAD_RUNS;
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
        kb_block_pause(t);
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
    kb_block_pause(t);
    kb_fibre_switch(&t->fibre, &b->caller);
    t->state = KB_THREAD_RUNS;
}

static void run_thread(void *data)
{
    kb_thread *t = data;
    kb_block *b = t->block;
    kb_fibre_begun(&t->fibre);
    b->code->run(b->parameters, t);
    check_stack(t);
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

static void set_up_fibre(kb_block *b, kb_thread *t, kb_fibre_entry *entry, void *data)
{
    size_t top = b->stack - (size_t)KB_LINE * (1 + t->index % KB_COLOURS);
    kb_fibre_init(&t->fibre, b->stacks + (size_t)t->index * b->stack, top, entry, data);
    memcpy(end_of_stack(b, t), &canary, sizeof canary);
}

static void set_up_thread(kb_block *b, kb_thread *t, const uint32_t index[3])
{
    memcpy(t->ctaid, index, sizeof t->ctaid);
    t->state = KB_THREAD_RUNS;
    t->place = NULL;
    b->warps[t->index / KB_WARP].live |= UINT32_C(1) << t->lane;
    set_up_fibre(b, t, run_thread, t);
}

void kb_write_outside(kb_thread *t, const char *what)
{
    kb_block_fail(t, "writes to %s out of bounds%s", what, kb_hostcuda_left_out);
}

void kb_place(kb_thread *t, const char *place)
{
    t->place = place;
}

void kb_raise(kb_thread *t, const char *what)
{
    if (t->place)
        kb_block_fail(t, "%s, raised at %s", what, t->place);
    kb_block_fail(t, "%s", what);
}

void kb_assert(kb_thread *t, const char *what, const char *file, uint32_t line)
{
    kb_block_fail(t, "the assertion (%s) at %s:%u failed", what, file, line);
}

void kb_recurse(kb_thread *t, uint64_t size)
{
    const kb_block *b = t->block;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    uintptr_t begin = (uintptr_t)(b->stacks + (size_t)t->index * b->stack);
    if (size > b->stack || here - begin < KB_STACK_LEFT + size)
        kb_block_fail(t,
                      "a device function calls itself too often: the stack of a thread has %zu "
                      "bytes here",
                      b->stack);
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
}

bool kb_block_go_on(kb_block *b)
{
    b->n_at_grid = 0;
    b->grid_generation++;
    if (b->checks)
        kb_checks_enter(b->checks, b);
    kb_fibre_adopt(&b->caller);
    kb_fibre_switch(&b->caller, &next_that(is_ready, b, b->n_threads - 1)->fibre);
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

typedef struct alone {
    kb_block *block;
    const uint32_t *grid;
} alone;

static void run_threads(kb_block *b, const uint32_t index[3])
{
    for (uint32_t i = 0; i < b->n_threads; i++)
        memcpy(b->threads[i].ctaid, index, sizeof b->threads[i].ctaid);
    if (b->checks)
        kb_checks_enter(b->checks, b);
    for (uint32_t i = 0; i < b->n_threads; i++)
        b->code->run(b->parameters, &b->threads[i]);
    check_stack(&b->threads[0]);
}

static void run_grid(void *data)
{
    const alone *a = data;
    kb_block *b = a->block;
    uint32_t at[3];
    kb_fibre_begun(&b->threads[0].fibre);
    for (at[2] = 0; at[2] < a->grid[2]; at[2]++)
        for (at[1] = 0; at[1] < a->grid[1]; at[1]++)
            for (at[0] = 0; at[0] < a->grid[0]; at[0]++)
                run_threads(b, at);
    kb_fibre_switch(&b->threads[0].fibre, &b->caller);
}

bool kb_block_run_alone(kb_block *b, void *const *parameters, const uint32_t grid[3])
{
    alone a = {b, grid};
    b->parameters = parameters;
    b->faulted = false;
    b->n_arrived = 0;
    set_up_fibre(b, &b->threads[0], run_grid, &a);
    kb_fibre_adopt(&b->caller);
    kb_fibre_switch(&b->caller, &b->threads[0].fibre);
    kb_fibre_drop(&b->threads[0].fibre);
    return !b->faulted;
}
