"""Launches kernels of numba-cuda-mlir on threads that launch on the CPU.

Numba-CUDA compiles and launches the counterpart of the kernel; the package's own compilation is
left unchanged.
"""

from __future__ import annotations

import functools
import re
import sys
from typing import Any

from kernbridge._ext.emulator.counterpart import counterpart
from kernbridge._ext.emulator.cuda_source import refusals
from kernbridge._ext.emulator.device import launch, mode
from kernbridge._ext.mlir import compile as mlir
from kernbridge._ext.mlir import private_mlir as inside
from kernbridge._src.base.errors import KernelCompilationError, KernelNotAvailableError
from kernbridge._src.base.lru import attached_to
from kernbridge._src.base.patched import patched
from kernbridge._src.numba_common.private_numba_cuda import cuda, devicearray
from kernbridge._src.numba_cuda import callback
from kernbridge._src.numba_cuda import compile as numba_cuda_compile

_OF_NUMBA = re.compile(r"numba(?:\.cuda)?\.")
_OF_GPUS = {
    **dict.fromkeys(("inspect_asm", "inspect_ptx"), "PTX"),
    **dict.fromkeys(("inspect_mlir", "inspect_mlir_optimized"), "MLIR"),
    "inspect_llvm": "LLVM IR",
    "inspect_lto_ptx": "LTO-IR",
    "inspect_sass": "SASS",
    "get_const_mem_size": "constant memory",
    "get_local_mem_per_thread": "local memory",
    "get_max_threads_per_block": "largest block",
    "get_regs_per_thread": "number of registers",
    "get_shared_mem_per_block": "shared memory",
}


def install() -> None:
    launch.install_host_api(inside)
    kernels, configured = inside.descriptor.MLIRDispatcher, inside.descriptor._ArgMarshaller
    run = configured.__call__

    @functools.wraps(run)
    def launched(self: Any, *args: Any) -> Any:
        if mode.current() is not None and callback.thread.recording is None:
            return _launch(self, args)
        _compile_declared(self._dispatcher)
        return run(self, *args)

    configured.__call__ = launched
    mode.choose(kernels, "_compile_public", _declare)
    # The package's own requires that it has compiled the kernel itself.
    mode.choose(kernels, "disable_compile", lambda k, val=True: setattr(k, "_can_compile", not val))
    for name, what in _OF_GPUS.items():
        mode.choose(kernels, name, functools.partial(launch.refuse, what))


def _launch(configured: Any, args: tuple[Any, ...]) -> None:
    how = callback.read_configured(configured)
    kernel, label = how.kernel, launch.label_of(how.kernel.py_func)
    try:
        if how.cluster is not None or configured._extensions:
            what = "a launch with a cluster" if how.cluster is not None else "extensions="
            raise KernelNotAvailableError(
                f"{label}: a kernel of {mlir.PACKAGE} with {what} does not run on CPUs; launch it "
                "without [KB4005]"
            )
        made: dict[str, Any] = attached_to(kernel, "launched_on_cpu", dict)
        if "kernel" not in made:
            declared = () if kernel._can_compile else numba_cuda_compile.declared(kernel)
            made["kernel"] = counterpart(label, kernel, declared)
            setattr(made["kernel"], launch.COUNTERPART_OF, (label, kernel))
        made["kernel"][how.grid, how.block, 0, how.shared](*map(_argument, args))
    except (KernelCompilationError, KernelNotAvailableError) as e:
        refusals[label] = str(e)
        raise
    except Exception as e:
        raise _own(e) from e.__cause__


def _argument(value: Any) -> Any:
    if isinstance(value, tuple) and any(_argument(member) is not member for member in value):
        members = map(_argument, value)
        return type(value)(*members) if hasattr(value, "_fields") else tuple(members)
    if isinstance(value, (inside.In, inside.Out)):
        return getattr(cuda, type(value).__name__)(_argument(value.value))
    is_record = isinstance(value, inside.devicearray.DeviceRecord)
    if not (is_record or isinstance(value, inside.devicearray.DeviceNDArrayBase)):
        return value
    memory = cuda.as_cuda_array(value, sync=False).gpu_data
    if is_record:
        return devicearray.DeviceRecord(value.dtype, gpu_data=memory)
    return devicearray.DeviceNDArray(value.shape, value.strides, value.dtype, gpu_data=memory)


def _own(error: Exception) -> Exception:
    """An error of Numba-CUDA as one of this package, which has a class of the same name."""
    kind = type(error)
    module = _OF_NUMBA.sub("numba_cuda_mlir.numba_cuda.", kind.__module__, count=1)
    own = getattr(sys.modules.get(module), kind.__name__, None)
    if own is None or own is kind:
        return error
    made: Exception = own.__new__(own)
    made.args = error.args
    vars(made).update(vars(error))
    return made.with_traceback(error.__traceback__)


def _declare(kernel: Any, sig: Any, abi_info: Any = None, output: Any = None) -> Any:
    """`compile` of the package: a signature that a kernel is declared for, or a device function."""
    if kernel.targetoptions.get("device"):
        with mlir.compiling_for((9, 0)):
            return kernel._compile_device_callee(sig)
    argument_types, _ = inside.sigutils.normalize_signature(sig)
    declared = vars(kernel).setdefault(numba_cuda_compile.DECLARED, [])
    if argument_types not in declared:
        declared.append(argument_types)
    return None


def _compile_declared(kernel: Any) -> None:
    """Compile a kernel that was declared on the CPU for a GPU, where it is launched now."""
    declared = vars(kernel).get(numba_cuda_compile.DECLARED)
    if declared is None or kernel.overloads or kernel._can_compile:
        return
    with patched((kernel, "_can_compile", True)):
        for argument_types in declared:
            kernel.compile(argument_types)
