/* CUDA's own cuda_fp16.h, as a compiler of the host sees it: what only GPUs have is defined
 * in half.hpp. In derivatives, half_for_enzyme.hpp takes its place. */
#ifndef KERNBRIDGE_CUDA_ON_CPU_CUDA_FP16_H
#define KERNBRIDGE_CUDA_ON_CPU_CUDA_FP16_H
#include "kernbridge/cuda_on_cpu/math.hpp"
#define KB_CPU_HALF          __half
#define KB_CPU_PAIR          __half2
#define KB_OF(before, after) before##half##after
#ifdef KB_DERIVATIVE
typedef struct __half half;
typedef struct __half2 half2;
#include "kernbridge/cuda_on_cpu/half_for_enzyme.hpp"
#else
#pragma push_macro("__CUDACC__")
#undef __CUDACC__
#include_next <cuda_fp16.h>
#pragma pop_macro("__CUDACC__")
#include "kernbridge/cuda_on_cpu/half.hpp"
#endif
#endif
