"""Kernels on a CPU compute with subnormal numbers, on whichever thread they run. XLA's own threads
take such numbers for 0."""

import os
import sys

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest
from kernbridge import numba_kernel

pytestmark = pytest.mark.once

F32 = jnp.float32
N = 65536
SMALL = np.float32(1.1754944e-38)  # the smallest normal number; its half is subnormal
HALF = np.full(N, SMALL) * np.float32(0.5)

SOURCE = r"""
#include <kernbridge/kernbridge.hpp>

// @BE halve arg ret
void halve(const kernbridge::Tensor x, kernbridge::Tensor y) {
    for (int64_t i = 0; i < x.numel(); i++)
        y.data_ptr<float>()[i] = x.data_ptr<float>()[i] * 0.5f;
}

// @BE halve_shared arg ret
void halve_shared(const kernbridge::Tensor x, kernbridge::Tensor y) {
    kernbridge::parallel_for(x.numel(), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i++)
            y.data_ptr<float>()[i] = x.data_ptr<float>()[i] * 0.5f;
    });
}
"""


@numba.njit
def halve(x, out):
    for i in range(out.size):
        out[i] = x[i] * np.float32(0.5)


@numba.njit
def double(x, out):  # reads subnormal numbers
    for i in range(out.size):
        out[i] = x[i] * np.float32(2)


@numba.njit
def halve_one(x, out):
    out[()] = x[()] * np.float32(0.5)


@pytest.fixture(scope="module")
def module():
    return kernbridge.load_cpp_inline("test_subnormal", SOURCE)


def check(values):
    assert int((np.asarray(values) != HALF).sum()) == 0


def test_a_numba_kernel():
    x = jnp.full(N, SMALL)
    like = jax.ShapeDtypeStruct((N,), F32)
    check(numba_kernel(halve, like)(x))
    check(jax.jit(lambda x: numba_kernel(halve, like)(x + 0))(x))
    np.testing.assert_array_equal(numba_kernel(double, like)(jnp.asarray(HALF)), x)


def test_the_slices_of_a_batch():
    one = numba_kernel(halve_one, jax.ShapeDtypeStruct((), F32))
    check(jax.jit(jax.vmap(one))(jnp.full(N, SMALL)))


@pytest.mark.parametrize("name", ["halve", "halve_shared"])
def test_a_function_of_a_module(module, name):
    x = jnp.full(N, SMALL)
    like, row = jax.ShapeDtypeStruct((N,), F32), jax.ShapeDtypeStruct((N // 64,), F32)
    function = getattr(module, name)
    check(function(x, outs=like))
    rows = jax.jit(jax.vmap(lambda x: function(x, outs=row)))(jnp.full((64, N // 64), SMALL))
    check(rows.reshape(N))
    check(jax.jit(lambda x: jax.ffi.ffi_call(f"test_subnormal.{name}", like)(x + 0))(x))


def test_xla_flushes_still():
    """What XLA computes around a kernel is computed as before."""
    x = jnp.full(N, SMALL)
    like = jax.ShapeDtypeStruct((N,), F32)

    @jax.jit
    def around(x):
        y = numba_kernel(halve, like)(x)
        return y, jnp.sort(y * 1.5) + x * 0.5

    @jax.jit
    def alone(x, y):
        return jnp.sort(y * 1.5) + x * 0.5

    y, with_kernel = around(x)
    np.testing.assert_array_equal(with_kernel, alone(x, y))


PARALLEL = """
import jax, jax.numpy as jnp, numba, numpy as np, sys
numba.config.THREADING_LAYER = sys.argv[1]
from kernbridge import numba_kernel

@numba.njit(parallel=True)
def halve(x, out):
    for i in numba.prange(out.size):
        out[i] = x[i] * np.float32(0.5)

op = numba_kernel(halve, jax.ShapeDtypeStruct((65536,), jnp.float32))
many = jax.jit(lambda x: [op(x * (i + 1)) for i in range(8)])
x = jnp.full(65536, np.float32(1.1754944e-38))
zeros = sum(int((y == 0).sum()) for y in map(np.asarray, (op(x), *many(x))))
print(numba.threading_layer(), zeros)
"""
LAYERS = {"omp": "omppool", "tbb": "tbbpool", "workqueue": "workqueue"}
LIBRARIES = {"LD_LIBRARY_PATH": f"{sys.prefix}/lib:{os.environ.get('LD_LIBRARY_PATH', '')}"}


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "layer",
    [x if x == "workqueue" else pytest.param(x, marks=pytest.mark.exhaustive) for x in LAYERS],
)
def test_the_threads_of_numba(layer, run_python):
    problem = run_python(f"from numba.np.ufunc import {LAYERS[layer]}", check=False, **LIBRARIES)
    if problem:
        pytest.skip(f"Numba cannot load {layer} here: {problem.splitlines()[-1]}")
    program = PARALLEL.replace("sys.argv[1]", repr(layer))
    got = run_python(program, NUMBA_NUM_THREADS="2", **LIBRARIES)
    assert got.split()[-2:] == [layer, "0"]
