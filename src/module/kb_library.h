/* A function of a module built from C or C++ whose library comes with the call that needs it, in
 * the attribute `program`. Any thread may enter, without Python.
 *
 * The library is opened as any other is: its constructors run, and nothing of what it does is
 * examined. It is written to memory, not to a file, and stays open for the life of the process;
 * functions whose libraries have the same bytes share one.
 *
 * On the wire, numbers little-endian, texts a number of bytes and the bytes:
 *
 *     "KBSO", u32 KB_LIBRARY_VERSION
 *     32 bytes: SHA-256 of the kernel's identity (the call's digest), then of all that follows
 *     text name, text source
 *     u32 inputs, u32 outputs, u32 0; each buffer: u32 dtype, u32 rank, text name
 *     text name of the function in the module's description, u32 1 if outputs are zeroed first
 *     u32 attributes; each: u32 size, bytes
 *     u32 size, the library */
#ifndef KB_LIBRARY_H
#define KB_LIBRARY_H

#include "abi/kb_xla.h"
#include "core/kb_error.h"
#include "core/kb_handler.h"
#include "module/kb_source.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KB_LIBRARY_VERSION = 2 };

#define KB_LIBRARY_MAGIC "KBSO"

/* Opens a library from memory, once for each content. */
kb_status kb_library_open(const kb_xla_bytes *bytes, void **library, kb_error *err);

/* Opens the library and registers the function. KB_INVALID_ARGUMENT if the bytes are damaged or
 * belong to another kernel; KB_FAILED_PRECONDITION, with the reason, if they are whole and cannot
 * run here; KB_RESOURCE_EXHAUSTED. `local` is the kb_source_step of a function in a library that
 * this process has opened: it has all but the attributes, which the description has, and the
 * description has no library. */
kb_handler_loader kb_library_register;

#endif
