/* Owns the writing of CUDA kernels for the CPU as machine code. */
#include "cuda_code.h"

#include "core/kb_sha256.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGEST_AT = 8, BODY_AT = DIGEST_AT + KB_SHA256_SIZE, ROOM = 1 << 20 };

uint8_t *cuda_code_write(const cuda_code_text *t, const char *digest, size_t *size)
{
    static uint8_t object[ROOM];
    static size_t object_size;
    if (!object_size) {
        FILE *file = fopen(CUDA_CODE_SAMPLE, "rb");
        if (!file)
            abort();
        object_size = fread(object, 1, sizeof object, file);
        fclose(file);
    }
    const uint32_t fields[] = {t->form, t->shared, t->stack};
    *size = BODY_AT + sizeof t->features + sizeof fields + object_size;
    uint8_t *bytes = malloc(*size), *at = bytes + BODY_AT;
    if (!bytes)
        abort();
    memcpy(bytes, KB_CUDA_CODE_MAGIC, 4);
    memcpy(bytes + 4, &t->abi, sizeof t->abi);
    memcpy(at, &t->features, sizeof t->features);
    memcpy(at + sizeof t->features, fields, sizeof fields);
    memcpy(at + sizeof t->features + sizeof fields, object, object_size);
    cuda_code_sign(bytes, *size, digest);
    return bytes;
}

void cuda_code_sign(uint8_t *bytes, size_t size, const char *digest)
{
    kb_sha256 h;
    if (size < BODY_AT)
        return;
    kb_sha256_begin(&h);
    kb_sha256_add(&h, digest, KB_HOSTCUDA_DIGEST);
    kb_sha256_add(&h, bytes + BODY_AT, size - BODY_AT);
    kb_sha256_end(&h, bytes + DIGEST_AT);
}
