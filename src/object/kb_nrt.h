/* The memory of machine code that Numba made, for a process without Numba: what its runtime's
 * functions of these names do. Arrays, lists and strings that a kernel makes live in such memory,
 * and none of them outlives the call. Any thread may enter. */
#ifndef KB_NRT_H
#define KB_NRT_H

#include <stddef.h>

/* What the code calls to release memory: the data, its size, and `info` of the memory. */
typedef void kb_nrt_destructor(void *data, size_t size, void *info);

/* Numba's MemInfo (0.60 to 0.68): the code counts references and reads `data` without a call. */
typedef struct kb_nrt_memory {
    size_t references;
    kb_nrt_destructor *destructor;
    void *info;
    void *data;
    size_t size;
    void *external; /* an allocator; always NULL here */
} kb_nrt_memory;

/* NRT_MemInfo_alloc, _alloc_dtor and _alloc_aligned: memory with its data after it, referred to
 * once. NULL when there is no memory, as of all below. NRT_Allocate and NRT_Free are malloc and
 * free.
 */
kb_nrt_memory *kb_nrt_new(size_t size);
kb_nrt_memory *kb_nrt_new_with(size_t size, kb_nrt_destructor *destructor);
kb_nrt_memory *kb_nrt_new_aligned(size_t size, unsigned alignment);

/* NRT_MemInfo_new_varsize and its like: memory whose data lies apart, and may be another one. The
 * destructor of an element takes only the data. */
kb_nrt_memory *kb_nrt_new_varsize(size_t size);
kb_nrt_memory *kb_nrt_new_varsize_with(size_t size, kb_nrt_destructor *of_element);
void *kb_nrt_varsize_allocate(kb_nrt_memory *memory, size_t size);
void *kb_nrt_varsize_resize(kb_nrt_memory *memory, size_t size);
void kb_nrt_varsize_free(kb_nrt_memory *memory, void *data);

/* NRT_MemInfo_call_dtor: releases memory that nothing refers to. */
void kb_nrt_destroy(kb_nrt_memory *memory);

#endif
