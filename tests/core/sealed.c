/* Owns the writing of machine code behind its head. */
#include "sealed.h"

#include <stdlib.h>
#include <string.h>

void sealed_begin(uint8_t *bytes, const char *magic, uint32_t version)
{
    memcpy(bytes, magic, 4);
    memcpy(bytes + 4, &version, sizeof version);
}

void sealed_put(uint8_t **at, const void *bytes, size_t size)
{
    memcpy(*at, bytes, size);
    *at += size;
}

void sealed_put_u32(uint8_t **at, uint32_t value)
{
    sealed_put(at, &value, sizeof value);
}

void sealed_put_text(uint8_t **at, const char *text)
{
    sealed_put_u32(at, (uint32_t)strlen(text));
    sealed_put(at, text, strlen(text));
}

static void write_digest(const uint8_t *bytes, size_t size, const void *owner, size_t owner_size,
                         uint8_t *digest)
{
    kb_sha256 h;
    kb_sha256_begin(&h);
    kb_sha256_add(&h, owner, owner_size);
    kb_sha256_add(&h, bytes + SEALED_BODY, size - SEALED_BODY);
    kb_sha256_end(&h, digest);
}

void sealed_sign(uint8_t *bytes, size_t size, const void *owner, size_t owner_size)
{
    if (size >= SEALED_BODY)
        write_digest(bytes, size, owner, owner_size, bytes + SEALED_SHA);
}

bool sealed_is_signed(const uint8_t *bytes, size_t size, const void *owner, size_t owner_size)
{
    uint8_t digest[KB_SHA256_SIZE];
    if (size < SEALED_BODY)
        return false;
    write_digest(bytes, size, owner, owner_size, digest);
    return memcmp(digest, bytes + SEALED_SHA, sizeof digest) == 0;
}

void sealed_each_part(const uint8_t *bytes, size_t size, size_t step, const void *owner,
                      size_t owner_size, sealed_refused refused)
{
    for (size_t n = 0; n < size; n += n < 300 ? 1 : step)
        for (int signs = 0; signs < 2; signs++) {
            uint8_t *part = malloc(n ? n : 1);
            if (!part)
                abort();
            memcpy(part, bytes, n);
            if (signs)
                sealed_sign(part, n, owner, owner_size);
            refused(part, n, owner);
            free(part);
        }
}

void sealed_each_flip(uint8_t *bytes, size_t size, size_t step, const void *owner,
                      sealed_refused refused)
{
    for (size_t at = SEALED_SHA; at < size; at += at < 200 ? 1 : step) {
        bytes[at] ^= 4;
        refused(bytes, size, owner);
        bytes[at] ^= 4;
    }
}
