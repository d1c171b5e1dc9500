/* A thread of a block as compiled kernels see it, and what they call. The generated code (see
 * python/kernbridge/_ext/emulator/compiler/compile.py) knows the offsets of the first members and
 * the functions' names. A function that waits returns when the other threads have come; when they
 * never will, it does not return, and the block ends with a fault. */
#ifndef KB_THREAD_H
#define KB_THREAD_H

#include "ext/emulator/kb_fibre.h"

#include <stdint.h>

enum { KB_WARP = 32 };

#define KB_NO_STACK UINT32_MAX

/* What a thread waits for, or what the thread that runs has waited for last. */
typedef enum kb_thread_state {
    KB_THREAD_RUNS,       /* or may run */
    KB_THREAD_AT_BARRIER, /* until the block's generation is another */
    KB_THREAD_IN_WARP,    /* until the lanes of its mask have come */
    KB_THREAD_CONVERGES,  /* until no lane of its warp runs */
    KB_THREAD_AT_GRID,    /* until the block's grid generation is another */
    KB_THREAD_POLLS,      /* goes on when no other thread of the block can */
    KB_THREAD_ENDED,
} kb_thread_state;

typedef enum kb_warp_kind {
    KB_WARP_BARRIER,
    KB_WARP_SHUFFLE,
    KB_WARP_VOTE,
    KB_WARP_MATCH,
} kb_warp_kind;

/* What a lane brings to an operation of its warp. */
typedef struct kb_warp_call {
    uint16_t kind; /* kb_warp_kind */
    uint16_t mode;
    uint32_t mask; /* of all lanes, like what precedes */
    uint64_t value;
    uint32_t b, c; /* of shuffles: the lane or distance; clamp and segments */
} kb_warp_call;

typedef struct kb_block kb_block;
typedef struct kb_thread kb_thread;

struct kb_thread {
    _Alignas(64) uint32_t tid[3];
    uint32_t ntid[3], ctaid[3], nctaid[3]; /* offsets 12, 24, 36 */
    unsigned char *shared;                 /* 48: static shared arrays, then dynamic ones */
    uint32_t dynamic_shared;               /* 56: bytes */
    uint32_t lane;                         /* 60: of the warp */
    kb_thread_state state;                 /* what a switch needs lies together from here */
    uint32_t index;                        /* of the block */
    uint32_t generation;                   /* of the block or the grid, when it came to a barrier */
    uint32_t site;                         /* where in the code it waits */
    uint32_t stack;                        /* the number of its stack, or KB_NO_STACK */
    uint32_t n_waits;                      /* in the block */
    kb_block *block;
    kb_fibre fibre;
    uint64_t result; /* of what it waited for */
    kb_warp_call call;
    const char *place; /* of kernels with debug=True: where in the source it is; or NULL */
};

/* cuda.syncthreads, and its forms: with the number of threads whose predicate is not 0, whether it
 * is so for all, for any. */
typedef enum kb_reduction { KB_REDUCE_COUNT, KB_REDUCE_AND, KB_REDUCE_OR } kb_reduction;

void kb_barrier(kb_thread *thread, uint32_t site);
uint32_t kb_barrier_reduce(kb_thread *thread, uint32_t reduction, uint32_t predicate,
                           uint32_t site);

/* Operations of a warp return a word, and in bit 32 a predicate, as PTX defines them. */
void kb_warp_barrier(kb_thread *thread, uint32_t mask, uint32_t site);
uint64_t kb_shuffle(kb_thread *thread, uint32_t mask, uint32_t mode, uint32_t value, uint32_t b,
                    uint32_t c, uint32_t site);
uint64_t kb_vote(kb_thread *thread, uint32_t mask, uint32_t mode, uint32_t predicate,
                 uint32_t site);
uint64_t kb_match(kb_thread *thread, uint32_t mask, uint32_t all, uint64_t value, uint32_t site);

/* The lanes that stand at this place of the code, once no lane of the warp can go on otherwise. */
uint32_t kb_active_mask(kb_thread *thread, uint32_t site);

/* The barrier of a cooperative grid. */
void kb_grid_barrier(kb_thread *thread, uint32_t site);

/* The thread is in a loop that may wait for a change of memory; `again` is 0 when it enters the
 * loop. Lets the other threads of the block go on. */
void kb_poll(kb_thread *thread, uint32_t again, uint32_t site);

/* The thread would write out of an array, which `what` describes: the block ends with a fault. */
_Noreturn void kb_write_outside(kb_thread *thread, const char *what);

/* For kernels with debug=True. The thread comes to a place of the source. */
void kb_place(kb_thread *thread, const char *place);

/* The thread raises an exception, which `what` describes: the block ends with a fault. */
_Noreturn void kb_raise(kb_thread *thread, const char *what);

/* An assertion of CUDA C++ does not hold for the thread: the block ends with a fault. */
_Noreturn void kb_assert(kb_thread *thread, const char *what, const char *file, uint32_t line);

/* A device function that calls itself begins, whose variables take so many bytes: the block ends
 * with a fault if the thread's stack does not have them. */
void kb_recurse(kb_thread *thread, uint64_t size);

/* print: as CUDA's vprintf, with its arguments one behind the other. */
int kb_print(const char *format, const void *arguments);

#endif
