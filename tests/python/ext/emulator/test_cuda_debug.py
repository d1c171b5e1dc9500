"""Kernels with debug=True on the CPU: what they raise is an error of the call.

The ordinary run has tests/gpu/test_cuda_constructs.py on the CPU.

Each test is a program of its own, since this process has a fake driver that takes GPU calls.
"""

import pytest

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")

pytestmark = [pytest.mark.once, pytest.mark.exhaustive]

HEAD = """
import warnings
import jax, jax.numpy as jnp, numpy as np
import kernbridge
from kernbridge import numba_cuda_callable, numba_cuda_kernel
from numba import cuda
S = jax.ShapeDtypeStruct
x = jnp.arange(8, dtype=jnp.float32)
shape = S(x.shape, x.dtype)

def line_of(function, text):
    import inspect
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if text in line)

def fails(op, *words, given=(x,)):
    try:
        jax.block_until_ready(op(*given))
    except (jax.errors.JaxRuntimeError, ValueError) as e:
        assert all(w in str(e) for w in words), e
        assert len(str(e).splitlines()) <= 30
        return str(e)
    raise SystemExit(f"{op} did not fail")

class Negative(ValueError):
    pass

@cuda.jit(device=True)
def root(v):
    if v < 0:
        raise Negative("no root of a negative number", 7)
    return v ** 0.5

@cuda.jit(debug=True, opt=False)
def roots(x, out):
    i = cuda.grid(1)
    if i == 6:
        assert x[i] != 6, "six is not allowed"
    out[i] = root(x[i])

@cuda.jit(debug=True, opt=False)
def divided(x, by, out):
    i = cuda.grid(1)
    out[i] = x[i] / by[i]

@cuda.jit(debug=True, opt=False)
def shapes(x, out):
    i = cuda.grid(1)
    out[i] = x.shape[
        i - 2
    ]

@cuda.jit
def unsafe(x, out):
    i = cuda.grid(1)
    out[i] = 0
    out[i] = root(x[i]) / (x[i] - 3)
"""


BOTH = """
def wrap(kernel, outs=shape, **options):
    return numba_cuda_kernel(kernel, outs, grid=2, block=4, **options)

def place(function, text):
    return f"{__file__}:{line_of(function.py_func, text)} in {function.__name__!r}"

for options in ({}, {"check": True}):
    good = wrap(roots, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kernbridge.KernbridgeWarning)
        np.testing.assert_allclose(good(x + 8), np.sqrt(np.arange(8, 16)), rtol=1e-6)
    launch = "numba_cuda_kernel 'roots': launch of roots, grid (2, 1, 1), block (4, 1, 1)"
    six = "block (1, 0, 0), thread (2, 0, 0): AssertionError: six is not allowed, raised at "
    fails(good, launch, six + place(roots, "assert"))
    negative = "thread (1, 0, 0): Negative: ('no root of a negative number', 7), raised at "
    fails(good, negative + place(root, "raise"), given=(-x,))
    zero = "thread (3, 0, 0): ZeroDivisionError: division by zero, raised at "
    fails(wrap(divided, **options), zero + place(divided, "out[i] ="), given=(x, 3 - x))
    # A statement of several lines has the number of its first.
    outside = "thread (0, 0, 0): IndexError: tuple index out of range, raised at "
    fails(wrap(shapes, **options), outside + place(shapes, "x.shape["))

# Without debug=True a thread that raises ends, as on a GPU.
found = wrap(unsafe)(3 - x)
np.testing.assert_array_equal(found[4:], 0)
assert np.isinf(wrap(unsafe)(x)[3])

batch = jnp.stack([x, x]), jnp.stack([x + 1, x])
fails(jax.vmap(wrap(divided)), "block (0, 0, 1), thread (0, 0, 0): ZeroDivisionError", given=batch)

def launches(x, out, stream):
    divided[2, 4, stream](x, x, out)

with warnings.catch_warnings():
    warnings.simplefilter("error")
    recorded = numba_cuda_callable(launches, shape, record="always")
    np.testing.assert_array_equal(recorded(x + 1), 1)
fails(recorded, "numba_cuda_callable 'launches': launch of divided", "ZeroDivisionError: division")
fails(jax.jit(lambda x: recorded(x) + 1), "ZeroDivisionError")
print("held")
"""


def test_exceptions_become_errors_of_the_call(run):
    assert "held" in run(BOTH)


def test_exported_programs_and_the_cache_on_disk_keep_the_words(run, tmp_path):
    program = """
op = numba_cuda_kernel(divided, shape, grid=2, block=4)
exported = jax.export.export(jax.jit(op))(x, x)
open("%s", "wb").write(exported.serialize())
""" % (tmp_path / "exported")
    run(program)
    loaded = """
blob = open("%s", "rb").read()
program = jax.jit(jax.export.deserialize(blob).call)
np.testing.assert_array_equal(program(x, x + 1), np.asarray(x / (x + 1)))
fails(program, "thread (0, 0, 0): ZeroDivisionError: division by zero, raised at ", given=(x, x))
fails(numba_cuda_kernel(divided, shape, grid=2, block=4), "ZeroDivisionError", given=(x, x))
""" % (tmp_path / "exported")
    run(loaded)
