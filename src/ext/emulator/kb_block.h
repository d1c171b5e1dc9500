/* Runs the threads of a block in turns, each a fibre, for kernels that have barriers, shared memory
 * or operations of warps. A block belongs to one thread of the system while it runs. */
#ifndef KB_BLOCK_H
#define KB_BLOCK_H

#include "core/kb_error.h"
#include "ext/emulator/kb_thread.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Ctrl-C, which a thread that waits for kernels cannot notice: each SIGINT that came between
 * kb_interrupt_watch and kb_interrupt_unwatch raises this number. */
extern _Atomic(uint32_t) kb_interrupts;

/* SIGINT is counted until as many calls of kb_interrupt_unwatch have followed, and then handled as
 * before. Where it is ignored or ends the process, nothing changes. Any thread may call them. */
void kb_interrupt_watch(void);
void kb_interrupt_unwatch(void);

/* Whether a launch is interrupted. A launch that takes long watches for signals, until its owner
 * calls kb_interrupt_unwatch. */
typedef struct kb_watch {
    uint32_t n_pauses;   /* places where the launch may be interrupted */
    uint32_t interrupts; /* when the launch began */
    int64_t begun;       /* about when it began; 0 at first */
    bool watches;
} kb_watch;

/* Whether the launch was interrupted. */
bool kb_watch_look(kb_watch *watch);

/* The operations of warps: 32 threads of a block, in the order of their indices. Lanes that have
 * ended count as having come; what others read of them is 0. */
typedef struct kb_warp {
    uint32_t live;    /* lanes that have not ended */
    uint32_t waiting; /* lanes in an operation of the warp */
} kb_warp;

/* Whether two lanes stand in the same operation: PTX wants the same mode and mask, too. */
static inline bool kb_warp_same(const kb_warp_call *a, const kb_warp_call *b)
{
    return memcmp(a, b, offsetof(kb_warp_call, value)) == 0;
}

/* Whether all lanes of the mask stand in the operation. */
bool kb_warp_have_come(const kb_thread *lanes, const kb_warp *warp, const kb_warp_call *call);

/* PTX ISA, shfl.sync: the lane that lane `l` reads from, or KB_WARP if it keeps its own value. */
uint32_t kb_warp_source(uint32_t l, const kb_warp_call *call);

/* What lane `l` gets, where the lanes of the mask `present` take part. */
uint64_t kb_warp_result(const kb_thread *lanes, uint32_t present, uint32_t l);

/* One thread of a kernel. `parameters` are what cuLaunchKernel takes. */
typedef void kb_block_entry(void *const *parameters, kb_thread *thread);

/* Threads of the block with these indices, from the thread `first` on, one after the other on this
 * stack, until one ends that has waited, or none is left. Returns the number of the last one that
 * ended. */
typedef uint32_t kb_block_loop(void *const *parameters, kb_thread *threads, const uint32_t index[3],
                               uint32_t first);

/* What a block runs: one of two forms. A thread gets a stack of its own when it waits. */
typedef struct kb_block_code {
    kb_block_entry *run;                  /* a thread; or NULL, and */
    kb_block_loop *loop;                  /* several threads */
    bool is_whole;                        /* `run` runs all threads of a block, not one */
    uint32_t shared;                      /* static shared memory, bytes */
    uint32_t stack;                       /* of a thread, bytes */
    const struct kb_check_table *checked; /* of code that asks about every access; or NULL */
} kb_block_code;

enum {
    KB_FAULT_SIZE = 1024,
    KB_LINE = 64,
    KB_STACK_LEFT = 16 * 1024, /* that functions of C may need: what a recursion must leave */
};

struct kb_block {
    const kb_block_code *code;
    void *const *parameters;
    kb_thread *threads; /* each at a line of the cache */
    uint32_t n_threads, n_live;
    /* The block's indices, whether one of its threads has waited, how many of its threads are known
     * to have begun, and one that has the stack on which others begin. */
    uint32_t at[3];
    bool has_waited;
    uint32_t n_begun, host;
    const uint32_t *grid;           /* of kb_block_run_range: its extents, or NULL; and */
    int64_t left, end;              /* the blocks that are left */
    uint32_t n_arrived, generation; /* of the block's barrier */
    uint32_t n_at_grid, grid_generation;
    uint32_t n_true, reduced; /* predicates so far; the count of the last generation */
    kb_watch watch;
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

/* What a block tells the checked mode, see kb_check.c, which may end it with a fault. A thread that
 * reads shared memory which none has written may go on: where a barrier is missing, a race will be
 * found before the next one, and be reported in its place. When all threads have come to a barrier
 * or to their ends, or cannot go on, such a read is a fault. So is a block none of whose threads
 * has done anything but poll for long.
 *
 * The block begins, or goes on after a barrier of the grid; */
void kb_checks_enter(struct kb_checks *checks, const kb_block *block);

/* all threads have come to a barrier; lanes to one of their warp; */
void kb_checks_barrier(struct kb_checks *checks);
void kb_checks_warp_barrier(struct kb_checks *checks, uint32_t warp, uint32_t lanes);

/* no thread can go on; */
void kb_checks_settle(struct kb_checks *checks);

/* a thread comes to the block's barrier, or to its end, while others may wait; */
void kb_checks_arrive(kb_thread *thread);
void kb_checks_end(kb_thread *thread);

/* a lane reads lane `from`, which does not take part, in a shuffle; */
void kb_checks_shuffle(kb_thread *thread, uint32_t from);

/* a thread polls, see kb_poll. */
void kb_checks_poll(kb_thread *thread, uint32_t again);

/* What the code calls the barrier of a block. */
const char *kb_block_barrier_name(const kb_block *block);

/* A block with room for these threads and this dynamic shared memory; NULL without memory. It may
 * be kept for the next when it is given back. */
kb_block *kb_block_take(const kb_block_code *code, const uint32_t sizes[6],
                        uint32_t dynamic_shared);
void kb_block_give_back(kb_block *block);

/* Threads that the blocks which wait for use have room for; the rest is given back. */
uint32_t kb_block_kept(void);

/* Runs blocks `begin` to `end` of a grid of these extents. Threads that do not wait run one after
 * the other. False with block->fault after a fault. */
bool kb_block_run_range(kb_block *block, void *const *parameters, const uint32_t grid[3],
                        int64_t begin, int64_t end);

/* One block that was just taken, in parts, for cooperative grids: until all of its threads wait for
 * the grid. */
void kb_block_begin(kb_block *block, void *const *parameters, const uint32_t index[3]);
bool kb_block_go_on(kb_block *block); /* false after a fault; block->n_live is 0 at the end */
void kb_block_end(kb_block *block);

/* Ends the block with a message, which block, thread and place begin. Does not return. */
_Noreturn void kb_block_fail(kb_thread *thread, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Bytes below the stacks of a block, more than any frame has. */
enum { KB_FAULT_GUARD = 1 << 20 };

/* This thread of the system begins to run code of the block; or, with NULL, has ended. Meanwhile, a
 * block of CUDA C++ ends with a fault if a stack overflows or an integer is divided by zero. */
void kb_fault_watch(kb_block *block);

/* In the handler of a signal: does not return if such a fault was the block's. */
void kb_fault_end(int number, int code, const void *at);

/* The end of a message about a write out of bounds. */
extern const char kb_block_left_out[];

#endif
