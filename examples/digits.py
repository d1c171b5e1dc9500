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
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
from jax.example_libraries import optimizers

# The kernels, of weights w[k], spikes s and cotangents c; synapse k goes from neuron i to j:
#   product          out[b, j] = sum of s[b, i] w[k]     spikes @ W; b is the batch
#   weight_gradient  out[k]    = sum of s[b, i] c[b, j]  cotangent of W; event-driven too
#   row_product      out[i, b] = sum of w[k] c[j, b]     cotangent of the spikes; each row has one,
#                    as the surrogate is nowhere zero. The batch is last: it fills vector units.


@functools.cache
def in_numba() -> dict[str, Any]:
    import numba  # it checks the sign of signed indices, hence the unsigned ones

    @numba.njit
    def product(weights, indices, indptr, spikes, out):
        out[:] = 0
        for b in range(spikes.shape[0]):
            for i in range(spikes.shape[1]):
                s = spikes[b, i]
                if s != 0:
                    for k in range(np.uint32(indptr[i]), np.uint32(indptr[i + 1])):
                        out[b, np.uint32(indices[k])] += s * weights[k]

    @numba.njit
    def weight_gradient(spikes, indices, indptr, ct, out):
        out[:] = 0
        for b in range(spikes.shape[0]):
            for i in range(spikes.shape[1]):
                s = spikes[b, i]
                if s != 0:
                    for k in range(np.uint32(indptr[i]), np.uint32(indptr[i + 1])):
                        out[k] += s * ct[b, np.uint32(indices[k])]

    @numba.njit
    def row_product(weights, indices, indptr, ct, out):
        out[:] = 0
        for i in range(out.shape[0]):
            row = out[i]
            for k in range(indptr[i], indptr[i + 1]):
                w, c = weights[k], ct[indices[k]]
                for b in range(row.size):
                    row[b] += w * c[b]

    return {"product": product, "weight_gradient": weight_gradient, "row_product": row_product}


CPP = r"""
#include "kernbridge/kernbridge.hpp"
#include <cstring>
using kernbridge::Tensor;
const float *f32(const Tensor x) { return x.data_ptr<float>(); }
const int32_t *i32(const Tensor x) { return x.data_ptr<int32_t>(); }
float *zeroed(Tensor x) { return (float *)memset(x.data_ptr<float>(), 0, 4 * x.numel()); }
template <class F> void for_events(const Tensor spikes, const int32_t *begin, F add) {
    const float *s = f32(spikes);
    for (int64_t b = 0; b < spikes.shape(0); b++)
        for (int64_t i = 0; i < spikes.shape(1); i++, s++)
            if (*s != 0)
                for (int32_t k = begin[i]; k < begin[i + 1]; k++) add(b, k, *s);
}
// @BE product
void product(const Tensor w, const Tensor j, const Tensor row, const Tensor s, Tensor out) {
    auto add = [w = f32(w), j = i32(j), o = zeroed(out), post = out.shape(1)](
        int64_t b, int32_t k, float s) { o[b * post + j[k]] += s * w[k]; };
    for_events(s, i32(row), add);
}
// @BE weight_gradient
void weight_gradient(const Tensor s, const Tensor j, const Tensor row, const Tensor c, Tensor out) {
    auto add = [c = f32(c), j = i32(j), o = zeroed(out), post = c.shape(1)](
        int64_t b, int32_t k, float s) { o[k] += s * c[b * post + j[k]]; };
    for_events(s, i32(row), add);
}
// @BE row_product
void row_product(const Tensor w, const Tensor j, const Tensor row, const Tensor c, Tensor out) {
    float *o = zeroed(out);
    int64_t batch = out.shape(1);
    for (int64_t i = 0; i < out.shape(0); i++, o += batch)
        for (int32_t k = i32(row)[i]; k < i32(row)[i + 1]; k++) {
            const float weight = f32(w)[k], *ct = f32(c) + i32(j)[k] * batch;
            for (int64_t b = 0; b < batch; b++) o[b] += weight * ct[b];
        }
}
"""


# On GPUs, threads along x share the synapses of a row, or the batch; along y are the rows.
@functools.cache
def in_numba_cuda() -> dict[str, Any]:
    from numba import cuda

    @cuda.jit
    def product(weights, indices, indptr, spikes, out):
        x, y = cuda.grid(2)
        if y < spikes.size:
            b, i = y // spikes.shape[1], y % spikes.shape[1]
            s = spikes[b, i]
            if s != 0:
                for k in range(indptr[i] + x, indptr[i + 1], cuda.gridsize(2)[0]):
                    cuda.atomic.add(out, (b, indices[k]), s * weights[k])

    @cuda.jit
    def weight_gradient(spikes, indices, indptr, ct, out):
        x, i = cuda.grid(2)
        if i < spikes.shape[1]:
            for k in range(indptr[i] + x, indptr[i + 1], cuda.gridsize(2)[0]):
                total = np.float32(0)
                for b in range(spikes.shape[0]):
                    s = spikes[b, i]
                    if s != 0:
                        total += s * ct[b, indices[k]]
                out[k] = total

    @cuda.jit
    def row_product(weights, indices, indptr, ct, out):
        b, i = cuda.grid(2)
        if i < out.shape[0] and b < out.shape[1]:
            total = np.float32(0)
            for k in range(indptr[i], indptr[i + 1]):
                total += weights[k] * ct[indices[k], b]
            out[i, b] = total

    return {"product": product, "weight_gradient": weight_gradient, "row_product": row_product}


CUDA = r"""
#define X (blockIdx.x * blockDim.x + threadIdx.x)
#define Y (blockIdx.y * blockDim.y + threadIdx.y)
#define FOR_MY_SYNAPSES(i) \
    for (int k = indptr[i] + X; k < indptr[i + 1]; k += gridDim.x * blockDim.x)
__global__ void product(const float *weights, const int *indices, const int *indptr,
                        const float *spikes, float *out, int batch, int pre, int post) {
    size_t b = Y / pre, i = Y % pre;
    if (float s = b < batch ? spikes[b * pre + i] : 0)
        FOR_MY_SYNAPSES(i) atomicAdd(&out[b * post + indices[k]], s * weights[k]);
}
__global__ void weight_gradient(const float *spikes, const int *indices, const int *indptr,
                                const float *ct, float *out, int batch, int pre, int post) {
    size_t i = Y;
    if (i >= pre) return;
    FOR_MY_SYNAPSES(i) {
        float total = 0;
        for (size_t b = 0; b < batch; b++)
            if (float s = spikes[b * pre + i]) total += s * ct[b * post + indices[k]];
        out[k] = total;
    }
}
__global__ void row_product(const float *weights, const int *indices, const int *indptr,
                            const float *ct, float *out, int batch, int pre, int post) {
    size_t b = X, i = Y;
    if (i >= pre || b >= batch) return;
    float total = 0;
    for (int k = indptr[i]; k < indptr[i + 1]; k++)
        total += weights[k] * ct[size_t(indices[k]) * batch + b];
    out[i * batch + b] = total;
}
"""


def operation(name: str, launch: Callable[..., Any]) -> kernbridge.XLACustomKernel:
    """An operation with a kernel in each language. `launch` tells GPUs the threads along x and y,
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


def main() -> int:
    platform = jax.default_backend()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in {"epochs": 10, "seed": 0, "hidden": 200, "steps": 25}.items():
        parser.add_argument(f"--{name}", type=int, default=default, help="default: %(default)s")
    backends = product.available_backends(platform)
    parser.add_argument("--backend", choices=backends, default=product.get_default(platform))
    a = parser.parse_args()

    pixels, test_pixels, labels, test_labels = load(a.seed)
    p, rng = Params(a.hidden, a.steps), np.random.default_rng(a.seed)
    network, weights = build(p, rng)
    sizes = ", ".join(f"{s.indices.size:,} {name}" for name, s in network.items())
    print(f"{p.hidden} neurons; synapses: {sizes}; kernels: {a.backend}, {platform}")

    init, train, test = learner(p, lambda w, k, s: currents(w[k], network[k], s, a.backend))
    state, n, accuracy = init(weights), 0, 0.0
    for epoch in range(1, a.epochs + 1):
        start = time.perf_counter()
        shuffled = rng.permutation(len(labels))
        for i in range(0, len(labels) - p.batch + 1, p.batch):
            batch = shuffled[i : i + p.batch]
            state = train(n, state, pixels[batch], labels[batch])
            n += 1
        jax.block_until_ready(state)
        seconds = time.perf_counter() - start
        cost, accuracy, active = map(float, test(state, test_pixels, test_labels))
        rate = f"{1000 * active:.0f} Hz, {seconds:.2f} s" + " with compiling" * (epoch == 1)
        print(f"epoch {epoch:2}: test accuracy {accuracy:.1%}, cost {cost:.3f}, {rate}")
    print(f"Test accuracy: {accuracy:.1%} of {len(test_labels)} images, expected 90 % or more")
    return 0 if accuracy >= 0.9 else 1


if __name__ == "__main__":
    sys.exit(main())
