"""Variables of CUDA C++ on the CPU: each device has its own, and its calls take turns."""

from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest
from jax import ShapeDtypeStruct as S

pytestmark = pytest.mark.once

LAST_BLOCK = r"""
__device__ unsigned done = 0;
__device__ float parts[64];
extern "C" __global__ void last_block(const float *x, float *out, int n) {
    __shared__ float s[64];
    __shared__ bool last;
    float a = 0;
    for (int i = blockIdx.x * 64 + threadIdx.x; i < n; i += 64 * gridDim.x) a += x[i];
    s[threadIdx.x] = a;
    __syncthreads();
    if (threadIdx.x) return;
    float t = 0;
    for (int i = 0; i < 64; i++) t += s[i];
    parts[blockIdx.x] = t;
    __threadfence();
    last = atomicInc(&done, gridDim.x) == gridDim.x - 1;
    if (!last) return;
    t = 0;
    for (int i = 0; i < gridDim.x; i++) t += parts[i];
    out[0] = t;
    done = 0;
}
__device__ int calls = 0;
extern "C" __global__ void count(const float *x, int *out) { out[0] = ++calls; }
"""
MODULE = (
    '#include "kernbridge/kernbridge.hpp"\nusing kernbridge::Tensor;'
    + LAST_BLOCK
    + r"""
// @BE total arg:f32[n] ret:f32[1]
void total(const Tensor x, Tensor out) {
    last_block<<<64, 64>>>(x.data_ptr<float>(), out.data_ptr<float>(), (int)x.numel());
}
// @BE counted arg:f32[n] ret:i32[1]
void counted(const Tensor x, Tensor out) {
    count<<<1, 1>>>(x.data_ptr<float>(), out.data_ptr<int>());
}
// @BE set arg:f32[n] ret:i32[1] attr.to:int32
void set(const Tensor x, Tensor out, int to) {
    cudaMemcpyFromSymbol(out.data_ptr<int>(), calls, sizeof calls);
    cudaMemcpyToSymbol(calls, &to, sizeof to);
}
"""
)


@pytest.fixture(scope="module")
def operations(without_fake_gpu):
    module = kernbridge.load_cuda_inline("device_variables", MODULE, carry=True)
    options = {"grid": 64, "block": 64, "attrs": {"n": lambda x: x.size}}
    outs = lambda dtype: lambda x: S((1,), dtype)  # noqa: E731
    total = kernbridge.cuda_kernel(LAST_BLOCK, "last_block", outs(jnp.float32), **options)
    count = kernbridge.cuda_kernel(
        LAST_BLOCK, "count", outs(jnp.int32), grid=1, block=1, has_side_effect=True
    )
    return {
        "module": (
            module.total.operation(S((1,), jnp.float32)),
            module.counted.operation(S((1,), jnp.int32), has_side_effect=True),
        ),
        "kernel": (total, count),
        "set": module.set,
    }


@pytest.mark.parametrize("of", ["module", "kernel"])
def test_calls_at_the_same_time_do_not_share_variables(operations, of):
    total, _ = operations[of]
    x = np.random.default_rng(3).integers(0, 9, (8, 1 << 14)).astype(np.float32)
    on = [jax.device_put(x[i], jax.devices()[i % 4]) for i in range(8)]
    total = jax.jit(total)
    with ThreadPoolExecutor(8) as pool:
        for _ in range(20):
            got = list(pool.map(lambda a: float(total(a)[0]), on))
            assert got == x.sum(1).tolist()


@pytest.mark.parametrize("of", ["module", "kernel"])
def test_each_device_has_its_own_variables(operations, of):
    count = jax.jit(operations[of][1])
    on = [jax.device_put(np.zeros(3, np.float32), d) for d in jax.devices()[:4]]
    got = [[int(count(x)[0]) for x in on[: i + 1]] for i in range(4)]
    first = got[0][0] - 1
    assert got == [[first + 1], [first + 2, 1], [first + 3, 2, 1], [first + 4, 3, 2, 1]]


def test_symbols_are_those_of_the_device(operations):
    x, y = (jax.device_put(np.zeros(3, np.float32), d) for d in jax.devices()[:2])
    set_to = lambda x, to: int(operations["set"](x, outs=S((1,), jnp.int32), to=to)[0])  # noqa: E731
    set_to(x, 10)
    set_to(y, 20)
    assert [set_to(x, 11), set_to(y, 21), set_to(x, 0), set_to(y, 0)] == [10, 20, 11, 21]


@pytest.mark.exhaustive
def test_a_carried_library_has_variables_for_each_device(operations, run_python, tmp_path):
    count, x = operations["module"][1], S((2,), jnp.float32)
    path = tmp_path / "program"
    path.write_bytes(jax.export.export(jax.jit(count))(x).serialize())
    run_python(
        f"""
import jax, numpy, kernbridge
count = jax.export.deserialize(bytearray(open({str(path)!r}, "rb").read())).call
on = [jax.device_put(numpy.ones(2, numpy.float32), d) for d in jax.devices()[:2]]
assert [int(count(on[i])[0]) for i in (0, 1, 0, 1, 1)] == [1, 1, 2, 2, 3]
""",
        CXX="/nowhere/g++",
        KERNBRIDGE_CACHE_DIR="0",
    )
