/* SHA-256, as FIPS 180-4 defines it, and the head of machine code that comes from a file or from a
 * program, which may be damaged or hostile: four bytes that name the format, u32 version, and the
 * SHA-256 of what the code belongs to and of all that follows. Any thread may enter. */
#ifndef KB_CHECKSUM_H
#define KB_CHECKSUM_H

#include "core/kb_reader.h"

enum { KB_SHA256_SIZE = 32, KB_SHA256_BLOCK = 64 };

typedef struct kb_sha256 {
    uint32_t state[8];
    uint64_t size;
    uint8_t block[KB_SHA256_BLOCK];
} kb_sha256;

void kb_sha256_begin(kb_sha256 *h);
void kb_sha256_add(kb_sha256 *h, const void *bytes, size_t size);
void kb_sha256_end(kb_sha256 *h, uint8_t digest[KB_SHA256_SIZE]);

typedef struct kb_checksum {
    uint32_t version;
    const void *sha; /* NULL if the bytes end before it; then the version says nothing */
} kb_checksum;

/* Reads the head of a format. NULL, or the name of what does not hold, for a message. */
const char *kb_checksum_read(kb_checksum *seal, const char *magic, kb_reader *from);

/* Compares the SHA-256 with that of `owner` and of what is left to read. NULL, or the name of what
 * does not hold. */
const char *kb_checksum_check(const kb_checksum *seal, const void *owner, size_t size,
                              const kb_reader *from);

#endif
