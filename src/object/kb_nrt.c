/* Owns the memory of kernels without Numba. */
#include "object/kb_nrt.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A meminfo that is followed by `size` bytes, and their address. */
static kb_nrt_memory *with_data(size_t size, kb_nrt_destructor *destructor, void *info)
{
    if (size > SIZE_MAX - sizeof(kb_nrt_memory))
        return NULL;
    kb_nrt_memory *m = malloc(sizeof *m + size);
    if (m)
        *m = (kb_nrt_memory){
            .references = 1, .destructor = destructor, .info = info, .data = m + 1, .size = size};
    return m;
}

kb_nrt_memory *kb_nrt_new(size_t size)
{
    return with_data(size, NULL, NULL);
}

/* Numba's own functions store a destructor as `info`, and call it without. */
static void call_destructor(void *data, size_t size, void *info)
{
    kb_nrt_destructor *destructor = (kb_nrt_destructor *)(uintptr_t)info;
    if (destructor)
        destructor(data, size, NULL);
}

kb_nrt_memory *kb_nrt_new_with(size_t size, kb_nrt_destructor *destructor)
{
    return with_data(size, call_destructor, (void *)(uintptr_t)destructor);
}

kb_nrt_memory *kb_nrt_new_aligned(size_t size, unsigned alignment)
{
    if (alignment == 0 || size > SIZE_MAX - alignment)
        return NULL;
    kb_nrt_memory *m = with_data(size + alignment, NULL, NULL);
    if (!m)
        return NULL;
    size_t beyond = (size_t)((uintptr_t)m->data % alignment);
    m->data = (char *)m->data + (beyond ? alignment - beyond : 0);
    m->size = size;
    return m;
}

static void destroy_varsize(void *data, size_t size, void *info)
{
    (void)size;
    void (*of_element)(void *) = (void (*)(void *))(uintptr_t)info;
    if (of_element)
        of_element(data);
    free(data);
}

kb_nrt_memory *kb_nrt_new_varsize(size_t size)
{
    return kb_nrt_new_varsize_with(size, NULL);
}

kb_nrt_memory *kb_nrt_new_varsize_with(size_t size, kb_nrt_destructor *of_element)
{
    void *data = malloc(size);
    kb_nrt_memory *m = data ? with_data(0, destroy_varsize, (void *)(uintptr_t)of_element) : NULL;
    if (!m) {
        free(data);
        return NULL;
    }
    m->data = data;
    m->size = size;
    return m;
}

void *kb_nrt_varsize_allocate(kb_nrt_memory *memory, size_t size)
{
    memory->data = malloc(size);
    if (memory->data)
        memory->size = size;
    return memory->data;
}

void *kb_nrt_varsize_resize(kb_nrt_memory *memory, size_t size)
{
    void *data = malloc(size);
    if (!data)
        return NULL;
    if (memory->data)
        memcpy(data, memory->data, size < memory->size ? size : memory->size);
    free(memory->data);
    memory->data = data;
    memory->size = size;
    return data;
}

void kb_nrt_varsize_free(kb_nrt_memory *memory, void *data)
{
    free(data);
    if (data == memory->data)
        memory->data = NULL;
}

void kb_nrt_destroy(kb_nrt_memory *memory)
{
    if (memory->destructor)
        memory->destructor(memory->data, memory->size, memory->info);
    free(memory);
}
