/* CUDA on the CPU: a driver whose only device is the processor. Steps of a plan call it as they
 * call CUDA's own; a launch is finished when it returns. Any thread may enter. */
#ifndef KB_HOSTCUDA_H
#define KB_HOSTCUDA_H

#include "core/kb_extension.h"
#include "core/kb_frame.h"
#include "core/kb_plan.h"
#include "core/kb_pool.h"
#include "cuda/kb_driver.h"
#include "cuda/kb_function.h"
#include "ext/emulator/kb_block.h"

#include <stdbool.h>

enum {
    KB_HOSTCUDA_CC = 1000,               /* of images that hold LLVM IR for it, 10 * major */
    KB_HOSTCUDA_CODE_CC = 1001,          /* of images that hold machine code of that IR */
    KB_HOSTCUDA_THREADS_MAX = 1024,      /* of a block */
    KB_HOSTCUDA_SHARED_MAX = 227 * 1024, /* of a block, as the largest GPUs have it */
    KB_LAUNCHES_NAME = 512,              /* bytes of a name, of which the rest is cut off */
};

/* A launch's result after a fault of the kernel: a code of kernbridge, since no context is lost. */
#define KB_HOSTCUDA_FAULT ((kb_cu_result)9001)

/* The driver. Its streams are XLA's call frames: a launch shares its blocks with the threads of the
 * pool of the call. */
extern const kb_driver kb_hostcuda_driver;

/* Lets a frame run here. */
void kb_hostcuda_enter(kb_frame *frame);

/* Blocks begin to end of a launch, whose threads run one after the other. `parameters` are what
 * cuLaunchKernel takes; `sizes` the extents of the grid, then of a block. `*outside`, which is NULL
 * before, becomes the description of an array that a write would have left. */
typedef void kb_hostcuda_blocks(void *const *parameters, const uint32_t sizes[6], int64_t begin,
                                int64_t end, const char **outside);

/* Machine code of a kernel: of one of two forms. */
typedef struct kb_hostcuda_code {
    kb_hostcuda_blocks *blocks; /* without barriers; or NULL, and */
    kb_block_code threads;      /* one thread of a block */
    bool cooperative;           /* threads wait for all of the grid */
    bool concurrent;            /* launches need and leave nothing but their arguments */
    void *owner;                /* of the memory of the code; kept, or NULL */
    kb_variables *variables;    /* of the code; or NULL */
    _Atomic(uint64_t) *counts;  /* see kb_hostcuda_counts; or NULL */
} kb_hostcuda_code;

/* The launches of "operation", or of "operation: kernel"; of a list that only grows. */
typedef struct kb_launches {
    struct kb_launches *next;
    _Atomic(uint64_t) counts[2]; /* launches, and launches that had a fault */
    char name[KB_LAUNCHES_NAME];
} kb_launches;
extern _Atomic(kb_launches *) kb_hostcuda_launches;

/* Their counts; `kernel` may be NULL. NULL unless KB_DEBUG_COUNT_LAUNCHES is on. */
_Atomic(uint64_t) *kb_hostcuda_counts(const char *operation, const char *kernel);

/* An image is a text: the digest of the rest, the line KB_HOSTCUDA_ABI_LINE with KB_HOSTCUDA_ABI
 * behind it, LLVM IR, and NUL. */
enum { KB_HOSTCUDA_DIGEST = 64 }; /* hexadecimal digits */

/* Raised when code in images must be generated again: a layout, a number or a function that
 * kb_layout.c compares has changed, or what one of them means. */
enum { KB_HOSTCUDA_ABI = 1 };

#define KB_HOSTCUDA_ABI_LINE "; kernbridge ABI "

/* Makes the machine code of an image known, which lives as long as the process. Where the digest
 * has code already, the new code is found from then on, and what was loaded keeps the old one.
 * KB_RESOURCE_EXHAUSTED is the only failure. */
kb_status kb_hostcuda_add(const char digest[KB_HOSTCUDA_DIGEST], const kb_hostcuda_code *code,
                          kb_error *err);

/* NULL if it is not known. */
const kb_hostcuda_code *kb_hostcuda_find(const char digest[KB_HOSTCUDA_DIGEST]);

/* Runs a launch: KB_CU_SUCCESS, KB_CU_INVALID_VALUE, or KB_HOSTCUDA_FAULT with `fault`. */
kb_cu_result kb_hostcuda_run(const kb_hostcuda_code *code, const uint32_t sizes[6],
                             uint32_t dynamic_shared, void *const *parameters,
                             const kb_xla_frame *xla, char fault[KB_FAULT_SIZE]);

/* Runs a launch of known code, here and on threads of the pool of `xla` unless that is NULL.
 * KB_NOT_FOUND if the code is not known, KB_INTERNAL with the fault of a thread. */
kb_status kb_hostcuda_launch(const char digest[KB_HOSTCUDA_DIGEST], const uint32_t sizes[6],
                             uint32_t dynamic_shared, void *const *parameters,
                             const kb_xla_frame *xla, kb_error *err);

/* Whether no other thread accesses what the running launch writes to, so that its atomic operations
 * can be plain ones. The same for all of a call of kb_hostcuda_blocks, and of a block. */
bool kb_alone(void);

/* What compiled kernels call: functions of threads and of checks; functions of libdevice. */
extern const kb_symbol kb_hostcuda_symbols[];
extern const kb_symbol kb_libdevice_symbols[];

/* Compiles an image that a program of another process brought, and calls kb_hostcuda_add. */
typedef kb_status kb_hostcuda_compiler(const char *image, size_t size, kb_error *err);
extern _Atomic(kb_hostcuda_compiler *) kb_hostcuda_compile; /* or NULL */

/* Makes machine code known that a program of another process brought for the IR of this digest, and
 * calls kb_hostcuda_add. KB_FAILED_PRECONDITION if it is whole and cannot run here. */
typedef kb_status kb_hostcuda_loader(const char digest[KB_HOSTCUDA_DIGEST], const void *bytes,
                                     size_t size, const char *what, kb_error *err);
extern _Atomic(kb_hostcuda_loader *) kb_hostcuda_load; /* or NULL */

/* Sees to it that the function's machine code is known: loads it, or compiles the IR where there is
 * none that runs here. To be called without any lock: it may wait for Python. */
kb_status kb_hostcuda_provide(const kb_function *function, const char *what, kb_error *err);

/* A kb_step_concurrency of launches: those of the CPU alone may run at once, and neither checked
 * nor cooperative ones. */
kb_concurrency kb_hostcuda_concurrency(const void *step, const kb_frame *frame);

/* The table of the function's code, which is known; NULL if it is not for the checked mode. */
const struct kb_check_table *kb_hostcuda_checked(const kb_function *function);

/* With the targets of GPU programs on the CPU, and of what carries them. A call carries what it
 * carries on a GPU, see cuda/kb_target.h. Without Python. Instantiate also compiles the kernel's
 * code for the CPU, unless this process knows it. */
extern const kb_extension kb_emulator;

#endif
