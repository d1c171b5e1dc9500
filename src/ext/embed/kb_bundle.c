/* Owns bundles in memory: their files, read and compared with their digests. */
#include "abi/kb_xla.h"
#include "core/kb_arena.h"
#include "core/kb_checksum.h"
#include "ext/embed/kb_failure.h"
#include "ext/embed/kb_manifest.h"
#include "kernbridge/host.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* CompileOptionsProto: executable_build_options { num_replicas: 1, num_partitions: 1 } */
static const char options[] = {0x1a, 0x04, 0x20, 0x01, 0x28, 0x01};

struct kb_bundle {
    kb_arena *arena;
    const char *folder; /* the caller's, while the bundle is read */
    kb_manifest manifest;
};

static kb_status refuse_memory(kb_error *err)
{
    return kb_error_set(err, KB_RESOURCE_EXHAUSTED, "no memory to read a bundle");
}

static kb_status refuse_damaged(const char *path, const char *what, kb_error *err)
{
    return kb_error_set(err, KB_INVALID_ARGUMENT,
                        "%s is damaged: %s. Copy the bundle again, or export it again", path, what);
}

/* The path of a file; NULL without memory. */
static const char *join(kb_bundle *b, const char *name)
{
    size_t size = strlen(b->folder) + strlen(name) + 2;
    char *path = kb_arena_take(b->arena, size, 1);
    if (path)
        (void)snprintf(path, size, "%s/%s", b->folder, name);
    return path;
}

/* All bytes of a file, in the arena of the bundle, and aligned as data must be. */
static kb_status read_file(kb_bundle *b, const char *path, kb_xla_bytes *c, kb_error *err)
{
    FILE *file = path ? fopen(path, "rbe") : NULL;
    long end = file && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    bool found = end >= 0 && fseek(file, 0, SEEK_SET) == 0;
    char *memory = found ? kb_arena_take(b->arena, (size_t)end + KB_MANIFEST_ALIGNMENT, 1) : NULL;
    if (memory) {
        size_t past = (uintptr_t)memory % KB_MANIFEST_ALIGNMENT;
        memory += (KB_MANIFEST_ALIGNMENT - past) % KB_MANIFEST_ALIGNMENT;
        *c = (kb_xla_bytes){memory, (size_t)end};
        found = fread(memory, 1, c->size, file) == c->size;
    }
    int number = file && feof(file) ? EIO : errno;
    if (file)
        (void)fclose(file);
    if (!path || (found && !memory))
        return refuse_memory(err);
    return found ? KB_OK
                 : kb_error_set(err, KB_NOT_FOUND, "cannot read %s: %s", path, strerror(number));
}

static kb_status read_compared(kb_bundle *b, const kb_manifest_file *file, kb_xla_bytes *c,
                               kb_error *err)
{
    const char *path = join(b, file->name);
    kb_status s = read_file(b, path, c, err);
    if (s != KB_OK)
        return s;
    const kb_checksum seal = {.sha = file->digest};
    const kb_reader all = kb_reader_of(c->data, c->size);
    return c->size == file->size && !kb_checksum_check(&seal, "", 0, &all)
               ? KB_OK
               : refuse_damaged(path, "it is not the file that the manifest describes", err);
}

static kb_status read_program(kb_bundle *b, kb_manifest_program *p, kb_error *err)
{
    kb_xla_bytes code = {0};
    kb_status s = read_compared(b, &p->file, &code, err);
    p->about.format = "mlir";
    p->about.code = code.data;
    p->about.code_size = code.size;
    p->about.options = options;
    p->about.options_size = sizeof options;
    return s;
}

static kb_status read_manifest(kb_bundle *b, kb_error *err)
{
    const char *path = join(b, "manifest.txt");
    kb_xla_bytes text = {0};
    kb_error why;
    kb_status s = read_file(b, path, &text, err);
    if (s != KB_OK)
        return s;
    s = kb_manifest_read(text.data, text.size, b->arena, &b->manifest, &why);
    if (s == KB_INVALID_ARGUMENT)
        return refuse_damaged(path, why.message, err);
    return s == KB_OK ? KB_OK : kb_error_set(err, s, "%s: %s", path, why.message);
}

static kb_status read_bundle(kb_bundle *b, kb_error *err)
{
    kb_xla_bytes data = {0};
    kb_status s = read_manifest(b, err);
    if (s == KB_OK && b->manifest.data.name)
        s = read_compared(b, &b->manifest.data, &data, err);
    bool has_data = s == KB_OK && data.data;
    for (kb_manifest_array *a = b->manifest.with_data; has_data && a; a = a->next)
        a->about.data = data.data + a->offset;
    for (kb_manifest_program *p = b->manifest.programs; s == KB_OK && p; p = p->next)
        s = read_program(b, p, err);
    return s;
}

void kb_bundle_close(kb_bundle *bundle)
{
    if (bundle)
        kb_arena_free(bundle->arena);
}

kb_status kb_bundle_open(const char *folder, kb_bundle **bundle, kb_host_error *error)
{
    kb_error err;
    kb_arena *arena = kb_arena_new();
    kb_bundle *b = kb_arena_take(arena, 1, sizeof *b);
    if (b)
        *b = (kb_bundle){.arena = arena, .folder = folder};
    kb_status s = b ? read_bundle(b, &err) : refuse_memory(&err);
    *bundle = s == KB_OK ? b : NULL;
    if (s != KB_OK)
        kb_arena_free(arena);
    return kb_failure_tell(s, &err, error);
}

kb_status kb_bundle_program(const kb_bundle *bundle, const char *platform, size_t size,
                            const kb_host_program **found, kb_host_error *error)
{
    kb_error err;
    *found = NULL;
    for (const kb_manifest_program *p = bundle->manifest.programs; p; p = p->next) {
        if (strlen(p->about.platform) == size &&
            strncasecmp(p->about.platform, platform, size) == 0) {
            *found = &p->about;
            return KB_OK;
        }
    }
    kb_error_set(&err, KB_NOT_FOUND, "the bundle has no program for the platform %.*s, only for",
                 (int)size, platform);
    for (const kb_manifest_program *p = bundle->manifest.programs; p; p = p->next)
        kb_error_append(&err, "%s %s", p == bundle->manifest.programs ? "" : ",",
                        p->about.platform);
    kb_error_append(&err, ": export it with platforms=(\"%.*s\", ...)", (int)size, platform);
    return kb_failure_tell(KB_NOT_FOUND, &err, error);
}
