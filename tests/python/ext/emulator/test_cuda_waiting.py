"""CUDA kernels on the CPU in which threads wait for others in a loop, and Ctrl-C.

Each test is a program of its own, see test_cuda_on_cpu.
"""

import pytest

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
pytestmark = pytest.mark.once

HEAD = """
import os, signal, threading, time, warnings
import jax, jax.numpy as jnp, numba, numpy as np
import kernbridge
from kernbridge import numba_cuda_kernel
from numba import cuda
S = jax.ShapeDtypeStruct
warnings.simplefilter("ignore")
FULL = 0xFFFFFFFF

@cuda.jit(device=True)
def read(flags, i):
    return cuda.atomic.add(flags, i, 0)
"""


WAITING = """
@cuda.jit
def warp_of_another(x, flags, out):
    t = cuda.threadIdx.x
    if t < 32:
        while read(flags, t) == 0:
            pass
        cuda.threadfence()
        out[t] = x[t] + 1
    else:
        x[t - 32] = t
        cuda.threadfence()
        cuda.atomic.exch(flags, t - 32, 1)

@cuda.jit
def ring(x, flags, out):  # a queue of one place
    t = cuda.threadIdx.x
    kept = cuda.shared.array(1, numba.int32)
    for k in range(20):
        if t == 0:
            while not (cuda.atomic.max(flags, 0, 0) == 2 * k):
                pass
            cuda.threadfence()
            kept[0] = k * k
            cuda.threadfence()
            cuda.atomic.add(flags, 0, 1)
        elif t == 40:
            while cuda.atomic.cas(flags, 0, -1, -1) != 2 * k + 1:
                pass
            cuda.threadfence()
            out[k] = kept[0]
            cuda.threadfence()
            cuda.atomic.add(flags, 0, 1)

@cuda.jit
def own_warp(x, flags, out):
    t = cuda.threadIdx.x
    done = False
    while not done:
        if cuda.atomic.cas(flags, 0, t, t + 1) == t:
            out[t] = t
            done = True

@cuda.jit
def fenced_read(x, flags, out):
    t = cuda.threadIdx.x
    if t == 0:
        while flags[0] == 0:
            cuda.threadfence()
        out[0] = 7
    elif t == 5:
        flags[0] = 1

@cuda.jit
def uncached_read(x, flags, out):
    t = cuda.threadIdx.x
    if t == 0:
        while cuda.ldcv(flags, 0) == 0:
            pass
        out[0] = 7
    elif t == 5:
        cuda.atomic.add(flags, 0, 1)

@cuda.jit
def beside_a_mask(x, flags, out):
    t = cuda.threadIdx.x
    if t == 1:
        while read(flags, 0) == 0:
            pass
        out[1] = 1
    elif t == 0:
        out[0] = cuda.activemask() & 1
        cuda.atomic.add(flags, 0, 1)

@cuda.jit
def beside_a_barrier(x, flags, out):
    t = cuda.threadIdx.x
    if t == 3:
        while read(flags, 0) < 63:
            pass
    else:
        cuda.atomic.add(flags, 0, 1)
    cuda.syncthreads()
    out[t] = read(flags, 0)

EXPECTED = {
    warp_of_another: np.arange(33, 65),
    ring: np.arange(20) ** 2,
    own_warp: np.arange(64),
    fenced_read: [7],
    uncached_read: [7],
    beside_a_mask: [1, 1],
    beside_a_barrier: [63] * 64,
}
UNFENCED = fenced_read, uncached_read  # data races
for check in (False, True):
    for kernel, expected in EXPECTED.items():
        if check and kernel in UNFENCED:
            continue
        x, flags, out = np.zeros((3, 64), np.int32)
        with kernbridge.cuda_on_cpu(check=check):
            kernel[1, 64](x, flags, out)
        np.testing.assert_array_equal(out[: len(expected)], expected, kernel.py_func.__name__)
"""


@pytest.mark.exhaustive
def test_threads_that_wait_for_others(run):
    run(WAITING)


NEVER = """
@cuda.jit
def polls(x, flags, out):
    if cuda.threadIdx.x == 0:
        while cuda.atomic.add(flags, 0, 0) == x[0]:
            pass

@cuda.jit
def barriers(x, flags, out):
    while flags[cuda.threadIdx.x] == x[0]:
        cuda.syncthreads()

x = np.zeros(64, np.int32)
"""


@pytest.mark.exhaustive
def test_a_wait_without_an_end_is_named_in_the_checked_mode(run):
    run(
        NEVER
        + """
try:
    with kernbridge.cuda_on_cpu(check=True):
        polls[1, 64](x, x.copy(), x.copy())
except kernbridge.errors.KernelFaultError as e:
    assert "thread (0, 0, 0): waits (at program.py:" in str(e), e
    assert ": while cuda.atomic.add(flags, 0, 0) == x[0]:" in str(e), e
else:
    raise AssertionError
"""
    )


@pytest.mark.exhaustive
def test_a_signal_ends_a_launch_that_waits(run):
    """Ctrl-C while threads poll or come to barriers, in a launch of Numba's and in an operation."""
    run(
        NEVER
        + """
signal.signal(signal.SIGINT, signal.default_int_handler)

def launched(kernel, x):
    with kernbridge.cuda_on_cpu():
        kernel[1, 64](x, np.zeros(64, np.int32), np.zeros(64, np.int32))

def called(kernel, x):
    outs = [S((64,), jnp.int32)] * 2
    op = numba_cuda_kernel(kernel, outs, grid=1, block=64, zero_outputs=True)
    jax.block_until_ready(op(x))

for kernel in (polls, barriers):
    for call in (launched, called):
        call(kernel, x + 1)  # which compiles it
        timer = threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        try:
            try:
                call(kernel, x)
            except jax.errors.JaxRuntimeError as e:
                assert "the launch was interrupted by SIGINT" in str(e), e
                time.sleep(9)
            raise AssertionError("there was no interrupt")
        except KeyboardInterrupt:
            pass
        timer.join()
"""
    )
