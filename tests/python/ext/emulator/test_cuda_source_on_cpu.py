"""CUDA C++ modules on the CPU: values, faults, refusals, and what programs carry."""

import platform
import shutil
import sys
from collections import namedtuple
from pathlib import Path

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from kernbridge._src.toolchain.nvcc import find_nvcc
from sharded import check, mesh, put

sys.path.insert(0, str(Path(__file__).parents[3] / "sources"))
import cuda_faults
import keep

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("without_fake_gpu")]

F32, I32 = jnp.float32, jnp.int32
S = jax.ShapeDtypeStruct

SOURCE = r"""
#include "kernbridge/kernbridge.hpp"
#include <cassert>
using kernbridge::Tensor;

__constant__ float weights[4];
static const char *text = "a<<<1, 1>>>(b); __shared__ \" asm(1)"; // f<<<1, 1>>>(x)

__global__ void saxpy(const float *x, const float *y, float *out, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a * x[i] + y[i];
}
// @BE axpy arg:f32[n] arg:f32[n] ret:f32[n] attr.a stream
void axpy(const Tensor x, const Tensor y, Tensor out, float a, int64_t stream) {
    int n = x.numel_checked_int();
    saxpy<<<(n + 255) / 256, 256, 0, (cudaStream_t)stream>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), out.data_ptr<float>(), a, n);
}

template <typename T, int B> __global__ void sums(const T *x, T *out, int n) {
    __shared__ T fixed[B];
    extern __shared__ __align__(16) unsigned char dynamic[];
    T *moving = reinterpret_cast<T *>(dynamic);
    int i = blockIdx.x * B + threadIdx.x;
    T v = i < n ? x[i] : T(0);
    fixed[threadIdx.x] = moving[B - 1 - threadIdx.x] = v;
    __syncthreads();
    for (int d = B / 2; d; d >>= 1) {
        if (threadIdx.x < d) fixed[threadIdx.x] += fixed[threadIdx.x + d];
        __syncthreads();
    }
    T w = moving[threadIdx.x];
    for (int d = 16; d; d >>= 1) w += __shfl_down_sync(0xffffffff, w, d);
    if (threadIdx.x % 32 == 0) atomicAdd(out + 1, w);
    if (threadIdx.x == 0) atomicAdd(out, fixed[0]);
}
// @BE total arg:i32[n] ret:i32[2] stream
void total(const Tensor x, Tensor out, cudaStream_t stream) {
    int n = x.numel_checked_int();
    cudaMemsetAsync(out.data_ptr(), 0, out.nbytes(), stream);
    sums<int, 128><<<dim3((n + 127) / 128), dim3(128), 128 * sizeof(int), stream>>>(
        x.data_ptr<int>(), out.data_ptr<int>(), n);
    KB_CHECK_KERNEL_LAUNCH();
}

__global__ void warps(const int *x, int *out, int n) {
    int i = threadIdx.x, v = x[i];
    int *row = out + i;
    row[0] = __ballot_sync(~0u, v & 1);
    row[n] = __any_sync(~0u, v == 5) + 10 * __all_sync(~0u, v >= 0);
    row[2 * n] = __match_any_sync(~0u, v % 3);
    row[3 * n] = __reduce_max_sync(~0u, v) - __reduce_add_sync(~0u, 1);
    row[4 * n] = __syncthreads_count(v % 4 == 0);
    row[5 * n] = __shfl_xor_sync(~0u, v, 3, 8);
    row[6 * n] = __shfl_up_sync(~0u, v, 2);
    if (i % 2) row[7 * n] = __activemask(); else row[7 * n] = -1;
    long long wide = __shfl_sync(~0u, (long long)v << 33 | i, 7);
    row[8 * n] = (int)(wide >> 33) + (int)(wide & 0xffff);
    atomicMax(out + 9 * n, v); atomicCAS(out + 9 * n + 1, 0, 7);
    atomicInc((unsigned *)out + 9 * n + 2, 5); atomicXor(out + 9 * n + 3, v);
}
// @BE of_warps arg:i32[n] ret:i32[10, n] stream
void of_warps(const Tensor x, Tensor out, int64_t stream) {
    cudaMemset(out.data_ptr(), 0, out.nbytes());
    warps<<<1, x.numel()>>>(x.data_ptr<int>(), out.data_ptr<int>(), (int)x.numel());
}

template <typename F> __global__ void map(const float *x, float *out, int n, F f) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        out[i] = f(x[i]);
}
// @BE mapped arg:f32[n] ret:f32[n] stream
void mapped(const Tensor x, Tensor out, int64_t stream) {
    float given[4] = {1, 2, 3, 4};
    cudaMemcpyToSymbol(weights, given, sizeof given);
    int n = x.numel(), evaluated = 0;
    auto f = [] __device__ (float v) { return v * weights[2] + rsqrtf(4.0f); };
    if (n) map
        <<<2, 64>>>(x.data_ptr<float>(), out.data_ptr<float>(), (evaluated++, n), f);
    KB_CHECK(evaluated == 1) << "evaluated " << evaluated << " times";
}
// @BE by_pointer arg:f32[n] ret:f32[n] stream
void by_pointer(const Tensor x, Tensor out, int64_t stream) {
    const float *from = x.data_ptr<float>();
    float *to = out.data_ptr<float>(), a = 3;
    int n = x.numel();
    void *given[] = {&from, &from, &to, &a, &n};
    cudaLaunchKernel(saxpy, dim3(n), dim3(1), given, 0, nullptr);
}

__global__ void mark(int *out, int i) {
    out[i] = i;
}
namespace inner {
template <typename T, bool b> __global__ void mark_too(T *out, int i) { out[i] = b ? i : -1; }
}
struct Table {
    void (*of[2])(int *, int) = {mark, mark};
    Table *at(int) { return this; }
    template <int n> static __global__ void shifted(int *out, int i) { out[i] = n + i - 1; }
};
#define LAUNCH(name, i) name<<<1, dim3(1, 1)>>>(o, i)
// @BE forms ret:i32[8] stream
void forms(Tensor out, int64_t stream) {
    int *o = out.data_ptr<int>(), n = 1;
    const char *quoted = R"x(mark<<<1, 1>>>("))x";
    Table table, *p = &table;
    if (quoted[0] == 'm') inner::mark_too<int, (2 > 1)><<<1, 1>>>(o, 0); else mark<<<1, 1>>>(o, 7);
    while (n--) (mark)<<<1, 1>>>(o, 1);
    table.at(1)->of[1]<<<1, 1>>>(o, 2);
    p->shifted<1>
        <<<1,
           1>>>(o, 3);
    LAUNCH(mark, 4); // mark<<<1, 1>>>(o, 6)
    inner::mark_too<int, true> <<<1, 1, 0, (cudaStream_t)stream>>>(o, 5);
    ::mark<<<1, 1>>>(o, 6);
    return ::mark<<<1, 1>>>(o, 7);
}

__global__ void faulty(int which, int *out) {
    int i = threadIdx.x;
    if (which == 0) assert(i < 3);
    if (which == 1 && i == 5) __trap();
    if (which == 2 && i < 2) { if (i) __syncthreads(); else __syncwarp(3); }
    if (which == 3) KB_CHECK(i != 2) << "i is " << i;
    out[i] = i;
}
// @BE fails ret:i32[n] attr.which stream
void fails(Tensor out, int which, int64_t stream) {
    if (which == 9) {
        faulty<<<1, 2000>>>(which, out.data_ptr<int>());
        return;
    }
    faulty<<<1, out.numel()>>>(which, out.data_ptr<int>());
}
"""


@pytest.fixture(scope="module")
def module():
    return kernbridge.load_cuda_inline("on_cpu", SOURCE, carry=True)


@pytest.mark.exhaustive
def test_a_kernel_without_barriers_and_under_vmap(module):
    x, y = jnp.arange(3000, dtype=F32), jnp.ones(3000, F32)

    def f(x, y):
        return module.axpy(x, y, outs=S(x.shape, F32), a=2.0)

    np.testing.assert_array_equal(f(x, y), 2 * np.arange(3000.0) + 1)
    np.testing.assert_array_equal(
        jax.jit(jax.vmap(f))(x.reshape(3, 1000), y.reshape(3, 1000)),
        2 * np.arange(3000.0).reshape(3, 1000) + 1,
    )
    np.testing.assert_array_equal(module.by_pointer(x, outs=S(x.shape, F32)), 4 * np.arange(3000.0))
    np.testing.assert_array_equal(module.mapped(x, outs=S(x.shape, F32)), 3 * np.arange(3000) + 0.5)


@pytest.mark.parametrize("n", [1, 127, 100003])
def test_barriers_shared_memory_and_shuffles(module, n):
    x = jnp.arange(n, dtype=I32) % 1000
    assert module.total(x, outs=S((2,), I32)).tolist() == [int(x.sum())] * 2


def test_operations_of_warps(module):
    v = np.random.default_rng(0).integers(0, 9, 32).astype(np.int32)
    lanes = np.arange(32)
    found = np.asarray(module.of_warps(jnp.asarray(v), outs=S((10, 32), I32)))

    def bits(which):
        return np.int64((which << lanes).sum()).astype(np.uint32).astype(np.int32)

    assert (found[0] == bits(v & 1)).all()
    assert (found[1] == (5 in v) + 10).all()
    assert (found[2] == [bits(v % 3 == w % 3) for w in v]).all()
    assert (found[3] == v.max() - 32).all()
    assert (found[4] == (v % 4 == 0).sum()).all()
    assert (found[5] == v[lanes ^ 3]).all()
    assert (found[6] == np.where(lanes < 2, v, np.roll(v, 2))).all()
    assert (found[7] == np.where(lanes % 2, np.int32(-0x55555556), -1)).all()
    assert (found[8] == v[7] + 7).all()
    assert found[9, :4].tolist() == [v.max(), 7, 32 % 6, np.bitwise_xor.reduce(v)]


@pytest.mark.parametrize(
    ("which", "text"),
    [
        (0, r"thread \(3, 0, 0\): the assertion \(i < 3\) at on_cpu\.cu:\d+ failed"),
        (1, r"thread \(5, 0, 0\): __trap was called"),
        (2, r"__syncwarp for the lanes 0x00000003, and thread \(1, .* in __syncthreads: neither"),
        (3, r"thread \(2, 0, 0\): on_cpu\.cu:\d+: check failed: \(i != 2\) i is 2"),
        (9, r"error 9, invalid configuration argument: .* blocks of \(2000, 1, 1\).*KB3004"),
    ],
)
def test_faults(module, which, text):
    with pytest.raises(Exception, match=rf"on_cpu\.fails'.*{text}"):
        module.fails(outs=S((64,), I32), which=which).block_until_ready()
    assert module.fails(outs=S((4,), I32), which=7).tolist() == [0, 1, 2, 3]


@pytest.fixture
def run_exported(run_python, tmp_path):
    """Exports a function, and evaluates `f(` and the rest of a call without a compiler."""

    def run(f, shapes, call):
        path = tmp_path / "program"
        path.write_bytes(jax.export.export(jax.jit(f))(*shapes).serialize())
        run_python(
            f"""
import jax, numpy, kernbridge
f = jax.export.deserialize(bytearray(open({str(path)!r}, "rb").read())).call
assert f({call}
""",
            CXX="/nowhere/g++",
            KERNBRIDGE_CACHE_DIR="0",
        )

    return run


@pytest.mark.exhaustive
def test_a_program_carries_the_library(module, run_exported):
    total = module.total.operation(S((2,), I32))
    run_exported(total, [S((9,), I32)], "numpy.arange(9, dtype='int32')).tolist() == [36, 36]")
    rows = "numpy.arange(18, dtype='int32').reshape(2, 9)).tolist() == [[36, 36], [117, 117]]"
    run_exported(jax.vmap(total), [S((2, 9), I32)], rows)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('asm volatile("mul.wide.u16 %0, %1, %1;" : "=r"(v) : "r"(v));', r"inline PTX \('mul"),
        ("cudaTextureObject_t t;", r"cudaTextureObject_t \(textures\)"),
        ("cublasHandle_t t;", r"cublasHandle_t \(a library of CUDA\)"),
        ("\n#include <cub/device/device_scan.cuh>", r"cub/device/device_scan\.cuh \(a library of"),
        ("\n#if __CUDA_ARCH__ >= 700\n  v++;\n#endif\n", r"code for GPUs alone"),
    ],
)
def test_what_only_gpus_have_is_refused(line, what):
    source = f'#include "kernbridge/kernbridge.hpp"\n__global__ void k(int v) {{\n  {line}\n}}\n'
    source += "// @BE f ret stream\nvoid f(kernbridge::Tensor o, int64_t stream) {}\n"
    with pytest.raises(
        kernbridge.KernelCompilationError, match=rf"refused\.cu:[34]: the source (uses|has) {what}"
    ):
        kernbridge.load_cuda_inline("refused", source)


def test_each_of_four_devices_launches_for_its_part(module):
    def axpy(rule, a=2.0):
        outs = lambda x, y: S(x.shape, F32)  # noqa: E731
        return module.axpy.operation(outs, attrs={"a": a}, sharding_rule=rule)

    x, y = np.arange(64, dtype=np.float32), np.ones(64, np.float32)
    found = check(axpy("i, i -> i"), put(x, "x"), put(y, "x"))
    assert found.sharding.spec == P("x")
    check(jax.vmap(axpy(None)), put(x.reshape(8, 8), "x"), put(y.reshape(8, 8), "x"))
    with pytest.warns(kernbridge.KernbridgeWarning, match=r"\[KB6002\]"):
        check(axpy(None, 3.0), put(x, "x"), put(y, "x"), moved=["all-gather"] * 2)
    sums = kernbridge.ShardingRule("i -> two", reduce="sum")
    total = module.total.operation(S((2,), I32), sharding_rule=sums)
    check(total, put(np.arange(64, dtype=np.int32), "x"), moved=["all-reduce"])

    def fails(which):  # it has no inputs
        op = module.fails.operation(S((64,), I32), attrs={"which": which})
        return jax.jit(op, out_shardings=NamedSharding(mesh(4), P("x")))()

    assert fails(7).tolist() == list(range(64))
    with pytest.raises(Exception, match=r"check failed: \(i != 2\) i is 2"):
        fails(3).block_until_ready()
    scaled = kernbridge.cuda_kernel(
        "__global__ void scaled(const float *p_x, float *o, int n) { o[threadIdx.x] = n * *p_x; }",
        "scaled",
        signature="p.x: f32[n] -> o: f32[n]",
        launch_dims="n",
        sharding_rule=True,
    )
    found = jax.jit(scaled)(namedtuple("Held", "x")(put(np.arange(8, dtype=np.float32), "x")))
    assert found.tolist() == [0, 0, 4, 4, 8, 8, 12, 12]  # of parts of two elements


@pytest.mark.exhaustive
def test_a_module_of_the_cpu_is_lowered_for_a_gpu_by_nvcc(monkeypatch):
    case = keep.CASES[0]
    call = case.calls[0]
    arrays = call.inputs(np.random.default_rng(0))
    expected = call.expected(arrays)
    op = jax.jit(call.bound(case.load(auto_register=False), expected))
    safe = [jax.export.DisabledSafetyCheck.custom_call("kernbridge.cuda.graph")]

    def exported():
        return jax.export.export(op, platforms=("cpu", "cuda"), disabled_checks=safe)(*arrays)

    with monkeypatch.context() as patch:
        patch.setenv("CUDA_HOME", "/nowhere")
        said = r"^load_cuda_file 'corpus.*' was lowered for cuda: no CUDA compiler.*\[KB4008"
        with pytest.raises(kernbridge.NvccNotFoundError, match=said):
            exported()
    try:
        find_nvcc()
    except kernbridge.NvccNotFoundError:
        pytest.skip("nvcc is not installed")
    monkeypatch.setenv("KERNBRIDGE_CUDA_ARCHS", "sm_90")
    both = exported()
    assert call.wrong([both.call(*arrays)], expected) == ""
    assert "custom_call @kernbridge.host(" in both.mlir_module()
    assert "custom_call @kernbridge.cuda.graph(" in both.mlir_module()


def test_every_form_of_a_launch(module):
    assert module.forms(outs=S((8,), I32)).tolist() == list(range(8))


MARKED = r"""
#include "kernbridge/kernbridge.hpp"
template <int n> __global__ void marked(const long long *x, long long *out) {
    __syncthreads();
    out[threadIdx.x % n] = x[threadIdx.x % n] ^ 0x1d3f5a7c9e2b4861;
}
// @BE launched arg:i64[n] ret:i64[n]
void launched(const kernbridge::Tensor x, kernbridge::Tensor out) {
    marked<5><<<1, 64>>>(x.data_ptr<long long>(), out.data_ptr<long long>());
}
"""


def test_a_launch_compiles_its_kernel_once(tmp_path):
    of_nvcc = ["-gencode", "arch=compute_80,code=sm_80", "-maxrregcount=32", "-Xcompiler=-g0,-Wall"]
    module = kernbridge.load_cuda_inline(
        "launched", MARKED, extra_cuda_cflags=of_nvcc, build_directory=tmp_path
    )
    if platform.machine() == "x86_64":  # whose instructions contain the whole constant
        (library,) = tmp_path.glob("*.so")
        n = library.read_bytes().count((0x1D3F5A7C9E2B4861).to_bytes(8, "little"))
        assert 1 <= n <= 8  # a loop over threads may be unrolled as often
    with jax.enable_x64(True):
        x = jnp.arange(-2, 3)
        out = module.launched(x, outs=S(x.shape, x.dtype))
    np.testing.assert_array_equal(out, np.arange(-2, 3) ^ 0x1D3F5A7C9E2B4861)


KERNEL = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
template <typename T, int N>
__global__ void scaled(const T *x, T *parts, T *out, int n, T factor, double2 z) {
    __shared__ T s[64];
    extern __shared__ T moved[];
    auto grid = cg::this_grid();
    auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    int i = grid.thread_rank();
    T v = i < n ? N * factor * x[i] + T(z.y) : 0;
    s[threadIdx.x] = v;
    moved[threadIdx.x] = blockIdx.x;
    v = cg::reduce(tile, v, cg::plus<T>());
    grid.sync();
    if (tile.thread_rank() == 0) atomicAdd(parts + blockIdx.x, v + moved[63] - blockIdx.x);
    grid.sync();
    T sum = 0;
    for (int b = 0; b < gridDim.x; b++) sum += parts[b];
    if (i < n) out[i] = sum + s[threadIdx.x];
}
"""


@pytest.mark.exhaustive
def test_a_cooperative_kernel_alone(run_exported):
    op = kernbridge.cuda_kernel(
        KERNEL,
        "scaled<float, 3>",
        lambda x: (S((4,), F32), S(x.shape, F32)),
        grid=4,
        block=64,
        shared_mem=256,
        cooperative=True,
        zero_outputs=True,
        attrs={"n": lambda x: x.size, "factor": np.float32(2), "z": 1 + 2j},
    )
    x = np.arange(200, dtype=np.float32)
    parts, out = op(jnp.asarray(x))
    y = np.r_[6 * x + 2, np.zeros(56, np.float32)].reshape(4, 64)
    np.testing.assert_array_equal(parts, y.sum(axis=1))
    np.testing.assert_array_equal(out, y.ravel()[:200] + y.sum())
    np.testing.assert_array_equal(jax.vmap(op)(jnp.stack([x, x]))[1][1], out)
    run_exported(op, [S((200,), F32)], f"numpy.arange(200, dtype='float32'))[1][0] == {out[0]}")
    assert op.inspect(x)[0].platform == "cpu"
    with pytest.raises(kernbridge.CompilationError, match=r"(?s)wrong.*nowhere"):
        kernbridge.cuda_kernel(
            "__global__ void wrong(const float *x, float *out) { nowhere(); }",
            *("wrong", lambda x: S(x.shape, F32)),
            launch_dims=1,
        )(x)
    with pytest.raises(kernbridge.KernelCompilationError, match=r"cluster.*\[KB4005\]"):
        kernbridge.cuda_kernel(
            "__global__ void f(const float *x, float *out) {}",
            *("f", lambda x: S(x.shape, F32)),
            grid=2,
            block=1,
            cluster=2,
        )(x)


RANDOM = r"""
#include <curand_kernel.h>
__global__ void draw(unsigned *philox, unsigned *xorwow, float *normal, unsigned long long seed) {
    int i = threadIdx.x;
    curandStatePhilox4_32_10_t p;
    curand_init(seed, i, 0, &p);
    reinterpret_cast<uint4 *>(philox)[i] = curand4(&p);
    curandState x;
    curand_init(seed, 0, i, &x);
    xorwow[i] = curand(&x);
    for (int k = 0; k < 1000; k++) normal[i] += curand_normal(&x) / sqrtf(1000);
}
"""


def xorwow(seed, n):
    """The generator as Marsaglia described it, with the state that cuRAND makes of a seed."""
    word = 2**32 - 1
    s, t = 1099087573 * ((seed & word) ^ 0xAAD26B49), 2591861531 * ((seed >> 32) ^ 0xF7DCEFDD)
    s, t, values = s & word, t & word, []
    v = [123456789 + s, 362436069 ^ s, 521288629 + t, 88675123 ^ t, 5783321 + s]
    v, d = [w & word for w in v], 6615241 + s + t
    for _ in range(n):
        u = v[0] ^ (v[0] >> 2)
        v, d = [*v[1:], (v[4] ^ v[4] << 4 ^ u ^ u << 1) & word], d + 362437
        values.append((v[4] + d) & word)
    return values


@pytest.mark.exhaustive
@pytest.mark.skipif(
    not Path("/usr/local/cuda/include/curand_kernel.h").exists(), reason="cuRAND is not installed"
)
def test_random_numbers_are_those_of_curand():
    outs = (S((128,), jnp.uint32), S((32,), jnp.uint32), S((32,), F32))
    op = kernbridge.cuda_kernel(RANDOM, "draw", outs, grid=1, block=32, zero_outputs=True)
    philox, found, normal = op(seed=0)
    # The known answer of Random123 for a counter and a key of 0.
    assert philox[:4].tolist() == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert found.tolist() == xorwow(0, 32)
    assert op(seed=2**40 + 17)[1].tolist() == xorwow(2**40 + 17, 32)
    assert np.abs(np.asarray(normal)).max() < 4


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=[pytest.mark.exhaustive] if i % 9 else [])
        for i, case in enumerate(keep.CASES)
    ],
)
def test_a_source_gives_the_values_of_its_reference_and_of_a_gpu(case):
    with jax.enable_x64(True):
        module = case.load(auto_register=False)
        assert case.wrong(module, 1) == ""
        if not keep.VALUES.exists():
            pytest.skip("no values of a GPU are kept; run tests/sources/keep.py on one")
        assert keep.apart(case, module) == ""


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", keep.CASES, ids=lambda case: case.name)
def test_the_checked_mode_reports_nothing_of_a_correct_source(case):
    with jax.enable_x64(True):
        assert case.wrong(case.load(auto_register=False, check=True), 0) == ""


@pytest.mark.brief
@pytest.mark.parametrize("number", cuda_faults.sample())
def test_the_checked_mode_finds_planted_faults(number):
    with jax.enable_x64(True):
        assert cuda_faults.verdict(number) == ""


@pytest.mark.exhaustive
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@pytest.mark.parametrize("number", range(len(cuda_faults.FAULTS)))
def test_the_checked_mode_finds_every_planted_fault_that_it_claims(number, compiler, monkeypatch):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    monkeypatch.setenv("CXX", compiler)
    with jax.enable_x64(True):
        assert cuda_faults.verdict(number) == ""


def test_a_checked_module_is_called_by_its_target():
    kernbridge.load_cuda_inline("by_target", SOURCE, check=True)
    axpy = jax.ffi.ffi_call("by_target.axpy", S((8,), F32))
    x = jnp.arange(8, dtype=F32)
    assert axpy(x, x, a=np.float32(2)).tolist() == (3 * x).tolist()
    with pytest.raises(Exception, match=r"reads 'input' \(f32\[4\]\) out of bounds: element \[4\]"):
        axpy(x, x[:4], a=np.float32(2)).block_until_ready()


CHECKED = r"""
extern "C" __global__ void shift(const float *x, float *out, int n, int which) {
    __shared__ float s[32], t[2][16];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    s[threadIdx.x] = x[i];
    t[threadIdx.x / 16][threadIdx.x % 16] = 1;
    if (which == 1) s[threadIdx.x ^ 1] += 1;
    if (which == 2) out[0] = *(float *)nullptr;
    if (which == 3) out[i] = t[0][threadIdx.x];
    __syncthreads();
    out[i + (which == 4)] = s[threadIdx.x];
    if (which == 5) memcpy(s, x, n * 4 + 4);
    if (which == 6) t[1][threadIdx.x % 16] += 1;
}"""


@pytest.mark.brief
@pytest.mark.parametrize(
    ("which", "said"),
    [
        (1, r"a data race: it reads element \[0\] of the shared array 's' \(at shift\.cu:7\)"),
        (2, r"reads at an address that belongs to no array \(at shift\.cu:8\)"),
        (
            3,
            r"the index 16 is out of bounds for an array of type 'float \[16\]' \(at shift\.cu:9\)",
        ),
        (4, r"writes 'out' \(f32\[64\]\) out of bounds: element \[64\], and it has 64"),
        (5, r"reads 'x' \(f32\[64\]\) out of bounds: element \[0\].* \(at shift\.cu:12"),
        (
            6,
            r"a data race: it reads element \[1, \d+\] of the shared array 't' \(at shift\.cu:13\)",
        ),
    ],
)
def test_a_checked_kernel_alone(which, said):
    op = kernbridge.cuda_kernel(
        *(CHECKED, "shift", lambda x: S(x.shape, F32)),
        grid=2,
        block=32,
        attrs={"n": lambda x: x.size},
        check=True,
    )
    x = jnp.arange(64, dtype=F32)
    assert op(x, which=0).tolist() == x.tolist()
    with pytest.raises(Exception, match=rf"launch of shift, grid \(2.*{said}.*\[KB3004\]"):
        op(x, which=which).block_until_ready()
