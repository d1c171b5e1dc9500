/* The description of a bundle, as text. Written by kernbridge/_ext/embed/export.py, read here;
 * input, not trust. Each item is a line; words are separated by one space.
 *
 *     kernbridge-bundle 1
 *     made-by WORDS                                   versions, for people
 *     data SIZE SHA256 FILE                           values of arguments; at most once
 *     program SIZE SHA256 PLATFORM FILE               once for each platform; then its arrays
 *     input DTYPE DONATED OFFSET RANK DIM... NAME     DONATED 0 or 1; OFFSET into data, or -
 *     output DTYPE RANK DIM... NAME
 *     end SHA256                                      of all that comes before this line
 *
 * FILE is a name in the bundle's folder, of letters, digits, '.', '-' and '_'. NAME is the rest of
 * the line. One thread. */
#ifndef KB_MANIFEST_H
#define KB_MANIFEST_H

#include "core/kb_arena.h"
#include "core/kb_checksum.h"
#include "core/kb_error.h"
#include "kernbridge/host.h"

enum { KB_MANIFEST_VERSION = 1, KB_MANIFEST_ALIGNMENT = 64 };

typedef struct kb_manifest_file {
    const char *name; /* NULL: there is none */
    size_t size;
    uint8_t digest[KB_SHA256_SIZE];
} kb_manifest_file;

typedef struct kb_manifest_array {
    kb_host_array about;
    size_t offset; /* of its data, of which all lies in the file of data */
    struct kb_manifest_array *next;
} kb_manifest_array;

typedef struct kb_manifest_program {
    kb_host_program about; /* of which the text has the platform, inputs and outputs */
    kb_manifest_file file;
    struct kb_manifest_program *next;
} kb_manifest_program;

typedef struct kb_manifest {
    kb_manifest_file data;
    kb_manifest_array *with_data;  /* all arrays that have data, which `about` lacks */
    kb_manifest_program *programs; /* at least one */
} kb_manifest;

/* Reads the text of a manifest. What it points to lies in the arena. KB_INVALID_ARGUMENT with the
 * line that is damaged, KB_FAILED_PRECONDITION for another version, KB_RESOURCE_EXHAUSTED. */
kb_status kb_manifest_read(const char *text, size_t size, kb_arena *arena, kb_manifest *manifest,
                           kb_error *err);

#endif
