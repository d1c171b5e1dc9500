"""GPU operations wrapped, traced and compiled again and again; the cache on disk."""

import gc
import weakref

import jax
import jax.numpy as jnp
import kernbridge
import kernbridge._core as _core
import numpy as np
import psutil
import pytest

cuda = pytest.importorskip("numba.cuda")
pytestmark = [pytest.mark.once, pytest.mark.usefixtures("gpu")]
S = jax.ShapeDtypeStruct((4,), jnp.float32)


def counts():
    return _core.registry_stats(), _core.function_stats(), kernbridge.cache.stats().cuda_functions


def make(constant):
    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] + constant

    return kernel


def both(kernel):
    def callable_(x, out, stream):
        temporary = cuda.device_array_like(x)
        kernel[1, 4, stream](x, temporary)
        kernel[1, 4, stream](temporary, out)

    single = kernbridge.numba_cuda_kernel(kernel, S, launch_dims=4)
    return single, kernbridge.numba_cuda_callable(callable_, S, record="always"), callable_


@pytest.mark.exhaustive
@pytest.mark.parametrize(("wraps", "traces"), [(100, 20), (9_500, 950)])
def test_thousands_of_wraps_and_traces_add_nothing(wraps, traces):
    kernel = make(1001)
    single, double, callable_ = both(kernel)

    def wrap(n):
        for _ in range(n):
            assert kernbridge.numba_cuda_kernel(kernel, S, launch_dims=4) is single
            again = kernbridge.numba_cuda_callable(callable_, S, record="always")
            assert again is double

    def trace(n):
        for _ in range(n):
            jax.jit(lambda x: double(single(x))).lower(S)
        jax.clear_caches()
        gc.collect()

    trace(50)
    wrap(500)
    gc.collect()
    before = counts()
    resident = psutil.Process().memory_info().rss
    wrap(wraps)
    trace(traces)
    assert counts() == before
    assert psutil.Process().memory_info().rss - resident < 32 * 2**20


@pytest.mark.exhaustive
def test_equal_kernels_made_anew_share_their_machine_code():
    before = _core.function_stats()[0]
    for _ in range(5):
        single, double, _ = both(make(1002))
        np.testing.assert_array_equal(double(single(jnp.zeros(4))), np.full(4, 3006))
    assert _core.function_stats()[0] == before + 2  # with a protected input, and without


def test_a_kernel_that_nobody_holds_goes_away():
    kernel = make(1003)
    kernbridge.numba_cuda_kernel(kernel, S, launch_dims=4).plan(S)
    alive = weakref.ref(kernel)
    del kernel
    gc.collect()
    assert alive() is None


PROGRAM = """
import sys, jax, jax.numpy as jnp, kernbridge
from numba import cuda
from kernbridge._src.forge import artefacts
compiles, store = [], artefacts.store
artefacts.store = lambda kind, *a: compiles.append(kind) or store(kind, *a)
S = jax.ShapeDtypeStruct((4,), jnp.float32)
factor = {factor}
@cuda.jit
def scaled(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] * factor
{more}
op = kernbridge.numba_cuda_kernel(scaled, S, launch_dims=4)
op.plan(S)
print(len(compiles), op.plan(S).digest().hex())
"""


@pytest.mark.exhaustive
def test_a_kernel_compiled_before_is_not_compiled_in_a_new_process(run_python, tmp_path):
    def run(factor, more=""):
        compiles, digest = run_python(
            PROGRAM.format(factor=factor, more=more),
            KERNBRIDGE_CACHE_DIR=str(tmp_path / "cache"),
            KERNBRIDGE_CUDA_ARCHS="9.0",
            KERNBRIDGE_LIBCUDA="/nowhere",
        ).split()
        return int(compiles), digest

    first = run(2.0)
    assert first[0] == 1
    assert run(2.0) == (0, first[1])
    assert run(2.0, "# a comment, and other lines\n") == (0, first[1])
    other = run(3.0)
    assert other[0] == 1
    assert other[1] != first[1]
    files = list((tmp_path / "cache").rglob("*.bin"))
    assert len(files) == 2
    for path in files:
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert run(2.0) == (1, first[1])  # damaged: made anew


def test_lowering_one_more_call_is_cheap_because_nothing_is_made_twice():
    op = kernbridge.numba_cuda_kernel(make(1004), S, launch_dims=4)
    registered = []
    register = _core.register_program
    try:
        _core.register_program = lambda *a: registered.append(1) or register(*a)

        def program(x):
            for _ in range(20):
                x = op(x)
            return x

        jax.jit(program).lower(S)
    finally:
        _core.register_program = register
    assert len(registered) == 1
