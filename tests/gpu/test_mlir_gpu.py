"""Kernels of numba-cuda-mlir on a GPU: the values of `mlir_kernels` and `mlir_callables`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("numba_cuda_mlir", reason="numba-cuda-mlir is not installed")

import mlir_callables
import mlir_kernels
from kernbridge import KernbridgeWarning, numba_cuda_kernel

S = jax.ShapeDtypeStruct
F32 = jnp.float32


@pytest.mark.parametrize("name", mlir_kernels.CASES)
def test_values(name):
    mlir_kernels.check(name)


@pytest.mark.parametrize("name", mlir_callables.CASES)
def test_values_of_recorded_functions(name):
    mlir_callables.check(name)


@pytest.mark.gpu_only("what runs as Python launches on GPUs by its own package")
@pytest.mark.parametrize("name", [n for n in mlir_callables.CASES if n != "batches"])
def test_values_of_functions_that_run_as_python(name):
    mlir_callables.check(name, "never")


def test_an_input_that_may_be_written_is_copied():
    op = numba_cuda_kernel(mlir_kernels.greedy, S((4,), F32), launch_dims=4)
    x = jnp.arange(4.0)
    with pytest.warns(KernbridgeWarning, match=r"may write to input 0 \(x\)"):
        out = op(x)
    assert out.tolist() == [1, 2, 3, 4]
    assert x.tolist() == [0, 1, 2, 3]


def test_many_calls_in_one_program():
    op = numba_cuda_kernel(mlir_kernels.strided, S((1000,), F32), grid=4, block=64)

    @jax.jit
    def repeated(x):
        return jax.lax.fori_loop(0, 20, lambda _, v: op(v) / 3, x)

    x = jnp.arange(1000, dtype=F32)
    for _ in range(3):
        np.testing.assert_allclose(repeated(x), x, rtol=1e-5)


@pytest.mark.gpu_only("numba-cuda-mlir launches kernels on GPUs alone")
def test_its_own_launches_work_afterwards():
    from numba_cuda_mlir import cuda, tools

    kernel = mlir_kernels.scaled_by(11.0)
    before = tools._cached_cc
    op = numba_cuda_kernel(kernel, S((64,), F32), launch_dims=64)
    x = np.arange(64, dtype=np.float32)
    expected = op(x, factor=np.float32(2))
    assert tools._cached_cc == before
    out = cuda.to_device(np.zeros(64, np.float32))
    kernel[1, 64](cuda.to_device(x), np.float32(2), out, 0.5)
    np.testing.assert_allclose(out.copy_to_host(), expected, rtol=1e-6)


@pytest.mark.gpu_only("a CPU has nothing that is to be kept apart")
def test_launches_on_the_cpu_and_on_the_gpu_are_kept_apart():
    import kernbridge
    from numba_cuda_mlir import cuda, types

    kernel = mlir_kernels.scaled_by(13.0)
    x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    with kernbridge.cuda_on_cpu():
        assert "by kernbridge" in str(cuda.get_current_device())
        kernel[1, 64](x, np.float32(2), out, 0.5)
        assert not kernel.overloads

        @cuda.jit([types.void(types.float32[::1], types.float32[::1])])
        def declared(x, out):
            out[cuda.grid(1)] = x[cuda.grid(1)] + 1

        of_cpu = np.zeros_like(x)
        declared[1, 64](x, of_cpu)
    assert "by kernbridge" not in str(cuda.get_current_device())
    on_gpu = cuda.to_device(np.zeros_like(x))
    kernel[1, 64](cuda.to_device(x), np.float32(2), on_gpu, 0.5)
    np.testing.assert_allclose(on_gpu.copy_to_host(), out, rtol=1e-6)
    declared[1, 64](cuda.to_device(x), on_gpu)
    np.testing.assert_array_equal(on_gpu.copy_to_host(), of_cpu)


@pytest.mark.gpu_only("a CPU has no machine code of GPUs")
def test_the_machine_code_is_for_this_gpu():
    op = numba_cuda_kernel(mlir_kernels.reversed_blocks, S((128,), F32), grid=2, block=64)
    (launch,) = op.inspect(jnp.zeros(128, F32))
    assert ".visible .entry reversed_blocks_" in launch.assembly
    assert launch.shared_memory == 256
    assert launch.registers > 0
