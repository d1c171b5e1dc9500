"""Keywords of an operation may have the names of arguments of the functions that pass them on."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kernbridge import XLACustomKernel

S = jax.ShapeDtypeStruct
x = jnp.arange(3.0)
NAMES = ["name", "platform", "operation", "operands", "primals", "tangents", "cotangents",
         "inputs", "outputs", "args"]  # fmt: skip

TAKEN = ["ctx", "dims", "kernbridge", "primitive"]


def scaling(keyword, **rules):
    op = XLACustomKernel(f"test_keyword_names_{keyword}_{'_'.join(rules)}")
    op.def_kernel("jnp", "cpu", lambda outs, **given: lambda x: given[keyword] * x)
    for method, rule in rules.items():
        getattr(op, method)(rule)
    return lambda x: op(x, outs=S(x.shape, x.dtype), **{keyword: 3})


@pytest.mark.parametrize("keyword", NAMES)
def test_a_keyword_of_this_name(keyword):
    f = scaling(keyword, def_jvp_rule2=lambda t, x, **given: given[keyword] * t)
    np.testing.assert_array_equal(jax.vmap(f)(jnp.stack([x, x])), [3 * x, 3 * x])
    np.testing.assert_array_equal(jax.jvp(f, (x,), (x,))[1], 3 * x)
    f = scaling(
        keyword,
        def_jvp_rule=lambda p, t, **given: ([given[keyword] * p[0]], [given[keyword] * t[0]]),
        def_transpose_rule=lambda cts, x, **given: [given[keyword] * cts[0]],
    )
    np.testing.assert_array_equal(jax.jvp(f, (x,), (x,))[1], 3 * x)
    np.testing.assert_array_equal(jax.linear_transpose(f, x)(x)[0], 3 * x)
    f = scaling(keyword, def_vjp_rule=lambda p, r, cts, **given: (given[keyword] * cts[0],))
    np.testing.assert_array_equal(jax.grad(lambda x: f(x).sum())(x), [3, 3, 3])


@pytest.mark.parametrize("keyword", TAKEN)
def test_a_name_that_is_taken_is_refused(keyword):
    with pytest.raises(TypeError, match=rf"cannot be called '{keyword}', a name that.*KB8008\]"):
        scaling(keyword)(x)
