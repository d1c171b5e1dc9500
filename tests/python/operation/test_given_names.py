"""`name=` of every front end, and outputs that are any parameters of a kernel."""

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest
from numba import cuda

pytestmark = pytest.mark.once

X = jnp.arange(4.0)


@numba.njit
def doubled(out, x):
    for i in range(x.size):
        out[i] = 2 * x[i]


@cuda.jit
def doubled_on_gpu(out, x):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = 2 * x[i]


def doubled_by_launches(out, x, stream):
    doubled_on_gpu[1, 32, stream](out, x)


@numba.njit
def doubled_value(x):
    return 2 * x


@numba.guvectorize(["void(f4[:], f4[:])"], "(n)->(n)")
def doubled_rows(x, out):
    for i in range(x.size):
        out[i] = 2 * x[i]


SIGNATURE = "x: f32[n] -> out: f32[n]"
MADE = {
    "numba_kernel": lambda name: kernbridge.numba_kernel(doubled, signature=SIGNATURE, name=name),
    "numba_cuda_kernel": lambda name: kernbridge.numba_cuda_kernel(
        doubled_on_gpu, signature=SIGNATURE, launch_dims="n", name=name
    ),
    "numba_cuda_callable": lambda name: kernbridge.numba_cuda_callable(
        doubled_by_launches, signature=SIGNATURE, name=name
    ),
    "elementwise": lambda name: kernbridge.elementwise(doubled_value, name=name),
    "kernel": lambda name: kernbridge.kernel(name=name)(doubled_value),
    "kernel with a signature": lambda name: kernbridge.kernel("x: f32[n] -> f32[n]", name=name)(
        doubled_value
    ),
    "kernel of a layout": lambda name: kernbridge.kernel(name=name)(doubled_rows),
}


@pytest.mark.brief
@pytest.mark.parametrize("made", MADE)
def test_names_and_values(made):
    front_end = made.partition(" ")[0]
    op, other = MADE[made]("given"), MADE[made](None)
    assert op.__name__ == "given"
    assert f"{front_end} 'given'" in repr(op)
    assert other.__name__.startswith("doubled")
    assert "given" in str(jax.make_jaxpr(op)(X))
    for f in (op, other, jax.jit(op), lambda x: jax.vmap(op)(x[None])[0]):
        np.testing.assert_array_equal(f(X), 2 * X)
    with pytest.raises(TypeError, match=rf"{front_end} 'doubled\w*': name is 3, expected a text"):
        MADE[made](3)


@pytest.mark.parametrize("made", ["numba_kernel", "kernel with a signature"])
def test_a_message_has_the_given_name(made):
    with pytest.raises(TypeError, match=r"kernel 'given': input 0 'x' is i32\[4\]"):
        MADE[made]("given")(X.astype(int))
