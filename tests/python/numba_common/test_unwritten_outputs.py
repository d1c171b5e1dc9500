"""A kernel that assigns to the name of an output, or never uses it, is warned about."""

import warnings

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from kernbridge import KernbridgeWarning, numba_cuda_callable, numba_cuda_kernel, numba_kernel

pytestmark = pytest.mark.once

FLAT = jax.ShapeDtypeStruct((3,), jnp.float32)
X = np.arange(3, dtype=np.float32)


def test_warned_when_wrapped():
    @numba.njit
    def double(x, out):
        y = x * 2
        out = y  # noqa: F841

    line = double.py_func.__code__.co_firstlineno + 3
    with pytest.warns(KernbridgeWarning, match=r"\[KB1008\]") as found:
        numba_kernel(double, FLAT)
    text = str(found[0].message)
    assert f"test_unwritten_outputs.py:{line} assigns to the name of" in text
    assert "Write out[...] = ..." in text
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        numba_kernel(double, FLAT)  # said once


def test_warned_when_traced():
    @numba.njit
    def both(x, first, gain, second):
        first[:] = x
        second = x * gain  # noqa: F841

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        op = numba_kernel(both, lambda x, gain: (FLAT, FLAT))
    with pytest.warns(KernbridgeWarning, match=r"'second'.*\[KB1008\]"):
        jax.eval_shape(op, X, gain=2.0)


def test_cuda_kernels():
    from numba import cuda

    @cuda.jit
    def pick(x, out):
        i = cuda.grid(1)
        out = x[i]  # noqa: F841

    with pytest.warns(KernbridgeWarning, match=r"\[KB1008\]"):
        numba_cuda_kernel(pick, FLAT, launch_dims=3)


def _forgetful(x, doubled, total):
    doubled[:] = x * 2


@pytest.mark.parametrize("outs", [(FLAT, FLAT), lambda x: (FLAT, FLAT)])
def test_never_used(outs):
    op = numba_kernel(numba.njit(_forgetful), outs)
    with pytest.warns(KernbridgeWarning, match=r"never uses the output 'total'.*\[KB1008\]"):
        jax.eval_shape(op, X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(op(X)[0], 2 * X)  # said once


def test_a_scalar_that_is_not_used_is_no_output():
    @numba.njit
    def double(x, out, gain):
        out[:] = x * 2

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(numba_kernel(double, FLAT)(X, gain=3.0), 2 * X)


def test_cuda_kernels_that_never_use_an_output():
    from numba import cuda

    @cuda.jit
    def pick(x, out, other):
        out[cuda.grid(1)] = x[0]

    with pytest.warns(KernbridgeWarning, match=r"'other'.*\[KB1008\]"):
        jax.eval_shape(numba_cuda_kernel(pick, (FLAT, FLAT), launch_dims=3), X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jax.eval_shape(numba_cuda_kernel(pick, (FLAT, FLAT), launch_dims=3, zero_outputs=True), X)


@pytest.mark.parametrize("record", ["auto", "never"])
def test_functions_that_run_as_python_and_never_use_an_output(record):
    def forget(x, out, total, stream):
        if float(x[0]) == 0:  # cannot be recorded
            out[:] = x

    op = numba_cuda_callable(forget, (FLAT, FLAT), record=record)
    with pytest.warns(KernbridgeWarning) as found:
        jax.jit(op).lower(X)
    said = [str(w.message).splitlines()[0] for w in found]
    assert [line.split(": ")[1] for line in said if "[KB1008]" in line] == [
        "the function never uses the output 'total', so the output is never written. Write "
        "total[...] = ..., or remove it from the function and from `outs` [KB1008]"
    ]


def test_what_always_raises_leaves_nothing_unwritten():
    def refuse(x, out, stream):
        raise ValueError("as the caller wanted")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jax.jit(numba_cuda_callable(refuse, FLAT, record="never")).lower(X)


def _add_one(x, same):
    x += 1


def _rename(x, same):
    x += 1
    same = x  # noqa: F841


@pytest.mark.parametrize("function", [_add_one, _rename])
@pytest.mark.parametrize("outs", [FLAT, lambda x: FLAT])
def test_the_memory_of_an_input_needs_no_name(function, outs):
    with warnings.catch_warnings():
        warnings.simplefilter("error", KernbridgeWarning)
        op = numba_kernel(numba.njit(function), outs, input_output_aliases={0: 0})
        np.testing.assert_array_equal(op(X), X + 1)


def _starred(x, *outs):
    outs[0][:] = x


def _view(x, out):
    out = out.reshape(3, 1)
    out[:, 0] = x


def _later(x, out):
    out[:] = x
    out = x


def _branch(x, out):
    if x.size > 2:
        out[:] = x
    else:
        out = x


def _input(x, unused, out):
    unused = x * 2
    out[:] = unused


def _closure(x, out):
    def write(value):
        out[:] = value

    write(x)


@pytest.mark.brief
@pytest.mark.parametrize("function", [_view, _later, _branch, _input, _closure, _starred])
def test_what_writes_is_not_warned_about(function):
    kernel = numba.njit(function)
    inputs = (X, X) if function is _input else (X,)
    with warnings.catch_warnings():
        warnings.simplefilter("error", KernbridgeWarning)
        op = numba_kernel(kernel, FLAT)
        jax.eval_shape(op, *inputs)
    np.testing.assert_array_equal(op(*inputs), 2 * X if function is _input else X)
