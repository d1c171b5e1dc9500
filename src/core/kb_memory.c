/* Owns the count-down with which tests make an allocation fail; otherwise the C library's heap. */
#include "core/kb_memory.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static atomic_long fail_countdown;

static bool must_fail(void)
{
    return atomic_load_explicit(&fail_countdown, memory_order_relaxed) > 0 &&
           atomic_fetch_sub(&fail_countdown, 1) == 1;
}

void *kb_calloc(size_t count, size_t size)
{
    return must_fail() ? NULL : calloc(count, size);
}

void *kb_malloc(size_t size)
{
    return must_fail() ? NULL : malloc(size);
}

void kb_free(void *memory)
{
    free(memory);
}

char *kb_put_text(char **at, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = memcpy(*at, text, size);
    *at += size;
    return copy;
}

void kb_memory_fail_nth(long n)
{
    atomic_store(&fail_countdown, n);
}
