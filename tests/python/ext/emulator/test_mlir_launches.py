"""Launches as numba-cuda-mlir writes them, on the CPU, where test_launches.py does not say it."""

import subprocess
import sys
from typing import NamedTuple

import kernbridge
import numpy as np
import pytest

pytest.importorskip("numba_cuda_mlir", reason="numba-cuda-mlir is not installed")

from launched_kernels import PACKAGES
from mlir_kernels import reversed_dynamic
from numba import cuda as numba_cuda
from numba.cuda.core.errors import NumbaPerformanceWarning
from numba_cuda_mlir import cuda, types
from numba_cuda_mlir.cuda import inline_ptx
from numba_cuda_mlir.numba_cuda.core.errors import TypingError
from numba_cuda_mlir.numba_cuda.cudadrv import driver

pytestmark = [
    pytest.mark.once,
    pytest.mark.filterwarnings("ignore:Host array used"),
    pytest.mark.filterwarnings("ignore:Grid size"),
]
N = 100
OF_MLIR = PACKAGES["mlir"]
add_one, twice, doubled = OF_MLIR.add_one, OF_MLIR.twice, OF_MLIR.doubled


@numba_cuda.jit
def tripled(x):
    i = numba_cuda.grid(1)
    if i < x.size:
        x[i] *= 3


prepared = add_one[1, 128]


@pytest.fixture
def on_cpu():
    with kernbridge.cuda_on_cpu():
        yield


@pytest.fixture
def x():
    return np.arange(N, dtype=np.float32)


def test_a_kernel_prepared_before_any_thread_is_on_the_cpu(on_cpu, x):
    out = np.zeros_like(x)
    prepared(x, out)
    np.testing.assert_array_equal(out, x + 1)
    assert isinstance(cuda.device_array_like(x), cuda.DeviceNDArray)


def test_both_packages_on_the_same_memory(on_cpu, x):
    doubled[1, 128](x)
    tripled[1, 128](x)
    np.testing.assert_array_equal(x, 6 * np.arange(N))
    of_one, of_other = numba_cuda.to_device(x), cuda.to_device(x)
    doubled[1, 128](of_one)
    np.testing.assert_array_equal(of_one.copy_to_host(), 2 * x)
    tripled[1, 128](numba_cuda.as_cuda_array(of_other))
    np.testing.assert_array_equal(of_other.copy_to_host(), 3 * x)


RECORDED = """
import jax, jax.numpy as jnp, kernbridge
import test_mlir_launches as launches

def function(x, out, stream):
    launches.prepared(x, out)

op = kernbridge.numba_cuda_callable(function, jax.ShapeDtypeStruct((4,), jnp.float32))
print(op(jnp.zeros(4)).tolist())
with kernbridge.cuda_on_cpu():
    print(op(jnp.zeros(4)).tolist(), jax.jit(lambda x: op(2 * x))(jnp.ones(4)).tolist())
    print(jax.vmap(op)(jnp.ones((1, 4))).tolist())
"""


def test_recorded_launches_are_the_same_inside(run_python):
    one, both, batch = run_python(RECORDED).splitlines()
    assert one == str([1.0] * 4)
    assert both == f"{[1.0] * 4} {[3.0] * 4}"
    assert batch == str([[2.0] * 4])


def test_memory_that_is_freed_or_refused(on_cpu, x):
    given, made = cuda.to_device(x), cuda.device_array(N, np.float32)
    alive = driver.driver.alive
    deallocations = cuda.current_context().memory_manager.deallocations
    deallocations.clear()
    before = len(alive)
    del given, made
    deallocations.clear()
    assert len(alive) == before - 2
    with pytest.raises(driver.CudaAPIError, match="OUT_OF_MEMORY"):
        cuda.device_array(1 << 50, np.uint8)


def test_methods_of_device_arrays(on_cpu, x):
    given = cuda.to_device(x.reshape(20, 5))
    np.testing.assert_array_equal(given.T.copy_to_host(), x.reshape(20, 5).T)
    given[3] = 7
    given[4:6] = cuda.to_device(np.ones((2, 5), np.float32))
    expected = x.reshape(20, 5).copy()
    expected[3], expected[4:6] = 7, 1
    np.testing.assert_array_equal(given.copy_to_host(), expected)
    assert given[3, 1] == 7
    np.testing.assert_array_equal(given.ravel()[20:25].copy_to_host(), np.ones(5))


def test_an_array_that_may_not_be_written(on_cpu):
    kept = np.arange(4.0)
    kept.flags.writeable = False
    with pytest.raises(TypingError, match="Cannot modify readonly array"):
        doubled[1, 32](kept)
    np.testing.assert_array_equal(kept, range(4))


class Pair(NamedTuple):
    values: object
    scale: object


def test_scalars_tuples_and_records(on_cpu):
    @cuda.jit
    def kernel(out, i, c, h, pair, cells, cell):
        out[0], out[1], out[2], out[3] = i, c.real, c.imag, h
        out[4] = pair.values[1] * pair.scale
        out[5] = cells[1].b
        out[6] = cell.a
        cells[0].a = 9

    record = np.dtype([("a", np.int32), ("b", np.float64)], align=True)
    cells = np.array([(1, 2.5), (3, 4.5)], record)
    out = np.zeros(7)
    kernel[1, 1](out, -5, 1 + 2j, np.float16(1.5), Pair(np.arange(3.0), 7), cells, cells[1].copy())
    assert out.tolist() == [-5, 1, 2, 1.5, 7, 4.5, 3]
    assert cells["a"].tolist() == [9, 3]
    given = cuda.to_device(cells)
    kernel[1, 1](out, 0, 0j, np.float16(0), Pair(np.arange(3.0), 7), given, given[1])
    assert out[5:].tolist() == [4.5, 3]


def test_dynamic_shared_memory(on_cpu):
    x, out = np.arange(96, dtype=np.float32), np.zeros(96, np.float32)
    reversed_dynamic[2, 48, 0, 192](x, out)
    np.testing.assert_array_equal(out, x.reshape(2, 48)[:, ::-1].ravel() + 5)


def test_declared_signatures(on_cpu, x):
    @cuda.jit("float32(float32)", device=True)
    def half(v):
        return v / 2

    @cuda.jit([types.void(types.float32[::1], types.float32), "void(float64[:], float64)"])
    def shifted(v, by):
        i = cuda.grid(1)
        if i < v.size:
            v[i] = half(v[i]) + by

    shifted[1, 128](x, 1)
    np.testing.assert_array_equal(x, np.arange(N) / 2 + 1)
    y = np.arange(2.0 * N)[::2]
    shifted[1, 128](y, np.float32(0.5))
    np.testing.assert_array_equal(y, np.arange(N) + 0.5)
    with pytest.raises(TypeError, match="No matching definition for argument type"):
        shifted[1, 128](np.zeros((2, 2), np.float32), 1)


@cuda.jit
def of_rows(cells, out):
    out[0] = cells[0, 0].a


def test_a_host_array_is_warned_of_as_on_a_gpu(on_cpu, x):
    with pytest.warns(NumbaPerformanceWarning, match="Host array used"):
        doubled[1, 128](x)


def test_strides_of_parts_of_elements(on_cpu):
    packed = np.ones(4, [("n", np.int32), ("v", np.float64)])
    doubled[1, 32](packed["v"])
    assert packed["v"].tolist() == [2] * 4


@cuda.jit(debug=True, opt=False)
def debugged(x):
    if x[0] > 0:
        raise ValueError("is positive")
    x[0] = 1


@cuda.jit
def assembling(x):
    inline_ptx("mov.u32 $0, %clock;", x)


@cuda.jit
def assembling_by_attribute(x):
    cuda.inline_ptx("mov.u32 $0, %clock;", x)


@cuda.jit
def reading(x):
    x[0] = x.nothing


def test_what_is_refused_is_named(on_cpu, x):
    refused = kernbridge.KernelNotAvailableError
    with pytest.raises(refused, match="with a launch with a cluster does not run on CPUs"):
        add_one[4, 32, 0, 0, (2, 1, 1)](x, x)
    with pytest.raises(refused, match="the program asks for the PTX of a kernel"):
        add_one.inspect_asm()
    with pytest.raises(refused, match="the number of registers of a kernel"):
        add_one.get_regs_per_thread()
    for kernel in (assembling, assembling_by_attribute):
        with pytest.raises(kernbridge.KernelCompilationError, match="uses `inline_ptx` of numba-c"):
            kernel[1, 1](x)
    with pytest.raises(TypingError, match="nothing"):
        reading[1, 1](x)
    with pytest.raises(driver.CudaAPIError, match="INVALID_VALUE"):
        doubled[1, 2000](x)


def test_records_with_two_axes(on_cpu, x):
    of_rows[1, 1](np.full((2, 2), 7, [("a", np.int32)]), x)
    assert x[0] == 7


def test_exceptions_of_a_debugged_kernel(on_cpu):
    x = np.zeros(1)
    debugged[1, 1](x)
    with pytest.raises(ValueError, match="is positive"):
        debugged[1, 1](x)


@cuda.jit
def beyond(x):
    x[cuda.grid(1) + 1] = twice(cuda.grid(1))


def test_the_checked_mode(x):
    with (
        kernbridge.cuda_on_cpu(check=True),
        pytest.raises(kernbridge.errors.KernelFaultError, match=r"index \[?100"),
    ):
        beyond[1, N](x)


FACTOR = 2


@cuda.jit
def times(x):
    x[0] *= FACTOR


def test_a_global_is_read_when_a_signature_is_compiled(on_cpu, monkeypatch):
    x, y = np.ones(1), np.ones(1, np.float32)
    times[1, 1](x)
    monkeypatch.setitem(globals(), "FACTOR", 3)
    times[1, 1](x)
    times[1, 1](y)
    assert (x[0], y[0]) == (4, 3)


LATE = """
import threading, warnings
import kernbridge, numpy as np
from numba_cuda_mlir import cuda

warnings.simplefilter("ignore")

@cuda.jit("void(float64[::1])")
def kernel(x):
    x[cuda.grid(1)] += 1

x = np.zeros(4)
kernel[1, 4](x)
thread = threading.Thread(target=lambda: kernel[1, 4](x))
thread.start()
thread.join()
print(x.tolist(), cuda.is_available(), cuda.get_current_device().name)
"""


def test_the_variable_holds_for_a_package_that_is_imported_later(run_python):
    told = run_python(LATE, KERNBRIDGE_CUDA_ON_CPU="1")
    assert told == "[2.0, 2.0, 2.0, 2.0] True the CPU, by kernbridge\n"


SUITE = """
import numpy as np
from numba_cuda_mlir import cuda

def test_of_a_suite():
    assert cuda.is_available()

    @cuda.jit
    def kernel(x):
        x[cuda.grid(1)] += 1

    x = cuda.to_device(np.zeros(4))
    kernel[1, 4](x)
    assert x.copy_to_host().tolist() == [1, 1, 1, 1]

def test_refused():
    @cuda.jit
    def refused(x):
        x[0] = 1

    refused[1, 1, 0, 0, (2, 1, 1)](np.zeros(1))
"""


def test_the_plugin_of_pytest(tmp_path):
    (tmp_path / "test_suite.py").write_text(SUITE)
    command = [sys.executable, "-m", "pytest", "-q", "--cuda-on-cpu", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    output = done.stdout
    assert "1 failed, 1 passed" in output
    assert "CUDA kernels on the CPU: 1 ran (1 launches), 0 with a fault, 1 refused" in output
    assert (
        "refused: kernel 'refused': a kernel of numba-cuda-mlir with a launch with a cluster"
        in output
    )
