/* A batch: the same plan over every slice of operands that vmap gave more axes.
 *
 * After its key, the attribute `call` holds nothing, or 1 + n_inputs words: the number of levels,
 * to which KB_BATCH_ORDER times a kb_slice_order is added, then for each operand a mask of the
 * levels that it has. Level 0 is the innermost vmap. A buffer's batch axes come before its own, the
 * outermost level first; results have all of them. An operand without a level is the same in every
 * slice of it. Extents are read from the call, so that one program serves every batch size.
 *
 * With the order KB_SLICES_OF_ROWS there is no batch. The number is then that of the leading axes
 * of the kernel's results that form its rows, and a mask is 1 for an operand that has these axes as
 * well. The kernel computes any range of rows from the same range of these operands and the whole
 * of the others, and takes the range as the extent of the first of the axes, with 1 for the others.
 */
#ifndef KB_BATCH_H
#define KB_BATCH_H

#include "core/kb_error.h"
#include "core/kb_frame.h"

/* Runs the plan of the frame's kernel once, or for every slice if the frame has batch levels: step
 * by step, each step once per slice, on many threads where kb_share_run allows it, or, if it is
 * wide, once per group of slices, whose number and distances the frame then holds. Stops at the
 * first failure, whose message names the slice. */
kb_status kb_batch_run(const kb_frame *frame, kb_error *err);

#endif
