"""CUDA kernels with `fastmath` on the CPU: threads of a block call libmvec together."""

import pytest
from kernbridge._src.numba_common import vector_math

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(not vector_math.provided(), reason="there is no libmvec"),
]

PROGRAM = """
import math
import jax, jax.numpy as jnp, numpy as np
import kernbridge
from kernbridge import _core, numba_cuda_kernel
from numba import cuda

codes = []
add_host_code = _core.add_host_code

def adding(digest, code):
    codes.append(code)
    return add_host_code(digest, code)

_core.add_host_code = adding

def values(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 1 / (1 + math.exp(-x[i])) + math.tanh(x[i])

x = np.linspace(-3, 3, 1001).astype(np.float32)
want = 1 / (1 + np.exp(-x.astype(np.float64))) + np.tanh(x.astype(np.float64))

def check(out, *names):
    np.testing.assert_allclose(out, want, rtol=2e-6, atol=1e-6)
    code = codes.pop()
    assert [name in code for name in names] == [True] * len(names), names
    assert (b"_ZGV" in code) == bool(names)

outs = jax.ShapeDtypeStruct(x.shape, x.dtype)
for fast in (False, True):
    op = numba_cuda_kernel(cuda.jit(fastmath=fast)(values), outs, launch_dims=x.size)
    check(op(jnp.asarray(x)), *[b"v_expf", b"v_tanhf"][: 2 * fast])
    program = jax.export.export(jax.jit(op))(x).serialize()
    np.testing.assert_array_equal(jax.export.deserialize(program).call(x), op(x))

with kernbridge.cuda_on_cpu():
    for fast in (False, True):
        out = np.zeros_like(x)
        cuda.jit(fastmath=fast)(values)[4, 256](x, out)
        check(out, *[b"v_expf", b"v_tanhf"][: 2 * fast])
"""


def test_fast_kernels(run_python):
    run_python(PROGRAM, KERNBRIDGE_LIBCUDA="/nowhere/libcuda.so", KERNBRIDGE_CACHE_DIR="0")
