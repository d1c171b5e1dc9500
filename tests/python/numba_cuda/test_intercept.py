"""Functions of numba.cuda that a recorded function knows by names of its own."""

import functools

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
from cuda_kernels import increment
from numba.cuda import device_array, device_array_like

pytestmark = pytest.mark.once
ORIGINAL = device_array


def through(x, out, temporary):
    increment[1, 32](x, temporary)
    increment[1, 32](temporary, out)


def by_global(x, out, stream):
    through(x, out, device_array(x.shape, x.dtype))


def by_helper(x, out, stream):
    by_global(x, out, stream)


def by_default(x, out, stream, *, make=device_array_like):
    through(x, out, make(x))


def by_closure(make):
    def function(x, out, stream):
        through(x, out, make(x.shape, x.dtype))

    return function


@functools.wraps(by_global)
def by_wrapper(x, out, stream):
    by_global(x, out, stream)


class Layer:
    def forward(self, x, out, stream):
        by_global(x, out, stream)


@pytest.mark.parametrize(
    "function",
    [by_global, by_helper, by_closure(ORIGINAL), by_wrapper, Layer().forward],
    ids=["global", "helper", "closure", "wrapper", "method"],
)
def test_a_recorded_function_may_name_functions_of_numba_cuda(function):
    op = kernbridge.numba_cuda_callable(
        function, jax.ShapeDtypeStruct((4,), jnp.float32), record="always"
    )
    np.testing.assert_array_equal(op(jnp.zeros(4)), [2, 2, 2, 2])


def test_a_default_value_is_seen():
    op = kernbridge.numba_cuda_callable(
        lambda x, out, stream: by_default(x, out, stream),
        jax.ShapeDtypeStruct((4,), jnp.float32),
        record="always",
    )
    np.testing.assert_array_equal(op(jnp.zeros(4)), [2, 2, 2, 2])
