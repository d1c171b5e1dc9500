/* Owns blocks: turns of their threads, and their barriers. kb_block_memory.c has their memory. */
#include "ext/emulator/kb_block.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char kb_block_left_out[] =
    "; the write was left out, and the results are not complete: pass check=True, or set "
    "KERNBRIDGE_DEBUG=check, to see the thread, the index and the line";

enum {
    CHECK_EACH = 8, /* barriers, and the first: looks at the ends of stacks */
    PREFETCHED = 2, /* threads */
};

static const uint64_t canary = UINT64_C(0x6B65726E62726467); /* below each stack */

static bool is_ready(const kb_block *b, const kb_thread *t)
{
    return t->state == KB_THREAD_RUNS ||
           (t->state == KB_THREAD_AT_BARRIER && t->generation != b->generation) ||
           (t->state == KB_THREAD_AT_GRID && t->generation != b->grid_generation);
}

static inline kb_thread *next_ready(const kb_block *b, uint32_t after)
{
    uint32_t i = after;
    do {
        i = i + 1 < b->n_threads ? i + 1 : 0;
        if (is_ready(b, &b->threads[i]))
            return &b->threads[i];
    } while (i != after);
    return NULL;
}

/* If no thread is ready, releases the lanes of a warp that wait at the same activemask. */
static void converge(kb_block *b)
{
    uint32_t first = 0, mask = 0;
    while (first < b->n_threads && b->threads[first].state != KB_THREAD_CONVERGES)
        first++;
    kb_thread *lanes = b->threads + (first - first % KB_WARP);
    for (uint32_t i = first; i < b->n_threads && i / KB_WARP == first / KB_WARP; i++)
        if (b->threads[i].state == KB_THREAD_CONVERGES &&
            b->threads[i].site == b->threads[first].site)
            mask |= UINT32_C(1) << b->threads[i].lane;
    for (uint32_t lane = 0; lane < KB_WARP; lane++)
        if (mask >> lane & 1) {
            lanes[lane].result = mask;
            lanes[lane].state = KB_THREAD_RUNS;
        }
}

const char *kb_block_barrier_name(const kb_block *b)
{
    return b->code->run ? "cuda.syncthreads" : "__syncthreads";
}

/* What a thread waits for that cannot come, in the words of Numba-CUDA or of CUDA C++: barriers and
 * operations of its warp. */
static const char *what_of(const kb_thread *t)
{
    static const char *const of_warps[] = {"cuda.syncwarp", "a warp shuffle", "a warp vote",
                                           "a warp match"};
    bool in_cpp = !t->block->code->run;
    if (t->state == KB_THREAD_AT_GRID)
        return "the synchronisation of the grid";
    if (t->state == KB_THREAD_AT_BARRIER)
        return kb_block_barrier_name(t->block);
    return in_cpp && t->call.kind == KB_WARP_BARRIER ? "__syncwarp" : of_warps[t->call.kind];
}

static void stuck(kb_block *b)
{
    if (b->checks)
        kb_checks_settle(b->checks);
    kb_thread *warp = NULL;
    for (uint32_t i = 0; i < b->n_threads && !warp; i++)
        warp = b->threads[i].state == KB_THREAD_IN_WARP ? &b->threads[i] : NULL;
    for (uint32_t i = 0; warp && i < b->n_threads; i++) {
        const kb_thread *t = &b->threads[i];
        bool in_warp = t->state == KB_THREAD_IN_WARP;
        if (i / KB_WARP == warp->index / KB_WARP && (warp->call.mask >> t->lane & 1) &&
            t->state != KB_THREAD_ENDED && !(in_warp && kb_warp_same(&t->call, &warp->call)))
            kb_block_fail(
                warp,
                "waits in %s for the lanes 0x%08x, and thread (%u, %u, %u) of these stands in "
                "%s%s: neither can continue",
                what_of(warp), warp->call.mask, t->tid[0], t->tid[1], t->tid[2], what_of(t),
                in_warp && t->call.kind == warp->call.kind ? " with another mask or mode" : "");
    }
    kb_block_fail(&b->threads[0],
                  "threads of the block wait for each other, and none can continue");
}

/* Where no thread is ready. */
static KB_COLD kb_thread *find_other(kb_block *b, uint32_t after)
{
    converge(b);
    kb_thread *next = next_ready(b, after);
    for (uint32_t i = 1; !next && i <= b->n_threads; i++) {
        kb_thread *t = &b->threads[(after + i) % b->n_threads];
        next = t->state == KB_THREAD_POLLS ? t : NULL;
    }
    if (!next)
        stuck(b);
    return next;
}

static inline kb_thread *find_next(kb_block *b, uint32_t after)
{
    kb_thread *next = next_ready(b, after);
    return next ? next : find_other(b, after);
}

/* The canary at the end of a thread's stack; if it changes, the stack has overflowed. It shares a
 * page with the beginning of the next stack, which is in use. */
static unsigned char *end_of_stack(const kb_block *b, const kb_thread *t)
{
    return b->stacks + (size_t)t->stack * b->stack;
}

static void forget_fibre(kb_thread *t)
{
    if (t->stack != KB_NO_STACK)
        kb_fibre_drop(&t->fibre);
    t->stack = KB_NO_STACK;
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

static void set_up_fibre(kb_block *b, kb_thread *t, kb_fibre_entry *entry, void *data)
{
    forget_fibre(t);
    t->stack = t->index;
    size_t n_stacks = b->code->is_whole ? b->n_threads : 1;
    kb_fibre_init(&t->fibre, end_of_stack(b, t), n_stacks * b->stack, entry, data);
    memcpy(end_of_stack(b, t), &canary, sizeof canary);
}

static void check_warp(kb_block *b, uint32_t warp);
static void run_rest(void *data);

static void begin(kb_block *b, const uint32_t index[3])
{
    b->n_live = b->n_threads;
    b->n_arrived = b->n_true = b->n_at_grid = 0;
    memset(b->warps, 0, (b->n_threads + KB_WARP - 1) / KB_WARP * sizeof *b->warps);
    for (uint32_t i = 0; i < b->n_threads; i++) {
        kb_thread *t = &b->threads[i];
        memcpy(t->ctaid, index, sizeof t->ctaid);
        t->state = KB_THREAD_RUNS;
        t->n_waits = 0;
        if (t->stack != i)
            forget_fibre(t);
        b->warps[i / KB_WARP].live |= UINT32_C(1) << t->lane;
    }
}

/* A thread of a loop waits or fails, or was the last one to end: those before it, on the same
 * stack, have ended without having waited, and the stack is its own from now on. */
static __attribute__((noinline)) void note_begun(kb_thread *t)
{
    kb_block *b = t->block;
    if (!b->has_waited)
        begin(b, b->at);
    b->has_waited = true;
    uint32_t first = b->n_begun, warp = first / KB_WARP; /* the last one in which a lane may wait */
    b->n_begun = t->index + 1;
    for (uint32_t i = first; i < t->index; i++) {
        if (b->checks)
            kb_checks_end(&b->threads[i]);
        b->threads[i].state = KB_THREAD_ENDED;
        b->n_live--;
        b->warps[i / KB_WARP].live &= ~(UINT32_C(1) << b->threads[i].lane);
    }
    kb_thread *host = &b->threads[b->host];
    if (host != t) {
        forget_fibre(t);
        t->fibre = host->fibre;
        t->stack = host->stack;
        host->stack = KB_NO_STACK;
    }
    if (b->warps[warp].waiting)
        check_warp(b, warp);
}

static inline void note(kb_thread *t)
{
    if (!KB_LIKELY(t->index < t->block->n_begun))
        note_begun(t);
}

/* The fibre of a thread that can continue, or begin. */
static inline kb_fibre *fibre_of(kb_block *b, kb_thread *t)
{
    if (!KB_LIKELY(t->index < b->n_begun)) {
        b->host = t->index;
        if (t->stack == KB_NO_STACK)
            set_up_fibre(b, t, run_rest, t);
    }
    return &t->fibre;
}

/* Lets another thread go on or begin, until this one does. The stacks of a block do not fit into
 * the first cache, so the stacks of the next threads are prefetched. */
static inline __attribute__((always_inline)) void switch_to(kb_thread *t, kb_thread *next,
                                                            kb_fibre *fibre)
{
    if (KB_LIKELY(next->index + PREFETCHED + 2 < next->block->n_begun)) {
        const char *stack = next[PREFETCHED].fibre.sp;
        __builtin_prefetch(stack);
        __builtin_prefetch(stack + KB_LINE);
        __builtin_prefetch(&next[PREFETCHED + 2].state);
    }
    kb_fibre_switch(&t->fibre, fibre);
}

static __attribute__((noinline)) void find_turn(kb_thread *t)
{
    check_stack(t);
    kb_thread *next = find_next(t->block, t->index);
    if (next != t)
        switch_to(t, next, fibre_of(t->block, next));
}

/* Mostly, the next thread of the block can go on. */
static inline void wait_for_turn(kb_thread *t)
{
    const kb_block *b = t->block;
    if (KB_LIKELY(t->n_waits++ % CHECK_EACH && t->index + 1 < b->n_begun && is_ready(b, t + 1)))
        switch_to(t, t + 1, &t[1].fibre);
    else
        find_turn(t);
}

void kb_block_fail(kb_thread *t, const char *format, ...)
{
    kb_block *b = t->block;
    note(t);
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

/* The thread comes to a place where the launch may be interrupted. */
static void pause_at(kb_thread *t)
{
    enum { LOOK_EACH = 8 };
    kb_watch *watch = &t->block->watch;
    bool looks = ++watch->n_pauses % LOOK_EACH == 0 ||
                 atomic_load_explicit(&kb_interrupts, memory_order_relaxed) != watch->interrupts;
    if (looks && kb_watch_look(watch))
        kb_block_fail(t, "the launch was interrupted by SIGINT (Ctrl-C)");
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

static inline void come(kb_thread *t)
{
    kb_block *b = t->block;
    if (++b->n_arrived == b->n_live) {
        pause_at(t);
        open_barrier(b);
        return;
    }
    t->generation = b->generation;
    t->state = KB_THREAD_AT_BARRIER;
    wait_for_turn(t);
}

static __attribute__((noinline)) void come_noted(kb_thread *t)
{
    note(t);
    if (t->block->checks)
        kb_checks_arrive(t);
    come(t);
}

void kb_barrier(kb_thread *t, uint32_t site)
{
    t->site = site;
    if (KB_LIKELY(t->index < t->block->n_begun && !t->block->checks))
        come(t);
    else
        come_noted(t);
}

/* Whether it is so for all is the same as that it is not so for none. */
uint32_t kb_barrier_reduce(kb_thread *t, uint32_t reduction, uint32_t predicate, uint32_t site)
{
    bool holds = reduction == KB_REDUCE_AND ? predicate == 0 : predicate != 0;
    note(t);
    t->block->n_true += holds;
    kb_barrier(t, site);
    uint32_t n = t->block->reduced;
    return reduction == KB_REDUCE_COUNT ? n : reduction == KB_REDUCE_AND ? n == 0 : n != 0;
}

uint32_t kb_active_mask(kb_thread *t, uint32_t site)
{
    note(t);
    t->site = site;
    t->state = KB_THREAD_CONVERGES;
    wait_for_turn(t);
    return (uint32_t)t->result;
}

void kb_grid_barrier(kb_thread *t, uint32_t site)
{
    kb_block *b = t->block;
    if (b->grid)
        kb_block_fail(t, "calls grid.sync() in a launch that is not cooperative");
    note(t);
    t->site = site;
    t->generation = b->grid_generation;
    t->state = KB_THREAD_AT_GRID;
    if (++b->n_at_grid < b->n_live) {
        wait_for_turn(t);
        return;
    }
    if (b->checks)
        kb_checks_settle(b->checks);
    pause_at(t);
    kb_fibre_switch(&t->fibre, &b->caller);
}

static kb_thread *lanes_of(const kb_block *b, uint32_t warp)
{
    return b->threads + (size_t)warp * KB_WARP;
}

/* What a lane reads of one that does not take part is undefined on a GPU. */
static void check_sources(kb_thread *lanes, uint32_t present)
{
    for (uint32_t l = 0; l < KB_WARP; l++) {
        uint32_t from = present >> l & 1 ? kb_warp_source(l, &lanes[l].call) : KB_WARP;
        if (from != KB_WARP && !(present >> from & 1))
            kb_checks_shuffle(&lanes[l], from);
    }
}

static void finish_warp(kb_block *b, uint32_t warp, uint32_t mask)
{
    kb_thread *lanes = lanes_of(b, warp);
    uint32_t present = mask & b->warps[warp].live;
    if (b->checks && lanes[__builtin_ctz(present)].call.kind == KB_WARP_BARRIER)
        kb_checks_warp_barrier(b->checks, warp, present);
    if (b->checks && lanes[__builtin_ctz(present)].call.kind == KB_WARP_SHUFFLE)
        check_sources(lanes, present);
    for (uint32_t l = 0; l < KB_WARP; l++)
        if (present >> l & 1) {
            lanes[l].result = kb_warp_result(lanes, present, l);
            lanes[l].state = KB_THREAD_RUNS;
        }
    b->warps[warp].waiting &= ~present;
}

/* Finishes operations of the warp whose lanes have all come. */
static void check_warp(kb_block *b, uint32_t warp)
{
    const kb_thread *lanes = lanes_of(b, warp);
    for (uint32_t l = 0; l < KB_WARP; l++)
        if (b->warps[warp].waiting >> l & 1 &&
            kb_warp_have_come(lanes, &b->warps[warp], &lanes[l].call))
            finish_warp(b, warp, lanes[l].call.mask);
}

/* For what the thread's call says. */
static uint64_t wait_for_warp(kb_thread *t, uint32_t site)
{
    kb_block *b = t->block;
    uint32_t warp = t->index / KB_WARP, bit = UINT32_C(1) << t->lane;
    note(t);
    t->site = site;
    t->state = KB_THREAD_IN_WARP;
    if (!(t->call.mask & bit))
        kb_block_fail(t, "calls %s with the mask 0x%08x, in which its own lane, %u, is not",
                      what_of(t), t->call.mask, t->lane);
    b->warps[warp].waiting |= bit;
    if (kb_warp_have_come(lanes_of(b, warp), &b->warps[warp], &t->call)) {
        pause_at(t);
        finish_warp(b, warp, t->call.mask);
    } else {
        wait_for_turn(t);
    }
    return t->result;
}

void kb_warp_barrier(kb_thread *t, uint32_t mask, uint32_t site)
{
    t->call = (kb_warp_call){.kind = KB_WARP_BARRIER, .mask = mask};
    (void)wait_for_warp(t, site);
}

uint64_t kb_shuffle(kb_thread *t, uint32_t mask, uint32_t mode, uint32_t value, uint32_t b,
                    uint32_t c, uint32_t site)
{
    t->call = (kb_warp_call){KB_WARP_SHUFFLE, (uint16_t)mode, mask, value, b, c};
    return wait_for_warp(t, site);
}

uint64_t kb_vote(kb_thread *t, uint32_t mask, uint32_t mode, uint32_t predicate, uint32_t site)
{
    t->call = (kb_warp_call){KB_WARP_VOTE, (uint16_t)mode, mask, predicate, 0, 0};
    return wait_for_warp(t, site);
}

uint64_t kb_match(kb_thread *t, uint32_t mask, uint32_t all, uint64_t value, uint32_t site)
{
    t->call = (kb_warp_call){.kind = KB_WARP_MATCH, .mask = mask, .mode = all != 0, .value = value};
    return wait_for_warp(t, site);
}

void kb_poll(kb_thread *t, uint32_t again, uint32_t site)
{
    t->site = site;
    pause_at(t);
    if (t->block->checks)
        kb_checks_poll(t, again);
    if (!again)
        return;
    note(t);
    t->state = KB_THREAD_POLLS;
    wait_for_turn(t);
}

/* The thread has ended; returns one that can go on. Where none is left, or all others wait for the
 * grid, the block's caller goes on; this returns NULL when the thread begins in another block. */
static kb_thread *end_thread(kb_thread *t)
{
    kb_block *b = t->block;
    check_stack(t);
    if (b->checks)
        kb_checks_end(t);
    t->state = KB_THREAD_ENDED;
    b->n_live--;
    uint32_t warp = t->index / KB_WARP;
    b->warps[warp].live &= ~(UINT32_C(1) << t->lane);
    if (b->n_live == b->n_at_grid) {
        kb_fibre_switch(&t->fibre, &b->caller);
        return NULL;
    }
    if (b->n_arrived == b->n_live)
        open_barrier(b);
    if (b->warps[warp].waiting)
        check_warp(b, warp);
    return find_next(b, t->index);
}

static uint32_t run_loop(kb_block *b, uint32_t first)
{
    if (b->code->loop)
        return b->code->loop(b->parameters, b->threads, b->at, first);
    uint32_t n = b->code->is_whole ? 1 : b->n_threads;
    for (uint32_t i = first;; i++) {
        kb_thread *t = &b->threads[i];
        memcpy(t->ctaid, b->at, sizeof b->at);
        t->place = NULL;
        b->code->run(b->parameters, t);
        if (i < b->n_begun || i + 1 == n)
            return i;
    }
}

/* A loop has returned in a block whose threads wait: what has not begun may begin on this stack. */
static _Noreturn void go_on_after(kb_block *b, uint32_t last)
{
    for (;;) {
        kb_thread *t = &b->threads[last];
        note(t);
        kb_thread *next = end_thread(t);
        if (next && next->index >= b->n_begun) {
            b->host = last;
            last = next->index;
        } else if (next) {
            switch_to(t, next, fibre_of(b, next));
        }
        last = run_loop(b, last);
    }
}

static void run_rest(void *data)
{
    kb_thread *t = data;
    kb_fibre_begun(&t->fibre);
    go_on_after(t->block, run_loop(t->block, t->index));
}

void kb_write_outside(kb_thread *t, const char *what)
{
    kb_block_fail(t, "writes to %s out of bounds%s", what, kb_block_left_out);
}

void kb_place(kb_thread *t, const char *place)
{
    t->place = place;
}

void kb_raise(kb_thread *t, const char *what)
{
    kb_block_fail(t, "%s%s%s", what, t->place ? ", raised at " : "", t->place ? t->place : "");
}

void kb_assert(kb_thread *t, const char *what, const char *file, uint32_t line)
{
    kb_block_fail(t, "the assertion (%s) at %s:%u failed", what, file, line);
}

void kb_recurse(kb_thread *t, uint64_t size)
{
    const kb_block *b = t->block;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    const kb_thread *host = t->index < b->n_begun ? t : &b->threads[b->host];
    uintptr_t begins = (uintptr_t)end_of_stack(b, host);
    if (size > b->stack || here - begins < KB_STACK_LEFT + size)
        kb_block_fail(t,
                      "a device function calls itself too often: the stack of a thread has %zu "
                      "bytes here",
                      b->stack);
}

void kb_block_end(kb_block *b)
{
    for (uint32_t i = 0; i < b->n_threads; i++)
        forget_fibre(&b->threads[i]);
}

void kb_block_begin(kb_block *b, void *const *parameters, const uint32_t index[3])
{
    b->parameters = parameters;
    b->grid = NULL;
    begin(b, index);
    memcpy(b->at, index, sizeof b->at);
    b->n_begun = 0;
}

bool kb_block_go_on(kb_block *b)
{
    b->n_at_grid = 0;
    b->grid_generation++;
    if (b->checks)
        kb_checks_enter(b->checks, b);
    kb_fibre_adopt(&b->caller);
    kb_thread *next = next_ready(b, b->n_threads - 1);
    kb_fault_watch(b);
    kb_fibre_switch(&b->caller, fibre_of(b, next));
    kb_fault_watch(NULL);
    return !b->faulted;
}

static void run_range(void *data)
{
    kb_block *b = data;
    kb_fibre_begun(&b->threads[0].fibre);
    int64_t row = b->left / b->grid[0], z = row / b->grid[1];
    uint32_t next[] = {(uint32_t)(b->left % b->grid[0]), (uint32_t)(row % b->grid[1]), (uint32_t)z};
    for (; b->left < b->end; next[0]++) {
        for (int d = 0; d < 2 && next[d] == b->grid[d]; next[d++] = 0)
            next[d + 1]++;
        memcpy(b->at, next, sizeof next);
        b->left++;
        if (b->checks) {
            begin(b, b->at);
            kb_checks_enter(b->checks, b);
        }
        uint32_t last = run_loop(b, 0);
        if (b->has_waited)
            go_on_after(b, last);
        if (b->checks)
            kb_checks_settle(b->checks);
    }
    check_stack(&b->threads[0]);
    kb_fibre_switch(&b->threads[0].fibre, &b->caller);
}

bool kb_block_run_range(kb_block *b, void *const *parameters, const uint32_t grid[3], int64_t first,
                        int64_t end)
{
    b->faulted = false;
    b->parameters = parameters;
    b->grid = grid;
    b->left = first;
    b->end = end;
    kb_fault_watch(b);
    while (b->left < b->end && !b->faulted) {
        b->has_waited = false;
        b->n_begun = b->host = 0;
        set_up_fibre(b, &b->threads[0], run_range, b);
        kb_fibre_adopt(&b->caller);
        kb_fibre_switch(&b->caller, &b->threads[0].fibre);
    }
    kb_fault_watch(NULL);
    kb_block_end(b);
    return !b->faulted;
}
