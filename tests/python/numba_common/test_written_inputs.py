"""KERNBRIDGE_DEBUG=check finds inputs that a kernel on the CPU changed, and puts them back."""

import os

import pytest

pytestmark = pytest.mark.once

BEGIN = """
import warnings
import jax, jax.numpy as jnp, numba, numpy as np, kernbridge
warnings.simplefilter("ignore")
S = jax.ShapeDtypeStruct((4,), jnp.float32)
X = jnp.arange(4, dtype=jnp.float32)
def tell(call):
    try:
        print("right", np.asarray(call()).tolist(), X.tolist())
    except jax.errors.JaxRuntimeError as e:
        print(str(e).splitlines()[0], X.tolist())
"""
C_SOURCE = """
#include <kernbridge/kernbridge.h>
// @BE f arg:f32[4] arg:f32[4] ret:f32[4] attr.n:int64
void f(const kb_tensor *y, const kb_tensor *x, kb_tensor *out, int64_t n) {
    for (int64_t i = 4 - n; i < 4; i++)
        ((float *)x->data)[i] += 5;
    for (int64_t i = 0; i < 4; i++)
        ((float *)out->data)[i] = ((const float *)x->data)[i];
}
"""
MODULE = f"module = kernbridge.load_c_inline('writes', '''{C_SOURCE}''')\n"
INTACT = "[0.0, 1.0, 2.0, 3.0]"
WRITTEN = (
    "the kernel wrote to input 1 (x), which JAX does not allow: it changed 2 of the 4 elements, "
)


@pytest.fixture
def run(run_python):
    """Run a script in a mode of KERNBRIDGE_DEBUG; returns the lines that it printed."""
    fake = {n: os.environ[n] for n in ("KERNBRIDGE_LIBCUDA", "KERNBRIDGE_TEST_CUDA")}
    return lambda script, debug="check": run_python(
        BEGIN + script, KERNBRIDGE_DEBUG=debug, **fake
    ).splitlines()


@pytest.mark.exhaustive
def test_a_function_of_a_module_that_writes_to_an_input(run):
    bad, good, aliased, batched, poisoned = [
        line
        for debug, script in [
            (
                "check",
                "tell(lambda: module.f(jnp.ones(4), X, outs=S, n=2))\n"
                "tell(lambda: module.f(jnp.ones(4), X, outs=S, n=0))\n"
                "tell(lambda: module.f(jnp.ones(4), X, outs=S, n=4, input_output_aliases={1: 0}))\n"
                "B = jnp.stack([X, X])\n"
                "tell(lambda: jax.vmap(lambda x: module.f(X, x, outs=S, n=1))(B))\n",
            ),
            ("check,poison", "tell(lambda: module.f(jnp.ones(4), X, outs=S, n=2))\n"),
        ]
        for line in run(MODULE + script, debug)
    ]
    assert "load_c_inline 'writes.f': " + WRITTEN + "the first of them element 2; write to" in bad
    assert bad.endswith(INTACT)
    assert good == f"right {INTACT} {INTACT}"
    assert aliased == f"right [5.0, 6.0, 7.0, 8.0] {INTACT}"
    assert "it changed 2 of the 8 elements, the first of them element 3;" in batched
    assert WRITTEN in poisoned
    assert poisoned.endswith(INTACT)


@pytest.mark.exhaustive
def test_a_cpp_function_that_fails_after_it_wrote(run):
    wrote, failed = run("""
module = kernbridge.load_cpp_inline("writes", '''
#include <kernbridge/kernbridge.hpp>
#include <stdexcept>
// @BE f arg ret attr.fails:bool
void f(const kernbridge::Tensor &x, kernbridge::Tensor &out, bool fails) {
    static_cast<float *>(const_cast<void *>(x.data_ptr()))[0] = 7;
    if (fails)
        throw std::runtime_error("no such thing");
}
''')
tell(lambda: module.f(X, outs=S, fails=False))
tell(lambda: module.f(X, outs=S, fails=True))
""")
    assert "the kernel wrote to input 0 (x), which" in wrote
    assert "no such thing" in failed
    assert wrote.endswith(INTACT)
    assert failed.endswith(INTACT)


@pytest.mark.exhaustive
def test_numba_kernels_that_get_a_copy_or_only_read(run):
    copied, read = run("""
@numba.njit
def writes(x, out):
    x.flat[0] = 9
    out[:] = x
@numba.njit
def reads(x, out):
    out[:] = x
tell(lambda: kernbridge.numba_kernel(writes, S)(X))
tell(lambda: kernbridge.numba_kernel(reads, S)(X))
""")
    assert copied == f"right [9.0, 1.0, 2.0, 3.0] {INTACT}"
    assert read == f"right {INTACT} {INTACT}"


@pytest.mark.exhaustive
def test_a_numba_kernel_whose_writes_numba_cannot_see(run):
    (found,) = run("""
import ctypes
memset = ctypes.CDLL(None).memset
memset.argtypes, memset.restype = (ctypes.c_size_t, ctypes.c_int, ctypes.c_size_t), None
AT = X.unsafe_buffer_pointer()
@numba.njit
def writes(y, x, out):
    memset(AT + 4, 1, 4)
    memset(AT + 12, 1, 4)
    out[:] = x
tell(lambda: kernbridge.numba_kernel(writes, S)(jnp.ones(4), X))
""")
    assert "numba_kernel 'writes': " + WRITTEN + "the first of them element 1; write to" in found
    assert found.endswith(INTACT)
