/* BE::DType and the element types, for sources written for BrainEvent. */
#ifndef KERNBRIDGE_COMPAT_BRAINEVENT_DTYPES_H
#define KERNBRIDGE_COMPAT_BRAINEVENT_DTYPES_H

#include "kernbridge/dtype.hpp"

/* What sources expect BrainEvent's headers to include. The last two cost 0.2 s, so that KB_STRINGS
 * is defined where a source names what is in them. */
#include <cassert>
#include <cinttypes>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#ifdef KB_STRINGS
#include <stdexcept>
#include <string>
#endif

namespace BE
{
using namespace kernbridge;
}

#endif
