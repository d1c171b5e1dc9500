"""What it costs to build a kernel from source: cold against the bare compiler, from the cache in a
new process, and NVRTC's first call.

    python benchmarks/build.py [--rounds N]

"Bare" is the same kernel and launcher with raw pointers and no header of ours, compiled with the
same flags by the compiler alone; "with the headers" is the source that kernbridge compiles, without
what kernbridge generates at its end. BrainEvent is measured if it is installed. Every round does
each once; differences are medians over rounds, and ratios those of the least times, which other
programs on the machine disturb least.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import kernbridge
import measure
from rich.console import Console
from rich.table import Table

CUDA = r"""
#include <cuda_runtime.h>
#include "brainevent/common.h"

__global__ void add_kernel(const float* a, const float* b, float* out, int n) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < n) out[idx] = a[idx] + b[idx];
}

// @BE vector_add arg:f32[n] arg:f32[n] ret:f32[n] stream
void vector_add(const BE::Tensor a, const BE::Tensor b,
                BE::Tensor out, int64_t stream) {
    int n = a.numel();
    add_kernel<<<(n + 255) / 256, 256, 0, (cudaStream_t)stream>>>(
        static_cast<const float*>(a.data_ptr()),
        static_cast<const float*>(b.data_ptr()),
        static_cast<float*>(out.data_ptr()), n);
}
"""
BARE_CUDA = r"""
#include <cuda_runtime.h>
#include <stdint.h>

__global__ void add_kernel(const float* a, const float* b, float* out, int n) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < n) out[idx] = a[idx] + b[idx];
}

extern "C" void vector_add(const void* a, const void* b, void* out, int64_t size, int64_t stream) {
    int n = size;
    add_kernel<<<(n + 255) / 256, 256, 0, (cudaStream_t)stream>>>(
        static_cast<const float*>(a), static_cast<const float*>(b), static_cast<float*>(out), n);
}
"""
CPP = r"""
#include "brainevent/common.h"
// @BE vector_add arg:f32[n] arg:f32[n] ret:f32[n]
void vector_add(const BE::Tensor a, const BE::Tensor b, BE::Tensor out) {
    const float* x = static_cast<const float*>(a.data_ptr());
    const float* y = static_cast<const float*>(b.data_ptr());
    float* o = static_cast<float*>(out.data_ptr());
    for (int64_t i = 0; i < a.numel(); i++) o[i] = x[i] + y[i];
}
"""
PLAIN_CPP = CPP.replace(":f32[n]", "")  # as BrainEvent reads it
MODULE = '#include "kernbridge/module.h"\n'  # with which kernbridge begins a source
BARE_CPP = r"""
#include <stdint.h>
extern "C" void vector_add(const float* x, const float* y, float* o, int64_t n) {
    for (int64_t i = 0; i < n; i++) o[i] = x[i] + y[i];
}
"""
NVRTC = r"""
__global__ void add(const float* a, const float* b, float* out, int n) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < n) out[idx] = a[idx] + b[idx];
}
"""

PROGRAM = """
import json, sys, time
import jax, jax.numpy as jnp
sys.path.insert(0, {here!r})
import build
{imported}
x = jnp.ones(1024, jnp.float32)
x.block_until_ready()
jax.jit(lambda x: x + 1)(x).block_until_ready()
start = time.{clock}()
{body}
print(json.dumps(time.{clock}() - start))
"""
LOAD_CPP = "kernbridge.load_cpp_inline('bench', build.CPP + '// {salt}')"
OF_BRAINEVENT = "brainevent.load_cpp_inline('bench', build.PLAIN_CPP + '// {salt}')"
LOAD_CUDA = "kernbridge.load_cuda_inline('bench', build.CUDA + '// {salt}'{more})"
FIRST_NVRTC = """
op = kernbridge.cuda_kernel(build.NVRTC + '// {salt}', 'add',
    jax.ShapeDtypeStruct((1024,), jnp.float32), launch_dims=1024, attrs=dict(n=1024))
jax.jit(op).lower(x, x){more}
"""


def in_new_process(
    body: str, cache: str, clock: str = "perf_counter", imported: str = "import kernbridge"
) -> float:
    """Seconds of the body, JAX and its backend up."""
    here = str(Path(__file__).parent)
    program = PROGRAM.format(here=here, body=body, clock=clock, imported=imported)
    environment = {**os.environ, "KERNBRIDGE_CACHE_DIR": cache, "XDG_CACHE_HOME": cache}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return float(json.loads(done.stdout.splitlines()[-1]))


def bare(command: list[str], suffix: str, source: str, salt: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"bare{suffix}"
        file.write_text(f"{source}// {salt}\n")
        start = time.perf_counter()
        subprocess.run([*command, str(file), "-o", f"{folder}/bare.so"], check=True)
        return time.perf_counter() - start


def rows(has_gpu: bool, cache: str) -> dict[str, tuple[Callable[[str], float], str, str]]:
    """Each: how to measure it, what it is compared with, and the limit in words."""
    flags = ["-O3", "-shared", "-fPIC", "-std=c++17"]
    include = Path(kernbridge.__path__[0]) / "include"
    folders = [f"-I{include}", f"-I{include / 'ext' / 'compat'}"]
    has_peer = importlib.util.find_spec("brainevent") is not None
    found: dict[str, tuple[Callable[[str], float], str, str]] = {
        "bare g++ -O3": (lambda s: bare(["g++", *flags], ".cpp", BARE_CPP, s), "", ""),
        "g++ -O3 with the headers": (
            lambda s: bare(["g++", *flags, *folders], ".cpp", MODULE + CPP, s),
            "bare g++ -O3",
            "",
        ),
        "load_cpp_inline, cold": (
            lambda s: in_new_process(LOAD_CPP.format(salt=s), cache),
            "g++ -O3 with the headers",
            "+ 0.1 s",
        ),
        "load_cpp_inline, cold, own CPU time": (
            lambda s: in_new_process(LOAD_CPP.format(salt=f"{s} CPU"), cache, "process_time"),
            "",
            "0.05 s",
        ),
    }
    if has_peer:
        load_plain = lambda s: in_new_process(  # noqa: E731
            OF_BRAINEVENT.format(salt=s), cache, imported="import brainevent"
        )
        found |= {
            "BrainEvent load_cpp_inline, cold": (load_plain, "", ""),
            "BrainEvent load_cpp_inline, cached": (load_plain, "", ""),
        }
    found["load_cpp_inline, cached"] = (
        lambda s: in_new_process(LOAD_CPP.format(salt=s), cache),
        "BrainEvent load_cpp_inline, cached" if has_peer else "",
        "0.7 x" if has_peer else "",
    )
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if Path(nvcc).exists():
        capability = gpu_capability() if has_gpu else "90"
        more = "" if has_gpu else ", compute_capability='9.0'"
        cuda = [nvcc, "-O3", "-std=c++17", f"-arch=sm_{capability}", "-shared"]
        cuda += ["-Xcompiler", "-fPIC", "-cudart", "shared"]
        load = LOAD_CUDA.replace("{more}", more)
        found |= {
            "bare nvcc": (lambda s: bare(cuda, ".cu", BARE_CUDA, s), "", ""),
            "load_cuda_inline, cold": (
                lambda s: in_new_process(load.format(salt=s), cache),
                "bare nvcc",
                "+ 0.2 s",
            ),
            "load_cuda_inline, cached": (
                lambda s: in_new_process(load.format(salt=s), cache),
                "",
                "0.005 s",
            ),
        }
    run = ".compile()(x, x).block_until_ready()" if has_gpu else ""
    first = FIRST_NVRTC.replace("{more}", run)
    if has_gpu:
        found["cuda_kernel, cold, first call"] = (
            lambda s: in_new_process(first.format(salt=s), cache),
            "",
            "0.1 s",
        )
        found["cuda_kernel, cached, first call"] = (
            lambda s: in_new_process(first.format(salt=s), cache),
            "",
            "",
        )
    return found


def gpu_capability() -> str:
    query = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    told = subprocess.run(query, capture_output=True, text=True, check=True).stdout
    return told.splitlines()[0].replace(".", "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", metavar="FILE", help="write all figures there")
    arguments = parser.parse_args()
    has_gpu = shutil.which("nvidia-smi") is not None
    with tempfile.TemporaryDirectory(prefix="kernbridge-bench-") as cache:
        measured = rows(has_gpu, cache)
        times: dict[str, list[float]] = {name: [] for name in measured}
        for i in range(-1, arguments.rounds):  # the first warms disks up
            for name, (seconds_of, _, _) in measured.items():
                seconds = seconds_of(f"{os.getpid()} {i}")
                if i >= 0:
                    times[name].append(seconds)
    table = Table(title="Building from source, s", title_justify="left")
    for column in ("what", "median", "least", "difference", "ratio", "limit"):
        table.add_column(column, justify="left" if column == "what" else "right")
    for name, (_, floor, limit) in measured.items():
        difference, ratio, values = "", "", times[name]
        if floor:
            pairs = zip(values, times[floor], strict=True)
            difference = f"{statistics.median(a - b for a, b in pairs):+.4f}"
            ratio = f"{min(values) / min(times[floor]):.2f}"
        least, median = f"{min(values):.4f}", f"{statistics.median(values):.4f}"
        table.add_row(name, median, least, difference, ratio, limit)
    Console(width=120).print(table)
    rows_of = [
        measure.row_of(name, times[name], times[floor or name], "s")
        for name, (_, floor, _) in measured.items()
    ]
    measure.save(arguments.json, {"Building from source, s": rows_of})


if __name__ == "__main__":
    main()
