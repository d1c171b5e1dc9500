/* Owns the making of test kernels and the recorder. */
#include "sample.h"
#include "torture.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

sample_recorder recorder;

void sample_digest(uint8_t digest[KB_DIGEST_SIZE], uint64_t id)
{
    uint64_t x = id + 1;
    for (int i = 0; i < KB_DIGEST_SIZE; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        digest[i] = (uint8_t)(x >> 56);
    }
    for (int i = 0; i < 4; i++)
        digest[i] = (uint8_t)(id >> (8 * i));
}

void sample_init(sample *s, uint64_t id, kb_numba_entry *entry)
{
    *s = (sample){.step = {.kind = KB_STEP_HOST, .host = {.entry = entry}}};
    snprintf(s->name, sizeof s->name, "op%llu", (unsigned long long)id);
    s->kernel.name = s->name;
    s->kernel.source = "op.py:7";
    s->kernel.buffers = s->buffers;
    s->kernel.plan = (kb_plan){.n_steps = 1, .steps = &s->step};
    sample_digest(s->kernel.digest, id);
    s->kernel.key = kb_digest_key(s->kernel.digest);
}

static void add(sample *s, uint32_t *count, int32_t dtype, int32_t rank, const char *name)
{
    uint32_t i = kb_kernel_n_buffers(&s->kernel);
    s->buffers[i] = (kb_buffer_spec){.dtype = dtype, .rank = rank, .name = name};
    ++*count;
}

void sample_input(sample *s, int32_t dtype, int32_t rank, const char *name)
{
    add(s, &s->kernel.n_inputs, dtype, rank, name);
}

void sample_output(sample *s, int32_t dtype, int32_t rank, const char *name)
{
    add(s, &s->kernel.n_outputs, dtype, rank, name);
}

void sample_hidden(sample *s, int32_t dtype, int32_t rank, const char *name)
{
    add(s, &s->kernel.n_hidden, dtype, rank, name);
}

kb_xla_array *sample_call(fake_frame *f, const kb_kernel *kernel, int64_t n_levels,
                          const int64_t *masks)
{
    int64_t words[2 + SAMPLE_BUFFERS] = {kb_digest_key(kernel->digest), n_levels};
    size_t size = 1;
    if (n_levels > 0) {
        size = 2 + (size_t)kernel->n_inputs;
        for (uint32_t i = 0; i < kernel->n_inputs; i++)
            words[2 + i] = masks[i];
    }
    return fake_attr_array(f, "call", KB_DTYPE_S64, size, words, size * sizeof *words);
}

void sample_attrs(fake_frame *f, const kb_kernel *kernel)
{
    const char origin[] = "module:op";
    fake_attr_array(f, "digest", KB_DTYPE_U8, KB_DIGEST_SIZE, kernel->digest, KB_DIGEST_SIZE);
    fake_attr_string(f, "origin", origin, sizeof origin - 1);
    sample_call(f, kernel, 0, NULL);
}

void sample_recorder_reset(const kb_kernel *kernel)
{
    recorder.kernel = kernel;
    recorder.n_calls = 0;
    recorder.n_words = 0;
    recorder.fail_at = -1;
    recorder.status = KB_NUMBA_OK;
    recorder.exception = NULL;
}

static void put(int64_t word)
{
    if (recorder.n_words < RECORD_WORDS)
        recorder.words[recorder.n_words] = word;
    recorder.n_words++;
}

kb_xla_buffer *sample_buffer(const kb_kernel *kernel, void *const *inputs, void *const *outputs,
                             uint32_t i)
{
    return i < kernel->n_inputs ? inputs[i] : outputs[i - kernel->n_inputs];
}

int32_t sample_record(void **result, void **exception, void *const *inputs, void *const *outputs)
{
    (void)result;
    const kb_kernel *kernel = recorder.kernel;
    for (uint32_t i = 0; i < kernel->n_inputs + kernel->n_outputs; i++) {
        const kb_xla_buffer *b = sample_buffer(kernel, inputs, outputs, i);
        put((int64_t)(intptr_t)b->data);
        for (int32_t d = 0; d < kernel->buffers[i].rank; d++)
            put(b->dims[d]);
    }
    bool fails = recorder.n_calls++ == recorder.fail_at;
    *exception = fails ? recorder.exception : NULL;
    return fails ? recorder.status : KB_NUMBA_OK;
}

kb_slot_target *sample_target(const kb_slot_target *from)
{
    size_t attributes = from->step.n_attributes * sizeof *from->attributes;
    kb_slot_target *target = malloc(sizeof *target + attributes);
    if (!target)
        abort();
    *target = *from;
    target->attributes = (kb_slot_attribute *)(target + 1);
    if (attributes)
        memcpy(target->attributes, from->attributes, attributes);
    return target;
}

/* These count as the core's, which took the memory. */
void sample_free_kernel(kb_kernel *kernel)
{
    if (kernel && kernel->owner)
        kernel->free_owner(kernel->owner);
    torture_free(kernel);
}

void sample_free_registry(kb_registry *registry)
{
    kb_registry_table *t = atomic_load(&registry->current);
    for (size_t i = 0; t && i < t->capacity; i++)
        sample_free_kernel((kb_kernel *)atomic_load(&t->entries[i]));
    while (t) {
        kb_registry_table *retired = t->retired;
        torture_free(t);
        t = retired;
    }
}
