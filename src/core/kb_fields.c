/* Owns the copying of described kernels into an arena. */
#include "core/kb_fields.h"

#include "core/kb_checksum.h"

#include <string.h>

enum {
    BUFFER_SIZE = 12,    /* the least that a buffer takes: bounds the count */
    COUNT_MAX = 1 << 14, /* of each kind; kb_kernel_copy refuses more than KB_BUFFERS_MAX by name */
};

kb_status kb_fields_begin(kb_fields *f, const char *magic, uint32_t version,
                          const uint8_t digest[KB_DIGEST_SIZE], size_t size, kb_kernel *kernel,
                          kb_error *err)
{
    kb_checksum seal;
    const char *wrong = kb_checksum_read(&seal, magic, &f->from);
    if (!wrong && seal.sha && seal.version != version)
        return kb_error_set(err, KB_FAILED_PRECONDITION,
                            "%s has format %u, and this kernbridge reads format %u: export the "
                            "program again with this version",
                            f->what, seal.version, version);
    if (!wrong)
        wrong = kb_checksum_check(&seal, digest, KB_DIGEST_SIZE, &f->from);
    if (wrong)
        return kb_fields_refuse(f, wrong, err);
    memcpy(kernel->digest, digest, KB_DIGEST_SIZE);
    f->arena = kb_arena_new();
    kernel->owner = kb_fields_take(f, 1, size);
    if (!kernel->owner)
        kb_arena_free(f->arena);
    return kb_fields_check(f, err);
}

void *kb_fields_take(kb_fields *f, size_t count, size_t size)
{
    void *memory = kb_arena_take(f->arena, count, size);
    f->no_memory |= !memory;
    f->from.failed |= !memory;
    return memory;
}

void kb_fields_expect(kb_fields *f, bool holds, const char *what)
{
    if (holds || f->from.failed)
        return;
    f->from.failed = true;
    f->wrong = what;
}

const char *kb_fields_text(kb_fields *f)
{
    uint32_t size;
    const char *text = kb_read_text(&f->from, &size);
    char *copy = text ? kb_fields_take(f, (size_t)size + 1, 1) : NULL;
    return copy ? memcpy(copy, text, size) : "";
}

void kb_fields_buffers(kb_fields *f, kb_kernel *kernel)
{
    uint32_t *counts[] = {&kernel->n_inputs, &kernel->n_outputs, &kernel->n_hidden};
    uint32_t n = 0;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        *counts[i] = kb_read_u32(&f->from);
        kb_fields_expect(f, *counts[i] <= COUNT_MAX, "a number of buffers");
        n += f->from.failed ? 0 : *counts[i];
    }
    kb_fields_expect(f, n <= f->from.left / BUFFER_SIZE, "a number of buffers");
    kb_buffer_spec *buffers = f->from.failed ? NULL : kb_fields_take(f, n, sizeof *buffers);
    for (uint32_t i = 0; i < n && !f->from.failed; i++) {
        buffers[i].dtype = (int32_t)kb_read_u32(&f->from);
        buffers[i].rank = (int32_t)kb_read_u32(&f->from);
        buffers[i].name = kb_fields_text(f);
        kb_fields_expect(f, buffers[i].rank >= 0 && buffers[i].rank <= KB_RANK_MAX, "a rank");
    }
    kernel->buffers = buffers;
}

kb_xla_bytes kb_fields_bytes(kb_fields *f)
{
    uint32_t size = kb_read_count(&f->from, 1);
    const void *bytes = kb_read_bytes(&f->from, size);
    return f->from.failed ? (kb_xla_bytes){.data = NULL} : (kb_xla_bytes){bytes, size};
}

kb_status kb_fields_check(const kb_fields *f, kb_error *err)
{
    if (!f->from.failed)
        return KB_OK;
    if (f->no_memory)
        return kb_error_set(err, KB_RESOURCE_EXHAUSTED, "no memory to read %s", f->what);
    return kb_fields_refuse(f, f->wrong ? f->wrong : "its length", err);
}

kb_status kb_fields_refuse(const kb_fields *f, const char *wrong, kb_error *err)
{
    return kb_error_set(err, KB_INVALID_ARGUMENT, "%s is damaged, or %s: the check of %s failed",
                        f->what, f->whole, wrong);
}
