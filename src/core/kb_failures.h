/* The exceptions of native code that came without the compiler that made it: their texts are in
 * the code, and the lines where they happen in a table beside it. Any thread may enter. */
#ifndef KB_FAILURES_H
#define KB_FAILURES_H

#include "abi/kb_numba.h"
#include "core/kb_error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A status that the code returns, and the line of the user's file that it stands for. */
typedef struct kb_failure_place {
    int32_t status;
    const char *text; /* e.g. "in f at op.py:7" */
} kb_failure_place;

typedef struct kb_failures {
    uint32_t n_places;
    const kb_failure_place *places;
} kb_failures;

/* Appends to the error's message what a failed entry left behind, and releases it. The `pickle` of
 * a record is two texts here, each ending with NUL: the type and message of the exception, then its
 * place, which is empty if it has none. A place in the table goes first; `source` is where the
 * kernel is defined, for an exception without a place. `record` may be NULL.
 *
 * Where `dynamic` > 0, `unwrap` returns a tuple of Python, and in the message stands for each value
 * KB_FAILURES_VALUE, its index in decimal digits, and 's' for str() or 'r' for repr(). Without
 * Python, the message has "..." in place of the values. */
enum { KB_FAILURES_VALUE = 1 };

void kb_failures_describe(const kb_failures *failures, int32_t status, kb_numba_exception *record,
                          const char *source, kb_error *err);

/* Writes the message of such a record with its values, in `capacity` bytes with a NUL at the end.
 * False if Python has ended. */
typedef bool kb_failures_writer(kb_numba_exception *record, char *text, size_t capacity);

/* Set by the extension module, before any code is loaded. */
void kb_failures_set_writer(kb_failures_writer *fn);
kb_failures_writer *kb_failures_get_writer(void);

#endif
