"""What kind of kernel of Numba a value is, and why a public function does not take another."""

from __future__ import annotations

import sys
from types import FunctionType
from typing import Any

import numpy as np

from kernbridge._src.base.errors import coded
from kernbridge._src.keys.fingerprint import is_mlir


def kind_of(value: Any) -> str:
    """The decorator that a kernel was made with, or what else a value is.

    Classes are compared by name, so that neither Numba nor Numba-CUDA is imported.
    """
    name, family = type(value).__name__, {c.__name__ for c in type(value).__mro__}
    if "CPUDispatcher" in family:
        return "njit"
    if is_mlir(value) or "CUDADispatcher" in family:
        return "cuda"
    if name in _BY_CLASS:
        return _BY_CLASS[name]
    if "CUDA" in name:
        return "cuda ufunc"
    if any(c.__module__ == "kernbridge" for c in type(value).__mro__):
        return "operation"
    if isinstance(value, FunctionType):
        numba = sys.modules.get("numba")
        return "njit disabled" if numba is not None and numba.config.DISABLE_JIT else "function"
    if isinstance(value, np.ufunc):
        return "ufunc"
    return "callable" if callable(value) else "value"


def refusal(front_end: str, value: Any, kind: str = "") -> TypeError:
    """The error for a value of a kind that a public function does not take."""
    kind = kind or kind_of(value)
    wrong, hint = _WRONG[front_end], _HINTS[front_end].get(kind, _HINTS[front_end][""])
    if front_end == "kernel" and kind in _NAMED:
        wrong = _NAMED[kind]
    kind_of_object = type(value).__name__
    name = getattr(value, "__name__", kind_of_object)
    described = wrong.format(value=value, type=kind_of_object, name=name)
    return TypeError(coded(f"{front_end}: {described}; {hint}", "KB1001"))


_BY_CLASS = {"FakeCUDAKernel": "cuda simulated", "DUFunc": "vectorize", "GUFunc": "guvectorize"}
_BY_CLASS["_LaunchConfiguration"] = "launch"  # a kernel with its grid and block
_ALREADY = "it is already an operation and need not be wrapped again"
_ON_CPUS = "elementwise functions run on CPUs: decorate the function with @numba.njit"
_WRONG = {
    "numba_kernel": "`kernel` is {value!r} of type {type}, expected a numba.njit function",
    "numba_cuda_kernel": "`kernel` is {value!r} of type {type}, expected a numba.cuda.jit kernel",
    "elementwise": (
        "`function` is {value!r} of type {type}, expected a function of Python, numba.njit or "
        "numba.vectorize"
    ),
    "kernel": "expected a kernel of Numba, got {value!r} of type {type}",
}
_PLAIN = "{name!r} is a plain Python function, not compiled by Numba"
_NAMED = {  # what `kernel` calls by name
    "operation": "{name!r} is an operation already",
    "function": _PLAIN,
    "njit disabled": _PLAIN,
}
_HINTS = {
    "numba_kernel": {
        "cuda": "pass a numba.cuda.jit kernel to numba_cuda_kernel",
        "operation": _ALREADY,
        "vectorize": "pass it to kernbridge.elementwise",
        "ufunc": "pass it to kernbridge.elementwise",
        "guvectorize": "pass it to kernbridge.kernel",
        "value": "the kernel comes first, then `outs`",
        "njit disabled": "NUMBA_DISABLE_JIT is set, which disables numba.njit",
        "": "decorate it with @numba.njit",
    },
    "numba_cuda_kernel": {
        "device function": (
            "a device function can only be called by kernels; decorate it without device=True"
        ),
        "cuda simulated": (
            "NUMBA_ENABLE_CUDASIM is set, which replaces numba.cuda with a simulator"
        ),
        "launch": "pass the kernel itself, and the launch as grid= and block=",
        "njit": "pass a numba.njit function to numba_kernel",
        "": "decorate it with @numba.cuda.jit",
    },
    "elementwise": {
        "cuda": _ON_CPUS,
        "cuda simulated": _ON_CPUS,
        "cuda ufunc": _ON_CPUS,
        "operation": _ALREADY,
        "ufunc": 'only functions of numba.vectorize for target="cpu" have a Python function',
        "guvectorize": "use kernbridge.kernel for a numba.guvectorize function",
        "callable": "decorate a function of numbers, which may call kernbridge.inline(function)",
        "": "decorate a function of numbers",
    },
    "kernel": {
        "operation": "decorate the kernel once",
        "function": (
            "write @numba.njit (for CPUs) or @numba.cuda.jit (for GPUs, or for CPUs on a machine "
            "without a GPU) between @kernbridge.kernel and the function. Pass a function that "
            "launches kernels to numba_cuda_callable"
        ),
        "njit disabled": "NUMBA_DISABLE_JIT is set, which disables numba.njit; unset it",
        "": (
            "write @kernbridge.kernel(outs=...) above a function of @numba.njit or a kernel of "
            "@numba.cuda.jit"
        ),
    },
}
