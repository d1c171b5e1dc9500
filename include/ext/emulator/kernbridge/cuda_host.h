/* The interface between kernbridge and CUDA C++ that was compiled for the CPU: how a launch is
 * made, and what its threads wait for. Only cuda/cuda_runtime.h uses it. */
#ifndef KERNBRIDGE_CUDA_HOST_H
#define KERNBRIDGE_CUDA_HOST_H

#include "kernbridge/kernbridge.h"

/* Incremented whenever something here changes: such code is built again. */
#define KB_CUDA_HOST_VERSION 3

/* A thread of a block, of `thread_size` bytes, and its beginning. */
typedef struct kb_thread kb_thread;
typedef struct kb_cuda_thread {
    uint32_t tid[3], ntid[3], ctaid[3], nctaid[3];
    unsigned char *shared; /* dynamic shared memory */
    uint32_t dynamic_shared;
    uint32_t lane;
} kb_cuda_thread;

/* Runs threads of the block with these indices, from the thread `first` on, until one ends that has
 * waited, or none is left. Returns the number of the last one that ended. */
typedef uint32_t kb_cuda_loop(void *const *parameters, kb_cuda_thread *threads,
                              const uint32_t index[3], uint32_t first);

typedef struct kb_cuda_launch {
    uint32_t sizes[6]; /* of the grid, of a block */
    uint32_t shared;   /* dynamic shared memory, bytes */
    uint32_t cooperative;
    uint32_t checked;      /* see below */
    uint32_t fixed_shared; /* room of a block before that, bytes */
    kb_cuda_loop *loop;
    void *const *parameters;
    const char *name;  /* of the kernel, in messages */
    const void *loops; /* of kb_cuda_loops, to whose words `parameters` then point; or NULL */
} kb_cuda_launch;

/* A kernel whose threads run in loops between its barriers, beside the one of the C++ compiler. */
typedef struct kb_cuda_loops {
    struct kb_cuda_loops *next; /* of the module */
    void (*kernel)(void);
    uint32_t n_words; /* of parameters, each of which begins a word of 8 bytes */
    uint32_t image_size, size;
    const char *image; /* see src/ext/emulator/kb_hostcuda.h; behind it, its code of `size` bytes */
    const void *code;  /* kernbridge fills it when it opens the library, if it can run */
} kb_cuda_loops;

enum { KB_CUDA_FAULT_SIZE = 1024 };

/* What the code calls. `site` is a number of the place in the source. */
typedef struct kb_cuda_host {
    uint32_t version;
    uint32_t thread_size;
    /* Returns 0, 1 if the grid or a block is too large, or 2 with the description of a fault, which
     * the call fails with. Threads of the call, which may be NULL, share the blocks. */
    int (*launch)(const kb_call *call, const kb_cuda_launch *launch, char fault[]);
    void (*barrier)(kb_thread *thread, uint32_t site);
    /* Counts threads whose predicate is not 0 (0), or says whether it is so for all (1), any (2) */
    uint32_t (*barrier_reduce)(kb_thread *thread, uint32_t reduction, uint32_t predicate,
                               uint32_t site);
    void (*warp_barrier)(kb_thread *thread, uint32_t mask, uint32_t site);
    /* As PTX has them; a word, and a predicate in bit 32. */
    uint64_t (*shuffle)(kb_thread *thread, uint32_t mask, uint32_t mode, uint32_t value, uint32_t b,
                        uint32_t c, uint32_t site);
    uint64_t (*vote)(kb_thread *thread, uint32_t mask, uint32_t mode, uint32_t predicate,
                     uint32_t site);
    uint64_t (*match)(kb_thread *thread, uint32_t mask, uint32_t all, uint64_t value,
                      uint32_t site);
    uint32_t (*active_mask)(kb_thread *thread, uint32_t site);
    void (*grid_barrier)(kb_thread *thread, uint32_t site);
    /* The thread waits for a change of memory: the others of its block go on first. */
    void (*poll)(kb_thread *thread, uint32_t again, uint32_t site);
    /* Ends the launch with a fault. Does not return. */
    void (*fail)(kb_thread *thread, const char *what);

    /* The checked mode (KB_CUDA_CHECKED). A function of the module begins and ends: in between its
     * arrays lie elsewhere, far apart. */
    void *(*enter)(const kb_call *call);
    void (*leave)(const kb_call *call, void *entered);
    /* The number of a line. */
    uint32_t (*site)(const char *file, uint32_t line);
    /* The thread is about to access memory, in one of the ways below, at this place in its code. */
    void (*access)(kb_thread *thread, const void *at, uint64_t size, uint32_t how,
                   const void *code);
    void (*fence)(kb_thread *thread);
    /* An index that is wrong for the type of an array. */
    void (*wrong_index)(kb_thread *thread, uint64_t index, const char *type, uint32_t site);
    /* The memory of a shared array, which `key` stands for in all blocks; with a size of 0, the
     * memory of the launch's dynamic arrays. Its rank and extents stay in `shape`, unless NULL. */
    void *(*shared_array)(kb_thread *thread, const void *key, const char *name, uint64_t size,
                          uint32_t item, const int64_t *shape);
    /* The host has filled memory. */
    void (*filled)(void *at, size_t size);
} kb_cuda_host;

enum { KB_CUDA_READ, KB_CUDA_WRITE, KB_CUDA_ATOMIC, KB_CUDA_ALIGNED = 4 };

/* Exported by such code as `kb_cuda_host_slot`; kernbridge fills it when it opens the library. */
typedef struct kb_cuda_host_slot {
    uint32_t version;
    const kb_cuda_host *functions;
    kb_cuda_loops *loops; /* or NULL */
} kb_cuda_host_slot_type;

/* A kernel alone, which kernbridge launches: exported as `kb_cuda_kernel_description`. The loops'
 * `parameters` point to the values, of these sizes; `codes` describe their types as
 * python/kernbridge/_ext/nvrtc/include/kernbridge_signature.h does. Members of structures follow
 * the parameters, with their offsets as sizes. */
typedef struct kb_cuda_kernel {
    uint32_t version;
    uint32_t n_parameters;
    uint32_t checked;
    const int32_t *codes;
    const uint32_t *sizes;
    kb_cuda_loop *loop, *cooperative_loop;
    uint32_t (*fixed_shared)(void); /* room of a block of a cooperative grid, bytes */
    const kb_cuda_loops *loops;     /* or NULL */
} kb_cuda_kernel;

#endif
