"""Recursive device functions on the CPU.

The ordinary run has tests/gpu/test_cuda_constructs.py on the CPU.

Each test is a program of its own, since this process has a fake driver that takes GPU calls.
"""

import pytest

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")

pytestmark = [pytest.mark.once, pytest.mark.exhaustive]

HEAD = """
import jax, jax.numpy as jnp, numpy as np
import kernbridge
from kernbridge import numba_cuda_kernel
from numba import cuda, float32, int32
S = jax.ShapeDtypeStruct
"""
PROGRAM = """
@cuda.jit(device=True)
def fibonacci(n):
    if n < 2:
        return n
    return fibonacci(int32(n - 1)) + fibonacci(int32(n - 2))

@cuda.jit(device=True)
def depth(tree, node):
    # Of a binary tree: reads the thread's place, an array, and variables of its own.
    if node < 0:
        return cuda.threadIdx.x
    deepest = cuda.local.array(2, int32)
    for side in range(2):
        deepest[side] = depth(tree, tree[node, side])
    return 1 + max(deepest[0], deepest[1])

@cuda.jit(device=True)
def sum_to(n):
    return n + sum_to(int32(n - 1)) if n > 0 else float32(0)

@cuda.jit
def fibonaccis(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = fibonacci(x[i])

@cuda.jit
def depths(tree, out):
    sums = cuda.shared.array(32, int32)
    i = cuda.threadIdx.x
    sums[i] = depth(tree, int32(0))
    cuda.syncthreads()
    out[i] = sums[cuda.blockDim.x - 1 - i]

@cuda.jit
def sums(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = sum_to(x[i])

def wrap(kernel, n, **options):
    return numba_cuda_kernel(kernel, S((n,), jnp.int32), grid=1, block=n, **options)

tree = np.full((7, 2), -1, np.int32)
tree[0], tree[1], tree[3], tree[5] = (1, 2), (3, 4), (5, -1), (-1, 6)
x = jnp.arange(20, dtype=jnp.int32)
expected = [0, 1]
while len(expected) < 20:
    expected.append(sum(expected[-2:]))
batch = jnp.stack([x, x[::-1]])
for options in ({}, {"check": True}):
    op = wrap(fibonaccis, 20, **options)
    np.testing.assert_array_equal(op(x), expected)
    np.testing.assert_array_equal(jax.vmap(op)(batch)[1], expected[::-1])
np.testing.assert_array_equal(wrap(depths, 8)(tree), 5 + np.arange(8)[::-1])
try:
    wrap(depths, 8, check=True)(tree)
except kernbridge.KernelCompilationError as e:
    assert "uses a local array in a recursive device function in checked mode" in str(e), e
else:
    raise SystemExit("not refused")
many = numba_cuda_kernel(fibonaccis, S((5000,), jnp.int32), launch_dims=5000)
np.testing.assert_array_equal(many(jnp.arange(5000, dtype=jnp.int32) % 12),
                              np.array(expected)[np.arange(5000) % 12])

op = wrap(sums, 3)
np.testing.assert_array_equal(op(jnp.int32([0, 10, 1000])), [0, 55, 500500])
for kernel in (op, wrap(sums, 3, check=True)):
    try:
        kernel(jnp.int32([3, 1 << 30, 5]))
    except (jax.errors.JaxRuntimeError, ValueError) as e:
        assert "launch of sums" in str(e) and "block (0, 0, 0), thread (1, 0, 0): " in str(e), e
        assert "a device function calls itself too often: the stack of a thread has" in str(e), e
    else:
        raise SystemExit("a recursion without end ended")
np.testing.assert_array_equal(op(jnp.int32([2, 3, 4])), [3, 6, 10])
print("held")
"""


def test_device_functions_may_call_themselves(run_python):
    assert "held" in run_python(HEAD + PROGRAM, KERNBRIDGE_LIBCUDA="/nowhere/libcuda.so")


def test_functions_that_call_each_other_are_refused_as_such(run):
    run("""
@cuda.jit(device=True)
def even(n):
    return True if n == 0 else odd(n - 1)

@cuda.jit(device=True)
def odd(n):
    return False if n == 0 else even(n - 1)

@cuda.jit
def parity(x, out):
    out[0] = even(x[0])

op = numba_cuda_kernel(parity, S((1,), jnp.int32), launch_dims=1)
x = np.ones(1, np.int32)
for call in (lambda: op(x), kernbridge.cuda_on_cpu()(lambda: parity[1, 1](x, x))):
    try:
        call()
    except kernbridge.errors.KernelCompilationError as e:
        assert "The device functions 'odd' and 'even' call each other.\\n" in str(e), e
        assert "make one function of those that call each other" in str(e), e
        assert "[KB4001]" in str(e), e
    else:
        raise SystemExit("it is compiled")
""")


def test_an_operation_calls_a_device_function_with_a_declared_signature(run):
    run("""
with kernbridge.cuda_on_cpu():
    @cuda.jit("float32(float32, float32)", device=True)
    def mean(a, b):
        return (a + b) / 2

@cuda.jit
def means(x, n, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = mean(x[i], n[0])  # an integer, which the signature converts

x, n = np.arange(5, dtype=np.float32), np.array([3], np.int32)
for options in ({}, {"check": True}):
    op = numba_cuda_kernel(means, S((5,), jnp.float32), launch_dims=5, **options)
    np.testing.assert_array_equal(op(x, n), (x + 3) / 2)
out = np.zeros(5, np.float32)
kernbridge.cuda_on_cpu()(lambda: means[1, 8](x, n, out))()
np.testing.assert_array_equal(out, (x + 3) / 2)
""")
