"""jax-tvm-ffi: a C++ handler, which here calls a function in Python that does nothing: its arrays
cannot be handed to a Numba kernel (0.1.3: `numpy.from_dlpack` on one of them ends the process)."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable
from typing import Any

import jax

NAME = "jax-tvm-ffi, empty Python function"
_serial = itertools.count()


def available() -> bool:
    return all(importlib.util.find_spec(name) for name in ("jax_tvm_ffi", "tvm_ffi"))


def wrap(kernel: Any, outs: Any) -> Callable[..., Any]:
    import jax_tvm_ffi
    import tvm_ffi

    name = f"benchmark_{next(_serial)}"
    function = tvm_ffi.convert(lambda *buffers: None)
    jax_tvm_ffi.register_ffi_target(name, function, ["args", "rets"], platform="cpu")
    return jax.ffi.ffi_call(name, outs)
