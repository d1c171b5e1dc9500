/* A kernel for the CPU whose machine code comes with its description: from the disk cache, or in
 * the attribute `program` of a call. Any thread may enter, without Python.
 *
 * On the wire, numbers little-endian, texts a number of bytes and the bytes:
 *
 *     "KBHC", u32 KB_HOST_CODE_VERSION
 *     32 bytes: SHA-256 of the kernel's identity (the call's digest), then of all that follows
 *     i64 features of the processor that the code needs, a set of kb_cpu.h
 *     text name, text source
 *     u32 inputs, u32 outputs, u32 hidden results; each: u32 dtype, u32 rank, text name
 *     u32 lines; each: u32 status, text place (core/kb_host.h)
 *     u32 size, the relocatable object, which defines the function KB_HOST_CODE_ENTRY */
#ifndef KB_HOST_CODE_H
#define KB_HOST_CODE_H

#include "abi/kb_xla.h"
#include "core/kb_error.h"
#include "core/kb_handler.h"
#include "core/kb_kernel.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KB_HOST_CODE_VERSION = 3 };

#define KB_HOST_CODE_MAGIC "KBHC"
#define KB_HOST_CODE_ENTRY "kb_entry"

/* Reads a kernel and places its code in memory, unless `step`, which may be NULL, is what it runs.
 * On success the caller hands the kernel to a registry, or frees its owner. KB_INVALID_ARGUMENT if
 * the bytes are damaged or belong to another kernel; KB_FAILED_PRECONDITION, with what is missing,
 * if they are whole and cannot run here; KB_RESOURCE_EXHAUSTED. */
kb_status kb_host_code_read(const void *bytes, size_t size, const uint8_t digest[KB_DIGEST_SIZE],
                            const kb_host_step *step, kb_kernel *kernel, kb_error *err);

/* Reads and registers a kernel. `local` is the kb_host_step of one that this process has compiled,
 * whose description has no code. */
kb_handler_loader kb_host_code_register;

#endif
