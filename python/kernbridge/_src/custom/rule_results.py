"""Checks what the rules of an operation return that have the forms of JAX's primitives.

JAX takes what such rules return as it is, so that an array of another shape or dtype would be a
wrong number in the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from kernbridge._src.base.errors import DerivativeRuleError, KernelError
from kernbridge._src.base.private_jax import ad
from kernbridge._src.operation.spec import ArrayType, has_type
from kernbridge._src.operation.tangents import is_inexact, zero_tangent

Error = Callable[[str], Exception]


def derivative_error(name: str) -> Error:
    """Return the error of a derivative rule of an operation, for a text."""
    return lambda text: DerivativeRuleError(f"{name!r}: the {text} [KB2103]")


def checked_jvp(
    name: str, types: Sequence[ArrayType], outputs: Sequence[Any], dots: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """Return the outputs and tangents of a rule for outputs of these types, or raise."""
    error, said = derivative_error(name), "jvp rule returned"
    _check_count(error, said, outputs, "outputs", len(types))
    _check_count(error, said, dots, "tangents", len(types))
    values = [
        _array(error, said, f"output {i}", value, t)
        for i, (value, t) in enumerate(zip(outputs, types, strict=True))
    ]
    return values, [
        tangent(error, said, i, dot, value)
        for i, (dot, value) in enumerate(zip(dots, values, strict=True))
    ]


def tangent(error: Error, said: str, index: int, dot: Any, output: Any) -> Any:
    """Return the tangent of an output, JAX's zero for None, or raise."""
    t = ArrayType.of(output)
    if dot is None or type(dot) is ad.Zero or not is_inexact(t.dtype):
        return zero_tangent(output)
    return _array(error, said, f"the tangent of output {index}", dot, t, ", or None for zero")


def checked_cotangents(name: str, operands: Sequence[Any], found: Sequence[Any]) -> list[Any]:
    """Return what a transpose rule returned for these operands, or raise.

    A cotangent may be of another precision than the operand, as in BrainEvent.
    """
    error = derivative_error(name)

    def checked(i: int, ct: Any, operand: Any) -> Any:
        expected = ArrayType(operand.aval.shape, np.dtype(operand.aval.dtype))
        if has_type(ct) and _differ_in_precision(ArrayType.of(ct), expected):
            return ct
        return _array(
            error, "transpose rule returned", f"the cotangent of operand {i}", ct, expected
        )

    return [
        ct
        if ct is None or type(ct) is ad.Zero or not ad.is_undefined_primal(x)
        else checked(i, ct, x)
        for i, (ct, x) in enumerate(zip(found, operands, strict=True))
    ]


def _differ_in_precision(a: ArrayType, b: ArrayType) -> bool:
    return a.shape == b.shape and any(
        jnp.issubdtype(a.dtype, kind) and jnp.issubdtype(b.dtype, kind)
        for kind in (jnp.floating, jnp.complexfloating)
    )


def checked_batch(
    name: str, types: Sequence[ArrayType], size: Any, found: Any
) -> tuple[list[Any], list[int | None]]:
    """Return the outputs of a batching rule for slices of these types, and their axes, or raise."""

    def error(text: str) -> Exception:
        return KernelError(f"{name!r}: the {text} [KB2103]")

    said = "batching rule returned"
    if not isinstance(found, (tuple, list)) or len(found) != 2:
        raise error(
            f"{said} {found!r}, expected a pair: a list of the outputs, and a list with the batch "
            "axis of each"
        )
    outputs, axes = (list(f) if isinstance(f, (tuple, list)) else [f] for f in found)
    _check_count(error, said, outputs, "outputs", len(types))
    _check_count(error, said, axes, "axes", len(types))
    return [
        _array(error, said, f"output {i} with axis {axis}", value, _with_axis(error, t, axis, size))
        for i, (value, axis, t) in enumerate(zip(outputs, axes, types, strict=True))
    ], axes


def _with_axis(error: Error, own: ArrayType, axis: Any, size: Any) -> ArrayType:
    if axis is None:
        return own
    rank = len(own.shape)
    if not isinstance(axis, (int, np.integer)) or not 0 <= axis <= rank:
        raise error(
            f"batching rule returned the axis {axis!r}, expected a number from 0 to {rank}, or "
            "None for an output that is the same for the whole batch"
        )
    return ArrayType((*own.shape[:axis], size, *own.shape[axis:]), own.dtype)


def _check_count(error: Error, said: str, found: Sequence[Any], what: str, n: int) -> None:
    if len(found) != n:
        raise error(f"{said} a list of {len(found)} as the {what}, expected {n}")


def _array(
    error: Error, said: str, what: str, value: Any, expected: ArrayType, also: str = ""
) -> Any:
    if isinstance(value, (int, float, complex)):
        value = jnp.asarray(value, expected.dtype)
    came = ArrayType.of(value) if has_type(value) else repr(value)
    if came != expected:
        raise error(f"{said} {came} as {what}, expected {expected}{also}")
    return value
