"""What works on this machine, and what to install for what does not."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import metadata
from typing import TextIO

from kernbridge._src.base.errors import KernelToolchainError

_PACKAGES = ("kernbridge", "jax", "jaxlib", "numpy", "numba", "numba-cuda", "llvmlite", "filelock")


@dataclass
class _Report:
    """Sections of a name and a value each, and advice."""

    sections: list[tuple[str, list[tuple[str, str]]]] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)

    def section(self, title: str) -> list[tuple[str, str]]:
        rows: list[tuple[str, str]] = []
        self.sections.append((title, rows))
        return rows

    def lines(self) -> Iterable[str]:
        width = max(len(name) for _, rows in self.sections for name, _ in rows)
        for title, rows in self.sections:
            yield title
            for name, value in rows:
                first, *more = value.splitlines() or [""]
                yield f"  {name:<{width}}  {first}".rstrip()
                yield from (f"  {'':<{width}}  {line}" for line in more)
        if self.advice:
            yield "what to do"
            for text in self.advice:
                first, *more = text.splitlines()
                yield f"  - {first}"
                yield from (f"    {line}" for line in more)


def print_diagnostics(file: TextIO | None = None) -> bool:
    """Print what kernbridge finds here, and what to install for what it does not.

    Parameters
    ----------
    file : text file or None
        Where to; standard output by default.

    Returns
    -------
    bool
        Whether any kind of kernel can be compiled here.

    Examples
    --------
    >>> import io
    >>> from kernbridge._src.tools.doctor import print_diagnostics
    >>> text = io.StringIO()
    >>> works = print_diagnostics(text)
    >>> "versions" in text.getvalue()
    True
    """
    report = _Report()
    _versions(report)
    _jax(report)
    _gpus(report)
    works = [_compilers(report), _numba(report)]
    _cache(report)
    _kernels(report)
    _settings(report)
    _known_trouble(report)
    print("\n".join(report.lines()), file=file or sys.stdout)
    return any(works)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _versions(report: _Report) -> None:
    rows = report.section("versions")
    rows.append(("Python", f"{platform.python_version()} on {platform.platform()}"))
    rows += [(package, _version(package) or "not installed") for package in _PACKAGES]


def _jax(report: _Report) -> None:
    import jax

    from kernbridge._src.base import jax_inside

    rows = report.section("JAX")
    rows.append(("jax_platforms", jax.config.jax_platforms or "chosen by JAX"))
    # Asking for devices starts the backends, and a GPU's takes most of its memory.
    if jax_inside.has_started() or jax.config.jax_platforms == "cpu":
        try:
            value = ", ".join(sorted({d.platform for d in jax.devices()}))
            value = f"{value}: {len(jax.devices())} devices"
        except RuntimeError as e:
            value = str(e)
    else:
        value = "not started (that could take a GPU's memory)"
    rows.append(("devices", value))


def _gpus(report: _Report) -> None:
    from kernbridge import _core

    rows = report.section("GPU")
    with contextlib.suppress(OSError), open("/proc/driver/nvidia/version") as file:
        rows.append(("driver", file.readline().strip()))
    count, why = _core.device_count()
    if count == 0:
        rows.append(("GPUs", f"none: {why}"))
        return
    capabilities = [_core.compute_capability(i) for i in range(count)]
    listed = ", ".join(f"{major}.{minor}" for major, minor in capabilities)
    rows.append(("GPUs", f"{count}, compute capability {listed}"))
    if "xla_gpu_graph_min_graph_size" not in os.environ.get("XLA_FLAGS", ""):
        report.advice.append(
            "for loops whose body is one small kernel: XLA_FLAGS=--xla_gpu_graph_min_graph_size=1 "
            "lets XLA put it into a CUDA graph (about 4 instead of 10 us a step)"
        )


def _compilers(report: _Report) -> bool:
    """Whether C, C++ or CUDA sources can be compiled."""
    from kernbridge._src.toolchain import compilers

    rows = report.section("compilers")
    works = False
    for label, find in (("C", compilers.find_c), ("C++", compilers.find_cxx)):
        try:
            compiler = find()
            said = _version_of(compiler.path)
            rows.append((label, f"{compiler} (from {compiler.origin})\n{said}"))
            works = True
        except (KernelToolchainError, ValueError) as e:
            _absent(report, rows, label, str(e))
    try:
        nvcc = compilers.find_nvcc()
        said = _version_of(nvcc.path)
        rows.append(("nvcc", f"{nvcc.path} (from {nvcc.origin})\n{said}"))
        rows.append(("libcudart", nvcc.cudart or "not found beside nvcc"))
        if not nvcc.cudart:
            report.advice.append(
                "CUDA sources need libcudart: pip install nvidia-cuda-runtime (CUDA 13) or "
                "nvidia-cuda-runtime-cu12"
            )
    except (KernelToolchainError, ValueError) as e:
        _absent(report, rows, "nvcc", str(e))
    rows.append(("NVRTC", _find_nvrtc() or "not found"))
    return works


def _version_of(program: str) -> str:
    """Return the line of a compiler's answer to --version that holds it; empty if there is none."""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, timeout=10)
    except OSError as e:
        raise KernelToolchainError(f"{program} cannot be started: {e}") from e
    except subprocess.TimeoutExpired:
        return ""
    lines = [line for line in done.stdout.decode(errors="replace").splitlines() if line.strip()]
    return next((line for line in lines if "release" in line), lines[0] if lines else "").strip()


def _absent(report: _Report, rows: list[tuple[str, str]], label: str, why: str) -> None:
    rows.append((label, why.splitlines()[0].split(". Looked")[0]))
    report.advice.append(why)


def _find_nvrtc() -> str | None:
    """Where a library of NVRTC lies, and its version."""
    from kernbridge._src.base.errors import KernelToolchainError
    from kernbridge._src.cuda_kernel import nvrtc

    try:
        found = nvrtc.describe()
    except (KernelToolchainError, OSError):
        return None
    return f"{found['path']}\nversion {found['version'] // 1000}.{found['version'] % 1000 // 10}"


def _numba(report: _Report) -> bool:
    """Whether kernels in Numba can be compiled."""
    if importlib.util.find_spec("numba") is not None:
        return True
    report.advice.append("kernels in Numba need it: pip install 'kernbridge[numba]'")
    return False


def _cache(report: _Report) -> None:
    from kernbridge._src.store import artefacts as cache
    from kernbridge._src.store import limit, trust

    rows = report.section("cache")
    folder = cache.directory()
    rows.append(("folder", str(folder) if folder else f"off ({cache.VARIABLE} says so)"))
    why = trust.why_not(cache.versioned(folder)) if folder else None
    if why is not None:
        rows.append(("not used", why))
        report.advice.append(f"{why}: set {cache.VARIABLE} to a folder that is yours alone")
    stats = limit.cache_stats()
    rows.append(("holds", f"{stats.entries} entries, {stats.bytes / 1e6:.1f} MB"))
    try:
        most = limit.limit()
        rows.append(("limit", f"{most / 1e6:.0f} MB" if most else "none"))
    except ValueError as e:
        rows.append(("limit", str(e)))
        report.advice.append(str(e))


def _kernels(report: _Report) -> None:
    from kernbridge import _core

    rows = report.section("this process")
    kernels, _ = _core.registry_stats()
    rows.append(("kernels", str(kernels)))
    from kernbridge._src.source.targets import list_registered_targets

    names = list_registered_targets()
    rows.append(("targets", "\n".join(names) or "none"))


def _settings(report: _Report) -> None:
    rows = report.section("environment")
    wanted = ("XLA_FLAGS", "CC", "CXX", "CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX")
    for name in sorted(os.environ):
        if name.startswith("KERNBRIDGE_") or name in wanted:
            rows.append((name, shlex.quote(os.environ[name])))
    if not rows:
        rows.append(("KERNBRIDGE_*", "none is set"))


def _known_trouble(report: _Report) -> None:
    numpy, numba_cuda = _version("numpy") or "0", _version("numba-cuda")
    if numba_cuda and _number(numba_cuda) <= (0, 30) and _number(numpy) >= (2, 5):
        report.advice.append(
            f"numba-cuda {numba_cuda} does not work with NumPy {numpy} (numpy.row_stack has gone): "
            "pip install 'numpy<2.5', or a newer numba-cuda"
        )
    if os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0"):
        report.advice.append("NUMBA_ENABLE_CUDASIM is set: Numba only simulates GPUs; unset it")
    if importlib.util.find_spec("platformdirs") is None:
        report.advice.append("nothing is cached without platformdirs: pip install platformdirs")


def _number(version: str) -> tuple[int, ...]:
    """The first two numbers of a version."""
    parts = [*version.split("+")[0].split("."), "0", "0"][:2]
    return tuple(int("".join(c for c in part if c.isdigit()) or "0") for part in parts)
