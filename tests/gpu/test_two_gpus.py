"""The right device: operations on arrays of each GPU, alone, at once, and sharded."""

import threading

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest

cuda = pytest.importorskip("numba.cuda")
S = jax.ShapeDtypeStruct


def gpus():
    try:
        return jax.devices("gpu")
    except RuntimeError:
        return []


pytestmark = pytest.mark.skipif(len(gpus()) < 2, reason="needs two GPUs")


@cuda.jit
def add(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


def two_steps(x, out, stream):
    temporary = cuda.device_array_like(x)
    add[40, 256, stream](x, x, temporary)
    add[40, 256, stream](temporary, x, out)


op = kernbridge.numba_cuda_kernel(
    add, lambda x, y: S(x.shape, x.dtype), launch_dims=lambda x, y: x.size
)
three_times = kernbridge.numba_cuda_callable(
    two_steps, lambda x: S(x.shape, x.dtype), record="always"
)
unrecorded = kernbridge.numba_cuda_callable(
    two_steps, lambda x: S(x.shape, x.dtype), record="never"
)


SOURCE = r"""
#include "brainevent/common.h"
__global__ void twice_kernel(const float* x, float* out, int64_t n) {
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2 * x[i];
}
// @BE twice arg ret stream
void twice(const BE::Tensor x, BE::Tensor out, int64_t stream) {
    int64_t n = x.numel();
    twice_kernel<<<(n + 255) / 256, 256, 0, (cudaStream_t)stream>>>(
        x.data_ptr<float>(), out.data_ptr<float>(), n);
}
"""
DEVICE_CODE = """__global__ void twice(const float* x, float* out, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2 * x[i];
}"""


def from_source(x):
    module = kernbridge.load_cuda_inline("two_gpus", SOURCE)
    return module.twice(x, outs=S(x.shape, x.dtype))


def target(x):
    kernbridge.load_cuda_inline("two_gpus", SOURCE)
    return jax.ffi.ffi_call("two_gpus.twice", S(x.shape, x.dtype))(x)


def by_nvrtc(x):
    op = kernbridge.cuda_kernel(
        DEVICE_CODE, "twice", S(x.shape, x.dtype), launch_dims=x.size, attrs={"n": x.size}
    )
    return op(x)


@pytest.mark.parametrize("function", [from_source, target, by_nvrtc])
def test_shard_map_of_source(function):
    mesh = jax.sharding.Mesh(np.array(gpus()[:2]), ("d",))
    spec = jax.sharding.PartitionSpec("d")
    f = jax.jit(jax.shard_map(function, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False))
    x = jax.device_put(jnp.arange(8192, dtype=jnp.float32), jax.sharding.NamedSharding(mesh, spec))
    np.testing.assert_array_equal(f(x), 2 * np.arange(8192))


@pytest.mark.parametrize("index", [1, 0])
@pytest.mark.parametrize(
    ("function", "factor"),
    [
        (lambda x: op(x, x), 2),
        (three_times, 3),
        (unrecorded, 3),
        (from_source, 2),
        (target, 2),
        (by_nvrtc, 2),
    ],
)
def test_runs_where_its_arrays_are(index, function, factor):
    device = gpus()[index]
    x = jax.device_put(jnp.arange(10_000, dtype=jnp.float32), device)
    for f in (function, jax.jit(function)):
        result = f(x)
        assert result.devices() == {device}
        np.testing.assert_array_equal(result, factor * np.arange(10_000))


def test_both_at_once_from_two_threads():
    f = jax.jit(lambda x: jax.lax.fori_loop(0, 500, lambda i, x: op(x, jnp.ones_like(x)), x))
    results = [None, None]

    def work(k):
        x = jax.device_put(jnp.full(10_000, k, jnp.float32), gpus()[k])
        for _ in range(5):
            results[k] = np.asarray(f(x))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for k in range(2):
        np.testing.assert_array_equal(results[k], np.full(10_000, 500 + k))


def test_shard_map():
    mesh = jax.sharding.Mesh(np.array(gpus()[:2]), ("d",))
    spec = jax.sharding.PartitionSpec("d")
    f = jax.jit(
        jax.shard_map(lambda x: three_times(op(x, x)), mesh=mesh, in_specs=spec, out_specs=spec)
    )
    x = jax.device_put(jnp.arange(8192, dtype=jnp.float32), jax.sharding.NamedSharding(mesh, spec))
    np.testing.assert_array_equal(f(x), 6 * np.arange(8192))
