"""What a call of a kernel built from source costs: on a GPU against a handler written by hand that
launches nvcc's kernel, on a CPU against an empty handler.

    python benchmarks/source_calls.py [--rounds N] [--seconds S]

Ratios and differences are medians over rounds of one run, all contenders interleaved.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import jax
import jax.numpy as jnp
import kernbridge
import measure
from rich.console import Console

# The kernel of gpu_floor.cu, in both.
CUDA = r"""
#include "brainevent/common.h"
__global__ void add_kernel(const float* x, const float* y, float* out, int64_t n) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] + y[i];
}
// @BE add arg:f32[n] arg:f32[n] ret:f32[n] stream
void add(const BE::Tensor x, const BE::Tensor y, BE::Tensor out, int64_t stream) {
    int64_t n = x.numel();
    add_kernel<<<(n + 255) / 256, 256, 0, (cudaStream_t)stream>>>(
        (const float*)x.data_ptr(), (const float*)y.data_ptr(), (float*)out.data_ptr(), n);
}
"""
NVRTC = r"""
__global__ void add(const float* x, const float* y, float* out, long long n) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] + y[i];
}
"""
CPP = r"""
#include "kernbridge/kernbridge.hpp"
// @BE empty arg:f32[n] ret:f32[n]
void empty(const kernbridge::Tensor x, kernbridge::Tensor out) { (void)x, (void)out; }
"""
C = r"""
#include "kernbridge/kernbridge.h"
// @BE empty arg:f32[n] ret:f32[n]
void empty(const kb_tensor *x, kb_tensor *out) { (void)x, (void)out; }
"""
SMALL = jax.ShapeDtypeStruct((8,), jnp.float32)


def on_cpu(n_rounds: int) -> list[measure.Row]:
    import floor

    floor.register()

    cpp = kernbridge.load_cpp_inline("bench_cpp", CPP)
    c = kernbridge.load_c_inline("bench_c", C)
    x = jnp.ones(8, jnp.float32)
    steps: dict[str, Callable[..., Any]] = {
        "empty C handler": floor.call(SMALL),
        "load_cpp_inline, operation": cpp.empty.operation(SMALL),
        "load_cpp_inline, ffi_call": jax.ffi.ffi_call("bench_cpp.empty", SMALL),
        "load_c_inline, operation": c.empty.operation(SMALL),
    }
    measures = {name: measure.per_call_in_a_loop(step, x, 20_000) for name, step in steps.items()}
    return measure.rounds(measures, n_rounds, 1e-9)


def on_gpu(seconds: float, console: Console) -> dict[str, Any]:
    import chain

    floor = chain.Floor()
    module = kernbridge.load_cuda_inline("bench_cuda", CUDA)
    nvrtc = kernbridge.cuda_kernel(
        NVRTC, "add", chain.OUT, launch_dims=chain.N, attrs={"n": chain.N}
    )

    def contenders(options: Any) -> dict[str, chain.Contender]:
        limit = chain.Limit(1.05)
        made: dict[str, chain.Build] = {
            "load_cuda_inline, operation": lambda: module.add.operation(chain.OUT),
            "load_cuda_inline, ffi_call": lambda: jax.ffi.ffi_call("bench_cuda.add", chain.OUT),
            "cuda_kernel": nvrtc.operation,
            "numba_cuda_kernel": chain.wrapped,
        }
        ours = {name: chain.Contender(build, limit, options) for name, build in made.items()}
        return {chain.FLOOR: chain.Contender(lambda: floor.op("add"), None, options), **ours}

    tables = {
        "200 dependent adds in one jit, in CUDA graphs, a call": (chain.chain(chain.CHAIN), None),
        "200 dependent adds in one jit, no graphs": (chain.chain(chain.CHAIN), chain.NO_GRAPHS),
        "One jitted call and block_until_ready": (chain.chain(1), None),
        "A step of fori_loop": (chain.loop(chain.STEPS), None),
    }
    results = {}
    for title, (program, options) in tables.items():
        results[title] = chain.compete(program, contenders(options), seconds)
        chain.show(console, title, "us", results[title])
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="of the tables on the CPU")
    parser.add_argument("--seconds", type=float, default=5, help="for each table on the GPU")
    parser.add_argument("--json", metavar="FILE", help="write all figures there")
    arguments = parser.parse_args()
    console = Console(width=140)
    if jax.default_backend() == "gpu":
        import chain

        chain.save(arguments.json, on_gpu(arguments.seconds, console))
    else:
        title = "A call in a jitted loop, f32[8], CPU"
        results = {title: on_cpu(arguments.rounds)}
        measure.show(console, title, "ns", results[title])
        measure.save(arguments.json, results)


if __name__ == "__main__":
    main()
