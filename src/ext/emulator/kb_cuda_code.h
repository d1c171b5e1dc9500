/* Machine code of a CUDA kernel for the CPU, as an image of a program (cuda/kb_program.h) beside
 * the image of its LLVM IR. Any thread may enter, without Python.
 *
 * On the wire, numbers little-endian:
 *
 *     "KBCC", u32 KB_HOSTCUDA_ABI of the compiler
 *     32 bytes: SHA-256 of the digits of the IR's digest, then of all that follows
 *     i64 features of the processor that the code needs, a set of kb_cpu.h
 *     u32 form: 0 if the object defines kb_blocks; 1 if it defines kb_fibre; 2 if, besides, threads
 *     wait for all of a grid (ext/emulator/kb_hostcuda.h)
 *     u32 bytes of shared memory that a block takes, u32 bytes of stack that a thread takes
 *     the relocatable object, to the end; for the checked mode it defines kb_check_table */
#ifndef KB_CUDA_CODE_H
#define KB_CUDA_CODE_H

#include "core/kb_error.h"
#include "ext/emulator/kb_hostcuda.h"
#include "kernbridge/cuda_host.h"
#include "object/kb_object.h"

#include <stddef.h>

#define KB_CUDA_CODE_MAGIC "KBCC"

/* What code of this kind may call: a kb_object_resolver. */
void *kb_cuda_code_find(const char *name);

/* The library of one kernel in CUDA C++, in place of machine code: the same head; u32 1 if the grid
 * is cooperative; the library. */
#define KB_CUDA_LIBRARY_MAGIC "KBCL"

/* A kb_hostcuda_loader of both: places the code of the IR of this digest, and makes it known
 * (kb_hostcuda_add), with the object, a kb_object, or the kb_cuda_kernel of the library as owner.
 * `what` names the operation. KB_INVALID_ARGUMENT if the bytes are damaged or belong to other IR;
 * KB_FAILED_PRECONDITION, with what is missing, if they are whole and cannot run here. */
kb_status kb_cuda_code_load(const char digest[KB_HOSTCUDA_DIGEST], const void *bytes, size_t size,
                            const char *what, kb_error *err);

/* Connects a library of CUDA C++ that was compiled for the CPU with what it may call, see
 * kernbridge/cuda_host.h. KB_OK if it is of another kind; KB_INVALID_ARGUMENT if it is of another
 * version. */
kb_status kb_cuda_host_connect(void *library, kb_error *err);

/* Variables of device code. On a GPU, every device has its own, and calls on one device come one
 * after the other: here, every device that calls such code gets a copy of the code, and a lock.
 * This makes a copy, and finds there what `first` is in the first one. */
typedef kb_status kb_variables_maker(const kb_xla_bytes *bytes, void **place, kb_error *err);

/* For code that has variables; the bytes are copied. NULL without memory. */
kb_variables *kb_variables_new(const void *first, const kb_xla_bytes *bytes,
                               kb_variables_maker *make);

/* Looks for variables in the library that was just opened, whose `kb_cuda_host_slot` this is. */
kb_status kb_variables_note(const void *slot, kb_error *err);

/* Of the library in which an address is; NULL if none were found. */
kb_variables *kb_variables_of(const void *code);

#endif
