"""Large arrays that CUDA kernels close over, which are kept out of the compiled code on the CPU.

Each test is a program of its own, see test_cuda_on_cpu.
"""

import pytest

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
pytestmark = pytest.mark.once

HEAD = """
import jax, jax.numpy as jnp, numpy as np
import kernbridge
from kernbridge import numba_cuda_kernel
from numba import cuda
S = jax.ShapeDtypeStruct
rng = np.random.default_rng(0)

WIDE = rng.normal(size=(600, 400))
ROWS = np.asfortranarray(rng.integers(-9, 9, (700, 90)).astype(np.int16))
BACKWARDS = rng.normal(size=30_000).astype(np.float32)[::-1]
PAIRS = np.zeros(900, [("a", np.float64), ("b", np.int32)])
PAIRS["a"], PAIRS["b"] = rng.normal(size=900), rng.integers(-99, 99, 900)
SMALL = np.arange(7.0)

@cuda.jit(device=True)
def elsewhere(i):
    return cuda.const.array_like(WIDE)[i % 600, i % 400]

@cuda.jit
def gather(at, out):
    i = cuda.grid(1)
    wide, rows = cuda.const.array_like(WIDE), cuda.const.array_like(ROWS)
    backwards, pairs = cuda.const.array_like(BACKWARDS), cuda.const.array_like(PAIRS)
    if i < at.size:
        k = at[i]
        out[i, 0] = wide[k % 600, k % 400] - elsewhere(k)
        out[i, 1] = wide[k % 600, k % 399]
        out[i, 2] = rows[k % 700, k % 90]
        out[i, 3] = backwards[k % 30_000]
        out[i, 4] = pairs[k % 900].a
        out[i, 5] = pairs[k % 900].b
        out[i, 6] = cuda.const.array_like(SMALL)[k % 7]

at = rng.integers(0, 30_000, 500)
want = np.stack([0 * at, WIDE[at % 600, at % 399], ROWS[at % 700, at % 90], BACKWARDS[at],
                 PAIRS["a"][at % 900], PAIRS["b"][at % 900], SMALL[at % 7]], 1)
jax.config.update("jax_enable_x64", True)
op = numba_cuda_kernel(gather, S(want.shape, want.dtype), launch_dims=at.size)
"""


def test_values_of_large_constants(run, run_python, tmp_path):
    run("""
np.testing.assert_array_equal(op(at), want)
program = jax.export.export(jax.jit(op))(at).serialize()
assert len(program) < 3 * WIDE.nbytes
open("program", "wb").write(program)
np.savez("arrays", at=at, want=want)
""")
    run_python("""
import sys
sys.modules["numba"] = sys.modules["llvmlite"] = None
import jax, numpy as np, kernbridge
jax.config.update("jax_enable_x64", True)
arrays = np.load("arrays.npz")
program = jax.export.deserialize(bytearray(open("program", "rb").read()))
np.testing.assert_array_equal(program.call(arrays["at"]), arrays["want"])
""")


@pytest.mark.exhaustive
def test_large_constants_everywhere(run):
    run("""
np.testing.assert_array_equal(jax.vmap(op)(np.stack([at, at])), np.stack([want, want]))
checked = numba_cuda_kernel(gather, S(want.shape, want.dtype), launch_dims=at.size, check=True)
np.testing.assert_array_equal(checked(at), want)
out = np.zeros_like(want)
with kernbridge.cuda_on_cpu():
    gather[2, 256](at, out)
np.testing.assert_array_equal(out, want)

def of_table(table):  # for a GPU, whose compiler admits 64 KiB
    @cuda.jit
    def first(at, out):
        i = cuda.grid(1)
        if i < at.size:
            out[i] = cuda.const.array_like(table)[at[i]]

    one = S((1,), np.float64)
    return numba_cuda_kernel(first, one, launch_dims=1).inspect(S((1,), np.int64))[0]

kernbridge.config.set_cuda_architectures("9.0")
found = of_table(SMALL.repeat(200))
assert found.platform == "cuda" and f"[{200 * SMALL.nbytes}]" in found.assembly
try:
    of_table(WIDE.ravel())
except kernbridge.errors.KernelCompilationError as e:
    assert "too much global constant data" in str(e), e
else:
    raise AssertionError("it is compiled")
""")
