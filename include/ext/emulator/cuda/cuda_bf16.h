/* CUDA's own cuda_bf16.h, as a compiler of the host sees it: what only GPUs have is defined
 * in half.hpp. */
#ifndef KERNBRIDGE_CUDA_ON_CPU_CUDA_BF16_H
#define KERNBRIDGE_CUDA_ON_CPU_CUDA_BF16_H
#include "kernbridge/cuda_on_cpu/math.hpp"
#pragma push_macro("__CUDACC__")
#undef __CUDACC__
#include_next <cuda_bf16.h>
#pragma pop_macro("__CUDACC__")

#define KB_CPU_HALF __nv_bfloat16
#define KB_CPU_PAIR __nv_bfloat162
#define KB_CPU_FROM __bfloat162float
#define KB_CPU_TO   __double2bfloat16
#include "kernbridge/cuda_on_cpu/half.hpp"
#endif
