"""What Numba-CUDA compiles for the CPU goes with its kernel, and what lasts is made once.

The test is a program of its own, since this process has a fake driver that takes GPU calls.
"""

import pytest

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")

pytestmark = [pytest.mark.once, pytest.mark.exhaustive]

HEAD = """
import gc, warnings
import jax, jax.numpy as jnp
import kernbridge
from kernbridge import cache
from numba import cuda
from numba.cuda.codegen import CUDACodeLibrary
warnings.simplefilter("ignore")

def call_new_kernel(c, check):
    @cuda.jit(device=True)
    def callee(value):
        return value + c

    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = callee(x[i])

    op = kernbridge.numba_cuda_kernel(
        kernel,
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype),
        launch_dims=lambda x: x.size,
        check=check,
    )
    assert op(jnp.zeros(3))[2] == c
    del op, kernel, callee
    jax.clear_caches()
    gc.collect()
"""


@pytest.fixture
def run(run_python, tmp_path):
    def run(program):
        options = {"KERNBRIDGE_LIBCUDA": "/nowhere/libcuda.so"}
        return run_python(HEAD + program, KERNBRIDGE_CACHE_DIR=str(tmp_path), **options)

    return run


def test_what_lasts_does_not_grow_when_kernels_are_compiled_again(run):
    run(
        """
for check in (False, True):
    libraries, made = [], []
    for c in (1, 2, 3, 1, 2):
        call_new_kernel(c, check)
        libraries.append(sum(type(o) is CUDACodeLibrary for o in gc.get_objects()))
        made.append(cache.stats().cuda_on_cpu - 3 * check)
        assert cache.stats().disk_entries  # which other processes find
    assert libraries == libraries[:1] * 5, libraries
    assert made == [1, 2, 3, 3, 3], made
"""
    )
