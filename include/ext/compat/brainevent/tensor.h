/* BE::Tensor, for sources written for BrainEvent. */
#ifndef KERNBRIDGE_COMPAT_BRAINEVENT_TENSOR_H
#define KERNBRIDGE_COMPAT_BRAINEVENT_TENSOR_H

#include "dtypes.h"
#include "kernbridge/tensor.hpp"

#endif
