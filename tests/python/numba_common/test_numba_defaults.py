"""Default arguments that Python calls equal, which Numba takes for one another."""

import math

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest
from numba import types

pytestmark = pytest.mark.once

OUT = jax.ShapeDtypeStruct((2,), jnp.float64)
PLAIN = types.Omitted(0.0)  # Numba hands out the type that it has met first


def sign_of_default(value, jit):
    @jit
    def kernel(out, c=value):
        out[0], out[1] = math.copysign(1.0, c), 1.0

    return kernel


def sign_of_a_callees_default(value, jit, inner):
    @inner
    def sign(x, c=value):
        return math.copysign(x, c)

    @jit
    def kernel(out):
        out[0], out[1] = sign(1.0), 1.0

    return kernel


def sign_of_one_of_two(value, jit, inner):
    @inner
    def signs(x, c=0.0, d=-0.0):
        return math.copysign(x, c), math.copysign(x, d)

    @jit
    def kernel(out):
        c, d = signs(1.0)
        out[0], out[1] = (d, c) if math.copysign(1.0, value) < 0 else (c, c)

    return kernel


MAKE = [lambda v, jit, _: sign_of_default(v, jit), sign_of_a_callees_default, sign_of_one_of_two]


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("make", MAKE, ids=["kernel", "callee", "two"])
@pytest.mark.parametrize("values", [(0.0, -0.0), (-0.0, 0.0)], ids=str)
def test_a_default_of_minus_zero_is_not_zero(make, values):
    for value in values:
        op = kernbridge.numba_kernel(make(value, numba.njit, numba.njit), OUT)
        np.testing.assert_array_equal(op(), [math.copysign(1, value), 1])


@pytest.mark.brief
@pytest.mark.parametrize("make", MAKE, ids=["kernel", "callee", "two"])
def test_on_gpus_too(make, gpu):
    from numba import cuda

    for value in (0.0, -0.0):
        kernel = make(value, cuda.jit, cuda.jit(device=True))
        op = kernbridge.numba_cuda_kernel(kernel, OUT, grid=1, block=1)
        np.testing.assert_array_equal(op(), [math.copysign(1, value), 1])


@pytest.mark.parametrize("values", [((1, 1), (1.0, 1.0), (True, 1)), ((0.0, 2), (-0.0, 2))])
def test_equal_tuples_are_apart(values):
    for value in values:

        @numba.njit
        def kernel(out, c=value):
            out[0], out[1] = c[0] / 2 + math.copysign(1.0, c[0]), c[1]

        expected = np.zeros(2)
        kernel.py_func(expected, value)
        np.testing.assert_array_equal(kernbridge.numba_kernel(kernel, OUT)(), expected)


def test_scalars_of_numpy_and_complex_numbers():
    for value in (np.float32(0.0), np.float32(-0.0), complex(0.0, 0.0), complex(-0.0, 0.0)):

        @numba.njit
        def kernel(out, c=value):
            out[0], out[1] = math.copysign(1.0, c.real), 1.0

        got = kernbridge.numba_kernel(kernel, OUT)()
        np.testing.assert_array_equal(got, [math.copysign(1, value.real), 1], err_msg=repr(value))


def test_numba_itself_is_as_before():
    sign_of_default(-0.0, numba.njit)(np.zeros(2))
    kernbridge.numba_kernel(sign_of_default(-0.0, numba.njit), OUT)()
    assert types.Omitted(0.0) is PLAIN
    assert types.Omitted(0.0).key == (float, 0.0)
