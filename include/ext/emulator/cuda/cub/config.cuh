/* CUB's block and warp primitives on the CPU. CUB's own headers, which follow, are compiled as
 * plain C++; kernbridge translates their shared memory and their PTX (toolchain/cuda_source.py). */
#ifndef KERNBRIDGE_CUDA_ON_CPU_CUB_CONFIG_CUH
#define KERNBRIDGE_CUDA_ON_CPU_CUB_CONFIG_CUH

#pragma push_macro("__CUDACC__")
#pragma push_macro("__NVCC__")
#undef __CUDACC__
#undef __NVCC__
#ifndef CCCL_DISABLE_NVFP8_SUPPORT
#define CCCL_DISABLE_NVFP8_SUPPORT
#endif
#ifndef THRUST_DEVICE_SYSTEM
#define THRUST_DEVICE_SYSTEM 4 /* C++, since CUDA's system needs its runtime */
#endif
#include_next <cub/config.cuh>
#pragma pop_macro("__NVCC__")
#pragma pop_macro("__CUDACC__")

#include "kernbridge/cuda_on_cpu/cub.hpp"

#endif
