// C = alpha A B + beta C0, in tiles of shared memory.
#include <cuda_runtime.h>
#include "brainevent/common.h"

template <typename T, int TILE>
__global__ void matmul_kernel(const T *a, const T *b, const T *c0, T *c, int m, int n, int k, T alpha, T beta)
{
    __shared__ T tile_a[TILE][TILE];
    __shared__ T tile_b[TILE][TILE + 1];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * TILE + ty, column = blockIdx.x * TILE + tx;
    T sum = 0;
    for (int t = 0; t < (k + TILE - 1) / TILE; ++t) {
        const int i = t * TILE;
        tile_a[ty][tx] = row < m && i + tx < k ? a[row * k + i + tx] : T(0);
        tile_b[ty][tx] = i + ty < k && column < n ? b[(i + ty) * n + column] : T(0);
        __syncthreads();
#pragma unroll
        for (int j = 0; j < TILE; ++j)
            sum += tile_a[ty][j] * tile_b[j][tx];
        __syncthreads();
    }
    if (row < m && column < n)
        c[row * n + column] = alpha * sum + beta * c0[row * n + column];
}

// @BE gemm arg arg arg ret attr.alpha:float64 attr.beta:float64 stream
void gemm(const BE::Tensor a, const BE::Tensor b, const BE::Tensor c0, BE::Tensor c, double alpha,
          double beta, int64_t stream)
{
    constexpr int tile = 16;
    const int m = a.size(0), k = a.size(1), n = b.size(1);
    BE_CHECK(b.size(0) == k) << "inner extents " << k << " and " << b.size(0);
    dim3 grid((n + tile - 1) / tile, (m + tile - 1) / tile), block(tile, tile);
    BE_DISPATCH_FLOATING(a.dtype(), scalar_t, {
        matmul_kernel<scalar_t, tile><<<grid, block, 0, (cudaStream_t)stream>>>(
            a.data_ptr<scalar_t>(), b.data_ptr<scalar_t>(), c0.data_ptr<scalar_t>(),
            c.data_ptr<scalar_t>(), m, n, k, scalar_t(alpha), scalar_t(beta));
    });
    BE_CHECK_KERNEL_LAUNCH();
}
