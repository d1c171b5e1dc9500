"""`kernbridge doctor`: reports what works on this machine, calls it, and says what to install."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import shlex
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any, TextIO

import jax
import numpy as np

from kernbridge import _core
from kernbridge._ext.enzyme import tool as enzyme
from kernbridge._ext.nvrtc import nvrtc
from kernbridge._ext.tools.printing import Block, Output, Pairs, lines
from kernbridge._src.base.errors import KernelToolchainError
from kernbridge._src.base.progress import shown
from kernbridge._src.base.versions import install, minor
from kernbridge._src.forge import artefacts
from kernbridge._src.toolchain import compilers, cuda, programs
from kernbridge._src.toolchain.nvcc import find_nvcc

PLUGINS = ("jax_cuda12_plugin", "jax_cuda13_plugin")  # of JAX, for NVIDIA's GPUs
_PACKAGES = (
    *("kernbridge", "jax", "jaxlib", "numpy", "numba", "numba-cuda", "llvmlite"),
    *("numba-cuda-mlir", "flatbuffers", "matplotlib", "rich"),
)
_VARIABLES = ("XLA_FLAGS", "CC", "CXX", "CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX")


@dataclass(frozen=True)
class Verdict:
    """Whether one kind of kernel works here: the platforms on which it runs, or why on none."""

    name: str
    runs_on: tuple[str, ...] = ()
    why: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        places = " and the ".join(map(str.upper, self.runs_on))
        text = f"ready, on the {places}\n{self.why}"
        return (text if places else f"not ready: {self.why}\n{self.remedy}").rstrip()


def verdicts() -> list[Verdict]:
    """Judge every front end. Nothing is compiled, and JAX's backends are not started."""
    nvcc = _not_found(find_nvcc, compilers.find_cxx)
    if not nvcc[1] and not find_nvcc().cudart:
        packages = "nvidia-cuda-runtime (CUDA 13) or nvidia-cuda-runtime-cu12"
        nvcc = "libcudart is not found beside nvcc", f"pip install {packages}"
    no_gpu, remedy = _why_no_gpu()
    cpu, both = ((tuple(on.split()), "", "") for on in ("cpu", "cpu gpu"))
    nvrtc_library, of_nvcc = _not_found(nvrtc.library), both
    if no_gpu:
        of_nvcc = both = ("cpu",), f"not on a GPU: {no_gpu}", ""
        nvrtc_library = _not_found(compilers.find_cxx)
        if cuda.chosen():
            of_nvcc = (), f"{no_gpu}; it compiles and exports for the named GPUs", remedy
        else:
            nvcc = nvrtc_library
    kinds = [
        ("numba_kernel", cpu, _why_not("numba", "NUMBA_DISABLE_JIT")),
        ("numba_cuda_kernel", both, _why_not("numba_cuda", "NUMBA_ENABLE_CUDASIM")),
        ("cuda_kernel", both, nvrtc_library),
        ("load_c_inline", cpu, _not_found(compilers.find_c)),
        ("load_cpp_inline", cpu, _not_found(compilers.find_cxx)),
        ("load_cuda_inline", of_nvcc, nvcc),
    ]
    if importlib.util.find_spec("numba"):
        kinds.append(('numba_kernel(derivatives="enzyme")', cpu, _not_found(enzyme.find)))
    clang = _not_found(compilers.find_c, lambda: enzyme.find().find_clang())
    kinds.append(('load_c_inline(derivatives="enzyme")', cpu, clang))
    if importlib.util.find_spec("numba_cuda_mlir"):
        kinds.append(("numba_cuda_kernel (numba-cuda-mlir)", both, ("", "")))
    return [Verdict(name, *(((), *why) if why[1] else works)) for name, works, why in kinds]


def _not_found(*finders: Callable[[], Any]) -> tuple[str, str]:
    """Why a tool is not found, and a remedy; empty if all are found."""
    try:
        for find in finders:
            find()
    except (KernelToolchainError, ValueError, OSError) as e:
        why, _, rest = str(e).partition(". Looked")
        remedy = rest.partition("What to do, one of:\n  1. ")[2].partition("\n")[0]
        return why.splitlines()[0], remedy or "pip install 'jax[cuda13]' or nvidia-cuda-nvrtc"
    return "", ""


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _why_not(module: str, switch: str) -> tuple[str, str]:
    """Why Numba or Numba-CUDA does not work, and a remedy; empty if it does."""
    package, extra = module.replace("_", "-"), module.rpartition("_")[2]
    if not (importlib.util.find_spec("numba") and importlib.util.find_spec(module)):
        return f"{package} is not installed", install(extra)
    if os.environ.get(switch, "0") not in ("", "0"):
        return f"{switch} is set, which switches its compiler off", "unset it"
    numpy, found = _version("numpy"), _version(package) or "0"
    if module == "numba_cuda" and minor(found) <= (0, 30) and not hasattr(np, "row_stack"):
        why = f"numba-cuda {found} does not work with NumPy {numpy} (numpy.row_stack has gone)"
        return why, "pip install 'numpy<2.5', or a newer numba-cuda"
    return "", ""


def _why_no_gpu() -> tuple[str, str]:
    """Why operations cannot run on a GPU of this machine, and a remedy; empty if they can."""
    count, why = _core.device_count()
    platforms = jax.config.jax_platforms
    if count == 0:
        why = f"there is no GPU ({why.partition(':')[0]})"
        return why, "run it on a machine with an NVIDIA GPU"
    if platforms and not {"cuda", "gpu"} & set(platforms.split(",")):
        return f"JAX_PLATFORMS is {platforms!r}", "unset JAX_PLATFORMS, or add cuda to it"
    if not any(map(importlib.util.find_spec, PLUGINS)):
        return "JAX is installed without its CUDA plugin", "pip install 'jax[cuda13]'"
    return "", ""


def versions() -> dict[str, str | None]:
    python = f"{platform.python_version()} on {platform.platform()}"
    return {"Python": python, **{name: _version(name) for name in _PACKAGES}}


def sections() -> dict[str, dict[str, str]]:
    variables = [n for n in sorted(os.environ) if n.startswith("KERNBRIDGE_") or n in _VARIABLES]
    count, why = _core.device_count()
    gpus = ", ".join(".".join(map(str, _core.compute_capability(i))) for i in range(count))
    gpus = f"{count}, compute capability {gpus}" if count else f"none: {why}"
    folder = artefacts.get_cache_dir()
    refused = artefacts.why_not(folder / artefacts.VERSION) if folder else None
    cache = f"{folder or 'off'}" + (f", not used: {refused}" if refused else "")
    return {
        "versions": {name: version or "not installed" for name, version in versions().items()},
        "machine": {"GPUs": gpus, "cache": cache},
        "environment": {name: shlex.quote(os.environ[name]) for name in variables},
    }


def _blocks(found: list[Verdict]) -> list[Block]:
    kernels = [(v.name, (str(v), "green" if v.runs_on else "red")) for v in found]
    others = (Pairs(title, [*rows.items()]) for title, rows in sections().items())
    return [Pairs("kernels", kernels), *others]


def print_diagnostics(file: TextIO | None = None) -> bool:
    """Print what kernbridge finds on this machine, and what to install for the rest.

    The text goes to `file`, by default standard output. Returns whether any kernel can run here.

    Examples
    --------
    >>> import io, kernbridge
    >>> text = io.StringIO()
    >>> works = kernbridge.print_diagnostics(text)
    >>> "versions" in text.getvalue()
    True
    """
    found = verdicts()
    print("\n".join(lines(_blocks(found))), file=file or sys.stdout)
    return any(v.runs_on for v in found)


_CUDA = """extern "C" __global__ void squares(const float *from, float *to) {
    int i = threadIdx.x; to[i] = from[i] * from[i] + 2; }\n"""
_C = """// @BE doctor x: f32[n] -> y: f32[n]
void doctor(const float *x, float *y) {
    for (int i = 0; i < 3; i++) y[i] = x[i] * x[i] + 2; }\n"""
_LAUNCHED = f"""#include "kernbridge/kernbridge.hpp"
{_CUDA}// @BE doctor arg ret stream
void doctor(const kernbridge::Tensor x, kernbridge::Tensor out, int64_t stream) {{
    squares<<<1, 3, 0, (cudaStream_t)stream>>>(x.data_ptr<float>(), out.data_ptr<float>()); }}"""
_THREADS = "kb.numba_cuda_kernel(cuda.jit(threads), x, launch_dims=3)(x)"
_GRADIENT = """import numba; f = kb.numba_kernel(numba.njit(loop), x, derivatives="enzyme")
y = f(x) + jax.grad(lambda x: f(x).sum())(x) - 2 * x"""
_DERIVED = f"""f = kb.load_c_inline('doctor_derivative', {_C!r}).doctor
f = f.operation(derivatives="enzyme"); y = f(x) + jax.grad(lambda x: f(x).sum())(x) - 2 * x"""
CALLS = {
    "numba_kernel": "import numba; y = kb.numba_kernel(numba.njit(loop), x)(x)",
    'numba_kernel(derivatives="enzyme")': _GRADIENT,
    'load_c_inline(derivatives="enzyme")': _DERIVED,
    "numba_cuda_kernel": f"from numba import cuda; y = {_THREADS}",
    "numba_cuda_kernel (numba-cuda-mlir)": f"from numba_cuda_mlir import cuda; y = {_THREADS}",
    "cuda_kernel": f"y = kb.cuda_kernel({_CUDA!r}, 'squares', x, grid=1, block=3)(x)",
    "load_c_inline": f"y = kb.load_c_inline('doctor_c', {_C!r}).doctor(x)",
    "load_cpp_inline": f"y = kb.load_cpp_inline('doctor_cpp', {_C!r}).doctor(x)",
    "load_cuda_inline": f"y = kb.load_cuda_inline('doctor_cu', {_LAUNCHED!r}).doctor(x, outs=x)",
}
_PROGRAM = """
import json, sys, jax, kernbridge as kb
def loop(x, out):
    for i in range(x.size): out[i] = x[i] * x[i] + 2
def threads(x, out):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)): out[i] = x[i] * x[i] + 2
for place, call in json.loads(sys.argv[1]):
    try:
        with jax.default_device(jax.local_devices(backend=place)[0]):
            x = jax.numpy.arange(3, dtype="float32")
            exec(call)
        error = "" if y.tolist() == [2, 3, 6] else f"it returned {y}, expected [2, 3, 6]"
    except Exception as e:
        error = f"{type(e).__name__}: {e}"
    print(json.dumps(error), file=sys.stderr, flush=True)
"""


def self_test(todo: list[tuple[str, str]], seconds: float = 300) -> list[str]:
    """Call kernels of (front end, platform) in a process with an empty cache; return the errors."""
    calls = json.dumps([(place, CALLS[name]) for name, place in todo])
    with tempfile.TemporaryDirectory(prefix="kernbridge-doctor-") as folder:
        own = {"KERNBRIDGE_CACHE_DIR": folder, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        limits = programs.CompilerLimits(seconds, 0)  # CUDA reserves more addresses than memory
        command = [sys.executable, "-W", "ignore", "-c", _PROGRAM, calls]
        with shown("testing a kernel of each kind"):
            done = programs.run(command, errors=True, environment=os.environ | own, limits=limits)
    how = f"the process ended with status {done.status}"
    how = f"it did not end within {seconds:g} s" if done.limit else how
    errors = [json.loads(line) for line in done.text.splitlines() if line.startswith('"')]
    return [*errors, how, *["it was not reached"] * len(todo)][: len(todo)]


def run(chosen: argparse.Namespace, output: Output) -> int:
    found = verdicts()
    output.show(*_blocks(found))
    todo = [(v.name, place) for v in found for place in v.runs_on]
    output.answer |= {"works": bool(todo), **sections(), "versions": versions(), "self_test": None}
    output.answer["kernels"] = [{**asdict(v), "ready": bool(v.runs_on)} for v in found]
    if chosen.no_self_test:
        return 0 if todo else 1
    rows, tested = [], []
    for (name, place), error in zip(todo, self_test(todo), strict=True):
        outcome = f"failed on the {place}: {error}" if error else f"passed on the {place}"
        rows.append((name, outcome))
        tested.append({"front_end": name, "platform": place, "passed": not error, "error": error})
    output.answer["self_test"] = tested
    if rows:
        output.show(Pairs("self-test", rows))
    return 0 if todo and all(t["passed"] for t in tested) else 1
