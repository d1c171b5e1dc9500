// A dense layer in half precision on the CPU: sums in float, rounded once.
#include "brainevent/common.h"
#include <cmath>
#include <cstring>

template <typename T>
static void dense(const T *x, const T *w, const T *bias, T *y, int64_t rows, int64_t in, int64_t out,
                  float slope)
{
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t o = 0; o < out; ++o) {
            float sum = bias[o];
            for (int64_t i = 0; i < in; ++i)
                sum += float(x[r * in + i]) * float(w[i * out + o]);
            y[r * out + o] = T(sum < 0 ? slope * sum : sum);
        }
}

// @BE dense_layer arg arg arg ret attr.slope:float16
void dense_layer(const BE::Tensor x, const BE::Tensor w, const BE::Tensor bias, BE::Tensor y,
                 BE::float16_t slope)
{
    BE_DISPATCH_FLOATING_AND_HALF(x.dtype(), T, {
        dense<T>(x.data_ptr<T>(), w.data_ptr<T>(), bias.data_ptr<T>(), y.data_ptr<T>(), x.size(0),
                 x.size(1), w.size(1), slope);
    });
}

// Rounds to bfloat16 and back; `scale` comes as the bits of a bfloat16.
// @BE through_bfloat16 arg ret attr.scale:bfloat16
void through_bfloat16(const BE::Tensor x, BE::Tensor out, uint16_t scale)
{
    BE::bfloat16_t factor;
    std::memcpy(&factor.bits, &scale, sizeof scale);
    for (int64_t i = 0; i < x.numel(); ++i)
        out.data_ptr<float>()[i] = BE::bfloat16_t(x.data_ptr<float>()[i]) * float(factor);
}
