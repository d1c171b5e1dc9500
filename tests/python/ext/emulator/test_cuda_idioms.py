"""CUDA C++ as people write it, on the CPU: what nvcc takes compiles, and its values are right."""

import shutil
from fractions import Fraction

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest
import scipy.special

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("without_fake_gpu")]

F32, I32 = jnp.float32, jnp.int32
S = jax.ShapeDtypeStruct
COMPILERS = [
    pytest.param("g++", False),
    pytest.param("g++", True, marks=pytest.mark.exhaustive),
    pytest.param("clang++", False, marks=pytest.mark.exhaustive),
    pytest.param("clang++", True, marks=pytest.mark.exhaustive),
]


@pytest.fixture
def load(compiler, checked, monkeypatch):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    monkeypatch.setenv("CXX", compiler)
    return lambda name, source, **more: kernbridge.load_cuda_inline(
        f"{name}_{compiler[0]}{checked}", source, check=checked, **more
    )


GROUPS = r"""
#include "kernbridge/kernbridge.hpp"
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
using kernbridge::Tensor;

__device__ int sum_of_ranks(cg::thread_group g, int *room, int value) {
    int rank = g.thread_rank();
    for (int d = g.size() / 2; d > 0; d /= 2) {
        room[rank] = value;
        g.sync();
        if (rank < d) value += room[rank + d];
        g.sync();
    }
    return value;
}
template <unsigned n> __device__ int warp_sum(cg::thread_block_tile<n> &tile, int v) {
    for (int d = tile.size() / 2; d; d /= 2) v += tile.shfl_down(v, d);
    return tile.shfl(v, 0);
}
__global__ void groups(const int *x, int *out, int n) {
    __shared__ int room[64];
    __shared__ cg::block_tile_memory<64> memory;
    cg::thread_block block = cg::this_thread_block(memory);
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    auto four = cg::tiled_partition<4>(warp);
    cg::thread_block_tile<4> plain = four;
    cg::thread_group halves = cg::tiled_partition(block, 16), same = four;
    cg::thread_group eights = cg::tiled_partition(halves, 8);
    int i = block.thread_rank(), v = x[i];
    int *row = out + i;
    row[0] = sum_of_ranks(block, room, i);
    block.sync();
    row[n] = sum_of_ranks(halves, room + i / 16 * 16, v);
    row[2 * n] = warp_sum(warp, v) + 1000 * warp_sum<4>(four, 1);
    row[3 * n] = warp.meta_group_rank() + 10 * warp.meta_group_size() +
                 100 * four.meta_group_rank() + 1000 * plain.meta_group_size();
    row[4 * n] = same.size() + 10 * (int)eights.size() + 1000 * (int)eights.thread_rank();
    cg::coalesced_group odd = cg::binary_partition(warp, v & 1);
    row[5 * n] = cg::reduce(odd, v, cg::plus<int>()) + 1000 * odd.size();
    auto label = cg::labeled_partition(four, v % 3);
    row[6 * n] = label.size() + 10 * label.thread_rank() + 1000 * label.num_threads();
    if (v & 1) {
        cg::coalesced_group active = cg::coalesced_threads();
        cg::coalesced_group pairs = cg::tiled_partition<2>(active);
        int all;
        unsigned mask = active.match_all(7, all);
        row[7 * n] = cg::reduce(pairs, v, cg::greater<int>()) +
                     1000 * (all && mask == (1u << active.size()) - 1) +
                     10000 * pairs.meta_group_rank() + 1000000 * pairs.meta_group_size();
    } else
        row[7 * n] = -1;
    cg::sync(block);
}
// @BE of_groups arg:i32[n] ret:i32[8, n] stream
void of_groups(const Tensor x, Tensor out, int64_t stream) {
    groups<<<1, 64>>>(x.data_ptr<int>(), out.data_ptr<int>(), 64);
}
__global__ void over_the_grid(const int *x, int *out, int n) {
    extern int __shared__ room[];
    cg::grid_group grid = cg::this_grid();
    cg::thread_group any = grid;
    for (int i = any.thread_rank(); i < n; i += any.size()) out[i] = x[i] + 1;
    any.sync();
    room[threadIdx.x] = out[n - 1 - grid.thread_rank()];
    grid.sync();
    out[grid.thread_rank()] = room[threadIdx.x] + 100 * grid.block_index().x * grid.dim_blocks().x;
}
// @BE reversed arg:i32[n] ret:i32[n] stream
void reversed(const Tensor x, Tensor out, int64_t stream) {
    const int *from = x.data_ptr<int>();
    int *to = out.data_ptr<int>(), n = x.numel();
    void *given[] = {(void *)&from, (void *)&to, (void *)&n};
    cudaLaunchCooperativeKernel((void *)over_the_grid, dim3(n / 8), 8, given, 32, NULL);
}
// @BE plus_one arg:i32[n] ret:i32[n] stream
void plus_one(const Tensor x, Tensor out, int64_t stream) {
    const int *from = x.data_ptr<int>();
    int *to = out.data_ptr<int>(), n = x.numel();
    void *given[] = {&from, &to, &n};
    cudaLaunchCooperativeKernel(reinterpret_cast<const void *>(&over_the_grid), 1, n, given, 4 * n,
                                (cudaStream_t)stream);
}
"""


@pytest.mark.parametrize(("compiler", "checked"), COMPILERS)
def test_groups_of_threads(load):
    module = load("groups", GROUPS)
    v = np.random.default_rng(3).integers(0, 9, 64).astype(np.int32)
    found = np.asarray(module.of_groups(jnp.asarray(v), outs=S((8, 64), I32)))
    i = np.arange(64)
    warps, fours = i // 32, i // 4
    assert found[0, 0] == 63 * 64 // 2
    assert found[1, ::16].tolist() == v.reshape(4, 16).sum(1).tolist()
    assert (found[2] == np.repeat(v.reshape(2, 32).sum(1), 32) + 4000).all()
    assert (found[3] == warps + 20 + 100 * (fours % 8) + 8000).all()
    assert (found[4] == 84 + 1000 * (i % 8)).all()
    for k in i:
        odd = v[(warps == warps[k]) & (v % 2 == v[k] % 2)]
        assert found[5, k] == odd.sum() + 1000 * len(odd)
        label = i[(fours == fours[k]) & (v % 3 == v[k] % 3)]
        assert found[6, k] == 1001 * len(label) + 10 * label.tolist().index(k)
        if v[k] % 2 == 0:
            assert found[7, k] == -1
            continue
        active = i[(warps == warps[k]) & (v % 2 == 1)].tolist()
        pair = active.index(k) // 2
        most = v[active[2 * pair : 2 * pair + 2]].max()
        assert found[7, k] == most + 1000 + 10000 * pair + 1000000 * ((len(active) + 1) // 2)
    x = np.arange(32, dtype=np.int32)
    expected = x[::-1] + 1 + 100 * 4 * (x // 8)
    assert module.reversed(jnp.asarray(x), outs=S((32,), I32)).tolist() == expected.tolist()
    assert module.plus_one(jnp.asarray(x), outs=S((32,), I32)).tolist() == (x[::-1] + 1).tolist()


HEAD = '#include "kernbridge/kernbridge.hpp"\nusing kernbridge::Tensor;\n'
WRITTEN = r"""
#define ROWS 64
struct Pair { float a; int b; };
extern __shared__ float outside[];
namespace inner { extern __shared__ __align__(16) unsigned char bytes[]; }
__shared__ int fixed_outside[8];

template <typename T> __device__ T *room() { extern T __shared__ own[]; return own; }
__global__ void arrays(const float *x, float *out) {
    float __shared__ first[ROWS];
    __shared__ alignas(sizeof(float) * 4) float second[ROWS];
    __shared__ union { float f[ROWS]; int i[ROWS]; } both;
    __shared__ struct { float a; int b; } many[ROWS], *none;
    __shared__ Pair named[2];
    extern volatile __shared__ __align__(16) float moving[];
    int i = threadIdx.x;
    first[i] = x[i];
    second[i] = 2 * x[i];
    both.i[i] = __float_as_int(3 * x[i]);
    many[i].a = 4 * x[i];
    if (i == 0) { named[1].b = 7; none = many; fixed_outside[3] = 1000; }
    moving[i] = x[i] + 1;
    __syncthreads();
    int j = ROWS - 1 - i;
    const float *again = reinterpret_cast<float *>(inner::bytes);
    out[i] = first[j] + second[j] + both.f[j] + none[j].a + named[1].b + fixed_outside[3];
    out[i + ROWS] = outside[j] + again[j] + *(&outside[0] + j) + room<float>()[j];
}
__global__ void launched(int *out, const float *p, float2 two, Pair pair, const int *q, int a) {
    out[0] = (p == nullptr) + 2 * (q == nullptr) + 10 * (int)two.y + 100 * pair.b + 1000 * a;
}
template <typename... A> void forwarded(A... a) {
    launched<<<1, 1>>>(a..., {1, 3}, {0, 4}, NULL, 5);
}
struct Large { int of[8000]; };
__global__ void large(Large given, int *out) {
    volatile float own[40000];
    for (int i = 0; i < 40000; i++) own[i] = i;
    __syncthreads();
    out[threadIdx.x] = given.of[7999 - threadIdx.x] + (int)own[39999];
}
__global__ void nan(const float *x, int *out) {
    float v = x[threadIdx.x];
    double w = v;
    out[threadIdx.x] = isnan(v) + 2 * isinf(w) + 4 * isfinite(v) + 8 * signbit(w) + 16 * isnan(w);
}
// @BE written arg:f32[64] ret:f32[2, 64] stream
void written(const Tensor x, Tensor out, int64_t stream) {
    arrays << <1, ROWS, 4 * ROWS, (cudaStream_t)stream >> > (
        x.data_ptr<float>(), out.data_ptr<float>());
}
// @BE passed ret:i32[3] stream
void passed(Tensor out, int64_t stream) {
    int *o = out.data_ptr<int>(), three = 3;
    launched<<<1, 1>>>(o, NULL, {1, (float)three}, Pair{0, 4}, 0, (three + 2));
    launched<<<1, 1>>>(o + 1, 0, make_float2(1, 3),
                       {0, 4},
                       NULL, 5 + 0 * __LINE__);
    forwarded(o + 2, (const float *)nullptr);
}
// @BE big ret:i32[4] stream
void big(Tensor out, int64_t stream) {
    Large given;
    for (int i = 0; i < 8000; i++) given.of[i] = i;
    large<<<1, 4>>>(given, out.data_ptr<int>());
}
// @BE classes arg:f32[n] ret:i32[n] stream
void classes(const Tensor x, Tensor out, int64_t stream) {
    nan<<<1, (unsigned)x.numel()>>>(x.data_ptr<float>(), out.data_ptr<int>());
}
"""


@pytest.mark.parametrize(("compiler", "checked"), COMPILERS)
def test_declarations_and_launches_as_they_are_written(load):
    module = load("written", HEAD + WRITTEN)
    x = np.random.default_rng(1).integers(0, 9, 64).astype(np.float32)
    found = module.written(jnp.asarray(x), outs=S((2, 64), F32))
    back = x[::-1]
    assert np.asarray(found).tolist() == [(10 * back + 1007).tolist(), (4 * back + 4).tolist()]
    assert module.passed(outs=S((3,), I32)).tolist() == [5433, 5433, 5433]
    assert module.big(outs=S((4,), I32)).tolist() == [7999 + 39999 - i for i in range(4)]
    odd = jnp.asarray([np.nan, np.inf, -np.inf, -1.0, 0.5, -0.0], F32)
    assert module.classes(odd, outs=S((6,), I32)).tolist() == [17, 2, 10, 12, 4, 12]


ARCHITECTURES = {
    # what the source has: whether it is refused
    "#if defined(NOWHERE) && \\\n  __CUDA_ARCH__ >= 800\nint f(;\n#endif": False,
    "#if defined(NOWHERE)\n#ifdef __CUDA_ARCH__\nint f(;\n#endif\n#endif": False,
    "#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 700\nstatic int v;\n#endif": False,
    "#if __CUDA_ARCH__ < 600\nstatic int w;\n#endif": False,
    "template <class T> __device__ T g(T a) { return a; }\n#if __CUDA_ARCH__ >= 800\n"
    "template <> __device__ int g<int>(int a) { /* } */ if (a) { a = 1 - (1 - a); } return a; }\n"
    "#endif": False,
    "#define HERE 1\n#if defined(HERE) && __CUDA_ARCH__ >= 800\n#define FAST\n#endif\n"
    "#undef HERE": True,
    "#if defined(NOWHERE)\nint a;\n#elif 700 <= __CUDA_ARCH__\nint a;\n#endif": True,
    "#if __CUDA_ARCH__ != 0 && \\\n  1\nstatic int v;\n#endif": True,
    "#if __CUDA_ARCH__ == 800\nstatic int v;\n#endif": True,
}


@pytest.mark.parametrize("compiler", ["g++", pytest.param("clang++", marks=pytest.mark.exhaustive)])
def test_code_for_gpus_alone_is_told_from_code_for_nobody(compiler, monkeypatch):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    monkeypatch.setenv("CXX", compiler)
    accepted = "\n".join(text for text, refused in ARCHITECTURES.items() if not refused)
    rest = "\n// @BE f ret stream\nvoid f(Tensor o, int64_t stream) {}\n"
    kernbridge.load_cuda_inline(f"arch_{compiler[0]}", HEAD + accepted + rest)
    for text in (text for text, refused in ARCHITECTURES.items() if refused):
        with pytest.raises(kernbridge.KernelCompilationError, match=r"cu:[3-6]: .* GPUs alone"):
            kernbridge.load_cuda_inline("arch", HEAD + text + rest)


def halves(f, bits, signed, *words):
    """f(x, y, lowest, highest) of each lane of words, as a word."""
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    made = 0
    for at in range(0, 32, bits):
        lanes = [w >> at & (1 << bits) - 1 for w in words]
        lanes = [v - (1 << bits) if signed and v >> bits - 1 else v for v in lanes]
        made |= (f(*lanes, low, high) & (1 << bits) - 1) << at
    return made


def clip(v, low, high):
    return max(low, min(high, v))


LANES = {  # of a name that 2 or 4 follows: whether lanes have signs, and the value
    "vadd": (False, lambda x, y, *_: x + y),
    "vaddss": (True, lambda x, y, *m: clip(x + y, *m)),
    "vaddus": (False, lambda x, y, *m: clip(x + y, *m)),
    "vsub": (False, lambda x, y, *_: x - y),
    "vsubss": (True, lambda x, y, *m: clip(x - y, *m)),
    "vsubus": (False, lambda x, y, *m: clip(x - y, *m)),
    "vavgs": (True, lambda x, y, *_: (x + y) // 2 if x + y < 0 else (x + y + 1) // 2),
    "vavgu": (False, lambda x, y, *_: (x + y + 1) // 2),
    "vhaddu": (False, lambda x, y, *_: (x + y) // 2),
    "vabsdiffs": (True, lambda x, y, *_: abs(x - y)),
    "vabsdiffu": (False, lambda x, y, *_: abs(x - y)),
    "vmaxs": (True, lambda x, y, *_: max(x, y)),
    "vmaxu": (False, lambda x, y, *_: max(x, y)),
    "vmins": (True, lambda x, y, *_: min(x, y)),
    "vminu": (False, lambda x, y, *_: min(x, y)),
    "vcmpeq": (False, lambda x, y, *_: -(x == y)),
    "vcmpne": (False, lambda x, y, *_: -(x != y)),
    "vcmpges": (True, lambda x, y, *_: -(x >= y)),
    "vcmpgeu": (False, lambda x, y, *_: -(x >= y)),
    "vcmpgts": (True, lambda x, y, *_: -(x > y)),
    "vcmpltu": (False, lambda x, y, *_: -(x < y)),
    "vsetles": (True, lambda x, y, *_: int(x <= y)),
    "vsetleu": (False, lambda x, y, *_: int(x <= y)),
    "vsetlts": (True, lambda x, y, *_: int(x < y)),
    "vsetgtu": (False, lambda x, y, *_: int(x > y)),
}
SINGLE = {
    "vabs": lambda x, *_: abs(x),
    "vabsss": lambda x, *m: clip(abs(x), *m),
    "vneg": lambda x, *_: -x,
    "vnegss": lambda x, *m: clip(-x, *m),
}


def signed(word):
    return word - (word >> 31 << 32)


def total(word, bits):
    return sum(word >> at & (1 << bits) - 1 for at in range(0, 32, bits))


def found_bit(mask, base, offset):
    places = range(base, 32) if offset >= 0 else range(base, -1, -1)
    places = [p for p in (places[:1] if offset == 0 else places) if mask >> p & 1]
    return places[max(abs(offset), 1) - 1] if len(places) >= max(abs(offset), 1) else -1


def dot(a, b, c, first, sign):
    cut = lambda v, bits: v - (v >> bits - 1 << bits) if sign else v  # noqa: E731
    lanes = ((a >> 16 * i & 0xFFFF, b >> 8 * i + first & 0xFF) for i in range(2))
    return c + sum(cut(x, 16) * cut(y, 8) for x, y in lanes)


def words():
    """Expressions of words a, b and c, and their values as Python integers."""
    for name, (sign, f) in LANES.items():
        for lanes, bits in ((2, 16), (4, 8)):
            yield (
                f"__{name}{lanes}(a, b)",
                lambda a, b, c, f=f, t=bits, s=sign: halves(f, t, s, a, b),
            )
    for name, f in SINGLE.items():
        for lanes, bits in ((2, 16), (4, 8)):
            yield f"__{name}{lanes}(a)", lambda a, b, c, f=f, t=bits: halves(f, t, True, a)
    for sign in "su":
        f = LANES[f"vabsdiff{sign}"][1]
        for lanes, bits in ((2, 16), (4, 8)):
            yield (
                f"__vsad{sign}{lanes}(a, b)",
                lambda a, b, c, f=f, t=bits, s=sign == "s": total(halves(f, t, s, a, b), t),
            )
    s = signed
    yield "__hadd((int)a, (int)b)", lambda a, b, c: (s(a) + s(b)) // 2
    yield "__rhadd((int)a, (int)b)", lambda a, b, c: (s(a) + s(b) + 1) // 2
    yield "__uhadd(a, b)", lambda a, b, c: (a + b) // 2
    yield "__urhadd(a, b)", lambda a, b, c: (a + b + 1) // 2
    yield "__usad(a, b, c)", lambda a, b, c: abs(a - b) + c
    yield "__funnelshift_lc(a, b, c & 63)", lambda a, b, c: (b << 32 | a) << min(c & 63, 32) >> 32
    yield "__funnelshift_rc(a, b, c & 63)", lambda a, b, c: (b << 32 | a) >> min(c & 63, 32)
    yield (
        "__fns(a, b & 31, (int)(c & 15) - 8)",
        lambda a, b, c: found_bit(a, b & 31, (c & 15) - 8),
    )
    for which, first in (("lo", 0), ("hi", 16)):
        yield (
            f"__dp2a_{which}((int)a, (int)b, (int)c)",
            lambda a, b, c, first=first: dot(a, b, c, first, True),
        )
        yield f"__dp2a_{which}(a, b, c)", lambda a, b, c, first=first: dot(a, b, c, first, False)
    wrap = lambda v: s(v & 0xFFFFFFFF)  # noqa: E731
    yield "__viaddmax_s32(a, b, c)", lambda a, b, c: max(wrap(a + b), s(c))
    yield "__viaddmin_s32_relu(a, b, c)", lambda a, b, c: max(min(wrap(a + b), s(c)), 0)
    yield "__vimin3_s32(a, b, c)", lambda a, b, c: min(s(a), s(b), s(c))
    yield "__vimax3_u32(a, b, c)", lambda a, b, c: max(a, b, c)
    yield "__vimax_s32_relu(a, b)", lambda a, b, c: max(s(a), s(b), 0)
    yield (
        "__viaddmax_s16x2(a, b, c)",
        lambda a, b, c: halves(
            lambda x, y, z, *_: max((x + y + 2**15) % 2**16 - 2**15, z), 16, True, a, b, c
        ),
    )
    yield "umin(a, b) + umax(a, c)", lambda a, b, c: min(a, b) + max(a, c)
    yield (
        "(unsigned)(llmin((long long)a - b, 0) + llmax((long long)a - c, 0))",
        lambda a, b, c: min(a - b, 0) + max(a - c, 0),
    )
    yield ("(unsigned)(ullmin(a, b) + ullmax(a, c))", lambda a, b, c: min(a, b) + max(a, c))


@pytest.mark.parametrize(("compiler", "checked"), COMPILERS)
def test_operations_on_words(load):
    rows = list(words())
    body = "\n".join(f"    out[{i} * n + t] = {text};" for i, (text, _) in enumerate(rows))
    source = f"""{HEAD}__global__ void k(const unsigned *x, unsigned *out, int n) {{
    int t = threadIdx.x;
    unsigned a = x[t], b = x[n + t], c = x[2 * n + t];
    __builtin_assume(n > 0);
{body}
}}
// @BE of_words arg:u32[3, n] ret:u32[m, n] stream
void of_words(const Tensor x, Tensor out, int64_t stream) {{
    k<<<1, 29>>>(x.data_ptr<unsigned>(), out.data_ptr<unsigned>(), 29);
}}
"""
    x = np.random.default_rng(5).integers(0, 2**32, (3, 29), np.uint32)
    x[:, :6] = [0, 2**32 - 1, 0x80008000, 0x7FFF8001, 0x80FF7F01, 0x80808080]
    x[1, :4] = [0x80008000, 1, 0x80008000, 0x00017FFF]
    out = S((len(rows), 29), jnp.uint32)
    found = np.asarray(load("words", source).of_words(jnp.asarray(x), outs=out))
    for (text, f), row in zip(rows, found.tolist(), strict=True):
        expected = [f(*map(int, column)) & 0xFFFFFFFF for column in x.T]
        assert row == expected, text


ROUNDED = {  # expressions of floats or doubles x, y and z with their exact values
    "{f}add_{r}(x, y)": lambda x, y, z: x + y,
    "{f}sub_{r}(x, y)": lambda x, y, z: x - y,
    "{f}mul_{r}(x, y)": lambda x, y, z: x * y,
    "{f}div_{r}(x, y)": lambda x, y, z: x / y,
    "{f}rcp_{r}(x)": lambda x, y, z: 1 / x,
    "{fma}_{r}(x, y, z)": lambda x, y, z: x * y + z,
}
CONVERTED = {
    "float": ("__int2float_{r}((int)k)", "__ll2float_{r}(k)", "__double2float_{r}((double)k / 3)"),
    "double": ("__ll2double_{r}(k)", "__ull2double_{r}(k)"),
}


@pytest.mark.parametrize(("compiler", "checked"), COMPILERS)
def test_directions_of_rounding_are_exact(load):
    rows = []  # type, expression, direction
    for kind, f, fma in (("float", "__f", "__fmaf"), ("double", "__d", "__fma")):
        for r in ("rz", "rd", "ru"):
            rows += [(kind, t.format(f=f, fma=fma, r=r), v, r) for t, v in ROUNDED.items()]
            rows += [(kind, f"{f}sqrt_{r}(fabs(x))", None, r)]
            rows += [(kind, t.format(r=r), t, r) for t in CONVERTED[kind]]
    body = "\n".join(
        f"    {{ using T = {kind}; T x = v[t], y = v[n + t], z = v[2 * n + t]; (void)y; (void)z;\n"
        f"      out[{i} * n + t] = {text}; }}"
        for i, (kind, text, _, _) in enumerate(rows)
    )
    source = f"""{HEAD}__global__ void k(const double *v, double *out, int n) {{
    int t = threadIdx.x;
    long long k = (long long)v[3 * n + t];
{body}
}}
// @BE rounded arg:f64[4, n] ret:f64[m, n] stream
void rounded(const Tensor x, Tensor out, int64_t stream) {{
    k<<<1, 23>>>(x.data_ptr<double>(), out.data_ptr<double>(), 23);
}}
"""
    rng = np.random.default_rng(7)
    v = (rng.normal(size=(4, 23)) * 2.0 ** rng.integers(-9, 9, (4, 23))).astype(np.float32)
    v = v.astype(np.float64)
    v[3] = rng.integers(-(2**31), 2**31, 23)
    v[3, :3] = [2**24 + 1, -(2**24) - 1, 16777219]
    with jax.enable_x64(True):
        out = S((len(rows), 23), jnp.float64)
        found = np.asarray(load("rounded", source).rounded(jnp.asarray(v), outs=out))
    for (kind, text, exact, r), row in zip(rows, found, strict=True):
        nearby = np.float32 if kind == "float" else np.float64
        for at, value in enumerate(row):
            x, y, z, k = (Fraction(float(a)) for a in v[:, at])
            if exact is None:  # a root: its square is compared
                below, above = nearby(value), np.nextafter(nearby(value), nearby(np.inf))
                if r == "ru":
                    below, above = np.nextafter(nearby(value), nearby(0)), nearby(value)
                squares = (Fraction(float(below)) ** 2, Fraction(float(above)) ** 2)
                assert squares[0] <= abs(x) <= squares[1], text
                continue
            right = k if isinstance(exact, str) else exact(x, y, z)
            if isinstance(exact, str) and "double2float" in exact:
                right = Fraction(float(k) / 3.0)
            if isinstance(exact, str) and "ull2double" in exact:
                right = Fraction(int(k) % 2**64)
            down = r == "rd" or (r == "rz" and right > 0)
            next_one = np.nextafter(nearby(value), nearby(np.inf if down else -np.inf))
            got, other = Fraction(float(value)), Fraction(float(next_one))
            assert (got <= right < other) if down else (other < right <= got), (text, x, y, z)


def test_other_functions_of_mathematics(monkeypatch):
    texts = (
        "norm3d(x, y, 2.0)",
        "rnorm3d(x, y, 2.0)",
        "norm4d(x, y, 2.0, 3.0)",
        "rnorm4d(x, y, 2.0, 3.0)",
        "norm(3, a)",
        "rnorm(3, a)",
        "erfcx(x)",
        "erfcx(10 * y)",
        "cyl_bessel_i0(x)",
        "cyl_bessel_i1(x)",
        "sinpi(0.125 * x)",
        "copysign(1.0, sinpi(3.0))",
        "erfcinv(1 - 1e-7 * y)",
        "norm3df(x, y, 2.0f)",
        "rnorm4df(x, y, 2.0f, 3.0f)",
        "normf(3, b)",
        "erfcxf(x)",
        "cyl_bessel_i0f(x)",
        "cyl_bessel_i1f(x)",
        "norm3df(1e30f, 1e30f, 0.0f) / 1e30f",
        "(double)s.x + 10 * s.y + f.w",
        "__isShared(&s) + 2 * __isGlobal(v) + 4 * __isShared(v) + 8 * __isLocal(a) + "
        "16 * __isGlobal(a) + 32 * __isShared(moving) + 64 * __isGlobal(moving)",
    )
    body = "\n".join(f"    out[{i} * n + t] = {text};" for i, text in enumerate(texts))
    source = f"""{HEAD}__global__ void k(const double *v, double *out, int n) {{
    __shared__ float2 s;
    __shared__ float4 f;
    extern __shared__ int moving[];
    int t = threadIdx.x;
    double x = v[t], y = v[n + t], a[3] = {{x, y, 2}};
    float b[3] = {{(float)x, (float)y, 2}};
    if (t == 0) {{ s = make_float2(0, 0); f = make_float4(0, 0, 0, 0); }}
    __syncthreads();
    atomicAdd(&s, make_float2(1, 2));
    atomicAdd(&f, make_float4(1, 2, 3, 0.5f));
    __syncthreads();
{body}
}}
// @BE others arg:f64[2, n] ret:f64[m, n] stream
void others(const Tensor x, Tensor out, int64_t stream) {{
    k<<<1, 9, 64>>>(x.data_ptr<double>(), out.data_ptr<double>(), 9);
}}
"""
    x, y = np.linspace(-3, 4, 9), np.linspace(0.25, 30, 9)
    with jax.enable_x64(True):
        module = kernbridge.load_cuda_inline("others", source)
        out = S((len(texts), 9), jnp.float64)
        found = np.asarray(module.others(jnp.asarray([x, y]), outs=out))
    three, four = np.sqrt(x**2 + y**2 + 4), np.sqrt(x**2 + y**2 + 13)
    scaled = [scipy.special.erfcx(x), scipy.special.erfcx(10 * y)]
    bessel = [scipy.special.i0(x), scipy.special.i1(x)]
    inverse = scipy.special.erfinv(1 - (1 - 1e-7 * y))
    others = [*scaled, *bessel, np.sin(np.pi / 8 * x), np.ones(9), inverse]
    doubles = [three, 1 / three, four, 1 / four, three, 1 / three, *others]
    np.testing.assert_allclose(found[:13], doubles, rtol=2e-15)
    singles = [three, 1 / four, three, scaled[0], *bessel, np.full(9, np.sqrt(2))]
    np.testing.assert_allclose(found[13:20], singles, rtol=4e-7)
    assert (found[20] == 9 + 10 * 18 + 4.5).all()
    assert (found[21] == 1 + 2 + 8 + 32).all()


HOST = r"""
#include <cuda_profiler_api.h>
#include <cassert>
#ifndef __DRIVER_TYPES_H__
#error "helpers ask whether the runtime is there"
#endif
typedef int cublasLike;
static int cublasCount(cublasLike n) { return n + 1; }
__global__ void k(int *out, int v) { out[threadIdx.x + blockDim.x * blockIdx.x] = v; }
// @BE host ret:i32[8] attr.which stream
void host(Tensor out, int which, int64_t stream) {
    int *o = out.data_ptr<int>(), mode = -1, clock = 0, integrated = -1, *mapped = nullptr;
    assert(which != 1);
    cudaDeviceProp p;
    cudaGetDeviceProperties(&p, 0);
    cudaProfilerStart();
    cudaDeviceGetAttribute(&mode, cudaDevAttrComputeMode, 0);
    cudaDeviceGetAttribute(&clock, cudaDevAttrClockRate, 0);
    cudaDeviceGetAttribute(&integrated, cudaDevAttrIntegrated, 0);
    KB_CHECK(mode != cudaComputeModeProhibited && clock > 0 && p.canMapHostMemory && integrated);
    cudaHostRegister(o, out.nbytes(), cudaHostRegisterMapped);
    cudaHostGetDevicePointer(&mapped, o, 0);
    if (which == 2) k<<<dim3(1, 70000), 8>>>(o, 1);
    if (which == 3) k<<<1, dim3(8, 200)>>>(o, 1);
    if (which == 4) k<<<1, 8, 300000>>>(o, 1);
    k<<<1, 8>>>(mapped, cublasCount(6));
    cudaHostUnregister(o);
    cudaProfilerStop();
}
"""


@pytest.mark.parametrize(
    ("compiler", "checked"),
    [("g++", False), pytest.param("clang++", True, marks=pytest.mark.exhaustive)],
)
def test_functions_of_the_host(load):
    module = load("host", HEAD + HOST)
    said = {
        1: r"the assertion \(which != 1\) at host_\w+\.cu:\d+ failed",
        2: r"configuration argument: k has a grid of \(1, 70000, 1\), .* 1 to 65535 blocks along y",
        3: r"blocks of \(8, 200, 1\) .*a block has 1 to 1024 threads",
        4: r"and 300000 bytes of dynamic shared memory.* 232448 bytes",
    }
    for which, text in said.items():
        with pytest.raises(Exception, match=text):
            module.host(outs=S((8,), I32), which=which).block_until_ready()
    assert module.host(outs=S((8,), I32), which=0).tolist() == [7] * 8


@pytest.mark.parametrize("call", ["k(o)", "if (o) k(o)", "else_<int>(o)", "{ ::k(o); k (o); }"])
def test_a_kernel_that_is_called_as_a_function_is_refused(call):
    source = f"""{HEAD}
__global__ void __launch_bounds__(32) k(int *o) {{ o[0] = 1; }}
template <typename T> __global__ void else_(T *o) {{ o[0] = 2; }}
// @BE f ret stream
void f(Tensor out, int64_t stream) {{
    int *o = out.data_ptr<int>();
    k<<<1, 1>>>(o);
    {call};
}}
"""
    said = r"plain\.cu:10: a __global__ function call must be configured: write (k|else_)<<<grid, "
    with pytest.raises(kernbridge.KernelCompilationError, match=said):
        kernbridge.load_cuda_inline("plain", source)


def test_a_function_with_a_kernels_name_is_called():
    source = f"""{HEAD}
__global__ void fill(int *o, int v) {{ o[threadIdx.x] = v; }}
static void fill(Tensor t) {{ fill<<<1, (unsigned)t.numel()>>>(t.data_ptr<int>(), 3); }}
// @BE f ret:i32[n] stream
void f(Tensor out, int64_t stream) {{
    fill(out);
}}
"""
    module = kernbridge.load_cuda_inline("named_alike", source)
    assert module.f(outs=S((5,), I32)).tolist() == [3] * 5


KERNEL = "__global__ void k(float *o) { o[0] = 1; }\n"
MISTAKES = {
    "// @BE f arg ret\nvoid f(const Tensor x, Tensor o, cudaStream_t s) {}": (
        r"describes 2 parameters, and C\+\+ has 3 .*: add `stream` for its parameter s"
    ),
    f"// @BE k arg\n{KERNEL}": r"k is a kernel \(__global__\), .* annotate the function that ",
    "#include <nowhere/at_all.h>\n// @BE f ret\nvoid f(Tensor o) {}": (
        r"the header nowhere/at_all\.h was not found; give its folder with extra_include_paths="
    ),
}


@pytest.mark.parametrize("compiler", ["g++", pytest.param("clang++", marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("source", MISTAKES)
def test_mistakes_are_told_with_their_remedy(source, compiler, monkeypatch):
    monkeypatch.setenv("CXX", compiler)
    with pytest.raises((kernbridge.KernelError, ValueError), match=MISTAKES[source]):
        kernbridge.load_cuda_inline("mistake", HEAD + source)


def test_mistakes_with_libraries_are_told_with_their_remedy(tmp_path):
    with pytest.raises(
        kernbridge.CompilationError, match=r"library nowhere_at_all was not found.*-L"
    ):
        kernbridge.load_c_inline(
            "linked",
            "// @BE f x: f64[n], n -> y: f64[n]\nvoid f(const double *x, int n, double *y) {}",
            extra_ldflags=["-lnowhere_at_all"],
        )
    any_library = np.random.mtrand.__file__
    header = tmp_path / "filters.h"
    header.write_text(
        "typedef struct filter filter;\nint filter_mean(const double *x, int n, double *y);\n"
        "int filter_apply(filter *h, const double *x, int n, double *y);\n"
    )
    said = {
        (
            "filter_meen",
            "x: f64[n], n -> y: f64[n]",
        ): r"or header, .* \(did you mean filter_mean\?\)",
        ("filter_apply", "h, x: f64[n], n -> y: f64[n]"): (
            r"h is a `filter \*`, which JAX cannot pass; write a function of your own that makes it"
        ),
    }
    for (name, signature), text in said.items():
        with pytest.raises((kernbridge.KernelError, ValueError), match=text):
            kernbridge.load_binary(any_library, {name: signature}, header=str(header))
