"""The kernels of the flood: operations that are made anew, of few contents.

Inputs are small whole numbers, so that sums and products are exact in float32 and values can be
compared bit by bit. What lasts in a process (`kernbridge.cache.stats`) is bounded by `CONSTANTS`:
kernels of one content share their machine code, however often they are wrapped.
"""

from __future__ import annotations

import dataclasses
import functools
import shutil
from collections.abc import Callable
from typing import Any

import jax
import kernbridge
import numba

CONSTANTS = 4
MODULES = 3
SHAPES = (1, 7, 64, 300, 1024)


@dataclasses.dataclass(frozen=True)
class Kind:
    """`make(c)` is a new operation that computes `c * x + 1` of an array with one axis."""

    name: str
    make: Callable[[int], Callable[[Any], Any]]
    on_gpu: bool = False
    constants: int = CONSTANTS


def same(x: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def rule(c: int) -> Callable[..., Any]:
    return lambda inputs, outputs, cotangents: (c * cotangents,)


_rules = [rule(c) for c in range(CONSTANTS + 1)]


def compiled_by_numba(c: int) -> Any:
    @numba.njit
    def kernel(x, out):
        for i in range(len(x)):
            if x[i] < 0:
                raise ValueError("negative")
            out[i] = c * x[i] + 1

    return kernel


def numba_cpu(c: int) -> Any:
    return kernbridge.numba_kernel(compiled_by_numba(c), same, vjp=rule(c))


def numba_cuda(c: int) -> Any:
    from numba import cuda, float32

    @cuda.jit
    def kernel(x, out):
        shared = cuda.shared.array(64, float32)
        i, lane = cuda.grid(1), cuda.threadIdx.x
        shared[lane] = x[i] if i < x.size else 0
        cuda.syncthreads()
        if i < x.size:
            out[i] = c * shared[lane] + 1

    return kernbridge.numba_cuda_kernel(
        kernel, same, launch_dims=lambda x: x.size, threads_per_block=64, vjp=rule(c)
    )


@functools.cache
def _halves(c: int) -> tuple[Any, Any]:
    from numba import cuda

    @cuda.jit
    def scaled(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = c * x[i]

    @cuda.jit
    def plus_one(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = x[i] + 1

    return scaled, plus_one


def _of_two_launches(c: int) -> Callable[..., None]:
    """A new function, which launches two new kernels."""
    from numba import cuda

    scaled, plus_one = _halves(c)

    def function(x, out, stream):
        temporary = cuda.device_array(x.size, x.dtype)
        blocks = (x.size + 63) // 64
        scaled[blocks, 64, stream](x, temporary)
        plus_one[blocks, 64, stream](temporary, out)

    return function


def recorded(c: int) -> Any:
    function = _of_two_launches(c)
    return kernbridge.numba_cuda_callable(function, same, record="always", vjp=rule(c))


_of_python = functools.cache(_of_two_launches)


def unrecorded(c: int) -> Any:
    # The description of each such function lasts, 0.6 KiB a shape: it is the same one each time.
    return kernbridge.numba_cuda_callable(_of_python(c), same, record="never", vjp=_rules[c])


def unrecorded_anew(c: int) -> Any:
    return kernbridge.numba_cuda_callable(_of_two_launches(c), same, record="never")


SOURCE = """
#include "kernbridge/kernbridge.hpp"
// @BE affine arg ret
void affine(const kernbridge::Tensor x, kernbridge::Tensor out) {
    const float *from = x.data_ptr<float>();
    float *to = out.data_ptr<float>();
    for (int64_t i = 0; i < x.numel(); i++) {
        KB_CHECK(from[i] >= 0) << "negative";
        to[i] = %d * from[i] + 1;
    }
}
"""


def load_cpp(name: str, c: int, **options: Any) -> Any:
    return kernbridge.load_cpp_inline(name, SOURCE % c, **options)


C_SOURCE = """
#include "kernbridge/kernbridge.h"
// @BE affine arg:f32[...] ret:f32[...]
int affine(const kb_call *call) {
    const float *from = call->inputs[0].data;
    float *to = call->outputs[0].data;
    for (int64_t i = 0; i < call->inputs[0].size; i++) {
        if (from[i] < 0) return kb_fail(call, KB_INVALID_ARGUMENT, "negative");
        to[i] = %d * from[i] + 1;
    }
    return 0;
}
"""


def load_c(name: str, c: int, **options: Any) -> Any:
    return kernbridge.load_c_inline(name, C_SOURCE % c, **options)


def c_source(c: int) -> Any:
    module = load_c(f"flood_c_{c}", c)
    return lambda x: module.affine(x, outs=same(x), vjp=_rules[c])


def cpp(c: int) -> Any:
    module = load_cpp(f"flood_{c}", c)
    return lambda x: module.affine(x, outs=same(x), vjp=_rules[c])


def cpp_carried(c: int) -> Any:
    module = load_cpp(f"flood_carried_{c}", c, carry=True)
    return lambda x: module.affine(x, outs=same(x), vjp=_rules[c])


CUDA_SOURCE = """
extern "C" __global__ void affine(const float *x, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = %d * x[i] + 1;
}
"""


def cuda_source(c: int) -> Any:
    return kernbridge.cuda_kernel(
        CUDA_SOURCE % c,
        "affine",
        same,
        launch_dims=lambda x: x.size,
        attrs={"n": lambda x: x.size},
        vjp=_rules[c],
    )


NVCC_SOURCE = """
#include <cuda_runtime.h>
#include "brainevent/common.h"
__global__ void scaled(const float *x, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = %d * x[i] + 1;
}
// @BE affine arg ret stream
void affine(const BE::Tensor x, BE::Tensor out, int64_t stream) {
    int n = (int)x.numel();
    const float *from = x.data_ptr<float>();
    float *to = out.data_ptr<float>();
    if (n) scaled<<<(n + 63) / 64, 64, 0, (cudaStream_t)stream>>>(from, to, n);
}
"""


def nvcc(c: int) -> Any:
    module = kernbridge.load_cuda_inline(f"flood_cuda_{c}", NVCC_SOURCE % c)
    return lambda x: module.affine(x, outs=same(x), vjp=_rules[c])


def twin(c: int) -> Any:
    """Return the same function of JAX alone, for what JAX's own memory grows by."""

    @jax.custom_vjp
    def affine(x):
        return c * x + 1

    affine.defvjp(lambda x: (c * x + 1, None), lambda _, ct: (c * ct,))
    return affine


def all_kinds(platform: str, kernels: str, slow: bool = True) -> list[Kind]:
    """Return the kinds that a platform has, with those that are slow to build or without.

    `kernels` is "ours", or "none" for JAX alone.
    """
    if kernels == "none":
        return [
            Kind("jax", twin),
            *([Kind("jax on a GPU", twin, True)] if platform == "cuda" else []),
        ]
    gpu = platform == "cuda"
    kinds = [
        Kind("numba", numba_cpu),
        Kind("numba-cuda", numba_cuda, gpu),
        Kind("recorded", recorded, gpu),
        Kind("unrecorded", unrecorded, gpu, 3),
        Kind("c", c_source, constants=MODULES),
    ]
    if slow:
        kinds.append(Kind("c++", cpp, constants=MODULES))
        kinds.append(Kind("c++ carried", cpp_carried, constants=MODULES))
    if gpu:
        kinds += [Kind("numba-cuda on the CPU", numba_cuda), Kind("nvrtc", cuda_source, True)]
        if slow and shutil.which("nvcc"):
            kinds.append(Kind("nvcc", nvcc, True, MODULES))
    return kinds
