"""The checked mode of CUDA C++ on the CPU: kernels that only write, vectors, copies, sizes."""

import os
import shutil

import jax.numpy as jnp
import kernbridge
import pytest
from jax import ShapeDtypeStruct as S

pytestmark = pytest.mark.once

KERNELS = r"""
#include "kernbridge/kernbridge.hpp"
using kernbridge::Tensor;

__global__ void fill(float *out, int n, float value) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = value;
}
__global__ void before(float *out) { out[(int)threadIdx.x - 1] = 0.5f; }
__global__ void race(float *out) { out[0] = threadIdx.x; }
__global__ void after_barrier(float *out, int by) {
    out[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x + by] = 2;
    __syncthreads();
}
__global__ void after_shuffle(float *out, int by) {
    int lane = __shfl_sync(~0u, threadIdx.x, threadIdx.x % 32);
    out[lane + by] = 2;
}
__global__ void input(float *x, float *out) { x[threadIdx.x] = 7; out[threadIdx.x] = 1; }
__global__ void count(float *out) { atomicAdd(out + threadIdx.x / 16, 1.0f); }
template <typename V> __global__ void vectors(const float *x, float *out, int by) {
    V v = *reinterpret_cast<const V *>(x + by);
    *reinterpret_cast<V *>(out) = v;
}
__global__ void vector_write(float *out, int by) {
    *reinterpret_cast<float2 *>(out + by) = make_float2(1, 2);
}
__global__ void branches(const float *x, float *out) {
    if (threadIdx.x & 1) __syncthreads(); else __syncthreads();
    out[threadIdx.x] = x[threadIdx.x];
}
__global__ void copied(const float *x, float *out, int n) {
    memcpy(out + n - 4, x, 16);
    memcpy(out, x, n * 4);
}
__global__ void copied_16(const float *x, float *out, int at) { memcpy(out + at, x, 16); }
__global__ void cleared(float *out, int at, int n) { memset(out + at, 0, n); }
__global__ void cleared_64(float *out, int at) { memset(out + at, 0, 64); }
template <int N> __global__ void shared(float *out) {
    __shared__ float a[N], b[N];
    a[threadIdx.x] = b[threadIdx.x] = 3;
    out[threadIdx.x] = a[threadIdx.x] + b[threadIdx.x];
}
__global__ void dynamic(float *out) {
    extern __shared__ float s[];
    s[threadIdx.x] = 3;
    out[threadIdx.x] = s[threadIdx.x];
}

// @BE run arg:f32[n] ret:f32[n] attr.which:int32
void run(const Tensor x, Tensor out, int which) {
    float *to = out.data_ptr<float>(), *from = const_cast<float *>(x.data_ptr<float>());
    int n = (int)x.numel();
    switch (which) {
    case 0: fill<<<3, 32>>>(to, n, 1.0f); count<<<1, n>>>(to); break;
    case 1: after_barrier<<<1, n>>>(to, 0); break;
    case 2: after_shuffle<<<1, n>>>(to, 0); break;
    case 3: vectors<double2><<<1, 1>>>(from, to, 4); break;
    case 4: copied<<<1, 1>>>(from, to, n); break;
    case 5: shared<6 * 1024><<<1, n>>>(to); break;
    case 6:
        dynamic<<<1, n, 48 * 1024>>>(to);
        cudaFuncSetAttribute(dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize, 50 * 1024);
        dynamic<<<1, n, 50 * 1024>>>(to);
        break;
    case 20: fill<<<3, 32>>>(to, n + 1, 1.0f); break;
    case 21: before<<<1, n>>>(to); break;
    case 22: race<<<1, n>>>(to); break;
    case 23: after_barrier<<<1, n>>>(to, 1); break;
    case 24: after_shuffle<<<1, n>>>(to, 1); break;
    case 25: input<<<1, n>>>(from, to); break;
    case 26: vectors<float4><<<1, 1>>>(from, to, 1); break;
    case 27: vectors<double2><<<1, 1>>>(from, to, 2); break;
    case 28: vectors<int2><<<1, 1>>>(from, to, 3); break;
    case 29: vector_write<<<1, 1>>>(to, 1); break;
    case 30: branches<<<1, n>>>(from, to); break;
    case 31: copied_16<<<1, 1>>>(from, to, n - 3); break;
    case 32: copied<<<1, 1>>>(from, to, n + 1); break;
    case 33: cleared<<<1, 1>>>(to, n - 4, 20); break;
    case 34: cleared_64<<<1, 1>>>(to, n - 15); break;
    case 35: shared<7 * 1024><<<1, n>>>(to); break;
    case 36: dynamic<<<1, n, 60 * 1024>>>(to); break;
    }
}
"""
BOUNDS = r"writes 'out' \(f32\[64\]\) out of bounds: element \[%s\]"
ALIGNED = r"%s (?:element \[\d\] of )?'%s' \(f32\[64\]\).* at an address that is no multiple"
FAULTS = {
    20: BOUNDS % 64,
    21: BOUNDS % -1,
    22: r"a data race: it writes element \[0\] of 'out'",
    23: BOUNDS % 64,
    24: BOUNDS % 64,
    25: r"writes element \[0\] of 'x' .*, which is an input",
    26: ALIGNED % ("reads", "x"),
    27: ALIGNED % ("reads", "x"),
    28: ALIGNED % ("reads", "x"),
    29: ALIGNED % ("writes", "out"),
    30: r"comes to __syncthreads \(at .*\), and thread \(0, 0, 0\) to another \(at",
    31: BOUNDS % r"\d+",
    32: BOUNDS % r"\d+",
    33: BOUNDS % r"\d+",
    34: BOUNDS % r"\d+",
    35: r"the static shared arrays up to 'b' take 57344 bytes, CUDA allows 49152",
    36: "61440 bytes of dynamic shared memory: for more than 49152",
}


@pytest.fixture(params=["g++", pytest.param("clang++", marks=pytest.mark.exhaustive)])
def run(request, monkeypatch, without_fake_gpu):
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    monkeypatch.setenv("CXX", request.param)
    module = kernbridge.load_cuda_inline(
        "checked_kernels", KERNELS, check=True, auto_register=False
    )
    return lambda which: module.run(
        jnp.arange(64, dtype=jnp.float32), outs=S((64,), jnp.float32), which=which
    )


def test_correct_kernels_report_nothing(run):
    got = [run(which).block_until_ready() for which in range(7)]
    assert got[0].tolist() == [17.0] * 4 + [1.0] * 60
    assert got[1].tolist() == got[2].tolist() == [2.0] * 64
    assert got[5].tolist() == [6.0] * 64
    assert got[6].tolist() == [3.0] * 64


def test_every_fault_is_found(run):
    of_gcc = (26, 27) if "clang" in os.environ["CXX"] else ()  # clang checks up to 8 bytes
    for which, said in FAULTS.items():
        if which in of_gcc:
            continue
        with pytest.raises(Exception, match=said):
            run(which).block_until_ready()
