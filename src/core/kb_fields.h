/* The fields of a kernel's description that comes as bytes, which may be damaged. Texts and tables
 * are copied into an arena; after the first field that does not hold, all are zero or empty, and
 * kb_fields_check describes it: "<what> is damaged, or <whole>: the check of <the field> failed".
 * Lives on one stack. */
#ifndef KB_FIELDS_H
#define KB_FIELDS_H

#include "abi/kb_xla.h"
#include "core/kb_arena.h"
#include "core/kb_error.h"
#include "core/kb_kernel.h"
#include "core/kb_reader.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct kb_fields {
    kb_reader from;
    const char *what;
    const char *whole;
    kb_arena *arena;
    bool no_memory;
    const char *wrong; /* the first thing that does not hold; NULL for the length */
} kb_fields;

/* Reads the head (kb_checksum.h) of the only version of a format that is read, and compares its
 * SHA-256 with the one of the kernel's digest and the bytes that follow. Then it makes the arena,
 * and `size` bytes there as the kernel's owner. KB_FAILED_PRECONDITION for another version,
 * KB_INVALID_ARGUMENT for damage; after any failure there is no arena. */
kb_status kb_fields_begin(kb_fields *f, const char *magic, uint32_t version,
                          const uint8_t digest[KB_DIGEST_SIZE], size_t size, kb_kernel *kernel,
                          kb_error *err);

/* Memory of the arena, as kb_arena_take returns it; NULL is noted. */
void *kb_fields_take(kb_fields *f, size_t count, size_t size);

/* Notes that `what` is wrong unless it holds. */
void kb_fields_expect(kb_fields *f, bool holds, const char *what);

/* A copy of a text, "" if it does not hold. */
const char *kb_fields_text(kb_fields *f);

/* The numbers of a kernel's inputs, outputs and hidden results, then a dtype, which may be unknown,
 * a rank and a name for each of these buffers. */
void kb_fields_buffers(kb_fields *f, kb_kernel *kernel);

/* u32 size, then as many bytes, which are not copied. */
kb_xla_bytes kb_fields_bytes(kb_fields *f);

/* KB_OK if all that was read holds. */
kb_status kb_fields_check(const kb_fields *f, kb_error *err);

/* The error of a field which does not hold. */
KB_COLD kb_status kb_fields_refuse(const kb_fields *f, const char *wrong, kb_error *err);

#endif
