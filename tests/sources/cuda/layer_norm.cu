// Layer normalisation: a warp for each row, moments by Welford's and Chan's formulas.
#include <cuda_runtime.h>
#include "kernbridge/kernbridge.hpp"

namespace kb = kernbridge;

struct Moments {
    float count, mean, m2;

    __device__ void add(float x)
    {
        count += 1.0f;
        float d = x - mean;
        mean += d / count;
        m2 += d * (x - mean);
    }

    __device__ void merge(const Moments &o)
    {
        float total = count + o.count;
        if (total == 0.0f)
            return;
        float d = o.mean - mean;
        m2 += o.m2 + d * d * count * o.count / total;
        mean += d * o.count / total;
        count = total;
    }
};

__global__ void norm_kernel(const float *x, const float *gamma, const float *beta, float *y, float *means,
                            float *inverse, int rows, int n, double eps)
{
    const int lane = threadIdx.x, r = blockIdx.x * blockDim.y + threadIdx.y;
    if (r >= rows)
        return;
    Moments m = {0.0f, 0.0f, 0.0f};
    for (int i = lane; i < n; i += 32)
        m.add(x[r * n + i]);
    for (int offset = 16; offset > 0; offset >>= 1) {
        Moments o;
        o.count = __shfl_down_sync(0xffffffff, m.count, offset);
        o.mean = __shfl_down_sync(0xffffffff, m.mean, offset);
        o.m2 = __shfl_down_sync(0xffffffff, m.m2, offset);
        m.merge(o);
    }
    const float mean = __shfl_sync(0xffffffff, m.mean, 0);
    const float rstd = rsqrtf(__shfl_sync(0xffffffff, m.m2, 0) / n + (float)eps);
    for (int i = lane; i < n; i += 32)
        y[r * n + i] = (x[r * n + i] - mean) * rstd * gamma[i] + beta[i];
    if (lane == 0) {
        means[r] = mean;
        inverse[r] = rstd;
    }
}

// @BE layer_norm args args args rets rets rets attrs.eps ctx.stream
void layer_norm(const kb::Tensor x, const kb::Tensor gamma, const kb::Tensor beta, kb::Tensor y,
                kb::Tensor means, kb::Tensor inverse, double eps, cudaStream_t stream)
{
    const int n = x.size(x.ndim() - 1), rows = x.numel() / n;
    norm_kernel<<<(rows + 3) / 4, dim3(32, 4), 0, stream>>>(
        x.data_ptr<float>(), gamma.data_ptr<float>(), beta.data_ptr<float>(), y.data_ptr<float>(),
        means.data_ptr<float>(), inverse.data_ptr<float>(), rows, n, eps);
    KB_CHECK_KERNEL_LAUNCH();
}
