// Functions that launch kernels of reals T, which stands for float or double, in several steps.
#include <cuda_runtime.h>
#include <stdexcept>
#include <string>
#include "kernbridge/kernbridge.hpp"

using kernbridge::Tensor;

struct View {
    const T *data;
    int n;
};

template <typename R, bool square> __global__ void scale(View x, R a, bool negative, R *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < x.n) {
        R value = square ? x.data[i] * x.data[i] : x.data[i];
        out[i] = (negative ? -a : a) * value;
    }
}

__global__ void sum(const T *x, T *out, int n)
{
    extern __shared__ T s[];
    s[threadIdx.x] = threadIdx.x < n ? x[threadIdx.x] : 0;
    __syncthreads();
    for (int half = blockDim.x / 2; half; half /= 2) {
        if (threadIdx.x < half)
            s[threadIdx.x] += s[threadIdx.x + half];
        __syncthreads();
    }
    if (!threadIdx.x)
        out[0] = s[0];
}

// A part of the input, through temporary memory and a branch that an attribute takes.
// @BE energy arg:T[n] ret:T[1] attr.a:float64 attr.square:bool stream
void energy(Tensor x, Tensor out, double a, bool square, cudaStream_t stream)
{
    int n = x.size(0) - 2;
    T *values;
    if (cudaMallocAsync((void **)&values, n * sizeof(T), stream) != cudaSuccess)
        throw std::runtime_error("no memory");
    View view{(const T *)x.data_ptr() + 2, n};
    if (square)
        scale<T, true><<<(n + 31) / 32, 32, 0, stream>>>(view, a, true, values);
    else
        scale<T, false><<<(n + 31) / 32, 32, 0, stream>>>(view, a, false, values);
    sum<<<1, 128, 128 * sizeof(T), stream>>>(values, (T *)out.data_ptr(), n);
    cudaFreeAsync(values, stream);
}

__global__ void diffuse(const T *u, const T *k, T *v, int rows, int columns)
{
    int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows || j >= columns)
        return;
    int at = i * columns + j;
    T up = i ? u[at - columns] : 0, left = j ? u[at - 1] : u[at];
    v[at] = u[at] + k[i] * (up + left - 2 * u[at]) * u[at];
}

// A loop of launches between an output and temporary memory, and a copy.
// @BE diffused arg:T[n,m] arg:T[n] ret:T[n,m] attr.n_steps:int32 stream
void diffused(Tensor u, Tensor k, Tensor out, int n_steps, cudaStream_t stream)
{
    int rows = u.size(0), columns = u.size(1);
    size_t size = rows * columns * sizeof(T);
    T *other, *now = (T *)out.data_ptr();
    cudaMallocAsync(&other, size, stream);
    T *next = other;
    cudaMemcpyAsync(now, u.data_ptr(), size, cudaMemcpyDeviceToDevice, stream);
    dim3 block(8, 4), grid((columns + 7) / 8, (rows + 3) / 4);
    for (int step = 0; step < n_steps; step++) {
        diffuse<<<grid, block, 0, stream>>>(now, (const T *)k.data_ptr(), next, rows, columns);
        std::swap(now, next);
    }
    if (now != (T *)out.data_ptr())
        cudaMemcpyAsync(out.data_ptr(), now, size, cudaMemcpyDefault, stream);
    cudaFreeAsync(other, stream);
}

__global__ void scatter(const T *x, const int *to, const T *w, T *out, T *squares, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        atomicAdd(&out[to[i]], w[i] * x[i]);
        squares[i] = x[i] * x[i] * w[0];
    }
}

// Integers beside reals, several outputs, and memory that is filled.
// @BE scattered arg:T[n] arg:i32[n] arg:T[n] ret:T[m] ret:T[n] stream
void scattered(Tensor x, Tensor to, Tensor w, Tensor out, Tensor squares, cudaStream_t stream)
{
    int n = x.size(0);
    cudaMemsetAsync(out.data_ptr(), 0, out.size(0) * sizeof(T), stream);
    scatter<<<(n + 63) / 64, 64, 0, stream>>>(
        (const T *)x.data_ptr(), (const int *)to.data_ptr(), (const T *)w.data_ptr(),
        (T *)out.data_ptr(), (T *)squares.data_ptr(), n);
}

__global__ void decay(T *v, const T *drive, T a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        v[i] = a * v[i] + drive[i] * v[i];
}

// An output in the memory of an input.
// @BE decayed arg:T[n] arg:T[n] ret:T[n] attr.a:float64 stream
void decayed(Tensor v, Tensor drive, Tensor out, double a, cudaStream_t stream)
{
    int n = v.size(0);
    T *at = (T *)out.data_ptr();
    if (at != (T *)v.data_ptr())
        throw std::runtime_error("v is not out");
    for (int step = 0; step < 3; step++)
        decay<<<(n + 31) / 32, 32, 0, stream>>>(at, (const T *)drive.data_ptr(), a, n);
}

static __global__ void local(const T *x, T *out, int n)
{
    if (threadIdx.x < n)
        out[threadIdx.x] = x[threadIdx.x] * x[threadIdx.x];
}

namespace
{
template <int power> __global__ void hidden(const T *x, T *out, int n)
{
    for (int k = 0; k < power && threadIdx.x < n; k++)
        out[threadIdx.x] = k ? out[threadIdx.x] * x[threadIdx.x] : x[threadIdx.x];
}
} // namespace

template <typename F> __global__ void mapped(F f, const T *x, T *out, int n)
{
    if (threadIdx.x < n)
        out[threadIdx.x] += f(x[threadIdx.x]);
}

// Kernels that other files cannot name.
// @BE unnamed arg:T[n] ret:T[n] attr.a:float64 stream
void unnamed(Tensor x, Tensor out, double a, cudaStream_t stream)
{
    int n = x.size(0);
    T *square, *at = (T *)out.data_ptr(), b = a;
    cudaMallocAsync(&square, n * sizeof(T), stream);
    local<<<1, 128, 0, stream>>>((const T *)x.data_ptr(), square, n);
    hidden<3><<<1, 128, 0, stream>>>(square, at, n);
    mapped<<<1, 128, 0, stream>>>([b] __device__(T v) { return b * v; }, square, at, n);
    cudaFreeAsync(square, stream);
}

// What cannot be differentiated.

// @BE clusters arg:T[n] ret:T[n] stream
void clusters(Tensor x, Tensor out, cudaStream_t stream)
{
    cudaLaunchAttribute cluster;
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = 2, cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t how = {};
    how.gridDim = dim3(2), how.blockDim = dim3(64), how.stream = stream;
    how.attrs = &cluster, how.numAttrs = 1;
    const T *from = (const T *)x.data_ptr();
    cudaLaunchKernelEx(&how, local, from, (T *)out.data_ptr(), (int)x.size(0));
}

// @BE waits arg:T[n] ret:T[n] stream
void waits(Tensor x, Tensor out, cudaStream_t stream)
{
    T first;
    cudaMemcpyAsync(&first, x.data_ptr(), sizeof first, cudaMemcpyDeviceToHost, stream);
}

__global__ void store(const T *x, void *memory, int n)
{
    if (threadIdx.x < n)
        ((T *)memory)[threadIdx.x] = x[threadIdx.x];
}

// @BE untyped arg:T[n] ret:T[1] stream
void untyped(Tensor x, Tensor out, cudaStream_t stream)
{
    int n = x.size(0);
    void *values;
    cudaMallocAsync(&values, n * sizeof(T), stream);
    store<<<1, 128, 0, stream>>>((const T *)x.data_ptr(), values, n);
    sum<<<1, 128, 128 * sizeof(T), stream>>>((const T *)values, (T *)out.data_ptr(), n);
    cudaFreeAsync(values, stream);
}

__global__ void by_bits(const T *x, int *memory, int n)
{
    if (threadIdx.x < n)
        memory[threadIdx.x] = x[threadIdx.x] * 16;
}

__global__ void of_bits(const int *memory, T *out, int n)
{
    if (threadIdx.x < n)
        out[threadIdx.x] = memory[threadIdx.x];
}

// Integers are constant.
// @BE rounded arg:T[n] ret:T[n] stream
void rounded(Tensor x, Tensor out, cudaStream_t stream)
{
    int n = x.size(0), *whole;
    cudaMallocAsync(&whole, n * sizeof(int), stream);
    by_bits<<<1, 128, 0, stream>>>((const T *)x.data_ptr(), whole, n);
    of_bits<<<1, 128, 0, stream>>>(whole, (T *)out.data_ptr(), n);
    cudaFreeAsync(whole, stream);
}

__global__ void swapped(const T *x, T *out, int n)
{
    unsigned long long bits = 0;
    if (threadIdx.x < n) {
        memcpy(&bits, x + threadIdx.x, sizeof(T));
        bits ^= 1;
        memcpy(out + threadIdx.x, &bits, sizeof(T));
    }
}

// @BE changed_bits arg:T[n] ret:T[n] stream
void changed_bits(Tensor x, Tensor out, cudaStream_t stream)
{
    swapped<<<1, 128, 0, stream>>>((const T *)x.data_ptr(), (T *)out.data_ptr(), x.size(0));
}
