/* Proves that no text in place of a bundle's manifest makes the core leave its memory, and that
 * what it reads lies within the data. Bytes are read as changes to the characters of a good one,
 * and to the order of its words, most with a digest that is right. */
#include "fuzz.h"

#include "bundle.h"
#include "ext/embed/kb_manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char fuzz_name[] = "fuzz_manifest";

static struct {
    long read, refused[17];
} counts;

static const char *const words[] = {
    " ",
    "\n",
    "0",
    "1",
    "-",
    "-1",
    "64",
    "65",
    "128",
    "4",
    "input",
    "output",
    "data",
    "program",
    "end ",
    "float32",
    "9223372036854775807",
    "18446744073709551616",
};

/* Puts a word over what is there, or in front of it. */
static void change(char *text, size_t *size, reader *r)
{
    size_t at = ((size_t)byte(r) << 8 | byte(r)) % *size;
    const char *word = words[byte(r) % (sizeof words / sizeof *words)];
    size_t n = strlen(word);
    uint8_t how = byte(r) % 4;
    if (how == 0) {
        text[at] = (char)byte(r);
    } else if (how == 1 && at + n <= *size) {
        memcpy(text + at, word, n);
    } else if (how == 2 && *size + n <= BUNDLE_TEXT) {
        memmove(text + at + n, text + at, *size - at);
        memcpy(text + at, word, n);
        *size += n;
    } else {
        memmove(text + at, text + at + 1, *size - at - 1);
        *size -= 1;
    }
}

static void check_array(const kb_host_array *a)
{
    require(a->name && a->dtype && a->dims, "an array");
}

static void check_program(const kb_manifest_program *p)
{
    require(p->about.platform && p->file.name && !strchr(p->file.name, '/'), "the name of a file");
    for (size_t i = 0; i < p->about.n_inputs; i++)
        check_array(p->about.inputs[i]);
    for (size_t i = 0; i < p->about.n_outputs; i++)
        check_array(p->about.outputs[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_size)
{
    reader r = {.at = data, .end = data + data_size};
    char text[BUNDLE_TEXT];
    size_t size = bundle_text(bundle_lines, text);
    for (int n = byte(&r) % 4; n > 0; n--)
        change(text, &size, &r);
    if (byte(&r) % 8)
        bundle_sign(text, size);
    char *exact = malloc(size); /* so that a read past it is seen */
    kb_arena *arena = kb_arena_new();
    if (!exact || !arena)
        abort();
    memcpy(exact, text, size);
    kb_manifest manifest;
    kb_error err = {.status = KB_OK};
    kb_status s = kb_manifest_read(exact, size, arena, &manifest, &err);
    free(exact);
    if (s == KB_OK) {
        counts.read++;
        require(manifest.programs, "no program");
        for (const kb_manifest_program *p = manifest.programs; p; p = p->next)
            check_program(p);
        for (const kb_manifest_array *a = manifest.with_data; a; a = a->next)
            require(a->offset <= manifest.data.size &&
                        a->about.size <= manifest.data.size - a->offset,
                    "data outside of the file");
    } else {
        counts.refused[s]++;
        require(err.status == s && err.message[0], "a refusal without a reason");
    }
    kb_arena_free(arena);
    return 0;
}

bool fuzz_tell(uint64_t n)
{
    printf("fuzz_manifest: %llu inputs: %ld read, %ld damaged, %ld of another version\n",
           (unsigned long long)n, counts.read, counts.refused[KB_INVALID_ARGUMENT],
           counts.refused[KB_FAILED_PRECONDITION]);
    return counts.read && counts.refused[KB_INVALID_ARGUMENT];
}
