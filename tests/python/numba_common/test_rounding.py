"""A float that a kernel stores into an array of integers is warned of, when it is compiled."""

import inspect
import math
import re
import warnings

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest

pytestmark = pytest.mark.once

X = jnp.arange(4, dtype=jnp.int32)
FIELD = np.dtype([("a", np.int32)])


@numba.njit
def halve(numbers, value):
    numbers[0] = value / 2


@numba.njit
def stores(
    x, item, array, listed, sum_, chosen, by_flat, filled, items, field, shaped, called, flag
):
    item[0] = math.log1p(x[0])
    array[:] = x * 0.5 + 1
    listed[:] = [1.0, 2.0, 3.0, x[0] / 3]
    sum_[0] += 0.5
    part = chosen[1:] if x[0] > 1 else chosen[:2]
    part[0] = np.float32(x[0]) ** 0.5
    by_flat.flat[0] = math.pi
    filled.fill(1.5)
    for v in np.nditer(items):
        v[()] = x[0] / 3
    field.view(FIELD)[0].a = 1.5
    shaped.reshape((2, 2)).T[0, 1] = 1.5
    halve(numbers=called, value=x[0])
    flag[x > 1] = 0.5


@numba.njit
def rounds(x, converted, rounded, quotients, constant, counted, wide, copied, floats):
    converted[0] = np.int32(x[0] / 2)
    converted[1:] = (x * 0.5).astype(np.int32)[1:]
    rounded[:] = np.floor(x * 0.5)
    rounded[0] = round(x[0] / 2) + math.ceil(x[1] / 2)
    quotients[0] = x[0] // 2.0
    constant[:] = 0.0
    constant[0] = 1.0 if x[0] > 2 else -1.0
    counted[0] += 1.0
    wide[0] = np.int64(x[0]) + x.sum()
    numbers = copied.copy()
    numbers[0] = 1.5
    halve(floats, x[0])
    copied[:] = numbers


def warned(operation, *inputs):
    """What is warned of when a call is compiled: names of arrays and lines of this file."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        jax.jit(operation).lower(*inputs)
    found = [str(w.message) for w in caught if "[KB4018]" in str(w.message)]
    pattern = (
        r"^numba\w* '\w+': (.*):(\d+) stores float(?:32|64) into '(\w+)', which is (?:int32|bool)"
    )
    matches = [re.match(pattern, text) for text in found]
    assert all(m[1] == __file__ for m in matches)
    return [(m[3], int(m[2])) for m in matches]


def line_of(function, text):
    lines, first = inspect.getsourcelines(function.py_func)
    return next(i for i, line in enumerate(lines, first) if line.strip().startswith(text))


@pytest.mark.exhaustive
def test_every_store_is_found_and_named():
    ints, flags = jax.ShapeDtypeStruct((4,), jnp.int32), jax.ShapeDtypeStruct((4,), bool)
    op = kernbridge.numba_kernel(stores, [ints] * 11 + [flags])
    texts = {"chosen": "part[0]", "items": "v[()]", "called": "halve("}
    names = stores.py_func.__code__.co_varnames[1:13]
    lines = {name: line_of(stores, texts.get(name, name)) for name in names}
    lines["called"] = line_of(halve, "numbers[0]")
    assert warned(op, X) == list(lines.items())
    assert warned(op, X) == []


@pytest.mark.exhaustive
def test_explicit_conversions_and_whole_numbers_are_silent():
    ints, floats = jax.ShapeDtypeStruct((4,), jnp.int32), jax.ShapeDtypeStruct((4,), jnp.float32)
    assert warned(kernbridge.numba_kernel(rounds, [ints] * 7 + [floats]), X) == []


def test_a_parallel_loop():
    @numba.njit(parallel=True)
    def kernel(x, out):
        for i in numba.prange(4):
            halve(out[i:], x[i])

    out = jax.ShapeDtypeStruct((4,), jnp.int32)
    assert warned(kernbridge.numba_kernel(kernel, out), X) == [("out", line_of(halve, "numbers"))]


@pytest.mark.exhaustive
def test_a_cuda_kernel():
    cuda = pytest.importorskip("numba_cuda") and pytest.importorskip("numba.cuda")
    helper = cuda.jit(device=True)(halve.py_func)

    @cuda.jit
    def kernel(x, called, added, whole):
        helper(called, x[0])
        cuda.atomic.add(added, 0, x[0] * 0.5)
        cuda.atomic.add(whole, 0, 1.0)

    op = kernbridge.numba_cuda_kernel(kernel, [X, X, X], grid=1, block=1)
    lines = [("called", line_of(halve, "numbers[0]")), ("added", line_of(kernel, "cuda.atomic"))]
    assert warned(op, X) == warned(jax.vmap(op), X[None]) + lines == lines


@pytest.mark.exhaustive
def test_code_from_the_disk_is_warned_of_too(run_python, tmp_path):
    (tmp_path / "kernels.py").write_text(
        "import numba\n@numba.njit\ndef kernel(x, out):\n    out[:] = x * 0.5\n"
    )
    program = """
import sys; sys.path.insert(0, ".")
import logging, warnings, jax, jax.numpy as jnp, kernbridge
from kernels import kernel
logged = []
logging.getLogger("kernbridge").setLevel("INFO")
logging.getLogger("kernbridge").addFilter(lambda record: logged.append(record.getMessage()))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    jax.jit(kernbridge.numba_kernel(kernel, lambda x: x)).lower(jnp.arange(3))
print(*("kernels.py:4 stores float64" in str(w.message) for w in caught))
print(any(message.startswith("compiled") for message in logged))
"""
    folder = str(tmp_path / "cache")
    assert run_python(program, KERNBRIDGE_CACHE_DIR=folder) == "True\nTrue\n"
    assert run_python(program, KERNBRIDGE_CACHE_DIR=folder) == "True\nFalse\n"
