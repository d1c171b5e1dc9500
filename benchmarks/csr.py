"""The event-driven CSR product of examples/digits.py against JAX's own ways, and the training step.

    python benchmarks/csr.py [--rounds N] [--size 4000] [--active 0.02] [--hidden 200 1000]

Measures the default platform, each backend of it. Products are steps of a jitted scan over spike
vectors, each waiting for the one before; ratios are medians over rounds of one run, all contenders
interleaved. First all are compared: values, and for the operation gradients and batches.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "examples"))

import digits
import jax
import jax.numpy as jnp
import measure
import numpy as np
from jax import lax
from jax.example_libraries import optimizers
from jax.experimental import sparse
from rich.console import Console

UNROLL = 10  # steps of a scan in one pass of its loop, so that the loop itself hardly counts
Product = Callable[..., Any]  # of spikes [pre] and arrays of its own, gives currents [post]


PLATFORM = jax.default_backend()
BACKENDS = digits.product.available_backends(PLATFORM)  # the default is the first


def presynaptic(synapses: Any) -> np.ndarray:
    """The presynaptic neuron of each synapse."""
    counts = np.diff(synapses.indptr)
    return np.repeat(np.arange(counts.size, dtype=np.int32), counts)


def dense_of(weights: Any, synapses: Any) -> np.ndarray:
    dense = np.zeros((synapses.indptr.size - 1, synapses.post), np.float32)
    dense[presynaptic(synapses), synapses.indices] = weights
    return dense


# The product alone


def event_driven(weights: Any, synapses: Any, backend: str) -> tuple[Product, Any]:
    def product(spikes: Any, weights: Any, indices: Any, indptr: Any) -> Any:
        matrix = digits.Synapses(indices, indptr, synapses.post)
        return digits.currents(weights, matrix, spikes, backend)

    return product, (weights, synapses.indices, synapses.indptr)


def in_jax(weights: Any, synapses: Any, most: int) -> dict[str, tuple[Product, Any]]:
    """Five ways. The one with top_k gets the number of spikes, and would lose further ones."""
    pre, post = presynaptic(synapses), synapses.post
    n = synapses.indptr.size - 1

    order = np.argsort(synapses.indices, kind="stable")
    by_target = weights[order], pre[order], synapses.indices[order]

    def segment_sum(spikes: Any, weights: Any, pre: Any, target: Any) -> Any:
        return jax.ops.segment_sum(spikes[pre] * weights, target, post, indices_are_sorted=True)

    # Rows of equal length, filled up with a target out of range
    longest = int(np.diff(synapses.indptr).max())
    place = pre, np.arange(pre.size) - synapses.indptr[pre]
    targets, values = np.full((n, longest), post, np.int32), np.zeros((n, longest), np.float32)
    targets[place], values[place] = synapses.indices, weights

    def top_k(spikes: Any, targets: Any, values: Any) -> Any:
        hit, who = lax.top_k(spikes, most)
        out = jnp.zeros(post, jnp.float32)
        return out.at[targets[who]].add(hit[:, None] * values[who], mode="drop")

    flags = {"shape": (n, post), "indices_sorted": True, "unique_indices": True}
    bcoo = sparse.BCOO((weights, np.stack([pre, synapses.indices], 1)), **flags)
    starts = np.searchsorted(by_target[2], np.arange(post + 1)).astype(np.int32)
    bcsr = sparse.BCSR((by_target[0], by_target[1], starts), **{**flags, "shape": (post, n)})
    return {
        "JAX, dense: spikes @ W": (lambda s, w: s @ w, (dense_of(weights, synapses),)),
        "JAX, top_k and scatter": (top_k, (targets, values)),
        "JAX, gather and segment_sum": (segment_sum, by_target),
        "JAX, sparse BCOO": (lambda s, m: s @ m, (bcoo,)),
        "JAX, sparse BCSR": (lambda s, m: m @ s, (bcsr,)),
    }


def per_product(product: Product, data: Any, spikes: np.ndarray) -> tuple[Any, Any]:
    """A function that gives the seconds of one product, and the currents of all."""

    def run(spikes: Any, data: Any) -> Any:
        def step(before: Any, s: Any) -> Any:
            s, _ = lax.optimization_barrier((s, before))
            now = product(s, *data)
            return now, now

        first = product(spikes[0], *data)
        return lax.scan(step, first, spikes, unroll=UNROLL)[1]

    jitted, data = jax.jit(run), jax.device_put(data)
    short, long = jax.device_put(spikes[:UNROLL]), jax.device_put(spikes)
    currents = np.asarray(jitted(short, data))
    few = measure.timed(lambda: jax.block_until_ready(jitted(short, data)))
    chosen = short if few > 0.02 else long
    jax.block_until_ready(jitted(chosen, data))
    seconds = lambda: measure.timed(lambda: jax.block_until_ready(jitted(chosen, data)))  # noqa: E731
    return lambda: seconds() / (1 + len(chosen)), currents


def forward(size: int, density: float, active: float, rounds: int) -> list[measure.Row]:
    rng = np.random.default_rng(0)
    synapses = digits.connect(rng, size, size, density)
    weights = rng.normal(size=synapses.indices.size).astype(np.float32)
    most = max(1, round(active * size))
    spikes = np.zeros((10 * UNROLL, size), np.float32)
    for row in spikes:
        row[rng.choice(size, most, replace=False)] = 1

    contenders = {f"event-driven, {b}": event_driven(weights, synapses, b) for b in BACKENDS}
    contenders |= in_jax(weights, synapses, most)
    want = spikes[:UNROLL].astype(float) @ dense_of(weights, synapses)
    measures = {}
    for name, (product, data) in contenders.items():
        measures[name], currents = per_product(product, data, spikes)
        tolerance = 0.05 if "dense" in name and PLATFORM == "gpu" else 1e-4  # TF32
        np.testing.assert_allclose(currents, want, rtol=0, atol=tolerance, err_msg=name)
    return measure.rounds(measures, rounds, 1e-6)


# The operation against dense JAX: values, both modes, batches


def check(backend: str) -> None:
    rng = np.random.default_rng(1)
    synapses = digits.connect(rng, 50, 30, 0.3)
    places = presynaptic(synapses), synapses.indices
    shapes = {"w": synapses.indices.size, "dw": synapses.indices.size, "ct": (7, 30)}
    x = {k: rng.normal(size=shape).astype(np.float32) for k, shape in shapes.items()}
    spikes = (rng.random((7, 50)) < 0.2).astype(np.float32)
    ds = rng.normal(size=(7, 50)).astype(np.float32)

    def ours(w: Any, s: Any) -> Any:
        return jax.vmap(lambda s: digits.currents(w, synapses, s, backend))(s)

    def theirs(w: Any, s: Any) -> Any:
        dense = jnp.zeros((50, 30)).at[places].set(w)
        return jnp.matmul(s, dense, precision="highest")

    many = jnp.stack([x["w"], x["dw"]])
    found, expected = (
        (
            jax.jit(jax.jvp, static_argnums=0)(f, (x["w"], spikes), (x["dw"], ds)),
            jax.jit(lambda *a, f=f: jax.vjp(f, *a)[1](x["ct"]))(x["w"], spikes),
            jax.vmap(f, (0, None))(many, spikes),
        )
        for f in (ours, theirs)
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-4), found, expected)


# A step of training


def training(hidden: int, rounds: int, console: Console) -> list[measure.Row]:
    """Steps of the example's network, after an epoch of training, one minibatch."""
    p, rng = digits.Params(hidden, 25), np.random.default_rng(0)
    pixels, _, labels, _ = digits.load(0)
    network, weights = digits.build(p, rng)

    def kernels(backend: str) -> Any:
        return lambda w, k, s: digits.currents(w[k], network[k], s, backend)

    masks = {k: dense_of(1, s) for k, s in network.items()}
    sources = {k: presynaptic(s) for k, s in network.items()}

    def dense(w: Any, k: str, s: Any) -> Any:
        return s @ (w[k] * masks[k])

    def segment_sum(w: Any, k: str, s: Any) -> Any:
        return jax.ops.segment_sum(s[sources[k]] * w[k], network[k].indices, network[k].post)

    init, train, _ = digits.learner(p, kernels(BACKENDS[0]))
    state = init(weights)
    for n, i in enumerate(range(0, len(labels) - p.batch, p.batch)):
        state = train(n, state, pixels[i : i + p.batch], labels[i : i + p.batch])
    weights = jax.device_get(optimizers.adam(p.learning_rate)[2](state))
    matrices = {k: dense_of(weights[k], network[k]) for k in weights}

    contenders = {f"event-driven, {b}": (kernels(b), weights) for b in BACKENDS}
    contenders["JAX, masked dense matrices"] = dense, matrices
    contenders["JAX, gather and segment_sum"] = segment_sum, weights
    batch = jax.device_put((pixels[: p.batch], labels[: p.batch]))
    measures, told = {}, []
    for name, (arriving, start) in contenders.items():
        init, train, test = digits.learner(p, arriving)
        state = train(0, init(jax.device_put(start)), *batch)  # compiles, and is compared
        told.append([float(x) for x in test(state, *batch)])
        measures[name] = lambda train=train, state=state: measure.timed(
            lambda: jax.block_until_ready(train(0, state, *batch))
        )
    np.testing.assert_allclose(told, told[:1] * len(told), rtol=0.05, atol=0.05)
    synapses = sum(s.indices.size for s in network.values())
    console.print(
        f"{hidden} neurons, {synapses:,} synapses, {p.batch} images, {p.steps} ms; in each "
        f"{told[0][2]:.1%} of the neurons spike"
    )
    return measure.rounds(measures, rounds, 1e-3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="default: %(default)s")
    parser.add_argument("--size", type=int, default=4000, help="neurons; default: %(default)s")
    parser.add_argument("--density", type=float, nargs="*", default=[0.1, 1.0], help="of synapses")
    parser.add_argument("--active", type=float, default=0.02, help="part that spikes; default 0.02")
    parser.add_argument("--hidden", type=int, nargs="*", default=[200, 1000], help="neurons")
    parser.add_argument("--json", help="write the figures there")
    a = parser.parse_args()
    console, results = Console(width=140), {}

    for backend in BACKENDS:
        check(backend)
    console.print(f"{PLATFORM}: {', '.join(BACKENDS)} agree with dense JAX, also derivatives\n")
    for density in a.density:
        title = f"spikes @ W, {a.size:,} x {a.size:,}, {density:.0%} of W, {a.active:.1%} active"
        results[title] = forward(a.size, density, a.active, a.rounds)
        measure.show(console, f"{title}; floor: the first", "us", results[title])
    if importlib.util.find_spec("sklearn") is None:
        console.print("No steps of training: scikit-learn, which has the digits, is not installed")
        a.hidden = []
    for hidden in a.hidden:
        rows = training(hidden, a.rounds, console)
        title = f"A step of training, {hidden} neurons"
        results[title] = rows
        measure.show(console, f"{title}; floor: the first", "ms", rows)
    measure.save(a.json, results)


if __name__ == "__main__":
    main()
