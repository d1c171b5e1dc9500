"""Compares functions of kernels with their references in JAX, and gradients with differences."""

import jax
import jax.numpy as jnp
import numpy as np


def assert_close(ours, theirs, rtol=1e-9, atol=1e-12):
    """Compare two pytrees of arrays, leaf by leaf."""
    ours, theirs = jax.tree.leaves(ours), jax.tree.leaves(theirs)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=rtol, atol=atol)


def assert_same_gradients(ours, theirs, *arguments, argnums=0, **tolerances):
    """Compare values and gradients of two functions, and the gradient with central differences."""
    found, expected = (jax.jit(jax.value_and_grad(f, argnums))(*arguments) for f in (ours, theirs))
    assert_close(found, expected, **tolerances)
    assert_differences(ours, found[1], *arguments, argnums=argnums)


def assert_differences(function, gradient, *arguments, argnums=0, step=1e-5, rtol=1e-4):
    """Compare a gradient with a central difference along a drawn direction."""
    which = (argnums,) if isinstance(argnums, int) else argnums
    gradient = (gradient,) if isinstance(argnums, int) else gradient
    rng = np.random.default_rng(1)

    def moved(size):
        direction = np.random.default_rng(1)
        given = list(arguments)
        for i in which:
            given[i] = jax.tree.map(lambda x: x + size * direction.normal(size=x.shape), given[i])
        return function(*given)

    difference = (moved(step) - moved(-step)) / (2 * step)
    slope = sum(jnp.sum(g * rng.normal(size=g.shape)) for g in jax.tree.leaves(gradient))
    np.testing.assert_allclose(slope, difference, rtol=rtol, atol=1e-7)
