/* Runs a native function of the host on the buffers of a frame. Any thread may enter. */
#ifndef KB_HOST_H
#define KB_HOST_H

#include "abi/kb_numba.h"
#include "core/kb_error.h"
#include "core/kb_frame.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Calls the step's entry. A status other than KB_NUMBA_OK becomes KB_INTERNAL with the exception's
 * text. */
kb_status kb_host_run(const kb_host_step *step, const kb_frame *frame, kb_error *err);

/* Turns what a failed entry left behind into text (at most `capacity` bytes, NUL-terminated) and
 * releases it. `exception` may be NULL; `source` is where the kernel is defined. */
typedef void kb_host_decoder(int32_t status, void *exception, const char *source, char *text,
                             size_t capacity);

/* Until one is set, messages hold the status alone. The decoder stays for the process's life. */
extern _Atomic(kb_host_decoder *) kb_host_decode;

/* How kernels with Numba's `parallel=True` run; called before the first. The number of threads is
 * per thread in Numba, so it is set around each call and put back. `exclusive`: one at a time,
 * since the workqueue layer aborts the process otherwise. */
void kb_host_set_threading(int (*get_num_threads)(void), void (*set_num_threads)(int),
                           bool exclusive);

/* Threads of every parallel kernel from the next call on; 0: each kernel's own number. */
extern _Atomic(int) kb_host_num_threads;

/* The exceptions of native code that came without the compiler that made it: their texts are in
 * the code, and the lines where they happen in a table beside it. */

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

/* Set by the extension module, before any code is loaded; NULL without Python. */
extern _Atomic(kb_failures_writer *) kb_failures_write;

#endif
