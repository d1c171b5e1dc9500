/* CUDA's own cuda_bf16.h, as a compiler of the host sees it: what only GPUs have is defined
 * in half.hpp. In derivatives, half_for_enzyme.hpp takes its place. */
#ifndef KERNBRIDGE_CUDA_ON_CPU_CUDA_BF16_H
#define KERNBRIDGE_CUDA_ON_CPU_CUDA_BF16_H
#include "kernbridge/cuda_on_cpu/math.hpp"
#define KB_CPU_HALF          __nv_bfloat16
#define KB_CPU_PAIR          __nv_bfloat162
#define KB_OF(before, after) before##bfloat16##after
#ifdef KB_DERIVATIVE
typedef struct __nv_bfloat16 nv_bfloat16;
typedef struct __nv_bfloat162 nv_bfloat162;
#include "kernbridge/cuda_on_cpu/half_for_enzyme.hpp"
#else
#pragma push_macro("__CUDACC__")
#undef __CUDACC__
#include_next <cuda_bf16.h>
#pragma pop_macro("__CUDACC__")
#include "kernbridge/cuda_on_cpu/half.hpp"
#endif
#endif
