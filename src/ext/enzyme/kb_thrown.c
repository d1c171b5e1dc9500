/* Owns the failures and the memory of machine code of C and C++, for each thread. */
#include "ext/enzyme/kb_thrown.h"

#include "core/kb_error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Before each part of memory. */
typedef struct block {
    struct block *before, *after;
    size_t bytes, unused;
} block;

static _Thread_local struct {
    void *place;
    block *last;
    kb_numba_exception exception;
    char text[KB_ERROR_CAPACITY];
} state;

void kb_landing(void *place)
{
    state.place = place;
    state.exception.pickle = NULL;
}

void kb_landed(void)
{
    while (state.last)
        kb_delete(state.last + 1);
}

void kb_thrown(const char *text)
{
    state.exception.pickle = text;
    longjmp(*(jmp_buf *)state.place, 1);
}

int kb_failed(const void *call, int code, const char *format, ...)
{
    (void)call;
    va_list values;
    va_start(values, format);
    int size = vsnprintf(state.text, sizeof state.text - 1, format, values);
    va_end(values);
    size_t most = sizeof state.text - 2, end = size < 0 ? 0 : (size_t)size;
    state.text[(end < most ? end : most) + 1] = '\0'; /* an empty place */
    state.exception.pickle = state.text;
    return code;
}

kb_numba_exception *kb_failure(int32_t code)
{
    kb_landed();
    if (!state.exception.pickle)
        (void)kb_failed(NULL, 0, "the function returned %d", (int)code);
    return &state.exception;
}

void *kb_new(size_t bytes)
{
    block *added = bytes <= SIZE_MAX - sizeof *added ? malloc(sizeof *added + bytes) : NULL;
    if (!added)
        kb_thrown("std::bad_alloc\0");
    *added = (block){.before = state.last, .bytes = bytes};
    if (state.last)
        state.last->after = added;
    state.last = added;
    return added + 1;
}

void kb_delete(void *memory)
{
    if (!memory)
        return;
    block *b = (block *)memory - 1;
    if (b->before) // NOLINT(clang-analyzer-unix.Malloc): `state.last` is another block by now
        b->before->after = b->after;
    if (b->after)
        b->after->before = b->before;
    else
        state.last = b->before;
    free(b);
}

void *kb_resize(void *memory, size_t bytes)
{
    void *moved = kb_new(bytes);
    size_t known = memory ? ((block *)memory - 1)->bytes : 0;
    if (memory)
        memcpy(moved, memory, known < bytes ? known : bytes);
    kb_delete(memory);
    return moved;
}

static void *or_fail(void *memory)
{
    if (!memory)
        kb_thrown("MemoryError: no memory for the values that the derivative keeps\0");
    return memory;
}

void *kb_malloc_or_fail(size_t bytes)
{
    return or_fail(malloc(bytes)); /* of which glibc gives some in any case */
}

void *kb_realloc_or_fail(void *memory, size_t bytes)
{
    return or_fail(realloc(memory, bytes ? bytes : 1));
}
