"""The self-test of `kernbridge doctor`: one kernel of each kind is compiled, called and compared.

`run` starts one process for all kernels, with an empty cache, so that a crash is a failed test of
the kernel that ran. `main` is what that process does.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kernbridge._src.toolchain import programs
from kernbridge._src.tools.front_ends import Verdict

SECONDS = 300
_EXPECTED = [2.0, 3.0, 6.0]  # the squares of 0, 1 and 2, and 2 more


@dataclass(frozen=True)
class Result:
    """How one kernel did on one platform; `error` is empty if its result was right."""

    front_end: str
    platform: str
    seconds: float = 0.0
    error: str = ""


def run(front_ends: Iterable[Verdict], seconds: float = SECONDS) -> list[Result]:
    """Test the front ends that are ready, on each platform, in a process of their own."""
    todo = [(v.name, place) for v in front_ends for place in v.runs_on]
    if not todo:
        return []
    with tempfile.TemporaryDirectory(prefix="kernbridge-doctor-") as folder:
        report = Path(folder, "report")
        report.touch()
        code = f"from {__name__} import main; main({str(report)!r}, {todo!r})"
        environment = {
            **os.environ,
            "KERNBRIDGE_CACHE_DIR": str(Path(folder, "cache")),
            "KERNBRIDGE_PROGRESS": "0",
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # other processes use the GPU, too
        }
        # CUDA reserves more address space than any machine has memory.
        limits = programs.CompilerLimits(seconds, 0)
        done = programs.run(
            [sys.executable, "-c", code], errors=True, environment=environment, limits=limits
        )
        how = f"it did not end within {seconds:g} s" if done.limit else _ending(done)
        found = [Result(**json.loads(line)) for line in report.read_text().splitlines()]
    # The next one ran when the process ended.
    for name, place in todo[len(found) : len(found) + 1]:
        found.append(Result(name, place, error=how))
    return found + [Result(*t, error="it was not reached") for t in todo[len(found) :]]


def _ending(done: programs.Ended) -> str:
    how = f"signal {-done.status}" if done.status < 0 else f"status {done.status}"
    return ": ".join((f"the process ended with {how}", *done.text.strip().splitlines()[-1:]))


def main(report: str, todo: list[tuple[str, str]]) -> None:
    """Test kernels, and write a line of JSON about each when it is done."""
    warnings.simplefilter("ignore")  # that CUDA kernels run on the CPU is what is asked for
    for name, place in todo:
        result = check(name, place)
        with open(report, "a") as file:
            file.write(json.dumps(asdict(result)) + "\n")


def check(name: str, platform: str) -> Result:
    """Compile and call the kernel of one front end on one platform, and compare its result."""
    import jax

    start = time.perf_counter()
    try:
        with jax.default_device(jax.local_devices(backend=platform)[0]):
            x = jax.numpy.arange(3, dtype=np.float32)
            found = np.asarray(KERNELS[name](x))
        error = "" if found.tolist() == _EXPECTED else f"it returned {found}, expected {_EXPECTED}"
    except Exception as e:
        error = f"{type(e).__name__}: {e}"
    return Result(name, platform, round(time.perf_counter() - start, 2), error)


def _kernel(x: Any, out: Any) -> None:
    for i in range(x.size):
        out[i] = x[i] * x[i] + 2


def _kernel_of_threads(grid: Callable[[int], int]) -> Callable[[Any, Any], None]:
    def kernel(x: Any, out: Any) -> None:
        i = grid(1)
        if i < out.size:
            out[i] = x[i] * x[i] + 2

    return kernel


def _numba(x: Any) -> Any:
    import numba

    from kernbridge._src.numba_cpu.kernel import numba_kernel

    return numba_kernel(numba.njit(_kernel), x)(x)


def _numba_cuda(x: Any) -> Any:
    from numba import cuda

    return _launched(cuda, x)


def _mlir(x: Any) -> Any:
    from numba_cuda_mlir import cuda

    return _launched(cuda, x)


def _launched(cuda: Any, x: Any) -> Any:
    from kernbridge._src.numba_cuda.kernel import numba_cuda_kernel

    return numba_cuda_kernel(cuda.jit(_kernel_of_threads(cuda.grid)), x, launch_dims=x.size)(x)


def _cuda_kernel(x: Any) -> Any:
    from kernbridge._src.cuda_kernel.kernel import cuda_kernel

    source = """__global__ void doctor(const float *x, float *out) {
        out[threadIdx.x] = x[threadIdx.x] * x[threadIdx.x] + 2;
    }"""
    return cuda_kernel(source, "doctor", x, grid=1, block=x.size)(x)


def _c(x: Any) -> Any:
    from kernbridge._src.source.load_cpp import load_c_inline

    source = """
#include "kernbridge/kernbridge.h"
// @BE doctor arg:f32[n] ret:f32[n]
void doctor(const kb_tensor *x, kb_tensor *out) {
    const float *from = x->data;
    float *to = out->data;
    for (int i = 0; i < 3; i++) to[i] = from[i] * from[i] + 2;
}
"""
    return load_c_inline("kernbridge_doctor_c", source).doctor(x, outs=x)


def _cpp(x: Any) -> Any:
    from kernbridge._src.source.load_cpp import load_cpp_inline

    source = """
#include "kernbridge/kernbridge.hpp"
// @BE doctor arg:f32[n] ret:f32[n]
void doctor(const kernbridge::Tensor x, kernbridge::Tensor out) {
    const float *from = x.data_ptr<float>();
    float *to = out.data_ptr<float>();
    for (int i = 0; i < 3; i++) to[i] = from[i] * from[i] + 2;
}
"""
    return load_cpp_inline("kernbridge_doctor_cpp", source).doctor(x, outs=x)


def _cuda_source(x: Any) -> Any:
    from kernbridge._src.source.load_cuda import load_cuda_inline

    source = """
#include <cuda_runtime.h>
#include "kernbridge/kernbridge.hpp"
__global__ void kernel(const float *x, float *out) {
    out[threadIdx.x] = x[threadIdx.x] * x[threadIdx.x] + 2;
}
// @BE doctor arg:f32[n] ret:f32[n] stream
void doctor(const kernbridge::Tensor x, kernbridge::Tensor out, int64_t stream) {
    kernel<<<1, 3, 0, (cudaStream_t)stream>>>(x.data_ptr<float>(), out.data_ptr<float>());
}
"""
    return load_cuda_inline("kernbridge_doctor_cuda", source).doctor(x, outs=x)


KERNELS: dict[str, Callable[[Any], Any]] = {
    "numba_kernel": _numba,
    "numba_cuda_kernel": _numba_cuda,
    "numba_cuda_kernel (numba-cuda-mlir)": _mlir,
    "cuda_kernel": _cuda_kernel,
    "load_c_inline": _c,
    "load_cpp_inline": _cpp,
    "load_cuda_inline": _cuda_source,
}
