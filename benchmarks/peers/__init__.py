"""Other bridges that do the same job, each an optional install."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import brainevent, tvm_ffi, warp


def installed() -> dict[str, Any]:
    """Those that can be imported here, by name; each has `wrap(kernel, outs)`, see `Wrap`."""
    return {peer.NAME: peer for peer in (brainevent, tvm_ffi) if peer.available()}


def installed_for_cuda() -> dict[str, Wrap]:
    """How each that can be imported here wraps an add of two float32 vectors on a GPU, by name."""
    return {
        name: wrap
        for peer in (brainevent, tvm_ffi, warp)
        if peer.available()
        for name, wrap in peer.CUDA.items()
    }


def absent_for_cuda() -> list[str]:
    return [p.__name__.split(".")[-1] for p in (brainevent, tvm_ffi, warp) if not p.available()]


Wrap = Callable[[Any, Any], Callable[..., Any]]  # (njit or cuda.jit kernel, outs) -> operation
