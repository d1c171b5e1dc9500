"""A first kernel: three lines of Numba as a JAX operation. Run: python examples/first_kernel.py"""

# mypy: allow-untyped-calls
from __future__ import annotations

import jax
import jax.numpy as jnp
import kernbridge as kb
import numba
import numpy as np

jax.config.update("jax_platforms", "cpu")  # numba.njit kernels run on the CPU


@numba.njit
def smooth(x: np.ndarray, out: np.ndarray) -> None:
    for i in range(x.size):
        left, right = x[max(i - 1, 0)], x[min(i + 1, x.size - 1)]
        out[i] = 0.25 * left + 0.5 * x[i] + 0.25 * right


def smooth_numpy(x: np.ndarray) -> np.ndarray:
    padded = np.pad(x, 1, mode="edge")
    return 0.25 * padded[:-2] + 0.5 * padded[1:-1] + 0.25 * padded[2:]


def main() -> None:
    n = 8
    op = kb.numba_kernel(smooth, jax.ShapeDtypeStruct((n,), jnp.float32))
    x = np.random.default_rng(0).random(n, dtype=np.float32)

    eager = op(x)
    np.testing.assert_allclose(eager, smooth_numpy(x), rtol=1e-6)
    print("eager:", eager)

    jitted = jax.jit(lambda x: 10 * op(x))(x)
    np.testing.assert_allclose(jitted, 10 * smooth_numpy(x), rtol=1e-6)
    print("jit:  ", jitted)

    batch = np.stack([x, 2 * x, 3 * x])
    mapped = jax.vmap(op)(batch)
    np.testing.assert_allclose(mapped, [smooth_numpy(row) for row in batch], rtol=1e-6)
    print("vmap: ", mapped.shape, "of", batch.shape)

    scanned, _ = jax.lax.scan(lambda x, _: (op(x), None), jnp.asarray(x), length=100)
    expected = x
    for _ in range(100):
        expected = smooth_numpy(expected)
    np.testing.assert_allclose(scanned, expected, rtol=1e-5)
    print("scan: ", scanned)


if __name__ == "__main__":
    main()
