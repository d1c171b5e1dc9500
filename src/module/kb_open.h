/* Opens shared libraries of kernels. Any thread may call. */
#ifndef KB_OPEN_H
#define KB_OPEN_H

#include "abi/kb_xla.h"
#include "core/kb_error.h"

/* Opens the library. Closes it again if one of its static constructors threw. */
kb_status kb_module_open(const char *path, void **library, kb_error *err);

/* Opens a copy of a library from memory, with variables of its own. */
kb_status kb_open_bytes(const kb_xla_bytes *bytes, void **library, kb_error *err);

#endif
