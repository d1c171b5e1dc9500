/* CUDA's own cuda_fp16.h, as a compiler of the host sees it: what only GPUs have is defined
 * in half.hpp. */
#ifndef KERNBRIDGE_CUDA_ON_CPU_CUDA_FP16_H
#define KERNBRIDGE_CUDA_ON_CPU_CUDA_FP16_H
#include "kernbridge/cuda_on_cpu/math.hpp"
#pragma push_macro("__CUDACC__")
#undef __CUDACC__
#include_next <cuda_fp16.h>
#pragma pop_macro("__CUDACC__")

#define KB_CPU_HALF __half
#define KB_CPU_PAIR __half2
#define KB_CPU_FROM __half2float
#define KB_CPU_TO   __double2half
#include "kernbridge/cuda_on_cpu/half.hpp"
#endif
