"""What the GPU driver refuses, faults while kernels run, and the modes of KERNBRIDGE_DEBUG."""

import os

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest

pytestmark = pytest.mark.once

cuda = pytest.importorskip("numba.cuda")
S = jax.ShapeDtypeStruct
F32 = jnp.float32
Error = (jax.errors.JaxRuntimeError, ValueError)  # which of them depends on how JAX dispatches


def make():
    """A kernel of its own for each test: nothing of it is loaded yet."""
    serial = len(_made)
    _made.append(serial)

    @cuda.jit
    def plus(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] + serial

    return kernbridge.numba_cuda_kernel(plus, lambda x: S(x.shape, x.dtype), launch_dims=8)


_made: list[int] = []


@pytest.mark.parametrize(
    "function",
    ["cuLibraryLoadData", "cuLibraryGetKernel", "cuKernelGetFunction",
     "cuOccupancyMaxPotentialBlockSize"],
)  # fmt: skip
def test_a_kernel_that_does_not_load_is_an_error_that_passes(gpu, function):
    op = make()
    gpu.fail(function, 1, 2)
    with pytest.raises(Error, match=rf"'plus': {function} failed: CUDA_ERROR_OUT_OF_MEMORY \("):
        op(jnp.ones(8))
    np.testing.assert_array_equal(op(jnp.zeros(8)), np.full(8, _made[-1]))


def test_a_refused_launch_names_kernel_grid_block_and_the_drivers_words(gpu):
    op = make()
    op(jnp.ones(8))
    gpu.fail("cuLaunchKernelEx", 1, 1)
    with pytest.raises(
        Error,
        match=r"'plus': launch of .*plus.*, grid \(1, 1, 1\), block \(8, 1, 1\), 0 bytes .*: "
        r"cuLaunchKernelEx failed: CUDA_ERROR_INVALID_VALUE \(.*\[KB3004\]",
    ):
        op(jnp.ones(8))
    op(jnp.ones(8))


def test_a_fault_is_told_by_the_next_launch(gpu):
    op = make()
    gpu.fault(700)
    op(jnp.ones(8))  # succeeds: it was launched
    with pytest.raises(
        Error,
        match=r"CUDA_ERROR_ILLEGAL_ADDRESS.*possibly an earlier one.*context is lost.*"
        r"KERNBRIDGE_DEBUG=sync.*\[KB3004\]",
    ):
        op(jnp.ones(8))


def test_a_failure_in_a_batch_names_the_slice(gpu):
    @cuda.jit
    def reads_z(x, out):
        out[0] = x[0] + cuda.blockIdx.z

    op = kernbridge.numba_cuda_kernel(reads_z, S((1,), F32), launch_dims=1)
    jax.vmap(op)(jnp.ones((5, 1)))
    gpu.fail("cuLaunchKernelEx", 4, 701)
    with pytest.raises(
        Error, match=r"LAUNCH_OUT_OF_RESOURCES.*\[slice 3 of a batch of 5\].*\[KB3004\]"
    ):
        jax.vmap(op)(jnp.ones((5, 1)))


PROGRAM = """
import jax, jax.numpy as jnp, kernbridge, fake_gpu
from numba import cuda
driver = fake_gpu.FakeDriver()

@cuda.jit
def half(x, out):
    i = cuda.grid(1)
    if i < out.size // 2:
        out[i] = x[i]

@cuda.jit
def increment(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + 1

S = jax.ShapeDtypeStruct
def wrap(kernel, **options):
    return kernbridge.numba_cuda_kernel(kernel, S((8,), jnp.float32), launch_dims=8, **options)
def attempt(f, *args):
    try:
        print(f(*args))
    except Exception as e:
        print(type(e).__name__, str(e).splitlines()[0])
x = jnp.arange(8.0)
"""


@pytest.fixture
def run_debugged(gpu, run_python):
    def run(source: str, debug: str) -> str:
        return run_python(
            PROGRAM + source,
            KERNBRIDGE_LIBCUDA=os.environ["KERNBRIDGE_LIBCUDA"],
            KERNBRIDGE_TEST_CUDA="1",
            KERNBRIDGE_DEBUG=debug,
        )

    return run


@pytest.mark.exhaustive
def test_sync_names_the_guilty_launch(run_debugged):
    printed = run_debugged(
        "wrap(increment)(x)\ndriver.fault(716)\nattempt(wrap(increment), x)\n", "sync"
    )
    assert "launch of" in printed
    assert "cuStreamSynchronize failed: CUDA_ERROR_MISALIGNED_ADDRESS" in printed
    assert "earlier" not in printed


@pytest.mark.exhaustive
def test_sync_names_the_launch_whose_threads_cannot_go_on(run_debugged):
    printed = run_debugged(
        """
@cuda.jit
def stuck(x, out):
    if cuda.threadIdx.x < 16:
        cuda.syncwarp(0xFFFFFFFF)
    else:
        out[0] = cuda.shfl_sync(0xFFFFFFFF, x[0], 0)

jax.block_until_ready(wrap(increment)(x))
op = kernbridge.numba_cuda_kernel(stuck, S((8,), jnp.float32), grid=1, block=32)
attempt(op, x)
attempt(wrap(increment), x)
print(driver.fault_text)
""",
        "sync",
    ).splitlines()
    assert "numba_cuda_kernel 'stuck': launch of " in printed[0]
    assert "cuStreamSynchronize failed: CUDA_ERROR_LAUNCH_FAILED" in printed[0]
    assert "'increment': " in printed[1]
    assert "CUDA_ERROR_LAUNCH_FAILED" in printed[1]
    assert "neither can continue" in printed[2]


@pytest.mark.exhaustive
def test_poison_finds_what_nobody_writes(run_debugged):
    printed = run_debugged(
        """
attempt(wrap(half), x)
attempt(wrap(increment), x)
attempt(wrap(increment, input_output_aliases={0: 0}), x)
attempt(wrap(half, zero_outputs=True), x)
attempt(jax.vmap(wrap(half)), jnp.ones((3, 8)))
""",
        "poison",
    ).splitlines()
    assert (
        "no thread wrote 4 of the 8 elements of output 0 (out), the first of them element 4"
        in (printed[0])
    )
    assert printed[1:3] == [str(np.arange(1.0, 9.0, dtype=np.float32))] * 2
    assert printed[3] == str(np.array([0, 1, 2, 3, 0, 0, 0, 0], np.float32))
    assert "12 of the 24 elements" in printed[4]


@pytest.mark.exhaustive
def test_debugged_calls_stay_out_of_graphs(run_debugged):
    source = "print(jax.jit(wrap(increment)).lower(x).as_text())"
    assert "kernbridge.cuda.graph" not in run_debugged(source, "sync")
    assert "kernbridge.cuda.graph" in run_debugged(source, "")


def test_an_unknown_mode_is_refused(run_python):
    printed = run_python("import kernbridge", check=False, KERNBRIDGE_DEBUG="sinc")
    assert "KERNBRIDGE_DEBUG names 'sinc', expected some of sync, poison" in printed
