"""CUDA C++ on the CPU: values of intrinsics at the edges, and what would end the process."""

import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest
from jax import ShapeDtypeStruct as S

pytestmark = pytest.mark.once

SOURCE = r"""
#include "kernbridge/kernbridge.hpp"
using kernbridge::Tensor;

__device__ __noinline__ int deep(int a, volatile int *x) {
    volatile int w[8];
    w[0] = a;
    return x[0] == 12345 ? 0 : deep(a + 1, x) + w[0];
}
__global__ void recursive(int *x, int *out, int thread) {
    if (thread) __syncthreads();
    if (threadIdx.x == thread) out[threadIdx.x] = deep(0, x);
}
__global__ void divide(const int *x, int *out) {
    out[threadIdx.x] = x[threadIdx.x] / x[threadIdx.x % 4];
}
__global__ void remainder(const int *x, int *out) {
    __syncthreads();
    out[threadIdx.x] = x[threadIdx.x] % x[threadIdx.x % 4];
}
__global__ void lowest(const int *x, int *out) { out[0] = (x[2] - 2147483647 - 3) / (x[0] - 1); }
// @BE fails arg:i32[n] ret:i32[n] attr.which:int32
void fails(const Tensor x, Tensor out, int which) {
    int *a = const_cast<int *>(x.data_ptr<int>()), *o = out.data_ptr<int>(), n = (int)x.numel();
    switch (which) {
    case 0: recursive<<<1, n>>>(a, o, 0); break;
    case 1: recursive<<<2, n>>>(a, o, 40); break;
    case 2: divide<<<1, n>>>(a, o); break;
    case 3: remainder<<<500, n>>>(a, o); break;
    case 4: lowest<<<1, 1>>>(a, o); break;
    case 5: recursive<<<1, n>>>(a, o, n); break;
    }
}

__global__ void integers(const int *x, const int *y, int *out, int n) {
    int i = threadIdx.x;
    unsigned a = x[i], b = y[i];
    out[i] = __mul24(x[i], y[i]);
    out[n + i] = __umul24(a, b);
    out[2 * n + i] = __dp4a(x[i], y[i], i);
    out[3 * n + i] = __dp4a(a, b, 7u);
}
// @BE of_integers arg:i32[n] arg:i32[n] ret:i32[4, n]
void of_integers(const Tensor x, const Tensor y, Tensor out) {
    int n = (int)x.numel();
    integers<<<1, n>>>(x.data_ptr<int>(), y.data_ptr<int>(), out.data_ptr<int>(), n);
}
__global__ void to_integers(const float *x, int *out, long long *wide, int n) {
    int i = threadIdx.x;
    double d = x[i];
    out[i] = __float2int_rz(x[i]);
    out[n + i] = __float2uint_rz(x[i]);
    out[2 * n + i] = __double2int_rz(d);
    out[3 * n + i] = __double2uint_rz(d);
    wide[i] = __float2ll_rz(x[i]);
    wide[n + i] = __double2ull_rz(d);
}
// @BE of_floats arg:f32[n] ret:i32[4, n] ret:i64[2, n]
void of_floats(const Tensor x, Tensor out, Tensor wide) {
    int n = (int)x.numel();
    to_integers<<<1, n>>>(x.data_ptr<float>(), out.data_ptr<int>(), wide.data_ptr<long long>(), n);
}
__global__ void extremes(const float *x, double *out) {
    int i = threadIdx.x;
    out[i] = max(x[i], 1.0);
    out[8 + i] = min(1.0, x[i]);
    out[16 + i] = max(x[i], 1);
}
// @BE of_extremes arg:f32[8] ret:f64[3, 8]
void of_extremes(const Tensor x, Tensor out) {
    extremes<<<1, 8>>>(x.data_ptr<float>(), out.data_ptr<double>());
}
__global__ void extremes_of_pairs(const float *x, const double *y, double *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const float least = std::fmin(1.0f, -INFINITY);
        float v = x[i], w = (float)y[i];
        out[i] = fmaxf(fmaxf(v, w), least);
        out[n + i] = fminf(v, w);
        out[2 * n + i] = fmax(v, w);
        out[3 * n + i] = std::fmin(v, w);
        out[4 * n + i] = fmax(v, y[i]);
        out[5 * n + i] = fmin(v, y[i]);
        out[6 * n + i] = max(v, w);
        out[7 * n + i] = min(y[i], (double)v);
    }
}
// @BE of_pairs arg:f32[n] arg:f64[n] ret:f64[8, n]
void of_pairs(const Tensor x, const Tensor y, Tensor out) {
    int n = (int)x.numel();
    extremes_of_pairs<<<2, n - 7>>>(x.data_ptr<float>(), y.data_ptr<double>(),
                                    out.data_ptr<double>(), n);
}
"""


@pytest.fixture(scope="module")
def module(without_fake_gpu):
    return kernbridge.load_cuda_inline("semantics", SOURCE)


@pytest.mark.parametrize(
    ("which", "said"),
    [
        (0, r"block \(0, 0, 0\): a thread needs more than its stack: a device function"),
        (1, r"block \([01], 0, 0\): a thread needs more than its stack: a device function"),
        (2, "a thread divides an integer by zero"),
        (3, "a thread divides an integer by zero"),
        (4, "or the lowest one by -1"),
    ],
)
def test_what_would_end_the_process_is_an_error(module, which, said):
    def call(which):
        x = jnp.arange(64, dtype=jnp.int32)
        return module.fails(x, outs=S((64,), jnp.int32), which=which).block_until_ready()

    for _ in range(2):
        with pytest.raises(Exception, match=rf"semantics\.fails'.*{said}.*\[KB3004\]"):
            call(which)
        call(5)  # the next call is as good as the first


DEEP = r"""
import faulthandler
import jax.numpy as jnp, kernbridge
from jax import ShapeDtypeStruct as S
SOURCE = r'''
#include "kernbridge/kernbridge.hpp"
__device__ __noinline__ int deep(int a, volatile int *x) {
    volatile int w[8];
    w[0] = a;
    return x[0] == 12345 ? 0 : deep(a + 1, x) + w[0];
}
__global__ void recursive(int *x, int *out) { out[threadIdx.x] = deep(0, x); }
// @BE deep_call arg:i32[n] ret:i32[n]
void deep_call(const kernbridge::Tensor x, kernbridge::Tensor out) {
    recursive<<<1, (int)x.numel()>>>(x.data_ptr<int>(), out.data_ptr<int>());
}
'''
operation = kernbridge.load_cuda_inline("deep", SOURCE).deep_call
faulthandler.enable()  # after kernbridge has installed its handler
for _ in range(2):
    try:
        operation(jnp.arange(5, dtype=jnp.int32), outs=S((5,), jnp.int32)).block_until_ready()
    except Exception as error:
        print("needs more than its stack" in str(error))
"""


@pytest.mark.exhaustive
def test_a_fault_is_an_error_for_those_with_other_handlers(run_python):
    assert run_python(DEEP, KERNBRIDGE_TEST_CUDA="").split() == ["True", "True"]


def test_integer_intrinsics(module):
    rng = np.random.default_rng(0)
    x, y = rng.integers(-(2**31), 2**31, (2, 64)).astype(np.int32)
    x[:4], y[:4] = [-1, -2, 0x7FFFFF, 0x800000], [3, 3, 3, 3]
    got = np.asarray(module.of_integers(x, y, outs=S((4, 64), jnp.int32)))
    low = lambda v: (v.astype(np.int64) << 40) >> 40  # noqa: E731
    assert got[0].tolist() == (low(x) * low(y)).astype(np.int32).tolist()
    unsigned = (x & 0xFFFFFF).astype(np.uint64) * (y & 0xFFFFFF).astype(np.uint64)
    assert got[1].view(np.uint32).tolist() == unsigned.astype(np.uint32).tolist()
    signed_bytes = x.view(np.int8).reshape(-1, 4).astype(int) * y.view(np.int8).reshape(-1, 4)
    assert got[2].tolist() == (signed_bytes.sum(1) + np.arange(64)).tolist()
    bytes_ = x.view(np.uint8).reshape(-1, 4).astype(int) * y.view(np.uint8).reshape(-1, 4)
    assert got[3].tolist() == (bytes_.sum(1) + 7).tolist()


def test_conversions_saturate_as_ptx_says(module, x64):
    x = np.float32([np.nan, np.inf, -np.inf, 3e9, -3e9, 5e9, -1.75, 2.5])
    outs = [S((4, 8), jnp.int32), S((2, 8), jnp.int64)]
    narrow, wide = map(np.asarray, module.of_floats(x, outs=outs))
    top, high = 2**31, np.uint32
    f = x.astype(float)
    saturated = lambda low, most: np.clip(np.trunc(np.nan_to_num(f, nan=0)), low, most)  # noqa: E731
    of_float, of_double = saturated(-top, top - 1), saturated(-top, top - 1)
    of_double[0] = -top  # PTX: 1 << (bits - 1) where the source or the result has 64 bits
    assert narrow[0].tolist() == of_float.tolist()
    assert narrow[1].view(high).tolist() == saturated(0, 2**32 - 1).tolist()
    assert narrow[2].tolist() == of_double.tolist()
    assert narrow[3].view(high).tolist() == [top, *saturated(0, 2**32 - 1)[1:].tolist()]
    assert wide[0][:3].tolist() == [-(2**63), 2**63 - 1, -(2**63)]
    assert wide[0][3:].tolist() == np.trunc(f[3:]).tolist()
    assert wide[1].view(np.uint64)[:3].tolist() == [2**63, 2**64 - 1, 0]


def test_nan_loses_in_extremes_of_two_types(module, x64):
    x = np.float32([np.nan, 0, 2, 1, np.nan, np.inf, -np.inf, -3])
    got = np.asarray(module.of_extremes(x, outs=S((3, 8), jnp.float64)))
    assert got[0].tolist() == got[2].tolist() == np.fmax(x, 1).tolist()
    assert got[1].tolist() == np.fmin(x, 1).tolist()


def test_nan_loses_in_extremes_of_pairs(module, x64):
    """Also where they are inlined as one instruction of x86, which would take the second."""
    some = np.array([np.nan, 0.0, 2.5, np.inf, -np.inf, -3.0, 1e-40])
    x, y = (a.ravel() for a in np.meshgrid(some.astype(np.float32), some.astype(np.float32)))
    y = y.astype(np.float64)
    got = np.asarray(module.of_pairs(x, y, outs=S((8, x.size), jnp.float64)))
    for row, values in enumerate(got):
        expected = (np.fmin if row % 2 else np.fmax)(x.astype(np.float64), y)
        if row == 0:
            expected = np.fmax(expected, -np.inf)
        np.testing.assert_array_equal(values, expected, err_msg=str(row))


POLLS = r"""
#include "kernbridge/kernbridge.hpp"
using kernbridge::Tensor;
__device__ int lock = 0, total = 0;
enum { ADD, OR, AND, MAX, CAS, EXCHANGE, LOCK };

__device__ bool is_set(int *flag, int which) {
    return which == ADD   ? atomicAdd(flag, 0) != 0
           : which == OR  ? atomicOr(flag, 0) != 0
           : which == AND ? atomicAnd(flag, ~0) != 0
           : which == MAX ? atomicMax(flag, 0) != 0
           : which == CAS ? atomicCAS(flag, 0, 0) != 0
                          : atomicExch(flag, 0) != 0;
}
__global__ void poll(int *out, int *flag, int which) {
    if (threadIdx.x == 0) {
        while (!is_set(flag, which)) {}
    } else if (threadIdx.x == 1) {
        out[1] = 5;
        __threadfence();
        atomicExch(flag, 1);
    }
    if (threadIdx.x == 0) {
        __threadfence();
        out[0] = 7;
    }
}
__global__ void locked(int *out) {
    while (atomicExch(&lock, 1)) {}
    __threadfence();
    int now = *out;
    __nanosleep(1); // the others come meanwhile
    *out = now + 1;
    __threadfence();
    atomicExch(&lock, 0);
}
// @BE polls ret:i32[3] attr.which:int32
void polls(Tensor out, int which) {
    int *o = out.data_ptr<int>();
    cudaMemset(o, 0, out.nbytes());
    if (which == LOCK) locked<<<1, 64>>>(o);
    else poll<<<1, 2>>>(o, o + 2, which);
}
"""


@pytest.mark.parametrize("check", [False, True])
def test_loops_that_poll_by_atomic_functions_end(module, check, run_python):
    run_python(
        f"""
import jax, jax.numpy as jnp, kernbridge
module = kernbridge.load_cuda_inline("polls", {POLLS!r}, check={check})
outs = jax.ShapeDtypeStruct((3,), jnp.int32)
for which in range(6):
    assert module.polls(outs=outs, which=which)[:2].tolist() == [7, 5], which
assert module.polls(outs=outs, which=6)[0] == 64
"""
    )
