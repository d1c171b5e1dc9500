/* Owns the writing of CUDA kernels for the CPU as machine code. */
#include "cuda_code.h"

#include "sealed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 1 << 20 };

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
    *size = SEALED_BODY + sizeof t->features + sizeof fields + object_size;
    uint8_t *bytes = malloc(*size), *at = bytes + SEALED_BODY;
    if (!bytes)
        abort();
    sealed_begin(bytes, KB_CUDA_CODE_MAGIC, t->abi);
    sealed_put(&at, &t->features, sizeof t->features);
    sealed_put(&at, fields, sizeof fields);
    sealed_put(&at, object, object_size);
    sealed_sign(bytes, *size, digest, KB_HOSTCUDA_DIGEST);
    return bytes;
}
