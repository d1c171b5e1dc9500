// Bitonic sort of keys with their indices: one launch for each pass over global memory.
#include <cuda_runtime.h>
#include <cfloat>
#include "brainevent/common.h"

__global__ void fill(const float *keys, float *sorted, int32_t *index, int n, int padded)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < padded) {
        sorted[i] = i < n ? keys[i] : FLT_MAX;
        index[i] = i;
    }
}

__global__ void pass(float *keys, int32_t *index, int padded, int width, int distance)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int j = i ^ distance;
    if (i >= padded || j <= i)
        return;
    bool ascending = (i & width) == 0;
    bool greater = keys[i] > keys[j] || (keys[i] == keys[j] && index[i] > index[j]);
    if (greater == ascending) {
        float k = keys[i];
        keys[i] = keys[j];
        keys[j] = k;
        int32_t x = index[i];
        index[i] = index[j];
        index[j] = x;
    }
}

__global__ void keep(const float *from_keys, const int32_t *from_index, float *keys, int32_t *index, int n,
                     bool descending)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int from = descending ? n - 1 - i : i;
        keys[i] = from_keys[from];
        index[i] = from_index[from];
    }
}

// The last two outputs are scratch, of a power of 2.
// @BE sort_pairs
void sort_pairs(const BE::Tensor keys, BE::Tensor sorted, BE::Tensor order, BE::Tensor work_keys,
                BE::Tensor work_index, bool descending, int64_t stream)
{
    const int n = keys.numel_checked_int(), padded = work_keys.numel_checked_int();
    BE_CHECK((padded & (padded - 1)) == 0 && padded >= n) << "scratch of " << padded;
    auto s = (cudaStream_t)stream;
    const int threads = 64, blocks = (padded + threads - 1) / threads;
    auto *k = work_keys.data_ptr<float>();
    auto *x = work_index.data_ptr<int32_t>();
    fill<<<blocks, threads, 0, s>>>(keys.data_ptr<float>(), k, x, n, padded);
    for (int width = 2; width <= padded; width *= 2)
        for (int distance = width / 2; distance > 0; distance /= 2)
            pass<<<blocks, threads, 0, s>>>(k, x, padded, width, distance);
    keep<<<(n + threads - 1) / threads, threads, 0, s>>>(k, x, sorted.data_ptr<float>(),
                                                         order.data_ptr<int32_t>(), n, descending);
    BE_CHECK_KERNEL_LAUNCH();
}
