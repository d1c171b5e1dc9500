"""Other bridges that do the same job, each an optional install."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import brainevent, tvm_ffi


def installed() -> dict[str, Any]:
    """Those that can be imported here, by name; each has `wrap(kernel, outs)`, see `Wrap`."""
    return {peer.NAME: peer for peer in (brainevent, tvm_ffi) if peer.available()}


Wrap = Callable[[Any, Any], Callable[..., Any]]  # (njit kernel, outs) -> operation
