/* Owns the layouts that generated code knows by heart: where a structure changes, python/kernbridge
 * must change with it, and _cuda_on_cpu.py's keys of what is kept on disk. */
#include "hostcuda/kb_check.h"
#include "hostcuda/kb_thread.h"

#include <stddef.h>

/* _cuda_on_cpu.py, _cuda_host_ir.py: the slots of a thread. */
_Static_assert(offsetof(kb_thread, tid) == 0, "kb_thread.tid");
_Static_assert(offsetof(kb_thread, ntid) == 12, "kb_thread.ntid");
_Static_assert(offsetof(kb_thread, ctaid) == 24, "kb_thread.ctaid");
_Static_assert(offsetof(kb_thread, nctaid) == 36, "kb_thread.nctaid");
_Static_assert(offsetof(kb_thread, shared) == 48, "kb_thread.shared");
_Static_assert(offsetof(kb_thread, dynamic_shared) == 56, "kb_thread.dynamic_shared");
_Static_assert(offsetof(kb_thread, lane) == 60, "kb_thread.lane");

/* _cuda_host_checks.py: rows of arrays, and the table. */
_Static_assert(offsetof(kb_check_array, name) == 0, "kb_check_array.name");
_Static_assert(offsetof(kb_check_array, item_size) == 8, "kb_check_array.item_size");
_Static_assert(offsetof(kb_check_array, n_dims) == 12, "kb_check_array.n_dims");
_Static_assert(offsetof(kb_check_array, word) == 16, "kb_check_array.word");
_Static_assert(offsetof(kb_check_array, flags) == 20, "kb_check_array.flags");
_Static_assert(offsetof(kb_check_array, offset) == 24, "kb_check_array.offset");
_Static_assert(offsetof(kb_check_array, size) == 32, "kb_check_array.size");
_Static_assert(offsetof(kb_check_array, shape) == 40, "kb_check_array.shape");
_Static_assert(sizeof(kb_check_array) == 48, "kb_check_array");
_Static_assert(offsetof(kb_check_table, kernel) == 0, "kb_check_table.kernel");
_Static_assert(offsetof(kb_check_table, arrays) == 8, "kb_check_table.arrays");
_Static_assert(offsetof(kb_check_table, n_arguments) == 16, "kb_check_table.n_arguments");
_Static_assert(offsetof(kb_check_table, n_shared) == 20, "kb_check_table.n_shared");
_Static_assert(offsetof(kb_check_table, n_local) == 24, "kb_check_table.n_local");
_Static_assert(offsetof(kb_check_table, n_sites) == 28, "kb_check_table.n_sites");
_Static_assert(offsetof(kb_check_table, sites) == 32, "kb_check_table.sites");
