"""Roots and minima of kernels, with derivatives by the implicit function theorem."""

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest
from references import assert_close, assert_differences

N = 8


@kernbridge.kernel("x: f64[n], force: f64[n] -> f64[n]", derivatives="enzyme")
@numba.njit
def balance(x, force, out):
    """A chain of springs that stiffen, with a force on each node; zero where it is at rest."""
    for i in range(x.size):
        left = x[i] - x[i - 1] if i > 0 else x[i]
        right = x[i + 1] - x[i] if i + 1 < x.size else -x[i]
        out[i] = left + left**3 - right - right**3 - force[i]


@kernbridge.kernel("x: f64[n], force: f64[n] -> f64[]", derivatives="enzyme")
@numba.njit
def energy(x, force, out):
    total = 0.0
    for i in range(x.size + 1):
        length = (x[i] if i < x.size else 0.0) - (x[i - 1] if i > 0 else 0.0)
        total += length**2 / 2 + length**4 / 4
    for i in range(x.size):
        total -= force[i] * x[i]
    out[()] = total


def energy_in_jax(x, force):
    length = jnp.diff(jnp.pad(x, 1))
    return jnp.sum(length**2 / 2 + length**4 / 4) - jnp.sum(force * x)


balance_in_jax = jax.grad(energy_in_jax)
FORCE = np.random.default_rng(0).normal(size=N)


def newton(force):
    """The position at rest by Newton's method in JAX alone; its derivative is that of its steps."""
    x = jnp.zeros(N)
    for _ in range(12):
        x -= jnp.linalg.solve(jax.jacfwd(balance_in_jax)(x, force), balance_in_jax(x, force))
    return x


def assert_is_at_rest(solve, rtol=1e-7):
    """Value, gradient, Jacobian and `vmap` of `solve(force)` are those of Newton's method."""
    assert_close(solve(FORCE), newton(FORCE), rtol, atol=1e-9)
    found, expected = (
        jax.grad(lambda force, f=f: jnp.sum(jnp.cos(f(force))))(FORCE) for f in (solve, newton)
    )
    assert_close(found, expected, 10 * rtol, atol=1e-7)
    assert_differences(lambda force: jnp.sum(jnp.cos(solve(force))), found, FORCE, rtol=1e-3)
    many = np.stack([FORCE, -0.5 * FORCE])
    assert_close(jax.vmap(solve)(many), jax.vmap(newton)(many), rtol, atol=1e-8)


def test_the_kernels():
    x = jnp.linspace(-1, 1, N)
    assert_close(balance(x, FORCE), balance_in_jax(x, FORCE))
    assert_close(energy(x, FORCE), energy_in_jax(x, FORCE))
    for argument in 0, 1:
        found, expected = (
            jax.jacrev(f, argument)(x, FORCE) for f in (jax.grad(energy), balance_in_jax)
        )
        assert_close(found, expected)
    found, expected = (jax.jacrev(jax.jacfwd(f))(x, FORCE) for f in (balance, balance_in_jax))
    assert_close(found, expected)


@pytest.mark.parametrize("name", ["Newton", "Dogleg", "LevenbergMarquardt"])
def test_roots_by_optimistix(name):
    optimistix = pytest.importorskip("optimistix")
    solver = getattr(optimistix, name)(rtol=1e-11, atol=1e-11)
    find = optimistix.least_squares if name == "LevenbergMarquardt" else optimistix.root_find

    def solve(force):
        start = 0.1 * jnp.ones(N)
        return find(balance, solver, start, force, max_steps=1000).value

    assert_is_at_rest(solve)


def test_minima_by_optimistix():
    optimistix = pytest.importorskip("optimistix")
    solver = optimistix.BFGS(rtol=1e-11, atol=1e-11)
    assert_is_at_rest(lambda f: optimistix.minimise(energy, solver, jnp.zeros(N), f).value)


@pytest.mark.parametrize("name", ["LevenbergMarquardt", "GaussNewton", "Broyden"])
def test_roots_by_jaxopt(name):
    jaxopt = pytest.importorskip("jaxopt")
    options = {"fun": balance} if name == "Broyden" else {"residual_fun": balance}
    solver = getattr(jaxopt, name)(**options, tol=1e-12, maxiter=200, implicit_diff=True)
    assert_is_at_rest(lambda force: solver.run(0.1 * jnp.ones(N), force).params)


def test_minima_by_jaxopt():
    jaxopt = pytest.importorskip("jaxopt")
    solver = jaxopt.LBFGS(fun=energy, tol=1e-12, maxiter=200, implicit_diff=True)
    assert_is_at_rest(lambda force: solver.run(jnp.zeros(N), force).params)


def test_implicit_differentiation_by_jaxopt():
    implicit_diff = pytest.importorskip("jaxopt.implicit_diff")

    @implicit_diff.custom_root(balance)
    def solve(start, force):
        return jax.lax.stop_gradient(newton(force))

    assert_is_at_rest(lambda force: solve(jnp.zeros(N), force))


def test_custom_root_of_jax():
    def steps(f, x):
        for _ in range(12):
            x -= jnp.linalg.solve(jax.jacfwd(f)(x), f(x))
        return x

    def tangents(g, y):
        return jnp.linalg.solve(jax.jacobian(g)(y), y)

    def solve(force):
        return jax.lax.custom_root(lambda x: balance(x, force), jnp.zeros(N), steps, tangents)

    assert_is_at_rest(solve)
    second, expected = (
        jax.hessian(lambda force, f=f: jnp.sum(jnp.cos(f(force))))(FORCE) for f in (solve, newton)
    )
    assert_close(second, expected, atol=1e-9)


def test_minima_by_optax():
    optax = pytest.importorskip("optax")
    optimizer = optax.lbfgs()

    @jax.jit
    def solve(force):
        def loss(x):
            return energy(x, force)

        value_and_grad = optax.value_and_grad_from_state(loss)

        def step(_, carry):
            x, state = carry
            value, gradient = value_and_grad(x, state=state)
            updates, state = optimizer.update(
                gradient, state, x, value=value, grad=gradient, value_fn=loss
            )
            return optax.apply_updates(x, updates), state

        x = jnp.zeros(N)
        return jax.lax.fori_loop(0, 60, step, (x, optimizer.init(x)))[0]

    assert_close(solve(FORCE), newton(FORCE), rtol=1e-6, atol=1e-7)
