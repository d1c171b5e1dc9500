"""Lowers an operation for a platform on which it has no kernel.

A program for that platform alone is refused when it is lowered. In a program for several platforms
the operation becomes a call that fails where it runs, so that the others can run the program, and
that platform too if `jax.lax.platform_dependent` or a condition avoids the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from kernbridge._src.base import private_jax
from kernbridge._src.base.errors import KernelError, KernelNotAvailableError
from kernbridge._src.calls.batch_axes import Arrays

TARGET = "kernbridge.absent"
PLATFORMS = ("cpu", "cuda", "gpu", "rocm")  # on which the target is registered


def no_kernel(
    label: str, platforms: Sequence[str], lowered_for: Sequence[str], failed: str = ""
) -> KernelError:
    remedy = (
        "Commit its inputs to the CPU, jax.device_put(x, jax.devices('cpu')[0]), or run the "
        "program under jax.default_device(jax.devices('cpu')[0])"
        if "cpu" in platforms
        else "Run the program where JAX sees a GPU (pip install 'jax[cuda13]'; jax.devices() "
        "lists them), or commit its inputs to one, jax.device_put(x, jax.devices('cuda')[0])"
    )
    return KernelNotAvailableError(
        f"{label} has a kernel for {' or '.join(platforms)}, and was lowered for "
        f"{', '.join(lowered_for)}{failed}. {remedy}. [KB7001]"
    )


def lower(
    ctx: Any, operands: Arrays, platform: str, error: KernelError, has_side_effect: bool
) -> Any:
    """Lower an operation that has no kernel for `platform`, or raise `error`."""
    if len(private_jax.platforms_of(ctx)) == 1 or platform not in PLATFORMS:
        raise error
    message = (
        f"{error} Alternatively, call another function on that platform with "
        "jax.lax.platform_dependent."
    )
    rule = jax.ffi.ffi_lowering(TARGET, has_side_effect=has_side_effect)
    return rule(ctx, *operands, message=message)
