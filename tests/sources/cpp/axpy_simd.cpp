// Loops that compilers vectorise, for every type: a macro makes one function for each.
#include "brainevent/common.h"

#define DEFINE_AXPY(T, S)                                                                   \
    void axpy_##S(const BE::Tensor x, const BE::Tensor y, BE::Tensor out, T alpha)          \
    {                                                                                       \
        const T *__restrict__ a = x.data_ptr<T>();                                          \
        const T *__restrict__ b = y.data_ptr<T>();                                          \
        T *__restrict__ c = out.data_ptr<T>();                                              \
        const int64_t n = x.numel();                                                        \
        for (int64_t i = 0; i < n; i++)                                                     \
            c[i] = static_cast<T>(alpha * a[i] + b[i]);                                     \
    }

// @BE axpy_f32 arg arg ret attr.alpha:float32
DEFINE_AXPY(float, f32)
// @BE axpy_f64 arg arg ret attr.alpha:float64
DEFINE_AXPY(double, f64)
// @BE axpy_i8 arg arg ret attr.alpha:int8
DEFINE_AXPY(int8_t, i8)
// @BE axpy_u16 arg arg ret attr.alpha:uint16
DEFINE_AXPY(uint16_t, u16)

#undef DEFINE_AXPY

// Four sums at once, and the rest by itself.
// @BE dot arg arg ret
void dot(const BE::Tensor x, const BE::Tensor y, BE::Tensor out)
{
    const float *a = x.data_ptr<float>();
    const float *b = y.data_ptr<float>();
    const int64_t n = x.numel();
    float sum[4] = {0, 0, 0, 0};
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; k++)
            sum[k] += a[i + k] * b[i + k];
    float total = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    for (; i < n; i++)
        total += a[i] * b[i];
    *out.data_ptr<float>() = total;
}
