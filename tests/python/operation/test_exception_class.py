"""The classes by which docs/catching-errors.md says to catch what a kernel raises.

With JAX 0.12 they differ after a first call that succeeded.
"""

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest

CAUGHT = (jax.errors.JaxRuntimeError, ValueError)


@numba.njit
def positive(x, out):
    for i in range(x.size):
        if x[i] < 0:
            raise KeyError("negative")
        out[i] = x[i]


def test_an_exception_is_caught_after_a_first_successful_call():
    good = jnp.linspace(1, 2, 5)
    op = kernbridge.numba_kernel(positive, lambda x: x)
    for call, x in ((op, good), (jax.jit(op), good[:3]), (jax.jit(jax.vmap(op)), good[None])):
        for given in (-x[..., :2], x, -x, x, -x):  # of one shape, the first call fails
            if given[..., 0] > 0:
                np.testing.assert_array_equal(call(given), given)
                continue
            with pytest.raises(CAUGHT, match=r"numba_kernel 'positive': .*negative"):
                call(given).block_until_ready()
