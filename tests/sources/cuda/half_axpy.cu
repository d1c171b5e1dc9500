// y = h x + y in half precision; the factor comes as the bits of a float16, or of a bfloat16.
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "brainevent/common.h"

template <typename T>
__global__ void axpy(const T* x, const T* y, T* out, float factor, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = T(factor * float(x[i]) + float(y[i]));
}

// @BE axpy_f16 arg arg ret attr.h:float16 stream
void axpy_f16(const BE::Tensor x, const BE::Tensor y, BE::Tensor out, uint16_t h, int64_t stream)
{
    const float factor = __half2float(__ushort_as_half(h));
    const int n = x.numel_checked_int();
    BE_DISPATCH_FLOATING_AND_HALF(x.dtype(), scalar_t, {
        axpy<scalar_t><<<(n + 127) / 128, 128, 0, reinterpret_cast<cudaStream_t>(stream)>>>(
            x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), factor, n);
    });
}

// @BE axpy_bf16 arg arg ret attr.h:bfloat16 stream
void axpy_bf16(const BE::Tensor x, const BE::Tensor y, BE::Tensor out, uint16_t h, int64_t stream)
{
    BE_CHECK(x.dtype() == BE::DType::BFloat16) << "expected bfloat16, got " << x.dtype();
    const int n = x.numel_checked_int();
    axpy<BE::bfloat16_t><<<(n + 31) / 32, 32, 0, reinterpret_cast<cudaStream_t>(stream)>>>(
        x.data_ptr<BE::bfloat16_t>(), y.data_ptr<BE::bfloat16_t>(), out.data_ptr<BE::bfloat16_t>(),
        __bfloat162float(__ushort_as_bfloat16(h)), n);
}
