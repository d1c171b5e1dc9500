"""Launches of numba-cuda-mlir's kernels on the CPU."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy

from kernbridge._src.base import versions
from kernbridge._src.base.errors import KernelCompilationError, KernelNotAvailableError
from kernbridge._src.base.kept import kept_with
from kernbridge._src.cuda_device import arguments, code, device, launch, mode
from kernbridge._src.cuda_on_cpu import compile as cuda_on_cpu_compile
from kernbridge._src.gpu.parameters import DeviceParameter, Parameter
from kernbridge._src.gpu.program import Word
from kernbridge._src.mlir import compile as mlir
from kernbridge._src.mlir import mlir_device_inside as inside
from kernbridge._src.numba_cuda import compile as numba_cuda_compile
from kernbridge._src.numba_cuda.arguments import Leaf, NotAnArgument, read_argument
from kernbridge._src.numba_cuda.host_api import read_configured
from kernbridge._src.numba_cuda.options import CompileOptions

_COPIES = "Host array used in CUDA kernel will incur copy overhead to/from device"  # its words

Read = list[tuple[Parameter, list[list[Word]]]]


def launch_configured(configured: Any, args: tuple[Any, ...]) -> None:
    """Launch a kernel as `kernel[grid, block](*args)` does."""
    versions.look_up_attributes("numba-cuda-mlir", configured, inside.OF_MARSHALLERS)
    how = read_configured(configured)
    kernel = how.kernel
    label = code.label_of(kernel.py_func)
    try:
        if how.cluster is not None:
            _refuse(label, "a launch with a cluster", "launch it without one")
        if configured._extensions:
            _refuse(label, "extensions=", "pass arrays and scalars to the kernel")
        after: list[Any] = []
        hosts = arguments.Hosts(None, after)
        for argument in args:
            hosts.add(argument)
        read = _as_declared(kernel, args, _read(label, args, hosts), label)
        if _has_host_array(args) and _warns_of_copies():
            warnings.warn(_COPIES, inside.NumbaPerformanceWarning, stacklevel=3)
        function = _function_of(label, kernel, tuple(parameter for parameter, _ in read))
    except (KernelCompilationError, KernelNotAvailableError) as e:
        if isinstance(e.__context__, inside.NumbaError):
            raise e.__context__ from None  # the package's own, as on a GPU
        cuda_on_cpu_compile.refusals[label] = str(e)
        raise
    words = [word.value for _, leaves in read for leaf in leaves for word in leaf]
    grid, block = launch.three(how.grid), launch.three(how.block)
    launch.run(inside.driver, function, grid, block, how.shared, [w % 2**64 for w in words])
    for write_back in after:
        write_back()


def _warns_of_copies() -> bool:
    config = inside.config
    return config.CUDA_WARN_ON_IMPLICIT_COPY and not config.DISABLE_PERFORMANCE_WARNINGS


def _refuse(label: str, why: str, remedy: str) -> None:
    """Refuse what only a GPU, or the package's own launcher, does."""
    raise KernelNotAvailableError(
        f"{label}: a kernel of {mlir.PACKAGE} with {why} does not run on CPUs; {remedy} [KB4005]"
    )


def _function_of(label: str, kernel: Any, parameters: tuple[Parameter, ...]) -> Any:
    """The machine code of a kernel for these parameters, which lives as long as the kernel."""
    checked = mode.current() == mode.CHECK
    made: dict[Any, Any] = kept_with(kernel, "launched_on_cpu", dict)
    found = made.get((parameters, checked))
    if found is None:
        why, remedy = mlir.why_not_native(kernel)
        if why:
            _refuse(label, why, remedy)
        function, _ = numba_cuda_compile.compile_for_launch(
            label, kernel, parameters, has_batch=False, host=True, options=CompileOptions(checked)
        )
        found = made[parameters, checked] = SimpleNamespace(
            digest=cuda_on_cpu_compile.provide_function(function),
            kernel_name=kernel.py_func.__qualname__.rpartition(".")[2],
        )
    return found


def _read(label: str, args: Sequence[Any], hosts: arguments.Hosts) -> Read:
    try:
        found = [read_argument(value, lambda v: _read_leaf(v, hosts)) for value in args]
    except NotAnArgument as e:
        raise TypeError(f"{label}: {e}") from None
    mlir.check_strides(label, found)
    return found


def _read_leaf(value: Any, hosts: arguments.Hosts) -> Leaf | None:
    """An array, or a record of one; None for anything else."""
    if _has_host_array(value) and not isinstance(value, tuple):
        address = hosts.address(value) if type(value) is numpy.ndarray else None
        if address is not None and value.flags.aligned and value.flags.writeable:
            return _array(address, value.dtype, value.shape, value.strides)
        return _view(arguments.written_back(value, True, hosts))
    if isinstance(value, numpy.void):
        parameter = DeviceParameter("record", value.dtype)
        return parameter, [Word("constant", int(value.__array_interface__["data"][0]))]
    if isinstance(value, inside.In):
        view, _ = arguments.copied(value.value)
        hosts.after.append(lambda: view)  # which lives until then
        return _view(view)
    if isinstance(value, inside.Out):
        return _view(arguments.written_back(value.value, value.copy_input, hosts))
    found = getattr(value, "__cuda_array_interface__", None)
    if found is None:
        return None
    device.refuse_memory_of_gpus(value)
    dtype = numpy.dtype(getattr(value, "dtype", None) or found["typestr"])
    address = int(found["data"][0] or 0)
    if getattr(value, "__device_record__", False):
        return DeviceParameter("record", dtype), [Word("constant", address)]
    shape, strides = tuple(found["shape"]), found.get("strides")
    return _array(address, dtype, shape, strides or _compact(shape, dtype.itemsize))


def _view(view: arguments.View) -> Leaf:
    return _array(view.ptr or 0, view.dtype, view.shape, view._layout.strides_in_bytes)


def _array(address: int, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Leaf:
    layout = "A"
    if strides == _compact(shape, dtype.itemsize) or 0 in shape:
        layout = "C"
    elif strides == _compact(shape[::-1], dtype.itemsize)[::-1]:
        layout = "F"
    numbers = (address, *shape, *(strides if layout != "C" else ()))
    parameter = DeviceParameter("array", dtype, len(shape), layout)
    return parameter, [Word("constant", int(n)) for n in numbers]


def _compact(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """The strides of a C-ordered array."""
    strides: list[int] = []
    for extent in reversed(shape):
        strides.insert(0, size)
        size *= extent
    return tuple(strides)


def _has_host_array(value: Any) -> bool:
    """Whether this is an array of the host, or a tuple that has one."""
    if isinstance(value, tuple):
        return any(map(_has_host_array, value))
    return isinstance(value, numpy.ndarray) and not hasattr(value, "__cuda_array_interface__")


def declare(kernel: Any, sig: Any, abi_info: Any = None, output: Any = None) -> Any:
    """`compile` of the package: a signature that a kernel is declared for, or a device function."""
    if kernel.targetoptions.get("device"):
        with mlir.compiling_for(mlir.LIKE_HOST):
            return kernel._compile_device_callee(sig)
    argument_types, _ = inside.sigutils.normalize_signature(sig)
    declared = vars(kernel).setdefault(mlir.DECLARED, [])
    if argument_types not in declared:
        declared.append(argument_types)
    return None


def disable_compile(kernel: Any, val: bool = True) -> None:
    """`disable_compile` of the package, which requires that it has compiled the kernel itself."""
    kernel._can_compile = not val


def compile_declared(kernel: Any) -> None:
    """Compile a kernel that was declared on the CPU for a GPU, where it is launched now."""
    declared = vars(kernel).get(mlir.DECLARED)
    if declared is None or kernel.overloads or kernel._can_compile:
        return
    kernel._can_compile = True
    try:
        for argument_types in declared:
            kernel.compile(argument_types)
    finally:
        kernel._can_compile = False


def _as_declared(kernel: Any, args: Sequence[Any], read: Read, label: str) -> Read:
    """The arguments as the declared signature has them that fits them best."""
    if kernel._can_compile:
        return read
    given = tuple(mlir.parameter_type(parameter) for parameter, _ in read)
    best, has_match = kernel._resolve_overload(
        given, allow_unsafe=True, candidate_sig_args=mlir.declared(kernel)
    )
    if not has_match:
        raise TypeError(f"{label}: No matching definition for argument type(s) {given}")
    if len(best) > 1:
        kernel._raise_ambiguous(given, best)
    return [
        _converted(wanted, value) if wanted != kind and _is_number(wanted, kind) else found
        for wanted, kind, value, found in zip(best[0], given, args, read, strict=True)
    ]


def _is_number(*kinds: Any) -> bool:
    return all(isinstance(kind, (inside.types.Number, inside.types.Boolean)) for kind in kinds)


def _converted(wanted: Any, value: Any) -> Any:
    """A number as an argument of this type."""
    return read_argument(inside.numpy_support.as_dtype(wanted).type(value), lambda _: None)
