// Activations as functors: the kernel is a template over the functor.
#include <cuda_runtime.h>
#include "brainevent/common.h"

namespace act {

struct Gelu {
    template <typename T> __device__ T operator()(T x) const {
        return T(0.5) * x * (T(1) + erf(x * T(0.7071067811865476)));
    }
};

struct Softplus {
    double beta;
    template <typename T> __device__ T operator()(T x) const {
        T bx = T(beta) * x;
        return bx > T(20) ? x : log1p(exp(bx)) / T(beta);
    }
};

struct LeakyRelu {
    double slope;
    template <typename T> __device__ T operator()(T x) const { return x > T(0) ? x : T(slope) * x; }
};

template <typename T, typename F>
__global__ void map(const T* __restrict__ x, T* __restrict__ y, int64_t n, F f) {
    const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i < n) y[i] = f(x[i]);
}

template <typename F>
void launch(const BE::Tensor& x, BE::Tensor& y, int64_t stream, F f) {
    constexpr int threads = 96;
    const int64_t n = x.numel();
    if (n == 0) return;
    BE_DISPATCH_FLOATING(x.dtype(), scalar_t, {
        map<scalar_t, F><<<(n + threads - 1) / threads, threads, 0, (cudaStream_t)stream>>>(
            x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), n, f);
    });
    BE_CHECK_KERNEL_LAUNCH();
}

// @BE gelu arg ret stream
void gelu(const BE::Tensor x, BE::Tensor y, int64_t stream) { launch(x, y, stream, Gelu()); }

// @BE softplus arg ret attr.beta:float64 stream
void softplus(const BE::Tensor x, BE::Tensor y, double beta, int64_t stream) {
    launch(x, y, stream, Softplus{beta});
}

// @BE leaky_relu arg ret attr.slope stream
void leaky_relu(const BE::Tensor x, BE::Tensor y, double slope, int64_t stream) {
    launch(x, y, stream, LeakyRelu{slope});
}

}  // namespace act
