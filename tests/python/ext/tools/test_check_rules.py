"""check_rules: finds every kind of wrong rule, and nothing wrong in right ones."""

import itertools

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from kernbridge import RuleCheckError, XLACustomKernel, check_rules, numba_kernel
from kernbridge.errors import KernelFallbackExhaustedError

pytestmark = pytest.mark.once

S = jax.ShapeDtypeStruct
names = (f"test_check_rules_{i}" for i in itertools.count())
x = jnp.asarray([0.3, -1.2, 2.0, 0.7], jnp.float32)
y = jnp.asarray([1.5, 0.2, -0.9, 3.0], jnp.float32)


@numba.njit
def product(x, y, out):
    for i in range(out.shape[0]):
        out[i] = x[i] * x[i] * y[i]


def right_jvp(inputs, outputs, tangents):
    (x, y), (dx, dy) = inputs, tangents
    return 2 * x * y * dx + x * x * dy


def right_vjp(inputs, outputs, ct):
    x, y = inputs
    return 2 * x * y * ct, x * x * ct


def made(**rules):
    return numba_kernel(product, lambda x, y: S(x.shape, x.dtype), **rules)


def statuses(checks):
    return {c.check: c.status for c in checks}


@pytest.mark.parametrize(
    "rules",
    [{"jvp": right_jvp}, {"vjp": right_vjp}, {"jvp": right_jvp, "vjp": right_vjp}],
    ids=["jvp", "vjp", "both"],
)
def test_right_rules_pass(rules):
    op = made(**rules)
    checks = (
        check_rules(lambda both: op(*both), (x, y)) if len(rules) == 2 else check_rules(op, x, y)
    )
    assert statuses(checks) == dict.fromkeys(
        (
            "vjp against jvp",
            "jvp against central differences",
            "vmap over all inputs against a loop",
            "vmap over input 0 against a loop",
            "vmap over input 1 against a loop",
            "vmap of vjp against a loop",
        ),
        "passed",
    )
    assert max(c.error for c in checks) < 0.2


@pytest.mark.brief
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("rules", "failing"),
    [
        (
            {"jvp": lambda i, o, t: right_jvp(i, o, t) * 1.2, "vjp": right_vjp},
            ["vjp against jvp", "jvp against central"],
        ),
        (
            {"jvp": right_jvp, "vjp": lambda i, o, ct: (right_vjp(i, o, ct)[0], None)},
            ["vjp against jvp"],
        ),
        ({"vjp": lambda i, o, ct: (ct, ct)}, ["jvp against central"]),
        ({"jvp": lambda i, o, t: t[0]}, ["jvp against central"]),
    ],
    ids=["jvp too large", "vjp lacks an input", "vjp of a sum", "jvp of one input"],
)
def test_wrong_derivatives_are_found(rules, failing, seed):
    with pytest.raises(RuleCheckError) as caught:
        check_rules(made(**rules), x, y, seed=seed)
    failed = [c.check for c in caught.value.checks if c.status == "failed"]
    assert len(failed) == len(failing)
    for check, expected in zip(failed, failing, strict=True):
        assert check.startswith(expected)
        assert check in str(caught.value)
    assert "'product'" in str(caught.value)


def test_a_vjp_of_kernels_alone_is_compared_with_differences():
    @numba.njit
    def backward(x, y, ct, dx, dy):
        for i in range(x.shape[0]):
            dx[i] = 2 * x[i] * y[i] * ct[i]
            dy[i] = x[i] * x[i] * ct[i]

    reverse = numba_kernel(backward, lambda x, y, ct: (S(x.shape, x.dtype),) * 2)
    checks = statuses(check_rules(made(vjp=lambda i, o, ct: reverse(*i, ct)), x, y))
    assert checks["jvp"] == "skipped"
    assert checks["vjp against central differences"] == "passed"
    wrong = made(vjp=lambda i, o, ct: [2 * c for c in reverse(*i, ct)])
    with pytest.raises(RuleCheckError, match=r"\[KB2105\]"):
        check_rules(wrong, x, y)


def test_a_missing_rule_fails_unless_it_is_meant():
    with pytest.raises(RuleCheckError, match=r"KB2105\]\n  operation, derivatives: failed .*vjp="):
        check_rules(made(), x, y)
    op = XLACustomKernel(next(names))
    op.def_kernel("first", "cpu", lambda outs: made())
    with pytest.raises(RuleCheckError, match="first, derivatives: failed"):
        check_rules(op, x, y, outs=x)
    checks = statuses(check_rules(made(), x, y, require=False))
    assert checks["jvp"] == checks["vjp"] == "skipped"
    assert checks["vmap over all inputs against a loop"] == "passed"


def custom(**kernels):
    op = XLACustomKernel(next(names))
    for backend, f in kernels.items():
        op.def_kernel(backend, "cpu", lambda outs, f=f: f)
    op.def_vjp_rule(lambda i, r, cts, outs, backend=None: right_vjp(i, r, cts[0]))
    return op


def test_backends_are_compared():
    op = custom(first=lambda x, y: x * x * y, second=lambda x, y: x * x * y + (x > 1))
    with pytest.raises(RuleCheckError, match=r"(?s)\[KB2105\].*2") as caught:
        check_rules(op, x, y, outs=x)
    checks = caught.value.checks
    assert {c.backend for c in checks} == {"first", "second"}
    assert [c.status for c in checks if c.check == "outputs against first"] == ["failed"]
    assert {c.backend for c in check_rules(op, x, y, outs=x, backends=["first"])} == {"first"}
    with pytest.raises(KernelFallbackExhaustedError, match=r"'third'.*\[KB7006\]"):
        check_rules(op, x, y, outs=x, backends=["third"])
    with pytest.raises(ValueError, match=r"no backend on cpu \[KB7006\]"):
        check_rules(op, x, y, outs=x, backends=[])


@pytest.mark.exhaustive
def test_a_wrong_batching_rule_is_found():
    op = custom(first=lambda x, y: x * x * y)

    def rule(args, axes, outs, backend=None):
        a, b = (v if d == 0 else v[None] for v, d in zip(args, axes, strict=True))
        return [a * a * jnp.broadcast_to(b[:1], (3, 4))], [0]

    op.def_batching_rule(rule)
    with pytest.raises(RuleCheckError) as caught:
        check_rules(op, x, y, outs=x)
    failed = {c.check for c in caught.value.checks if c.status == "failed"}
    assert "vmap over all inputs against a loop" in failed
    assert "vmap over input 0 against a loop" not in failed


def test_the_function_of_def_call_is_used_without_outs():
    op = custom(first=lambda x, y: x * x * y)
    op.def_call(lambda x, y, backend=None: op(x, y, outs=x, backend=backend))
    assert {c.status for c in check_rules(op, x, y)} == {"passed"}
    with pytest.raises(TypeError, match=r"neither.*\[KB1005\]"):
        check_rules(made(), x, y, outs=x)


def test_surrogates_need_no_differences():
    @numba.njit
    def spike(v, out):
        for i in range(v.shape[0]):
            out[i] = v[i] > 0

    op = numba_kernel(
        spike,
        lambda v: S(v.shape, v.dtype),
        jvp=lambda i, o, t: t[0] / (1 + 10 * jnp.abs(i[0])) ** 2,
    )
    with pytest.raises(RuleCheckError, match=r"\[KB2105\]"):
        check_rules(op, x)
    assert {c.status for c in check_rules(op, x, finite_differences=False)} == {"passed"}


@pytest.mark.exhaustive
def test_integers_are_held_and_float64_is_checked_finely(x64):
    @numba.njit
    def gather(x, index, out):
        for i in range(index.shape[0]):
            out[i] = x[index[i]] ** 3

    def wrong_by(factor):
        return numba_kernel(
            gather,
            lambda x, i: S(i.shape, x.dtype),
            jvp=lambda i, o, t: factor * 3 * i[0][i[1]] ** 2 * t[0][i[1]],
        )

    point, index = jnp.linspace(-1, 1, 7, dtype=jnp.float64), jnp.asarray([3, 1, 1, 6])
    assert {c.status for c in check_rules(wrong_by(1), point, index)} == {"passed"}
    with pytest.raises(RuleCheckError):
        check_rules(wrong_by(1 + 1e-3), point, index)
    assert {c.status for c in check_rules(wrong_by(1 + 1e-3), point, index, rtol=1e-2)} == {
        "passed"
    }


def test_reals_of_different_sizes_are_compared(x64):
    @jax.custom_jvp
    def scaled(a, b):
        return (a * b).astype(jnp.float32)

    @scaled.defjvp
    def _(primals, tangents):
        (a, b), (da, db) = primals, tangents
        return scaled(a, b), (a * db + da * b).astype(jnp.float32)

    checks = check_rules(scaled, jnp.linspace(0.5, 2, 5), y[0])
    assert set(statuses(checks).values()) == {"passed"}


def test_zero_derivatives_are_no_false_alarm():
    op = numba_kernel(
        product, lambda x, y: S(x.shape, x.dtype), jvp=lambda i, o, t: right_jvp(i, o, t)
    )
    assert {c.status for c in check_rules(op, jnp.zeros(4), jnp.zeros(4))} == {"passed"}
    assert {c.status for c in check_rules(op, jnp.zeros(4), 1e3 * y)} == {"passed"}


def test_functions_of_jax_may_be_checked():
    assert {c.status for c in check_rules(jnp.dot, x, y)} == {"passed"}
    z = (x + 1j * y).astype(jnp.complex64)
    assert {c.status for c in check_rules(jnp.exp, z)} == {"passed"}
    assert [c.status for c in check_rules(jnp.sum, np.arange(3))] == ["skipped", "skipped"]


def test_what_cannot_be_called_is_refused():
    with pytest.raises(TypeError, match=r"check_rules: 3 is not an operation.*KB1001"):
        check_rules(3, jnp.ones(3))
