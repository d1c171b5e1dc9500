/* cuRAND's device functions on the CPU: its own header, as a compiler of the host sees it. The
 * generators XORWOW and Philox are the same; kernbridge refuses the others. */
#ifndef KERNBRIDGE_CUDA_ON_CPU_CURAND_KERNEL_H
#define KERNBRIDGE_CUDA_ON_CPU_CURAND_KERNEL_H
#include "cuda_runtime.h"

typedef enum libraryPropertyType_t {
    MAJOR_VERSION,
    MINOR_VERSION,
    PATCH_LEVEL
} libraryPropertyType;
#define __NV_SILENCE_DEPRECATION_BEGIN
#define __NV_SILENCE_DEPRECATION_END
#define blockDim  kb_curand_blockDim /* of MTGP32, which declares them */
#define threadIdx kb_curand_threadIdx
#include_next <curand_kernel.h>
#undef blockDim
#undef threadIdx
#endif
