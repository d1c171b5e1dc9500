// Complex numbers: a polynomial by Horner's rule, and a phase by attribute.
#include <cuda_runtime.h>
#include "brainevent/common.h"

template <typename C>
__global__ void horner(const C* z, const C* coefficients, C* out, int n, int degree)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    C sum = coefficients[degree];
    for (int k = degree - 1; k >= 0; --k)
        sum = sum * z[i] + coefficients[k];
    out[i] = sum;
}

// @BE polynomial args args rets ctx.stream
void polynomial(const BE::Tensor z, const BE::Tensor coefficients, BE::Tensor out, int64_t stream)
{
    int n = int(z.numel()), degree = int(coefficients.numel()) - 1;
    BE_DISPATCH_COMPLEX(z.dtype(), complex_t, {
        horner<complex_t><<<(n + 63) / 64, 64, 0, (cudaStream_t)stream>>>(
            z.data_ptr<complex_t>(), coefficients.data_ptr<complex_t>(), out.data_ptr<complex_t>(), n, degree);
    });
}

template <typename C, typename R>
__global__ void twist_kernel(const C* z, C* out, R* modulus, int n, C factor)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        C w = conj(z[i]) * factor;
        out[i] = w / (z[i] + C(R(3)));
        modulus[i] = sqrt(w.real() * w.real() + w.imag() * w.imag());
    }
}

// @BE twist_c64 arg ret ret attr.factor:complex64 stream
void twist_c64(const BE::Tensor z, BE::Tensor out, BE::Tensor modulus, BE::complex64_t factor, int64_t stream)
{
    int n = int(z.numel());
    twist_kernel<BE::complex64_t, float><<<(n + 63) / 64, 64, 0, (cudaStream_t)stream>>>(
        z.data_ptr<BE::complex64_t>(), out.data_ptr<BE::complex64_t>(), modulus.data_ptr<float>(), n, factor);
}

// @BE twist_c128 arg ret ret attr.factor:complex128 stream
void twist_c128(const BE::Tensor z, BE::Tensor out, BE::Tensor modulus, BE::complex128_t factor, int64_t stream)
{
    int n = int(z.numel());
    twist_kernel<BE::complex128_t, double><<<(n + 63) / 64, 64, 0, (cudaStream_t)stream>>>(
        z.data_ptr<BE::complex128_t>(), out.data_ptr<BE::complex128_t>(), modulus.data_ptr<double>(), n, factor);
}
