"""Training that is interrupted and resumed by Orbax, and programs that other processes run."""

import pickle
import subprocess
import sys

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest
from jax import export
from references import assert_close

optax = pytest.importorskip("optax")


@kernbridge.kernel("w: f64[n], x: f64[b, n] -> f64[b]", derivatives="enzyme")
@numba.njit
def neuron(w, x, out):
    for i in range(out.size):
        u = 0.0
        for j in range(w.size):
            u += w[j] * x[i, j]
        out[i] = np.tanh(u)


def neuron_in_jax(w, x):
    return jnp.tanh(x @ w)


X = np.random.default_rng(0).normal(size=(50, 6))
Y = np.tanh(X @ np.linspace(-1, 1, 6))
optimizer = optax.adam(0.05)


def loss(w, x, f=neuron):
    return jnp.mean((f(w, x) - Y) ** 2)


@jax.jit
def step(state):
    w, moments = state
    updates, moments = optimizer.update(jax.grad(loss)(w, X), moments)
    return optax.apply_updates(w, updates), moments


def start():
    w = jnp.zeros(6)
    return w, optimizer.init(w)


def trained(state, steps):
    for _ in range(steps):
        state = step(state)
    return state


def test_training_goes_on_from_a_checkpoint_bit_for_bit(tmp_path):
    checkpoint = pytest.importorskip("orbax.checkpoint")
    whole, half = trained(start(), 20), trained(start(), 10)
    with checkpoint.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "half", half)
        checkpointer.wait_until_finished()
        loaded = checkpointer.restore(tmp_path / "half", jax.eval_shape(lambda: start()))
    resumed = trained(loaded, 10)
    for a, b in zip(jax.tree.leaves(resumed), jax.tree.leaves(whole), strict=True):
        np.testing.assert_array_equal(a, b)
    assert loss(whole[0], X) < loss(start()[0], X) / 2


def test_a_train_state_of_flax_goes_through_a_checkpoint(tmp_path):
    checkpoint = pytest.importorskip("orbax.checkpoint")
    train_state = pytest.importorskip("flax.training.train_state")

    def fresh():
        return train_state.TrainState.create(
            apply_fn=neuron, params={"w": jnp.ones(6)}, tx=optimizer
        )

    state = fresh()
    state = state.apply_gradients(grads=jax.grad(lambda p: loss(p["w"], X))(state.params))
    with checkpoint.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "state", state)
        checkpointer.wait_until_finished()
        loaded = checkpointer.restore(tmp_path / "state", fresh())
    np.testing.assert_array_equal(loaded.params["w"], state.params["w"])
    found = loaded.apply_fn(loaded.params["w"], X)
    np.testing.assert_array_equal(found, neuron(state.params["w"], X))


SERVER = """
import sys
sys.modules["numba"] = sys.modules["llvmlite"] = None  # it has neither
import jax, numpy as np
from jax import export
jax.config.update("jax_enable_x64", True)
program = export.deserialize(bytearray(open("program", "rb").read()))
w, x = np.load("w.npy"), np.load("x.npy")
value, gradient = program.call(w, x)
pulled = program.vjp().call(w, x, np.ones(()), np.zeros(6))[0] if len(sys.argv) > 1 else gradient
np.save("found.npy", np.stack([np.full(6, value), gradient, pulled]))
"""


def served(folder, exported, x, *arguments):
    """What a process without Numba computes with an exported program."""
    order = 1 if arguments else 0
    (folder / "program").write_bytes(bytes(exported.serialize(vjp_order=order)))
    w = np.linspace(-0.5, 0.5, 6)
    np.save(folder / "w.npy", w)
    np.save(folder / "x.npy", x)
    subprocess.run([sys.executable, "-c", SERVER, *arguments], cwd=folder, check=True)
    return w, np.load(folder / "found.npy")


def value_and_grad(f):
    return jax.value_and_grad(lambda w, x: jnp.sum(f(w, x) ** 2))


def test_an_exported_gradient_with_its_derivative(tmp_path):
    shapes = [jax.ShapeDtypeStruct(s, jnp.float64) for s in ((6,), X.shape)]
    exported = export.export(jax.jit(value_and_grad(neuron)))(*shapes)
    w, found = served(tmp_path, exported, X, "vjp")
    value, gradient = value_and_grad(neuron_in_jax)(w, X)
    assert_close(found, np.stack([np.full(6, value), gradient, gradient]))


def test_an_exported_program_for_any_batch(tmp_path):
    (b,) = export.symbolic_shape("b")
    shapes = [jax.ShapeDtypeStruct(s, jnp.float64) for s in ((6,), (b, 6))]
    exported = export.export(jax.jit(value_and_grad(neuron)))(*shapes)
    for size in 3, 11:
        w, found = served(tmp_path, exported, X[:size])
        assert_close(found[1], value_and_grad(neuron_in_jax)(w, X[:size])[1])


def test_operations_are_pickled_by_name():
    loaded = pickle.loads(pickle.dumps(neuron))
    assert loaded is neuron or loaded == neuron
    np.testing.assert_array_equal(loaded(jnp.ones(6), X), neuron(jnp.ones(6), X))


def test_compilation_ahead_of_time():
    from jax.experimental import serialize_executable

    lowered = jax.jit(value_and_grad(neuron)).lower(jnp.ones(6), X)
    compiled = lowered.compile()
    expected = value_and_grad(neuron_in_jax)(jnp.ones(6), X)
    assert_close(compiled(jnp.ones(6), X), expected)
    loaded = serialize_executable.deserialize_and_load(*serialize_executable.serialize(compiled))
    assert_close(loaded(jnp.ones(6), X), expected)
