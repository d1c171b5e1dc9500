/* Sources written for BrainEvent's kernel bridge compile against this, unchanged. */
#ifndef KERNBRIDGE_COMPAT_BRAINEVENT_COMMON_H
#define KERNBRIDGE_COMPAT_BRAINEVENT_COMMON_H

#include "brainevent/check.h"
#include "brainevent/dispatch.h"
#include "brainevent/tensor.h"

#endif
