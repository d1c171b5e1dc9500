"""Mistakes that Numba-CUDA reports without a line of the user: ours name it, and a remedy."""

import inspect

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest

cuda = pytest.importorskip("numba.cuda")

pytestmark = pytest.mark.once
B = 16
OUT = jax.ShapeDtypeStruct((8,), jnp.float32)


def shared_of_a_sum(x, out):
    tile = cuda.shared.array((B + 2, B + 2), numba.float32)  # here
    out[0] = tile[0, 0]


def local_of_a_variable(x, out):
    n = x.size
    tile = cuda.local.array(n, numba.float32)  # here
    out[0] = tile[0]


def shared_of_no_dtype(x, out):
    tile = cuda.shared.array(B, float)  # here
    out[0] = tile[0]


def norm(x, out):
    out[0] = 1
    out[1] = np.linalg.norm(x)  # here


@numba.njit
def joined(x):
    return np.concatenate((x, x))  # here


def callee(x, out):
    out[0] = joined(x)[0]


def text(x, out):
    out[0] = len("a" + str(x[0]))  # here


def dictionary(x, out):
    known = {}
    known[0] = x[0]  # here


def caught(x, out):
    try:
        out[0] = 1 / x[0]
    except ZeroDivisionError:  # here
        out[0] = 0


def too_few(x, out):
    cuda.atomic.add(out, x[0])  # here


def too_many(x, out):
    i = cuda.grid(1)
    cuda.syncthreads(i, i)  # here


def formatted(x, out):
    print(f"{x[0]:.3f}")  # here


def opened(x, out):  # here
    with open("file") as out[0]:
        pass


def indices(x, out):
    out[0] = x[0, 0]  # here


CONSTANT = "compute T = B \\+ 2 outside of the kernel"
MISTAKES = {
    shared_of_a_sum: f"shared array must be a constant.*{CONSTANT}.*shared_mem=",
    local_of_a_variable: f"local array must be a constant.*{CONSTANT}",
    shared_of_no_dtype: "The dtype must be a type of Numba or NumPy",
    norm: "calls a function that creates an array.*write a loop",
    callee: "calls a function that creates an array.*write a loop",
    text: "cannot create strings, lists, dicts or arrays",
    dictionary: "cannot create strings, lists, dicts or arrays",
    caught: "test for the condition with `if`",
    too_few: "ValueError: not enough values.*Compare the line with",
    too_many: "TypeError: .*3 were given.*Compare the line with",
    formatted: "format spec in f-strings not supported yet\\.\n",
    opened: "construct is not supported\\.\n",
    indices: "cannot index array.* with 2 indices",
}


@pytest.mark.brief
@pytest.mark.parametrize("function", MISTAKES, ids=lambda function: function.__name__)
def test_the_line_and_a_remedy(function):
    op = kernbridge.numba_cuda_kernel(cuda.jit(function), OUT, launch_dims=8)
    wrong = joined.py_func if function is callee else function
    lines, first = inspect.getsourcelines(wrong)
    (line,) = (first + i for i, line in enumerate(lines) if line.endswith("# here\n"))
    with pytest.raises(kernbridge.KernelCompilationError, match=f"(?s){MISTAKES[function]}") as e:
        jax.jit(op).lower(OUT)
    assert f'  File "{__file__}", line {line}\n' in str(e.value)


DRAWN = """
import jax, kernbridge, numpy as np
from numba import cuda
@cuda.jit
def drawn(x, out):
    out[0] = np.random.rand()
out = jax.ShapeDtypeStruct((2,), np.float32)
jax.jit(kernbridge.numba_cuda_kernel(drawn, out, launch_dims=8)).lower(out)
"""


@pytest.mark.exhaustive
def test_random_numbers_of_numpy(run_python):
    """In a process of its own: after Numba has compiled for the CPU, it recurses to the limit."""
    printed = run_python(DRAWN, check=False)
    assert "use numba.cuda.random" in printed
    assert "out[0] = np.random.rand()" in printed
