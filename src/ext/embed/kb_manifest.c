/* Owns the reading of manifests. */
#include "ext/embed/kb_manifest.h"

#include "core/kb_dtype.h"
#include "core/kb_kernel.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define END "\nend 0000000000000000000000000000000000000000000000000000000000000000\n"

enum {
    HEX = 16,
    DECIMAL = 10,
    LINE_MIN = 8, /* less than a line of an array takes */
    END_SIZE = sizeof END - 1,
};

typedef struct reading {
    char *rest;  /* what is left of a line, whose words are cut off */
    bool failed; /* in a line */
    bool no_memory;
    kb_arena *arena;
    kb_manifest *manifest;
    kb_manifest_program *program, **last_program; /* the last one, and where the next one goes */
    const kb_host_array **inputs, **outputs;      /* of all programs: where the next ones go */
} reading;

static void *take(reading *r, size_t count, size_t size)
{
    void *memory = kb_arena_take(r->arena, count, size);
    r->no_memory |= !memory;
    r->failed |= !memory;
    return memory;
}

/* What comes before the byte `end`, or all; the rest begins behind it. */
static char *cut(char **rest, const char *end)
{
    char *part = *rest;
    *rest += strcspn(part, end);
    if (**rest)
        *(*rest)++ = '\0';
    return part;
}

/* The next word, of at least one byte; "" if there is none. */
static const char *next_word(reading *r)
{
    const char *word = cut(&r->rest, " ");
    r->failed |= !*word;
    return word;
}

/* A number that fits into an int64_t. */
static size_t read_number(reading *r)
{
    const char *word = next_word(r);
    errno = 0;
    long long value = strtoll(word, NULL, DECIMAL);
    r->failed |= errno != 0 || word[strspn(word, "0123456789")] != '\0';
    return (size_t)value;
}

static void read_digest(reading *r, uint8_t digest[KB_SHA256_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    const char *word = next_word(r);
    size_t size = strlen(word);
    r->failed |= size != (size_t)2 * KB_SHA256_SIZE || strspn(word, digits) != size;
    for (size_t i = 0; i < size && !r->failed; i++) {
        size_t digit = (size_t)(strchr(digits, word[i]) - digits);
        digest[i / 2] = (uint8_t)((size_t)HEX * digest[i / 2] + digit);
    }
}

static void read_dtype(reading *r, kb_host_array *array)
{
    array->dtype = next_word(r);
#define DTYPE(NAME, code, bits, name, OURS, dlpack, pjrt)                                          \
    if (strcmp(array->dtype, name) == 0) {                                                         \
        array->type = (pjrt);                                                                      \
        array->size = (bits) / 8;                                                                  \
    }
    KB_DTYPE_WHOLE_LIST(DTYPE)
#undef DTYPE
    r->failed |= array->size == 0;
}

static void read_dims(reading *r, kb_host_array *array)
{
    array->n_dims = read_number(r);
    r->failed |= array->n_dims > KB_RANK_MAX;
    int64_t *dims = r->failed ? NULL : take(r, array->n_dims, sizeof *dims);
    for (size_t i = 0; !r->failed && i < array->n_dims; i++) {
        size_t extent = read_number(r);
        r->failed |= extent > 0 && array->size > (size_t)INT64_MAX / extent;
        dims[i] = (int64_t)extent;
        array->size *= extent;
    }
    array->dims = dims;
}

/* Where the values of an argument are, if they are there. */
static void read_offset(reading *r, kb_manifest_array *array)
{
    kb_manifest *m = r->manifest;
    if (r->rest[0] == '-') {
        r->failed |= strcmp(next_word(r), "-") != 0;
        return;
    }
    array->offset = read_number(r);
    r->failed |= array->offset % KB_MANIFEST_ALIGNMENT != 0 || array->offset > m->data.size;
    array->next = m->with_data;
    m->with_data = array;
}

static void read_array(reading *r, bool is_output)
{
    kb_manifest *m = r->manifest;
    kb_manifest_array *array = r->program ? take(r, 1, sizeof *array) : NULL;
    r->failed |= !array;
    if (r->failed)
        return;
    read_dtype(r, &array->about);
    if (!is_output) {
        size_t donated = read_number(r);
        r->failed |= donated > 1;
        array->about.donated = (int32_t)donated;
        read_offset(r, array);
    }
    read_dims(r, &array->about);
    array->about.name = r->rest;
    r->rest += strlen(r->rest);
    r->failed |= m->with_data == array && array->about.size > m->data.size - array->offset;
    *(is_output ? r->outputs++ : r->inputs++) = &array->about;
    *(is_output ? &r->program->about.n_outputs : &r->program->about.n_inputs) += 1;
}

/* The name of the file leads out of no folder. */
static void read_file(reading *r, kb_manifest_file *file, const char **platform)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    file->size = read_number(r);
    read_digest(r, file->digest);
    if (platform)
        *platform = next_word(r);
    file->name = next_word(r);
    r->failed |= file->name[0] == '.' || strspn(file->name, allowed) != strlen(file->name);
}

static void read_program(reading *r)
{
    kb_manifest_program *program = take(r, 1, sizeof *program);
    if (r->failed)
        return;
    read_file(r, &program->file, &program->about.platform);
    program->about.inputs = r->inputs;
    program->about.outputs = r->outputs;
    r->program = *r->last_program = program;
    r->last_program = &program->next;
}

static void read_line(reading *r)
{
    const char *kind = next_word(r);
    if (strcmp(kind, "program") == 0) {
        read_program(r);
    } else if (strcmp(kind, "input") == 0 || strcmp(kind, "output") == 0) {
        read_array(r, kind[0] == 'o');
    } else if (strcmp(kind, "made-by") == 0) {
        r->rest += strlen(r->rest);
    } else if (strcmp(kind, "data") == 0 && !r->manifest->data.name && !r->manifest->programs) {
        read_file(r, &r->manifest->data, NULL);
    } else {
        r->failed = true;
    }
    r->failed |= *r->rest != '\0';
}

static kb_status refuse_memory(kb_error *err)
{
    return kb_error_set(err, KB_RESOURCE_EXHAUSTED, "there is no memory to read it");
}

static kb_status check_version(reading *r, kb_error *err)
{
    bool known = strcmp(next_word(r), "kernbridge-bundle") == 0;
    size_t version = read_number(r);
    if (!known || r->failed || *r->rest)
        return kb_error_set(err, KB_INVALID_ARGUMENT, "it is not the manifest of a bundle");
    if (version != KB_MANIFEST_VERSION)
        return kb_error_set(err, KB_FAILED_PRECONDITION,
                            "the bundle has format %zu, and this libkernbridge reads format %d: "
                            "export it with the version of kernbridge that the library is of",
                            version, KB_MANIFEST_VERSION);
    return KB_OK;
}

/* Whether there is a last line, which has the digest of all before it. */
static bool is_whole(const char *text, size_t size)
{
    char end[] = END;
    uint8_t digest[KB_SHA256_SIZE];
    kb_sha256 h;
    if (size < END_SIZE || memchr(text, 0, size))
        return false;
    kb_sha256_begin(&h);
    kb_sha256_add(&h, text, size - END_SIZE + 1);
    kb_sha256_end(&h, digest);
    for (size_t i = 0; i < sizeof digest; i++)
        (void)snprintf(strrchr(end, ' ') + 1 + 2 * i, sizeof "00\n", "%02x\n", digest[i]);
    return memcmp(text + size - END_SIZE, end, END_SIZE) == 0;
}

kb_status kb_manifest_read(const char *text, size_t size, kb_arena *arena, kb_manifest *manifest,
                           kb_error *err)
{
    *manifest = (kb_manifest){.programs = NULL};
    reading r = {.arena = arena, .manifest = manifest, .last_program = &manifest->programs};
    char *copy = take(&r, size + 1, 1), *rest = copy;
    r.inputs = take(&r, size / LINE_MIN, sizeof(void *));
    r.outputs = take(&r, size / LINE_MIN, sizeof(void *));
    if (r.no_memory)
        return refuse_memory(err);
    memcpy(copy, text, size);
    r.rest = cut(&rest, "\n");
    kb_status s = check_version(&r, err);
    if (s == KB_OK && !is_whole(text, size))
        s = kb_error_set(err, KB_INVALID_ARGUMENT,
                         "its end is missing, or the check of its digest failed");
    if (s == KB_OK)
        copy[size - END_SIZE + 1] = '\0';
    for (size_t number = 2; s == KB_OK && *rest; number++) {
        r.rest = cut(&rest, "\n");
        read_line(&r);
        if (r.failed)
            s = r.no_memory ? refuse_memory(err)
                            : kb_error_set(err, KB_INVALID_ARGUMENT, "line %zu is damaged", number);
    }
    if (s == KB_OK && !manifest->programs)
        s = kb_error_set(err, KB_INVALID_ARGUMENT, "there is no program");
    return s;
}
