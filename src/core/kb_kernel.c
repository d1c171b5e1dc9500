/* Owns the making of kernel descriptors: validation, and one block of memory for all of it. */
#include "core/kb_kernel.h"

#include "core/kb_dtype.h"

#include <stdlib.h>
#include <string.h>

int64_t kb_digest_key(const uint8_t digest[KB_DIGEST_SIZE])
{
    uint64_t key = 0;
    for (int i = 0; i < 8; i++)
        key |= (uint64_t)digest[i] << (8 * i);
    return (int64_t)key;
}

/* Copies a text with its NUL to `*at`, which then points after it; returns the copy. */
static char *put_text(char **at, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = memcpy(*at, text, size);
    *at += size;
    return copy;
}

static kb_status check(const kb_kernel *kernel, kb_error *err)
{
    uint32_t parts[] = {kernel->n_inputs, kernel->n_outputs, kernel->n_hidden};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i] > KB_BUFFERS_MAX)
            return kb_error_set(err, KB_INVALID_ARGUMENT, "%s: %u buffers, at most %d are possible",
                                kernel->name, parts[i], KB_BUFFERS_MAX);
    for (uint32_t i = 0; i < kb_kernel_n_buffers(kernel); i++) {
        const kb_buffer_spec *b = &kernel->buffers[i];
        if (!kb_dtype_known(b->dtype))
            return kb_error_set(err, KB_INVALID_ARGUMENT,
                                "%s: buffer %u (%s) has dtype code %d, "
                                "which is unknown",
                                kernel->name, i, b->name, (int)b->dtype);
        if (b->rank < 0 || b->rank > KB_RANK_MAX)
            return kb_error_set(err, KB_INVALID_ARGUMENT,
                                "%s: buffer %u (%s) has rank %d, "
                                "expected 0 to %d",
                                kernel->name, i, b->name, (int)b->rank, KB_RANK_MAX);
    }
    return KB_OK;
}

kb_status kb_kernel_copy(const kb_kernel *from, kb_kernel **copy, kb_error *err)
{
    kb_status s = check(from, err);
    if (s != KB_OK)
        return s;

    uint32_t n_buffers = kb_kernel_n_buffers(from);
    size_t bytes = sizeof(kb_kernel) + n_buffers * sizeof(kb_buffer_spec) +
                   from->plan.n_steps * sizeof(kb_step) + strlen(from->name) + 1 +
                   strlen(from->source) + 1;
    for (uint32_t i = 0; i < n_buffers; i++)
        bytes += strlen(from->buffers[i].name) + 1;

    kb_kernel *kernel = calloc(1, bytes);
    if (!kernel)
        return kb_error_set(err, KB_RESOURCE_EXHAUSTED,
                            "%s: no memory for a descriptor of %zu bytes", from->name, bytes);
    *kernel = *from;
    kernel->key = kb_digest_key(from->digest);
    kernel->bytes = bytes + from->bytes;

    kb_step *steps = (kb_step *)(kernel + 1);
    kb_buffer_spec *buffers = (kb_buffer_spec *)(steps + from->plan.n_steps);
    char *text = (char *)(buffers + n_buffers);
    kernel->plan.steps = steps;
    kernel->buffers = buffers;
    kernel->name = put_text(&text, from->name);
    kernel->source = put_text(&text, from->source);
    for (uint32_t i = 0; i < n_buffers; i++) {
        buffers[i] = from->buffers[i];
        buffers[i].name = put_text(&text, from->buffers[i].name);
    }
    for (uint32_t i = 0; i < from->plan.n_steps; i++)
        steps[i] = from->plan.steps[i];
    *copy = kernel;
    return KB_OK;
}
