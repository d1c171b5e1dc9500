/* A kernel: the immutable description that a call is checked against, and the plan that it runs.
 * Made by a front end, handed to the registry, never changed or freed afterwards. */
#ifndef KB_KERNEL_H
#define KB_KERNEL_H

#include "abi/kb_numba.h"
#include "core/kb_error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    KB_DIGEST_SIZE = 32,
    KB_BUFFERS_MAX = 1024, /* operands and results of one call */
    KB_RANK_MAX = 64,
};

/* What one operand or result must be, before any batch axes. */
typedef struct kb_buffer_spec {
    int32_t dtype; /* XLA's code, see kb_dtype.h */
    int32_t rank;
    const char *name; /* the kernel's parameter, for messages */
} kb_buffer_spec;

struct kb_failures;

typedef enum kb_step_kind {
    KB_STEP_HOST,     /* call a native function on this thread */
    KB_STEP_LAUNCH,   /* enqueue a GPU kernel */
    KB_STEP_FILL,     /* enqueue a fill of GPU memory */
    KB_STEP_COPY,     /* enqueue a copy within GPU memory */
    KB_STEP_CALLBACK, /* call Python */
    KB_STEP_SOURCE,   /* call a function of a module built from source */
    KB_STEP_KINDS,
} kb_step_kind;

typedef struct kb_host_step {
    kb_numba_entry *entry;
    bool parallel;   /* enters Numba's own thread pool */
    bool concurrent; /* needs nothing but its arguments: slices of a batch may run at once */
    int num_threads; /* of that pool for this kernel; 0: as the calling thread has it */
    const struct kb_failures *failures; /* of code that came without its compiler, or NULL */
    int64_t handle; /* of what Python is called with before, as KB_STEP_CALLBACK does; 0: nothing */
} kb_host_step;

typedef struct kb_step {
    kb_step_kind kind;
    bool wide; /* serves all slices of the frame's group at once, see kb_batch.h */
    union {
        kb_host_step host;
        const void *other; /* of the other kinds; belongs to the kernel's owner */
    };
} kb_step;

typedef struct kb_plan {
    uint32_t n_steps;
    const kb_step *steps;
} kb_plan;

typedef struct kb_kernel {
    int64_t key; /* the first eight bytes of `digest`, little-endian */
    uint8_t digest[KB_DIGEST_SIZE];
    const char *name;   /* the operation as messages call it, e.g. "numba_kernel 'relu'" */
    const char *source; /* where the kernel is defined, e.g. "relu.py:12" */
    uint32_t n_inputs;
    uint32_t n_outputs;            /* results of the kernel */
    uint32_t n_hidden;             /* results after those, which only hold copies of operands */
    const kb_buffer_spec *buffers; /* inputs, outputs, hidden */
    kb_plan plan;
    void *owner; /* of what its steps point to, or NULL */
    void (*free_owner)(void *owner);
    size_t bytes; /* that `owner` holds; in a copy, together with the descriptor */
} kb_kernel;

/* Copies the description `from` (the key is derived) into one block of memory; the copy has the
 * same owner. KB_INVALID_ARGUMENT if a count, rank or dtype is out of range. */
kb_status kb_kernel_copy(const kb_kernel *from, kb_kernel **copy, kb_error *err);

/* Operands and results together. */
static inline uint32_t kb_kernel_n_buffers(const kb_kernel *kernel)
{
    return kernel->n_inputs + kernel->n_outputs + kernel->n_hidden;
}

/* The key of a digest: its first eight bytes, little-endian, as a signed number. */
int64_t kb_digest_key(const uint8_t digest[KB_DIGEST_SIZE]);

#endif
