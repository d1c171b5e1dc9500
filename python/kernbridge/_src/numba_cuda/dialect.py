"""Dialects of Numba-CUDA: packages whose `cuda.jit` compiles kernels of the same language.

A dialect is a module that defines what this one does. The module itself is the dialect of
Numba-CUDA. The extension `mlir` is that of numba-cuda-mlir, whose kernels run on GPUs; a target
that is a CPU makes kernels of Numba-CUDA from them.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from kernbridge._src.base import extensions
from kernbridge._src.base.errors import KernelCompilationError
from kernbridge._src.keys import fingerprint
from kernbridge._src.numba_common import kinds
from kernbridge._src.numba_common.protect import ReturnsValue
from kernbridge._src.plan.program import Argument, Parameter
from kernbridge._src.plan.targets import Target

PACKAGE = "Numba-CUDA"
TAKES_FUNCTIONS = True  # as values of parameters


def of(kernel: Any, target: Target | None = None) -> Any:
    """The dialect of a kernel, or of what is taken for one; or in which a target compiles it."""
    is_compiled = target is None or target.compiles(kernel)
    if is_compiled and fingerprint.is_mlir(kernel) and hasattr(kernel, "targetoptions"):
        return extensions.load("mlir", "a kernel of numba-cuda-mlir")
    return sys.modules[__name__]


def check_kernel(label: str, kernel: Any) -> None:
    """Raise TypeError or ValueError if this is not a kernel that kernbridge can launch."""
    from kernbridge._src.numba_common.private_numba_cuda import dispatcher

    if not isinstance(kernel, dispatcher.CUDADispatcher):
        raise kinds.refusal("numba_cuda_kernel", kernel)
    if kernel.targetoptions.get("device"):
        raise kinds.refusal("numba_cuda_kernel", kernel, "device function")


def why_not_native(kernel: Any, raises: bool) -> str:
    """Empty, or the option of `cuda.jit` that only the package's own launcher serves."""
    options = kernel.targetoptions
    if options.get("debug") and not raises:
        return "debug=True"
    if options.get("extensions"):
        return "extensions="
    for item in options.get("link") or ():
        if getattr(item, "setup_callback", None) or getattr(item, "teardown_callback", None):
            return "a link= item with callbacks"
    return ""


def parameter_type(parameter: Parameter) -> Any:
    """The package's type of a parameter."""
    from kernbridge._src.numba_cuda import entry

    return entry.parameter_type(parameter)


def check_strides(label: str, arguments: Iterable[Argument]) -> None:
    """Refuse arrays whose strides the package's kernels cannot take."""


def compile_entry(job: Any) -> Any:
    """Compile the entry of a kernel, whose parameters are words, to LLVM IR for `job.target`."""
    from kernbridge._src.numba_common import write_search
    from kernbridge._src.numba_common.private_numba import types
    from kernbridge._src.numba_common.private_numba_cuda import cuda, dispatcher
    from kernbridge._src.numba_cuda import entry as numba_cuda_entry

    options = dict(job.kernel.targetoptions)
    function = job.kernel.py_func
    for step in dis.get_instructions(function):
        if step.opname == "IMPORT_NAME":
            line = step.positions.lineno if step.positions else function.__code__.co_firstlineno
            raise KernelCompilationError(
                f"{job.label}: {function.__code__.co_filename}:{line}: a kernel cannot import "
                f"modules: move the import of {step.argval!r} to the top of the module [KB4004]"
            )
    device_options = {k: v for k, v in options.items() if k in ("fastmath", "lineinfo", "opt")}
    raises = options.pop("debug", False) and job.target.raises  # the entry itself raises nothing
    if raises:
        device_options["debug"] = True
    if job.target.checked:
        options["lineinfo"] = True
    device = cuda.jit(device=True, forceinline=True, **device_options)(function)
    entry, words = numba_cuda_entry.build_entry(device, job.parameters, job.batched)
    entry.__name__ = entry.__qualname__ = job.symbol
    entry.__module__ = "kernbridge"
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    given = zip(names, job.parameters, strict=False)
    written = {p.keyword or name for name, p in given if not getattr(p, "read_only", True)}
    outputs = {i: name for i, name in enumerate(names) if name in written}
    with job.target.lowering(raises):
        compiled = dispatcher._Kernel(entry, words, **options)
        (overload,) = device.overloads.values()
        typed = device, overload.signature.args, overload
        may_write = write_search.WriteSearch(compile_again=None).may_write(typed)
        compiled.lost_fractions = write_search.lost_fractions(typed, outputs, None)
    if overload.signature.return_type != types.none:
        raise ReturnsValue(job.label, overload.signature.return_type)
    if may_write:
        raise TypeError("the kernel may write to a read-only input")
    return compiled


def refusal(label: str, architectures: Sequence[tuple[int, int]], error: Exception) -> Any:
    """The error that says why no kernel is compiled for these GPUs; else a remedy, or ""."""
    from kernbridge._src.numba_common import private_numba_cuda

    refused = private_numba_cuda.refused_architecture(label, architectures, error)
    return refused or private_numba_cuda.explain(error)
