"""threads_per_block="tune": measured on the GPU, kept by content and GPU, never worse than "auto".

The fake driver takes as long for a launch as a test says.
"""

import ctypes

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest
from kernbridge._src.gpu import tuning

cuda = pytest.importorskip("numba.cuda", reason="Numba-CUDA is not installed")
pytestmark = [pytest.mark.once, pytest.mark.usefixtures("root")]
N = 5000
OUT = jax.ShapeDtypeStruct((N,), jnp.float32)
X = np.arange(N, dtype=np.float32)
AUTO = 256  # what the fake answers


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch):
    monkeypatch.setattr(tuning, "_known", type(tuning._known)(8))


@pytest.fixture
def times(gpu):
    """Say how long launches take, by the threads of a block: numbers take turns."""

    def say(of_block, others=100.0):
        for threads in (*tuning.CANDIDATES, *of_block):
            for us in np.atleast_1d(of_block.get(threads, others)):
                gpu.library.fake_cuda_set_time(threads, ctypes.c_double(us))

    return say


def operation(**options):
    @cuda.jit
    def add_one(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] + 1

    given = {"launch_dims": N, "threads_per_block": "tune"} | options
    return kernbridge.numba_cuda_kernel(add_one, OUT, **given)


def run(op):
    np.testing.assert_array_equal(jax.jit(op)(X), X + 1)


def last_block(gpu):
    launch = gpu.launches[-1]
    return launch.block[0], launch.grid[0]


def test_the_fastest_block_is_taken(gpu, times):
    times({128: 80, 64: 90})
    op = operation()
    run(op)
    assert last_block(gpu) == (128, 40)
    (found,) = op.inspect(X)
    assert found.block == (128, 1, 1)
    assert found.tuning == (
        "128 threads per block took 80.00 us, 256 threads by occupancy 100.00 us, "
        "measured on Fake GPU 0, sm_90"
    )
    assert found.tuning in str(found)


def test_a_gain_within_the_noise_is_none(gpu, times):
    times({128: 98})
    op = operation()
    run(op)
    assert last_block(gpu) == (AUTO, 20)
    (found,) = op.inspect(X)
    assert found.block is None
    assert found.tuning.startswith("no block was faster than 256 threads by occupancy 100.00 us")


@pytest.mark.parametrize(
    ("times", "chosen"),
    [
        ({0: [10, 10, 10, 10], 64: [9, 9, 9, 9]}, 64),
        ({0: [10, 10, 10, 10], 64: [9.8, 9.8, 9.8, 9.8]}, 0),
        ({0: [8, 12, 10, 10], 64: [9.2, 9.2, 9.2, 9.2]}, 0),  # the spread of 0 is as large
        ({0: [10, 10, 10, 10], 64: [6, 12, 6, 12], 96: [9, 9, 9, 9]}, 96),
        ({0: [10, 10, 10, 10], 64: [12, 12, 12, 12]}, 0),
        ({0: [10]}, 0),
        ({0: [10], 32: [5]}, 32),
    ],
)
def test_what_counts_as_faster(times, chosen):
    assert tuning.choose(times) == chosen


def test_the_answer_is_kept_on_disk(gpu, times, monkeypatch):
    times({512: 50})
    run(operation())
    assert gpu.calls("cuEventElapsedTime") > 0
    monkeypatch.setattr(tuning, "_known", type(tuning._known)(8))
    gpu.library.fake_cuda_reset()
    times({64: 1})  # not asked again
    op = operation()
    run(op)
    assert gpu.calls("cuEventElapsedTime") == 0
    assert last_block(gpu) == (512, 10)


def test_other_shapes_and_gpus_are_measured_anew(gpu, times, monkeypatch):
    times({512: 50})
    run(operation())
    before = gpu.calls("cuEventElapsedTime")
    run(operation(launch_dims=N + 1))
    assert (between := gpu.calls("cuEventElapsedTime")) > before
    monkeypatch.setattr(kernbridge._core, "device_name", lambda device: "another GPU")
    op = operation()
    run(op)
    assert gpu.calls("cuEventElapsedTime") > between
    assert "another GPU" in op.inspect(X)[0].tuning


def test_scratch_memory_is_given_back_and_the_users_data_are_left_alone(gpu, times):
    times({})

    @cuda.jit
    def increment(_x, x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] += 1

    op = kernbridge.numba_cuda_kernel(
        increment, OUT, launch_dims=N, threads_per_block="tune", input_output_aliases={0: 0}
    )
    run(op)
    assert gpu.calls("cuMemAlloc") == gpu.calls("cuMemFree") == 1
    assert gpu.library.fake_cuda_n_taken() == 0
    assert gpu.calls("cuStreamCreate") == gpu.calls("cuStreamDestroy") == 1


@pytest.mark.parametrize(
    "function",
    [
        *("cuMemAlloc", "cuEventCreate", "cuStreamCreate", "cuMemsetD8Async", "cuEventRecord"),
        *("cuLaunchKernelEx", "cuStreamSynchronize", "cuEventElapsedTime", "cuCtxPushCurrent"),
    ],
)
def test_where_nothing_can_be_measured_it_is_auto(gpu, function):
    gpu.fail(function, 1, 2)
    op = operation()
    (found,) = op.inspect(X)
    assert f"{function} failed" in found.tuning
    run(op)
    assert last_block(gpu) == (AUTO, 20)
    assert gpu.library.fake_cuda_n_taken() == 0
    failed = function in ("cuMemAlloc", "cuCtxPushCurrent")
    assert gpu.calls("cuMemFree") == (not failed)


def test_a_failed_measurement_is_reported_and_not_kept(gpu, times):
    gpu.fail("cuMemAlloc", 1, 2)
    op = operation()
    (found,) = op.inspect(X)
    assert "threads_per_block is 'auto': nothing was measured, since that failed" in found.tuning
    assert "cuMemAlloc failed" in found.tuning
    tuning._known = type(tuning._known)(8)
    times({64: 1})
    run(operation())
    assert last_block(gpu)[0] == 64


def test_a_kernel_that_cannot_bear_zeros_says_so(gpu):
    gpu.fault(700)
    with pytest.raises(kernbridge.KernelError, match='"tune" launches the kernel on arrays of zer'):
        operation().inspect(X)


def test_batches_and_symbolic_shapes(gpu, times):
    times({96: 20})
    op = operation()
    np.testing.assert_array_equal(jax.vmap(op)(np.stack([X, X])), np.stack([X, X]) + 1)
    assert last_block(gpu)[0] == 96
    (n,) = jax.export.symbolic_shape("n")
    op = kernbridge.numba_cuda_kernel(
        op._frontend.kernel,
        lambda x: x,
        launch_dims=lambda x: x.shape[0],
        threads_per_block="tune",
    )
    before = gpu.calls("cuEventElapsedTime")
    jax.export.export(jax.jit(op))(jax.ShapeDtypeStruct((n,), jnp.float32))
    assert gpu.calls("cuEventElapsedTime") == before


def test_on_a_cpu_it_is_auto(run_python):
    printed = run_python(
        "import jax, jax.numpy as jnp, kernbridge, numpy as np\n"
        "from numba import cuda\n"
        "@cuda.jit\n"
        "def add_one(x, out):\n"
        "    i = cuda.grid(1)\n"
        "    if i < out.size:\n"
        "        out[i] = x[i] + 1\n"
        "out = jax.ShapeDtypeStruct((300,), jnp.float32)\n"
        "op = kernbridge.numba_cuda_kernel(\n"
        "    add_one, out, launch_dims=300, threads_per_block='tune')\n"
        "print(float(op(jnp.ones(300)).sum()))\n"
    )
    assert printed == "600.0\n"


def test_other_words_are_refused_when_the_kernel_is_wrapped():
    with pytest.raises(TypeError, match="threads_per_block is 'fast' of type str, expected an int"):
        operation(threads_per_block="fast")
