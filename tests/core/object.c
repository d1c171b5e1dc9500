/* Reads object_sample.c's object file. */
#include "object.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint8_t *bytes;
static size_t n_bytes;
static int64_t outside_variable = 77;

static double outside(double x)
{
    return 2 * x;
}

const uint8_t *object_bytes(size_t *size)
{
    if (!bytes) {
        FILE *file = fopen(OBJECT_SAMPLE, "rb");
        enum { ROOM = 1 << 20 };
        bytes = malloc(ROOM);
        if (!file || !bytes)
            abort();
        n_bytes = fread(bytes, 1, ROOM, file);
        fclose(file);
    }
    *size = n_bytes;
    return bytes;
}

void *object_resolve(const char *name)
{
    if (strcmp(name, "outside") == 0)
        return (void *)(uintptr_t)outside;
    return strcmp(name, "outside_variable") == 0 ? &outside_variable : NULL;
}
