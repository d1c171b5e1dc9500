/* Owns how machine code that was made of C or C++ allocates and fails, without unwinding its stack:
 * derivatives of functions of modules (python/kernbridge/_ext/enzyme/clang.py). Any thread may
 * enter; each has a state of its own. */
#include "abi/kb_numba.h"
#include "core/kb_error.h"
#include "core/kb_extension.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
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

/* The entry gives the place to which its thread comes back, a jmp_buf, before it calls anything
 * else of here, and in the end calls one of kb_landed and kb_failure. */
static void kb_landing(void *place)
{
    state.place = place;
    state.exception.pickle = NULL;
}

/* Fails with a text of two parts as in kb_failures_describe. Does not return. */
static void kb_thrown(const char *text)
{
    state.exception.pickle = text;
    longjmp(*(jmp_buf *)state.place, 1);
}

/* kb_services.fail: keeps the text, and returns the code. */
static __attribute__((format(printf, 3, 4))) int kb_failed(const void *call, int code,
                                                           const char *format, ...)
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

/* operator new and delete, and realloc, for all memory. Enzyme may drop a release, and so does a
 * failure: what is left is released in the end. */
static void *kb_new(size_t bytes)
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

static void kb_delete(void *memory)
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

static void kb_landed(void)
{
    while (state.last)
        kb_delete(state.last + 1);
}

/* What the entry reports of a failure: the text of the last one, or, if the function only returned
 * a code, a text with the code. */
static kb_numba_exception *kb_failure(int32_t code)
{
    kb_landed();
    if (!state.exception.pickle)
        (void)kb_failed(NULL, 0, "the function returned %d", (int)code);
    return &state.exception;
}

static void *kb_resize(void *memory, size_t bytes)
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

/* malloc and realloc of derivatives of Numba kernels: they fail as kb_thrown does. */
static void *kb_malloc_or_fail(size_t bytes)
{
    return or_fail(malloc(bytes)); /* of which glibc gives some in any case */
}

static void *kb_realloc_or_fail(void *memory, size_t bytes)
{
    return or_fail(realloc(memory, bytes ? bytes : 1));
}

static const kb_symbol symbols[] = {
    KB_SYMBOL("kb_landing", kb_landing),
    KB_SYMBOL("kb_landed", kb_landed),
    KB_SYMBOL("kb_thrown", kb_thrown),
    KB_SYMBOL("kb_failed", kb_failed),
    KB_SYMBOL("kb_failure", kb_failure),
    KB_SYMBOL("kb_resize", kb_resize),
    KB_SYMBOL("kb_malloc", kb_malloc_or_fail),
    KB_SYMBOL("kb_realloc", kb_realloc_or_fail),
    KB_SYMBOL("_Znwm", kb_new),
    KB_SYMBOL("_Znam", kb_new),
    KB_SYMBOL("_ZdlPv", kb_delete),
    KB_SYMBOL("_ZdaPv", kb_delete),
    KB_SYMBOL("_ZdlPvm", kb_delete),
    KB_SYMBOL("_ZdaPvm", kb_delete),
    {0},
};

const kb_extension kb_enzyme = {.symbols = symbols};
