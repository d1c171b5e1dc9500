/* BE::DType and the element types, for sources written for BrainEvent. */
#ifndef KERNBRIDGE_COMPAT_BRAINEVENT_DTYPES_H
#define KERNBRIDGE_COMPAT_BRAINEVENT_DTYPES_H

#include "kernbridge/dtype.hpp"

namespace BE
{
using namespace kernbridge;
}

#endif
