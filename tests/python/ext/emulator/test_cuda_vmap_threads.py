"""Launches of a batch that run at once on the CPU: those whose grid has no room for the batch."""

import pytest

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")

pytestmark = pytest.mark.once

PROGRAM = """
import jax, jax.numpy as jnp, numpy as np
from kernbridge import numba_cuda_kernel
from llvmlite import ir
from numba import cuda, types
from numba.cuda.extending import intrinsic

OUT = jax.ShapeDtypeStruct((1,), jnp.float32)
SPINS = 500_000
counter = np.zeros(1, np.int64)
address = jnp.asarray(np.array([counter.ctypes.data]).view(np.uint32))
x = jnp.arange(12.0).reshape(-1, 1)

@intrinsic
def add_at(typing, address, value):
    def code(context, builder, signature, arguments):
        pointer = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        return builder.atomic_rmw("add", pointer, arguments[1], "seq_cst")
    return types.int64(types.int64, types.int64), code

def kernel(printing):
    @cuda.jit
    def meet(x, words, out):
        address = np.int64(words[1]) << 32 | np.int64(words[0])
        if cuda.blockIdx.z == 0:
            add_at(address, 1)
            met = False
            for _ in range(SPINS):
                if add_at(address, 0) > 1:
                    met = True
                    break
            for _ in range(SPINS // 100):  # so that the other one sees this one
                add_at(address, 0)
            add_at(address, -1)
            out[0] = met
            if printing and x[0] < 0:
                print(met)
    return meet

def meets(kernel, times=1, **options):
    op = numba_cuda_kernel(kernel, OUT, grid=(1, 1, 2), block=1, **options)
    run = jax.jit(jax.vmap(op, in_axes=(0, None)))
    met = any(np.asarray(run(x, address)).any() for _ in range(times))
    assert counter[0] == 0
    return met

plain = kernel(False)
assert meets(plain, times=50)
assert not meets(plain, has_side_effect=True)
assert not meets(kernel(True))
"""


@pytest.mark.exhaustive
def test_launches_run_at_once(run_python):
    """A slice says that it runs, where an input says, and waits a while for another one."""
    run_python(PROGRAM, KERNBRIDGE_LIBCUDA="/nowhere/libcuda.so")
