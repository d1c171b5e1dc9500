/* The head of machine code that comes from a file or from a program, which nobody vouches for: four
 * bytes that name the format, u32 version, and the SHA-256 of what the code belongs to and of all
 * that follows. Any thread may enter. */
#ifndef KB_SEAL_H
#define KB_SEAL_H

#include "abi/kb_xla.h"
#include "core/kb_reader.h"

typedef struct kb_seal {
    uint32_t version;
    const void *sha; /* NULL if the bytes end before it; then the version says nothing */
} kb_seal;

/* Reads the head of a format. NULL, or the name of what does not hold, for a message. */
const char *kb_seal_read(kb_seal *seal, const char *magic, kb_reader *from);

/* Compares the SHA-256 with that of `owner` and of what is left to read. NULL, or the name of what
 * does not hold. */
const char *kb_seal_check(const kb_seal *seal, const void *owner, size_t size,
                          const kb_reader *from);

/* The program of a call if it is of that format, or NULL. */
const kb_xla_array *kb_seal_find(const kb_xla_frame *frame, const char *magic);

#endif
