"""CUDA kernels on the CPU against loops that Numba and g++ compile for it, and what a block costs.

    python benchmarks/cuda_on_cpu.py [--rounds N] [--size 1000000] [--check]

The process may use one core: a long launch would start threads for others. Kernel and loop work on
the same arrays, interleaved; ratios are medians over rounds. CPU time counts, so that other
processes matter little; in CUDA C++, the loop has the flags of the kernel. JAX calls the kernels
with barriers; other launches go to the core. Another process has two cores, which share a launch as
JAX calls it. The exit status is 1 with `--check` if a ratio is above its limit.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

os.environ["KERNBRIDGE_LIBCUDA"] = "/nowhere/libcuda.so"  # the CPU, whatever else there is
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["KERNBRIDGE_CACHE_DIR"] = "0"  # both compilers run

import jax
import jax.numpy as jnp
import kernbridge
import kernbridge._core as _core
import measure
import numba
import numpy as np
from kernbridge._ext.emulator.compiler import compile as cuda_on_cpu_compile
from kernbridge._src.numba_cuda import compile as numba_cuda_compile
from kernbridge._src.plan import targets
from numba import cuda
from rich.console import Console
from rich.table import Table

BLOCK, TILE = 256, 16
Sizes = tuple[int, int, int]
ONE = np.float32(1)


@cuda.jit
def relu(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = max(x[i], np.float32(0))


@cuda.jit
def add(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


@cuda.jit
def sigmoid(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = ONE / (ONE + math.exp(-x[i]))


@cuda.jit
def tree(x, out):
    s = cuda.shared.array(BLOCK, numba.float32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    step = BLOCK // 2
    while step > 0:
        cuda.syncthreads()
        if t < step:
            s[t] += s[t + step]
        step //= 2
    if t == 0:
        out[cuda.blockIdx.x] = s[0]


@cuda.jit
def stencil(x, y, out):
    i = cuda.grid(1)
    if 0 < i < out.size - 1:
        out[i] = x[i - 1] + x[i] + x[i + 1]


@cuda.jit
def saxpy(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = np.float32(2) * x[i] + y[i]


@cuda.jit
def histogram(x, y, out):
    counts = cuda.shared.array(BLOCK, numba.int32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    counts[t] = 0
    cuda.syncthreads()
    if i < x.size:
        cuda.atomic.add(counts, int(abs(x[i]) * np.float32(64)) & 255, 1)
    cuda.syncthreads()
    cuda.atomic.add(out, t, np.float32(counts[t]))


@cuda.jit
def product(x, y, out):
    a = cuda.shared.array((TILE, TILE), numba.float32)
    b = cuda.shared.array((TILE, TILE), numba.float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    i, j = cuda.blockIdx.y * TILE + ty, cuda.blockIdx.x * TILE + tx
    total = np.float32(0)
    for k in range(0, x.shape[1], TILE):
        a[ty, tx] = x[i, k + tx]
        b[ty, tx] = y[k + ty, j]
        cuda.syncthreads()
        for m in range(TILE):
            total += a[ty, m] * b[m, tx]
        cuda.syncthreads()
    out[i, j] = total


@cuda.jit
def reduction(x, y, out):
    s = cuda.shared.array(BLOCK, numba.float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    s[t] = x[i] if i < x.size else np.float32(0)
    step = BLOCK // 2
    while step > 0:
        cuda.syncthreads()
        if t < step:
            s[t] += s[t + step]
        step //= 2
    if t == 0:
        out[cuda.blockIdx.x] = s[0]


@cuda.jit
def warm(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = y[i] - x[i]


@numba.njit
def relu_loop(x, y, out):
    for i in range(out.size):
        out[i] = max(x[i], np.float32(0))


@numba.njit
def add_loop(x, y, out):
    for i in range(out.size):
        out[i] = x[i] + y[i]


@numba.njit
def sigmoid_loop(x, y, out):
    for i in range(out.size):
        out[i] = ONE / (ONE + math.exp(-x[i]))


@numba.njit
def stencil_loop(x, y, out):
    for i in range(1, out.size - 1):
        out[i] = x[i - 1] + x[i] + x[i + 1]


@numba.njit
def saxpy_loop(x, y, out):
    for i in range(out.size):
        out[i] = np.float32(2) * x[i] + y[i]


@numba.njit
def histogram_loop(x, y, out):
    for i in range(x.size):
        out[int(abs(x[i]) * np.float32(64)) & 255] += 1


@numba.njit
def product_loop(x, y, out):
    out[:] = 0
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            for j in range(y.shape[1]):
                out[i, j] += x[i, k] * y[k, j]


@numba.njit
def reduction_loop(x, y, out):
    for b in range(out.size):
        total = np.float32(0)
        for i in range(b * BLOCK, min(x.size, (b + 1) * BLOCK)):
            total += x[i]
        out[b] = total


# The kernels and the loops again. `times` has a row for the kernel and one for the loop.
SOURCE = r"""
#include "kernbridge/kernbridge.hpp"
#include <ctime>
using kernbridge::Tensor;
#define LOOP __attribute__((noinline)) static void
#define ARRAYS const float *__restrict x, const float *__restrict y, float *__restrict out, int n
#define ELEMENTWISE(name, begin, end, value)                                                   \
    __global__ void name(ARRAYS) {                                                             \
        int i = blockIdx.x * blockDim.x + threadIdx.x;                                         \
        if (i >= begin && i < end) out[i] = value;                                             \
    }                                                                                          \
    LOOP name##_loop(ARRAYS) { for (int i = begin; i < end; i++) out[i] = value; }
ELEMENTWISE(relu, 0, n, fmaxf(x[i], 0.0f))
ELEMENTWISE(add, 0, n, x[i] + y[i])
ELEMENTWISE(stencil, 1, n - 1, x[i - 1] + x[i] + x[i + 1])
ELEMENTWISE(saxpy, 0, n, 2.0f * x[i] + y[i])
__global__ void histogram(ARRAYS) {
    __shared__ int counts[256];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    counts[t] = 0;
    __syncthreads();
    if (i < n) atomicAdd(&counts[(int)(fabsf(x[i]) * 64.0f) & 255], 1);
    __syncthreads();
    atomicAdd(&out[t], (float)counts[t]);
}
LOOP histogram_loop(ARRAYS) {
    for (int i = 0; i < n; i++) out[(int)(fabsf(x[i]) * 64.0f) & 255] += 1;
}
__global__ void product(ARRAYS) {
    __shared__ float a[16][16], b[16][16];
    int tx = threadIdx.x, ty = threadIdx.y, i = blockIdx.y * 16 + ty, j = blockIdx.x * 16 + tx;
    float total = 0;
    for (int k = 0; k < n; k += 16) {
        a[ty][tx] = x[i * n + k + tx];
        b[ty][tx] = y[(k + ty) * n + j];
        __syncthreads();
        for (int m = 0; m < 16; m++) total += a[ty][m] * b[m][tx];
        __syncthreads();
    }
    out[i * n + j] = total;
}
LOOP product_loop(ARRAYS) {
    for (int i = 0; i < n * n; i++) out[i] = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++)
            for (int j = 0; j < n; j++) out[i * n + j] += x[i * n + k] * y[k * n + j];
}
__global__ void reduction(ARRAYS) {
    __shared__ float s[256];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    s[t] = i < n ? x[i] : 0.0f;
    for (int step = 128; step; step /= 2) {
        __syncthreads();
        if (t < step) s[t] += s[t + step];
    }
    if (t == 0) out[blockIdx.x] = s[0];
}
LOOP reduction_loop(ARRAYS) {
    for (int b = 0; b < (n + 255) / 256; b++) {
        out[b] = 0;
        for (int i = b * 256; i < n && i < (b + 1) * 256; i++) out[b] += x[i];
    }
}
template <typename F> static double seconds(const F &run) {
    timespec t[2];
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t[0]);
    run();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t[1]);
    return double(t[1].tv_sec - t[0].tv_sec) + 1e-9 * double(t[1].tv_nsec - t[0].tv_nsec);
}
#define CASE(number, name, grid, block)                                                        \
    case number:                                                                               \
        t[r] = seconds([&] { name##_loop(a, b, w, n); });                                      \
        t[rounds + r] = seconds([&] { name<<<grid, block>>>(a, b, o, n); });                   \
        break;
// @BE measure
void measure(const Tensor x, const Tensor y, Tensor out, Tensor wanted, Tensor times, int which,
             int n) {
    const float *a = x.data_ptr<float>(), *b = y.data_ptr<float>();
    float *o = out.data_ptr<float>(), *w = wanted.data_ptr<float>();
    double *t = times.data_ptr<double>();
    for (int64_t r = 0, rounds = times.shape(1); r < rounds; r++) {
        memset(o, 0, size_t(out.numel()) * sizeof(float));
        memset(w, 0, size_t(out.numel()) * sizeof(float));
        int grid = (n + 255) / 256;
        switch (which) {
            CASE(0, relu, grid, 256)
            CASE(1, add, grid, 256)
            CASE(2, stencil, grid, 256)
            CASE(3, saxpy, grid, 256)
            CASE(4, histogram, grid, 256)
            CASE(5, product, dim3(n / 16, n / 16), dim3(16, 16))
            CASE(6, reduction, grid, 256)
        }
    }
}
"""


class HostLaunch:
    """A kernel's launch on this thread. Gives the time that the kernel's two compilers took."""

    def __init__(
        self, kernel: Any, arrays: list[np.ndarray], grid: Sizes, block: Sizes = (BLOCK, 1, 1)
    ) -> None:
        from kernbridge._src.numba_cuda.entry import DeviceParameter

        parameters = [DeviceParameter("array", a.dtype, a.ndim) for a in arrays]
        begun = time.process_time()
        cpu = targets.of_platform("cpu")
        job = numba_cuda_compile.KernelJob("benchmark", kernel, parameters, False, cpu)
        function = numba_cuda_compile.compile_kernel(job)
        both = time.process_time() - begun
        image = dict(function.images)[_core.HOST_CC]
        begun = time.process_time()
        cuda_on_cpu_compile.HostCodeRecipe(image, "", "").make()
        self.llvm_seconds = time.process_time() - begun
        self.numba_seconds = both - self.llvm_seconds
        words = [w for a in arrays for w in (a.ctypes.data, *a.shape)]
        self.arrays = arrays
        self.words = (ctypes.c_int64 * len(words))(*words)
        self.digest, self.grid, self.block = image[:64], grid, block

    def __call__(self) -> None:
        _core.launch_host_code(self.digest, self.grid, self.block, 0, self.words)


def seconds(call: Callable[[], Any], clock: Callable[[], float]) -> float:
    begun = clock()
    call()
    return clock() - begun


def interleaved(
    calls: list[Callable[[], Any]], rounds: int, clock: Callable[[], float] = time.process_time
) -> list[list[float]]:
    """Times of each call, round by round: by default, those of the CPU."""
    for call in calls:
        call()
    times = [[seconds(call, clock) for call in calls] for _ in range(rounds)]
    return [list(column) for column in zip(*times, strict=True)]


# name: the kernel, the loop, and the limits of the ratio in Numba and in C++
ELEMENTWISE: dict[str, tuple[Any, Any, float, float]] = {
    "relu": (relu, relu_loop, 1.2, 1.5),
    "add": (add, add_loop, 1.2, 1.5),
    "stencil": (stencil, stencil_loop, 2, math.inf),
    "saxpy": (saxpy, saxpy_loop, 1.2, 1.5),
}
WITH_BARRIERS: dict[str, tuple[Any, Any, float, float]] = {
    "histogram": (histogram, histogram_loop, 5, 5),
    "product": (product, product_loop, 8, 8),
    "reduction": (reduction, reduction_loop, 30, 30),
}
SIGMOID = {"sigmoid": (sigmoid, sigmoid_loop, 4, math.inf)}
WIDTH = 512  # of the matrices of `product`


def arrays_of(name: str, size: int) -> tuple[list[np.ndarray], Sizes, Sizes, int]:
    """Two inputs and an output, the extents of grid and blocks, and the most rounds."""
    rng = np.random.default_rng(0)
    if name == "product":
        x, y = rng.normal(size=(2, WIDTH, WIDTH)).astype(np.float32)
        tiles = WIDTH // TILE
        return [x, y, np.zeros_like(x)], (tiles, tiles, 1), (TILE, TILE, 1), 3
    x, y = rng.normal(size=(2, size)).astype(np.float32)
    n_blocks = -(-size // BLOCK)
    n_out = {"histogram": BLOCK, "reduction": n_blocks}.get(name, size)
    out = np.zeros(n_out, np.float32)
    return [x, y, out], (n_blocks, 1, 1), (BLOCK, 1, 1), 1000 if n_out == size else 10


def add_row(
    table: Table, title: str, ours: list[float], loop: str, theirs: list[float], limit: float
) -> bool:
    """Add a row; return whether its ratio is above the limit."""
    ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
    table.add_row(
        title,
        f"{statistics.median(ours) * 1e3:.2f} ms",
        f"{loop} {statistics.median(theirs) * 1e3:.2f} ms",
        f"{ratio:.2f} x",
        "" if limit == math.inf else f"{limit} x",
    )
    return ratio > limit


def rows_of(loop: str, kernel: str, theirs: list[float], ours: list[float]) -> list[measure.Row]:
    return [
        measure.row_of(who, [1e3 * s for s in times], [1e3 * s for s in theirs], "ms")
        for who, times in ((loop, theirs), (kernel, ours))
    ]


def call_of_jax(op: Any, x: jax.Array, y: jax.Array, out: np.ndarray) -> None:
    out[...] = op(x, y)


def from_zeros(loop: Any, x: np.ndarray, y: np.ndarray, out: np.ndarray) -> None:
    out[...] = 0
    loop(x, y, out)


def against_loops(size: int, rounds: int, table: Table, results: dict[str, Any]) -> list[str]:
    missed = []
    (x, y, out), grid, block, _ = arrays_of("add", 1)
    HostLaunch(warm, [x, y, out], grid, block)  # Numba and LLVM load themselves
    for name, (kernel, loop, limit, _) in (WITH_BARRIERS | ELEMENTWISE | SIGMOID).items():
        (x, y, out), grid, block, most = arrays_of(name, size)
        wanted = np.zeros_like(out)
        launch = HostLaunch(kernel, [x, y, out], grid, block)
        calls = [launch, partial(loop, x, y, wanted)]
        if name in WITH_BARRIERS:
            kind = jax.ShapeDtypeStruct(out.shape, out.dtype)
            options = {"grid": grid, "block": block, "zero_outputs": True}
            op = jax.jit(kernbridge.numba_cuda_kernel(kernel, kind, **options))
            given = jnp.asarray(x), jnp.asarray(y)
            calls = [partial(call_of_jax, op, *given, out), partial(from_zeros, loop, x, y, wanted)]
        ours, theirs = interleaved(calls, min(rounds, most))
        np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-4)
        if add_row(table, f"{name}, one core", ours, "njit loop", theirs, limit):
            missed.append(name)
        results[name] = rows_of("an njit loop", "CUDA kernel", theirs, ours)
        compiled = 1e3 * (launch.numba_seconds + launch.llvm_seconds)
        llvm = f"of which LLVM {launch.llvm_seconds * 1e3:.0f} ms"
        table.add_row(f"{name}, compiled", f"{compiled:.0f} ms", llvm, "", "150 ms, once warm")
    return missed


def in_cpp(size: int, rounds: int, table: Table, results: dict[str, Any]) -> list[str]:
    """The same kernels and loops in CUDA C++ and C++."""
    module = kernbridge.load_cuda_inline("cuda_on_cpu", SOURCE)
    missed = []
    for which, (name, (*_, limit)) in enumerate((ELEMENTWISE | WITH_BARRIERS).items()):
        (x, y, out), *_, most = arrays_of(name, size)
        with jax.enable_x64(True):
            shape = jax.ShapeDtypeStruct(out.shape, out.dtype)
            times = jax.ShapeDtypeStruct((2, min(rounds, most)), jnp.float64)
            outs = (shape, shape, times)
            made, wanted, found = module.measure(x, y, outs=outs, which=which, n=x.shape[0])
        np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-4)
        theirs, ours = np.asarray(found).tolist()
        if add_row(table, f"{name}, CUDA C++", ours, "C++ loop", theirs, limit):
            missed.append(f"{name} in C++")
        results[f"{name}, C++"] = rows_of("a C++ loop", "CUDA kernel", theirs, ours)
    return missed


def tree_reduction(rounds: int, table: Table) -> list[str]:
    n_blocks = 200
    x = np.random.default_rng(1).integers(0, 10, n_blocks * BLOCK).astype(np.float32)
    out = np.zeros(n_blocks, np.float32)
    launch = HostLaunch(tree, [x, out], (n_blocks, 1, 1))
    (times,) = interleaved([launch], rounds)
    np.testing.assert_array_equal(out, x.reshape(n_blocks, BLOCK).sum(1))
    a_block = statistics.median(times) / n_blocks * 1e6
    table.add_row("tree reduction, 256 threads", f"{a_block:.0f} us a block", "", "", "200 us")
    return ["tree"] * (a_block > 200)


def two_cores(size: int, rounds: int, cores: list[int]) -> tuple[list[float], list[float]]:
    """Times of a launch from a jitted function on two cores, and of one on one core."""
    os.sched_setaffinity(0, cores)  # before JAX starts its threads
    warnings.simplefilter("ignore", kernbridge.KernbridgeWarning)
    x = jnp.asarray(np.random.default_rng(2).normal(size=8 * size), jnp.float32)
    op = kernbridge.numba_cuda_kernel(
        sigmoid, jax.ShapeDtypeStruct(x.shape, x.dtype), launch_dims=x.size
    )
    call = jax.jit(op)
    launch = HostLaunch(
        sigmoid,
        [np.asarray(x), np.asarray(x), np.zeros(x.size, np.float32)],
        (-(-x.size // BLOCK), 1, 1),
    )

    def launch_alone() -> None:
        os.sched_setaffinity(0, cores[:1])
        launch()
        os.sched_setaffinity(0, cores)

    calls = [lambda: jax.block_until_ready(call(x, x)), launch_alone]
    shared, alone = interleaved(calls, rounds, time.perf_counter)
    return shared, alone


def on_two_cores(size: int, rounds: int, table: Table, cores: list[int]) -> list[str]:
    if len(cores) < 2:
        table.add_row("sigmoid, two cores", "", "there is one core", "", "1.7 x")
        return []
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        shared, alone = pool.submit(two_cores, size, rounds, cores).result()
    ratio = statistics.median(b / a for a, b in zip(shared, alone, strict=True))
    table.add_row(
        "sigmoid, two cores",
        f"{statistics.median(shared) * 1e3:.2f} ms",
        f"one core {statistics.median(alone) * 1e3:.2f} ms",
        f"{ratio:.2f} x faster",
        "1.7 x",
    )
    return ["two cores"] * (ratio < 1.7)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--size", type=int, default=1_000_000, help="elements")
    parser.add_argument("--check", action="store_true", help="fail above a limit")
    parser.add_argument("--json", metavar="FILE", help="write the figures of the loops there")
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))[:2]
    os.sched_setaffinity(0, cores[:1])
    warnings.simplefilter("ignore", kernbridge.KernbridgeWarning)
    table = Table("", "kernbridge", "against", "ratio", "limit")
    results: dict[str, Any] = {}
    # Launches of JAX come first: their atomic operations are plain ones until there are others.
    missed = in_cpp(options.size, options.rounds, table, results)
    missed += against_loops(options.size, options.rounds, table, results)
    missed += tree_reduction(options.rounds, table)
    missed += on_two_cores(options.size, options.rounds, table, cores)
    Console().print(table)
    measure.save(options.json, results)
    if missed:
        print("above the limit:", ", ".join(missed))
    return int(bool(missed) and options.check)


if __name__ == "__main__":
    sys.exit(main())
