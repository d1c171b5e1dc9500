/* The checked mode of kernels on the CPU. Their code asks about every access and every index; what
 * is wrong ends the block with a fault that names array, index and place in the source.
 *
 * An address that a kernel gets carries the number of its array in bits 48 to 62, through all
 * arithmetic on it, and is turned into one of memory at the access alone. So an access is measured
 * by the array that it was meant for, whatever lies beside it. */
#ifndef KB_CHECK_H
#define KB_CHECK_H

#include "hostcuda/kb_block.h"
#include "hostcuda/kb_race.h"

enum { KB_CHECK_DIMS = 32, KB_CHECK_TAG_SHIFT = 48 };

/* What is to be known of a kernel. The generated code has these tables, laid out as C does. */
typedef struct kb_check_array {
    const char *name; /* with its type, as messages have it */
    uint32_t item_size;
    uint32_t n_dims; /* of arguments */
    uint32_t word;   /* arguments: the parameter with its address; extents and strides follow */
    uint32_t flags;
    uint64_t offset, size; /* shared arrays: bytes; local ones have a size alone */
    const int64_t *shape;  /* of shared and local arrays; or NULL */
    uint64_t cell;         /* bytes of an item that are written together */
} kb_check_array;

enum {
    KB_CHECK_BATCHED = 1u << 0,  /* behind the address: bytes from slice to slice */
    KB_CHECK_STRIDED = 1u << 1,  /* behind the extents: strides in bytes */
    KB_CHECK_CONSTANT = 1u << 2, /* nothing writes to it: no races */
    KB_CHECK_DYNAMIC = 1u << 3,  /* shared: the size is the launch's */
};

typedef struct kb_check_table {
    const char *kernel;
    const kb_check_array *arrays; /* arguments, shared arrays, local arrays */
    uint32_t n_arguments, n_shared, n_local;
    uint32_t n_sites;
    const char *const *sites; /* "file:line" of each place, or ""; behind KB_CHECK_TEXT its text */
    uint64_t waits;           /* whether threads may wait for each other */
} kb_check_table;

enum { KB_CHECK_TEXT = '\t' };

/* What generated code reads of an array at each access: where it lies at present, and whether
 * accesses inside of it are to be reported. An address without a number has row 0. */
typedef struct kb_check_row {
    uint64_t first, size; /* bytes of memory; where size is 0, see kb_check_ask */
    kb_race_cell *cells;  /* or NULL: nothing is remembered of it */
    uint32_t unit;        /* bytes of a cell, a power of 2 */
    uint32_t since;       /* a read of what was not written since then is looked at closer */
} kb_check_row;

typedef struct kb_check_rows {
    uint64_t n;
    uint64_t unused[3];
    kb_check_row of[];
} kb_check_rows;

typedef struct kb_checks kb_checks;

/* What a launch keeps of accesses. NULL without memory. */
kb_checks *kb_checks_new(const kb_check_table *table, const uint32_t sizes[6],
                         uint32_t dynamic_shared, void *const *parameters, bool is_cooperative);
void kb_checks_free(kb_checks *checks);

/* A block begins, or goes on behind a barrier of the grid. */
void kb_checks_enter(kb_checks *checks, const kb_block *block);

/* All blocks have come to a barrier of the grid, or to their ends. */
void kb_checks_phase(kb_checks *checks);

/* A thread that reads shared memory which none has written may go on: where a barrier is missing, a
 * race will be found before the next one, and be reported in its place. Now all have come to a
 * barrier or to their ends, or cannot go on: such a read, if there was one, is a fault. */
void kb_checks_settle(kb_checks *checks);

/* All threads of the block have come to a barrier; lanes to one of their warp. */
void kb_checks_barrier(kb_checks *checks);
void kb_checks_warp_barrier(kb_checks *checks, uint32_t warp, uint32_t lanes);

/* A thread polls, see kb_poll: the block ends if none of its threads has done anything else for
 * long. */
void kb_checks_poll(kb_thread *thread, uint32_t again);

/* A lane reads another one, which does not take part, in a shuffle. Does not return. */
_Noreturn void kb_checks_shuffle(kb_thread *thread, uint32_t from);

/* A thread comes to the block's barrier, or to its end, while others may wait. */
void kb_checks_arrive(kb_thread *thread);
void kb_checks_end(kb_thread *thread);

typedef enum kb_access {
    KB_ACCESS_READ,
    KB_ACCESS_WRITE,
    KB_ACCESS_ATOMIC,
    KB_ACCESS_WRITE_VALUE, /* a write that comes with what will be there */
} kb_access;

/* An access and its place in one number. */
enum { KB_CHECK_KINDS = 4 };
#define KB_CHECK_HOW(kind, site) ((uint32_t)(kind) | (uint32_t)(site)*KB_CHECK_KINDS)

/* What compiled kernels call. The arrays, for the time of the launch; addresses with an array's
 * number for the shared or local array `which`; */
const kb_check_rows *kb_check_rows_of(kb_thread *thread);
void *kb_check_shared_array(kb_thread *thread, uint32_t which);
void *kb_check_local_array(kb_thread *thread, void *memory, uint32_t which);

/* what an address becomes that a wrong index made: one that carries a number of its own, through
 * all arithmetic on it, so that accesses by it are faults, and nothing else is; */
void *kb_check_wrong(kb_thread *thread, void *made, int64_t index, int64_t extent, uint32_t axis);

/* an access inside of an array whose row has cells, `offset` bytes from its beginning. `value` has
 * the bytes that will be written, of at most 8; */
void kb_check_touch(kb_thread *thread, uint64_t row, uint64_t offset, uint64_t size, uint32_t how,
                    uint64_t value);

/* memory for any other access; */
void *kb_check_ask(kb_thread *thread, const void *given, uint64_t size, uint32_t how,
                   uint64_t value);

/* a fence; and a barrier of the grid, to which the thread will come. */
void kb_check_fenced(kb_thread *thread);
void kb_check_grid(kb_thread *thread);

#endif
