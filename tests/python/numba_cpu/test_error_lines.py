"""Exceptions of Numba kernels name the line of the user's file where they happened."""

import inspect
import re
import sys

import failing_kernels
import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from kernbridge import numba_kernel

pytestmark = pytest.mark.once

N = 8
FLAT = jax.ShapeDtypeStruct((N,), jnp.float32)
X = np.arange(N, dtype=np.float32)


def fails(kernel, *inputs, outs=FLAT, **keywords):
    """The message of a call, and the line that it names, relative to this file."""
    with pytest.raises(jax.errors.JaxRuntimeError) as e:
        jax.block_until_ready(numba_kernel(kernel, outs)(*inputs, **keywords))
    message = str(e.value)
    found = re.search(r"at (\S+):(\d+)\)", message)
    assert found, message
    with open(found[1]) as file:
        return message, file.readlines()[int(found[2]) - 1].strip()


def test_division_by_zero():
    @numba.njit
    def kernel(x, out):
        for i in range(out.size):
            out[i] = 1 // (i - 3)  # here

    message, line = fails(kernel, X)
    assert "ZeroDivisionError: integer division by zero (in kernel at" in message
    assert line.endswith("# here")


def test_index_of_a_list_and_a_tuple():
    @numba.njit
    def of_list(x, out):
        values = [1.0, 2.0]
        out[0] = values[np.int64(x[7])]  # list

    @numba.njit
    def of_tuple(x, out):
        values = (1.0, 2.0)
        out[0] = values[np.int64(x[7])]  # tuple

    for kernel, name in ((of_list, "list"), (of_tuple, "tuple")):
        message, line = fails(kernel, X)
        assert "IndexError" in message
        assert line.endswith(f"# {name}")


def test_bounds_that_numba_checks():
    @numba.njit(boundscheck=True)
    def kernel(x, out):
        for i in range(out.size):
            out[i] = x[i + 1]  # here

    message, line = fails(kernel, X)
    assert "IndexError: index is out of bounds" in message
    assert line.endswith("# here")


@pytest.mark.parametrize("inline", ["never", "always"])
def test_lines_of_callees(inline):
    @numba.njit(inline=inline)
    def divide(a, b):
        return a // b  # callee

    @numba.njit
    def between(a, b):
        return divide(a, b) + 1

    @numba.njit
    def kernel(x, out):
        for i in range(out.size):
            out[i] = between(8, i - 3)

    message, line = fails(kernel, X)
    assert "ZeroDivisionError" in message
    assert line == "return a // b  # callee"


def test_callee_that_numba_compiled_before_names_the_call():
    @numba.njit
    def divide(a, b):
        return a // b

    assert divide(4, 2) == 2

    @numba.njit
    def kernel(x, out):
        out[0] = divide(np.int64(x[1]), np.int64(x[0]))  # call

    message, line = fails(kernel, X)
    assert "ZeroDivisionError" in message
    assert line.endswith("# call")
    with pytest.raises(ZeroDivisionError):
        divide(4, 0)


KERNELS = [f for _, f in inspect.getmembers(failing_kernels, inspect.isfunction)]


@pytest.mark.brief
@pytest.mark.parametrize("function", KERNELS, ids=lambda f: f.__name__)
def test_exceptions_that_numba_raises(function):
    _, line = fails(numba.njit(function), X)
    assert line.endswith("# fails")


@numba.njit(parallel=True)
def parallel_pick(x, out):
    for i in numba.prange(out.size):
        pair = [1.0, 2.0]
        out[i] = pair[np.int64(x[i]) // 5] / x[i]  # parallel


def test_parallel_loops():
    """Numba itself loses such an exception, and goes on with the results as they are."""
    for _ in range(3):
        message, line = fails(parallel_pick, 5 * X)
        assert "IndexError: getitem out of range (in parallel_pick at" in message
        assert line.endswith("# parallel")
    with np.errstate(divide="ignore"):  # the body of a prange loop divides as NumPy does
        expected = np.float32([1] * 5 + [2] * 3) / X
    np.testing.assert_array_equal(numba_kernel(parallel_pick, FLAT)(X), expected)


@pytest.mark.exhaustive
def test_parallel_loop_of_a_callee_in_a_loop():
    @numba.njit(parallel=True)
    def fill(out, at):
        total = 0.0
        for i in numba.prange(out.size):
            total += np.zeros(at - i)[0]  # reduced
        return total

    @numba.njit
    def kernel(x, out):
        for i in range(20, -1, -1):
            out[0] = fill(out, i)

    message, line = fails(kernel, X)
    assert "ValueError" in message
    assert line.endswith("# reduced")


def test_parallel_loop_with_an_exception_of_its_own_values():
    @numba.njit
    def refuse(i, x):
        if i == 5:
            raise ValueError("bad", i, x)  # own

    @numba.njit(parallel=True)
    def kernel(x, out):
        for i in numba.prange(out.size):
            refuse(i, x[i])
            out[i] = x[i]

    message, line = fails(kernel, X)
    assert "ValueError: ('bad', 5, 5.0) (in refuse at" in message
    assert line.endswith("# own")


@pytest.mark.skipif(
    sys.version_info >= (3, 12),
    reason="Numba on Python 3.12 takes what comes behind a `try` for a part of it",
)
def test_exception_that_the_kernel_catches():
    @numba.njit
    def divide(a, b):
        return a // b  # divided

    @numba.njit
    def kernel(x, out):
        try:
            out[0] = divide(1, np.int64(x[0]))
        except Exception:
            out[0] = -1
        out[1] = divide(1, np.int64(x[1]) - 1)

    _, line = fails(kernel, X)
    assert line.endswith("# divided")


def test_generators():
    @numba.njit
    def inverses(n):
        for i in range(n):
            yield 1 // (i - 3)  # yielded

    @numba.njit
    def kernel(x, out):
        for value in inverses(out.size):
            out[0] = value

    _, line = fails(kernel, X)
    assert line.endswith("# yielded")


@pytest.mark.exhaustive
def test_kernel_from_numbas_cache_on_disk(tmp_path, run_python):
    """The second process loads what the first stored."""
    source = tmp_path / "cached_lines.py"
    source.write_text(
        "import numba\n"
        "@numba.njit(cache=True)\n"
        "def kernel(x, out):\n"
        "    for i in range(out.size):\n"
        "        out[i] = 17 // (i - 3)\n"
    )
    program = """
import jax, jax.numpy as jnp, kernbridge, cached_lines
x = jnp.arange(7.0)
try:
    jax.block_until_ready(kernbridge.numba_kernel(cached_lines.kernel, x)(x))
except jax.errors.JaxRuntimeError as e:
    print(e)
"""
    for _ in range(2):
        assert "cached_lines.py:5)" in run_python(program, KERNBRIDGE_CACHE_DIR="0")


def test_numba_itself_raises_as_before():
    @numba.njit
    def divide(a, b):
        return a // b

    @numba.njit
    def kernel(x, out):
        out[0] = divide(1, np.int64(x[0]))

    fails(kernel, X)
    with pytest.raises(ZeroDivisionError, match="integer division by zero"):
        divide(1, 0)  # compiled with the kernel
    with pytest.raises(ZeroDivisionError):
        kernel(X, np.zeros(N, np.float32))
