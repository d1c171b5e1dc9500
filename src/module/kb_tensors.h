/* The tensors of one call, as user code receives them. They live on the stack of that call. */
#ifndef KB_TENSORS_H
#define KB_TENSORS_H

#include "core/kb_error.h"
#include "core/kb_frame.h"
#include "kernbridge/kernbridge.h"

#include <stdbool.h>

enum { KB_TENSORS_INLINE = 16, KB_STRIDES_INLINE = 64 }; /* beyond these, one allocation */

typedef struct kb_tensors {
    kb_tensor *list; /* inputs, then outputs of the kernel */
    void *allocated;
    kb_tensor inline_list[KB_TENSORS_INLINE];
    int64_t inline_strides[KB_STRIDES_INLINE];
} kb_tensors;

/* Describes the buffers of `frame`. kb_tensors_close releases what that took. */
kb_status kb_tensors_open(kb_tensors *tensors, const kb_frame *frame, bool cuda, kb_error *err);
void kb_tensors_close(kb_tensors *tensors);

#endif
