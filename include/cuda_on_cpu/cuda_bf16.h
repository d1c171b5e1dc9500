/* CUDA's own cuda_bf16.h, as a compiler of the host sees it: what only GPUs have is defined
 * elsewhere. */
#ifndef KERNBRIDGE_CUDA_ON_CPU_CUDA_BF16_H
#define KERNBRIDGE_CUDA_ON_CPU_CUDA_BF16_H
#include "kernbridge/cuda_on_cpu/math.hpp"
#pragma push_macro("__CUDACC__")
#undef __CUDACC__
#include_next <cuda_bf16.h>
#pragma pop_macro("__CUDACC__")

/* Functions that CUDA has for GPUs only, rounded once from a wider type. */
#define KB_HALF_FUNCTION(name, expression)                                                         \
    static inline __nv_bfloat16 h##name(__nv_bfloat16 v)                                           \
    {                                                                                              \
        double a = __bfloat162float(v);                                                            \
        return __double2bfloat16(expression);                                                      \
    }                                                                                              \
    static inline __nv_bfloat162 h2##name(__nv_bfloat162 v)                                        \
    {                                                                                              \
        return __nv_bfloat162(h##name(v.x), h##name(v.y));                                         \
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
static inline __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c)
{
    return __double2bfloat16(fma(static_cast<double>(__bfloat162float(a)),
                                 static_cast<double>(__bfloat162float(b)),
                                 static_cast<double>(__bfloat162float(c))));
}
static inline __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c)
{
    return __nv_bfloat162(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y));
}
#endif
