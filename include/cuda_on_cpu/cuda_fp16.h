/* CUDA's own cuda_fp16.h, as a compiler of the host sees it: what only GPUs have is defined
 * elsewhere. */
#ifndef KERNBRIDGE_CUDA_ON_CPU_CUDA_FP16_H
#define KERNBRIDGE_CUDA_ON_CPU_CUDA_FP16_H
#include "kernbridge/cuda_on_cpu/math.hpp"
#pragma push_macro("__CUDACC__")
#undef __CUDACC__
#include_next <cuda_fp16.h>
#pragma pop_macro("__CUDACC__")

/* Functions that CUDA has for GPUs only, rounded once from a wider type. */
#define KB_HALF_FUNCTION(name, expression)                                                         \
    static inline __half h##name(__half v)                                                         \
    {                                                                                              \
        double a = __half2float(v);                                                                \
        return __double2half(expression);                                                          \
    }                                                                                              \
    static inline __half2 h2##name(__half2 v)                                                      \
    {                                                                                              \
        return __half2(h##name(v.x), h##name(v.y));                                                \
    }
KB_HALF_FUNCTION(sqrt, sqrt(a))
KB_HALF_FUNCTION(rsqrt, 1.0 / sqrt(a))
KB_HALF_FUNCTION(rcp, 1.0 / a)
KB_HALF_FUNCTION(exp, exp(a))
KB_HALF_FUNCTION(exp2, exp2(a))
KB_HALF_FUNCTION(exp10, pow(10.0, a))
KB_HALF_FUNCTION(log, log(a))
KB_HALF_FUNCTION(log2, log2(a))
KB_HALF_FUNCTION(log10, log10(a))
KB_HALF_FUNCTION(sin, sin(a))
KB_HALF_FUNCTION(cos, cos(a))
KB_HALF_FUNCTION(tanh, tanh(a))
KB_HALF_FUNCTION(floor, floor(a))
KB_HALF_FUNCTION(ceil, ceil(a))
KB_HALF_FUNCTION(trunc, trunc(a))
KB_HALF_FUNCTION(rint, nearbyint(a))
#undef KB_HALF_FUNCTION
static inline __half __hfma(__half a, __half b, __half c)
{
    return __double2half(fma(static_cast<double>(__half2float(a)),
                             static_cast<double>(__half2float(b)),
                             static_cast<double>(__half2float(c))));
}
static inline __half2 __hfma2(__half2 a, __half2 b, __half2 c)
{
    return __half2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y));
}
#endif
