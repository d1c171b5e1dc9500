"""Benchmarks on a real GPU: what is measured really ran, as often as is said."""

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import operations
import pytest
from kernbridge import BenchmarkConfig
from kernbridge.benchmark import measure
from numba import cuda

S = jax.ShapeDtypeStruct


@pytest.mark.parametrize("n_batch", [1, 2, 7, 16, 200])
def test_every_call_runs(n_batch):
    count = cuda.to_device(np.zeros(1, np.int64))
    address = count.__cuda_array_interface__["data"][0]
    kernel = kernbridge.cuda_kernel(
        """
        __global__ void counted(const float *x, float *y, long long count, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i == 0) atomicAdd((unsigned long long *)count, 1ull);
            if (i < n) y[i] = 2 * x[i];
        }
        """,
        "counted",
        S((100,), jnp.float32),
        launch_dims=100,
        attrs={"count": address, "n": 100},
    )
    found = measure(kernel, n_warmup=0, n_runs=3, n_batch_per_run=n_batch, data=(jnp.ones(100),))
    cuda.synchronize()
    ran = int(count.copy_to_host()[0])
    assert ran >= 3 * n_batch  # the compiling run comes on top
    assert (ran - 3 * n_batch) % n_batch in (0, 1)
    assert ran <= 5 * n_batch + 1
    np.testing.assert_array_equal(found.output, np.full(100, 2))


def test_backends_of_an_operation():
    operations.leaky_op.def_benchmark_data(
        lambda *, platform: [
            BenchmarkConfig(str(n), (jnp.linspace(-1, 1, n),), {"alpha": 0.1})
            for n in (100, 10_000)
        ]
    )
    backends = ["numba_cuda", "cuda_raw", "pallas"]
    result = operations.leaky_op.benchmark(
        platform="gpu", n_warmup=1, n_runs=5, n_batch_per_run=10, backends=backends
    )
    assert [r.backend for r in result.records] == backends * 2
    assert all(r.success for r in result.records), [r.error for r in result.records]
    assert "numba_cuda" in str(result)
