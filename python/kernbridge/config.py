"""Settings of the process. They take effect from the next call or compilation on.

Examples
--------
>>> from kernbridge import config
>>> config.set_cuda_on_cpu("error")
>>> config.get_cuda_on_cpu()
'error'
>>> config.set_cuda_on_cpu("compile")
"""

from __future__ import annotations

import os

from kernbridge import _core
from kernbridge._src.base import settings
from kernbridge._src.base.errors import UnsupportedArchError, coded
from kernbridge._src.base.reports import hides_frames
from kernbridge._src.base.settings import ALLOW_IMPORTS as ALLOW_IMPORTS
from kernbridge._src.base.settings import may_import as may_import
from kernbridge._src.numba_cpu.kernel import needs_numba
from kernbridge._src.toolchain import cuda as reader
from kernbridge._src.toolchain.cuda import Spelling
from kernbridge._src.toolchain.programs import get_compiler_limits as get_compiler_limits
from kernbridge._src.toolchain.programs import set_compiler_limits as set_compiler_limits


@hides_frames
def set_numba_num_threads(n: int | None) -> None:
    """Choose how many threads every `parallel=True` kernel uses, from its next call on.

    Numba's own `numba.set_num_threads` applies to one thread, and XLA calls kernels from its own
    threads. Without this setting, a kernel uses the number that was set when it was compiled.

    `n` is 1 to `numba.config.NUMBA_NUM_THREADS`; None restores the number of each kernel. Anything
    else is a TypeError or a ValueError.
    """
    if n is None:
        _core.set_num_threads(0)
        return
    if isinstance(n, bool) or not isinstance(n, int):
        raise TypeError(f"set_numba_num_threads: n is {n!r}, expected an integer or None [KB8001]")
    needs_numba("set_numba_num_threads")
    import numba

    most = numba.config.NUMBA_NUM_THREADS
    if not 1 <= n <= most:
        raise ValueError(
            f"set_numba_num_threads: n is {n}, expected 1 to {most} (the environment variable "
            "NUMBA_NUM_THREADS raises that limit) [KB8001]"
        )
    _core.set_num_threads(n)


def get_numba_num_threads() -> int | None:
    """Return what `set_numba_num_threads` chose, or None."""
    return _core.get_num_threads() or None


@hides_frames
def set_cuda_architectures(architectures: Spelling) -> None:
    """Choose the GPUs that kernels are compiled for from now on.

    By default, these are the GPUs of this machine or, if it has none, one GPU of each generation
    that CUDA 13 compiles for. The environment variable KERNBRIDGE_CUDA_ARCHS has the same effect,
    for every front end. KERNBRIDGE_COMPUTE_CAPABILITIES and BRAINEVENT_COMPUTE_CAPABILITIES are
    alternative names for it; the first of the three that is set is used, unless this function was
    called. `set_compute_capability` changes the same setting.

    `architectures` are compute capabilities, as in "8.0, 9.0", "sm_90" or ["8.6", "9.0a"]; None
    restores the default. A suffix applies to CUDA sources; Numba kernels are compiled without it. A
    text without a compute capability, or with one that is too old, is a ValueError.
    """
    try:
        chosen = None if architectures is None else reader.read(architectures, "cuda architecture")
    except UnsupportedArchError as e:
        raise ValueError(coded(str(e), "KB8001")) from None
    settings.architectures = chosen


def get_cuda_architectures() -> tuple[tuple[int, int], ...] | None:
    """Return what `set_cuda_architectures` chose, as (major, minor), or None."""
    if settings.architectures is None:
        return None
    return tuple(sorted({(major, minor) for major, minor, _ in settings.architectures}))


@hides_frames
def set_compute_capability(value: Spelling = None) -> None:
    """Choose the GPUs that kernels are compiled for, as `set_cuda_architectures` does.

    A compute capability that is older than 5.0 is an UnsupportedArchError here.

    Examples
    --------
    >>> from kernbridge import config
    >>> config.set_compute_capability(["8.0", "9.0a"])
    >>> config.get_compute_capability()
    ['sm_80', 'sm_90a']
    >>> config.set_compute_capability(None)
    """
    settings.architectures = None if value is None else reader.read(value)


def get_compute_capability() -> list[str] | None:
    """Return what `set_compute_capability` chose in its order, as in ["sm_86"], or None."""
    chosen = settings.architectures
    return None if chosen is None else [reader.name(a) for a in chosen]


@hides_frames
def prefer_system_nvcc(prefer: bool | None = True) -> None:
    """Choose which nvcc is preferred if CUDA_HOME and similar variables name none.

    If True, PATH and /usr/local/cuda are searched first; if False, NVIDIA's wheels in this Python.
    None restores the environment's choice: KERNBRIDGE_NVCC_PREFER=pip or =system, and the wheels
    first if that is not set.
    """
    settings.prefer_system_nvcc = prefer


def prefers_system_nvcc() -> bool | None:
    """Return what `prefer_system_nvcc` chose, or None."""
    return settings.prefer_system_nvcc


@hides_frames
def add_include_path(path: str | os.PathLike[str]) -> None:
    """Add a folder in which the ``#include`` lines of all sources are looked up from now on.

    A package whose sources share headers can thus declare their folder once. It is searched after
    the folder of the source's own file and after `extra_include_paths`. If a header in it changes,
    the libraries that use it are built again. Adding a folder twice has no effect; one that does
    not exist is a NotADirectoryError.
    """
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise TypeError(
            f"add_include_path: path is {path!r}, expected the path of a folder [KB8001]"
        )
    folder = os.path.abspath(os.path.expanduser(path))
    if not os.path.isdir(folder):
        raise NotADirectoryError(f"add_include_path: there is no folder {folder} [KB8001]")
    if folder not in settings.include_paths:
        settings.include_paths += (folder,)


def get_include_paths() -> list[str]:
    """Return the folders that `add_include_path` added, in the order of the search."""
    return list(settings.include_paths)


@hides_frames
def set_backend(platform: str, backend: str | None) -> None:
    """Choose the backend that every `XLACustomKernel` uses on a platform, if it has that backend.

    The choice takes effect at the next call, also in functions that were jitted before. A call's
    ``backend=`` takes precedence. Operations without this backend warn once and use their default.

    `platform` is "cpu", "gpu" or "tpu", and `backend` a name such as "numba"; None restores the
    defaults. Anything else is a ValueError or a TypeError.

    Examples
    --------
    >>> from kernbridge import config
    >>> config.set_backend("cpu", "cpp")
    >>> config.get_backend("cpu")
    'cpp'
    >>> config.clear_backends()
    """
    from kernbridge._src.custom import kernel

    where = kernel.platform_of("set_backend", platform)
    if backend is not None and not isinstance(backend, str):
        raise TypeError(f"set_backend: backend is {backend!r}, expected a name or None [KB8001]")
    if backend == "":
        raise ValueError("set_backend: backend is an empty string, not a name or None [KB8001]")
    kernel.set_backend(where, backend)


def get_backend(platform: str) -> str | None:
    """Return what `set_backend` chose for a platform, or None."""
    from kernbridge._src.custom import kernel

    return kernel.get_backend(kernel.platform_of("get_backend", platform))


def clear_backends() -> None:
    """Let every operation use its default backend on every platform."""
    from kernbridge._src.custom import kernel

    kernel.set_backend(None, None)


@hides_frames
def set_cuda_on_cpu(what: str) -> None:
    """Choose what happens if a CUDA kernel is lowered for the CPU.

    With "compile", the default, the kernel is compiled for the CPU and runs there. With "error",
    the call raises KernelNotAvailableError. Anything else is a ValueError. Calls that JAX has
    already compiled keep running, until `jax.clear_caches` makes JAX lower them again.
    """
    if what not in ("compile", "error"):
        raise ValueError(
            f"set_cuda_on_cpu: the argument is {what!r}, expected 'compile' or 'error' [KB8001]"
        )
    settings.cuda_on_cpu = what


def get_cuda_on_cpu() -> str:
    """Return what `set_cuda_on_cpu` chose."""
    return settings.cuda_on_cpu


@hides_frames
def set_gathers(what: str | None) -> None:
    """Choose what happens if a sharded array must be gathered on every device before a call.

    With "error", the call is refused: by a ValueError as it is traced if its mesh has explicit
    axes, and otherwise by a JaxRuntimeError when XLA compiles the program. With "warn", the call
    works, and a KernbridgeWarning is shown once for each operation and reason. None, the default,
    means "error" for explicit axes and "warn" for others. Anything else is a ValueError. Calls that
    JAX has already compiled keep running.
    """
    if what not in ("warn", "error", None):
        raise ValueError(
            f"set_gathers: the argument is {what!r}, expected 'warn', 'error' or None [KB8001]"
        )
    settings.gathers = what


def get_gathers() -> str | None:
    """Return what `set_gathers` chose, or None."""
    return settings.gathers


@hides_frames
def set_exported_code(what: str) -> None:
    """Choose what happens to the code that a loaded program carries.

    An exported program contains the machine code of its kernels, if that code can be run in another
    process. This setting applies to kernels that this process did not compile itself; programs that
    this process lowers always run. Without a call of this function, the environment variable
    KERNBRIDGE_EXPORTED_CODE decides.

    With "run", the default, the code runs with all rights of the process, so load programs only
    from trusted sources. With "recompile", kernels are compiled again from modules that this
    process has imported or may import (see `allow_imports`), and a program with kernels that are
    available only as machine code is refused. With "refuse", a program that contains code is
    refused. Anything else is a ValueError.
    """
    settings.set_exported_code(what, "set_exported_code: the argument")


def get_exported_code() -> str:
    """Return what `set_exported_code` or KERNBRIDGE_EXPORTED_CODE chose."""
    return settings.exported_code


@hides_frames
def set_carry_kernels(carry: bool | None) -> None:
    """Choose whether compiled programs contain the machine code of Numba kernels, from now on.

    Exported programs always do. Without this setting, a program that was stored by
    `jax.experimental.serialize_executable` or in JAX's compilation cache contains only the names of
    its kernels, and the process that loads it must have imported their modules. With it, that
    process needs neither the modules nor Numba. It adds an empty call to each program, which takes
    about 0.2 µs at each run. The environment variable KERNBRIDGE_CARRY_KERNELS=1 has the same
    effect; None returns to its choice.
    """
    settings.carry_kernels = carry


def get_carry_kernels() -> bool:
    """Return what `set_carry_kernels` or KERNBRIDGE_CARRY_KERNELS chose."""
    return settings.carries_kernels()


@hides_frames
def set_adjoint_test(test: bool | None) -> None:
    """Choose whether derivatives by Enzyme are tested on a CPU, from now on.

    The first call of a derivative compares reverse mode with forward mode, and fails if they
    differ. KERNBRIDGE_ADJOINT_TEST=0 switches the test off, too; None returns to its choice.
    """
    settings.adjoint_test = test


def get_adjoint_test() -> bool:
    """Return what `set_adjoint_test` or KERNBRIDGE_ADJOINT_TEST chose."""
    return settings.tests_adjoints()


@hides_frames
def allow_imports(*modules: str) -> None:
    """Choose the modules that a loaded program may import to find its kernels.

    An exported program names the module of each Numba kernel that it calls. If this process has
    imported the module, it is used as it is. Importing another module executes its code. This
    happens only for modules that are named here or, separated by commas, in the environment
    variable KERNBRIDGE_ALLOW_IMPORTS.

    A package stands for all its modules, and "*" for every module. The names replace those of an
    earlier call; without any, programs import nothing. An empty name is a TypeError.

    Examples
    --------
    >>> from kernbridge import config
    >>> config.allow_imports("my_kernels")
    >>> config.may_import("my_kernels.sparse"), config.may_import("os")
    (True, False)
    >>> config.allow_imports()
    """
    for module in modules:
        if not isinstance(module, str) or not module:
            raise TypeError(f"allow_imports: {module!r} is not the name of a module [KB8001]")
    settings.allowed_imports = modules
