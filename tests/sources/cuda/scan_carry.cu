// Cumulative sums of any length: blocks scan by themselves, their totals are scanned, and added.
// The totals are an output that nobody needs.
#include <cuda_runtime.h>
#include "brainevent/common.h"

#define THREADS 64

template <typename T>
__global__ void scan_blocks(const T *in, T *out, T *totals, int n, bool inclusive)
{
    __shared__ T sums[2][THREADS];
    const int t = threadIdx.x, i = blockIdx.x * THREADS + t;
    int now = 0;
    const T own = i < n ? in[i] : T(0);
    sums[now][t] = own;
    __syncthreads();
    for (int d = 1; d < THREADS; d <<= 1) {
        sums[1 - now][t] = t >= d ? sums[now][t] + sums[now][t - d] : sums[now][t];
        now = 1 - now;
        __syncthreads();
    }
    if (i < n)
        out[i] = inclusive ? sums[now][t] : sums[now][t] - own;
    if (t == THREADS - 1)
        totals[blockIdx.x] = sums[now][t];
}

template <typename T> __global__ void scan_totals(T *totals, int blocks)
{
    if (threadIdx.x || blockIdx.x)
        return;
    T carry = 0;
    for (int b = 0; b < blocks; ++b) {
        T own = totals[b];
        totals[b] = carry;
        carry += own;
    }
}

template <typename T> __global__ void add_carry(T *out, const T *totals, int n)
{
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n)
        out[i] += totals[blockIdx.x];
}

// @BE cumulative_sum arg ret ret attr.inclusive:bool stream
void cumulative_sum(const BE::Tensor in, BE::Tensor out, BE::Tensor totals, bool inclusive, int64_t stream)
{
    const int n = in.numel_checked_int(), blocks = (n + THREADS - 1) / THREADS;
    BE_CHECK(totals.numel() >= blocks) << blocks << " blocks, room for " << totals.numel();
    auto s = (cudaStream_t)stream;
    BE_DISPATCH_ALL_TYPES(in.dtype(), T, {
        scan_blocks<T><<<blocks, THREADS, 0, s>>>(in.data_ptr<T>(), out.data_ptr<T>(), totals.data_ptr<T>(), n, inclusive);
        scan_totals<T><<<1, 32, 0, s>>>(totals.data_ptr<T>(), blocks);
        add_carry<T><<<blocks, THREADS, 0, s>>>(out.data_ptr<T>(), totals.data_ptr<T>(), n);
    });
    BE_CHECK_KERNEL_LAUNCH();
}
