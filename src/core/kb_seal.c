/* Owns the check of machine code before it is read. */
#include "core/kb_seal.h"

#include "core/kb_attrs.h"
#include "core/kb_dtype.h"
#include "core/kb_sha256.h"

#include <string.h>

const char *kb_seal_read(kb_seal *seal, const char *magic, kb_reader *from)
{
    const void *first = kb_read_bytes(from, strlen(magic));
    seal->version = kb_read_u32(from);
    seal->sha = kb_read_bytes(from, KB_SHA256_SIZE);
    return first && memcmp(first, magic, strlen(magic)) == 0 ? NULL : "its first bytes";
}

const char *kb_seal_check(const kb_seal *seal, const void *owner, size_t size,
                          const kb_reader *from)
{
    if (!seal->sha)
        return "its length";
    uint8_t computed[KB_SHA256_SIZE];
    kb_sha256 h;
    kb_sha256_begin(&h);
    kb_sha256_add(&h, owner, size);
    kb_sha256_add(&h, from->at, from->left);
    kb_sha256_end(&h, computed);
    return memcmp(seal->sha, computed, sizeof computed) == 0 ? NULL : "its digest";
}

const kb_xla_array *kb_seal_find(const kb_xla_frame *frame, const char *magic)
{
    const kb_xla_array *program = KB_ATTRS_FIND(&frame->attrs, "program", KB_XLA_ATTR_ARRAY);
    if (!program || program->dtype != KB_DTYPE_U8 || program->size < strlen(magic) ||
        memcmp(program->data, magic, strlen(magic)) != 0)
        return NULL;
    return program;
}
