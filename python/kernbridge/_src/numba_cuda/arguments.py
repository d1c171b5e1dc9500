"""Reads and checks the arguments of `numba_cuda_kernel`, and those of kernels."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernbridge._src.mlir import compile as mlir
from kernbridge._src.numba_cuda.counterpart import declared as declared_for
from kernbridge._src.plan.program import DeviceParameter, Parameter, TupleParameter, Word

Leaf = tuple[DeviceParameter, list[Word]]


class NotAnArgument(Exception):
    """A kernel does not take such a value."""


def typed_scalar(value: Any) -> Any:
    """Return a NumPy scalar of the type that an argument has for Numba; None if it is none."""
    if isinstance(value, np.generic):
        return value if value.dtype.kind in "biufc" else None
    if isinstance(value, int) and not isinstance(value, bool):
        return np.int64(value) if -(2**63) <= value < 2**63 else np.uint64(value)
    kinds: Any = ((bool, np.bool_), (float, np.float64), (complex, np.complex128))
    return next((made(value) for kind, made in kinds if isinstance(value, kind)), None)


def read_argument(
    value: Any, read_leaf: Callable[[Any], Leaf | None], place: str = ""
) -> tuple[Parameter, list[list[Word]]]:
    """The parameter for a value, and the words of each of its leaves.

    `read_leaf` is called first, and returns None for other values. NotAnArgument is raised for
    values that no kernel takes; `place` says where in the argument the value is.
    """
    leaf = read_leaf(value)
    if leaf is not None:
        return leaf[0], [leaf[1]]
    if isinstance(value, enum.Enum):
        parameter, words = _read_member(value, place)
        return parameter, [words]
    if isinstance(value, tuple):
        found = [read_argument(v, read_leaf, ", in a tuple") for v in value]
        made_by = type(value) if hasattr(value, "_fields") else None
        members = tuple(parameter for parameter, _ in found)
        return TupleParameter(members, made_by), [words for _, all_ in found for words in all_]
    scalar = typed_scalar(value)
    if scalar is None:
        remedy = "; pass a tuple" if isinstance(value, list) else ""
        raise NotAnArgument(f"a kernel argument of type {type(value).__name__}{place}{remedy}")
    return DeviceParameter("scalar", scalar.dtype), [_words(scalar)]


@dataclass(frozen=True, slots=True)
class StaticArgument:
    """An argument that is the same at every call."""

    value: Any
    parameter: Parameter
    words: tuple[tuple[Word, ...], ...]  # of each leaf


def read_static(
    label: str, function: Callable[..., Any], given: Mapping[str, Any]
) -> dict[str, StaticArgument]:
    """The argument `static` of an operation of this function, checked."""
    parameters = inspect.signature(function).parameters.values()
    names = [p.name for p in parameters if p.kind is not p.VAR_POSITIONAL]
    found = {}
    for name, value in given.items():
        if name not in names:
            raise ValueError(
                f"{label}: static contains {name!r}, but the kernel ({', '.join(names)}) has no "
                "such parameter [KB1103]"
            )
        try:
            parameter, words = read_argument(value, lambda _: None)
        except NotAnArgument as e:
            raise TypeError(
                f"{label}: static contains {value!r} for {name!r}: {e}; expected numbers, members "
                "of enumerations, or tuples of these. Pass arrays as inputs [KB1103]"
            ) from None
        found[name] = StaticArgument(value, parameter, tuple(map(tuple, words)))
    return found


def _read_member(value: enum.Enum, place: str) -> Leaf:
    """A member of an enumeration, which is passed by its value."""
    scalar = None if isinstance(value.value, enum.Enum) else typed_scalar(value.value)
    if scalar is None:
        raise NotAnArgument(
            f"the member {value.name} of the enumeration {type(value).__name__}, whose value is a "
            f"{type(value.value).__name__} and not a number, as a kernel argument{place}"
        )
    return DeviceParameter("scalar", scalar.dtype, enumeration=type(value)), _words(scalar)


def _words(scalar: Any) -> list[Word]:
    data = scalar.tobytes().ljust(16 if scalar.itemsize > 8 else 8, b"\0")
    return [Word("constant", int(n)) for n in np.frombuffer(data, np.int64)]


def read_vector_math(label: str, given: Any, is_checked: bool) -> bool | None:
    if given is None:
        return None
    if given and is_checked:
        raise ValueError(
            f"{label}: vector_math=True and check=True cannot be combined: the checked mode runs "
            "the threads of a block one by one; remove one of the two [KB1005]"
        )
    return bool(given)


def read_views(label: str, view: Mapping[str | int, Any]) -> tuple[tuple[str | int, Any], ...]:
    """The argument `view` of an operation, as pairs of place and NumPy dtype."""
    views = []
    for place, dtype in view.items():
        try:
            views.append((place, np.dtype(dtype)))
        except TypeError:
            raise TypeError(
                f"{label}: view contains {dtype!r} for {place!r}, expected a NumPy dtype [KB1103]"
            ) from None
    return tuple(views)


def check_dispatcher(label: str, kernel: Any) -> None:
    if mlir.is_mlir(kernel) and hasattr(kernel, "targetoptions"):
        mlir.check_kernel(label, kernel)
        return
    from kernbridge._src.numba_common import private_numba_cuda

    hint = "decorate it with @numba.cuda.jit"
    if isinstance(kernel, private_numba_cuda.dispatcher.CUDADispatcher):
        if not kernel.targetoptions.get("device"):
            return
        hint = "a device function can only be called by kernels; decorate it without device=True"
    elif "CPUDispatcher" in type(kernel).__name__:
        hint = "pass a numba.njit function to numba_kernel"
    elif "FakeCUDAKernel" in type(kernel).__name__:
        hint = "NUMBA_ENABLE_CUDASIM is set, which replaces numba.cuda with a simulator"
    raise TypeError(
        f"numba_cuda_kernel: `kernel` is {kernel!r} of type {type(kernel).__name__}, expected a "
        f"numba.cuda.jit kernel; {hint} [KB1001]"
    )


def check_declared(label: str, kernel: Any, parameters: Sequence[Parameter]) -> None:
    """Refuse arrays that fit none of the signatures that `cuda.jit` was given."""
    from kernbridge._src.numba_cuda import entry as numba_cuda_entry

    parameter_type = (mlir if mlir.is_mlir(kernel) else numba_cuda_entry).parameter_type
    if getattr(kernel, "_can_compile", True):
        return

    def takes(declared: Any, given: Any) -> bool:
        if not hasattr(declared, "ndim") or not hasattr(given, "ndim"):
            return hasattr(declared, "ndim") == hasattr(given, "ndim")
        return bool(declared.dtype == given.dtype and declared.ndim == given.ndim)

    given = [parameter_type(p) for p in parameters]
    all_declared = declared_for(kernel)
    for declared in all_declared:
        if len(declared) == len(given) and all(map(takes, declared, given)):
            return
    raise TypeError(
        f"{label}: the kernel was declared for {', '.join(map(str, all_declared))}, but the call "
        f"has ({', '.join(p.describe() for p in parameters)}); convert the arrays, or decorate "
        "the kernel without a signature [KB4001]"
    )
