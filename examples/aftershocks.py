"""How many earthquakes are aftershocks: Bayesian inference by NumPyro, with a likelihood in C++.

    python examples/aftershocks.py [--samples 1000] [--picture aftershocks.png]

In a process that excites itself [1], each event raises the rate of later ones for some time:

    rate(t) = mu + sum over the events i before t of n / tau exp(-(t - t_i) / tau)

so that mu is the rate of the independent events, n the mean number of aftershocks that an event
triggers, and tau their mean delay. The likelihood of all times is a recursion over the events [2]:
a loop of a dozen lines in C++, of which Enzyme makes the gradient. The No-U-Turn Sampler [3] of
NumPyro [4] draws from the posterior of mu, n and tau, given the times of a simulated catalogue.

The gradient is compared with that of `jax.lax.scan`. The posterior has three parameters only, so
its moments are also summed on a grid, by `jax.vmap` of the kernel, and compared with the samples.

Needs Enzyme (docs/derivatives.md) and

    pip install numpyro

[1] Hawkes 1971, Biometrika 58:83-90
[2] Ozaki 1979, Ann. Inst. Stat. Math. 31:145-155
[3] Hoffman & Gelman 2014, J. Mach. Learn. Res. 15:1593-1623
[4] Phan, Pradhan & Jankowiak 2019, arXiv:1912.11554
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import drawing
import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import numpyro
from numpyro import distributions, infer
from numpyro.diagnostics import gelman_rubin

SOURCE = r"""
#include <cmath>

// @BE log_likelihood t: f64[events], events, end: f64, mu: f64, n: f64, tau: f64 -> f64
double log_likelihood(const double *t, int events, double end, double mu, double n, double tau) {
    double excited = 0;  // the sum of exp((t[j] - t[i]) / tau) over all j < i
    double sum = -mu * end;
    for (int i = 0; i < events; i++) {
        if (i > 0) excited = (excited + 1) * std::exp((t[i - 1] - t[i]) / tau);
        sum += std::log(mu + n / tau * excited) + n * std::expm1((t[i] - end) / tau);
    }
    return sum;
}
"""
module = kernbridge.load_cpp_inline("aftershocks", SOURCE)
log_likelihood = module.log_likelihood.operation(derivatives="enzyme")

NAMES = ("mu (1/day)", "n", "tau (days)")
TRUE = np.array([0.25, 0.6, 2.0])
DAYS = 800.0
PRIORS = (
    distributions.LogNormal(np.log(0.5), 1.0),
    distributions.Beta(2.0, 2.0),  # with n of 1 or more, the process explodes
    distributions.LogNormal(np.log(3.0), 1.0),
)


def in_jax(t, end, mu, n, tau):
    def step(excited, gap):
        excited = (excited + 1) * jnp.exp(-gap / tau)
        return excited, excited

    excited = jnp.append(0.0, jax.lax.scan(step, 0.0, jnp.diff(t))[1])
    triggered = n * jnp.expm1((t - end) / tau)
    return jnp.sum(jnp.log(mu + n / tau * excited) + triggered) - mu * end


def simulate(rng) -> tuple[np.ndarray, np.ndarray]:
    """The times of a catalogue, and which of the events are aftershocks."""
    mu, n, tau = TRUE
    parents = rng.uniform(0, DAYS, rng.poisson(mu * DAYS))
    times, is_triggered = [parents], [np.zeros(parents.size, bool)]
    while parents.size:
        children = np.repeat(parents, rng.poisson(n, parents.size))
        parents = children + rng.exponential(tau, children.size)
        parents = parents[parents < DAYS]
        times.append(parents)
        is_triggered.append(np.ones(parents.size, bool))
    t, triggered = np.concatenate(times), np.concatenate(is_triggered)
    order = t.argsort()
    return t[order], triggered[order]


def model(t) -> None:
    theta = [numpyro.sample(f"theta{i}", prior) for i, prior in enumerate(PRIORS)]
    numpyro.factor("times", log_likelihood(t, DAYS, *theta))


def sample(t, samples: int) -> np.ndarray:
    """Samples [chain, sample, parameter] of four chains, which run together by `vmap`."""
    sampler = infer.MCMC(
        infer.NUTS(model),
        num_warmup=500,
        num_samples=samples,
        num_chains=4,
        chain_method="vectorized",
        progress_bar=False,
    )
    sampler.run(jax.random.key(0), t)
    found = sampler.get_samples(group_by_chain=True)
    return np.stack([found[f"theta{i}"] for i in range(3)], -1)


def marginals(t, samples) -> list[tuple[np.ndarray, np.ndarray]]:
    """Values and density of each parameter, by sums over a grid of 40 x 40 x 40."""
    mean, deviation = samples.mean((0, 1)), samples.std((0, 1))
    lowest, highest = np.maximum(mean - 5 * deviation, 1e-3), mean + 6 * deviation
    highest[1] = min(highest[1], 0.999)
    axes = [np.linspace(a, b, 40) for a, b in zip(lowest, highest, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 3)

    def log_posterior(theta):
        prior = sum(p.log_prob(x) for p, x in zip(PRIORS, theta, strict=True))
        return prior + log_likelihood(t, DAYS, *theta)

    density = jax.jit(jax.vmap(log_posterior))(grid)
    density = np.exp(density - density.max()).reshape(40, 40, 40)
    sums = (density.sum(tuple({0, 1, 2} - {i})) for i in range(3))
    return [(x, s / s.sum() / (x[1] - x[0])) for x, s in zip(axes, sums, strict=True)]


def compare_gradients(t) -> tuple[float, float, float]:
    """The relative difference from the gradient of a scan, and both times in microseconds."""
    theta = jnp.asarray(TRUE)
    found, us = [], []
    for function in (log_likelihood, in_jax):
        gradient = jax.jit(jax.grad(lambda theta, f=function: f(t, DAYS, *theta)))
        found.append(gradient(theta).block_until_ready())
        rounds = []
        for _ in range(50):
            begin = time.perf_counter()
            gradient(theta).block_until_ready()
            rounds.append(1e6 * (time.perf_counter() - begin))
        us.append(min(rounds))
    return float(jnp.abs(found[0] / found[1] - 1).max()), us[0], us[1]


def chance_of_aftershock(t, samples) -> np.ndarray:
    """The chance that each event was triggered by an earlier one, as a mean over the samples."""
    mu, n, tau = samples.reshape(-1, 3)[::20].T[:, :, None]
    before = np.tril(t[:, None] - t, -1)
    chances = [
        1 - m / (m + a / u * (np.exp(-before / u) * (before > 0)).sum(1))
        for m, a, u in zip(mu, n, tau, strict=True)
    ]
    return np.mean(chances, 0)


@drawing.in_our_look
def draw(t, chance, samples, densities, file: Path) -> list[Path]:
    """Draw the catalogue with the chance of each event, and the posterior of each parameter."""
    figure = drawing.figure(7, 2.6)
    panels = figure.subplots(1, 4, width_ratios=(1.6, 1, 1, 1))
    shown = t < 200
    count = np.arange(1, t.size + 1)
    panels[0].step(t[shown], count[shown], where="post", color="0.8", lw=0.8, zorder=0)
    dots = panels[0].scatter(
        t[shown], count[shown], c=chance[shown], s=7, cmap="coolwarm", vmin=0, vmax=1
    )
    figure.colorbar(dots, ax=panels[0], label="chance of an aftershock", pad=0.02)
    panels[0].set(xlabel="day", ylabel="earthquakes")
    drawing.title(panels[0], "A", "The catalogue")
    for i, (axes, (x, density)) in enumerate(zip(panels[1:], densities, strict=True)):
        axes.hist(samples[..., i].ravel(), 30, density=True, color=drawing.SKY, label="NUTS")
        axes.plot(x, density, color=drawing.BLUE, lw=1, label="grid")
        axes.axvline(TRUE[i], color=drawing.ORANGE, lw=1, label="true")
        axes.set(xlabel=NAMES[i], yticks=[])
        axes.spines["left"].set_visible(False)
        drawing.title(axes, "BCD"[i], "")
    panels[2].set_title("Posteriors", pad=6)
    panels[3].legend(fontsize=6, loc="upper right")
    return drawing.save(figure, file)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=1000, help="default: %(default)s")
    parser.add_argument("--picture", type=Path, default=Path("aftershocks.png"))
    a = parser.parse_args(argv)
    if not 250 <= a.samples <= 100_000:
        parser.error("expected 250 to 100,000 for --samples")
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)
    t, is_triggered = simulate(np.random.default_rng(0))
    print(f"{t.size} earthquakes, of which {is_triggered.sum()} are aftershocks")
    difference, us, us_of_scan = compare_gradients(t)
    print(f"The relative difference from the gradient of a scan is {difference:.1g}.", end=" ")
    print(f"The gradient takes {us:.0f} us, and the gradient of the scan takes {us_of_scan:.0f} us")

    samples = sample(t, a.samples)
    densities = marginals(t, samples)
    rhat = max(float(gelman_rubin(samples[..., i])) for i in range(3))
    worst = 0.0
    for i, (name, (x, density)) in enumerate(zip(NAMES, densities, strict=True)):
        mean = np.average(x, weights=density)
        deviation = np.sqrt(np.average((x - mean) ** 2, weights=density))
        drawn = samples[..., i]
        print(f"{name}: {drawn.mean():.3f} +- {drawn.std():.3f};", end=" ")
        print(f"by the grid {mean:.3f} +- {deviation:.3f}, true {TRUE[i]:.3g}")
        worst = max(worst, abs(drawn.mean() - mean) / deviation, abs(drawn.std() / deviation - 1))
    print(f"R-hat is at most {rhat:.3f}")
    chance = chance_of_aftershock(t, samples)
    print(f"{chance.sum():.0f} aftershocks are expected")
    print("Picture:", *draw(t, chance, samples, densities, a.picture))
    return int(difference > 1e-8 or rhat > 1.05 or worst > 0.2)


if __name__ == "__main__":
    sys.exit(main())
