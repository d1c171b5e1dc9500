"""On a GPU: every kind of kernel passes the self-test, and the occupancy is the driver's."""

import json

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest
from kernbridge import _core, cli
from kernbridge._src.gpu import cubin, occupancy
from kernbridge._src.tools import front_ends
from numba import cuda

pytestmark = pytest.mark.gpu_only("commands look at the GPU of this machine")

OPERATION = """
import kernbridge
from numba import cuda


@kernbridge.kernel(lambda x: x, launch_dims=lambda x: x.size)
@cuda.jit
def negate(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = -x[i]
"""


@kernbridge.kernel(lambda x: x, launch_dims=lambda x: x.size)
@cuda.jit
def staged(x, out):
    shared = cuda.shared.array(3000, "float32")
    i = cuda.grid(1)
    shared[cuda.threadIdx.x] = x[i] if i < x.size else 0
    cuda.syncthreads()
    if i < out.size:
        out[i] = shared[cuda.blockDim.x - 1 - cuda.threadIdx.x]


def test_every_kind_of_kernel_that_is_ready_passes(capfd):
    status = cli.main(["doctor", "--json"])
    answer = json.loads(capfd.readouterr().out)
    print(json.dumps(answer, indent=2))
    assert status == 0
    tested = {(t["front_end"], t["platform"]) for t in answer["self_test"] if t["passed"]}
    assert {
        ("numba_kernel", "cpu"),
        ("numba_cuda_kernel", "cpu"),
        ("numba_cuda_kernel", "gpu"),
    } <= tested
    ready = {(v.name, place) for v in front_ends.verdicts() for place in v.runs_on}
    assert tested == ready


def test_a_decorated_kernel_runs_on_the_gpu():
    x = jnp.arange(512.0)
    assert x.devices() == {jax.devices("gpu")[0]}
    np.testing.assert_array_equal(staged(x), np.arange(512.0).reshape(2, 256)[:, ::-1].ravel())


def test_the_computed_occupancy_is_that_of_the_driver():
    x = jnp.ones(1024)
    (step,) = staged.plan(x).steps
    architecture, image = step.function.images[0]
    if architecture not in occupancy.LIMITS:
        pytest.skip(f"sm_{architecture} has no entry in the table")
    info = cubin.read(image, step.function.entry)
    for threads in (32, 96, 128, 256, 480, 512, 1024):
        for dynamic in (0, 5000, 20000, 30000):
            expected = _core.occupancy(image, step.function.entry, threads, dynamic)
            shared = info.static_shared + dynamic
            found = occupancy.occupancy(architecture, threads, info.registers, shared)
            assert found == pytest.approx(expected), (threads, dynamic)


def test_inspect_for_this_gpu(capfd, tmp_path):
    (tmp_path / "inspected_on_gpu.py").write_text(OPERATION)
    target = f"{tmp_path / 'inspected_on_gpu.py'}:negate"
    assert cli.main(["inspect", target, "--args", "float32[4096]", "--json"]) == 0
    (kernel,) = json.loads(capfd.readouterr().out)["kernels"]
    major, minor = _core.compute_capability(0)
    assert kernel["architecture"] == f"sm_{major}{minor}"
    assert kernel["occupancy"] == 1.0
