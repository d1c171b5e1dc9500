/* Writes machine code behind its head (core/kb_checksum.h), for tests and fuzzers. One thread. */
#ifndef SEALED_H
#define SEALED_H

#include "core/kb_checksum.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SEALED_SHA = 8, SEALED_BODY = SEALED_SHA + KB_SHA256_SIZE };

/* Writes what a format and its version are named by. */
void sealed_begin(uint8_t *bytes, const char *magic, uint32_t version);

/* Each writes at `*at`, and moves it behind. */
void sealed_put(uint8_t **at, const void *bytes, size_t size);
void sealed_put_u32(uint8_t **at, uint32_t value);
void sealed_put_text(uint8_t **at, const char *text);

/* Puts the right digest into bytes of which the body is written, or was changed. */
void sealed_sign(uint8_t *bytes, size_t size, const void *owner, size_t owner_size);

/* Whether bytes that have a body, if an empty one, have the right digest. */
bool sealed_is_signed(const uint8_t *bytes, size_t size, const void *owner, size_t owner_size);

/* Expects a reader to refuse the bytes. `owner` is what they are signed for. */
typedef void (*sealed_refused)(const uint8_t *bytes, size_t size, const void *owner);

/* Hands on every beginning of the bytes, as it is and signed again, in memory of its own size, so
 * that a sanitizer sees a read behind it. Of the long tail every `step`th length is taken. */
void sealed_each_part(const uint8_t *bytes, size_t size, size_t step, const void *owner,
                      size_t owner_size, sealed_refused refused);

/* Hands on the bytes with one bit flipped behind the version, at each place of the front and every
 * `step`th of the tail. */
void sealed_each_flip(uint8_t *bytes, size_t size, size_t step, const void *owner,
                      sealed_refused refused);

#endif
