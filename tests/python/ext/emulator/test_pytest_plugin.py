"""`pytest --cuda-on-cpu`: a suite of GPU tests runs unchanged, and a fault fails its test."""

import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
pytestmark = pytest.mark.once

CONFTEST = """
import numpy
if not hasattr(numpy, "row_stack"):
    numpy.row_stack = numpy.vstack  # numba-cuda 0.30 reads it; numpy 2.5 removed it
from numba import cuda

GPU = cuda.is_available()
"""
SUITE = """
import numpy as np
import pytest
from conftest import GPU
from numba import cuda

if not GPU:
    pytest.skip("there is no GPU", allow_module_level=True)

pytestmark = [pytest.mark.filterwarnings(f) for f in ("ignore", "error:.*KB7002")]


@cuda.jit("void(float32[:], float32[:])")
def copied(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i]


@cuda.jit
def behind(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i + 1]


@cuda.jit
def refused(x):
    x[0] = missing(x[0])


missing = cuda.declare_device("missing", "float32(float32)")
x = np.arange(8, dtype=np.float32)


def test_right():
    out = cuda.device_array_like(x)
    copied[1, 8](cuda.to_device(x), out)
    np.testing.assert_array_equal(out.copy_to_host(), x)


def test_fault():
    behind[1, 8](x, np.zeros_like(x))


def test_refused():
    refused[1, 1](x)


def test_fault_of_an_operation():
    import jax
    from kernbridge import numba_cuda_kernel

    numba_cuda_kernel(behind, jax.ShapeDtypeStruct((8,), x.dtype), launch_dims=8)(x)


SOURCE = '''
#include "kernbridge/kernbridge.hpp"
__global__ void move(const float *x, float *out, int by) {
    out[threadIdx.x] = x[threadIdx.x + by];
}
// @BE moved arg:f32[n] ret:f32[n] attr.by stream
void moved(const kernbridge::Tensor x, kernbridge::Tensor out, int by, cudaStream_t stream) {
    move<<<1, x.numel(), 0, stream>>>(x.data_ptr<float>(), out.data_ptr<float>(), by);
}
'''


@pytest.mark.parametrize("by", [0, 1])
def test_a_source(by):
    import jax
    from kernbridge import load_cuda_inline

    moved = load_cuda_inline("moved", SOURCE).moved
    assert moved(x, outs=jax.ShapeDtypeStruct((8,), x.dtype), by=by).tolist() == x.tolist()


def test_a_kernel_in_cpp():
    import jax
    from kernbridge import cuda_kernel

    source = "__global__ void same(const float *x, float *out) { *out = *x; }"
    like = jax.ShapeDtypeStruct((1,), x.dtype)
    assert cuda_kernel(source, "same", like, grid=1, block=1)(x[2:3]).tolist() == [2]


def test_refused_in_cpp():
    from kernbridge import load_cuda_inline

    load_cuda_inline("of_gpus", SOURCE.replace("__global__ void", "__cluster_dims__ __global__"))
"""


@pytest.fixture
def suite(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_suite.py").write_text(SUITE)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    def run(*options, **environment):
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *options]
        left_out = ("KERNBRIDGE_LIBCUDA", "KERNBRIDGE_TEST_CUDA", "PYTEST_ADDOPTS")
        kept = {k: v for k, v in os.environ.items() if k not in left_out} | environment
        done = subprocess.run(command, cwd=tmp_path, env=kept, capture_output=True, text=True)
        return done.stdout + done.stderr

    return run


def test_a_suite_runs_checked_and_a_fault_fails_its_test(suite):
    said = suite("--cuda-on-cpu=check", "-p", "no:xdist", "test_suite.py")
    assert "5 failed, 3 passed" in said
    assert (
        "kernel 'behind': launch with grid (1, 1, 1), block (8, 1, 1): "
        "block (0, 0, 0), thread (7, 0, 0): reads 'x' (f32[1d]) out of bounds: "
        "index 8 of axis 0, whose extent is 8 (of shape (8,)) (at test_suite.py:24)" in said
    )
    assert "numba_cuda_kernel 'behind': launch of behind, grid (1, 1, 1), block (8, 1, 1)" in said
    assert "reads 'x' (f32[8]) out of bounds: element [8], and it has 8 (at moved.cu:4)" in said
    assert "CUDA kernels on the CPU: 4 ran (checked, 6 launches), 2 with a fault, 2 refused" in said
    assert "  fault: load_cuda_inline 'moved.moved': move (1 launch)" in said
    assert "  fault: test_suite.behind (2 launches)" in said
    assert "  refused: kernel 'refused': the kernel uses" in said
    assert "  refused: of_gpus: of_gpus.cu:3: the source uses __cluster_dims__ (clusters)" in said


@pytest.mark.exhaustive
def test_another_value_is_refused_with_both_forms(suite):
    assert "argument --cuda-on-cpu/--cuda-on-cpu=check: ignored explicit argument 'fast'" in suite(
        "--cuda-on-cpu=fast"
    )
    said = suite(KERNBRIDGE_CUDA_ON_CPU="fast")
    assert "ERROR: --cuda-on-cpu: KERNBRIDGE_CUDA_ON_CPU is 'fast', expected 1, check or 0" in said


@pytest.mark.exhaustive
def test_without_plugins_the_variable_checks_launches_and_operations(suite):
    said = suite(
        *("-p", "pytest_kernbridge", "--cuda-on-cpu", "-k", "fault", "test_suite.py"),
        KERNBRIDGE_DEBUG="check",
        PYTEST_DISABLE_PLUGIN_AUTOLOAD="1",
    )
    assert "2 failed" in said
    assert "1 ran (checked, 2 launches), 1 with a fault, 0 refused" in said


@pytest.mark.exhaustive
@pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) >= "2.5.0",
    reason="workers of xdist import Numba-CUDA, which needs numpy.row_stack",
)
def test_workers_of_xdist_are_counted(suite):
    pytest.importorskip("xdist", reason="pytest-xdist is not installed")
    which = "right or refused or in_cpp or a_source"
    said = suite("--cuda-on-cpu", "test_suite.py", "-n", "2", "-k", which)
    assert "3 failed, 3 passed" in said
    assert "3 ran (4 launches), 0 with a fault, 2 refused" in said


WITHOUT = """
import sys, pytest
status = pytest.main(["-q", "-p", "no:cacheprovider", "--collect-only", "test_nothing.py"])
print(status, [n for n in ("kernbridge", "jax", "numba") if n in sys.modules])
print("pytest_kernbridge" in sys.modules)
"""


def test_without_the_option_nothing_is_imported(tmp_path):
    (tmp_path / "test_nothing.py").write_text("def test_nothing(): pass\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-c", WITHOUT]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.splitlines()[-2:] == ["0 []", "True"], done.stdout + done.stderr
