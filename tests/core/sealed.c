/* Owns the writing of machine code behind its head. */
#include "sealed.h"

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

void sealed_sign(uint8_t *bytes, size_t size, const void *owner, size_t owner_size)
{
    kb_sha256 h;
    if (size < SEALED_BODY)
        return;
    kb_sha256_begin(&h);
    kb_sha256_add(&h, owner, owner_size);
    kb_sha256_add(&h, bytes + SEALED_BODY, size - SEALED_BODY);
    kb_sha256_end(&h, bytes + SEALED_SHA);
}
