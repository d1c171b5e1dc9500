"""`static=` of `numba_cuda_kernel`: tuples, enumerations and numbers that are no inputs."""

import enum
import typing

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest

cuda = pytest.importorskip("numba.cuda")

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("gpu")]
S = jax.ShapeDtypeStruct
F32 = jnp.float32


class Mode(enum.Enum):
    COPY = 1
    NEGATE = 2


class Window(typing.NamedTuple):
    begin: int
    scale: float


@cuda.jit
def windowed(mode, x, window, out, bias=0.0, steps=(1, 2)):
    i = cuda.grid(1)
    if i < out.size:
        value = x[i + window.begin] * window.scale + bias + steps[1]
        out[i] = -value if mode == Mode.NEGATE else value


def wrap(**static):
    return kernbridge.numba_cuda_kernel(
        windowed, S((3,), F32), launch_dims=3, static=static, sharding_rule=None
    )


@pytest.mark.exhaustive
def test_static_arguments_stand_where_their_parameters_do():
    x = jnp.arange(8, dtype=F32)
    op = wrap(mode=Mode.NEGATE, window=Window(2, 0.5))
    expected = -(np.arange(2, 5) * 0.5 + 2)
    np.testing.assert_array_equal(op(x), expected)
    xs = jnp.stack([x, x])
    np.testing.assert_array_equal(jax.vmap(op)(xs), [expected, expected])
    np.testing.assert_array_equal(op(x, bias=1.0), expected - 1)
    op = wrap(mode=Mode.COPY, window=Window(1, 2.0), steps=(5, 7))
    np.testing.assert_array_equal(op(x), np.arange(1, 4) * 2.0 + 7)
    np.testing.assert_array_equal(op(x, bias=3.0), np.arange(1, 4) * 2.0 + 10)


def test_equal_values_have_one_operation():
    op = wrap(mode=Mode.COPY, window=Window(1, 2.0), steps=(5, 7))
    assert wrap(mode=Mode.COPY, window=Window(1, 2.0), steps=(5, 7)) is op
    assert wrap(mode=Mode.COPY, window=Window(1, 2), steps=(5, 7)) is not op


def test_values_need_no_new_compile():
    x = jnp.arange(8, dtype=F32)
    before = len(compiled())
    for begin in (0, 1, 4):
        for mode in Mode:
            op = wrap(mode=mode, window=Window(begin, 1.5), bias=2.0, steps=(0, 0))
            sign = 1 if mode is Mode.COPY else -1
            expected = sign * (np.arange(begin, begin + 3) * 1.5 + 2)
            np.testing.assert_array_equal(op(x), expected)
    assert len(compiled()) == before + 1


def compiled():
    from kernbridge._src.base import lru

    return lru.attached_to(windowed, "functions", dict)


def test_what_is_no_static_argument_is_refused():
    with pytest.raises(ValueError, match=r"'other'.*\[KB1103\]"):
        wrap(other=1)
    for value, words in ((np.ones(3), "ndarray"), ("text", "str"), ((1, [2]), "list, in a tuple")):
        with pytest.raises(
            TypeError, match=f"static contains .* of type {words}.*Pass arrays as inputs"
        ):
            wrap(mode=value)
    with pytest.raises(TypeError, match=r"'mode'.*\[KB2001\]"):
        wrap(mode=Mode.COPY)(jnp.ones(8), mode=1)
