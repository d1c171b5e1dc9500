/* Owns the reading of images: the kernels of a cubin or of a text, and their parameters. Part of
 * fake_cuda.c alone. Input is trusted to be whole, as the driver trusts it: it is not told sizes.
 */
#ifndef FAKE_IMAGE_H
#define FAKE_IMAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAKE_DEVICES_MAX = 64, FAKE_PARAMS_MAX = 4096 };

typedef struct fake_param {
    uint32_t offset, size;
} fake_param;

typedef struct fake_kernel fake_kernel;

/* A kernel in one context. */
typedef struct fake_function {
    fake_kernel *kernel;
    int device;
} fake_function;

struct fake_kernel {
    fake_kernel *next; /* of the library */
    char *entry;
    uint32_t n_params;
    fake_param *params;
    const struct fake_code *code; /* for the CPU; or NULL */
    uint32_t static_shared;
    int max_shared[FAKE_DEVICES_MAX]; /* dynamic, that a launch may ask for */
    bool loaded[FAKE_DEVICES_MAX];
    fake_function functions[FAKE_DEVICES_MAX];
};

static void *fake_checked(void *memory)
{
    if (!memory) {
        fputs("fake_cuda: no memory\n", stderr);
        abort();
    }
    return memory;
}

/* What a kernel may have without asking: 48 KiB, with what it declares. */
static void fake_set_static_shared(fake_kernel *k, uint32_t size)
{
    enum { EVERY_KERNEL_MAY = 48 * 1024 };
    k->static_shared = size < EVERY_KERNEL_MAY ? size : EVERY_KERNEL_MAY;
    for (int d = 0; d < FAKE_DEVICES_MAX; d++)
        k->max_shared[d] = (int)(EVERY_KERNEL_MAY - k->static_shared);
}

static fake_kernel *fake_kernel_new(const char *entry, size_t length, fake_kernel *next)
{
    fake_kernel *k = fake_checked(calloc(1, sizeof *k));
    k->entry = fake_checked(calloc(1, length + 1));
    memcpy(k->entry, entry, length);
    k->params = fake_checked(calloc(FAKE_PARAMS_MAX, sizeof *k->params));
    k->next = next;
    for (int d = 0; d < FAKE_DEVICES_MAX; d++)
        k->functions[d] = (fake_function){k, d};
    fake_set_static_shared(k, 0);
    return k;
}

static void fake_kernels_free(fake_kernel *k)
{
    while (k) {
        fake_kernel *next = k->next;
        free(k->entry);
        free(k->params);
        free(k);
        k = next;
    }
}

/* "FAKE entry 3\n": a line a kernel. NULL if there is none. See fake_cuda.h. */
static fake_kernel *fake_read_text(const char *at)
{
    fake_kernel *kernels = NULL;
    while (strncmp(at, "FAKE ", 5) == 0) {
        const char *entry = at + 5;
        size_t length = strcspn(entry, " \n");
        unsigned n = 0, size = 8, step = 0, shared = 0;
        char line[64] = "";
        memcpy(line, entry + length, strcspn(entry + length, "\n") % sizeof line);
        if (length == 0 || sscanf(line, "%u %u %u %u", &n, &size, &step, &shared) < 1 ||
            n > FAKE_PARAMS_MAX)
            break;
        kernels = fake_kernel_new(entry, length, kernels);
        kernels->n_params = n;
        fake_set_static_shared(kernels, shared);
        for (uint32_t i = 0; i < n; i++)
            kernels->params[i] = (fake_param){i * (step ? step : size), size};
        at = entry + strcspn(entry, "\n");
        at += *at == '\n';
    }
    return kernels;
}

typedef struct fake_elf_header {
    uint8_t magic[4], width, order, rest[10];
    uint16_t type, machine;
    uint32_t version;
    uint64_t entry, program_headers, sections;
    uint32_t flags;
    uint16_t size, program_size, n_programs, section_size, n_sections, names;
} fake_elf_header;

typedef struct fake_elf_section {
    uint32_t name, kind;
    uint64_t flags, address, start, size;
    uint32_t link, info;
    uint64_t align, entry_size;
} fake_elf_section;

static fake_elf_section fake_section(const char *image, const fake_elf_header *header, uint32_t i)
{
    fake_elf_section section;
    memcpy(&section, image + header->sections + (size_t)i * sizeof section, sizeof section);
    return section;
}

/* The records of a section `.nv.info.<entry>`: form, code, u16 size or value, then the bytes. */
static void fake_read_params(fake_kernel *k, const uint8_t *at, const uint8_t *end)
{
    enum { WITH_BYTES = 4, KPARAM_INFO = 0x17, KPARAM_INFO_V2 = 0x45 };
    while (end - at >= 4) {
        uint8_t form = at[0], code = at[1];
        uint16_t size;
        memcpy(&size, at + 2, sizeof size);
        at += 4;
        if (form != WITH_BYTES)
            continue;
        if ((code == KPARAM_INFO || code == KPARAM_INFO_V2) && size == 12 && end - at >= 12) {
            uint16_t ordinal, offset;
            uint32_t info;
            memcpy(&ordinal, at + 4, sizeof ordinal);
            memcpy(&offset, at + 6, sizeof offset);
            memcpy(&info, at + 8, sizeof info);
            if (ordinal < FAKE_PARAMS_MAX) {
                k->params[ordinal] =
                    (fake_param){offset, code == KPARAM_INFO ? info >> 18 : info & 0xFFFF};
                if (k->n_params <= ordinal)
                    k->n_params = ordinal + 1u;
            }
        }
        at += size;
    }
}

/* Static shared memory: the size of `.nv.shared.<entry>`, less what CUDA keeps from sm_90 on. */
static void fake_read_shared(fake_kernel *kernels, const fake_elf_header *header, const char *name,
                             uint64_t size)
{
    static const char prefix[] = ".nv.shared.";
    enum { OLD_ABI = 0x33, RESERVED = 1024 };
    uint32_t cc = (header->rest[1] == OLD_ABI ? header->flags : header->flags >> 8) & 0xFF;
    if (strncmp(name, prefix, sizeof prefix - 1) != 0)
        return;
    for (fake_kernel *k = kernels; k; k = k->next)
        if (strcmp(k->entry, name + sizeof prefix - 1) == 0)
            fake_set_static_shared(k,
                                   (uint32_t)size - (cc >= 90 && size >= RESERVED ? RESERVED : 0));
}

static fake_kernel *fake_read_elf(const char *image)
{
    static const char prefix[] = ".nv.info.";
    enum { CUDA = 190 };
    fake_elf_header header;
    memcpy(&header, image, sizeof header);
    if (header.width != 2 || header.order != 1 || header.machine != CUDA ||
        header.section_size != sizeof(fake_elf_section) || header.names >= header.n_sections)
        return NULL;
    const char *names = image + fake_section(image, &header, header.names).start;
    fake_kernel *kernels = NULL;
    for (uint32_t i = 0; i < header.n_sections; i++) {
        fake_elf_section section = fake_section(image, &header, i);
        const char *name = names + section.name;
        if (strncmp(name, prefix, sizeof prefix - 1) != 0)
            continue;
        name += sizeof prefix - 1;
        kernels = fake_kernel_new(name, strlen(name), kernels);
        const uint8_t *at = (const uint8_t *)image + section.start;
        fake_read_params(kernels, at, at + section.size);
    }
    for (uint32_t i = 0; i < header.n_sections; i++) {
        fake_elf_section section = fake_section(image, &header, i);
        fake_read_shared(kernels, &header, names + section.name, section.size);
    }
    return kernels;
}

/* The kernels of an image; NULL if it is none, or holds none. */
static fake_kernel *fake_read_image(const char *image)
{
    static const char elf[] = {0x7f, 'E', 'L', 'F'};
    return strncmp(image, elf, sizeof elf) == 0 ? fake_read_elf(image) : fake_read_text(image);
}

#endif
