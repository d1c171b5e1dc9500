"""A core without the emulator."""

import pytest

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
pytestmark = pytest.mark.once
HEAD = """
import sys
{first}
import jax, jax.numpy as jnp, kernbridge
from numba import cuda

@cuda.jit
def one(x, out):
    out[0] = x[0]

op = kernbridge.numba_cuda_kernel(one, jax.ShapeDtypeStruct((1,), jnp.float32), launch_dims=1)
x = jnp.ones(1)

def lowered(*platforms):
    return jax.jit(op).trace(x).lower(lowering_platforms=platforms).as_text()
"""


def test_the_core_without_the_emulator(run_python):
    said = run_python(
        HEAD.format(first="sys.modules['kernbridge._ext.emulator'] = None")
        + """
print("@kernbridge.cuda.graph" in lowered("cuda"))
print("@kernbridge.absent" in lowered("cpu", "cuda"))
try:
    op(x)
except kernbridge.KernelNotAvailableError as e:
    print(str(e).splitlines()[0])
module = kernbridge.load_c_inline("m", "// @BE first x: f32[n], n -> f32\\n"
                                  "float first(const float *x, int n) { return x[0]; }")
print(module.first(x))
"""
    )
    assert said.splitlines() == [
        *("True", "True"),
        "numba_cuda_kernel 'one' was lowered for cpu, and no extension of this installation runs "
        "CUDA kernels there; install kernbridge again, whose extension 'emulator' runs them on "
        "CPUs, or commit the inputs to a GPU, jax.device_put(x, jax.devices('cuda')[0]) [KB7001]",
        "1.0",
    ]
