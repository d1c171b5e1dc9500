"""What nothing refers to is released, and `kernbridge.cache.stats` counts what is there."""

import dataclasses
import gc
import inspect
import os
import re
import warnings

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest

pytestmark = pytest.mark.once

cuda = pytest.importorskip("numba.cuda")

S = jax.ShapeDtypeStruct
OUT = S((4,), jnp.float32)


@pytest.fixture(scope="module", autouse=True)
def _little_garbage():
    """Search for garbage only among what these tests make: they search many times."""
    gc.collect()
    gc.freeze()


def make(constant):
    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] + constant

    return kernel


def counts():
    gc.collect()
    jax.clear_caches()
    gc.collect()
    return kernbridge.cache.stats()


@pytest.mark.exhaustive
@pytest.mark.usefixtures("gpu")
def test_machine_code_goes_with_the_kernels_that_it_was_made_for():
    before = counts()
    kernels = [make(n) for n in range(2000, 2003)]
    ops = [kernbridge.numba_cuda_kernel(k, OUT, launch_dims=4) for k in (*kernels, make(2000))]
    for op in ops:
        op(jnp.ones(4))
    held = counts()
    assert held.cuda_functions == before.cuda_functions + 3
    assert held.cuda_function_bytes > before.cuda_function_bytes
    del op, ops[3], kernels[0], ops[0]
    assert counts().cuda_functions == before.cuda_functions + 2
    del ops, kernels
    after = counts()
    assert after.cuda_functions == before.cuda_functions
    assert after.cuda_function_bytes == before.cuda_function_bytes


@pytest.mark.exhaustive
@pytest.mark.usefixtures("gpu")
def test_python_functions_live_as_long_as_what_calls_them():
    kept, kernel, before = 64, make(3000), counts().callbacks

    def lowered():
        def reads(x, out, stream):
            x.copy_to_host()
            kernel[1, 4, stream](x, out)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return jax.jit(kernbridge.numba_cuda_callable(reads, OUT)).lower(OUT).compile()

    programs = [lowered() for _ in range(before + kept + 4)]
    assert counts().callbacks >= before + kept + 4  # compiled programs alone hold them
    del programs
    assert counts().callbacks <= before + kept  # those that were used last


def test_descriptions_are_small():
    """They last: those of functions that run as Python, one for each of them, do too."""

    def bytes_of_one(n):
        kernel = make(5000 + n)

        def function(x, out, stream):
            kernel[1, 4, stream](x, out)

        op = kernbridge.numba_cuda_callable(function, OUT, record="never")
        before = counts().kernel_bytes
        jax.jit(op).lower(OUT)
        return counts().kernel_bytes - before

    assert 0 < min(map(bytes_of_one, range(3))) < 1600  # now and then the table of them grows


@pytest.mark.exhaustive
def test_counts_are_documented_and_grow():
    @numba.njit
    def kernel(x, out):
        out[:] = x + 4001

    before = counts()
    np.testing.assert_array_equal(
        kernbridge.numba_kernel(kernel, OUT)(jnp.zeros(4)), np.full(4, 4001)
    )
    after = counts()
    assert after.cpu_kernels == before.cpu_kernels + 1
    assert after.kernels == before.kernels + 1
    documented = inspect.getdoc(kernbridge.cache.CacheStats)
    for field in dataclasses.fields(after):
        assert re.search(rf"^(\w+, )*{field.name}(, \w+)* : int$", documented, re.M), field.name
    assert kernbridge.cache.get_cache_dir is kernbridge.get_cache_dir
    assert kernbridge.cache.clear_cache is kernbridge.clear_cache


@pytest.mark.exhaustive
@pytest.mark.usefixtures("gpu")
def test_operations_of_the_same_content_hold_one_function():
    before = counts()
    for _ in range(100):
        jax.jit(kernbridge.numba_cuda_kernel(make(5000), OUT, launch_dims=4)).lower(OUT)
    after = counts()
    assert after.cuda_functions == before.cuda_functions
    assert after.cuda_function_bytes == before.cuda_function_bytes
    assert after.kernels == before.kernels + 1  # what was lowered may be compiled at any time
    assert after.gpu_functions == before.gpu_functions + 1
    assert after.gpu_images == before.gpu_images + 1
    assert 0 < after.gpu_bytes - before.gpu_bytes < 100_000
    assert after.gpu_loads == before.gpu_loads  # nothing was compiled by XLA


@pytest.mark.usefixtures("gpu")
def test_operations_with_the_same_machine_code_hold_one_image():
    before = counts()
    kernel = make(6000)
    for n in range(1, 21):
        jax.jit(kernbridge.numba_cuda_kernel(kernel, OUT, launch_dims=n)).lower(OUT)
    after = counts()
    assert after.kernels == before.kernels + 20
    assert after.gpu_images == before.gpu_images + 1


@pytest.mark.usefixtures("gpu")
def test_stacks_of_cuda_threads_on_the_cpu_are_bounded():
    @cuda.jit
    def reverse(x, out):
        shared = cuda.shared.array(64, np.float32)
        i = cuda.threadIdx.x
        shared[i] = x[i]
        cuda.syncthreads()
        out[i] = shared[63 - i]

    op = kernbridge.numba_cuda_kernel(reverse, S((64,), jnp.float32), grid=1, block=64)
    x = jnp.arange(64, dtype=jnp.float32)
    np.testing.assert_array_equal(op(x), x[::-1])
    kept = kernbridge.cache.stats().cuda_on_cpu_threads
    assert 64 <= kept <= 1024 * os.cpu_count()
