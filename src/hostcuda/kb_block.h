/* Runs the threads of a block in turns, each a fibre, for kernels that have barriers, shared memory
 * or operations of warps. A block belongs to one thread of the system while it runs. */
#ifndef KB_BLOCK_H
#define KB_BLOCK_H

#include "core/kb_error.h"
#include "hostcuda/kb_interrupt.h"
#include "hostcuda/kb_thread.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* One thread of a kernel. `parameters` are what cuLaunchKernel takes. */
typedef void kb_block_entry(void *const *parameters, kb_thread *thread);

/* What a block runs. */
typedef struct kb_block_code {
    kb_block_entry *run;
    uint32_t shared;                      /* static shared memory, bytes */
    uint32_t stack;                       /* of a thread, bytes */
    const struct kb_check_table *checked; /* of code that asks about every access; or NULL */
} kb_block_code;

enum {
    KB_FAULT_SIZE = 1024,
    KB_LINE = 64,
    KB_STACK_LEFT = 16 * 1024, /* that functions of C may need: what a recursion must leave */
    KB_COLOURS = 32, /* stacks begin at different lines of a page, for the sake of the caches */
};

typedef struct kb_warp {
    uint32_t live;    /* lanes that have not ended */
    uint32_t waiting; /* lanes in an operation of the warp */
} kb_warp;

struct kb_block {
    const kb_block_code *code;
    void *const *parameters;
    kb_thread *threads;   /* each at a line of the cache */
    void *threads_memory; /* in which they are */
    uint32_t n_threads, n_live;
    uint32_t n_arrived, generation; /* of the block's barrier */
    uint32_t n_at_grid, grid_generation;
    uint32_t n_true, reduced; /* predicates so far; the count of the last generation */
    uint32_t n_pauses;        /* of threads, at places where the launch may be interrupted */
    uint32_t interrupts;      /* when the block was taken */
    int64_t begun;            /* about when it was taken; 0 at first */
    bool watches;             /* for interrupts */
    struct kb_checks *checks; /* of the launch, in checked mode; or NULL */
    kb_fibre caller;
    bool faulted;
    char fault[KB_FAULT_SIZE];
    kb_warp *warps;
    unsigned char *stacks, *shared;
    size_t stacks_size, shared_size, stack; /* bytes that are there; of a thread */
    uint32_t capacity;                      /* threads that there is room for */
    kb_block *next;                         /* that waits for use */
};

/* A block with room for these threads and this dynamic shared memory; NULL without memory. It may
 * be kept for the next when it is given back. */
kb_block *kb_block_take(const kb_block_code *code, const uint32_t sizes[6],
                        uint32_t dynamic_shared);
void kb_block_give_back(kb_block *block);

/* Threads that the blocks which wait for use have room for; the rest is given back. */
uint32_t kb_block_kept(void);

/* Runs the block with these indices to its end; false with block->fault after a fault. */
bool kb_block_run(kb_block *block, void *const *parameters, const uint32_t index[3]);

/* Runs the blocks of a grid of these extents, one after the other, whose threads do not wait: one
 * thread begins when another has ended. False with block->fault after a fault. */
bool kb_block_run_alone(kb_block *block, void *const *parameters, const uint32_t grid[3]);

/* The same in parts, for cooperative grids: until all of its threads wait for the grid. */
void kb_block_begin(kb_block *block, void *const *parameters, const uint32_t index[3]);
bool kb_block_go_on(kb_block *block); /* false after a fault; block->n_live is 0 at the end */
void kb_block_end(kb_block *block);

/* For what threads call: goes on in another thread, and returns when this one's state is
 * KB_THREAD_RUNS again, or its barrier has opened. */
void kb_block_wait(kb_thread *thread);

/* Ends the block if the launch was interrupted. Watches for interrupts if it takes long. */
void kb_block_look(kb_thread *thread);

/* The thread comes to a place where the launch may be interrupted. */
static inline void kb_block_pause(kb_thread *thread)
{
    enum { LOOK_EACH = 8 };
    kb_block *b = thread->block;
    if (++b->n_pauses % LOOK_EACH == 0 ||
        atomic_load_explicit(&kb_interrupts, memory_order_relaxed) != b->interrupts)
        kb_block_look(thread);
}

/* Ends the block with a message, which block, thread and place begin. Does not return. */
_Noreturn void kb_block_fail(kb_thread *thread, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Kinds of waiting, in words. */
const char *kb_block_what(const kb_thread *thread);

/* Whether two lanes stand in the same operation of a warp: PTX wants the same mode and mask, too.
 */
static inline bool kb_warp_same(const kb_warp_call *a, const kb_warp_call *b)
{
    return memcmp(a, b, offsetof(kb_warp_call, value)) == 0;
}

/* See to operations of the warp that `index` belongs to, whose lanes may all have come. */
void kb_warp_check(kb_block *block, uint32_t warp);

#endif
