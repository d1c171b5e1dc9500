/* The object file of object_sample.c, for tests and fuzzers. One thread. */
#ifndef OBJECT_H
#define OBJECT_H

#include <stddef.h>
#include <stdint.h>

/* The bytes, which live until the process ends; aborts if they cannot be read. */
const uint8_t *object_bytes(size_t *size);

/* Resolves what object_sample.c uses. A function that it finds lies far away from all objects. */
void *object_resolve(const char *name);

#endif
