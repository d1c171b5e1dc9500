/* Variables of device code. On a GPU, every device has its own, and calls on one device come one
 * after the other: here, every device that calls such code gets a copy of the code, and a lock. Any
 * thread may call. */
#ifndef KB_VARIABLES_H
#define KB_VARIABLES_H

#include "core/kb_extension.h"

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

#endif
