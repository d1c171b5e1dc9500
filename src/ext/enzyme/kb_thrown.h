/* How machine code that was made of C or C++ allocates and fails, without unwinding its stack:
 * derivatives of functions of modules (python/kernbridge/_ext/enzyme/clang.py). Any thread may
 * enter; each has a state of its own. */
#ifndef KB_THROWN_H
#define KB_THROWN_H

#include "abi/kb_numba.h"

#include <stddef.h>
#include <stdint.h>

/* The entry gives the place to which its thread comes back, a jmp_buf, before it calls anything
 * else of here, and in the end calls one of kb_landed and kb_failure. */
void kb_landing(void *place);
void kb_landed(void);

/* What the entry reports of a failure: the text of the last one, or, if the function only returned
 * a code, a text with the code. */
kb_numba_exception *kb_failure(int32_t code);

/* Fails with a text of two parts as in kb_failures_describe. Does not return. */
void kb_thrown(const char *text);

/* kb_services.fail: keeps the text, and returns the code. */
int kb_failed(const void *call, int code, const char *format, ...)
#ifdef __GNUC__
    __attribute__((format(printf, 3, 4)))
#endif
    ;

/* operator new and delete, and realloc, for all memory. Enzyme may drop a release, and so does a
 * failure: what is left is released in the end. */
void *kb_new(size_t bytes);
void kb_delete(void *memory);
void *kb_resize(void *memory, size_t bytes);

/* malloc and realloc of derivatives of Numba kernels: they fail as kb_thrown does. */
void *kb_malloc_or_fail(size_t bytes);
void *kb_realloc_or_fail(void *memory, size_t bytes);

#endif
