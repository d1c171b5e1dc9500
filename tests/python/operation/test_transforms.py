"""JAX's transformations and control flow around an operation."""

import functools

import jax
import jax.numpy as jnp
import kernbridge._core as _core
import numba
import numpy as np
import pytest
from kernbridge import numba_kernel
from kernels import add, scale, split

S = jax.ShapeDtypeStruct
x = jnp.arange(4, dtype=jnp.float32)
op = numba_kernel(add, S((4,), jnp.float32))


def test_jit_and_nested_jit():
    f = jax.jit(lambda a: jax.jit(lambda b: op(b, b) + 1)(a * 2))
    np.testing.assert_array_equal(f(x), 4 * np.asarray(x) + 1)


def test_scan():
    final, every = jax.lax.scan(lambda c, b: (op(c, b), op(c, c)), x, jnp.ones((5, 4)))
    np.testing.assert_array_equal(final, np.asarray(x) + 5)
    np.testing.assert_array_equal(every[3], 2 * (np.asarray(x) + 3))


def test_while():
    f = jax.jit(lambda x: jax.lax.while_loop(lambda y: y[0] < 10, lambda y: op(y, jnp.ones(4)), x))
    np.testing.assert_array_equal(f(x), np.asarray(x) + 10)


def test_fori_loop_cond_and_switch():
    def body(i, y):
        return jax.lax.cond(i % 2 == 0, lambda a: op(a, a), lambda a: op(a, jnp.ones(4)), y)

    y = np.asarray(x)
    for i in range(5):
        y = 2 * y if i % 2 == 0 else y + 1
    np.testing.assert_array_equal(jax.lax.fori_loop(0, 5, body, x), y)
    branches = [lambda a: op(a, a), lambda a: a, lambda a: op(a, -a)]
    for i in range(3):
        want = [2 * np.asarray(x), x, np.zeros(4)][i]
        np.testing.assert_array_equal(jax.lax.switch(jnp.int32(i), branches, x), want)


def test_remat():
    @jax.custom_vjp
    def double(x):
        return op(x, x)

    double.defvjp(lambda x: (op(x, x), None), lambda _, ct: (op(ct, ct),))
    f = jax.checkpoint(lambda x: jnp.sum(jnp.sin(double(x))))
    np.testing.assert_allclose(jax.grad(f)(x), 2 * np.cos(2 * np.asarray(x)), rtol=1e-6)


def test_custom_vjp_grad_vmap_of_grad_and_grad_of_vmap():
    run = numba_kernel(scale, lambda x, alpha: S(x.shape, x.dtype))

    @jax.custom_vjp
    def f(x, a):
        return run(x, alpha=a)

    f.defvjp(
        lambda x, a: (run(x, alpha=a), (x, a)),
        lambda res, ct: (run(ct, alpha=res[1]), jnp.vdot(res[0], ct)),
    )
    loss = lambda x, a: jnp.sum(f(x, a) ** 2)  # noqa: E731
    pure = lambda x, a: jnp.sum((a * x) ** 2)  # noqa: E731
    gx, ga = jax.grad(loss, (0, 1))(x, 3.0)
    wx, wa = jax.grad(pure, (0, 1))(x, 3.0)
    np.testing.assert_allclose(gx, wx, rtol=1e-6)
    np.testing.assert_allclose(ga, wa, rtol=1e-6)
    batch = jnp.stack([x, -2 * x, x + 1])
    np.testing.assert_allclose(
        jax.vmap(jax.grad(loss), (0, None))(batch, 3.0),
        jax.vmap(jax.grad(pure), (0, None))(batch, 3.0),
        rtol=1e-6,
    )
    total = lambda fn: lambda b: jnp.sum(jax.vmap(fn, (0, None))(b, 3.0))  # noqa: E731
    np.testing.assert_allclose(
        jax.grad(total(loss))(batch), jax.grad(total(pure))(batch), rtol=1e-6
    )


def test_custom_jvp():
    @jax.custom_jvp
    def double(x):
        return op(x, x)

    double.defjvp(lambda primals, tangents: (double(*primals), 2 * tangents[0]))
    value, tangent = jax.jvp(double, (x,), (jnp.ones(4),))
    np.testing.assert_array_equal(value, 2 * np.asarray(x))
    np.testing.assert_array_equal(tangent, np.full(4, 2))
    np.testing.assert_array_equal(jax.grad(lambda x: double(x).sum())(x), np.full(4, 2))


def test_stop_gradient_lets_a_loss_through():
    f = lambda x: jnp.sum(x * op(jax.lax.stop_gradient(x), jnp.ones(4)))  # noqa: E731
    np.testing.assert_array_equal(jax.grad(f)(x), np.asarray(x) + 1)


def test_disable_jit():
    with jax.disable_jit():
        np.testing.assert_array_equal(op(x, np.ones(4, np.float32)), np.asarray(x) + 1)
        got = jax.vmap(op, (0, None))(jnp.stack([x, x]), x)
        np.testing.assert_array_equal(got, 2 * np.stack([x, x]))


def test_abstract_evaluation_compiles_nothing():
    compiled = []

    @numba.njit
    def kernel(x, out):
        out[:] = x

    fresh = numba_kernel(kernel, lambda x: S(x.shape, x.dtype))
    before = _core.registry_stats()
    for f in (fresh, jax.vmap(fresh), lambda x: jax.lax.map(fresh, x)):
        shape = (3,) if f is fresh else (2, 3)
        assert jax.eval_shape(f, S(shape, jnp.float32)).shape == shape
        jax.make_jaxpr(f)(S(shape, jnp.float32))
    assert _core.registry_stats() == before
    assert not kernel.overloads
    assert not compiled


def test_jaxpr_holds_one_call_and_no_wrapper():
    jaxpr = jax.make_jaxpr(jax.jit(lambda x: op(x, x)))(x)
    assert str(jaxpr).count(" = add[") == 1


def test_profile_names_come_from_the_kernel():
    assert op.__name__ == "add"
    assert "add" in repr(op)
    assert "jit_add" in op._jitted.lower(x, x).as_text()


def test_donation_with_an_alias_works_in_place():
    @numba.njit
    def increment(x, out):
        for i in range(out.size):
            out[i] = x[i] + 1

    op = numba_kernel(increment, S((1000,), jnp.float32), input_output_aliases={0: 0})
    f = jax.jit(op, donate_argnums=0)
    y = jax.device_put(jnp.arange(1000, dtype=jnp.float32))
    address = y.unsafe_buffer_pointer()
    z = f(y)
    assert z.unsafe_buffer_pointer() == address
    assert y.is_deleted()
    np.testing.assert_array_equal(z, np.arange(1000) + 1)


@pytest.mark.filterwarnings("ignore::kernbridge.KernbridgeWarning")
def test_xla_copies_no_buffer_unless_the_kernel_writes_to_an_input():
    @numba.njit
    def writes(x, y, out):
        x[0] = y[0]
        out[:] = x

    def copies(kernel):
        program = jax.jit(numba_kernel(kernel, S((4,), jnp.float32))).lower(x, x).compile()
        return program.as_text().count(" copy(")

    assert copies(add) == 0
    assert copies(writes) == 1


def test_alias_without_donation_leaves_the_input_alone():
    @numba.njit
    def increment(x, out):
        x[0] = 100
        out[1] += 1

    op = numba_kernel(increment, S((3,), jnp.float32), input_output_aliases={0: 0})
    y = jnp.zeros(3)
    np.testing.assert_array_equal(op(y), [100, 1, 0])
    np.testing.assert_array_equal(jax.jit(op)(y), [100, 1, 0])
    np.testing.assert_array_equal(y, np.zeros(3))


@numba.njit
def check_positive(x):
    if x[0] < 0:
        raise ValueError("it ran")


def ran(f, *args):
    try:
        jax.block_until_ready(f(*args))
        jax.effects_barrier()
    except jax.errors.JaxRuntimeError as e:
        return "it ran" in str(e)
    return False


def test_kernel_without_outputs_runs():
    op = numba_kernel(check_positive, [])
    assert op(x) == []
    negative = -jnp.ones(4)
    assert ran(op, negative)
    assert ran(jax.jit(lambda x: (op(x), x + 1)[1]), negative)
    assert not ran(jax.jit(lambda x: (op(x), x + 1)[1]), x)
    assert ran(lambda x: jax.lax.fori_loop(0, 3, lambda i, y: (op(y), y)[1], x), negative)


def test_unused_outputs_run_only_with_side_effects():
    @numba.njit
    def kernel(x, out):
        if x[0] < 0:
            raise ValueError("it ran")
        out[:] = x

    pure = numba_kernel(kernel, S((4,), jnp.float32))
    effectful = numba_kernel(kernel, S((4,), jnp.float32), has_side_effect=True)
    negative = -jnp.ones(4)
    assert not ran(jax.jit(lambda x: (pure(x), x + 1)[1]), negative)
    assert ran(jax.jit(lambda x: (effectful(x), x + 1)[1]), negative)
    assert ran(jax.jit(jax.checkpoint(lambda x: (effectful(x), x + 1)[1])), negative)


def test_several_outputs_under_every_loop():
    op = numba_kernel(split, [S((4,), jnp.float32)] * 2)

    @functools.partial(jax.jit, static_argnums=1)
    def f(x, n):
        return jax.lax.fori_loop(0, n, lambda i, c: tuple(op(c[0] / 2)), (x, x))

    a, b = f(x, 3)
    np.testing.assert_allclose(a, x)
    np.testing.assert_allclose(b, 1.5 * np.asarray(x))


@pytest.mark.parametrize("transposed", [False, True])
def test_layout_is_row_major_whatever_comes_before(transposed):
    @numba.njit
    def ravel(x, out):
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                out[i * x.shape[1] + j] = x[i, j]

    op = numba_kernel(ravel, S((6,), jnp.float32))
    m = jnp.arange(6, dtype=jnp.float32).reshape((3, 2) if transposed else (2, 3))
    f = jax.jit(lambda m: op(m.T if transposed else m))
    want = np.asarray(m).T if transposed else np.asarray(m)
    np.testing.assert_array_equal(f(m), want.ravel())
