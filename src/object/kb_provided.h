/* The functions that machine code without a compiler may call. Any thread may enter. */
#ifndef KB_PROVIDED_H
#define KB_PROVIDED_H

/* The address of a function, or NULL if it is not among those: a kb_object_resolver. Not all that
 * the process has is offered. What LLVM and Numba call for arithmetic and for memory means the same
 * in every process; other names may be functions of a library that happens to be loaded. */
void *kb_provided_find(const char *name);

/* The same, of the C library's functions alone: of libm, for memory, and of libmvec, which glibc
 * has for some processors. */
void *kb_provided_of_c(const char *name);

#endif
