"""Functions in CUDA C++ that kernels link, on the CPU: clang compiles them.

The ordinary run has tests/gpu/test_cuda_constructs.py on the CPU.

Each test is a program of its own, since this process has a fake driver that takes GPU calls.
"""

import shutil

import pytest

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")

pytestmark = [pytest.mark.once, pytest.mark.exhaustive]

HEAD = """
import jax, jax.numpy as jnp, numpy as np
import kernbridge
from kernbridge import numba_cuda_kernel
from numba import cuda, types
S = jax.ShapeDtypeStruct
x = jnp.arange(64, dtype=jnp.float32)

def declared(name, signature, source, **options):
    return cuda.declare_device(name, signature, link=cuda.CUSource(source), **options)

def wrap(function, **options):
    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = function(x[i])

    return numba_cuda_kernel(kernel, S(x.shape, x.dtype), grid=2, block=32, **options)

def refused(op, *words):
    try:
        op(x)
    except kernbridge.KernelCompilationError as e:
        assert all(w in str(e) for w in (*words, "run it on a GPU")), e
        assert len(str(e).splitlines()) <= 30
    else:
        raise SystemExit("not refused")

times = '''
static __constant__ float factors[] = {2.0f, 3.0f};
template <class T> __device__ __forceinline__ T scaled(T v, int i) { return v * factors[i]; }
extern "C" __device__ int times(float *out, float v) {
    float sum = scaled(v, blockIdx.x);
    atomicAdd(&sum, max(threadIdx.x, 1) * rsqrtf(4.0f));
    atomicMax(&sum, -1.0);
    *out = sum + cosf(0.0f) * (atomicCAS(&sum, 1e9, 0) == sum);
    return 0;
}
__global__ void unused(float *x) { x[threadIdx.x] = 0; }
'''
"""


@pytest.mark.skipif(shutil.which("clang++") is None, reason="clang is not installed")
def test_functions_in_cuda_cpp(run):
    printed = run("""
op = wrap(declared("times", "float32(float32)", times))
i = np.arange(64)
expected = np.where(i < 32, 2, 3) * i + np.maximum(i % 32, 1) / 2 + 1
np.testing.assert_allclose(op(x), expected, rtol=1e-6)
np.testing.assert_allclose(jax.vmap(op)(jnp.stack([x, x]))[1], expected, rtol=1e-6)
other = wrap(declared("times", "float32(float32)", times.replace("2.0f", "5.0f")))
assert other(x)[1] == 5 + 0.5 + 1  # the source counts

in_c = declared("plain", "float32(float32)", '''
__device__ int calls;
extern "C" __device__ float plain(float v) { return sqrtf(v) * 2; }
''', abi="c")
np.testing.assert_allclose(wrap(in_c)(x), 2 * np.sqrt(x), rtol=1e-6)

nothing = declared("nothing", "void(int32)", '''
extern "C" __device__ void nothing(int n) { if (n > 3) __threadfence(); }
''', abi="c")

@cuda.jit(device=True)
def around(v):
    nothing(types.int32(v))
    return v

np.testing.assert_array_equal(wrap(around)(x), x)

meet = declared("meet", "int32(int32)", '''
extern "C" __device__ int meet(int *out, int i) {
    __syncthreads();
    *out = blockDim.x - 1 - i;
    __syncwarp();
    return 0;
}
''')

@cuda.jit
def reversed_blocks(x, out):
    i = cuda.threadIdx.x
    shared = cuda.shared.array(32, types.float32)
    shared[i] = x[cuda.grid(1)]
    out[cuda.grid(1)] = shared[meet(i)]

op = numba_cuda_kernel(reversed_blocks, S(x.shape, x.dtype), grid=2, block=32)
np.testing.assert_array_equal(op(x), x.reshape(2, 32)[:, ::-1].ravel())

asserting = declared("asserting", "float32(float32)", '''
#include <assert.h>
extern "C" __device__ int asserting(float *out, float v) { assert(v < 40); *out = v; return 0; }
''')
try:
    jax.block_until_ready(wrap(asserting)(x))
except (jax.errors.JaxRuntimeError, ValueError) as e:
    assert "block (1, 0, 0), thread (8, 0, 0): the assertion (v < 40) at" in str(e), e
    assert "<unnamed-cu>.cu:3 failed" in str(e), e
else:
    raise SystemExit("an assertion that does not hold is no error")

waiting = '''
__device__ int flag[2];
extern "C" __device__ int hand(int *out, int how) {
    if (threadIdx.x == 0) {
        if (how == 0) while (atomicAdd(flag, 0) == 0) {}
        if (how == 1) while (atomicCAS(flag, 7, 8) != 7) {}
        if (how == 2) while (atomicMax(flag, 0) == 0) {}
        if (how == 3) while (atomicExch(flag, 0) == 0) {}
        *out = atomicExch(flag, 3);
    } else {
        atomicExch(flag, 7);
        *out = atomicAdd(flag + 1, 100) + atomicMin(flag + 1, 5) + atomicSub_block(flag + 1, 1);
    }
    return 0;
}
'''
for how, seen in ((0, 7), (1, 8), (2, 7), (3, 0)):
    hand = declared("hand", "int32(int32)", f"{waiting}// {how}")

    @cuda.jit
    def meeting(out):
        out[cuda.threadIdx.x] = hand(types.int32(how))

    op = numba_cuda_kernel(meeting, S((2,), jnp.int32), grid=1, block=2)
    np.testing.assert_array_equal(op(), [seen, 0 + 100 + 5])

checked = wrap(declared("times", "float32(float32)", times), check=True)
refused(checked, "CUDA C++ (times) in checked mode")
refused(wrap(declared("bad", "float32(float32)", '''
extern "C" __device__ int bad(float *out, float v) { __shared__ float s[32]; return 0; }
''')), "functions in CUDA C++ (bad)", "clang does not compile", "shared memory in CUDA C++")
missing = "a function that does not exist on CPUs "
refused(wrap(declared("other", "float32(float32)", times)), missing + "(other)")
refused(wrap(declared("unknown", "float32(float32)", '''
extern "C" __device__ int elsewhere(float *out);
extern "C" __device__ int unknown(float *out, float v) { return elsewhere(out); }
''')), missing + "(elsewhere)")
refused(wrap(declared("flag", "float32(float32)", '''
extern "C" __device__ int flag(float *out, double v) { return 0; }
''')), "a function in CUDA C++ (flag) that is i32 (ptr, double) in C++ and i32 (ptr, float)")
print("held")
""")
    assert "held" in printed


def test_without_clang_they_are_refused_by_name(run):
    run(
        """
refused(wrap(declared("times", "float32(float32)", times)), "functions in CUDA C++ (times)",
        "for which clang was not found")
""",
        CLANG="/nowhere/clang++",
    )
