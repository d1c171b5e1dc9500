/* Owns the writing of kernels as machine code. */
#include "host_code.h"

#include "core/kb_dtype.h"
#include "sealed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 1 << 20 };

static uint8_t object[ROOM];
static uint32_t object_size;

void host_code_init(host_code_text *t)
{
    if (!object_size) {
        FILE *file = fopen(HOST_CODE_SAMPLE, "rb");
        if (!file)
            abort();
        object_size = (uint32_t)fread(object, 1, sizeof object, file);
        fclose(file);
    }
    *t = (host_code_text){
        .version = KB_HOST_CODE_VERSION,
        .name = "numba_kernel 'op'",
        .source = "op.py:1",
        .n_inputs = 1,
        .n_outputs = 1,
        .buffers = {{KB_DTYPE_F64, 1, "x"}, {KB_DTYPE_F64, 1, "y"}, {KB_DTYPE_F64, 1, "z"}},
        .n_places = HOST_CODE_PLACES,
        .places = {{5, "in g at op.py:9"}, {77, "in op at op.py:4"}},
        .object = object,
        .object_size = object_size,
        .stored_size = object_size,
    };
}

uint8_t *host_code_write(const host_code_text *t, const uint8_t digest[KB_DIGEST_SIZE],
                         size_t *size)
{
    uint32_t n_buffers = t->n_inputs + t->n_outputs + t->n_hidden;
    uint8_t *room = malloc(2 * ROOM), *at = room + SEALED_BODY;
    if (!room)
        abort();
    sealed_begin(room, KB_HOST_CODE_MAGIC, t->version);
    sealed_put(&at, &t->features, sizeof t->features);
    sealed_put_text(&at, t->name);
    sealed_put_text(&at, t->source);
    sealed_put_u32(&at, t->n_inputs);
    sealed_put_u32(&at, t->n_outputs);
    sealed_put_u32(&at, t->n_hidden);
    for (uint32_t i = 0; i < n_buffers && i < HOST_CODE_BUFFERS; i++) {
        sealed_put_u32(&at, (uint32_t)t->buffers[i].dtype);
        sealed_put_u32(&at, (uint32_t)t->buffers[i].rank);
        sealed_put_text(&at, t->buffers[i].name);
    }
    sealed_put_u32(&at, t->n_places);
    for (uint32_t i = 0; i < t->n_places && i < HOST_CODE_PLACES; i++) {
        sealed_put_u32(&at, t->places[i].status);
        sealed_put_text(&at, t->places[i].text);
    }
    sealed_put_u32(&at, t->object_size);
    sealed_put(&at, t->object, t->stored_size < ROOM ? t->stored_size : 0);
    *size = (size_t)(at - room);
    sealed_sign(room, *size, digest, KB_DIGEST_SIZE);
    uint8_t *bytes = malloc(*size);
    if (!bytes)
        abort();
    memcpy(bytes, room, *size);
    free(room);
    return bytes;
}
