/* SHA-256, as FIPS 180-4 defines it: the digest of code that comes from a file or from a program.
 * Any thread may enter. */
#ifndef KB_SHA256_H
#define KB_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { KB_SHA256_SIZE = 32, KB_SHA256_BLOCK = 64 };

typedef struct kb_sha256 {
    uint32_t state[8];
    uint64_t size;
    uint8_t block[KB_SHA256_BLOCK];
} kb_sha256;

void kb_sha256_begin(kb_sha256 *h);
void kb_sha256_add(kb_sha256 *h, const void *bytes, size_t size);
void kb_sha256_end(kb_sha256 *h, uint8_t digest[KB_SHA256_SIZE]);

#endif
