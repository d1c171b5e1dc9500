"""In the checked modes, a write outside of an output, and a bool that is none, are errors."""

import pytest

pytestmark = pytest.mark.once

SCRIPT = """
import ctypes, warnings
import jax, jax.numpy as jnp, numba, numpy as np, kernbridge
from numba import cuda
warnings.simplefilter("ignore")
X = jnp.arange(8, dtype=jnp.float32)
S = jax.ShapeDtypeStruct((8,), jnp.float32)
HALF = jax.ShapeDtypeStruct((8,), jnp.float16)
BOOL = jax.ShapeDtypeStruct((8,), bool)
def tell(call):
    try:
        print("right", np.asarray(call()).tolist())
    except jax.errors.JaxRuntimeError as e:
        print(str(e).splitlines()[0])
SOURCE = '''
// @BE half arg:any ret:any attr.at:int64
void half(const kb_tensor *x, kb_tensor *out, int64_t at) {
    for (int64_t i = 0; i < x->size; i++)
        ((float *)out->data)[i + at] = ((const float *)x->data)[i] / 2;
}
// @BE bits arg:any ret:any
void bits(const kb_tensor *x, kb_tensor *out) {
    for (int64_t i = 0; i < x->size; i++)
        ((unsigned char *)out->data)[i] = (int)((const float *)x->data)[i] & 4;
}
'''
"""
MODULES = """
c = kernbridge.load_c_inline("guarded", '#include "kernbridge/kernbridge.h"' + SOURCE)
cpp = kernbridge.load_cpp_inline("guarded_cpp", '#include "kernbridge/kernbridge.hpp"' + SOURCE)
"""
OUTSIDE = """
memset = ctypes.CDLL(None).memset
memset.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)
@numba.njit
def clear(x, out):
    memset(out.ctypes, 0, 4 * (x.size + 1))
tell(lambda: c.half(X, outs=HALF, at=0))
tell(lambda: cpp.half(X, outs=S, at=-3))
tell(lambda: cpp.half(X, outs=S, at=0))
tell(lambda: c.half(X, outs=S, at=0, input_output_aliases={0: 0}))
tell(lambda: c.half(X, outs=S, at=1, input_output_aliases={0: 0}))
tell(lambda: jax.vmap(lambda x: c.half(x, outs=S, at=1))(jnp.stack([X, X])))
tell(lambda: kernbridge.numba_kernel(clear, S)(X))
print(X.tolist())
"""
BITS = """
@numba.njit
def bits(x, out):
    for i in range(x.size):
        out.view(np.uint8)[i] = np.uint8(x[i]) & 4
@cuda.jit
def bits_cuda(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out.view(np.uint8)[i] = np.uint8(x[i]) & 4
tell(lambda: c.bits(X, outs=BOOL))
tell(lambda: cpp.bits(X, outs=BOOL))
tell(lambda: kernbridge.numba_kernel(bits, BOOL)(X))
tell(lambda: kernbridge.numba_cuda_kernel(bits_cuda, BOOL, launch_dims=8)(X))
tell(lambda: cpp.bits(X[:4], outs=jax.ShapeDtypeStruct((4,), bool)))
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", ["check", "poison"])
def test_writes_outside_of_outputs_and_other_bytes_than_truth_values(run_python, mode):
    lines = run_python(SCRIPT + MODULES + OUTSIDE + BITS, KERNBRIDGE_DEBUG=mode).splitlines()
    halves = f"right {[i / 2 for i in range(8)]}"
    after, before, right, aliased, beyond, batched, numba, inputs = lines[:8]
    outside = "the kernel wrote outside of output 0 (out), up to "
    assert (
        f"load_c_inline 'guarded.half': {outside}16 bytes after its 8 elements of float16" in after
    )
    assert f"'guarded_cpp.half': {outside}12 bytes before its 8 elements of float32" in before
    assert right == aliased == halves
    assert f"{outside}4 bytes after its 8 elements of float32" in beyond
    assert f"{outside}4 bytes after its 16 elements" in batched
    assert f"numba_kernel 'clear': {outside}4 bytes after" in numba
    assert inputs == str([float(i) for i in range(8)])
    for line, kernel in zip(lines[8:12], ["guarded.", "guarded_cpp.", "", ""], strict=True):
        assert f"'{kernel}bits" in line
        assert "4 of the 8 elements of output 0 (out) are neither 0 nor 1, as bool req" in line
        assert "the first of them element 4, the byte 4; write every element" in line
    assert lines[12] == f"right {[False] * 4}"


@pytest.mark.exhaustive
def test_subnormal_numbers_are_kept_in_the_checked_modes_too(run_python):
    script = """
@numba.njit
def quarter(x, out):
    for i in range(x.size):
        out[i] = x[i] * np.float32(0.25)
print(np.asarray(kernbridge.numba_kernel(quarter, S)(X * 0 + np.float32(3e-38)))[0] > 0)
"""
    assert run_python(SCRIPT + script, KERNBRIDGE_DEBUG="check") == "True\n"
