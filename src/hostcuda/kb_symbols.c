/* Owns the names under which compiled kernels find the functions of kb_thread.h and kb_check.h, and
 * a driver that plays a GPU the launch. */
#include "hostcuda/kb_check.h"
#include "hostcuda/kb_hostcuda.h"
#include "hostcuda/kb_reshape.h"

#define SYMBOL(name)                                                                               \
    {                                                                                              \
#name, (void (*)(void))(uintptr_t)(name)                                                   \
    }

const kb_hostcuda_symbol kb_hostcuda_symbols[] = {
    SYMBOL(kb_barrier),
    SYMBOL(kb_barrier_reduce),
    SYMBOL(kb_warp_barrier),
    SYMBOL(kb_shuffle),
    SYMBOL(kb_vote),
    SYMBOL(kb_match),
    SYMBOL(kb_active_mask),
    SYMBOL(kb_grid_barrier),
    SYMBOL(kb_poll),
    SYMBOL(kb_print),
    SYMBOL(kb_check_rows_of),
    SYMBOL(kb_check_shared_array),
    SYMBOL(kb_check_wrong),
    SYMBOL(kb_check_touch),
    SYMBOL(kb_check_local_array),
    SYMBOL(kb_check_ask),
    SYMBOL(kb_check_fenced),
    SYMBOL(kb_reshape),
    SYMBOL(kb_hostcuda_launch),
    SYMBOL(kb_write_outside),
    SYMBOL(kb_check_grid),
    SYMBOL(kb_place),
    SYMBOL(kb_raise),
    SYMBOL(kb_recurse),
    SYMBOL(kb_assert),
    {NULL, NULL},
};
