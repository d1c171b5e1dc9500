"""Parameters of Numba kernels whose values are compiled into the kernel (`static=`).

A function that takes the other parameters calls the kernel's own function with the values, which
are constants to Numba. JAX functions among them are inlined.
"""

from __future__ import annotations

import enum
import inspect
from collections import namedtuple
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from kernbridge._src.base import extensions
from kernbridge._src.base.lru import LRUCache, attached_to
from kernbridge._src.calls.call import Fields
from kernbridge._src.keys import function_state
from kernbridge._src.keys.fingerprint import is_dispatcher

KERNELS_KEPT = 64  # that were made of one kernel
FUNCTIONS_KEPT = 256

_inlined: LRUCache[Any] = LRUCache(FUNCTIONS_KEPT)
_NUMBERS = (bool, int, float, complex, np.bool_, np.number)


def read(
    label: str, function: Any, given: Any, refusal: Callable[[Any], str | None]
) -> dict[str, Any]:
    """The argument `static` of an operation; `refusal` says what is wrong with a value."""
    if given is not None and not isinstance(given, Mapping):
        raise TypeError(
            f"{label}: static is {given!r}, expected a dict of the values of parameters, such as "
            "static={'mode': 1} [KB1103]"
        )
    values = dict(given or {})
    parameters = inspect.signature(function).parameters.values()
    names = [p.name for p in parameters if p.kind is not p.VAR_POSITIONAL]
    for name, value in values.items():
        if name not in names:
            raise ValueError(
                f"{label}: static contains {name!r}, but the kernel ({', '.join(names)}) has no "
                "such parameter [KB1103]"
            )
        why = None if is_function(value) else refusal(value)
        if why is not None:
            raise TypeError(
                f"{label}: static contains {value!r} for {name!r}: {why}. Pass arrays as inputs "
                "[KB1103]"
            )
    return values


def is_function(value: Any) -> bool:
    """Whether a value is what a kernel can call."""
    return callable(value) and not isinstance(value, type | enum.Enum)


def refusal_on_cpus(value: Any, place: str = "") -> str | None:
    """What is wrong with a value that Numba does not compile into a kernel."""
    if isinstance(value, tuple) and not isinstance(value, enum.Enum):
        return next(filter(None, (refusal_on_cpus(v, ", in a tuple") for v in value)), None)
    if value is None or isinstance(value, (str, enum.Enum, *_NUMBERS)) or is_function(value):
        return None
    return (
        f"a kernel argument of type {type(value).__name__}{place}; expected None, numbers, texts, "
        "members of enumerations, functions, or tuples of these"
    )


def bound(kernel: Any, values: Mapping[str, Any], jit: Callable[[Any], Any], called: Any) -> Any:
    """Return a kernel without the parameters `values`; the same one for the same values.

    `jit` makes it of a function that calls `called`, which has the parameters of the kernel.
    """
    if not values:
        return kernel
    kept = attached_to(kernel, "bound", lambda: LRUCache[Any](KERNELS_KEPT))
    return function_state.find_or_make(
        kept, values, lambda: jit(calling(kernel.py_func, called, values))
    )


def _constant(value: Any) -> Any:
    """What stands for a value in compiled code."""
    if isinstance(value, Fields):
        return None if value.is_plain else namedtuple("Fields", value.names)
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(map(_constant, value))
    is_numbas = is_dispatcher(value) or isinstance(value, np.ufunc | BuiltinFunctionType)
    if is_numbas or not is_function(value):
        return value
    inline = extensions.load("inline", "a function of JAX in `static`").inline
    return function_state.find_or_make(_inlined, {"": value}, lambda: inline(value))


def calling(function: Any, called: Any, values: Mapping[str, Any]) -> FunctionType:
    """A function that calls another one with values for some of its parameters."""
    space: dict[str, Any] = {"__name__": function.__module__, "static_kernel": called}
    space |= {f"static_{name}": _constant(value) for name, value in values.items()}
    taken, given = [], []
    for name, parameter in inspect.signature(function).parameters.items():
        if isinstance(fields := values.get(name), Fields):
            taken += [f"{name}_{field}" for field in fields.names]
            called_by = "" if fields.is_plain else f"static_{name}"
            given.append(f"{called_by}({', '.join(taken[-len(fields.names) :])},)")
            continue
        star = "*" * (parameter.kind is parameter.VAR_POSITIONAL)
        given.append(f"static_{name}" if name in values else star + name)
        if name not in values:
            has_default = parameter.default is not parameter.empty
            space[f"default_{name}"] = parameter.default
            taken.append(f"{star}{name}" + f"=default_{name}" * has_default)
    text = f"def kernel({', '.join(taken)}):\n    return static_kernel({', '.join(given)})\n"
    exec(text, space)
    made: FunctionType = space["kernel"]
    code = function.__code__
    made.__code__ = made.__code__.replace(
        co_name=code.co_name, co_filename=code.co_filename, co_firstlineno=code.co_firstlineno
    )
    for name in ("__name__", "__qualname__", "__doc__"):
        setattr(made, name, getattr(function, name))
    return made
