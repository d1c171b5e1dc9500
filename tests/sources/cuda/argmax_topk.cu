// The largest of each row, and the k largest; of equal ones the first.
#include <cuda_runtime.h>
#include "brainevent/common.h"

template <typename T> struct Candidate {
    T value;
    int index;
};

template <typename T> __device__ bool better(Candidate<T> a, Candidate<T> b)
{
    if (a.index < 0 || b.index < 0)
        return b.index < 0 && a.index >= 0;
    return a.value > b.value || (a.value == b.value && a.index < b.index);
}

template <typename T, int BLOCK>
__global__ void argmax_kernel(const T *x, int32_t *out, int columns)
{
    __shared__ Candidate<T> best[BLOCK];
    Candidate<T> mine = {T(0), -1};
    for (int i = threadIdx.x; i < columns; i += BLOCK) {
        Candidate<T> c = {x[(int64_t)blockIdx.x * columns + i], i};
        if (better(c, mine))
            mine = c;
    }
    best[threadIdx.x] = mine;
    __syncthreads();
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        if (threadIdx.x < half && better(best[threadIdx.x + half], best[threadIdx.x]))
            best[threadIdx.x] = best[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        out[blockIdx.x] = best[0].index;
}

// @BE argmax arg ret stream
void argmax(const BE::Tensor x, BE::Tensor out, int64_t stream)
{
    const int columns = x.size(-1);
    BE_DISPATCH_ALL_TYPES(x.dtype(), scalar_t, {
        argmax_kernel<scalar_t, 64><<<(int)out.numel(), 64, 0, (cudaStream_t)stream>>>(
            x.data_ptr<scalar_t>(), out.data_ptr<int32_t>(), columns);
    });
}

// A thread for each row inserts into a short list.
__global__ void topk_kernel(const float *x, float *values, int32_t *indices, int rows, int columns, int k)
{
    const int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows)
        return;
    float *v = values + r * k;
    int32_t *at = indices + r * k;
    int held = 0;
    for (int i = 0; i < columns; ++i) {
        const float value = x[r * columns + i];
        if (held == k && !(value > v[k - 1]))
            continue;
        int j = held < k ? held++ : k - 1;
        for (; j > 0 && value > v[j - 1]; --j) {
            v[j] = v[j - 1];
            at[j] = at[j - 1];
        }
        v[j] = value;
        at[j] = i;
    }
}

// @BE topk arg ret ret stream
void topk(const BE::Tensor x, BE::Tensor values, BE::Tensor indices, int64_t stream)
{
    const int rows = x.size(0), k = values.size(1);
    BE_CHECK(k <= x.size(1)) << "the " << k << " largest of " << x.size(1);
    topk_kernel<<<(rows + 31) / 32, 32, 0, (cudaStream_t)stream>>>(
        x.data_ptr<float>(), values.data_ptr<float>(), indices.data_ptr<int32_t>(), rows, (int)x.size(1), k);
    BE_CHECK_KERNEL_LAUNCH();
}
