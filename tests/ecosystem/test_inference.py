"""Bayesian inference in NumPyro and BlackJAX with a likelihood in C++.

The posterior has two parameters, so sums over a grid give the moments that samples must have.
"""

import functools

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest
from references import assert_close, assert_same_gradients
from scipy import special

RNG = np.random.default_rng(0)
DOSES = np.linspace(-1.5, 1.5, 12)
TRIALS = np.full(12, 8.0)
SUCCESSES = RNG.binomial(8, special.expit(0.5 + 1.5 * DOSES)).astype(float)

MODULE = kernbridge.load_cpp_inline(
    "ecosystem_likelihood",
    r"""
#include <cmath>
// @BE log_likelihood theta: f64[2], dose: f64[n], trials: f64[n], successes: f64[n], n -> f64
double log_likelihood(const double *theta, const double *dose, const double *trials,
                      const double *successes, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) {
        double u = theta[0] + theta[1] * dose[i];
        sum += successes[i] * u - trials[i] * (u > 0 ? u + std::log1p(std::exp(-u))
                                                     : std::log1p(std::exp(u)));
    }
    return sum;
}
""",
)
kernel = MODULE.log_likelihood.operation(derivatives="enzyme")


def by_kernel(theta):
    return kernel(theta, DOSES, TRIALS, SUCCESSES)


def by_jax(theta):
    u = theta[0] + theta[1] * DOSES
    return jnp.sum(SUCCESSES * u - TRIALS * jax.nn.softplus(u))


def log_posterior(theta):
    """With standard deviations of the prior of 2."""
    return by_kernel(theta) - jnp.sum(theta**2) / 8


def moments():
    """Mean and standard deviation of the posterior of each parameter, by a sum over a grid."""
    theta = np.stack(np.meshgrid(np.linspace(-2, 3, 301), np.linspace(-1, 5, 301)))
    u = theta[0] + theta[1] * DOSES[:, None, None]
    log = (SUCCESSES[:, None, None] * u - TRIALS[:, None, None] * np.logaddexp(0, u)).sum(0)
    weights = np.exp(log - np.sum(theta**2, 0) / 8 - log.max())
    weights /= weights.sum()
    mean = np.sum(weights * theta, (1, 2))
    return mean, np.sqrt(np.sum(weights * (theta - mean[:, None, None]) ** 2, (1, 2)))


def assert_samples_the_posterior(samples):
    """Moments agree within a fifth of the standard deviation, many times the error of sampling."""
    mean, deviation = moments()
    samples = np.asarray(samples).reshape(-1, 2)
    assert len(samples) >= 1000
    np.testing.assert_array_less(np.abs(samples.mean(0) - mean), 0.2 * deviation)
    np.testing.assert_allclose(samples.std(0), deviation, rtol=0.2)


def test_the_likelihood():
    theta = jnp.array([0.3, 1.2])
    assert_same_gradients(by_kernel, by_jax, theta)
    assert_close(jax.hessian(by_kernel)(theta), jax.hessian(by_jax)(theta))
    many = jnp.array([[0.3, 1.2], [1.0, -0.5], [-30.0, 40.0]])
    assert_close(jax.vmap(jax.grad(by_kernel))(many), jax.vmap(jax.grad(by_jax))(many))


@pytest.fixture
def model():
    numpyro = pytest.importorskip("numpyro")

    def model():
        prior = numpyro.distributions.Normal(0, 2).expand([2]).to_event(1)
        numpyro.factor("likelihood", by_kernel(numpyro.sample("theta", prior)))

    return model


@pytest.mark.parametrize("chains", ["vectorized", "sequential"])
def test_nuts_of_numpyro(model, chains):
    from numpyro import infer

    nuts = infer.MCMC(
        infer.NUTS(model),
        num_warmup=300,
        num_samples=500,
        num_chains=2,
        chain_method=chains,
        progress_bar=False,
    )
    nuts.run(jax.random.key(0))
    assert_samples_the_posterior(nuts.get_samples()["theta"])


def test_the_laplace_approximation_of_numpyro(model):
    """The mode is that of SciPy, and the covariance the inverse of the Hessian there."""
    numpyro = pytest.importorskip("numpyro")
    from scipy import optimize

    guide = numpyro.infer.autoguide.AutoLaplaceApproximation(model)
    svi = numpyro.infer.SVI(model, guide, numpyro.optim.Adam(0.05), numpyro.infer.Trace_ELBO())
    found = svi.run(jax.random.key(0), 1000, progress_bar=False)
    posterior = guide.get_posterior(found.params)
    best = optimize.minimize(
        lambda theta: -(by_jax(theta) - jnp.sum(theta**2) / 8), np.zeros(2), tol=1e-10
    )
    np.testing.assert_allclose(posterior.mean, best.x, atol=2e-3)
    hessian = jax.hessian(lambda t: jnp.sum(t**2) / 8 - by_jax(t))(posterior.mean)
    np.testing.assert_allclose(posterior.covariance_matrix, np.linalg.inv(hessian), rtol=1e-6)


def test_nuts_of_blackjax():
    """Four chains that `vmap` runs at once, after the adaptation of the step size."""
    blackjax = pytest.importorskip("blackjax")
    adaptation = blackjax.window_adaptation(blackjax.nuts, log_posterior)
    (state, parameters), _ = adaptation.run(jax.random.key(0), jnp.zeros(2), num_steps=300)
    step = blackjax.nuts(log_posterior, **parameters).step

    @jax.jit
    @jax.vmap
    def chain(key):
        return jax.lax.scan(lambda s, k: (step(k, s)[0],) * 2, state, jax.random.split(key, 400))[
            1
        ].position

    assert_samples_the_posterior(chain(jax.random.split(jax.random.key(1), 4)))


def test_mclmc_of_blackjax():
    """Microcanonical Langevin dynamics with a given length and step size."""
    blackjax = pytest.importorskip("blackjax")
    sampler = blackjax.mclmc(log_posterior, L=1.5, step_size=0.4)
    start = sampler.init(jnp.array([0.5, 1.5]), jax.random.key(0))
    keys = jax.random.split(jax.random.key(1), 20_000)

    def step(state, key):
        state, info = sampler.step(key, state)
        return state, (state.position, info.energy_change)

    samples, changes = jax.jit(lambda: jax.lax.scan(step, start, keys)[1])()
    assert np.var(changes) < 0.1
    assert_samples_the_posterior(samples)


def test_pathfinder_of_blackjax():
    """The best of its normal approximations, drawn from with the same key as in JAX alone."""
    blackjax = pytest.importorskip("blackjax")

    @functools.partial(jax.jit, static_argnums=0)
    def drawn(log_likelihood):
        state, _ = blackjax.vi.pathfinder.approximate(
            jax.random.key(0), lambda t: log_likelihood(t) - jnp.sum(t**2) / 8, jnp.zeros(2)
        )
        return blackjax.vi.pathfinder.sample(jax.random.key(1), state, 100)

    assert_close(drawn(by_kernel), drawn(by_jax), rtol=1e-5, atol=1e-5)


def test_a_distribution_of_numpyro_whose_density_is_a_kernel():
    numpyro = pytest.importorskip("numpyro")
    from numpyro import infer

    class Posterior(numpyro.distributions.Distribution):
        support = numpyro.distributions.constraints.real_vector

        def __init__(self):
            super().__init__(event_shape=(2,))

        def sample(self, key, sample_shape=()):
            return jax.random.normal(key, (*sample_shape, 2))

        def log_prob(self, value):
            return log_posterior(value)

    nuts = infer.MCMC(
        infer.NUTS(lambda: numpyro.sample("theta", Posterior()), forward_mode_differentiation=True),
        num_warmup=300,
        num_samples=1000,
        progress_bar=False,
    )
    nuts.run(jax.random.key(0))
    assert_samples_the_posterior(nuts.get_samples()["theta"])
