"""Products and sums of libdevice are not fused on a CPU, as they are not on a GPU."""

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest

pytestmark = pytest.mark.once
pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")

from numba import cuda  # noqa: E402
from numba.cuda import libdevice  # noqa: E402


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_products_and_sums_that_are_rounded_apart(kind, x64):
    letter = kind[0] if kind == "float32" else "d"
    product, total = (getattr(libdevice, f"{letter}{name}_rn") for name in ("mul", "add"))

    @cuda.jit
    def kernel(x, y, z, both, only_product, only_sum, minus):
        i = cuda.grid(1)
        if i < x.size:
            both[i] = total(product(x[i], y[i]), z[i])
            only_product[i] = product(x[i], y[i]) + z[i]
            only_sum[i] = total(x[i] * y[i], z[i])
            minus[i] = z[i] - product(x[i], y[i])

    out = jax.ShapeDtypeStruct((1000,), kind)
    op = kernbridge.numba_cuda_kernel(kernel, [out] * 4, launch_dims=1000)
    x, y, z = np.random.default_rng(0).normal(size=(3, 1000)).astype(kind)
    both, only_product, only_sum, minus = op(*map(jnp.asarray, (x, y, z)))
    for found in (both, only_product, only_sum):
        np.testing.assert_array_equal(found, x * y + z)
    np.testing.assert_array_equal(minus, z - x * y)
