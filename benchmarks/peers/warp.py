"""Warp: a ctypes callback into Python for every call, for kernels in Warp's own language."""

import importlib.util
from collections.abc import Callable
from typing import Any

NAME = "Warp jax_kernel"


def available() -> bool:
    return importlib.util.find_spec("warp") is not None


def wrap_cuda(kernel: Any, outs: Any) -> Callable[..., Any]:
    import warp
    from warp.jax_experimental import jax_kernel

    @warp.kernel
    def add(
        x: warp.array(dtype=warp.float32),
        y: warp.array(dtype=warp.float32),
        out: warp.array(dtype=warp.float32),
    ):
        i = warp.tid()
        out[i] = x[i] + y[i]

    operation = jax_kernel(add)
    return lambda x, y: operation(x, y)[0]


CUDA = {NAME: wrap_cuda}
