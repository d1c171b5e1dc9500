"""Elements that a kernel on the CPU does not write are found over two fill patterns."""

import pytest

pytestmark = pytest.mark.once

BEGIN = """
import jax, jax.numpy as jnp, numba, numpy as np, kernbridge
S = jax.ShapeDtypeStruct((8,), jnp.float32)
X = np.arange(8, dtype=np.float32)
def tell(call):
    try:
        print("right", np.asarray(call()).tolist())
    except jax.errors.JaxRuntimeError as e:
        print(str(e).splitlines()[0])
"""


@pytest.fixture
def poisoned(run_python):
    """Run a script whose kernels are poisoned; returns the lines that it printed."""
    return lambda script: run_python(BEGIN + script, KERNBRIDGE_DEBUG="poison").splitlines()


@pytest.mark.exhaustive
def test_numba_kernels(poisoned):
    partial, whole, zeroed, rebound, batched, aliased = poisoned("""
@numba.njit
def half(x, out):
    for i in range(0, out.size - 1, 2):
        out[i + 1] = x[i]
@numba.njit
def rebinds(x, out):
    out = x * 2
@numba.njit
def add(x, out):
    out += x
op = kernbridge.numba_kernel(half, S)
tell(lambda: op(X))
tell(lambda: kernbridge.numba_kernel(add, S, input_output_aliases={0: 0})(X))
tell(lambda: kernbridge.numba_kernel(half, S, zero_outputs=True)(X))
tell(lambda: kernbridge.numba_kernel(rebinds, S)(X))
tell(lambda: jax.vmap(op)(np.stack([X, X])))
tell(lambda: kernbridge.numba_kernel(add, S, input_output_aliases={0: 0})(X))
""")
    assert (
        "numba_kernel 'half': nothing wrote 4 of the 8 elements of output 0 (out), the first of "
        "them element 0; write every element, or pass zero_outputs=True" in partial
    )
    assert whole == aliased == f"right {[2.0 * i for i in range(8)]}"
    assert zeroed == "right [0.0, 0.0, 0.0, 2.0, 0.0, 4.0, 0.0, 6.0]"
    assert "nothing wrote 8 of the 8 elements of output 0 (out)" in rebound
    assert "nothing wrote 8 of the 16 elements of output 0 (out)" in batched


@pytest.mark.exhaustive
def test_functions_of_modules(poisoned):
    partial, whole, zeroed, aliased, batched = poisoned("""
module = kernbridge.load_c_inline("poisoned", '''
#include <kernbridge/kernbridge.h>
// @BE f arg:f32[8] ret:f32[8] attr.n:int64
void f(const kb_tensor *x, kb_tensor *y, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        ((float *)y->data)[i] = ((const float *)x->data)[i];
}
''')
tell(lambda: module.f(X, outs=S, n=5))
tell(lambda: module.f(X, outs=S, n=8))
tell(lambda: module.f(X, outs=S, n=3, zero_outputs=True))
tell(lambda: module.f(X, outs=S, n=3, zero_outputs=True, input_output_aliases={0: 0}))
tell(lambda: jax.vmap(lambda x: module.f(x, outs=S, n=2, zero_outputs=True))(np.stack([X, X])))
""")
    assert (
        "load_c_inline 'poisoned.f': nothing wrote 3 of the 8 elements of output 0 (y), the first "
        "of them element 5; write every element, or pass zero_outputs=True" in partial
    )
    assert whole == f"right {[float(i) for i in range(8)]}"
    assert zeroed == "right [0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0]"
    assert aliased == whole
    assert batched == f"right {[[0.0, 1.0] + [0.0] * 6] * 2}"
