"""A spiking network learns to read digits; its synapses are event-driven sparse products.

    python examples/digits.py [--epochs 10] [--seed 0] [--hidden 200] [--backend cpp]

Data: the 1,797 handwritten digits that scikit-learn ships, images of 8 x 8 pixels of 0 to 16. A
quarter, drawn at random, is for testing alone. Each pixel is a neuron that spikes once, the earlier
the brighter: at 16 - b ms for a brightness b, and never for b = 0.

Network: the pixels project to leaky integrate-and-fire neurons with exponential synaptic currents,
and these to each other and to ten output neurons, which integrate and do not spike; the highest
mean V among them is the answer. In steps of dt = 1 ms, V in units of the threshold, I in those of V
per step, S = 1 for a spike:

    I[t] = exp(-dt / tau_syn) I[t - 1] + weights of the pixels' S[t] and the neurons' S[t - 1]
    V[t] = exp(-dt / tau_mem) V[t - 1] (1 - S[t - 1]) + I[t],  S[t] = 1 if V[t] > 1, else 0

Learning: synapses are random and fixed, and their weights learn, by backpropagation through time
and Adam, on the cross-entropy and a cost of high rates. In place of the derivative of S by V, which
is zero or infinite, stands that of a fast sigmoid, 1 / (1 + steepness |V - 1|)**2, as in
SuperSpike [1]; as in [2], nothing is propagated through the reset.

Synapses are compressed sparse rows: neuron i has the targets indices[indptr[i]:indptr[i + 1]], its
weights are at the same places. Only rows of neurons that spiked are read [3]. No matrix is dense.

[1] Zenke & Ganguli 2018, Neural Comput. 30:1514-1541
[2] Neftci, Mostafa & Zenke 2019, IEEE Signal Process. Mag. 36(6):51-63
[3] Brette et al. 2007, J. Comput. Neurosci. 23:349-398
"""

import argparse
import functools
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
from event_csr import CPP, CUDA, in_numba, in_numba_cuda
from jax.example_libraries import optimizers


def operation(name: str, launch: Callable[..., Any]) -> kernbridge.XLACustomKernel:
    """An operation with a kernel in each language. `launch` gives GPUs their threads along x and y,
    and the sizes of batch and targets, by threads for a row, rows, the last input, the output."""
    op, kernel = kernbridge.XLACustomKernel(name), name.split("csr_")[1]

    # A generator gives a function of the inputs. It is called only where its backend is used.
    def cpp(outs: Any) -> Callable[..., Any]:
        module = kernbridge.load_cpp_inline("digits", CPP)
        return functools.partial(getattr(module, kernel), outs=outs)

    def on_gpu(make: Callable[..., Any], outs: Any) -> Callable[..., Any]:
        def call(*ins: Any) -> Any:
            indices, indptr, last = ins[-3:]
            pre = indptr.size - 1
            lanes = min(256, max(16, indices.size // pre // 4))  # four synapses for each, or more
            *threads, batch, post = launch(lanes, pre, last, outs[0])
            options = {"launch_dims": tuple(threads), "zero_outputs": kernel == "product"}
            return make(outs, {"batch": batch, "pre": pre, "post": post}, **options)(*ins)

        return call

    def numba_cuda(outs: Any, _: Any, **options: Any) -> Any:
        return kernbridge.numba_cuda_kernel(in_numba_cuda()[kernel], outs, **options)

    def cuda(outs: Any, sizes: Any, **options: Any) -> Any:
        return kernbridge.cuda_kernel(CUDA, kernel, outs, attrs=sizes, **options)

    op.def_numba_kernel(lambda outs: kernbridge.numba_kernel(in_numba()[kernel], outs))
    op.def_cpp_kernel(cpp)
    op.def_numba_cuda_kernel(functools.partial(on_gpu, numba_cuda))
    op.def_cuda_raw_kernel(functools.partial(on_gpu, cuda))
    return op


product = operation("event_csr_product", lambda n, pre, s, out: (n, s.size, *out.shape))
weight_gradient = operation("event_csr_weight_gradient", lambda n, pre, ct, _: (n, pre, *ct.shape))
row_product = operation("csr_row_product", lambda n, pre, ct, _: (ct.shape[1], pre, *ct.T.shape))


def product_vjp(inputs: Any, _: Any, cts: Any, *, outs: Any, backend: Any) -> Any:
    weights, *matrix, spikes = inputs
    by_row = jax.ShapeDtypeStruct(spikes.shape[::-1], spikes.dtype)
    of_weights = weight_gradient(spikes, *matrix, cts[0], outs=weights, backend=backend)
    of_spikes = row_product(weights, *matrix, cts[0].T, outs=by_row, backend=backend)
    return of_weights, None, None, of_spikes.T


def product_batched(args: Any, axes: Any, *, outs: Any, backend: Any) -> Any:
    """Spikes of many trials become one longer batch, and the weights' gradient one sum over it."""
    options = {"outs": outs, "backend": backend}
    if any(axis is not None for axis in axes[:3]):
        return kernbridge.general_batching_rule(product.primitive, args, axes, **options)
    spikes = jnp.moveaxis(args[3], axes[3], 0)
    (trials, batch, pre), post = spikes.shape, outs[0].shape[1]
    options["outs"] = jax.ShapeDtypeStruct((trials * batch, post), spikes.dtype)
    result = product(*args[:3], spikes.reshape(trials * batch, pre), **options)
    return [result.reshape(trials, batch, post)], [0]


# The product is linear in weights and in spikes: its tangents are products too.
product.def_jvp_rule2(
    lambda t, weights, *rest, **options: product(t, *rest, **options),
    *(None, None),
    lambda t, *inputs, **options: product(*inputs[:3], t, **options),
)
product.def_vjp_rule(product_vjp)
product.def_batching_rule(product_batched)


# 1 where V is above the threshold, else 0
spike = jax.custom_jvp(lambda above, steepness: (above > 0).astype(jnp.float32))
spike.defjvp(lambda x, t: (spike(*x), t[0] / (1 + x[1] * jnp.abs(x[0])) ** 2))


class Params(NamedTuple):
    hidden: int  # neurons
    steps: int  # of 1 ms
    tau_syn: float = 5.0  # ms
    tau_mem: float = 10.0  # ms
    steepness: float = 10.0  # per threshold
    # Probability of a synapse, and the weights' standard deviation x sqrt(synapses of a neuron)
    pixels: tuple[float, float] = (0.3, 0.5)
    recurrent: tuple[float, float] = (0.1, 0.25)
    readout: tuple[float, float] = (0.5, 0.5)
    batch: int = 64
    learning_rate: float = 0.01
    rate_cost: float = 5.0  # x (spikes per step)**2


class Synapses(NamedTuple):
    indices: np.ndarray  # int32, targets
    indptr: np.ndarray  # int32 (presynaptic neurons + 1,)
    post: int  # postsynaptic neurons


def connect(rng: np.random.Generator, pre: int, post: int, probability: float) -> Synapses:
    rows = [np.flatnonzero(rng.random(post) < probability) for _ in range(pre)]
    indptr = np.cumsum([0, *map(len, rows)])
    return Synapses(np.concatenate(rows).astype(np.int32), indptr.astype(np.int32), post)


def build(p: Params, rng: np.random.Generator) -> tuple[dict[str, Synapses], dict[str, Any]]:
    """Random synapses and initial weights, by projection."""
    shapes = {"pixels": (64, p.hidden), "recurrent": (p.hidden,) * 2, "readout": (p.hidden, 10)}
    network, weights = {}, {}
    for name, (pre, post) in shapes.items():
        probability, scale = getattr(p, name)
        network[name] = connect(rng, pre, post, probability)
        n = network[name].indices.size
        weights[name] = rng.normal(0, scale / np.sqrt(probability * pre), n).astype(np.float32)
    return network, weights


def currents(weights: Any, synapses: Synapses, spikes: Any, backend: str | None = None) -> Any:
    """What arrives at each postsynaptic neuron [post], given spikes [pre]."""
    out = jax.ShapeDtypeStruct((1, synapses.post), jnp.float32)
    return product(weights, *synapses[:2], spikes[None], outs=out, backend=backend)[0]


def respond(p: Params, arriving: Callable[..., Any], weights: Any, pixels: Any) -> Any:
    """For one image, mean V of the output neurons, and mean spikes per neuron and step; currents
    are `arriving(weights, projection, spikes)`."""
    keep_i, keep_v = np.exp(-1 / np.array([p.tau_syn, p.tau_mem], np.float32))

    def step(state: Any, ms: Any) -> Any:
        i, v, s, i_out, v_out = state
        lit = ((16 - pixels == ms) & (pixels > 0)).astype(jnp.float32)
        i = keep_i * i + arriving(weights, "pixels", lit) + arriving(weights, "recurrent", s)
        i_out = keep_i * i_out + arriving(weights, "readout", s)
        v = keep_v * v * (1 - jax.lax.stop_gradient(s)) + i
        v_out = keep_v * v_out + i_out
        s = spike(v - 1, p.steepness)
        return (i, v, s, i_out, v_out), (v_out, s.mean())

    start = (jnp.zeros(p.hidden),) * 3 + (jnp.zeros(10),) * 2
    v_out, active = jax.lax.scan(step, start, jnp.arange(p.steps))[1]
    return v_out.mean(0), active.mean()


def learner(p: Params, arriving: Callable[..., Any]) -> tuple[Any, Any, Any]:
    """Adam's first state, of weights; its jitted step; the jitted test: cost, accuracy, spikes."""
    init, update, weights_of = optimizers.adam(p.learning_rate)
    respond_all = jax.vmap(functools.partial(respond, p, arriving), (None, 0))

    def cost(weights: Any, pixels: Any, labels: Any) -> Any:
        scores, active = respond_all(weights, pixels)
        right = jnp.take_along_axis(jax.nn.log_softmax(scores), labels[:, None], 1)
        value = p.rate_cost * jnp.mean(active**2) - jnp.mean(right)
        return value, (value, jnp.mean(scores.argmax(1) == labels), active.mean())

    @jax.jit
    def train(n: int, state: Any, *images: Any) -> Any:
        return update(n, jax.grad(cost, has_aux=True)(weights_of(state), *images)[0], state)

    return init, train, jax.jit(lambda state, *images: cost(weights_of(state), *images)[1])


def load(seed: int) -> Any:
    """Pixels for training and testing, then their labels."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    both = [x.astype(np.int32) for x in load_digits(return_X_y=True)]
    return train_test_split(*both, test_size=0.25, random_state=seed, stratify=both[1])


def main(argv: Sequence[str] | None = None) -> int:
    from drawing import digits as picture

    platform = jax.default_backend()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in {"epochs": 10, "seed": 0, "hidden": 200, "steps": 25}.items():
        parser.add_argument(f"--{name}", type=int, default=default, help="default: %(default)s")
    backends = product.available_backends(platform)
    parser.add_argument("--backend", choices=backends, default=product.get_default(platform))
    parser.add_argument("--picture", type=Path, default=Path("digits.png"))
    a = parser.parse_args(argv)

    pixels, test_pixels, labels, test_labels = load(a.seed)
    p, rng = Params(a.hidden, a.steps), np.random.default_rng(a.seed)
    network, weights = build(p, rng)
    sizes = ", ".join(f"{s.indices.size:,} {name}" for name, s in network.items())
    print(f"{p.hidden} neurons; synapses: {sizes}; kernels: {a.backend}, {platform}")

    def arriving(weights: Any, projection: str, spikes: Any) -> Any:
        return currents(weights[projection], network[projection], spikes, a.backend)

    init, train, test = learner(p, arriving)
    tested = test_pixels, test_labels
    state, n, accuracies = init(weights), 0, [float(test(init(weights), *tested)[1])]
    for epoch in range(1, a.epochs + 1):
        start = time.perf_counter()
        shuffled = rng.permutation(len(labels))
        for i in range(0, len(labels) - p.batch + 1, p.batch):
            batch = shuffled[i : i + p.batch]
            state = train(n, state, pixels[batch], labels[batch])
            n += 1
        jax.block_until_ready(state)
        seconds = time.perf_counter() - start
        cost, accuracy, active = map(float, test(state, *tested))
        accuracies.append(accuracy)
        rate = f"{1000 * active:.0f} Hz, {seconds:.2f} s" + " with compiling" * (epoch == 1)
        print(f"epoch {epoch:2}: test accuracy {accuracy:.1%}, cost {cost:.3f}, {rate}")
    print(
        f"Test accuracy: {accuracies[-1]:.1%} of {len(test_labels)} images, expected 90 % or more"
    )
    weights = optimizers.adam(p.learning_rate)[2](state)
    response = jax.jit(jax.vmap(functools.partial(respond, p, arriving), (None, 0)))
    answers = np.asarray(response(weights, test_pixels)[0]).argmax(1)
    fields = np.zeros((64, p.hidden), np.float32)
    rows = np.repeat(np.arange(64), np.diff(network["pixels"].indptr))
    fields[rows, network["pixels"].indices] = weights["pixels"]
    print("Picture:", *picture.draw(accuracies, *tested, answers, fields, a.picture))
    return 0 if accuracies[-1] >= 0.9 else 1


if __name__ == "__main__":
    sys.exit(main())
