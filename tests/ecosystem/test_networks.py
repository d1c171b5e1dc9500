"""A sparse layer in Flax NNX, Flax Linen and Equinox, trained by Optax, in C++ and in Numba."""

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest
from references import assert_close

optax = pytest.importorskip("optax")

PRODUCT = kernbridge.load_cpp_inline(
    "ecosystem_layer",
    r"""
// @BE product w: f32[rows, k], columns: i32[rows, k], x: f32[n], rows, k -> f32[rows]
void product(const float *w, const int *columns, const float *x, int rows, int k, float *out) {
    for (int r = 0; r < rows; r++) {
        out[r] = 0;
        for (int j = 0; j < k; j++) out[r] += w[r * k + j] * x[columns[r * k + j]];
    }
}
""",
)


@kernbridge.kernel(
    "w: f32[rows, k], columns: i32[rows, k], x: f32[n] -> f32[rows]", derivatives="enzyme"
)
@numba.njit
def in_numba(w, columns, x, out):
    for r in range(out.size):
        out[r] = 0
        for j in range(w.shape[1]):
            out[r] += w[r, j] * x[columns[r, j]]


def in_jax(w, columns, x):
    return jnp.sum(w * x[columns], 1)


in_cpp = PRODUCT.product.operation(derivatives="enzyme")
with_rule = PRODUCT.product.operation(
    vjp=lambda ct, *, w, columns, x: {
        "w": ct[:, None] * x[columns],
        "x": jnp.zeros_like(x).at[columns].add(ct[:, None] * w),
    }
)
KERNELS = {"numba": in_numba, "cpp": in_cpp, "rule": with_rule}
KERNELS = [pytest.param(kernel, id=name) for name, kernel in KERNELS.items()]
COLUMNS = np.random.default_rng(1).integers(0, 8, (32, 4)).astype(np.int32)
X = np.random.default_rng(2).normal(size=(64, 8)).astype(np.float32)
Y = np.sin(X[:, :1])
STEPS = 25


def batched(product, w, columns, x):
    return jax.vmap(product, (None, None, 0))(w, columns, x)


def assert_trains_as(train, kernel):
    """Losses with the kernel fall, and are those with the layer in JAX."""
    losses, expected = (np.array(train(product)) for product in (kernel, in_jax))
    assert losses[-1] < losses[0] / 3
    assert_close(losses, expected, rtol=1e-3)  # sums in float32 in another order


@pytest.mark.parametrize("kernel", KERNELS)
def test_flax_nnx(kernel):
    nnx = pytest.importorskip("flax.nnx")

    class Network(nnx.Module):
        def __init__(self, product, rngs):
            self.product = product
            self.w = nnx.Param(jax.random.normal(rngs.params(), (32, 4), jnp.float32) / 2)
            self.columns = nnx.Variable(jnp.asarray(COLUMNS))
            self.out = nnx.Linear(32, 1, rngs=rngs)

        def __call__(self, x):
            return self.out(jnp.tanh(batched(self.product, self.w[...], self.columns[...], x)))

    @nnx.jit
    def step(network, optimizer):
        loss, gradient = nnx.value_and_grad(lambda n: jnp.mean((n(X) - Y) ** 2))(network)
        optimizer.update(network, gradient)
        return loss

    def train(product):
        network = Network(product, nnx.Rngs(0))
        optimizer = nnx.Optimizer(network, optax.adam(0.03), wrt=nnx.Param)
        return [float(step(network, optimizer)) for _ in range(STEPS)]

    assert_trains_as(train, kernel)


@pytest.mark.parametrize("remat", [False, True], ids=["stored", "remat"])
def test_a_stack_of_layers_in_flax_nnx(remat):
    """Layers that `nnx.scan` runs through, with and without `nnx.remat`."""
    nnx = pytest.importorskip("flax.nnx")
    square = np.random.default_rng(3).integers(0, 8, (8, 4)).astype(np.int32)

    class Layer(nnx.Module):
        def __init__(self, product, rngs):
            self.product = product
            self.w = nnx.Param(jax.random.normal(rngs.params(), (8, 4), jnp.float32) / 2)

        def __call__(self, x):
            return x + jnp.tanh(self.product(self.w[...], square, x))

    def loss_and_gradient(product):
        @nnx.split_rngs(splits=5)
        @nnx.vmap(in_axes=0, out_axes=0)
        def stack(rngs):
            return Layer(product, rngs)

        def apply(x, layer):
            return layer(x)

        run = nnx.scan(
            nnx.remat(apply) if remat else apply, in_axes=(nnx.Carry, 0), out_axes=nnx.Carry
        )
        layers = stack(nnx.Rngs(0))
        return nnx.jit(nnx.value_and_grad(lambda layers: jnp.sum(run(X[0], layers) ** 2)))(layers)

    found, expected = (loss_and_gradient(product) for product in (in_numba, in_jax))
    assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kernel", KERNELS)
def test_flax_linen(kernel):
    linen = pytest.importorskip("flax.linen")
    train_state = pytest.importorskip("flax.training.train_state")

    class Network(linen.Module):
        product: object

        @linen.compact
        def __call__(self, x):
            w = self.param("w", linen.initializers.normal(0.5), (32, 4), jnp.float32)
            return linen.Dense(1)(jnp.tanh(batched(self.product, w, COLUMNS, x)))

    @jax.jit
    def step(state):
        def loss(p):
            return jnp.mean((state.apply_fn(p, X) - Y) ** 2)

        value, gradient = jax.value_and_grad(loss)(state.params)
        return state.apply_gradients(grads=gradient), value

    def train(product):
        network = Network(product)
        state = train_state.TrainState.create(
            apply_fn=network.apply,
            params=network.init(jax.random.key(0), X),
            tx=optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(0.03)),
        )
        losses = []
        for _ in range(STEPS):
            state, loss = step(state)
            losses.append(float(loss))
        return losses

    assert_trains_as(train, kernel)


@pytest.mark.parametrize("kernel", KERNELS)
def test_equinox(kernel):
    eqx = pytest.importorskip("equinox")

    class Network(eqx.Module):
        w: jax.Array
        out: eqx.nn.Linear
        product: object  # a leaf that is no array; `filter_jit` takes it as static

        def __init__(self, product, key):
            first, second = jax.random.split(key)
            self.w = jax.random.normal(first, (32, 4), jnp.float32) / 2
            self.out = eqx.nn.Linear(32, 1, dtype=jnp.float32, key=second)
            self.product = product

        def __call__(self, x):
            return self.out(jnp.tanh(self.product(self.w, COLUMNS, x)))

    optimizer = optax.adam(0.03)

    @eqx.filter_jit
    def step(network, state):
        def loss(network):
            return jnp.mean((jax.vmap(network)(X) - Y) ** 2)

        value, gradient = eqx.filter_value_and_grad(loss)(network)
        updates, state = optimizer.update(gradient, state)
        return eqx.apply_updates(network, updates), state, value

    def train(product):
        network = Network(product, jax.random.key(0))
        state, losses = optimizer.init(eqx.filter(network, eqx.is_inexact_array)), []
        for _ in range(STEPS):
            network, state, loss = step(network, state)
            losses.append(float(loss))
        return losses

    assert_trains_as(train, kernel)
