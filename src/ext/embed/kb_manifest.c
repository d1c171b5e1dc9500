/* Owns the reading of manifests. */
#include "ext/embed/kb_manifest.h"

#include "core/kb_dtype.h"
#include "core/kb_kernel.h"

#include <stdint.h>
#include <string.h>

enum { HEX = 16, DECIMAL = 10 };

typedef struct dtype {
    const char *name;
    int32_t type; /* a PJRT_Buffer_Type */
    uint32_t size;
} dtype;

static const dtype dtypes[] = {
#define DTYPE(NAME, code, bits, name, OURS, dlpack, pjrt) {name, pjrt, (bits) / 8},
    KB_DTYPE_WHOLE_LIST(DTYPE)
#undef DTYPE
};

/* A line, and what is left of it. */
typedef struct line {
    const char *at, *end;
    bool failed;
} line;

typedef struct reading {
    kb_arena *arena;
    kb_manifest *manifest;
    kb_manifest_program **last_program;
    kb_manifest_array **last_array; /* of the last program; NULL before the first */
    bool no_memory;
} reading;

static void *take(reading *r, size_t count, size_t size)
{
    void *memory = kb_arena_take(r->arena, count, size);
    r->no_memory |= !memory;
    return memory;
}

/* The next word, of at least one byte, in the line itself; its size is 0 if there is none. */
static const char *next_word(line *l, size_t *size)
{
    const char *word = l->at;
    const char *space = memchr(word, ' ', (size_t)(l->end - word));
    const char *end = space ? space : l->end;
    *size = (size_t)(end - word);
    l->failed |= *size == 0;
    l->at = space ? space + 1 : end;
    return word;
}

static bool is_word(const char *word, size_t size, const char *expected)
{
    return size == strlen(expected) && memcmp(word, expected, size) == 0;
}

static bool next_is(line *l, const char *expected)
{
    size_t size;
    const char *word = next_word(l, &size);
    return is_word(word, size, expected);
}

static const char *keep(reading *r, const line *l, const char *text, size_t size)
{
    char *copy = l->failed ? NULL : take(r, size + 1, 1);
    return copy ? memcpy(copy, text, size) : "";
}

static const char *read_word(reading *r, line *l)
{
    size_t size;
    const char *word = next_word(l, &size);
    return keep(r, l, word, size);
}

/* A number that fits into an int64_t. */
static size_t read_number(line *l)
{
    size_t size, value = 0;
    const char *word = next_word(l, &size);
    for (size_t i = 0; i < size && !l->failed; i++) {
        size_t digit = (size_t)(unsigned char)word[i] - '0';
        l->failed |= digit >= DECIMAL || value > ((size_t)INT64_MAX - digit) / DECIMAL;
        value = value * DECIMAL + digit;
    }
    return value;
}

static int hex_digit(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

static void read_digest(line *l, uint8_t digest[KB_SHA256_SIZE])
{
    size_t size;
    const char *word = next_word(l, &size);
    l->failed |= size != (size_t)2 * KB_SHA256_SIZE;
    for (size_t i = 0; i < KB_SHA256_SIZE && !l->failed; i++) {
        int high = hex_digit(word[2 * i]), low = hex_digit(word[2 * i + 1]);
        l->failed |= high < 0 || low < 0;
        digest[i] = (uint8_t)(high * HEX + low);
    }
}

static void read_dtype(line *l, kb_host_array *array)
{
    size_t size;
    const char *word = next_word(l, &size);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        if (!is_word(word, size, dtypes[i].name))
            continue;
        array->dtype = dtypes[i].name;
        array->type = dtypes[i].type;
        array->size = dtypes[i].size;
        return;
    }
    l->failed = true;
}

static void read_dims(reading *r, line *l, kb_host_array *array)
{
    array->n_dims = read_number(l);
    l->failed |= array->n_dims > KB_RANK_MAX;
    int64_t *dims = l->failed ? NULL : take(r, array->n_dims, sizeof *dims);
    l->failed |= !dims;
    for (size_t i = 0; !l->failed && i < array->n_dims; i++) {
        size_t extent = read_number(l);
        l->failed |= extent > 0 && array->size > (size_t)INT64_MAX / extent;
        dims[i] = (int64_t)extent;
        array->size *= extent;
    }
    array->dims = dims;
}

/* Where the values of an argument are, if they are there. */
static void read_offset(const kb_manifest *m, line *l, kb_manifest_array *array)
{
    array->has_data = l->at == l->end || *l->at != '-';
    if (!array->has_data) {
        l->failed |= !next_is(l, "-");
        return;
    }
    array->offset = read_number(l);
    l->failed |= array->offset % KB_MANIFEST_ALIGNMENT != 0 || array->offset > m->data.size;
}

static void read_array(reading *r, line *l, bool is_output)
{
    kb_manifest_array *array = r->last_array ? take(r, 1, sizeof *array) : NULL;
    l->failed |= !array;
    if (l->failed)
        return;
    array->is_output = is_output;
    read_dtype(l, &array->about);
    if (!is_output) {
        size_t donated = read_number(l);
        l->failed |= donated > 1;
        array->about.donated = (int32_t)donated;
        read_offset(r->manifest, l, array);
    }
    read_dims(r, l, &array->about);
    array->about.name = keep(r, l, l->at, (size_t)(l->end - l->at));
    l->at = l->end;
    l->failed |= array->has_data && array->about.size > r->manifest->data.size - array->offset;
    if (l->failed)
        return;
    *r->last_array = array;
    r->last_array = &array->next;
}

/* The name of the file leads out of no folder. */
static void read_file(reading *r, line *l, kb_manifest_file *file, const char **platform)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    file->size = read_number(l);
    read_digest(l, file->digest);
    if (platform)
        *platform = read_word(r, l);
    file->name = read_word(r, l);
    l->failed |= file->name[0] == '.' || strspn(file->name, allowed) != strlen(file->name);
}

static void read_program(reading *r, line *l)
{
    kb_manifest_program *program = take(r, 1, sizeof *program);
    l->failed |= !program;
    if (l->failed)
        return;
    read_file(r, l, &program->file, &program->about.platform);
    *r->last_program = program;
    r->last_program = &program->next;
    r->last_array = &program->arrays;
}

static void read_line(reading *r, line *l)
{
    size_t size;
    const char *kind = next_word(l, &size);
    if (is_word(kind, size, "program")) {
        read_program(r, l);
    } else if (is_word(kind, size, "input") || is_word(kind, size, "output")) {
        read_array(r, l, kind[0] == 'o');
    } else if (is_word(kind, size, "made-by")) {
        l->at = l->end;
    } else if (is_word(kind, size, "data") && !r->manifest->data.name && !r->manifest->programs) {
        read_file(r, l, &r->manifest->data, NULL);
    } else {
        l->failed = true;
    }
    l->failed |= l->at != l->end;
}

static kb_status refuse(size_t number, const char *what, kb_error *err)
{
    return kb_error_set(err, KB_INVALID_ARGUMENT, "line %zu is damaged%s", number, what);
}

/* The line at `text`, without its end; false if no line ends there. */
static bool next_line(const char *text, const char *end, line *l)
{
    const char *at = memchr(text, '\n', (size_t)(end - text));
    *l = (line){.at = text, .end = at};
    return at && !memchr(text, 0, (size_t)(at - text));
}

static kb_status check_version(line *l, kb_error *err)
{
    bool known = next_is(l, "kernbridge-bundle");
    size_t version = read_number(l);
    if (!known || l->failed || l->at != l->end)
        return kb_error_set(err, KB_INVALID_ARGUMENT, "it is not the manifest of a bundle");
    if (version != KB_MANIFEST_VERSION)
        return kb_error_set(err, KB_FAILED_PRECONDITION,
                            "the bundle has format %zu, and this libkernbridge reads format %d: "
                            "export it with the version of kernbridge that the library is of",
                            version, KB_MANIFEST_VERSION);
    return KB_OK;
}

/* The last line: the digest of all before it. */
static bool is_end(const char *text, line *l)
{
    uint8_t said[KB_SHA256_SIZE], computed[KB_SHA256_SIZE];
    const char *end = l->at;
    if (!next_is(l, "end"))
        return false;
    read_digest(l, said);
    kb_sha256 h;
    kb_sha256_begin(&h);
    kb_sha256_add(&h, text, (size_t)(end - text));
    kb_sha256_end(&h, computed);
    return !l->failed && l->at == l->end && memcmp(said, computed, sizeof said) == 0;
}

kb_status kb_manifest_read(const char *text, size_t size, kb_arena *arena, kb_manifest *manifest,
                           kb_error *err)
{
    *manifest = (kb_manifest){.programs = NULL};
    reading r = {.arena = arena, .manifest = manifest, .last_program = &manifest->programs};
    const char *end = text + size;
    line l;
    if (!next_line(text, end, &l))
        return kb_error_set(err, KB_INVALID_ARGUMENT, "it is not the manifest of a bundle");
    const char *at = l.end + 1;
    kb_status s = check_version(&l, err);
    if (s != KB_OK)
        return s;
    for (size_t number = 2;; number++) {
        if (!next_line(at, end, &l))
            return refuse(number, ", or the end is missing", err);
        at = l.end + 1;
        if (at == end) {
            if (!is_end(text, &l))
                return refuse(number, ": the check of its digest failed", err);
            return manifest->programs ? KB_OK : refuse(number, ": there is no program", err);
        }
        read_line(&r, &l);
        if (r.no_memory)
            return kb_error_set(err, KB_RESOURCE_EXHAUSTED, "there is no memory to read it");
        if (l.failed)
            return refuse(number, "", err);
    }
}
