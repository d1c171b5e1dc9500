// y = A x for a CSR matrix: a thread for each row, or a warp for each row.
#include <cuda_runtime.h>
#include "brainevent/common.h"
#include "reduce.cuh"

template <typename W, typename I, typename P>
__global__ void spmv_row_kernel(const W *weights, const I *indices, const P *indptr, const W *x, W *y, int rows)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows)
        return;
    W sum = 0;
    for (P k = indptr[r]; k < indptr[r + 1]; ++k)
        sum += weights[k] * x[indices[k]];
    y[r] = sum;
}

template <typename W, typename I, typename P>
__global__ void spmv_warp_kernel(const W *weights, const I *indices, const P *indptr, const W *x, W *y, int rows)
{
    const int r = (blockIdx.x * blockDim.x + threadIdx.x) / WARP;
    const int lane = threadIdx.x % WARP;
    if (r >= rows)
        return; // whole warps leave
    W sum = 0;
    for (P k = indptr[r] + lane; k < indptr[r + 1]; k += WARP)
        sum += weights[k] * x[indices[k]];
    sum = warp_reduce(sum, Plus<W>());
    if (lane == 0)
        y[r] = sum;
}

static int blocks(int64_t n, int threads) { return int((n + threads - 1) / threads); }

// @BE spmv_row arg arg arg arg ret stream
void spmv_row(const BE::Tensor weights, const BE::Tensor indices, const BE::Tensor indptr,
              const BE::Tensor x, BE::Tensor y, int64_t stream)
{
    int rows = y.numel_checked_int();
    BE_DISPATCH_FLOATING(weights.dtype(), W, {
        BE_DISPATCH_SIGNED_INDEX_PAIR(indices.dtype(), indptr.dtype(), I, P, {
            spmv_row_kernel<W, I, P><<<blocks(rows, 32), 32, 0, (cudaStream_t)stream>>>(
                weights.data_ptr<W>(), indices.data_ptr<I>(), indptr.data_ptr<P>(),
                x.data_ptr<W>(), y.data_ptr<W>(), rows);
        });
    });
    BE_CHECK_KERNEL_LAUNCH();
}

// @BE spmv_warp arg arg arg arg ret stream
void spmv_warp(const BE::Tensor weights, const BE::Tensor indices, const BE::Tensor indptr,
               const BE::Tensor x, BE::Tensor y, int64_t stream)
{
    BE_CHECK_CSR_INDICES_INT32(indices);
    int rows = y.numel_checked_int();
    BE_DISPATCH_CSR_INDPTR(indptr.dtype(), P, {
        BE_DISPATCH_FLOATING(weights.dtype(), W, {
            spmv_warp_kernel<W, int32_t, P><<<blocks(rows * 32, 128), 128, 0, (cudaStream_t)stream>>>(
                weights.data_ptr<W>(), indices.data_ptr<int32_t>(), indptr.data_ptr<P>(),
                x.data_ptr<W>(), y.data_ptr<W>(), rows);
        });
    });
    BE_CHECK_KERNEL_LAUNCH();
}
