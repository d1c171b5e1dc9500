/* Owns blocks: the turns of their threads, their barriers, the places where a launch may be
 * interrupted, and their memory: stacks, shared memory, and the blocks that wait for use. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#endif
#include "hostcuda/kb_block.h"

#include "core/kb_memory.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#ifndef CLOCK_MONOTONIC_COARSE
#define CLOCK_MONOTONIC_COARSE CLOCK_MONOTONIC
#endif

const char kb_block_left_out[] =
    "; the write was left out, and the results are not complete: pass check=True, or set "
    "KERNBRIDGE_DEBUG=check, to see the thread, the index and the line";

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

/* If no thread is ready, releases the lanes of a warp that wait at the same activemask. */
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

static const char *what_of(const kb_thread *t)
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
        b->observer->settle(b->checks);
    kb_thread *warp = NULL, *other = NULL;
    for (uint32_t i = 0; i < b->n_threads && !warp; i++)
        warp = b->threads[i].state == KB_THREAD_IN_WARP ? &b->threads[i] : NULL;
    for (uint32_t i = 0; warp && i < b->n_threads && !other; i++) {
        kb_thread *t = &b->threads[i];
        if (i / KB_WARP == warp->index / KB_WARP && (warp->call.mask >> t->lane & 1) &&
            t->state != KB_THREAD_ENDED &&
            (t->state != KB_THREAD_IN_WARP || !kb_warp_same(&t->call, &warp->call)))
            other = t;
    }
    if (other)
        kb_block_fail(
            warp,
            "waits in %s for the lanes 0x%08x, and thread (%u, %u, %u) of these stands in "
            "%s%s: neither can continue",
            what_of(warp), warp->call.mask, other->tid[0], other->tid[1], other->tid[2],
            what_of(other),
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

/* The canary below a thread's stack; if it changes, the stack has overflowed. It shares a page with
 * the beginning of the next stack, which is in use. */
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

static void wait_for_turn(kb_thread *t)
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

static int64_t milliseconds(void)
{
    enum { THOUSAND = 1000, MILLION = 1000 * 1000 };
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (int64_t)now.tv_sec * THOUSAND + now.tv_nsec / MILLION;
}

/* Ends the block if the launch was interrupted. Watches for interrupts if it takes long. */
static void look(kb_thread *t)
{
    enum { LONG = 100 /* ms: a short launch leaves the process's handler alone */ };
    kb_block *b = t->block;
    int64_t now = milliseconds();
    if (atomic_load(&kb_interrupts) != b->interrupts)
        kb_block_fail(t, "the launch was interrupted by SIGINT (Ctrl-C)");
    if (b->begun == 0)
        b->begun = now;
    else if (!b->watches && now - b->begun >= LONG) {
        b->watches = true;
        kb_interrupt_watch();
    }
}

/* The thread comes to a place where the launch may be interrupted. */
static void pause_at(kb_thread *t)
{
    enum { LOOK_EACH = 8 };
    kb_block *b = t->block;
    if (++b->n_pauses % LOOK_EACH == 0 ||
        atomic_load_explicit(&kb_interrupts, memory_order_relaxed) != b->interrupts)
        look(t);
}

static void open_barrier(kb_block *b)
{
    b->reduced = b->n_true;
    b->n_true = 0;
    b->n_arrived = 0;
    b->generation++;
    if (b->checks)
        b->observer->barrier(b->checks);
}

static void arrive(kb_thread *t, uint32_t site)
{
    kb_block *b = t->block;
    t->site = site;
    if (b->checks)
        b->observer->arrive(t);
    if (++b->n_arrived == b->n_live) {
        pause_at(t);
        open_barrier(b);
        return;
    }
    t->generation = b->generation;
    t->state = KB_THREAD_AT_BARRIER;
    wait_for_turn(t);
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
    wait_for_turn(t);
    return (uint32_t)t->result;
}

void kb_grid_barrier(kb_thread *t, uint32_t site)
{
    kb_block *b = t->block;
    t->site = site;
    t->generation = b->grid_generation;
    t->state = KB_THREAD_AT_GRID;
    if (++b->n_at_grid < b->n_live) {
        wait_for_turn(t);
        return;
    }
    pause_at(t);
    kb_fibre_switch(&t->fibre, &b->caller);
    t->state = KB_THREAD_RUNS;
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
            lanes[l].block->observer->shuffle(&lanes[l], from);
    }
}

static void finish_warp(kb_block *b, uint32_t warp, uint32_t mask)
{
    kb_thread *lanes = lanes_of(b, warp);
    uint32_t present = mask & b->warps[warp].live;
    if (b->checks && lanes[__builtin_ctz(present)].call.kind == KB_WARP_BARRIER)
        b->observer->warp_barrier(b->checks, warp, present);
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

static uint64_t call_warp(kb_thread *t, kb_warp_call call, uint32_t site)
{
    kb_block *b = t->block;
    uint32_t warp = t->index / KB_WARP, bit = UINT32_C(1) << t->lane;
    t->call = call;
    t->site = site;
    t->state = KB_THREAD_IN_WARP;
    if (!(call.mask & bit))
        kb_block_fail(t, "calls %s with the mask 0x%08x, in which its own lane, %u, is not",
                      what_of(t), call.mask, t->lane);
    b->warps[warp].waiting |= bit;
    if (kb_warp_have_come(lanes_of(b, warp), &b->warps[warp], &t->call)) {
        pause_at(t);
        finish_warp(b, warp, call.mask);
    } else {
        wait_for_turn(t);
    }
    return t->result;
}

void kb_warp_barrier(kb_thread *t, uint32_t mask, uint32_t site)
{
    (void)call_warp(t, (kb_warp_call){.kind = KB_WARP_BARRIER, .mask = mask}, site);
}

uint64_t kb_shuffle(kb_thread *t, uint32_t mask, uint32_t mode, uint32_t value, uint32_t b,
                    uint32_t c, uint32_t site)
{
    kb_warp_call call = {KB_WARP_SHUFFLE, (uint16_t)mode, mask, value, b, c};
    return call_warp(t, call, site);
}

uint64_t kb_vote(kb_thread *t, uint32_t mask, uint32_t mode, uint32_t predicate, uint32_t site)
{
    kb_warp_call call = {
        .kind = KB_WARP_VOTE, .mask = mask, .mode = (uint16_t)mode, .value = predicate};
    return call_warp(t, call, site);
}

uint64_t kb_match(kb_thread *t, uint32_t mask, uint32_t all, uint64_t value, uint32_t site)
{
    kb_warp_call call = {.kind = KB_WARP_MATCH, .mask = mask, .mode = all != 0, .value = value};
    return call_warp(t, call, site);
}

void kb_poll(kb_thread *t, uint32_t again, uint32_t site)
{
    t->site = site;
    pause_at(t);
    if (t->block->observer)
        t->block->observer->poll(t, again);
    if (!again)
        return;
    t->state = KB_THREAD_POLLS;
    wait_for_turn(t);
}

static void run_thread(void *data)
{
    kb_thread *t = data;
    kb_block *b = t->block;
    kb_fibre_begun(&t->fibre);
    b->code->run(b->parameters, t);
    check_stack(t);
    if (b->checks)
        b->observer->end(t);
    t->state = KB_THREAD_ENDED;
    b->n_live--;
    uint32_t warp = t->index / KB_WARP;
    b->warps[warp].live &= ~(UINT32_C(1) << t->lane);
    if (b->n_live == b->n_at_grid)
        kb_fibre_switch(&t->fibre, &b->caller);
    if (b->n_arrived == b->n_live)
        open_barrier(b);
    if (b->warps[warp].waiting)
        check_warp(b, warp);
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
    kb_block_fail(t, "writes to %s out of bounds%s", what, kb_block_left_out);
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
        b->observer->enter(b->checks, b);
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
        b->observer->enter(b->checks, b);
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

enum {
    STACK_MIN = 32 * 1024, /* beside a kernel's own variables: what it spills, the C library */
    PAGE = 4096,
    KEPT_THREADS = 1024,
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static kb_block *unused; /* under the lock, and */
static uint32_t n_kept;  /* threads that unused blocks have room for */

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
    return (char *)memory + (KB_LINE - (uintptr_t)memory % KB_LINE) % KB_LINE;
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
    if (b) {
        unused = b->next;
        n_kept -= b->capacity;
    }
    pthread_mutex_unlock(&lock);
    if (!b)
        b = kb_calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->code = code;
    b->checks = NULL;
    b->observer = NULL;
    b->n_pauses = 0;
    b->begun = 0;
    b->interrupts = atomic_load(&kb_interrupts);
    b->n_threads = sizes[3] * sizes[4] * sizes[5];
    b->stack = round_up(STACK_MIN + (size_t)code->stack + (size_t)KB_LINE * KB_COLOURS, PAGE);
    size_t shared = round_up((size_t)code->shared + dynamic_shared + KB_LINE, PAGE);
    if (!make_room(b, b->n_threads) ||
        !grow(&b->stacks, &b->stacks_size, b->stack * b->n_threads) ||
        !grow(&b->shared, &b->shared_size, shared)) {
        free_block(b);
        return NULL;
    }
    number_threads(b, sizes, dynamic_shared);
    return b;
}

/* Threads whose stacks are kept: a full block for each processor. The number of these is read from
 * a file, which takes as long as a small launch. */
static uint32_t kept_max(void)
{
    static _Atomic(uint32_t) known;
    uint32_t max = atomic_load_explicit(&known, memory_order_relaxed);
    if (max == 0) {
        long n = sysconf(_SC_NPROCESSORS_ONLN);
        max = KEPT_THREADS * (n > 1 ? (uint32_t)n : 1);
        atomic_store_explicit(&known, max, memory_order_relaxed);
    }
    return max;
}

void kb_block_give_back(kb_block *b)
{
    if (b->watches)
        kb_interrupt_unwatch();
    b->watches = false;
    pthread_mutex_lock(&lock);
    bool keeps = b->capacity <= kept_max() && n_kept <= kept_max() - b->capacity;
    if (keeps) {
        b->next = unused;
        unused = b;
        n_kept += b->capacity;
    }
    pthread_mutex_unlock(&lock);
    if (!keeps)
        free_block(b);
}

uint32_t kb_block_kept(void)
{
    pthread_mutex_lock(&lock);
    uint32_t n = n_kept;
    pthread_mutex_unlock(&lock);
    return n;
}
