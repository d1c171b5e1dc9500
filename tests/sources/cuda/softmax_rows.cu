// Softmax of rows that are longer than a block; dynamic shared memory holds the row.
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "brainevent/common.h"
#include "reduce.cuh"

template <typename T>
__global__ void softmax_kernel(const T *x, T *y, int columns, float scale)
{
    extern __shared__ float row[];
    __shared__ float parts[WARP];
    const int64_t base = (int64_t)blockIdx.x * columns;
    float most = Largest<float>::identity();
    for (int i = threadIdx.x; i < columns; i += blockDim.x) {
        row[i] = scale * float(x[base + i]);
        most = fmaxf(most, row[i]);
    }
    most = block_reduce(most, Largest<float>(), parts);
    float sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) {
        row[i] = expf(row[i] - most);
        sum += row[i];
    }
    sum = block_reduce(sum, Plus<float>(), parts);
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        y[base + i] = T(row[i] / sum);
}

// @BE softmax arg ret attr.temperature:float32 stream
void softmax(const BE::Tensor x, BE::Tensor y, float temperature, int64_t stream)
{
    const int columns = x.size(-1), rows = x.numel() / columns;
    BE_CHECK(temperature > 0) << "temperature " << temperature;
    BE_DISPATCH_FLOATING_AND_HALF(x.dtype(), scalar_t, {
        softmax_kernel<scalar_t><<<rows, 96, columns * sizeof(float), (cudaStream_t)stream>>>(
            x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), columns, 1.0f / temperature);
    });
    BE_CHECK_KERNEL_LAUNCH();
}
