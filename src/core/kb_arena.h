/* Memory that is taken in pieces and given back at once. Not to be entered by two threads. */
#ifndef KB_ARENA_H
#define KB_ARENA_H

#include <stddef.h>

typedef struct kb_arena kb_arena;

/* NULL when there is no memory. */
kb_arena *kb_arena_new(void);

/* Zeroed memory for `count` elements of `size` bytes, aligned for any type; NULL when there is none
 * or the product overflows, or there is no arena. Lives as long as the arena. */
void *kb_arena_take(kb_arena *arena, size_t count, size_t size);

/* Bytes taken from the system. */
size_t kb_arena_bytes(const kb_arena *arena);

/* NULL is allowed. */
void kb_arena_free(kb_arena *arena);

#endif
