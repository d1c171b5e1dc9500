// Integers: greatest common divisors of every type, and a sum with attributes of every type.
#include <cuda_runtime.h>
#include "brainevent/common.h"

template <typename T> __device__ T gcd(T a, T b)
{
    while (b != 0) {
        T r = a % b;
        a = b;
        b = r;
    }
    return a;
}
template <> __device__ bool gcd<bool>(bool a, bool b) { return a || b; }

template <typename T> __global__ void gcd_kernel(const T *a, const T *b, T *out, int n)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i >= n)
        return;
    out[i] = gcd<T>(a[i], b[i]);
}

// @BE gcds arg arg ret stream
void gcds(const BE::Tensor a, const BE::Tensor b, BE::Tensor out, int64_t stream)
{
    BE_CHECK(a.dtype() == b.dtype()) << a.dtype() << " and " << b.dtype();
    BE_DISPATCH_INTEGRAL(a.dtype(), T, {
        int n = a.numel_checked_int();
        gcd_kernel<T><<<(n + 63) / 64, 64, 0, (cudaStream_t)stream>>>(
            a.data_ptr<T>(), b.data_ptr<T>(), out.data_ptr<T>(), n);
    });
}

struct Terms {
    int8_t i8;
    uint8_t u8;
    int16_t i16;
    uint16_t u16;
    int32_t i32;
    uint32_t u32;
    int64_t i64;
    uint64_t u64;
};

__global__ void mix_kernel(const int64_t *x, int64_t *out, int n, bool negate, Terms t)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i < n) {
        uint64_t sum = uint64_t(x[i]) * 3u + t.i8 + 10 * t.u8 + 100 * t.i16 + 1000 * t.u16;
        sum += 5 * int64_t(t.i32) + 7 * uint64_t(t.u32) + 11 * uint64_t(t.i64) + 13 * t.u64;
        out[i] = int64_t(negate ? 0 - sum : sum);
    }
}

// @BE mix
void mix(const BE::Tensor x, /* int64 */ BE::Tensor out,
         bool negate,              // the sign
         int8_t i8, uint8_t u8,    // small ones,
         int16_t i16, unsigned short u16,
         int i32 = 1, unsigned int u32 = (2u),
         long long i64 = -3,       /* and large (signed, then unsigned) */
         uint64_t u64 = 0,
         cudaStream_t stream = nullptr)
{
    int n = x.numel_checked_int();
    Terms t{i8, u8, i16, u16, i32, u32, i64, u64};
    mix_kernel<<<(n + 31) / 32, 32, 0, stream>>>(x.data_ptr<int64_t>(), out.data_ptr<int64_t>(), n,
                                                 negate, t);
    BE_CHECK_KERNEL_LAUNCH();
}
