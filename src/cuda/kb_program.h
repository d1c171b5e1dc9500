/* A GPU program as bytes: what a call carries, so that it runs in a process that has neither Numba
 * nor the kernel's source. Written by kernbridge/_src/plan/program.py, read here; input, not trust.
 * The head is described in kb_checksum.h: what follows is compared with its SHA-256 before it is
 * read, and so is the digest of the kernel that it belongs to, since most bits of a launch may have
 * either value.
 *
 * Little-endian, without padding. u8, u32, i32, i64: numbers. text: u32 size, bytes (UTF-8, without
 * NUL). value: u32 kind, u32 buffer, u32 axis, u32 divisor, i64 constant (see kb_step.h).
 *
 *     "KBCU", u32 version, u8[32] SHA-256
 *     text name, text source
 *     u32 n_inputs, u32 n_outputs, u32 n_hidden, for each: i32 dtype, i32 rank, text name
 *     u32 n_functions, for each:
 *         u8[32] digest, text entry, u32 n_words, u32 shared
 *         u32 n_sizes, for each: u32 size (of a parameter; none where each is a word)
 *         u32 n_images, for each: u32 cc, u32 size, bytes
 *     u32 n_steps, for each: u32 kind, u32 wide, then
 *         launch: u32 function, value[3] grid, u32[3] block, u32[3] cluster, u32 shared, u32 flags,
 *                 u32 n_words, for each: u32 kind, u32 buffer, u32 axis, i64 value, i64 reach
 *                 u32 n_zeroed, for each: u32 buffer
 *         fill: u32 buffer, u32 item_size, i64 offset, value count, i64[2] pattern
 *         copy: u32 to, u32 from, i64 to_offset, i64 from_offset, value size
 *         callback: i64 handle (only in this process; refused from a program that XLA carries) */
#ifndef KB_PROGRAM_H
#define KB_PROGRAM_H

#include "core/kb_error.h"
#include "core/kb_kernel.h"

#include <stdbool.h>

#define KB_PROGRAM_MAGIC "KBCU"
enum { KB_PROGRAM_VERSION = 5 };

/* Reads a program into a kernel description whose owner the caller takes over: give it to the
 * registry, or free it with kernel->free_owner(kernel->owner). Every index is checked against the
 * program's own counts; extents and offsets are checked again at each call. KB_INVALID_ARGUMENT for
 * bytes that are no program, KB_FAILED_PRECONDITION for those of another version. `bytes` may go
 * afterwards. */
kb_status kb_program_read(const void *bytes, size_t size, const uint8_t digest[KB_DIGEST_SIZE],
                          bool callbacks, kb_kernel *kernel, kb_error *err);

#endif
