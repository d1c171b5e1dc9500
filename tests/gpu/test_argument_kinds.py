"""Arguments of launches by kind: recorded, unrecorded (launched by Numba), and static ones."""

import enum

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest

cuda = pytest.importorskip("numba.cuda")
from argument_kinds import CASES  # noqa: E402

NAMED = {"argnames": "case", "argvalues": CASES, "ids": [c.name for c in CASES]}
S = jax.ShapeDtypeStruct


def compare(found, expected):
    for f, e in zip(found, expected, strict=True):
        np.testing.assert_array_equal(f, e)


@pytest.mark.parametrize(**NAMED)
def test_recorded_and_batched(case):
    op = kernbridge.numba_cuda_callable(case.function, case.outs, record="always")
    inputs = tuple(map(jnp.asarray, case.inputs))
    compare(jax.jit(op)(*inputs), case.expected)
    batch = [jnp.stack([x, x]) for x in inputs]
    compare(jax.vmap(op)(*batch), [np.stack([e, e]) for e in case.expected])


@pytest.mark.parametrize(**NAMED)
def test_unrecorded(case):
    op = kernbridge.numba_cuda_callable(case.function, case.outs, record="never")
    compare(op(*map(jnp.asarray, case.inputs)), case.expected)


class Mode(enum.Enum):
    COPY = 1
    NEGATE = 2


@cuda.jit
def windowed(mode, x, window, out):
    i = cuda.grid(1)
    if i < out.size:
        value = x[i + window[0]] * window[1]
        out[i] = -value if mode == Mode.NEGATE else value


def test_static_arguments():
    x = jnp.arange(8, dtype=jnp.float32)
    for mode, sign in ((Mode.COPY, 1), (Mode.NEGATE, -1)):
        op = kernbridge.numba_cuda_kernel(
            windowed, S((3,), x.dtype), launch_dims=3, static={"mode": mode, "window": (2, 0.5)}
        )
        np.testing.assert_array_equal(op(x), sign * np.arange(2, 5) / 2)
