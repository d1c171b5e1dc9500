"""Kernels that are decorated where they are defined, for tests of `kernbridge.kernel`."""

import jax
import jax.numpy as jnp
import kernbridge
import numba


@kernbridge.kernel(outs=lambda x, factor: x)
@numba.njit
def scale(x, factor, out):
    """Multiply every element."""
    for i in range(x.size):
        out[i] = factor * x[i]


@kernbridge.kernel(jax.ShapeDtypeStruct((3,), jnp.float32))
@numba.njit
def printing(x, out):
    """Travels by its name, since machine code that prints stays in its process."""
    print(x.size)
    for i in range(x.size):
        out[i] = 2 * x[i]
