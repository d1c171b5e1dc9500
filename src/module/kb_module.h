/* A shared library that kernbridge, or its user, built. Never closed: XLA may call it. */
#ifndef KB_MODULE_H
#define KB_MODULE_H

#include "abi/kb_xla.h"
#include "core/kb_error.h"
#include "kernbridge/module.h"

/* Opens the library. Closes it again if one of its static constructors threw. */
kb_status kb_module_open(const char *path, void **library, kb_error *err);

/* The same for the bytes of a library, which are written to memory, not to a file. */
kb_status kb_module_open_bytes(const kb_xla_bytes *bytes, void **library, kb_error *err);

/* The module as the generated glue describes it; NULL if it has none, KB_INVALID_ARGUMENT if it is
 * of another version, or KB_FAILED_PRECONDITION if one of its static constructors threw. */
kb_status kb_module_describe(void *library, const kb_module **module, kb_error *err);

#endif
