"""Derivatives of functions of CUDA modules on the CPU, against JAX's own of equal functions."""

import functools

import cuda_modules
import jax
import jax.numpy as jnp
import pytest
from kernbridge.errors import NoDerivativeError, NvccNotFoundError
from needs_enzyme import assert_derivatives, needs_enzyme

pytestmark = [
    pytest.mark.once,
    needs_enzyme,
    pytest.mark.usefixtures("without_fake_gpu"),
    pytest.mark.filterwarnings("ignore:.*KB7002"),
]
FAST = {"scattered": "float32"}


@functools.cache
def module(dtype):
    try:  # the launches are recorded from what nvcc makes
        cuda_modules.module(dtype, compute_capability="9.0")
    except NvccNotFoundError as e:
        pytest.skip(f"no nvcc: {str(e).splitlines()[0]}")
    return cuda_modules.module(dtype)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        pytest.param(name, dtype, marks=() if FAST.get(name) == dtype else pytest.mark.exhaustive)
        for name in cuda_modules.CASES
        for dtype in ("float32", "float64")
    ],
)
def test_derivatives_agree_with_jax(name, dtype):
    with jax.enable_x64(True):
        op, reference, arguments = cuda_modules.case(name, module(dtype), dtype)
        assert_derivatives(op, reference, *arguments, batched=name in ("energy", "scattered"))


def test_integers_in_temporary_memory_are_constant():
    x = jnp.linspace(0.1, 2, 7)
    op = module("float32").rounded.operation(x, derivatives="enzyme")
    value, tangent = jax.jvp(op, (x,), (jnp.ones_like(x),))
    assert (value == jnp.floor(16 * x)).all()
    assert not tangent.any()
    assert not jax.vjp(op, x)[1](x)[0].any()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("waits", "cannot be recorded: it copies between the host and the device"),
        ("untyped", "temporary memory that holds float32 and void"),
        ("clusters", "cluster="),
        ("changed_bits", "uses the bits of real numbers as integers"),
    ],
)
def test_refusals(name, why):
    x = jnp.linspace(0.1, 2, 7)
    out = jax.ShapeDtypeStruct((1,), x.dtype) if name == "untyped" else x
    op = module("float32")[name].operation(out, derivatives="enzyme")
    derivatives = (
        lambda x: jax.vjp(op, x)[1](jnp.ones(out.shape)),
        lambda x: jax.jvp(op, (x,), (x,)),
    )
    for derived in derivatives:
        with pytest.raises(NoDerivativeError, match=rf"'launchers_f32\.{name}'.*{why}.*KB2107"):
            jax.jit(derived).lower(x)


def test_second_derivatives_are_refused():
    op, _, (x,) = cuda_modules.case("energy", module("float32"), "float32")
    with pytest.raises(NoDerivativeError, match="second derivatives of launches are not made"):
        jax.hessian(lambda x: op(x)[0])(x)
