/* Variables of device code. On a GPU, every device has its own, and calls on one device come one
 * after the other: here, every device that calls such code gets a copy of the code, and a lock. Any
 * thread may call. */
#ifndef KB_VARIABLES_H
#define KB_VARIABLES_H

#include "abi/kb_xla.h"
#include "core/kb_error.h"

#include <stddef.h>

typedef struct kb_variables kb_variables; /* of some code; never freed */
typedef struct kb_variables_copy kb_variables_copy;

/* Makes one more copy of code, and finds the address there of what `first` is in the first copy. */
typedef kb_status kb_variables_maker(const kb_xla_bytes *bytes, void **place, kb_error *err);

/* Looks for variables, beside kernbridge's own and constants, in the library in which `first` is,
 * and which has just been opened. */
kb_status kb_variables_note(const void *first, kb_variables_maker *make, kb_error *err);

/* For code with variables, in which `first` is any place; the bytes are copied. NULL without
 * memory. */
kb_variables *kb_variables_new(const void *first, const kb_xla_bytes *bytes,
                               kb_variables_maker *make);

/* Of the library in which an address is; NULL if none were found. */
kb_variables *kb_variables_of(const void *code);

/* Waits until no other call is on the device of a frame (or NULL); `*offset` leads from addresses
 * in the first copy to those in the device's. */
kb_status kb_variables_enter(kb_variables *v, const kb_xla_frame *xla, kb_variables_copy **copy,
                             ptrdiff_t *offset, kb_error *err);
void kb_variables_leave(kb_variables_copy *copy);

#endif
