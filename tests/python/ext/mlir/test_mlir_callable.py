"""`numba_cuda_callable` with functions that launch kernels of numba-cuda-mlir."""

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest

pytest.importorskip("numba_cuda_mlir", reason="numba-cuda-mlir is not installed")

import mlir_callables
import mlir_kernels
from kernbridge import KernelCompilationError, KernelError
from numba_cuda_mlir import cuda

S = jax.ShapeDtypeStruct
F32 = jnp.float32
CODE = 2  # a launch of the fake driver executed the kernel's code


@pytest.mark.parametrize("name", mlir_callables.CASES)
def test_values_on_the_fake_gpu(name, gpu):
    mlir_callables.check(name)
    assert gpu.launches
    assert {launch.does for launch in gpu.launches} == {CODE}


ON_CPU = """
import mlir_callables
for name in mlir_callables.CASES:
    for record in ("always", "never"):
        mlir_callables.check(name, record)
    print(name)
"""


def test_values_on_the_cpu_recorded_and_as_python(run_python):
    assert run_python(ON_CPU).split() == list(mlir_callables.CASES)


def recorded(function):
    return kernbridge.numba_cuda_callable(function, S((4,), F32), record="always")


def test_the_steps_of_a_plan(gpu):
    def function(x, out, stream):
        cuda.default_stream().synchronize()
        out[:] = 1
        mlir_callables.add[1, 4, stream](x, x, out)

    text = str(recorded(function).plan(jnp.ones(4)))
    assert [line for line in text.splitlines() if "add" in line and "launch" in line.lower()], text


def test_an_input_that_may_be_written_is_copied(gpu):
    def function(x, out, stream):
        mlir_kernels.greedy[1, 4, stream](x, out)

    x = jnp.arange(4.0)
    with pytest.warns(kernbridge.KernbridgeWarning, match=r"may write to input 0 \(x\)"):
        assert recorded(function)(x).tolist() == [1, 2, 3, 4]
    assert x.tolist() == [0, 1, 2, 3]


@cuda.jit(debug=True, opt=False)
def debugged(x, out):
    out[0] = x[0]


@cuda.jit
def of_rows(cells, out):
    out[0] = cells[0, 0].n


def with_a_cluster(x, out, stream):
    mlir_callables.add[4, 32, stream, 0, (2, 1, 1)](x, x, out)


def with_exceptions(x, out, stream):
    debugged[1, 1, stream](x, out)


def copying_to_the_host(x, out, stream):
    cuda.to_device(x)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (with_a_cluster, "a launch of add with a cluster"),
        (with_exceptions, "a launch of debugged, which has debug=True"),
        (copying_to_the_host, "cuda.to_device"),
    ],
)
def test_what_is_not_recorded_is_named(function, words, gpu):
    with pytest.raises(KernelError, match=f"cannot be recorded: {words}"):
        recorded(function)(jnp.ones(4))


def test_records_with_two_axes_are_refused(gpu):
    def function(x, out, stream):
        of_rows[1, 1, stream](cuda.device_array((2, 2), mlir_callables.CELL), out)

    with pytest.raises((ValueError, KernelCompilationError), match="that have one axis and no gap"):
        recorded(function)(jnp.ones(4))


def test_strides_of_parts_of_elements_are_refused(gpu):
    def function(x, out, stream):
        bytes_ = cuda.device_array((4, 12), np.uint8)
        mlir_callables.twice_2d[1, (4, 1), stream](bytes_[:, :8].view(np.float64), out)

    with pytest.raises(ValueError, match=r"f64\[2d\] with strides of \(12, 8\) bytes"):
        recorded(function)(jnp.ones(4))


AS_PYTHON = """
import jax, jax.numpy as jnp, kernbridge
import test_mlir_callable as functions
for function in (functions.with_a_cluster, functions.with_exceptions):
    op = kernbridge.numba_cuda_callable(function, jax.ShapeDtypeStruct((4,), jnp.float32),
                                        record="never")
    try:
        print(op(jnp.ones(4))[0])
    except Exception as e:
        print(str(e).splitlines()[0])
"""


def test_what_runs_as_python_on_the_cpu(run_python):
    cluster, debug = run_python(AS_PYTHON).splitlines()
    assert (
        "'add': a kernel of numba-cuda-mlir with a launch with a cluster does not run on CPUs"
        in cluster
    )
    assert debug == "1.0"
