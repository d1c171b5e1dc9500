/* Between XLA's buffers and BE::Tensor stands kernbridge's core, so sources that include this get
 * BE::Tensor and its types; XLA's headers are those that they include themselves. */
#ifndef KERNBRIDGE_COMPAT_BRAINEVENT_FFI_COMPAT_H
#define KERNBRIDGE_COMPAT_BRAINEVENT_FFI_COMPAT_H

#include "tensor.h"

#endif
