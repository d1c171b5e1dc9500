// Kernels from lambdas of the host, as PyTorch users write them: needs --extended-lambda.
#include <cuda_runtime.h>
#include "brainevent/common.h"

template <typename F> __global__ void for_each_index(int64_t n, F f)
{
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i < n)
        f(i);
}

template <typename F> void launch(int64_t n, cudaStream_t stream, F f)
{
    if (n > 0)
        for_each_index<<<unsigned((n + 255) / 256), 256, 0, stream>>>(n, f);
    BE_CHECK_KERNEL_LAUNCH();
}

// Damped oscillators: x'' = -k x - c x', semi-implicit Euler.
// @BE oscillate arg arg ret ret attr.k:float32 attr.c:float32 attr.dt:float32 attr.steps:uint8 stream
void oscillate(const BE::Tensor x0, const BE::Tensor v0, BE::Tensor x1, BE::Tensor v1, float k, float c,
               float dt, uint8_t steps, int64_t stream)
{
    const float *x = x0.data_ptr<float>(), *v = v0.data_ptr<float>();
    float *x_out = x1.data_ptr<float>(), *v_out = v1.data_ptr<float>();
    launch(x0.numel(), (cudaStream_t)stream, [=] __device__(int64_t i) {
        float a = x[i], b = v[i];
        for (int s = 0; s < steps; ++s) {
            b += dt * (-k * a - c * b);
            a += dt * b;
        }
        x_out[i] = a;
        v_out[i] = b;
    });
}

// The outer difference of two vectors, |x_i - y_j|^p.
// @BE outer_distance arg arg ret attr.p:float64 stream
void outer_distance(const BE::Tensor x, const BE::Tensor y, BE::Tensor out, double p, int64_t stream)
{
    const double *a = x.data_ptr<double>(), *b = y.data_ptr<double>();
    double *d = out.data_ptr<double>();
    const int64_t columns = out.size(1);
    launch(out.numel(), (cudaStream_t)stream, [=] __device__(int64_t i) {
        d[i] = pow(fabs(a[i / columns] - b[i % columns]), p);
    });
}
