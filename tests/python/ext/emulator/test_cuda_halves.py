"""CUDA kernels over float16 and bfloat16 on the CPU, exact to the bit where GPUs are.

Each test is a program of its own, see test_cuda_on_cpu.
"""

import platform

import pytest

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
pytestmark = pytest.mark.once

HEAD = """
import math
from fractions import Fraction

import jax, jax.numpy as jnp, ml_dtypes, numba, numpy as np
from kernbridge import numba_cuda_kernel
from numba import cuda
from numba.cuda import KIND as half
jax.config.update("jax_enable_x64", True)
np.seterr(all="ignore")
S = jax.ShapeDtypeStruct
rng = np.random.default_rng(0)
IS_BF16 = "KIND" == "bf16"
DTYPE, DIGITS, LOWEST, HIGHEST, INFINITY = (
    (ml_dtypes.bfloat16, 8, -126, 127, 0x7F80) if IS_BF16 else (np.float16, 11, -14, 15, 0x7C00)
)
ALL = np.arange(65536).astype(np.uint16)
WIDE = ALL.view(DTYPE).astype(np.float32).astype(np.float64)  # by bits
LARGEST = WIDE[INFINITY - 1]
SPECIAL = np.array([0, 1, 2, 3, INFINITY // 2, INFINITY - 1, INFINITY, INFINITY + 1, 0x7FFF,
                    0x3C00, 0x3F80, (1 << DIGITS - 1) - 1, 1 << DIGITS - 1], np.uint16)
SPECIAL = np.concatenate([SPECIAL, SPECIAL | 0x8000])

def bits_of(wide, how=np.rint):
    # Bits of doubles or fractions, rounded once
    wide = np.asarray(wide)
    _, exponent = np.frexp(wide.astype(np.float64))
    unit = np.ldexp(1.0, np.maximum(exponent - 1, LOWEST) - (DIGITS - 1))
    rounded = np.where(np.isfinite(wide), how(wide / unit) * unit, wide)
    over = np.isfinite(wide) & (abs(rounded) > LARGEST)
    towards = (how is not np.rint) & (how(np.sign(rounded) * 0.5) == 0)  # such as stay finite
    rounded = np.where(over, np.where(towards, LARGEST, np.inf) * np.sign(rounded), rounded)
    narrow = rounded.astype(np.float32).astype(DTYPE)
    narrow = np.where(rounded == 0, np.copysign(0, wide).astype(DTYPE), narrow)
    return np.where(np.isnan(wide), np.uint16(0x7FFF), narrow.view(np.uint16))

def ordered(bits):
    return np.where(bits & 0x8000, -(bits & 0x7FFF).astype(np.int64), bits.astype(np.int64))

def launch(kernel, shape, dtype, *arrays):
    op = numba_cuda_kernel(kernel, S(shape, dtype), grid=-(-arrays[0].shape[-1] // 128), block=128)
    result = np.asarray(op(*map(jnp.asarray, arrays)))
    return result.view(np.uint16) if result.dtype == DTYPE else result

def pairs(n=3000):
    # Bits: special by special, any by any, and products and quotients among small numbers
    a, b = (v.ravel() for v in np.meshgrid(SPECIAL, SPECIAL))
    any_a, any_b = rng.integers(0, 65536, (2, n)).astype(np.uint16)
    width = (HIGHEST - LOWEST) // 2
    small = np.ldexp(rng.uniform(1, 2, (2, n)), LOWEST // 2 + rng.integers(-6, 4, (2, n)))
    small_a, small_b = bits_of(small * rng.choice([-1, 1], (2, n)))
    tiny = bits_of(np.ldexp(rng.uniform(1, 2, n), LOWEST + rng.integers(-8, 4, n)))
    a = np.concatenate([a, any_a, small_a, tiny, tiny])
    b = np.concatenate([b, any_b, small_b, small_a, any_b])
    return a, b

def same(got, wanted, *given):
    wrong = np.flatnonzero(got != wanted)
    assert not wrong.size, [np.broadcast_to(v, got.shape)[wrong[:5]] for v in (got, wanted, *given)]
"""


BOTH = pytest.mark.parametrize(
    "run", ["fp16", pytest.param("bf16", marks=pytest.mark.exhaustive)], indirect=True
)


@pytest.fixture(params=["fp16", "bf16"])
def run(run_python, request):
    def run(program, **options):
        program = (HEAD + program).replace("KIND", request.param)
        return run_python(program, KERNBRIDGE_LIBCUDA="/nowhere/libcuda.so", **options)

    return run


@pytest.mark.brief
def test_arithmetic_rounds_once(run):
    run("""
@cuda.jit
def arithmetic(x, y, out):
    i = cuda.grid(1)
    if i < x.size:
        a, b = x[i], y[i]
        out[0, i] = a + b
        out[1, i] = a - b
        out[2, i] = a * b
        out[3, i] = a / b
        out[4, i] = half.hdiv(half.hadd(a, b), half.hmul(a, b))
        out[5, i] = half.hsub(a, b)
        out[6, i] = half.hmax(a, b)
        out[7, i] = half.hmin(a, b)
        out[8, i] = -a
        out[9, i] = half.habs(b)
        out[10, i] = half.hrcp(a)

a, b = pairs()
x, y = WIDE[a], WIDE[b]
got = launch(arithmetic, (11, a.size), DTYPE, a.view(DTYPE), b.view(DTYPE))
for row, wanted in zip(got, (x + y, x - y, x * y, x / y)):
    same(row, bits_of(wanted), a, b)
same(got[4], bits_of(WIDE[bits_of(x + y)] / WIDE[bits_of(x * y)]), a, b)
same(got[5], bits_of(x - y), a, b)
for row, worse in ((got[6], lambda u, v: (u < v) | (np.isnan(u) & ~np.isnan(v))),
                   (got[7], lambda u, v: (u > v) | (np.isnan(u) & ~np.isnan(v)))):
    u, v = ordered(a) * 2 + 1 - 2 * (a >> 15), ordered(b) * 2 + 1 - 2 * (b >> 15)
    u, v = np.where(np.isnan(x), np.nan, u), np.where(np.isnan(y), np.nan, v)
    wanted = np.where(worse(u, v), b, a)
    same(row, np.where(np.isnan(x) & np.isnan(y), 0x7FFF, wanted), a, b)
same(got[8], a ^ 0x8000)
same(got[9], b & 0x7FFF)
same(got[10], bits_of(1 / x))
""")


@pytest.mark.exhaustive
def test_fused_multiplication_and_addition(run):
    run("""
from numba.cuda._internal import cuda_KIND as more
hfma_sat, hfma_relu = (getattr(more, n) for n in ("__hfma_sat", "__hfma_relu"))
hmax_nan, hmin_nan = (getattr(more, n) for n in ("__hmax_nan", "__hmin_nan"))
hadd_sat, hmul_sat = (getattr(more, n) for n in ("__hadd_sat", "__hmul_sat"))

@cuda.jit
def fused(x, y, z, out):
    i = cuda.grid(1)
    if i < x.size:
        out[0, i] = half.hfma(x[i], y[i], z[i])
        out[1, i] = hfma_sat(x[i], y[i], z[i])
        out[2, i] = hfma_relu(x[i], y[i], z[i])
        out[3, i] = hadd_sat(x[i], y[i])
        out[4, i] = hmul_sat(x[i], y[i])
        out[5, i] = hmax_nan(x[i], y[i])
        out[6, i] = hmin_nan(x[i], y[i])

def exactly(a, b, c):
    values = WIDE[[a, b, c]]
    x, y, z = map(Fraction, values if np.isfinite(values).all() else (0, 0, 0))
    exact = x * y + z
    if not exact:  # or not finite
        return bits_of(values[0] * values[1] + values[2])
    exponent = math.frexp(float(exact))[1] - 1
    exponent -= abs(exact) < Fraction(2) ** exponent
    unit = Fraction(2) ** (max(exponent, LOWEST) - (DIGITS - 1))
    rounded = float(round(exact / unit) * unit)
    return bits_of(math.copysign(rounded, exact))

a, b = pairs(700)
c = np.concatenate([rng.permutation(b)[:-700], bits_of(-WIDE[a[-700:]] * WIDE[b[-700:]])])
# products half way between two neighbours, and what is nearly nothing
n = 1 << DIGITS - 1
halfway = bits_of(1 + np.arange(n) / n)
a = np.concatenate([a, halfway, halfway, halfway])
b = np.concatenate([b, np.repeat(bits_of([1.5, 1.5, -1.5]), n)])
c = np.concatenate([c, np.repeat(np.array([1, 0x8001, 0x8003], np.uint16), n)])
wanted = np.array([exactly(*v) for v in zip(a, b, c)])
got = launch(fused, (7, a.size), DTYPE, *(v.view(DTYPE) for v in (a, b, c)))
same(got[0], wanted, a, b, c)
one = bits_of(1.0)
saturated = lambda bits: np.where((bits & 0x8000 > 0) | np.isnan(WIDE[bits]), 0,
                                  np.minimum(bits, one))
same(got[1], saturated(wanted), a, b, c)
same(got[2], np.where(wanted & 0x8000, 0, wanted), a, b, c)
same(got[3], saturated(bits_of(WIDE[a] + WIDE[b])), a, b)
same(got[4], saturated(bits_of(WIDE[a] * WIDE[b])), a, b)
nan = np.isnan(WIDE[a]) | np.isnan(WIDE[b])
u, v = ordered(a) * 2 - (a >> 15), ordered(b) * 2 - (b >> 15)
same(got[5], np.where(nan, 0x7FFF, np.where(u > v, a, b)), a, b)
same(got[6], np.where(nan, 0x7FFF, np.where(u < v, a, b)), a, b)
""")


@pytest.mark.exhaustive
@BOTH
def test_comparisons(run):
    run("""
from numba.cuda._internal import cuda_KIND as more
hequ, hneu, hleu, hgeu, hltu, hgtu = (
    getattr(more, f"__h{order}u") for order in ("eq", "ne", "le", "ge", "lt", "gt"))
hisnan, hisinf = getattr(more, "__hisnan"), getattr(more, "__hisinf")

@cuda.jit
def compare(x, y, out):
    i = cuda.grid(1)
    if i < x.size:
        a, b = x[i], y[i]
        out[0, i] = a == b
        out[1, i] = a != b
        out[2, i] = a <= b
        out[3, i] = a >= b
        out[4, i] = a < b
        out[5, i] = a > b
        out[6, i] = half.heq(a, b)
        out[7, i] = half.hne(a, b)
        out[8, i] = half.hle(a, b)
        out[9, i] = half.hge(a, b)
        out[10, i] = half.hlt(a, b)
        out[11, i] = half.hgt(a, b)
        out[12, i] = hequ(a, b)
        out[13, i] = hneu(a, b)
        out[14, i] = hleu(a, b)
        out[15, i] = hgeu(a, b)
        out[16, i] = hltu(a, b)
        out[17, i] = hgtu(a, b)
        out[18, i] = hisnan(a)
        out[19, i] = hisinf(a)
        out[20, i] = 1 if a < b and not b > a else 0

a, b = pairs()
b[-500:] = a[-500:]
x, y = WIDE[a], WIDE[b]
got = launch(compare, (21, a.size), np.int8, a.view(DTYPE), b.view(DTYPE))
orders = (x == y, x != y, x <= y, x >= y, x < y, x > y)
unordered = np.isnan(x) | np.isnan(y)
for i, order in enumerate(orders):
    same(got[i], order, a, b)
    same(got[6 + i], order & ~unordered, a, b)
    same(got[12 + i], order | unordered, a, b)
same(got[18], np.isnan(x))
same(got[19], np.where(np.isinf(x), np.sign(x), 0))
same(got[20], 0)
""")


@BOTH
@pytest.mark.exhaustive
def test_conversions_of_every_number(run):
    run("""
from numba.cuda._internal import cuda_KIND as more
NAME = "bfloat16" if IS_BF16 else "half"
INTEGERS = dict(short=np.int16, ushort=np.uint16, int=np.int32, uint=np.uint32, ll=np.int64,
             ull=np.uint64)
MODES = dict(rn=np.rint, rz=np.trunc, rd=np.floor, ru=np.ceil)

def outward(f):
    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = f(x[i])
    return kernel

def by_modes(name, x, dtype):
    rn, rz, rd, ru = (getattr(more, f"{name}_{mode}") for mode in MODES)
    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[0, i], out[1, i] = rn(x[i]), rz(x[i])
            out[2, i], out[3, i] = rd(x[i]), ru(x[i])
    return zip(MODES.values(), launch(kernel, (4, x.size), dtype, x))

def saturated(wide, dtype):
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    of_nan = {np.int64: -(2**63), np.uint64: 2**63}.get(dtype, 0)
    return np.array([of_nan if v != v else low if v <= low else high if v >= high else int(v)
                     for v in wide.tolist()], dtype)

def to_odd(n):  # a double that rounds to fewer bits as an integer of 64 bits does
    return float(n if abs(n) < 2**52 else (n >> 12 | ((n & 4095) > 0)) << 12)

every = ALL.view(DTYPE)
np.testing.assert_array_equal(
    launch(outward(getattr(more, f"__{NAME}2float")), ALL.shape, np.float32, every), WIDE)
for kind, dtype in INTEGERS.items():
    limits = np.iinfo(dtype)
    size = rng.integers(0, 62, 2000).astype(dtype) % np.array(limits.bits - 2, dtype)
    far = np.concatenate([rng.integers(limits.min, limits.max, 2000, dtype, endpoint=True),
                          rng.integers(-3000, 3000, 2000).astype(dtype),
                          rng.integers(0, limits.max, 2000, dtype) >> size,
                          np.array([limits.min, limits.max, 0, 1], dtype)])
    for how, got in by_modes(f"__{NAME}2{kind}", every, dtype):
        same(got, saturated(how(WIDE), dtype), ALL)
    for how, got in by_modes(f"__{kind}2{NAME}", far, DTYPE):
        same(got, bits_of(np.array([to_odd(n) for n in far.tolist()]), how), far)
reals = np.concatenate([
    np.ldexp(rng.uniform(-2, 2, 9000), rng.integers(LOWEST - 12, HIGHEST + 3, 9000)),
    WIDE, WIDE[:-1] / 2 + WIDE[1:] / 2, [1e-310, -1e-310, 1e300, -1e300]])
singles = reals.astype(np.float32)
for how, got in by_modes(f"__float2{NAME}", singles, DTYPE):
    same(got, bits_of(singles.astype(np.float64), how), singles)
near = np.concatenate([reals, np.nextafter(reals, 0), np.nextafter(reals, np.inf)])
got = launch(outward(getattr(more, f"__double2{NAME}")), near.shape, DTYPE, near)
same(got, bits_of(near))
for kind in ("short", "ushort"):
    f = getattr(more, f"__{NAME}_as_{kind}")
    same(launch(outward(f), ALL.shape, INTEGERS[kind], every), ALL.view(INTEGERS[kind]))
    f = getattr(more, f"__{kind}_as_{NAME}")
    same(launch(outward(f), ALL.shape, DTYPE, ALL.view(INTEGERS[kind])), ALL)
""")


@pytest.mark.exhaustive
@BOTH
def test_mathematical_functions_of_every_number(run):
    run("""
@cuda.jit
def functions(x, out):
    i = cuda.grid(1)
    if i < x.size:
        a = x[i]
        out[0, i] = half.htrunc(a)
        out[1, i] = half.hceil(a)
        out[2, i] = half.hfloor(a)
        out[3, i] = half.hrint(a)
        out[4, i] = half.hsqrt(a)
        out[5, i] = half.hrsqrt(a)
        out[6, i] = half.hlog(a)
        out[7, i] = half.hlog2(a)
        out[8, i] = half.hlog10(a)
        out[9, i] = half.hexp(a)
        out[10, i] = half.hexp2(a)
        out[11, i] = half.hexp10(a)
        out[12, i] = half.hsin(a)
        out[13, i] = half.hcos(a)
        out[14, i] = half.htanh(a)
        out[15, i] = math.sqrt(a)
        out[16, i] = math.exp(a)
        out[17, i] = math.floor(a)

got = launch(functions, (18, 65536), DTYPE, ALL.view(DTYPE))
for i, f in enumerate((np.trunc, np.ceil, np.floor, np.rint, np.sqrt)):
    same(got[i], bits_of(f(WIDE)), ALL)
rest = (lambda v: 1 / np.sqrt(v), np.log, np.log2, np.log10, np.exp, np.exp2,
        lambda v: 10.0**v, np.sin, np.cos, np.tanh)
for i, f in enumerate(rest, 5):
    wanted = bits_of(f(WIDE))
    assert (np.isnan(WIDE[got[i]]) == np.isnan(WIDE[wanted])).all(), i
    error = abs(ordered(got[i]) - ordered(wanted))[~np.isnan(WIDE[wanted])]
    assert error.max() <= 1 and (error > 0).mean() < 1e-3, (i, error.max(), (error > 0).mean())
same(got[15], got[4])
same(got[16], got[9])
same(got[17], got[2])
""")


@pytest.mark.exhaustive
@BOTH
def test_blocks_warps_and_batches(run):
    run("""
from numba.cuda._internal import cuda_KIND as more
from numba.cuda.extending import intrinsic
atomic_add, ldg, stcg = more.atomicAdd, getattr(more, "__ldg"), getattr(more, "__stcg")
shfl_xor, shfl_up = getattr(more, "__shfl_xor_sync"), getattr(more, "__shfl_up_sync")
TYPE = numba.uint16 if IS_BF16 else numba.cuda.types.float16  # Numba has no arrays of bfloat16
stored = half.bfloat16_as_uint16 if IS_BF16 else more.__hneg
loaded = half.uint16_as_bfloat16 if IS_BF16 else more.__hneg

@cuda.jit
def sums(x, out):
    s = cuda.shared.array(64, TYPE)
    t = cuda.threadIdx.x
    s[t] = stored(x[cuda.grid(1)])
    cuda.syncthreads()
    step = 32
    while step:
        if t < step:
            s[t] = stored(loaded(s[t]) + loaded(s[t + step]))
        cuda.syncthreads()
        step //= 2
    if t == 0:
        out[cuda.blockIdx.x] = loaded(s[0])

def pairwise(v):
    while v.shape[-1] > 1:
        n = v.shape[-1] // 2
        v = WIDE[bits_of(v[..., :n] + v[..., n:])]
    return v[..., 0]
x = rng.normal(size=(3, 5 * 64)).astype(DTYPE)
wanted = bits_of(pairwise(x.astype(np.float64).reshape(3, 5, 64)))
op = numba_cuda_kernel(sums, S((5,), DTYPE), grid=5, block=64)
for f in (op, jax.jit(op)):
    same(np.asarray(f(jnp.asarray(x[0]))).view(np.uint16), wanted[0])
same(np.asarray(jax.vmap(op)(jnp.asarray(x))).view(np.uint16).ravel(), wanted.ravel())

@cuda.jit
def lanes(x, out):
    t = cuda.threadIdx.x
    out[0, t] = shfl_xor(numba.uint32(0xFFFFFFFF), x[t], numba.int32(5), numba.int32(32))
    out[1, t] = shfl_up(numba.uint32(0xFFFFFFFF), x[t], numba.uint32(3), numba.int32(16))
x = ALL[1000:1128]
got = launch(lanes, (2, 128), DTYPE, x.view(DTYPE))
t = np.arange(128)
same(got[0], x[t ^ 5])
same(got[1], x[np.where(t % 16 >= 3, t - 3, t)])

@intrinsic
def pointer(typing, array):
    def data(context, builder, signature, arguments):
        return context.make_array(signature.args[0])(context, builder, arguments[0]).data
    return numba.cuda.types.CPointer(array.dtype)(array), data

@cuda.jit
def memory(x, out):
    t = cuda.threadIdx.x
    if t == 0:
        stcg(pointer(out), x[0])
    cuda.syncthreads()
    atomic_add(pointer(out), x[t])
    if t < 2:
        out[t + 1] = ldg(pointer(x))
x = rng.integers(-2, 3, 64)  # all sums are exact
got = numba_cuda_kernel(memory, S((3,), DTYPE), grid=1, block=64)(jnp.asarray(x.astype(DTYPE)))
assert np.asarray(got, np.float64).tolist() == [x.sum() + x[0], x[0], x[0]], got
""")


def test_without_instructions_for_half_precision(run_python):
    """Processors before F16C have none, and LLVM calls functions for conversions."""
    program = (
        HEAD.replace("KIND", "fp16")
        + """
@cuda.jit
def between(x, wide, sums):
    i = cuda.grid(1)
    if i < x.size:
        wide[i] = np.float32(x[i])
        sums[i] = x[i] + x[x.size - 1 - i]

outs = S(ALL.shape, np.float32), S(ALL.shape, DTYPE)
op = numba_cuda_kernel(between, outs, grid=512, block=128)
wide, sums = op(jnp.asarray(ALL.view(DTYPE)))
same(np.asarray(wide).astype(np.float64)[WIDE == WIDE], WIDE[WIDE == WIDE])
same(np.asarray(sums).view(np.uint16), bits_of(WIDE + WIDE[::-1]))
"""
    )
    features = "+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt"
    run_python(
        program,
        KERNBRIDGE_LIBCUDA="/nowhere/libcuda.so",
        NUMBA_CPU_NAME="x86-64-v2" if platform.machine() == "x86_64" else "generic",
        NUMBA_CPU_FEATURES=features if platform.machine() == "x86_64" else "",
    )
