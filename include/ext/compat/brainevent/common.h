/* With this header, sources written for BrainEvent's kernel bridge compile unchanged. Its other
 * headers are the same one. kernbridge's core converts XLA's buffers, so this does not include
 * XLA's headers; sources that need them must include them. */
#ifndef KERNBRIDGE_COMPAT_BRAINEVENT_COMMON_H
#define KERNBRIDGE_COMPAT_BRAINEVENT_COMMON_H

#include "kernbridge/check.hpp"
#include "kernbridge/dispatch.hpp"
#include "kernbridge/dtype.hpp"
#include "kernbridge/tensor.hpp"

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

#define BE_CHECK                      KB_CHECK
#define BE_CUDA_CHECK                 KB_CUDA_CHECK
#define BE_CHECK_KERNEL_LAUNCH        KB_CHECK_KERNEL_LAUNCH
#define BE_CHECK_KERNEL_LAUNCH_SYNC   KB_CHECK_KERNEL_LAUNCH_SYNC
#define BE_CHECK_CSR_INDICES_INT32    KB_CHECK_CSR_INDICES_INT32
#define BE_DISPATCH_FLOATING          KB_DISPATCH_FLOATING
#define BE_DISPATCH_FLOATING_AND_HALF KB_DISPATCH_FLOATING_AND_HALF
#define BE_DISPATCH_INTEGRAL          KB_DISPATCH_INTEGRAL
#define BE_DISPATCH_SIGNED_INDEX      KB_DISPATCH_SIGNED_INDEX
#define BE_DISPATCH_SIGNED_INDEX_PAIR KB_DISPATCH_SIGNED_INDEX_PAIR
#define BE_DISPATCH_CSR_INDPTR        KB_DISPATCH_CSR_INDPTR
#define BE_DISPATCH_COMPLEX           KB_DISPATCH_COMPLEX
#define BE_DISPATCH_ALL_TYPES         KB_DISPATCH_ALL_TYPES
#define BE_DISPATCH_ALL               KB_DISPATCH_ALL

namespace BE
{
using namespace kernbridge;
}

#endif
