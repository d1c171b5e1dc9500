"""Guards of CUDA kernels on the CPU, of which LLVM makes masks: what they let through is exact.

Arrays lie in larger ones, which nothing may change beside them.
"""

import platform

import pytest

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")

pytestmark = pytest.mark.once

HEAD = r"""
import kernbridge, numpy as np
from numba import cuda

SIZES = (1, 3, 7, 8, 31, 100, 255, 256, 257, 999)
rng = np.random.default_rng(3)

def filled(shape, dtype):
    return rng.integers(0, 90, shape).astype(dtype)

def check(kernel, expected, shape, *dtypes, threads=256, n_outs=1):
    '''Compare what a kernel makes of random arrays, the last of which are its results.'''
    *ins, = (filled(shape, d) for d in dtypes[:-n_outs])
    around = [filled(np.prod(shape) + 70, d) for d in dtypes[-n_outs:]]
    wanted = [a.copy() for a in around]
    outs, wanted_outs = ([a[33:-37].reshape(shape) for a in all_] for all_ in (around, wanted))
    expected(*ins, *wanted_outs)
    threads = (threads,) if isinstance(threads, int) else threads
    grid = tuple(-(-n // t) + 1 for n, t in zip(shape[::-1], threads))
    with kernbridge.cuda_on_cpu():
        kernel[grid, threads](*ins, *outs)
    for got, want in zip(around, wanted):
        assert got.tobytes() == want.tobytes(), (kernel.py_func.__name__, shape, dtypes)
"""

ONE = r"""
@cuda.jit
def added(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]

def add(x, y, out):
    out[:] = x + y

@cuda.jit
def between(x, out):
    i = cuda.grid(1)
    if 0 < i < out.size - 1:
        out[i] = x[i - 1] + x[i] * x[i + 1]

def neighbours(x, out):
    if x.size > 2:
        out[1:-1] = x[:-2] + x[1:-1] * x[2:]

@cuda.jit
def early(x, y, z, out, whole):
    i = cuda.grid(1)
    if i >= x.size:
        return
    whole[i] = y[i] + z[i]
    if x[i] > 40:
        out[i] = x[i] - y[i]
    elif i % 3:
        out[i] = -y[i]

def early_in_numpy(x, y, z, out, whole):
    third = np.arange(x.size) % 3 != 0
    out[:] = np.where(x > 40, x - y, np.where(third, -y, out))
    whole[:] = y + z
"""


def test_guards_let_through_what_they_say(run):
    run(f"""{ONE}
for n in SIZES:
    check(added, add, (n,), *["f4"] * 3)
    check(between, neighbours, (n,), *["f8"] * 2, threads=100)
    check(early, early_in_numpy, (n,), "i1", "f4", "i8", "f4", "f8", n_outs=2)
""")


@pytest.mark.exhaustive
@pytest.mark.parametrize("processor", ["", "x86-64-v2", "x86-64-v3"])
def test_all_kinds_of_guards(run, processor):
    """Also for processors whose code this one can run, which have other vectors and masks."""
    if processor and platform.machine() != "x86_64":
        pytest.skip("the processors are x86-64")
    names = {"NUMBA_CPU_NAME": processor} if processor else {}
    run(
        f"""{ONE}
@cuda.jit
def square(x, y, out):
    i, j = cuda.grid(2)
    if 1 <= i < out.shape[1] and j < out.shape[0]:
        out[j, i] = x[j, i] + y[j, i - 1]

def square_in_numpy(x, y, out):
    out[:, 1:] = x[:, 1:] + y[:, :-1]

@cuda.jit
def striding(x, out):
    for i in range(cuda.grid(1), out.size, 3 * cuda.blockDim.x):
        if x[i] != 7:
            out[i] = 2 * x[i]

def striding_in_numpy(x, out):
    np.multiply(x, 2, out=out, where=x != 7)

@cuda.jit
def nested(x, out):
    i = cuda.grid(1)
    if i < out.size:
        for k in range(x.size):
            if k <= i:
                out[i] += x[k]

def nested_in_numpy(x, out):
    for i in range(x.size):
        out[i] += x[: i + 1].sum(dtype=out.dtype)

for dtype in ("i1", "u1", "i2", "i4", "u4", "i8", "f2", "f4", "f8", "c8", "c16"):
    for n in SIZES:
        check(added, add, (n,), *[dtype] * 3, threads=256 if n % 2 else 96)
        if dtype not in ("f2", "i1", "u1", "i2"):  # whose arithmetic Numba widens
            check(between, neighbours, (n,), dtype, dtype)
        check(striding, striding_in_numpy, (n,), dtype, dtype, threads=64)
for n in SIZES:
    for dtypes in ("i8 i1 f4 f4 f4", "f4 f8 i2 f8 i8", "i4 i4 i4 i4 i4", "f8 f4 u2 f4 f4"):
        check(early, early_in_numpy, (n,), *dtypes.split(), n_outs=2)
    check(nested, nested_in_numpy, (n,), "i4", "i8", threads=128)
for shape in ((1, 1), (5, 1), (3, 33), (17, 40), (40, 17), (64, 128)):
    for threads in ((16, 16), (32, 8), (5, 7)):
        check(square, square_in_numpy, shape, "i4", "i8", "i8", threads=threads)
        check(square, square_in_numpy, shape, "f4", "f4", "f4", threads=threads)
""",
        **names,
    )
