/* Owns which cubins have code for the CPU. Part of fake_cuda.c alone. */
#ifndef FAKE_CODE_H
#define FAKE_CODE_H

#include "fake_cuda.h"
#include "fake_image.h"

/* One entry of a cubin; lives as long as the process, since libraries and graphs refer to it. */
typedef struct fake_code {
    struct fake_code *next;
    char *entry;
    char digest[FAKE_CUDA_DIGEST];
    fake_cuda_execute *execute;
    size_t size;
    unsigned char cubin[];
} fake_code;

static fake_code *fake_code_new(const void *cubin, size_t size, const char *entry,
                                const char *digest, fake_cuda_execute *execute, fake_code *next)
{
    fake_code *c = fake_checked(calloc(1, sizeof *c + size));
    c->next = next;
    c->entry = fake_checked(calloc(1, strlen(entry) + 1));
    strcpy(c->entry, entry);
    memcpy(c->digest, digest, sizeof c->digest);
    c->execute = execute;
    c->size = size;
    memcpy(c->cubin, cubin, size);
    return c;
}

/* The code of an entry of an image, of which we know no size: a cubin's header says where it ends,
 * so another differs before that, and no byte behind the first that differs is read. */
static const fake_code *fake_find_code(const fake_code *c, const void *image, const char *entry)
{
    const unsigned char *bytes = image;
    for (; c; c = c->next) {
        size_t i = 0;
        while (i < c->size && bytes[i] == c->cubin[i])
            i++;
        if (i == c->size && strcmp(c->entry, entry) == 0)
            return c;
    }
    return NULL;
}

#endif
