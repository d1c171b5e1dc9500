"""Launches of Numba-CUDA on the CPU that fail: faults, refusals, and what the driver would say."""

import re

import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
from numba import cuda
from numba.core.errors import TypingError
from numba.cuda.cudadrv import driver
from numba.cuda.cudadrv.driver import CudaAPIError

pytestmark = [
    pytest.mark.once,
    pytest.mark.filterwarnings("ignore::numba.cuda.core.errors.NumbaPerformanceWarning"),
]
N = 100


@cuda.jit
def add_one(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + 1


@cuda.jit
def shifted(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i + 1] = x[i]


@pytest.fixture
def on_cpu():
    with kernbridge.cuda_on_cpu():
        yield


@pytest.fixture
def x():
    return np.arange(N, dtype=np.float32)


def test_a_write_out_of_bounds_is_an_error_that_names_the_kernel_and_the_array(on_cpu, x):
    with pytest.raises(kernbridge.errors.KernelFaultError) as caught:
        shifted[1, 128](x, np.zeros_like(x))
    said = str(caught.value)
    assert said.startswith("kernel 'shifted': launch with grid (1, 1, 1), block (128, 1, 1): ")
    assert "a thread writes to 'out' (f32[1d]) out of bounds" in said
    assert "check=True" in said
    add_one[1, 128](x, x)  # the process goes on


def test_the_checked_mode_names_thread_index_and_line(x):
    with (
        kernbridge.cuda_on_cpu(check=True),
        pytest.raises(kernbridge.errors.KernelFaultError) as caught,
    ):
        shifted[1, 128](x, np.zeros_like(x))
    said = str(caught.value)
    assert "kernel 'shifted'" in said
    assert "block (0, 0, 0), thread (99, 0, 0): writes 'out' (f32[1d]) out of bounds" in said
    assert (
        "index 100 of axis 0, whose extent is 100 (of shape (100,)) (at test_launch_errors.py:"
        in said
    )


def test_the_checked_mode_sees_each_argument(x):
    """Of several kinds, at their places among the words of a launch."""

    @cuda.jit
    def kernel(a, s, pair, m, out):
        out[0] = a[0] + s + pair[0][0] + pair[1] + m[1, 2]
        if s > 1:
            out[0] += m[2, 0]

    m, out = np.arange(6, dtype=np.int32).reshape(2, 3), np.zeros(1)
    with kernbridge.cuda_on_cpu(check=True):
        kernel[1, 1](x, 1.0, (x[3:4], 2j.imag), m, out)
        assert out[0] == 0 + 1 + 3 + 2 + 5
        with pytest.raises(
            kernbridge.errors.KernelFaultError, match=r"reads 'm'.*extent is 2.*\[KB3004\]"
        ):
            kernel[1, 1](x, 2.0, (x[3:4], 2j.imag), m, out)


def test_a_launch_that_no_gpu_takes(on_cpu, x):
    with pytest.raises(CudaAPIError, match="CUDA_ERROR_INVALID_VALUE") as caught:
        add_one[1, 2048](x, x)
    assert "kernel 'add_one'" in caught.value.__notes__[0]
    assert "1 to 1024 threads" in caught.value.__notes__[0]


def test_errors_of_numba_about_a_launch_also_say_what_was_expected(on_cpu, x):
    expected = "kernel 'add_one': expected add_one[blocks, threads](x, out), where both are "
    for launch, got in (
        (lambda: add_one[1.5, 32](x, x), "add_one[1.5, 32]"),
        (lambda: add_one(x, x), "add_one(f32[100], f32[100])"),
        (lambda: add_one[1, 32](x), "add_one[...](f32[100])"),
        (lambda: add_one[1, 32]("text", x), "add_one[...]('text', f32[100])"),
    ):
        with pytest.raises((TypeError, ValueError, TypingError)) as caught:
            launch()
        assert caught.value.__notes__[0].startswith(expected)
        assert caught.value.__notes__[0].endswith(f"; got {got}")


def test_what_does_not_run_is_refused_by_name(on_cpu, x):
    missing = cuda.declare_device("missing", "float32(float32)")

    @cuda.jit
    def kernel(v):
        v[0] = missing(v[0])

    said = r"kernel 'kernel': the kernel uses .*\(missing\), which kernbridge does not run on CPUs"
    with pytest.raises(kernbridge.KernelCompilationError, match=said):
        kernel[1, 1](x)
    add_one[1, 128](x, x)
    with pytest.raises(kernbridge.KernelNotAvailableError, match=r"\[KB7005\]"):
        add_one.inspect_asm()
    with pytest.raises(kernbridge.KernelNotAvailableError, match=r"cuIpcGetMemHandle.*\[KB7005\]"):
        cuda.to_device(x).get_ipc_handle()


def test_what_is_written_to_an_array_of_jax_is_not_lost_silently(on_cpu):
    @cuda.jit
    def double(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = 2 * x[i]

    given, into = jnp.arange(3.0), jnp.zeros(3)
    found = np.zeros(3, np.float32)
    double[1, 3](given, found)
    np.testing.assert_array_equal(found, [0, 2, 4])
    with pytest.raises(
        kernbridge.errors.KernelFaultError, match=r"ArrayImpl, f32\[3\], which is.*\[KB3003\]"
    ):
        double[1, 3](given, into)
    np.testing.assert_array_equal(into, [0, 0, 0])
    for writeable in (np.array(into), cuda.to_device(np.asarray(into))):
        double[1, 3](given, writeable)
        np.testing.assert_array_equal(np.asarray(writeable), [0, 2, 4])


def test_exceptions_of_debug_kernels(on_cpu):
    @cuda.jit(debug=True, opt=False)
    def kernel(v):
        if v[0] > 1:
            raise ValueError("too large")

    kernel[1, 1](np.zeros(1))
    with pytest.raises(ValueError, match=r"tid=\[0, 0, 0\] ctaid=\[0, 0, 0\]: too large"):
        kernel[1, 1](np.full(1, 2.0))


def test_memory_is_freed_and_what_is_too_much_is_an_error(on_cpu):
    context = cuda.current_context()
    host = driver.driver
    context.memory_manager.deallocations.clear()
    before = len(host.alive)
    array = cuda.device_array(1000)
    assert len(host.alive) == before + 1
    del array
    context.memory_manager.deallocations.clear()
    assert len(host.alive) == before
    with pytest.raises(CudaAPIError, match="OUT_OF_MEMORY"):
        cuda.device_array(1 << 50, np.uint8)


def test_the_setting_that_refuses_cuda_on_cpu_refuses_this_too(monkeypatch):
    kernbridge.config.set_cuda_on_cpu("error")
    try:
        with pytest.raises(kernbridge.KernelNotAvailableError, match=r"\[KB7003\]"):
            kernbridge.cuda_on_cpu().__enter__()
    finally:
        kernbridge.config.set_cuda_on_cpu("compile")
    with pytest.raises(TypeError, match=r"\[KB8001\]"):
        kernbridge.cuda_on_cpu(check="yes")


@pytest.mark.exhaustive
def test_numba_s_simulator_is_an_error(run_python):
    environment = {"KERNBRIDGE_CUDA_ON_CPU": "1", "NUMBA_ENABLE_CUDASIM": "1"}
    said = run_python("import kernbridge", check=False, **environment)
    assert re.search(r"KernelToolchainError: .*unset NUMBA_ENABLE_CUDASIM.*\[KB....\]\n", said)


def test_a_device_array_of_a_gpu_is_refused(on_cpu, x, monkeypatch):
    given = cuda.to_device(x)
    monkeypatch.setattr(cuda.get_current_device(), "name", "a GPU", raising=True)
    with pytest.raises(
        TypeError, match=r"created on a GPU, outside of kernbridge\.cuda_on_cpu.*\[KB7005\]"
    ):
        add_one[1, 128](given, x)
    for copy in (given.copy_to_host, lambda: given.copy_to_device(x), lambda: given[0]):
        with pytest.raises(
            TypeError, match=r"created on a GPU, outside of kernbridge\.cuda_on_cpu.*\[KB7005\]"
        ):
            copy()
