/* Owns the writing of kernels as machine code. */
#include "host_code.h"

#include "core/kb_dtype.h"
#include "core/kb_sha256.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 1 << 20, DIGEST_AT = 8, BODY_AT = DIGEST_AT + KB_SHA256_SIZE };

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

static void put(uint8_t **at, const void *bytes, size_t size)
{
    memcpy(*at, bytes, size);
    *at += size;
}

static void put_u32(uint8_t **at, uint32_t value)
{
    put(at, &value, sizeof value);
}

static void put_text(uint8_t **at, const char *text)
{
    put_u32(at, (uint32_t)strlen(text));
    put(at, text, strlen(text));
}

void host_code_sign(uint8_t *bytes, size_t size, const uint8_t digest[KB_DIGEST_SIZE])
{
    kb_sha256 h;
    if (size < BODY_AT)
        return;
    kb_sha256_begin(&h);
    kb_sha256_add(&h, digest, KB_DIGEST_SIZE);
    kb_sha256_add(&h, bytes + BODY_AT, size - BODY_AT);
    kb_sha256_end(&h, bytes + DIGEST_AT);
}

uint8_t *host_code_write(const host_code_text *t, const uint8_t digest[KB_DIGEST_SIZE],
                         size_t *size)
{
    uint32_t n_buffers = t->n_inputs + t->n_outputs + t->n_hidden;
    uint8_t *room = malloc(2 * ROOM), *at = room + BODY_AT;
    if (!room)
        abort();
    memcpy(room, KB_HOST_CODE_MAGIC, 4);
    memcpy(room + 4, &t->version, sizeof t->version);
    put(&at, &t->features, sizeof t->features);
    put_text(&at, t->name);
    put_text(&at, t->source);
    put_u32(&at, t->n_inputs);
    put_u32(&at, t->n_outputs);
    put_u32(&at, t->n_hidden);
    for (uint32_t i = 0; i < n_buffers && i < HOST_CODE_BUFFERS; i++) {
        put_u32(&at, (uint32_t)t->buffers[i].dtype);
        put_u32(&at, (uint32_t)t->buffers[i].rank);
        put_text(&at, t->buffers[i].name);
    }
    put_u32(&at, t->n_places);
    for (uint32_t i = 0; i < t->n_places && i < HOST_CODE_PLACES; i++) {
        put_u32(&at, t->places[i].status);
        put_text(&at, t->places[i].text);
    }
    put_u32(&at, t->object_size);
    if (t->version != KB_HOST_CODE_UNPACKED)
        put_u32(&at, t->stored_size);
    put(&at, t->object, t->stored_size < ROOM ? t->stored_size : 0);
    *size = (size_t)(at - room);
    host_code_sign(room, *size, digest);
    uint8_t *bytes = malloc(*size);
    if (!bytes)
        abort();
    memcpy(bytes, room, *size);
    free(room);
    return bytes;
}
