"""Kernels that raise on one device of several, while the others wait for it in a collective."""

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from kernbridge import ShardingRule, load_cpp_inline, numba_kernel
from sharded import SQUARE, put

S = jax.ShapeDtypeStruct


@numba.njit
def total(x, part, out):
    out[0] = 0
    for i in range(x.size):
        if x[i] < 0:
            raise ValueError("negative", x[i])
        part[i] = x[i]
        out[0] += x[i]


CPP = load_cpp_inline(
    "test_failing_devices",
    """
#include <kernbridge/kernbridge.hpp>
#include <stdexcept>
// @BE total arg ret
void total(const kernbridge::Tensor x, kernbridge::Tensor out) {
    float sum = 0;
    for (int64_t i = 0; i < x.numel(); ++i) {
        if (x.data_ptr<float>()[i] < 0) throw std::runtime_error("negative");
        sum += x.data_ptr<float>()[i];
    }
    out.data_ptr<float>()[0] = sum;
}
""",
)


def outs(x):
    return S(x.shape, x.dtype), S((1,), x.dtype)


def of_numba(x):
    return numba_kernel(total, outs, sharding_rule=ShardingRule("i -> i, k", reduce="sum"))(x)[1]


def the_other_output(x):
    return numba_kernel(total, outs, sharding_rule=ShardingRule("i -> i, k", reduce="sum"))(x)[0]


def of_cpp(x):
    rule = ShardingRule("i -> k", reduce="sum")
    return CPP.total(x, outs=S((1,), x.dtype), sharding_rule=rule)


def in_a_loop(x):
    return jax.lax.fori_loop(0, 3, lambda i, y: y + of_numba(x - i), jnp.zeros(1))


def twice(x):
    return of_numba(x) + of_numba(x + 1)


def once(x):
    return numba_kernel(total, outs, has_side_effect=True)(x)[1]


@pytest.mark.brief
@pytest.mark.parametrize("function", [of_numba, the_other_output, of_cpp, in_a_loop, twice, once])
def test_the_error_of_one_device_reaches_the_caller(function):
    good, bad = jnp.arange(8.0) + 10, jnp.arange(8.0).at[5].set(-1.0)
    jitted, want = jax.jit(function), function(good)
    for _ in range(2):
        with pytest.raises(jax.errors.JaxRuntimeError, match=r"negative.*KB3"):
            np.asarray(jitted(put(bad, "x")))
        np.testing.assert_array_equal(jitted(put(good, "x")), want)


def test_groups_of_devices_fail_together():
    jitted = jax.jit(jax.vmap(of_numba))
    x = jnp.ones((2, 8)).at[1, 3].set(-2.0)
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"negative.*KB3001"):
        np.asarray(jitted(put(x, "x", "y", on=SQUARE)))
    assert jitted(put(abs(x), "x", "y", on=SQUARE)).tolist() == [[8], [9]]
