/* With this header, sources written for BrainEvent's kernel bridge compile unchanged. */
#ifndef KERNBRIDGE_COMPAT_BRAINEVENT_COMMON_H
#define KERNBRIDGE_COMPAT_BRAINEVENT_COMMON_H

#include "check.h"
#include "dispatch.h"
#include "tensor.h"

#endif
