/* Strides of an array that takes another shape where it lies. */
#ifndef KB_RESHAPE_H
#define KB_RESHAPE_H

#include <stdint.h>

/* Writes the strides in bytes of `new_dims`; 0 if the array would have to be copied, or if the
 * shapes have different numbers of items. `fortran`: both shapes count their first axis fastest. */
int kb_reshape(int64_t n_dims, const int64_t *dims, const int64_t *strides, int64_t n_new_dims,
               const int64_t *new_dims, int64_t *new_strides, int64_t item_size, int fortran);

#endif
