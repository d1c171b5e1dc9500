/* Owns the writing of libraries that come with calls. */
#include "library.h"

#include "core/kb_dtype.h"
#include "module/kb_source.h"
#include "sealed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 1 << 20, VALUES_MAX = KB_ATTRIBUTES_MAX + 1, VALUE_ROOM = 32 };

static uint8_t library[ROOM];
static uint32_t library_size;

uint8_t *library_bytes(uint32_t *size)
{
    if (!library_size) {
        FILE *file = fopen(LIBRARY_SAMPLE, "rb");
        if (!file)
            abort();
        library_size = (uint32_t)fread(library, 1, sizeof library, file);
        fclose(file);
    }
    *size = library_size;
    return library;
}

void library_init(library_text *t)
{
    *t = (library_text){.version = KB_LIBRARY_VERSION,
                        .zeroed = 1,
                        .n_values = 1,
                        .value_size = 8,
                        .dtypes = {KB_DTYPE_F64, KB_DTYPE_F64},
                        .function = "scale"};
    (void)library_bytes(&t->stored_size);
}

/* Writes no more than there is room for, whatever the numbers say. */
static void put_values(uint8_t **at, const library_text *t)
{
    uint32_t size = t->value_size < VALUE_ROOM ? t->value_size : VALUE_ROOM;
    sealed_put_u32(at, t->n_values);
    for (uint32_t i = 0; i < t->n_values && i < VALUES_MAX; i++) {
        const double value[VALUE_ROOM / sizeof(double)] = {2.5 + i};
        sealed_put_u32(at, t->value_size);
        sealed_put(at, value, size);
    }
}

static void put_library(uint8_t **at, const library_text *t)
{
    const uint8_t zero = 0;
    sealed_put_u32(at, library_size + t->more);
    sealed_put(at, library, t->stored_size);
    sealed_put(at, &zero, t->more);
    sealed_put(at, &zero, t->behind);
}

uint8_t *library_write(const library_text *t, const uint8_t digest[KB_DIGEST_SIZE], size_t *size)
{
    static uint8_t room[2 * ROOM];
    uint8_t *at = room + SEALED_BODY;
    sealed_begin(room, KB_LIBRARY_MAGIC, t->version);
    sealed_put_text(&at, "load_c 'op'");
    sealed_put_text(&at, "");
    sealed_put_u32(&at, 1);
    sealed_put_u32(&at, 1);
    sealed_put_u32(&at, t->n_hidden);
    for (int i = 0; i < 2 + (t->n_hidden == 1); i++) { /* a hidden one is like the output */
        sealed_put_u32(&at, t->dtypes[i > 0]);
        sealed_put_u32(&at, 1);
        sealed_put_text(&at, i ? "y" : "x");
    }
    sealed_put_text(&at, t->function);
    sealed_put_u32(&at, t->zeroed);
    put_values(&at, t);
    put_library(&at, t);
    *size = (size_t)(at - room);
    sealed_sign(room, *size, digest, KB_DIGEST_SIZE);
    uint8_t *bytes = malloc(*size);
    if (!bytes)
        abort();
    return memcpy(bytes, room, *size);
}
