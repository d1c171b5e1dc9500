"""A host with GPUs of two kinds, and a program with an image for one of them."""

import os

import jax
import jax.numpy as jnp
import kernbridge
import pytest

cuda = pytest.importorskip("numba.cuda")
pytestmark = [pytest.mark.once, pytest.mark.usefixtures("gpu")]

PROGRAM = """
import fake_gpu
fake_gpu.install()
import sys
import jax, jax.numpy as jnp, kernbridge, numpy as np
from cuda_kernels import increment
import kernbridge._core as _core

kernbridge.config.set_cuda_architectures("9.0")
gpu = fake_gpu.FakeDriver()
x = jnp.arange(4, dtype=jnp.float32)
# The driver has the code of this kernel's image from here on. The program itself is unknown.
kernbridge.numba_cuda_kernel(increment, jax.ShapeDtypeStruct((4,), x.dtype), launch_dims=8)(x)
before = _core.registry_stats()[0]
with open(sys.argv[0].replace("program.py", "exported"), "rb") as f:
    exported = jax.export.deserialize(bytearray(f.read()))
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


def test_a_program_runs_on_the_gpu_that_it_has_an_image_for(tmp_path, run_python):
    from cuda_kernels import increment

    x = jnp.arange(4, dtype=jnp.float32)
    op = kernbridge.numba_cuda_kernel(increment, jax.ShapeDtypeStruct((4,), x.dtype), launch_dims=4)
    check = jax.export.DisabledSafetyCheck.custom_call("kernbridge.cuda.graph")
    kernbridge.config.set_cuda_architectures("9.0")
    try:
        exported = jax.export.export(jax.jit(op), disabled_checks=[check])(x)
    finally:
        kernbridge.config.set_cuda_architectures(None)
    (tmp_path / "exported").write_bytes(exported.serialize())
    printed = run_python(
        PROGRAM,
        KERNBRIDGE_LIBCUDA=os.environ["KERNBRIDGE_LIBCUDA"],
        KERNBRIDGE_TEST_CUDA="1",
        FAKE_CUDA_CC="90,75",
        FAKE_CUDA_ACTIVE="2",
    ).splitlines()
    assert (printed[0], printed[-1]) == ("0 ran: [0]", "0 ran: [0]")
    failed = "\n".join(printed[1:-1])
    assert failed.startswith("1 failed:")
    assert (
        "numba_cuda_kernel 'increment': compiled for compute capability 9.0, and GPU 1 has 7.5; "
        "lower the program again on this machine" in failed
    )
