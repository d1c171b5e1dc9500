"""The checked mode of Numba kernels on the CPU: what is out of bounds is an error that names it."""

import re
from threading import Thread

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from kernbridge import numba_kernel
from numba.extending import overload

pytestmark = pytest.mark.once

FLAT = jax.ShapeDtypeStruct((3,), jnp.float32)
X = np.arange(3, dtype=np.float32)
GRID = np.arange(6, dtype=np.float32).reshape(2, 3)


def fails(kernel, *inputs, outs=FLAT):
    """The message of a checked call, and the line that it names."""
    with pytest.raises(jax.errors.JaxRuntimeError) as e:
        jax.block_until_ready(numba_kernel(kernel, outs, check=True)(*inputs))
    message = str(e.value)
    found = re.search(r"at (\S+):(\d+)\)", message)
    assert found, message
    with open(found[1]) as file:
        return message, file.readlines()[int(found[2]) - 1].strip()


def test_mixed_lengths():
    @numba.njit
    def add(x, y, out):
        for i in range(x.size):
            out[i] = x[i] + y[i]  # here

    message, line = fails(add, X, X[:2])
    assert (
        "IndexError: index 2 is out of bounds for axis 0 of array 'y', whose shape is (2,) "
        "(in add at" in message
    )
    assert line.endswith("# here")
    got = numba_kernel(add, FLAT, check=True)(X, X)
    np.testing.assert_array_equal(got, 2 * X)


def test_writes_and_negative_indices():
    @numba.njit
    def write(x, out):
        out[3] = x[0]  # written

    @numba.njit
    def negative(x, out):
        for i in range(-4, 0):
            out[i] = x[0]  # negative

    message, line = fails(write, X)
    assert "index 3 is out of bounds for axis 0 of array 'out', whose shape is (3,)" in message
    assert line.endswith("# written")
    message, line = fails(negative, X)
    assert "index -4 is out of bounds for axis 0 of array 'out'" in message
    assert line.endswith("# negative")


@pytest.mark.parametrize(("i", "j", "axis", "index"), [(0, 3, 1, 3), (-3, 0, 0, -3), (2, 1, 0, 2)])
def test_axes(i, j, axis, index):
    @numba.njit
    def pick(x, at, out):
        row, column = np.int64(at[0]), np.int32(at[1])
        out[0] = x[row, column]  # here

    message, line = fails(pick, GRID, np.array([i, j], np.int32))
    assert (
        f"index {index} is out of bounds for axis {axis} of array 'x', whose shape is (2, 3)"
        in message
    )
    assert line.endswith("# here")


@pytest.mark.exhaustive
@pytest.mark.parametrize("inline", ["never", "always"])
def test_callees(inline):
    @numba.njit(inline=inline)
    def read(values, i):
        return values[i]  # callee

    assert read(X, 1) == 1  # compiled by Numba, unchecked

    @numba.njit
    def kernel(x, out):
        for i in range(out.size):
            out[i] = read(x, i)

    message, line = fails(kernel, X[:2])
    assert "index 2 is out of bounds for axis 0 of array 'values', whose shape is (2,)" in message
    assert line.endswith("# callee")
    overloads = list(read.overloads)
    assert numba_kernel(kernel, FLAT)(X).tolist() == [0, 1, 2]
    assert read(X, 2) == 2
    assert set(overloads) <= set(read.overloads)


@pytest.mark.exhaustive
def test_slices_views_temporaries_and_closures():
    table = np.arange(2, dtype=np.float32)

    @numba.njit
    def kernel(x, out):
        half = x[:2]
        out[0] = half[0]
        out[1] = half[2]  # view

    @numba.njit
    def temporary(x, out):
        out[0] = (x + 1)[np.int64(x[2]) + 1]  # temporary

    @numba.njit
    def closure(x, out):
        out[0] = table[np.int64(x[2])]  # closure

    message, line = fails(kernel, X)
    assert "index 2 is out of bounds for axis 0 of array 'half', whose shape is (2,)" in message
    assert line.endswith("# view")
    message, line = fails(temporary, X)
    assert "index 3 is out of bounds for axis 0 of an array, whose shape is (3,)" in message
    assert line.endswith("# temporary")
    message, line = fails(closure, X)
    assert "index 2 is out of bounds for axis 0 of array 'table', whose shape is (2,)" in message
    assert line.endswith("# closure")


def test_row_of_a_matrix_and_constant_indices():
    @numba.njit
    def row(x, out):
        out[:] = x[2]  # row

    @numba.njit
    def constant(x, out):
        out[0] = x[1, 3]  # constant

    message, line = fails(row, GRID)
    assert "index 2 is out of bounds for axis 0 of array 'x', whose shape is (2, 3)" in message
    assert line.endswith("# row")
    message, line = fails(constant, GRID)
    assert "index 3 is out of bounds for axis 1 of array 'x', whose shape is (2, 3)" in message
    assert line.endswith("# constant")


def test_parallel_loops():
    @numba.njit(parallel=True)
    def kernel(x, y, out):
        for i in numba.prange(out.size):
            out[i] = x[i] + y[i]  # loop

    message, line = fails(kernel, X, X[:2])
    assert "index 2 is out of bounds for axis 0 of array 'y', whose shape is (2,)" in message
    assert line.endswith("# loop")
    got = numba_kernel(kernel, FLAT, check=True)(X, X)
    np.testing.assert_array_equal(got, 2 * X)


def test_index_arrays():
    @numba.njit
    def gather(x, at, out):
        out[:] = x[at]  # gather

    message, line = fails(gather, X, np.array([0, 1, 7]))
    assert "IndexError" in message
    assert line.endswith("# gather")


def test_flat():
    @numba.njit
    def read(x, out):
        out[0] = x.flat[np.int64(x[0, 1]) * 6]  # read

    @numba.njit
    def write(x, out):
        out.flat[-1] = x.flat[5]  # write

    @numba.njit
    def right(x, out):
        out.flat[2] = x.flat[np.int64(x[1, 2])]
        out.flat[0] = out[1] = 0

    message, line = fails(read, GRID)
    assert "index 6 is out of bounds for axis 0 of array 'x', whose shape is (2, 3)" in message
    assert line.endswith("# read")
    message, line = fails(write, GRID)
    assert "index -1 is out of bounds for axis 0 of array 'out', whose shape is (3,)" in message
    assert line.endswith("# write")
    np.testing.assert_array_equal(numba_kernel(right, FLAT, check=True)(GRID), [0, 0, 5])


@pytest.mark.parametrize("options", [{"cache": True}, {"fastmath": True}, {"error_model": "numpy"}])
def test_options_of_njit(options):
    @numba.njit(**options)
    def kernel(x, y, out):
        for i in range(out.size):
            out[i] = x[i] - y[i]  # here

    message, line = fails(kernel, X, X[:2])
    assert "array 'y'" in message
    assert line.endswith("# here")


@pytest.mark.exhaustive
def test_declared_signatures():
    @numba.njit("float32(float32[::1], int64)")
    def read(values, i):
        return values[i]  # callee

    @numba.njit("void(float32[::1], float32[::1])")
    def kernel(x, out):
        for i in range(out.size):
            out[i] = read(x, i)

    message, line = fails(kernel, X[:2])
    assert "array 'values'" in message
    assert line.endswith("# callee")
    np.testing.assert_array_equal(numba_kernel(kernel, FLAT, check=True)(X), X)
    with pytest.raises(TypeError):
        read(X, "text")  # nothing else is compiled, still


def test_vmap_names_the_slice():
    @numba.njit
    def kernel(x, at, out):
        out[0] = x[at[()]]

    op = numba_kernel(kernel, jax.ShapeDtypeStruct((1,), jnp.float32), check=True)
    with pytest.raises(
        jax.errors.JaxRuntimeError, match=r"index 5 .*\[slice 1 of a batch of 2\].*\[KB3001\]"
    ):
        jax.block_until_ready(jax.vmap(op, in_axes=(None, 0))(X, np.array([0, 5])))


@pytest.mark.exhaustive
def test_environment_checks_every_kernel(run_python):
    script = """
import jax, jax.numpy as jnp, numba, numpy as np
from kernbridge import numba_kernel
@numba.njit
def kernel(x, out):
    out[0] = x[3]
try:
    numba_kernel(kernel, jax.ShapeDtypeStruct((1,), jnp.float32))(np.ones(3, np.float32))
except jax.errors.JaxRuntimeError as e:
    print(e)
"""
    printed = run_python(script, KERNBRIDGE_DEBUG="check")
    assert "index 3 is out of bounds for axis 0 of array 'x'" in printed


def while_typing(*seen):
    """A function whose call lets another thread look, while Numba types it."""
    found = []

    def plain(x):
        return x

    @overload(plain)
    def _typed(x):
        thread = Thread(target=lambda: found.append([look() for look in seen]))
        thread.start()
        thread.join(60)
        return lambda x: x

    return plain, found


@pytest.mark.exhaustive
def test_another_thread_sees_no_checked_function():
    """It may read what Numba has compiled of a function without Numba's lock."""

    @numba.njit
    def callee(x, i):
        return x[i]

    read = numba.njit("f4(f4[::1], i8)")(callee.py_func)
    signature = (numba.float32[::1], numba.int64)
    callee.compile(signature)
    before = callee.get_overload(signature), read.get_overload(signature)
    plain, found = while_typing(
        lambda: callee.get_overload(signature),
        lambda: read.get_overload(signature),
        lambda: callee.signatures + read.signatures,
    )

    @numba.njit
    def kernel(x, out):
        for i in range(3):
            out[i] = callee(x, i) + read(x, i) + plain(x[i])

    message, _ = fails(kernel, X[:2])
    assert "IndexError: index 2 is out of bounds" in message
    assert found
    assert all(seen == [*before, [signature, signature]] for seen in found)
    assert (callee.get_overload(signature), read.get_overload(signature)) == before


def test_export_keeps_the_checks():
    op = numba_kernel(checked_read, FLAT, check=True)
    allowed = [jax.export.DisabledSafetyCheck.custom_call("kernbridge.host")]
    exported = jax.export.export(jax.jit(op), disabled_checks=allowed)(X[:2])
    exported = jax.export.deserialize(exported.serialize())
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"\[KB3001\]"):
        jax.block_until_ready(exported.call(X[:2]))


@numba.njit
def checked_read(x, out):
    for i in range(out.size):
        out[i] = x[i] * 5


def test_zero_outputs():
    @numba.njit
    def count(x, out):
        for i in range(x.size):
            out[np.int64(x[i])] += 1

    op = numba_kernel(count, FLAT, zero_outputs=True)
    for _ in range(20):
        assert op(np.array([1, 1, 2], np.float32)).tolist() == [0, 2, 1]
    many = jnp.array([[0, 0, 0], [1, 2, 2.0]])
    assert jax.vmap(op)(many).tolist() == [[3, 0, 0], [0, 1, 2]]


def test_zero_outputs_spares_the_aliased_and_empty_ones():
    @numba.njit
    def add(state, x, state_out, n, none):
        state_out += x
        n[()] += 1

    outs = (FLAT, jax.ShapeDtypeStruct((), jnp.int32), jax.ShapeDtypeStruct((0,), jnp.float32))
    op = numba_kernel(add, outs, input_output_aliases={0: 0}, zero_outputs=True)
    state, n, none = op(X, X)
    assert (state.tolist(), int(n), none.shape) == ([0, 2, 4], 1, (0,))
