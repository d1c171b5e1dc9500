/* Owns what generated code relies on: the layouts, the numbers and the functions of C that the
 * Python package writes into LLVM IR, and the names under which compiled kernels find these. What
 * does not compile here must change there too; if images for the CPU are concerned, KB_HOSTCUDA_ABI
 * is raised as well, so that a program that was exported before is refused. */
#include "ext/emulator/kb_hostcuda.h"

#include "ext/emulator/kb_check.h"
#include "object/kb_reshape.h"

#include <stddef.h>

#define AT(type, member, offset)                                                                   \
    _Static_assert(offsetof(type, member) == (offset), #type "." #member)
#define AT2(type, a, at_a, ...)                                                                    \
    AT(type, a, at_a);                                                                             \
    AT(type, __VA_ARGS__)
#define AT4(type, a, at_a, b, at_b, ...)                                                           \
    AT2(type, a, at_a, b, at_b);                                                                   \
    AT2(type, __VA_ARGS__)
#define SAME(constant, number) _Static_assert((constant) == (number), #constant)
#define CALLED_AS(function, ...)                                                                   \
    _Static_assert(_Generic(&(function), __VA_ARGS__ : 1, default : 0), #function)

/* CUDA on the CPU: a thread, and how it is run. The twelve numbers of tid, ntid, ctaid and nctaid
 * lie behind each other. */
AT4(kb_thread, tid, 0, ntid, 12, ctaid, 24, nctaid, 36);
AT2(kb_thread, shared, 48, dynamic_shared, 56);
AT(kb_thread, lane, 60);
SAME(sizeof(kb_thread), 192);
SAME(KB_WARP, 32);
SAME(KB_HOSTCUDA_THREADS_MAX, 1024); /* masks of indices: 1023, of extents: 2047 */
CALLED_AS(*(kb_hostcuda_blocks *)NULL,
          void (*)(void *const *, const uint32_t[6], int64_t, int64_t, const char **));
CALLED_AS(*(kb_block_entry *)NULL, void (*)(void *const *, kb_thread *));

/* Forms of a barrier. */
SAME(KB_REDUCE_COUNT, 0);
SAME(KB_REDUCE_AND, 1);
SAME(KB_REDUCE_OR, 2);

/* Checked mode: rows of arrays, and the table. */
AT4(kb_check_array, name, 0, item_size, 8, n_dims, 12, word, 16);
AT4(kb_check_array, flags, 20, offset, 24, size, 32, shape, 40);
AT(kb_check_array, cell, 48);
SAME(sizeof(kb_check_array), 56);
AT4(kb_check_table, kernel, 0, arrays, 8, n_arguments, 16, n_shared, 20);
AT4(kb_check_table, n_local, 24, n_sites, 28, sites, 32, waits, 40);
SAME(KB_CHECK_TEXT, '\t');
SAME(KB_CHECK_TAG_SHIFT, 48);
AT2(kb_check_rows, n, 0, of, 32);
AT2(kb_check_row, first, 0, size, 8);
AT(kb_check_row, cells, 16);
SAME(sizeof(kb_check_row), 32);
SAME(KB_CHECK_BATCHED, 1);
SAME(KB_CHECK_STRIDED, 2);
SAME(KB_CHECK_CONSTANT, 4);
SAME(KB_CHECK_DYNAMIC, 8);
SAME(KB_ACCESS_READ, 0);
SAME(KB_ACCESS_WRITE, 1);
SAME(KB_ACCESS_ATOMIC, 2);
SAME(KB_ACCESS_WRITE_VALUE, 3);
SAME(KB_CHECK_KINDS, 4);

/* A function with its type, without which this does not compile. */
#define CALLED(function, ...) KB_SYMBOL(#function, _Generic(&(function), __VA_ARGS__ : &(function)))

const kb_symbol kb_hostcuda_symbols[] = {
    /* What a thread calls, to wait for others and besides. */
    CALLED(kb_barrier, void (*)(kb_thread *, uint32_t)),
    CALLED(kb_barrier_reduce, uint32_t (*)(kb_thread *, uint32_t, uint32_t, uint32_t)),
    CALLED(kb_warp_barrier, void (*)(kb_thread *, uint32_t, uint32_t)),
    CALLED(kb_shuffle,
           uint64_t (*)(kb_thread *, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t)),
    CALLED(kb_vote, uint64_t (*)(kb_thread *, uint32_t, uint32_t, uint32_t, uint32_t)),
    CALLED(kb_match, uint64_t (*)(kb_thread *, uint32_t, uint32_t, uint64_t, uint32_t)),
    CALLED(kb_active_mask, uint32_t (*)(kb_thread *, uint32_t)),
    CALLED(kb_grid_barrier, void (*)(kb_thread *, uint32_t)),
    CALLED(kb_alone, bool (*)(void)),
    CALLED(kb_poll, void (*)(kb_thread *, uint32_t, uint32_t)),
    CALLED(kb_assert, void (*)(kb_thread *, const char *, const char *, uint32_t)),
    CALLED(kb_recurse, void (*)(kb_thread *, uint64_t)),
    CALLED(kb_print, int (*)(const char *, const void *)),
    CALLED(kb_reshape, int (*)(int64_t, const int64_t *, const int64_t *, int64_t, const int64_t *,
                               int64_t *, int64_t, int)),
    CALLED(kb_write_outside, void (*)(kb_thread *, const char *)),
    CALLED(kb_place, void (*)(kb_thread *, const char *)),
    CALLED(kb_raise, void (*)(kb_thread *, const char *)),
    /* What it asks in checked mode. */
    CALLED(kb_check_rows_of, const kb_check_rows *(*)(kb_thread *)),
    CALLED(kb_check_ask, void *(*)(kb_thread *, const void *, uint64_t, uint32_t, uint64_t)),
    CALLED(kb_check_touch, void (*)(kb_thread *, uint64_t, uint64_t, uint64_t, uint32_t, uint64_t)),
    CALLED(kb_check_local_array, void *(*)(kb_thread *, void *, uint32_t)),
    CALLED(kb_check_shared_array, void *(*)(kb_thread *, uint32_t)),
    CALLED(kb_check_wrong, void *(*)(kb_thread *, void *, int64_t, int64_t, uint32_t)),
    CALLED(kb_check_fenced, void (*)(kb_thread *)),
    CALLED(kb_check_grid, void (*)(kb_thread *)),
    /* By which the fake driver of the tests launches a kernel. */
    KB_SYMBOL("kb_hostcuda_launch", kb_hostcuda_launch),
    {NULL, NULL},
};
