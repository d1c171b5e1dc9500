"""Primitives that Numba has no function for, as functions of JAX's other primitives.

All except the functions of bits compute in float64, whatever the type of their arguments. The
series are from Abramowitz and Stegun, "Handbook of Mathematical Functions"; where another source is
used, it is named.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from kernbridge._src.base import private_jax


def _in_float64(function: Callable[..., Any]) -> Callable[..., Any]:
    def computed(*arguments: Any) -> Any:
        return function(*(a.astype(np.float64) for a in arguments)).astype(arguments[0].dtype)

    return computed


def _polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    return functools.reduce(lambda result, c: result * x + c, coefficients)


def cbrt(x: Any) -> Any:
    size = jnp.abs(x)
    root = size ** (1 / 3)
    step = (root * root * root - size) / (3 * root * root)
    return jnp.sign(x) * jnp.where((size > 0) & (size < np.inf), root - step, size)


def digamma(x: Any) -> Any:
    is_left = x <= 0

    def step(state: tuple[Any, Any]) -> tuple[Any, Any]:
        return state[0] + 1, state[1] - 1 / state[0]

    y, shift = lax.while_loop(lambda s: s[0] < 12, step, (jnp.where(is_left, 1 - x, x), x * 0))
    z = 1 / (y * y)
    bernoulli = (1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12)
    value = jnp.log(y) - 0.5 / y - z * _polynomial(z, bernoulli) + shift
    fraction = x - jnp.floor(x)
    reflected = jnp.where(fraction == 0, np.nan, value - np.pi / jnp.tan(np.pi * fraction))
    return jnp.where(is_left, reflected, value)


def zeta(x: Any, q: Any) -> Any:
    """Hurwitz's zeta function by the formula of Euler and Maclaurin, as in Cephes."""
    total, start = q**-x, q
    for _ in range(9):
        start = start + 1
        total = total + start**-x
    power = start**-x
    total = total + power * start / (x - 1) - 0.5 * power
    factor, k = x, 0
    for b in (
        *(12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1307674368000.0 / 691, 74724249600.0),
        *(-10670622842880000.0 / 3617, 5109094217170944000.0 / 43867),
        *(-802857662698291200000.0 / 174611, 14101100039391805440000.0 / 77683),
        -1693824136731743669452800000.0 / 236364091,
    ):
        power = power / start
        total = total + factor * power / b
        factor, power = factor * (x + k + 1) * (x + k + 2), power / start
        k += 2
    is_pole = (q <= 0) & (q == jnp.floor(q))
    total = jnp.where(is_pole, np.inf, jnp.where((q < 0) & (x != jnp.floor(x)), np.nan, total))
    return jnp.where(x > 1, total, jnp.where(x == 1, np.inf, np.nan))


def polygamma(n: Any, x: Any) -> Any:
    value = jnp.where(n % 2 == 0, -1.0, 1.0) * jnp.exp(lax.lgamma(n + 1)) * lax.zeta(n + 1, x)
    is_order = (n >= 0) & (n == jnp.floor(n))
    return jnp.where(is_order, jnp.where(n == 0, lax.digamma(x), value), np.nan)


def bessel_i1e(x: Any) -> Any:
    """The modified Bessel function of the first kind, of order 1, times exp(-|x|)."""
    size = jnp.abs(x)
    quarter = x * x / 4

    def more(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        k, term, total = state
        term = term * quarter / (k * (k + 1))
        return k + 1, term, total + term

    far = term = one = x * 0 + 1
    is_near = size < 30
    _, _, total = lax.while_loop(lambda s: is_near & (s[1] > s[2] * 1e-17), more, (one, one, one))
    large = jnp.maximum(size, 30)
    for k in range(1, 21):
        term = term * ((2 * k - 1) ** 2 - 4) / (8 * k * large)
        far = far + term
    value = jnp.where(is_near, total * jnp.exp(-size), far / jnp.sqrt(2 * np.pi * large))
    return value * jnp.where(is_near, x / 2, jnp.sign(x))


def erf_inv(x: Any) -> Any:
    """By M. Giles, "Approximating the erfinv function", 2010, and steps of Halley's method."""
    size = jnp.abs(x)
    w = -jnp.log1p(-x * x)
    value = size * jnp.where(
        w < 5, _polynomial(w - 2.5, _GILES[0]), _polynomial(jnp.sqrt(w) - 3, _GILES[1])
    )
    for _ in range(3 if x.dtype == np.float64 else 0):
        error = jnp.where(size < 0.5, lax.erf(value) - size, 1 - size - lax.erfc(value))
        newton = error * jnp.exp(value * value) * (np.sqrt(np.pi) / 2)
        value = value - newton / (1 + value * newton)
    return jnp.sign(x) * jnp.where(size == 1, np.inf, value)


def nextafter(x: Any, y: Any) -> Any:
    bits = np.dtype(f"int{8 * x.dtype.itemsize}")
    given = lax.bitcast_convert_type(x, bits)
    grows = (y > x) == (x > 0)
    one = bits.type(1)
    moved = lax.bitcast_convert_type(jnp.where(grows, given + one, given - one), x.dtype)
    smallest = jnp.copysign(np.nextafter(x.dtype.type(0), x.dtype.type(1)), y)
    moved = jnp.where(x == 0, smallest, moved)
    return jnp.where(x == y, y, jnp.where(jnp.isnan(x) | jnp.isnan(y), np.nan, moved))


def population_count(x: Any) -> Any:
    one, start = x.dtype.type(1), (x, x * x.dtype.type(0))
    _, n = lax.while_loop(lambda s: s[0] != 0, lambda s: (s[0] & (s[0] - one), s[1] + one), start)
    return n


def clz(x: Any) -> Any:
    for n in (1, 2, 4, 8, 16, 32):  # every bit below the first one is set
        x = x | lax.shift_right_logical(x, x.dtype.type(n))
    return x.dtype.type(8 * x.dtype.itemsize) - lax.population_count(x)


def round(x: Any, rounding_method: Any) -> Any:
    below = jnp.floor(x)
    rest = x - below
    is_away = rounding_method == lax.RoundingMethod.AWAY_FROM_ZERO
    up = (rest > 0.5) | ((rest == 0.5) & (x > 0 if is_away else below % 2 != 0))
    return jnp.copysign(jnp.where(up, below + 1, below), x)


# Primitives that JAX itself implements by others.
_OF_JAX = ["igamma", "igammac", "igamma_grad_a", "random_gamma_grad", "regularized_incomplete_beta"]
_OF_FLOAT64 = {
    **{f.__name__: f for f in (bessel_i1e, cbrt, digamma, polygamma, zeta)},
    "bessel_i0e": lambda x: private_jax.special.bessel_i0e_impl(x),
    **{
        name: functools.partial(function, dtype=np.float64)
        for name in _OF_JAX
        if (function := getattr(private_jax.special, f"{name}_impl", None))
    },
}
FUNCTIONS = {  # by the names of the primitives
    **{f.__name__: f for f in (clz, erf_inv, nextafter, population_count, round)},
    "clamp": lambda low, x, high: lax.min(lax.max(x, low), high),
    "polynomial": lambda x, *coefficients: _polynomial(x, coefficients[::-1]),  # of JAX 0.12
    **{name: _in_float64(function) for name, function in _OF_FLOAT64.items()},
}

_GILES = (
    (
        *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087),
        *(-0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
    ),
    (
        *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773),
        *(-0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
    ),
)
