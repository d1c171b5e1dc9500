"""On a GPU: every kind of kernel passes the self-test."""

import json

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest
from kernbridge import cli
from kernbridge._ext.tools import doctor
from numba import cuda

pytestmark = pytest.mark.gpu_only("commands look at the GPU of this machine")


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
    ready = {(v.name, place) for v in doctor.verdicts() for place in v.runs_on}
    assert tested == ready


def test_a_decorated_kernel_runs_on_the_gpu():
    x = jnp.arange(512.0)
    assert x.devices() == {jax.devices("gpu")[0]}
    np.testing.assert_array_equal(staged(x), np.arange(512.0).reshape(2, 256)[:, ::-1].ravel())
