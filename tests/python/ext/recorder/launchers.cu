// Launchers as people write them, each of which does one thing that a plan holds, or does not.
#include <chrono>
#include <cooperative_groups.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <dlfcn.h>
#include <sys/time.h>
#include <unistd.h>
#include <cuda_runtime.h>
#include "kernbridge/kernbridge.hpp"

using kernbridge::Tensor;

struct View {
    const float *data;
    int n;
};

template <typename T> __global__ void scale(View x, T a, T *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < x.n)
        out[i] = a * x.data[i];
}

__global__ void scale4(const float4 *x, float a, float4 *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = make_float4(a * x[i].x, a * x[i].y, a * x[i].z, a * x[i].w);
}

__global__ void sum(const float *x, float *out, int n)
{
    extern __shared__ float s[];
    s[threadIdx.x] = threadIdx.x < n ? x[threadIdx.x] : 0;
    __syncthreads();
    if (!threadIdx.x)
        for (int i = 0; i < blockDim.x; i++)
            out[0] += s[i];
}

__global__ void count(float *out, const int *host)
{
    out[0] = host ? 1 : 2;
}

struct Many {
    const float *first;
    int64_t more[900];
};

__global__ void take_many(const __grid_constant__ Many many, float *out)
{
    out[0] = many.first[many.more[threadIdx.x]];
}

namespace {

template <typename F> __global__ void apply(F f, float *out)
{
    out[0] = f(0);
}

struct Add {
    const float *data;
    short n;
    __device__ float operator()(int i) const { return data[i] + n; }
};

} // namespace

extern "C" __global__ void d(float *out, int64_t n, bool is_set)
{
    out[0] = is_set ? n : -n;
}

static cudaStream_t of(int64_t stream)
{
    return reinterpret_cast<cudaStream_t>(stream);
}

static const float *in(const Tensor &x)
{
    return static_cast<const float *>(x.data_ptr());
}

static float *to(const Tensor &x)
{
    return static_cast<float *>(x.data_ptr());
}

// @BE offsets arg:f32[n] ret:f32[m] attr.a:float32 stream
void offsets(const Tensor x, Tensor out, float a, int64_t stream)
{
    int n = x.numel() - 2;
    cudaMemsetAsync(to(out), 0xff, out.numel() * 4, of(stream));
    scale<float><<<(n + 127) / 128, 128, 0, of(stream)>>>(View{in(x) + 2, n}, a, to(out) + 1);
}

// @BE steps arg:f32[n] ret:f32[n] attr.n_steps:int32 attr.a:float32 stream
void steps(const Tensor x, Tensor out, int n_steps, float a, int64_t stream)
{
    int n = x.numel();
    float *before, *after;
    cudaMallocAsync(reinterpret_cast<void **>(&before), n * 4, of(stream));
    cudaMalloc(&after, n * 4);
    cudaMemcpyAsync(before, in(x), n * 4, cudaMemcpyDeviceToDevice, of(stream));
    for (int i = 0; i < n_steps; i++) {
        scale<float><<<(n + 31) / 32, 32, 0, of(stream)>>>(View{before, n}, a, after);
        std::swap(before, after);
    }
    cudaMemcpyAsync(to(out), before, n * 4, cudaMemcpyDefault, of(stream));
    cudaFreeAsync(before, of(stream));
    cudaFree(after);
}

// @BE shared arg:f32[n] ret:f32[1] attr.block:int32 stream
void shared(const Tensor x, Tensor out, int block, int64_t stream)
{
    cudaEvent_t event;
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    cudaFuncSetAttribute(sum, cudaFuncAttributeMaxDynamicSharedMemorySize, 96 * 1024);
    cudaMemsetAsync(to(out), 0, 4, of(stream));
    cudaEventRecord(event, of(stream));
    cudaStreamWaitEvent(of(stream), event, 0);
    sum<<<1, block, block * 4, of(stream)>>>(in(x), to(out), x.numel());
    cudaEventDestroy(event);
    if (cudaGetLastError() != cudaSuccess)
        throw std::runtime_error("the launch failed");
    cudaStreamSynchronize(of(stream));
}

// @BE together arg:f32[n] ret:f32[n] attr.a:float32 stream
void together(const Tensor x, Tensor out, float a, int64_t stream)
{
    View view{in(x), static_cast<int>(x.numel())};
    float *result = to(out);
    void *arguments[] = {&view, &a, &result};
    cudaLaunchCooperativeKernel(scale<float>, dim3(2), dim3(64), arguments, 0, of(stream));
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {2, 1, 1};
    cudaLaunchConfig_t how{};
    how.gridDim = 2, how.blockDim = 64, how.stream = of(stream);
    how.attrs = &attribute, how.numAttrs = 1;
    cudaLaunchKernelEx(&how, scale<float>, View{in(x), 3}, a, to(out));
}

// @BE in_place arg:f32[n] ret:f32[n] attr.a:float32 stream
void in_place(const Tensor x, Tensor out, float a, int64_t stream)
{
    if (in(x) == to(out))
        scale<float><<<1, 64, 0, of(stream)>>>(View{in(x), (int)x.numel()}, a, to(out));
    else
        cudaMemsetAsync(to(out), 0, x.numel() * 4, of(stream));
}

// @BE aligned arg:f32[n] ret:f32[n] attr.a:float32 stream
void aligned(const Tensor x, Tensor out, float a, int64_t stream)
{
    int n = x.numel();
    if ((uintptr_t)in(x) % 16 == 0 && (uintptr_t)to(out) % 16 == 0 && n % 4 == 0)
        scale4<<<1, n / 4, 0, of(stream)>>>((const float4 *)in(x), a, (float4 *)to(out), n / 4);
    else
        scale<float><<<1, n, 0, of(stream)>>>(View{in(x), n}, a, to(out));
}

// @BE reads arg:f32[n] ret:f32[n] stream
void reads(const Tensor x, Tensor out, int64_t stream)
{
    float first = 0;
    cudaMemcpyAsync(&first, in(x), 4, cudaMemcpyDeviceToHost, of(stream));
    scale<float><<<1, 64, 0, of(stream)>>>(View{in(x), (int)x.numel()}, first, to(out));
}

// @BE dereferences arg:f32[n] ret:f32[n] stream
void dereferences(const Tensor x, Tensor out, int64_t stream)
{
    scale<float><<<1, 64, 0, of(stream)>>>(View{in(x), (int)x.numel()}, *in(x), to(out));
}

// @BE elsewhere arg:f32[n] ret:f32[n] stream
void elsewhere(const Tensor x, Tensor out, int64_t)
{
    scale<float><<<1, 64>>>(View{in(x), (int)x.numel()}, 2.0f, to(out));
}

// @BE draws arg:f32[n] ret:f32[n] stream
void draws(const Tensor x, Tensor out, int64_t stream)
{
    scale<float><<<1, 64, 0, of(stream)>>>(View{in(x), (int)x.numel()}, rand() % 7, to(out));
}

// @BE looks_at_the_clock arg:f32[n] ret:f32[n] stream
void looks_at_the_clock(const Tensor x, Tensor out, int64_t stream)
{
    scale<float><<<1, 64, 0, of(stream)>>>(View{in(x), (int)x.numel()}, time(nullptr) % 7, to(out));
}

// @BE tells_the_time arg:f32[n] ret:f32[n] stream
void tells_the_time(const Tensor x, Tensor out, int64_t stream)
{
    timeval now;
    gettimeofday(&now, nullptr);
    d<<<1, 1, 0, of(stream)>>>(to(out), now.tv_sec, true);
}

// @BE measures arg:f32[n] ret:f32[n] stream
void measures(const Tensor x, Tensor out, int64_t stream)
{
    auto now = std::chrono::steady_clock::now().time_since_epoch();
    d<<<1, 1, 0, of(stream)>>>(to(out), now / std::chrono::hours(1), true);
}

// @BE draws_bits arg:f32[n] ret:f32[n] stream
void draws_bits(const Tensor x, Tensor out, int64_t stream)
{
    d<<<1, 1, 0, of(stream)>>>(to(out), std::random_device()() & 0, true);
}

// @BE seeds arg:f32[n] ret:f32[n] stream
void seeds(const Tensor x, Tensor out, int64_t stream)
{
    d<<<1, 1, 0, of(stream)>>>(to(out), getpid(), true);
}

// @BE aborts arg:f32[n] ret:f32[n] stream
void aborts(const Tensor x, Tensor out, int64_t stream)
{
    d<<<1, 1, 0, of(stream)>>>(to(out), 1, true);
    abort();
}

// @BE of_the_heap arg:f32[n] ret:f32[n] stream
void of_the_heap(const Tensor x, Tensor out, int64_t stream)
{
    int *number = new int(3);
    count<<<1, 1, 0, of(stream)>>>(to(out), number);
    delete number;
}

// @BE prints arg:f32[n] ret:f32[n] stream
void prints(const Tensor x, Tensor out, int64_t stream)
{
    printf("%d elements\n", (int)x.numel());
    scale<float><<<1, 64, 0, of(stream)>>>(View{in(x), (int)x.numel()}, 2.0f, to(out));
}

// @BE keeps arg:f32[n] ret:f32[n] stream
void keeps(const Tensor x, Tensor out, int64_t stream)
{
    float *memory;
    cudaMalloc(&memory, 64);
    scale<float><<<1, 64, 0, of(stream)>>>(View{in(x), (int)x.numel()}, 2.0f, to(out));
}

// @BE of_the_host arg:f32[n] ret:f32[n] stream
void of_the_host(const Tensor x, Tensor out, int64_t stream)
{
    static const int number = 3;
    count<<<1, 1, 0, of(stream)>>>(to(out), &number);
}

// @BE outside arg:f32[n] ret:f32[n] stream
void outside(const Tensor x, Tensor out, int64_t stream)
{
    scale<float><<<1, 64, 0, of(stream)>>>(View{in(x) - 4, (int)x.numel()}, 2.0f, to(out));
}

// @BE in_rows arg:f32[n] ret:f32[n] stream
void in_rows(const Tensor x, Tensor out, int64_t stream)
{
    cudaMemcpy2DAsync(to(out), 8, in(x), 8, 8, 1, cudaMemcpyDeviceToDevice, of(stream));
}

// @BE fails arg:f32[n] ret:f32[n] stream
void fails(const Tensor x, Tensor out, int64_t)
{
    throw std::runtime_error("expected an even number of elements");
}

// @BE empty_grid arg:f32[n] ret:f32[n] stream
void empty_grid(const Tensor x, Tensor out, int64_t stream)
{
    scale<float><<<x.numel() / 1000, 64, 0, of(stream)>>>(View{in(x), 1}, 2.0f, to(out));
}

// @BE functor arg:f32[n] ret:f32[n] stream
void functor(const Tensor x, Tensor out, int64_t stream)
{
    apply<<<1, 1, 0, of(stream)>>>(Add{in(x), 3}, to(out));
}

// @BE numbers ret:f32[n] attr.n:int64 attr.is_set:bool stream
void numbers(Tensor out, int64_t n, bool is_set, int64_t stream)
{
    d<<<1, 1, 0, of(stream)>>>(to(out), n, is_set);
}

// @BE catches arg:f32[n] ret:f32[n] stream
void catches(const Tensor x, Tensor out, int64_t stream)
{
    int n = 0;
    try {
        throw std::runtime_error("this stays here");
    } catch (const std::exception &e) {
        n = std::string(e.what()).size();
    }
    d<<<1, 1, 0, of(stream)>>>(to(out), n, true);
}

// @BE clears arg:f32[n] ret:f32[n] stream
void clears(const Tensor x, Tensor out, int64_t stream)
{
    cudaMemsetAsync(nullptr, 0, 0, of(stream));
    cudaMemcpyAsync(to(out), nullptr, 0, cudaMemcpyDefault, of(stream));
    cudaMemsetAsync(to(out), 1, 4, of(stream));
}

// @BE distance arg:f32[n] ret:f32[n] stream
void distance(const Tensor x, Tensor out, int64_t stream)
{
    d<<<1, 1, 0, of(stream)>>>(to(out), static_cast<int>(to(out) - in(x)), true);
}

// @BE in_order arg:f32[n] ret:f32[n] stream
void in_order(const Tensor x, Tensor out, int64_t stream)
{
    float *a, *b;
    cudaMalloc(&a, 4), cudaMalloc(&b, 4);
    d<<<1, 1, 0, of(stream)>>>(to(out), a < b ? 1 : 2, true);
    cudaFree(a), cudaFree(b);
}

// @BE by_bits arg:f32[n] ret:f32[n] stream
void by_bits(const Tensor x, Tensor out, int64_t stream)
{
    d<<<1, 1, 0, of(stream)>>>(to(out), (uintptr_t)in(x) >> 12 & 15, true);
}

// @BE has_memory arg:f32[n] ret:f32[m] stream
void has_memory(const Tensor x, Tensor out, int64_t stream)
{
    d<<<1, 1, 0, of(stream)>>>(to(out), 3, in(x) != nullptr);
}

// @BE past_the_end arg ret stream
void past_the_end(const Tensor x, Tensor out, int64_t stream)
{
    scale<float><<<1, 1, 0, of(stream)>>>(View{in(x) + x.numel() / 8, 0}, 2.0f, to(out));
}

// @BE many arg:f32[n] ret:f32[n] stream
void many(const Tensor x, Tensor out, int64_t stream)
{
    take_many<<<1, 1, 0, of(stream)>>>(Many{in(x)}, to(out));
}

// @BE asks_the_environment arg:f32[n] ret:f32[n] stream
void asks_the_environment(const Tensor x, Tensor out, int64_t stream)
{
    d<<<1, 1, 0, of(stream)>>>(to(out), 1, getenv("FAST") != nullptr);
}

// @BE opens_a_file arg:f32[n] ret:f32[n] stream
void opens_a_file(const Tensor x, Tensor out, int64_t stream)
{
    d<<<1, 1, 0, of(stream)>>>(to(out), 1, std::ifstream("/proc/self/status").good());
}

// @BE opens_a_library arg:f32[n] ret:f32[n] stream
void opens_a_library(const Tensor x, Tensor out, int64_t stream)
{
    d<<<1, 1, 0, of(stream)>>>(to(out), 1, dlopen("libcuda.so.1", RTLD_NOW) != nullptr);
}

// @BE in_a_thread arg:f32[n] ret:f32[n] stream
void in_a_thread(const Tensor x, Tensor out, int64_t stream)
{
    std::thread([&] { d<<<1, 1, 0, of(stream)>>>(to(out), 1, true); }).join();
}

// @BE ends arg:f32[n] ret:f32[n] stream
void ends(const Tensor x, Tensor out, int64_t stream)
{
    d<<<1, 1, 0, of(stream)>>>(to(out), 1, true);
    exit(0);
}

// @BE too_much arg:f32[n] ret:f32[n] stream
void too_much(const Tensor x, Tensor out, int64_t stream)
{
    auto code = cudaFuncSetAttribute(sum, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 20);
    d<<<1, 1, 0, of(stream)>>>(to(out), 1, code == cudaSuccess);
}
