/* BE_CHECK and its like, for sources written for BrainEvent. A failure becomes a JAX error. */
#ifndef KERNBRIDGE_COMPAT_BRAINEVENT_CHECK_H
#define KERNBRIDGE_COMPAT_BRAINEVENT_CHECK_H

#include "dtypes.h"
#include "kernbridge/check.hpp"

#define BE_CHECK                    KB_CHECK
#define BE_CUDA_CHECK               KB_CUDA_CHECK
#define BE_CHECK_KERNEL_LAUNCH      KB_CHECK_KERNEL_LAUNCH
#define BE_CHECK_KERNEL_LAUNCH_SYNC KB_CHECK_KERNEL_LAUNCH_SYNC

#endif
