/* Declares BE::Tensor and its types. kernbridge's core converts XLA's buffers, so this header does
 * not include XLA's headers; sources that need them must include them. */
#ifndef KERNBRIDGE_COMPAT_BRAINEVENT_FFI_COMPAT_H
#define KERNBRIDGE_COMPAT_BRAINEVENT_FFI_COMPAT_H

#include "tensor.h"

#endif
