"""What a sharding rule may say, and the errors of those that say something else."""

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from kernbridge import ShardingRule, numba_kernel

pytestmark = pytest.mark.once
S = jax.ShapeDtypeStruct
FOUR = S((4,), np.float32)


@numba.njit
def one(x, out):
    out[...] = x.sum()


@numba.njit
def pair(x, y, out):
    out[...] = x.sum() + y.sum()


def wrap(rule, kernel=pair, outs=FOUR, **options):
    return numba_kernel(kernel, outs, sharding_rule=rule, **options)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("i, i", "the sharding rule is 'i, i', expected the names of dimensions as in"),
        (3, "the sharding rule is 3, expected the names"),
        ("i -> i -> i", "the sharding rule is 'i -> i -> i', expected the names"),
    ],
)
def test_what_is_no_rule(rule, message):
    error = ValueError if isinstance(rule, str) else TypeError
    with pytest.raises(error, match=f"numba_kernel 'pair': {message}"):
        wrap(rule)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("i 2, i -> i", "has the name '2', expected"),
        ("(i j), i -> i", r"has the name '\(i', expected"),
        ("i ..., i -> i", r"has the name '\.\.\.', expected"),
        ("i i, i -> i", "names 'i' twice in the term 'i i'; give the two dimensions different"),
    ],
)
def test_a_wrong_name(rule, message):
    with pytest.raises(ValueError, match=f"numba_kernel 'pair': the sharding rule .*{message}"):
        wrap(rule)


@pytest.mark.parametrize(
    ("rule", "reduce", "message"),
    [
        ("i -> i", "sum", "has no contracted dimension"),
        ("i j -> i", "max", "reduce is 'max' for 'j', expected 'sum'"),
        ("i j -> i", {"i": "sum"}, "reduce names 'i', which is not contracted .* are j"),
        ("i j -> i", {"j": "mean"}, "reduce is 'mean' for 'j'"),
    ],
)
def test_a_wrong_reduction(rule, reduce, message):
    with pytest.raises(ValueError, match=rf"{message}.*\[KB6001\]"):
        ShardingRule(rule, reduce)


def test_rules_are_compared_and_printed():
    rule = ShardingRule("i j, j -> i", reduce="sum")
    assert rule == ShardingRule("i j, j -> i", {"j": "sum"})
    assert hash(rule) == hash(eval(repr(rule)))
    assert rule != ShardingRule("i j, j -> i")
    assert wrap("i, i -> i") is wrap(ShardingRule("i, i -> i"))
    assert wrap("i, i -> i") is not wrap(None)


X = jnp.ones(4)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("i -> i", "has 1 input term, but the call has 2 inputs"),
        ("i, i -> i, i", "has 2 output terms, but the call has 1 output"),
        ("i, i -> i j", r"describes output 0 as 'i j', but it is f32\[4\] of rank 1"),
        ("i j, i -> i", r"describes input 0 as 'i j', but it is f32\[4\] of rank 1"),
        ("..., ... i -> i", r"input 1 as '... i', where ... stood for 1 before"),
    ],
)
def test_a_rule_that_does_not_fit_the_arrays(rule, message):
    with pytest.raises(ValueError, match=f"numba_kernel 'pair': the sharding rule .*{message}"):
        jax.eval_shape(wrap(rule), X, X)


def test_dimensions_of_one_name_are_of_one_size():
    message = (
        "names a dimension 'i' in input 0 and input 1, which has 4 elements in the first and 5"
    )
    with pytest.raises(ValueError, match=rf"{message}.*\[KB6001\]"):
        jax.eval_shape(wrap("i, i -> i"), X, jnp.ones(5))


def test_truth_values_are_not_summed():
    rule = ShardingRule("j -> i", reduce="sum")
    with pytest.raises(ValueError, match=r"output 0.*bool\[4\].*\[KB6001\]"):
        jax.eval_shape(wrap(rule, one, S((4,), bool)), X)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("i, j -> j", "names their dimensions 'i' and 'j'; use the same term for both"),
        (
            ShardingRule("i, i j -> i", reduce="sum"),
            "output 0 is a sum over 'j' .* starts as input 0 .* added once for each device",
        ),
    ],
)
def test_a_rule_that_does_not_fit_an_alias(rule, message):
    with pytest.raises(ValueError, match=f"(?s)numba_kernel 'pair': .*{message}"):
        wrap(rule, input_output_aliases={0: 0})


def test_a_rule_of_no_inputs():
    @numba.njit
    def fill(out):
        out[:] = 1

    np.testing.assert_array_equal(wrap("-> i", fill)(), np.ones(4))
