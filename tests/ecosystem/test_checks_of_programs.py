"""Random numbers, and what finds faults: checkify, debug_nans, eval_shape and others."""

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest
from jax.experimental import checkify
from references import assert_close


@kernbridge.kernel("x: f64[n], noise: f64[n], rate: f64 -> f64[n]", derivatives="enzyme")
@numba.njit
def walk(x, noise, rate, out):
    """A step of an Ornstein-Uhlenbeck process for each element."""
    for i in range(x.size):
        out[i] = x[i] - rate * x[i] + noise[i]


def walk_in_jax(x, noise, rate):
    return x - rate * x + noise


@kernbridge.kernel("x: f64[n] -> f64[n]", derivatives="enzyme")
@numba.njit
def root(x, out):
    for i in range(x.size):
        out[i] = np.sqrt(x[i])


def paths(step, key, rate):
    def body(x, key):
        x = step(x, 0.1 * jax.random.normal(key, x.shape), rate)
        return x, x

    return jax.lax.scan(body, jnp.ones(5), jax.random.split(key, 100))[1]


def test_a_seed_decides_a_program():
    key = jax.random.key(3)
    first, second, expected = (paths(f, key, 0.1) for f in (walk, walk, walk_in_jax))
    np.testing.assert_array_equal(first, second)
    assert_close(first, expected)
    gradient, expected = (
        jax.grad(lambda rate, f=f: jnp.var(paths(f, key, rate)))(0.1) for f in (walk, walk_in_jax)
    )
    assert_close(gradient, expected)
    keys = jax.random.split(key, 3)
    many = jax.vmap(lambda key: paths(walk, key, 0.1))(keys)
    np.testing.assert_array_equal(many[1], paths(walk, keys[1], 0.1))


def test_a_key_is_not_an_array_for_a_kernel():
    with pytest.raises(TypeError, match="key"):
        root(jax.random.split(jax.random.key(0), 3))


def test_the_bits_of_a_key_are_an_array_for_a_kernel():
    @kernbridge.kernel("bits: u32[2] -> u32[2]")
    @numba.njit
    def copied(bits, out):
        out[:] = bits

    key = jax.random.key(7)
    again = jax.random.wrap_key_data(copied(jax.random.key_data(key)))
    np.testing.assert_array_equal(jax.random.normal(again, 3), jax.random.normal(key, 3))


def test_checkify_around_a_kernel():
    def checked(x):
        checkify.check(jnp.all(x >= 0), "x has negative elements")
        return jnp.sum(root(x))

    run = jax.jit(checkify.checkify(checked))
    error, value = run(jnp.array([1.0, 4.0]))
    assert error.get() is None
    assert value == 3.0
    error, _ = run(jnp.array([1.0, -4.0]))
    assert "negative" in error.get()
    gradient = jax.jit(checkify.checkify(jax.grad(checked)))
    error, found = gradient(jnp.array([1.0, 4.0]))
    assert error.get() is None
    assert_close(found, np.array([0.5, 0.25]))


def test_error_if_of_equinox():
    eqx = pytest.importorskip("equinox")

    @eqx.filter_jit
    def run(x):
        x = eqx.error_if(x, jnp.any(x < 0), "x has negative elements")
        return root(x)

    assert_close(run(jnp.array([4.0])), np.array([2.0]))
    with pytest.raises(Exception, match="negative elements"):
        run(jnp.array([-4.0]))


def test_debug_nans():
    with jax.debug_nans(True):
        assert root(jnp.ones(2)).tolist() == [1.0, 1.0]
        with pytest.raises(FloatingPointError, match="nan"):
            root(-jnp.ones(2)).block_until_ready()
        with pytest.raises(FloatingPointError, match="nan"):
            jax.jit(lambda x: 2 * root(x))(-jnp.ones(2)).block_until_ready()


def test_debug_infs():
    with jax.debug_infs(True), pytest.raises(FloatingPointError, match="inf"):
        root(jnp.array([np.inf])).block_until_ready()


def test_without_jit():
    key = jax.random.key(3)
    with jax.disable_jit():
        found = jax.grad(lambda rate: jnp.var(paths(walk, key, rate)))(0.1)
    assert_close(found, jax.grad(lambda rate: jnp.var(paths(walk_in_jax, key, rate)))(0.1))


def test_shapes_without_a_run():
    shape = jax.eval_shape(walk, *[jax.ShapeDtypeStruct((7,), jnp.float64)] * 2, 0.1)
    assert (shape.shape, shape.dtype) == ((7,), jnp.float64)
    closed = jax.make_jaxpr(jax.grad(lambda x: root(x).sum()))(jnp.ones(3))
    assert [v.aval.shape for v in closed.jaxpr.outvars] == [(3,)]


def test_strict_modes():
    with (
        jax.numpy_dtype_promotion("strict"),
        jax.checking_leaks(),
        jax.numpy_rank_promotion("raise"),
        jax.transfer_guard("log"),
    ):
        found = jax.jit(jax.grad(lambda x: root(x).sum()))(jnp.array([4.0, 1.0]))
    assert_close(found, np.array([0.25, 0.5]))


def test_prints_around_a_kernel(capfd):
    @jax.jit
    def run(x):
        y = root(x)
        jax.debug.print("root {y}", y=y)
        return y

    run(jnp.array([4.0])).block_until_ready()
    jax.effects_barrier()
    assert "root [2.]" in capfd.readouterr().out


def test_an_exception_of_a_kernel_is_caught():
    @kernbridge.kernel("x: f64[n] -> f64[n]")
    @numba.njit
    def positive(x, out):
        for i in range(x.size):
            if x[i] < 0:
                raise ValueError("x has negative elements")
            out[i] = x[i]

    assert positive(jnp.ones(2)).tolist() == [1.0, 1.0]
    with pytest.raises(Exception, match="negative elements"):
        jax.jit(positive)(-jnp.ones(2)).block_until_ready()
    assert positive(jnp.ones(2)).tolist() == [1.0, 1.0]
