/* Machine code of a kernel as a compiler wrote it: a relocatable ELF object for this processor,
 * placed in memory of this process without a linker. Nobody vouches for the bytes: a header, a
 * symbol or a relocation that leaves the object is an error, and so is one that is not known. What
 * the instructions do is not examined: load only code that may run.
 *
 * Supported is what LLVM and GCC write for position-independent C on x86-64 and aarch64;
 * thread-local variables and constructors are refused. Any thread may enter. */
#ifndef KB_OBJECT_H
#define KB_OBJECT_H

#include "core/kb_error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct kb_object kb_object;

/* The address of a function or a variable that the object uses and does not define; NULL if there
 * is none of that name. */
typedef void *kb_object_resolver(const char *name);

/* Places a copy of the object's code and data, resolves its symbols, and makes the code executable
 * and no longer writable. `what` names it in errors. On success `*object` is owned by the caller.
 *
 * KB_INVALID_ARGUMENT for bytes that are no such object, KB_FAILED_PRECONDITION for another
 * processor, KB_NOT_FOUND for a symbol that `resolve` does not have, KB_UNIMPLEMENTED for what is
 * not supported, KB_RESOURCE_EXHAUSTED when there is no memory. */
kb_status kb_object_load(const void *bytes, size_t size, const char *what,
                         kb_object_resolver *resolve, kb_object **object, kb_error *err);

/* kb_object_load for code that needs features of the processor (kb_cpu.h). Every error of an object
 * that is whole, and made for another machine or another kernbridge, is KB_FAILED_PRECONDITION. */
kb_status kb_object_place(uint64_t features, const void *bytes, size_t size, const char *what,
                          kb_object_resolver *resolve, kb_object **object, kb_error *err);

/* The address of a global symbol that the object defines; NULL if there is none of that name. */
void *kb_object_find(const kb_object *object, const char *name);

/* Walks over the global symbols that the object defines: `*at` is 0 before the first, and false is
 * returned after the last. */
bool kb_object_next(const kb_object *object, size_t *at, const char **name, void **address);

/* Whether it has memory that its code may change, so that calls of it are not independent. */
bool kb_object_has_variables(const kb_object *object);

/* Whether it uses a function or a variable of this name without defining it. */
bool kb_object_uses(const kb_object *object, const char *name);

/* The memory that it takes. */
size_t kb_object_size(const kb_object *object);

/* Takes the code out of memory; nothing may run it any more. NULL is allowed. */
void kb_object_free(kb_object *object);

#endif
