"""A host with GPUs of two kinds, and a program with an image for one of them."""

import os

import pytest

pytest.importorskip("numba.cuda")
pytestmark = [pytest.mark.once, pytest.mark.usefixtures("gpu")]

START = """
import fake_gpu
fake_gpu.install()
import jax, jax.numpy as jnp, kernbridge, numpy as np
from cuda_kernels import increment
import kernbridge._core as _core

kernbridge.config.set_cuda_architectures("9.0")
gpu = fake_gpu.FakeDriver()
x = jnp.arange(4, dtype=jnp.float32)
def op(n):
    shape = jax.ShapeDtypeStruct((4,), x.dtype)
    return kernbridge.numba_cuda_kernel(increment, shape, launch_dims=n)
"""
EXPORT = """
check = jax.export.DisabledSafetyCheck.custom_call("kernbridge.cuda.graph")
exported = jax.export.export(jax.jit(op(4)), disabled_checks=[check])(x)
open("exported", "wb").write(exported.serialize())
"""
RUN = """
op(8)(x)  # The driver has the code of this kernel's image from here on, but not the program.
before = _core.registry_stats()[0]
exported = jax.export.deserialize(bytearray(open("exported", "rb").read()))
compiled = jax.jit(exported.call).lower(x).compile()
assert _core.registry_stats()[0] == before + 1  # it came with its program
for device in (0, 1, 0):
    gpu.use_device(device)
    n = len(gpu.launches)
    try:
        np.testing.assert_array_equal(compiled(x), [1, 2, 3, 4])
    except (RuntimeError, ValueError) as e:
        print(device, "failed:", e)
    else:
        print(device, "ran:", [launch.device for launch in gpu.launches[n:]])
"""


@pytest.mark.exhaustive
def test_a_program_runs_on_the_gpu_that_it_has_an_image_for(tmp_path, run_python):
    environment = {
        # Two compilations give the kernel two names, so both programs use one cache.
        "KERNBRIDGE_CACHE_DIR": str(tmp_path / "cache"),
        "KERNBRIDGE_LIBCUDA": os.environ["KERNBRIDGE_LIBCUDA"],
        "KERNBRIDGE_TEST_CUDA": "1",
        "FAKE_CUDA_CC": "90,75",
        "FAKE_CUDA_ACTIVE": "2",
    }
    run_python(START + EXPORT, **environment)
    printed = run_python(START + RUN, **environment).splitlines()
    assert (printed[0], printed[-1]) == ("0 ran: [0]", "0 ran: [0]")
    failed = "\n".join(printed[1:-1])
    assert failed.startswith("1 failed:")
    assert (
        "numba_cuda_kernel 'increment': compiled for compute capability 9.0, and GPU 1 has 7.5; "
        "lower the program again on this machine" in failed
    )
