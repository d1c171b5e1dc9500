/* Kernels for tests, built parameter by parameter, and an entry that records how it was called. */
#ifndef SAMPLE_H
#define SAMPLE_H

#include "core/kb_dtype.h"
#include "core/kb_kernel.h"
#include "core/kb_registry.h"
#include "fake_xla.h"
#include "module/kb_slot.h"

enum { SAMPLE_BUFFERS = 64 };

/* A description to hand to the core. It points into itself: do not copy it. */
typedef struct sample {
    kb_kernel kernel;
    kb_step step;
    kb_buffer_spec buffers[SAMPLE_BUFFERS];
    char name[32];
} sample;

/* A kernel "op<id>" of "op.py:7" without parameters; its digest is made of `id`. */
void sample_init(sample *s, uint64_t id, kb_numba_entry *entry);

/* Parameters in their order: inputs, then outputs, then hidden results. `name` is borrowed. */
void sample_input(sample *s, int32_t dtype, int32_t rank, const char *name);
void sample_output(sample *s, int32_t dtype, int32_t rank, const char *name);
void sample_hidden(sample *s, int32_t dtype, int32_t rank, const char *name);

/* 32 bytes that differ for each id below 2^32, in the first eight and in the others. */
void sample_digest(uint8_t digest[KB_DIGEST_SIZE], uint64_t id);

/* The attributes that a call of the kernel has: digest, call and origin. */
void sample_attrs(fake_frame *f, const kb_kernel *kernel);

/* The call attribute alone: the key, and for `n_levels` > 0 the batch. `masks`: one an input. */
kb_xla_array *sample_call(fake_frame *f, const kb_kernel *kernel, int64_t n_levels,
                          const int64_t *masks);

/* What `sample_record` saw. One thread at a time. Each call leaves, for every parameter in order,
 * its address and its extents. */
enum { RECORD_WORDS = 1 << 16 };

typedef struct sample_recorder {
    const kb_kernel *kernel;
    long n_calls;
    long n_words;
    long fail_at; /* the call that fails, from 0; -1: none */
    int32_t status;
    void *exception;
    int64_t words[RECORD_WORDS];
} sample_recorder;

extern sample_recorder recorder;

/* Forgets all calls; expects those of `kernel` from now on. */
void sample_recorder_reset(const kb_kernel *kernel);

/* Buffer i of a kernel, inputs before outputs, among those that its entry was given. */
kb_xla_buffer *sample_buffer(const kb_kernel *kernel, void *const *inputs, void *const *outputs,
                             uint32_t i);

int32_t sample_record(void **result, void **exception, void *const *inputs, void *const *outputs);

/* Frees a copy of a kernel with its owner; NULL is allowed. */
void sample_free_kernel(kb_kernel *kernel);

/* Frees the tables of a registry, and every kernel in them. Nobody may be using either. */
void sample_free_registry(kb_registry *registry);

/* A copy of a target with its attributes that stays, as those stay that slots are bound to. */
kb_slot_target *sample_target(const kb_slot_target *from);

#endif
