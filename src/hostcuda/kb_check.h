/* The checked mode of kernels on the CPU. Their code asks about every access and every index; what
 * is wrong ends the block with a fault that names array, index and place in the source.
 *
 * An address that a kernel gets carries the number of its array in bits 48 to 62, through all
 * arithmetic on it, and is turned into one of memory at the access alone. So an access is measured
 * by the array that it was meant for, whatever lies beside it. */
#ifndef KB_CHECK_H
#define KB_CHECK_H

#include "hostcuda/kb_block.h"

enum { KB_CHECK_DIMS = 32 };

/* What is to be known of a kernel. The generated code has these tables, laid out as C does. */
typedef struct kb_check_array {
    const char *name; /* with its type, as messages have it */
    uint32_t item_size;
    uint32_t n_dims; /* of arguments */
    uint32_t word;   /* arguments: the parameter with its address; extents and strides follow */
    uint32_t flags;
    uint64_t offset, size; /* shared arrays: bytes; local ones have a size alone */
    const int64_t *shape;  /* of shared and local arrays; or NULL */
} kb_check_array;

enum {
    KB_CHECK_BATCHED = 1u << 0,  /* behind the address: bytes from slice to slice */
    KB_CHECK_STRIDED = 1u << 1,  /* behind the extents: strides in bytes */
    KB_CHECK_CONSTANT = 1u << 2, /* nobody writes to it: no races */
    KB_CHECK_DYNAMIC = 1u << 3,  /* shared: the size is the launch's */
};

typedef struct kb_check_table {
    const char *kernel;
    const kb_check_array *arrays; /* arguments, shared arrays, local arrays */
    uint32_t n_arguments, n_shared, n_local;
    uint32_t n_sites;
    const char *const *sites; /* "file:line" of each place, or "" */
} kb_check_table;

typedef struct kb_checks kb_checks;

/* What a launch keeps of accesses. NULL without memory. */
kb_checks *kb_checks_new(const kb_check_table *table, const uint32_t sizes[6],
                         uint32_t dynamic_shared, void *const *parameters);
void kb_checks_free(kb_checks *checks);

/* Of the block: it begins; all have come to a barrier; lanes to one of their warp. */
void kb_checks_begin(kb_checks *checks);
void kb_checks_barrier(kb_checks *checks);
void kb_checks_warp_barrier(kb_checks *checks, uint32_t warp, uint32_t lanes);

/* A thread comes to the block's barrier, or to its end, while others may wait. */
void kb_checks_arrive(kb_thread *thread);
void kb_checks_end(kb_thread *thread);

/* " (at file:line)", or "". */
const char *kb_checks_place(const kb_thread *thread, uint32_t site, char text[], size_t size);

typedef enum kb_access { KB_ACCESS_READ, KB_ACCESS_WRITE, KB_ACCESS_ATOMIC } kb_access;

/* What compiled kernels call. Addresses with an array's number for the argument, shared or local
 * array `which`; */
uint64_t kb_check_argument(kb_thread *thread, uint64_t address, uint32_t which);
void *kb_check_shared(kb_thread *thread, uint32_t which);
void *kb_check_local(kb_thread *thread, void *memory, uint32_t which);

/* an index before it is used, and the address that it makes: after a wrong one, an address that
 * carries a number of its own, through all arithmetic on it, so that accesses by it are faults,
 * and nothing else is; */
void kb_check_index(kb_thread *thread, int64_t index, int64_t extent, uint32_t axis);
void *kb_check_pointer(kb_thread *thread, void *made);

/* memory for an access of `size` bytes; `how` is a kb_access. `value` is what will be written
 * there, or NULL; */
void *kb_check_access(kb_thread *thread, const void *given, uint64_t size, uint32_t how,
                      uint32_t site, const void *value);

/* and a fence. */
void kb_check_fence(kb_thread *thread);

#endif
