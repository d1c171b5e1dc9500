/* Proves that no folder in place of a bundle makes the C host leave its memory: what it opens has
 * names, sizes and data that lie within the files, and what it refuses it says. Bytes are read as
 * changes to the manifest, most with a digest that is right, and to the files beside it. */
#include "fuzz.h"

#include "bundle.h"
#include "kernbridge/host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char fuzz_name[] = "fuzz_bundle";

static struct {
    long opened, refused;
} counts;

static uint64_t sum; /* of all bytes that a host may read */

static void read_bytes(const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        sum += ((const uint8_t *)bytes)[i];
}

static void read_array(const kb_host_array *a)
{
    int64_t count = 1;
    require(a->name && a->dtype && (a->n_dims == 0 || a->dims), "an array");
    for (size_t d = 0; d < a->n_dims; d++)
        require(a->dims[d] >= 0 && !__builtin_mul_overflow(count, a->dims[d], &count), "an extent");
    require((uintptr_t)a->data % 64 == 0, "data that is not aligned");
    if (a->data)
        read_bytes(a->data, a->size);
}

static void read_program(const kb_bundle *b)
{
    static const char *const platforms[] = {"cpu", "cuda", "CPU", ""};
    for (size_t i = 0; i < sizeof platforms / sizeof *platforms; i++) {
        const kb_host_program *p;
        kb_host_error error;
        kb_status s = kb_bundle_program(b, platforms[i], strlen(platforms[i]), &p, &error);
        require((s == KB_OK) == (p != NULL), "a program that is not there");
        if (s != KB_OK)
            continue;
        read_bytes(p->code, p->code_size);
        read_bytes(p->options, p->options_size);
        for (size_t k = 0; k < p->n_inputs; k++)
            read_array(p->inputs[k]);
        for (size_t k = 0; k < p->n_outputs; k++)
            read_array(p->outputs[k]);
    }
}

static void change(char *text, size_t *size, reader *r)
{
    static const char *const words[] = {"0",
                                        "1",
                                        "-1",
                                        "\n",
                                        "../",
                                        "/dev/zero",
                                        "input",
                                        "output",
                                        "float32",
                                        "4294967296",
                                        "9223372036854775807",
                                        "end "};
    size_t at = ((size_t)byte(r) << 8 | byte(r)) % *size;
    const char *word = words[byte(r) % (sizeof words / sizeof *words)];
    size_t n = strlen(word);
    if (byte(r) % 2) {
        text[at] = (char)byte(r);
    } else if (at + n <= *size) {
        memcpy(text + at, word, n);
    }
}

static void change_file(const char *folder, reader *r)
{
    static const char *const names[] = {"manifest.txt", "arguments.bin", "program.cpu.mlirbc"};
    uint8_t bytes[BUNDLE_DATA];
    const char *name = names[byte(r) % 3];
    memset(bytes, byte(r), sizeof bytes);
    if (byte(r) % 2)
        bundle_drop(folder, name);
    else
        bundle_put(folder, name, bytes, byte(r) % sizeof bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_size)
{
    reader r = {.at = data, .end = data + data_size};
    char text[BUNDLE_TEXT], folder[BUNDLE_PATH];
    size_t size = bundle_text(bundle_lines, text);
    for (int n = byte(&r) % 4; n > 0; n--)
        change(text, &size, &r);
    if (byte(&r) % 8)
        bundle_sign(text, size);
    bundle_make(folder, text, size);
    if (byte(&r) % 4 == 0)
        change_file(folder, &r);
    kb_bundle *bundle = NULL;
    kb_host_error error = {.status = KB_OK};
    kb_status s = kb_bundle_open(folder, &bundle, &error);
    bundle_remove(folder);
    require((s == KB_OK) == (bundle != NULL), "a bundle that is not there");
    if (s == KB_OK) {
        counts.opened++;
        read_program(bundle);
    } else {
        counts.refused++;
        require(error.status == s && error.message[0] &&
                    memchr(error.message, 0, sizeof error.message),
                "a refusal without a reason");
    }
    kb_bundle_close(bundle);
    return 0;
}

bool fuzz_tell(uint64_t n)
{
    printf("fuzz_bundle: %llu inputs: %ld opened, %ld refused\n", (unsigned long long)n,
           counts.opened, counts.refused);
    return counts.opened && counts.refused;
}
