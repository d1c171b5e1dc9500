"""Arrays that take other shapes inside CUDA kernels on the CPU."""

import ctypes
import itertools

import kernbridge._core as _core
import numpy as np
import pytest

pytestmark = pytest.mark.once


def shapes(n):
    """All shapes of n items, with at most one axis of a single item at each place."""
    if n == 0:
        return [(0,), (0, 3), (2, 0), (1, 0, 4)]
    found = []
    for factors in ordered_factors(n):
        found.append(factors)
        found += [(*factors[:i], 1, *factors[i:]) for i in range(len(factors) + 1)]
    return found


def ordered_factors(n):
    if n == 1:
        return [()]
    return [(d, *rest) for d in range(2, n + 1) if n % d == 0 for rest in ordered_factors(n // d)]


def views(shape):
    """Arrays of a shape that lie in memory in several ways."""
    for axes in itertools.permutations(range(len(shape))):
        for steps in itertools.product((1, 2, -1), repeat=len(shape)):
            whole = np.zeros([shape[a] * abs(steps[a]) for a in axes], np.int16)
            view = whole.transpose(np.argsort(axes))
            yield view[(*(slice(None, None, s) for s in steps), ...)]


@pytest.mark.parametrize("order", ["C", "F"])
def test_strides_are_those_of_numpy(order):
    """Where NumPy shares memory we do, with its strides; where it copies we refuse."""
    kind = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_int64, *[ctypes.c_void_p] * 2] * 2,
                            ctypes.c_int64, ctypes.c_int)  # fmt: skip
    kb_reshape = kind(_core.cuda_code_provides("kb_reshape"))
    outcomes = {True: 0, False: 0}
    for n in (0, 1, 6, 8):
        for old, new in itertools.product(shapes(n), shapes(n)):
            if len(old) > 3:
                continue
            for array in views(old):
                dims, strides = np.array(array.shape), np.array(array.strides)
                new_dims, new_strides = np.array(new, np.int64), np.zeros(len(new), np.int64)
                done = kb_reshape(
                    *(len(old), dims.ctypes.data, strides.ctypes.data),
                    *(len(new), new_dims.ctypes.data, new_strides.ctypes.data),
                    *(array.itemsize, order == "F"),
                )
                wanted = array.reshape(new, order=order)
                shared = n == 0 or np.shares_memory(array, wanted)
                assert bool(done) == shared, (array.shape, array.strides, new)
                outcomes[shared] += 1
                for length, ours, theirs in zip(new, new_strides, wanted.strides, strict=True):
                    assert not done or n == 0 or length == 1 or ours == theirs
    assert min(outcomes.values()) > 300, outcomes
    refused = np.array([3, 5])
    assert not kb_reshape(
        *(1, np.array([14]).ctypes.data, np.array([8]).ctypes.data),
        *(2, refused.ctypes.data, refused.ctypes.data, 8, 0),
    )


@pytest.mark.exhaustive
def test_reshape_in_a_kernel(run_python):
    pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
    program = """
import jax, jax.numpy as jnp, numpy as np
from kernbridge import numba_cuda_kernel
from numba import cuda

@cuda.jit
def turned(x, out):
    t = cuda.threadIdx.x
    y = x.reshape(4, 6)
    z = y.reshape((2, 2, -1))
    out[t] = y[t % 4, t // 4] * 100 + z[t % 2, t // 2 % 2, t // 4]

x = np.arange(24, dtype=np.int32)
op = numba_cuda_kernel(turned, jax.ShapeDtypeStruct((24,), jnp.int32), grid=1, block=24)
t = np.arange(24)
y, z = x.reshape(4, 6), x.reshape(2, 2, 6)
wanted = y[t % 4, t // 4] * 100 + z[t % 2, t // 2 % 2, t // 4]
np.testing.assert_array_equal(op(jnp.asarray(x)), wanted)
"""
    run_python(program, KERNBRIDGE_LIBCUDA="/nowhere/libcuda.so")
