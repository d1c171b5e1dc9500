/* Owns the rule by which arrays in kernels change their shapes without a copy.
 *
 * Neighbouring axes that step through memory as one form a run. The new axes, fastest first, have
 * to divide the runs, fastest first, without a rest. */
#include "object/kb_reshape.h"

#include <stdbool.h>

static bool count_items(int64_t n_dims, const int64_t *dims, uint64_t *n_items)
{
    *n_items = 1;
    for (int64_t i = 0; i < n_dims; i++) {
        if (dims[i] < 0)
            return false;
        *n_items *= (uint64_t)dims[i];
    }
    return true;
}

static int64_t axis(int64_t i, int64_t n_dims, int fortran)
{
    return fortran ? i : n_dims - 1 - i;
}

int kb_reshape(int64_t n_dims, const int64_t *dims, const int64_t *strides, int64_t n_new_dims,
               const int64_t *new_dims, int64_t *new_strides, int64_t item_size, int fortran)
{
    uint64_t n_items, n_new_items;
    if (!count_items(n_dims, dims, &n_items) || !count_items(n_new_dims, new_dims, &n_new_items) ||
        n_items != n_new_items)
        return 0;
    int64_t next = 0;         // of the old axes, fastest first
    int64_t step = item_size; // of the next new axis
    int64_t left = 1;         // items of the run that the new axes have not divided yet
    for (int64_t i = 0; i < n_new_dims; i++) {
        int64_t k = axis(i, n_new_dims, fortran), dim = new_dims[k];
        if (n_items && dim != 1 && left == 1) {
            while (next < n_dims && dims[axis(next, n_dims, fortran)] == 1)
                next++;
            if (next == n_dims)
                return 0; // counting the new items overflowed
            step = strides[axis(next, n_dims, fortran)];
            for (; next < n_dims; next++) {
                int64_t old = axis(next, n_dims, fortran);
                if (dims[old] != 1 && strides[old] != step * left)
                    break;
                left *= dims[old];
            }
        }
        if (n_items && left % dim)
            return 0;
        new_strides[k] = step;
        step *= dim ? dim : 1;
        left /= n_items ? dim : 1;
    }
    return 1;
}
