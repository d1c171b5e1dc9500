"""BrainEvent: a ctypes callback into Python for every call of a Numba kernel."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

NAME = "BrainEvent numba_kernel"


def available() -> bool:
    return importlib.util.find_spec("brainevent") is not None


def wrap(kernel: Any, outs: Any) -> Callable[..., Any]:
    import brainevent

    return brainevent.numba_kernel(kernel, outs=outs)


def wrap_cuda(kernel: Any, outs: Any) -> Callable[..., Any]:
    import brainevent

    return brainevent.numba_cuda_kernel(kernel, outs=outs, launch_dims=outs.shape[0])


CUDA = {"BrainEvent numba_cuda_kernel": wrap_cuda}
