"""Writes the exported programs that tests/python/test_golden_exports.py loads.

    python tests/python/data/make_exports.py

They go into a folder of the version of JAX, in `exports` beside this file. The machine code in them
is for every x86-64 processor. Those of a released kernbridge are not made anew: they prove that
programs which were exported before can be loaded.
"""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

# Before anything is imported that reads them.
os.environ |= {
    "JAX_PLATFORMS": "cpu",
    "KERNBRIDGE_CACHE_DIR": "0",
    "KERNBRIDGE_LIBCUDA": "/nowhere/libcuda.so",
    "NUMBA_CPU_FEATURES": "",
    "NUMBA_CPU_NAME": "generic",
}

import numpy as np

if not hasattr(np, "row_stack"):
    np.row_stack = np.vstack  # type: ignore[attr-defined]  # numba-cuda 0.30 reads it; numpy 2.5 removed it

import jax
import jax.numpy as jnp
import numba
from jax import export
from kernbridge import load_c_inline, numba_cuda_callable, numba_cuda_kernel, numba_kernel
from numba import cuda

# Compiled under a name of its own: programs hold the place of a kernel.
KERNELS = """
@numba.njit
def axpy(x, y, a, out):
    for i in range(out.size):
        if x[i] < 0:
            raise ValueError("negative", x[i])
        out[i] = a * x[i] + y[i]

@numba.njit
def sort(x, out):
    values = [v for v in x]
    values.sort()
    for i in range(len(values)):
        out[i] = values[i]

@cuda.jit
def scale(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 3 * x[i]

@cuda.jit
def sums(x, out):
    part = cuda.shared.array(8, numba.float32)
    t = cuda.threadIdx.x
    part[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    if t == 0:
        total = numba.float32(0)
        for k in range(8):
            total += part[k]
        out[cuda.blockIdx.x] = total

def scale_twice(x, out, stream):
    once = cuda.device_array(x.shape, x.dtype)
    scale[1, x.size, stream](x, once)
    scale[1, x.size, stream](once, out)
"""


C_SOURCE = """
#include "kernbridge/kernbridge.h"
// @BE half arg:f32[...] ret:f32[...] attr.divisor:float64
void half(const kb_tensor *x, kb_tensor *out, double divisor) {
    for (int64_t i = 0; i < x->size; i++)
        ((float *)out->data)[i] = (float)(((const float *)x->data)[i] / divisor);
}
"""


def main() -> None:
    """Write all programs."""
    if platform.machine() != "x86_64":
        sys.exit("the programs are for x86-64, and this processor is another one")
    jax.config.update(
        "jax_hlo_source_file_canonicalization_regex", ".*/"
    )  # no path of this machine
    names = {"numba": numba, "cuda": cuda, "__name__": "golden_kernels"}
    exec(compile(KERNELS, "golden_kernels.py", "exec"), names)
    shape = jax.ShapeDtypeStruct
    vector = shape((8,), jnp.float32)
    same = lambda x, *_, **__: shape(x.shape, x.dtype)  # noqa: E731
    axpy = numba_kernel(names["axpy"], same)
    scale = numba_cuda_kernel(names["scale"], same, launch_dims=lambda x, *_: x.shape)
    sums = numba_cuda_kernel(names["sums"], shape((1,), jnp.float32), grid=1, block=8)
    twice = numba_cuda_callable(names["scale_twice"], vector)
    module = load_c_inline("golden_module", C_SOURCE, auto_register=False, carry=True)
    rows = export.symbolic_args_specs(shape((1, 1), jnp.float32), "b, n")
    programs = {
        "numba": (lambda x, y: axpy(x, y, a=2.0), vector, vector),
        "numba_list": (numba_kernel(names["sort"], same), vector),
        "numba_vmap_symbolic": (jax.vmap(lambda x: axpy(x, x, a=2.0)), rows),
        "cuda_on_cpu": (scale, vector),
        "cuda_on_cpu_shared": (sums, vector),
        "cuda_on_cpu_vmap_symbolic": (jax.vmap(scale), rows),
        "callable_on_cpu": (twice, vector),
        "c_library": (lambda x: module.half(x, outs=vector, divisor=2.0), vector),
    }
    folder = Path(__file__).parent / "exports" / jax.__version__
    folder.mkdir(parents=True, exist_ok=True)
    for name, (function, *types) in programs.items():
        written = export.export(jax.jit(function))(*types).serialize()
        (folder / f"{name}.bin").write_bytes(written)
        print(f"{name}: {len(written):,} bytes")


if __name__ == "__main__":
    main()
