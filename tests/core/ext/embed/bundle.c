/* Owns the writing of bundles for tests. */
#include "bundle.h"

#include "core/kb_checksum.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEX_SIZE = 2 * KB_SHA256_SIZE };

const char bundle_code[BUNDLE_CODE + 1] = "ML\xefR program bytes";

const char *const bundle_lines[] = {
    "kernbridge-bundle 1",           "made-by kernbridge 0.1, jax 0.10.2",
    "data %D arguments.bin",         "program %P cpu program.cpu.mlirbc",
    "input float32 1 0 1 4 state.v", "input int64 0 64 2 2 4 state of two words",
    "input bool 0 - 0 flag",         "output float32 1 4 result[0]",
    "output complex128 0 result[1]", NULL,
};

static void put_digest(const void *bytes, size_t size, char text[HEX_SIZE + 1])
{
    uint8_t digest[KB_SHA256_SIZE];
    kb_sha256 h;
    kb_sha256_begin(&h);
    kb_sha256_add(&h, bytes, size);
    kb_sha256_end(&h, digest);
    for (size_t i = 0; i < KB_SHA256_SIZE; i++)
        (void)snprintf(text + 2 * i, 3, "%02x", digest[i]);
}

static void bundle_data(uint8_t data[BUNDLE_DATA])
{
    for (int i = 0; i < BUNDLE_DATA; i++)
        data[i] = (uint8_t)i;
}

/* A line whose marks are replaced. */
static size_t put_line(const char *line, char *text, size_t room)
{
    uint8_t data[BUNDLE_DATA];
    bundle_data(data);
    const char *mark = strchr(line, '%');
    if (!mark)
        return (size_t)snprintf(text, room, "%s\n", line);
    char digest[HEX_SIZE + 1];
    size_t size = mark[1] == 'D' ? sizeof data : BUNDLE_CODE;
    put_digest(mark[1] == 'D' ? (const void *)data : bundle_code, size, digest);
    return (size_t)snprintf(text, room, "%.*s%zu %s%s\n", (int)(mark - line), line, size, digest,
                            mark + 2);
}

size_t bundle_text(const char *const *lines, char *text)
{
    size_t size = 0;
    for (; *lines; lines++)
        size += put_line(*lines, text + size, BUNDLE_TEXT - size);
    char digest[HEX_SIZE + 1];
    put_digest(text, size, digest);
    return size + (size_t)snprintf(text + size, BUNDLE_TEXT - size, "end %s\n", digest);
}

void bundle_sign(char *text, size_t size)
{
    const size_t end = sizeof "end " - 1 + HEX_SIZE + 1;
    if (size < end || memcmp(text + size - end, "end ", 4) != 0)
        return;
    char digest[HEX_SIZE + 1];
    put_digest(text, size - end, digest);
    memcpy(text + size - end + 4, digest, HEX_SIZE);
}

static void path_of(const char *folder, const char *name, char path[BUNDLE_PATH])
{
    (void)snprintf(path, BUNDLE_PATH, "%.128s/%.100s", folder, name);
}

void bundle_put(const char *folder, const char *name, const void *bytes, size_t size)
{
    char path[BUNDLE_PATH];
    path_of(folder, name, path);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, size, file) != size || fclose(file) != 0)
        abort();
}

void bundle_make(char folder[BUNDLE_PATH], const char *text, size_t size)
{
    const char *tmp = getenv("TMPDIR");
    uint8_t data[BUNDLE_DATA];
    bundle_data(data);
    (void)snprintf(folder, BUNDLE_PATH, "%.100s/kernbridge-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(folder))
        abort();
    bundle_put(folder, "manifest.txt", text, size);
    bundle_put(folder, "arguments.bin", data, sizeof data);
    bundle_put(folder, "program.cpu.mlirbc", bundle_code, BUNDLE_CODE);
}

void bundle_drop(const char *folder, const char *name)
{
    char path[BUNDLE_PATH];
    path_of(folder, name, path);
    (void)unlink(path);
}

void bundle_remove(const char *folder)
{
    bundle_drop(folder, "manifest.txt");
    bundle_drop(folder, "arguments.bin");
    bundle_drop(folder, "program.cpu.mlirbc");
    (void)rmdir(folder);
}
