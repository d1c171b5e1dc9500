/* Owns chunks of memory and the cursor into the newest. */
#include "core/kb_arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>

/* AddressSanitizer reports accesses outside of what was taken, though the chunk goes on there. */
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
enum { RED_ZONE = 16 };
#define FORBID(memory, size) ASAN_POISON_MEMORY_REGION(memory, size)
#define ALLOW(memory, size)  ASAN_UNPOISON_MEMORY_REGION(memory, size)
#else
enum { RED_ZONE = 0 };
#define FORBID(memory, size) ((void)0)
#define ALLOW(memory, size)  ((void)0)
#endif

/* Most arenas last as long as the process and hold a few hundred bytes. Each chunk is twice as
 * large as the one before it, up to the last size. */
enum { FIRST_CHUNK = 256, LAST_CHUNK = 2048 };

typedef struct chunk {
    struct chunk *before;
    size_t size;
    size_t used;
    alignas(max_align_t) char bytes[];
} chunk;

struct kb_arena {
    chunk *newest;
    size_t bytes;
};

kb_arena *kb_arena_new(void)
{
    return calloc(1, sizeof(kb_arena));
}

static chunk *add_chunk(kb_arena *arena, size_t size)
{
    size_t room = FIRST_CHUNK;
    if (arena->newest)
        room = arena->newest->size < LAST_CHUNK / 2 ? 2 * arena->newest->size : LAST_CHUNK;
    if (room < size)
        room = size;
    if (room > SIZE_MAX - sizeof(chunk))
        return NULL;
    chunk *c = calloc(1, sizeof(chunk) + room);
    if (!c)
        return NULL;
    c->before = arena->newest;
    c->size = room;
    arena->newest = c;
    arena->bytes += sizeof(chunk) + room;
    FORBID(c->bytes, room);
    return c;
}

void *kb_arena_take(kb_arena *arena, size_t count, size_t size)
{
    enum { ALIGN = alignof(max_align_t) };
    size_t taken;
    if (!arena || __builtin_mul_overflow(count, size, &taken) ||
        taken > SIZE_MAX - RED_ZONE - ALIGN)
        return NULL;
    size_t bytes = (taken + RED_ZONE + ALIGN - 1) / ALIGN * ALIGN;
    chunk *c = arena->newest;
    if (!c || c->size - c->used < bytes)
        c = add_chunk(arena, bytes);
    if (!c)
        return NULL;
    void *memory = c->bytes + c->used;
    c->used += bytes;
    ALLOW(memory, taken);
    return memory;
}

size_t kb_arena_bytes(const kb_arena *arena)
{
    return arena->bytes;
}

void kb_arena_free(kb_arena *arena)
{
    for (chunk *c = arena ? arena->newest : NULL; c;) {
        chunk *before = c->before;
        free(c);
        c = before;
    }
    free(arena);
}
