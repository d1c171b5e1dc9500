"""Spikes through a sparse matrix: an event-driven kernel in C++, in one jitted simulation.

A layer of leaky neurons inhibits itself through random synapses. Few neurons spike at a time, so
the kernel visits the rows of those alone; in JAX the whole product is computed. Both give the same
spikes.
"""

import time

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np

SOURCE = r"""
#include <algorithm>

// Row r of the matrix holds the synapses of neuron r: targets indices[indptr[r]..indptr[r + 1]].
// @BE currents spikes: bool[n], n, indptr: i32[n + 1], indices: i32[m], weight: f32 -> out: f32[n]
void currents(const bool *spikes, int n, const int *indptr, const int *indices, float weight,
              float *out) {
    std::fill(out, out + n, 0.0f);
    for (int r = 0; r < n; r++)
        if (spikes[r])
            for (int k = indptr[r]; k < indptr[r + 1]; k++)
                out[indices[k]] += weight;
}
"""
N, SYNAPSES, STEPS, WEIGHT = 2000, 200, 200, -0.004


def main() -> None:
    rng = np.random.default_rng(0)
    indices = np.stack([rng.choice(N, SYNAPSES, replace=False) for _ in range(N)]).astype(np.int32)
    indptr = jnp.arange(0, N * SYNAPSES + 1, SYNAPSES, dtype=jnp.int32)
    dense = np.zeros((N, N), np.float32)
    np.put_along_axis(dense, indices, WEIGHT, axis=1)
    drive = jnp.asarray(rng.uniform(0.1, 0.16, N), jnp.float32)

    module = kernbridge.load_cpp_inline("event_driven", SOURCE)
    flat = jnp.asarray(indices.reshape(-1))

    def event_driven(spikes):
        return module.currents(spikes, indptr, flat, WEIGHT)

    def whole_product(spikes):
        return spikes.astype(jnp.float32) @ dense

    def simulate(currents):
        def step(v, _):
            spikes = v > 1.0
            v = jnp.where(spikes, 0.0, 0.9 * v) + drive + currents(spikes)
            return v, spikes

        start = jnp.linspace(0, 1.2, N, dtype=jnp.float32)
        return jax.jit(lambda: jax.lax.scan(step, start, length=STEPS)[1])

    seconds, rasters = [], []
    for currents in (event_driven, whole_product):
        run = simulate(currents)
        run().block_until_ready()
        start = time.perf_counter()
        rasters.append(np.asarray(run()))
        seconds.append(time.perf_counter() - start)
    differ = (rasters[0] != rasters[1]).mean()  # sums in another order round otherwise
    assert differ < 1e-3, differ
    share = rasters[0].mean()
    print(f"{rasters[0].sum():,} spikes of {N} neurons in {STEPS} steps ({share:.1%} at a time)")
    print(f"event-driven, C++: {1e6 * seconds[0] / STEPS:.0f} us a step")
    print(f"dense product, JAX: {1e6 * seconds[1] / STEPS:.0f} us a step")


if __name__ == "__main__":
    main()
