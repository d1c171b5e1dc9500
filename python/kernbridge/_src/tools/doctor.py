"""Reports what works on this machine, and what to install for the rest."""

from __future__ import annotations

import contextlib
import os
import platform
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO

import jax

from kernbridge import _core
from kernbridge._src.base import jax_state_inside
from kernbridge._src.base.errors import KernelToolchainError
from kernbridge._src.cuda_kernel import nvrtc
from kernbridge._src.source import targets
from kernbridge._src.store import artefacts, limit, trust
from kernbridge._src.toolchain import compilers, programs
from kernbridge._src.tools.front_ends import Verdict, verdicts, version
from kernbridge._src.tools.printing import Block, Lines, Pairs, plain

_PACKAGES = ("kernbridge", "jax", "jaxlib", "numpy", "numba", "numba-cuda", "llvmlite", "filelock")
_OPTIONAL = ("numba-cuda-mlir", "flatbuffers", "matplotlib", "rich")
_VARIABLES = ("XLA_FLAGS", "CC", "CXX", "CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX")
_NONE_SET = [("KERNBRIDGE_*", "none is set")]

Rows = list[tuple[str, str]]


@dataclass(frozen=True)
class Diagnosis:
    """What works on a machine.

    Attributes
    ----------
    front_ends : list of Verdict
        One for each kind of kernel.
    sections : dict of str to list of (str, str)
        What was found, by title.
    advice : list of str
        What to do about what is missing.
    works : bool
        Whether any kind of kernel can be compiled.
    """

    front_ends: list[Verdict]
    sections: dict[str, Rows]
    advice: list[str]
    works: bool

    def blocks(self) -> list[Block]:
        """Return it as it is printed."""
        styles = ("red", "green")
        verdicts = [(v.name, (str(v), styles[v.is_ready])) for v in self.front_ends]
        blocks: list[Block] = [Pairs("kernels", verdicts)]
        blocks += [Pairs(title, rows or _NONE_SET) for title, rows in self.sections.items()]
        advice = ["  - " + text.replace("\n", "\n    ") for text in self.advice]
        if advice:
            blocks.append(Lines([("what to do", "bold"), *advice]))
        return blocks


def print_diagnostics(file: TextIO | None = None) -> bool:
    """Print what kernbridge finds on this machine, and what to install for the rest.

    Parameters
    ----------
    file : text file or None
        The file to print to; standard output by default.

    Returns
    -------
    bool
        Whether at least one kind of kernel can be compiled on this machine.

    Examples
    --------
    >>> import io
    >>> from kernbridge._src.tools.doctor import print_diagnostics
    >>> text = io.StringIO()
    >>> works = print_diagnostics(text)
    >>> "versions" in text.getvalue()
    True
    """
    found = diagnose()
    found.sections["this process"] = [
        ("kernels", str(_core.registry_stats()[0])),
        ("targets", "\n".join(targets.list_registered_targets()) or "none"),
    ]
    print("\n".join(plain(found.blocks())), file=file or sys.stdout)
    return found.works


def diagnose() -> Diagnosis:
    """Look at packages, GPUs, compilers, the cache and the environment; nothing is compiled."""
    advice: list[str] = []
    compiler_rows = _compilers(advice)
    front_ends = verdicts()
    variables = [n for n in sorted(os.environ) if n.startswith("KERNBRIDGE_") or n in _VARIABLES]
    sections: dict[str, Rows] = {
        "versions": [(name, found or "not installed") for name, found in versions().items()],
        "JAX": _jax_state(),
        "GPU": _gpus(advice),
        "compilers": compiler_rows,
        "cache": _cache(advice),
        "environment": [(name, shlex.quote(os.environ[name])) for name in variables],
    }
    works = any(v.is_ready for v in front_ends)
    return Diagnosis(front_ends, sections, advice, works)


def versions() -> dict[str, str | None]:
    """Return the versions of Python and of all packages that matter; None where one is missing."""
    python = f"{platform.python_version()} on {platform.platform()}"
    return {"Python": python, **{name: version(name) for name in (*_PACKAGES, *_OPTIONAL)}}


def _jax_state() -> Rows:
    devices = "not started (that could take a GPU's memory)"
    # Asking for devices starts the backends, and a GPU's takes most of its memory.
    if jax_state_inside.has_started() or jax.config.jax_platforms == "cpu":
        try:
            platforms = ", ".join(sorted({d.platform for d in jax.devices()}))
            devices = f"{platforms}: {len(jax.devices())} devices"
        except RuntimeError as e:
            devices = str(e)
    return [("jax_platforms", jax.config.jax_platforms or "chosen by JAX"), ("devices", devices)]


def _gpus(advice: list[str]) -> Rows:
    rows = []
    with contextlib.suppress(OSError), open("/proc/driver/nvidia/version") as file:
        rows.append(("driver", file.readline().strip()))
    count, why = _core.device_count()
    if count == 0:
        return [*rows, ("GPUs", f"none: {why}")]
    capabilities = [_core.compute_capability(i) for i in range(count)]
    listed = ", ".join(f"{major}.{minor}" for major, minor in capabilities)
    if "xla_gpu_graph_min_graph_size" not in os.environ.get("XLA_FLAGS", ""):
        advice.append(
            "for loops whose body is a few small kernels: unroll=10 in jax.lax.scan and fori_loop "
            "makes a step cost about 1 instead of 15 us; where that is not possible, "
            "XLA_FLAGS=--xla_gpu_graph_min_graph_size=1 makes it about 4"
        )
    return [*rows, ("GPUs", f"{count}, compute capability {listed}")]


def _compilers(advice: list[str]) -> Rows:
    rows: Rows = []
    finders: dict[str, Callable[[], compilers.HostCompiler | compilers.Nvcc]] = {
        "C": compilers.find_c,
        "C++": compilers.find_cxx,
        "nvcc": compilers.find_nvcc,
    }
    for label, find in finders.items():
        try:
            compiler = find()
            version = _version_of(compiler.path)
        except (KernelToolchainError, ValueError) as e:
            rows.append((label, str(e).splitlines()[0].split(". Looked")[0]))
            advice.append(str(e))
            continue
        command = compiler.path if isinstance(compiler, compilers.Nvcc) else str(compiler)
        rows.append((label, f"{command} (from {compiler.origin})\n{version}"))
        if isinstance(compiler, compilers.Nvcc):
            rows.append(("libcudart", compiler.cudart or "not found beside nvcc"))
            if not compiler.cudart:
                advice.append(
                    "CUDA sources need libcudart: pip install nvidia-cuda-runtime (CUDA 13) or "
                    "nvidia-cuda-runtime-cu12"
                )
    try:
        path = nvrtc.library()
        number = _core.nvrtc_version(path)
        rows.append(("NVRTC", f"{path}\nversion {number // 1000}.{number % 1000 // 10}"))
    except (KernelToolchainError, OSError):
        rows.append(("NVRTC", "not found"))
    return rows


def _version_of(program: str) -> str:
    """Return the line of a compiler's answer to --version that holds it; empty if there is none."""
    try:
        limits = programs.CompilerLimits(10, programs.BYTES)
        done = programs.run([program, "--version"], limits=limits)
    except OSError as e:
        raise KernelToolchainError(f"{program} cannot be started: {e} [KB4008]") from e
    lines = [*filter(str.strip, done.text.splitlines()), ""]
    return next((line for line in lines if "release" in line), lines[0]).strip()


def _cache(advice: list[str]) -> Rows:
    folder = artefacts.get_cache_dir()
    rows = [("folder", str(folder) if folder else f"off ({artefacts.VARIABLE} says so)")]
    why = trust.why_not(artefacts.versioned(folder)) if folder else None
    if why is not None:
        rows.append(("not used", why))
        advice.append(f"{why}: set {artefacts.VARIABLE} to a folder that is yours alone")
    stats = limit.cache_stats()
    rows.append(("holds", f"{stats.entries} entries, {stats.bytes / 1e6:.1f} MB"))
    try:
        most = limit.limit()
        rows.append(("limit", f"{most / 1e6:.0f} MB" if most else "none"))
    except ValueError as e:
        rows.append(("limit", str(e)))
        advice.append(str(e))
    return rows
