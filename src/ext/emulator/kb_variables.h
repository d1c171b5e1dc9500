/* Variables of device code. On a GPU, every device has its own, and calls on one device come one
 * after the other: here, every device that calls such code gets a copy of the code, and a lock. Any
 * thread may call. */
#ifndef KB_VARIABLES_H
#define KB_VARIABLES_H

#include "abi/kb_xla.h"
#include "core/kb_error.h"

#include <pthread.h>

typedef struct kb_variables kb_variables; /* of some code; never freed */

typedef struct kb_variables_copy {
    struct kb_variables_copy *next;
    int32_t device;
    ptrdiff_t offset;     /* from addresses in the first copy to those in this one */
    pthread_mutex_t lock; /* held by a call, which releases it */
} kb_variables_copy;

/* Makes a copy, and finds there what `first` is in the first one. */
typedef kb_status kb_variables_maker(const kb_xla_bytes *bytes, void **place, kb_error *err);

/* For code that has variables; the bytes are copied. NULL without memory. */
kb_variables *kb_variables_new(const void *first, const kb_xla_bytes *bytes,
                               kb_variables_maker *make);

/* Looks for variables in the library that was just opened, and whose `kb_cuda_host_slot` this is.
 */
kb_status kb_variables_note(const void *slot, kb_error *err);

/* Of the library in which an address is; NULL if none were found. */
kb_variables *kb_variables_of(const void *code);

/* The copy of the device of a frame, or of NULL, once no other call uses it; NULL after an error.
 */
kb_variables_copy *kb_variables_enter(kb_variables *v, const kb_xla_frame *xla, kb_error *err);

#define KB_MOVED(p, copy) ((p) ? (__typeof__(p))((uintptr_t)(p) + (uintptr_t)(copy)->offset) : NULL)

/* Opens a library from memory. */
kb_status kb_variables_open(const kb_xla_bytes *bytes, void **library, kb_error *err);

#endif
