/* Writes libraries that come with calls (module/kb_library.h), for tests. One thread. */
#ifndef LIBRARY_H
#define LIBRARY_H

#include "core/kb_kernel.h"
#include "module/kb_library.h"

/* A kernel field by field; what is written may be wrong in any of them. */
typedef struct library_text {
    uint32_t version, n_hidden, zeroed;
    uint32_t n_values; /* attributes, of value_size bytes each: 2.5, 3.5 and so on */
    uint32_t value_size;
    uint32_t dtypes[2];   /* of the input and the output */
    uint32_t stored_size; /* bytes of the library that are written */
    uint32_t more;        /* bytes behind it that belong to it, 0 or 1 */
    uint32_t behind;      /* bytes behind the end, 0 or 1 */
    const char *function;
} library_text;

/* The library of library_sample.c, which may be changed. */
uint8_t *library_bytes(uint32_t *size);

/* Its function `scale` of an input and an output, float64[n], with the factor 2.5. */
void library_init(library_text *t);

/* Its bytes, in a block of exactly their size that the caller frees. */
uint8_t *library_write(const library_text *t, const uint8_t digest[KB_DIGEST_SIZE], size_t *size);

#endif
