/* The one way in which the core takes memory, so that tests can make each allocation fail in turn.
 * Any thread may enter. */
#ifndef KB_MEMORY_H
#define KB_MEMORY_H

#include <stddef.h>

/* Zeroed memory for `count` elements of `size` bytes; NULL when there is none or the product
 * overflows, and, with the C libraries of Linux, not for no bytes. Freed with kb_free. */
void *kb_calloc(size_t count, size_t size);

/* `size` bytes that hold anything; NULL when there is no memory. Freed with kb_free. */
void *kb_malloc(size_t size);

void kb_free(void *memory);

/* Copies a text with its NUL to `*at`, which then points after it; returns the copy. */
char *kb_put_text(char **at, const char *text);

/* Tests only: the n-th allocation from now on (1 is the next) fails, once; 0 switches it off. */
void kb_memory_fail_nth(long n);

#endif
