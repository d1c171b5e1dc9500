"""Integer arithmetic and bits."""

import numpy as np
from numba import cuda

from .case import Cases

CASES = Cases()
I32, I64, U32, U64 = np.int32, np.int64, np.uint32, np.uint64


def _bit_length(x):
    return np.array([int(v).bit_length() for v in x])


def _scanned(x, y):
    reverse = [int(f"{int(v):064b}"[::-1], 2) for v in y]
    return (
        np.array([int(v).bit_count() for v in x]),
        32 - _bit_length(x),
        np.array([_lowest(v) for v in x]),
        np.array(reverse, U64),
        64 - _bit_length(y),
    )


def _lowest(v):
    v = int(v)
    return (v & -v).bit_length()


@CASES.case(
    covers="popc, clz, ffs and brev of 32 and 64 bits",
    bug="popc is clz",
    inputs=lambda rng: (
        rng.integers(0, 1 << 32, 131, dtype=U32) >> rng.integers(0, 32, 131, dtype=U32),
        rng.integers(0, 1 << 63, 131, dtype=U64) >> rng.integers(0, 63, 131, dtype=U64),
    ),
    outs=[((131,), I32), ((131,), I32), ((131,), I32), ((131,), U64), ((131,), I64)],
    launch_dims=131,
    reference=_scanned,
)
@cuda.jit
def bit_scans(x, y, ones, leading, lowest, reverse, leading64):
    i = cuda.grid(1)
    if i < x.size:
        ones[i] = cuda.popc(x[i])
        leading[i] = cuda.clz(x[i])
        lowest[i] = cuda.ffs(x[i])
        reverse[i] = cuda.brev(y[i])
        leading64[i] = cuda.clz(y[i])


@CASES.case(
    covers="Python's division and remainder, of either sign",
    bug="srem is urem",
    inputs=lambda rng: (
        rng.integers(-(1 << 30), 1 << 30, 259).astype(I32),
        (rng.integers(1, 1000, 259) * rng.choice([-1, 1], 259)).astype(I32),
        rng.integers(0, 1 << 32, 259, dtype=U32),
    ),
    outs=[((259,), I32), ((259,), I32), ((259,), U32), ((259,), U32)],
    launch_dims=259,
    reference=lambda a, b, u: (a // b, a % b, u // np.abs(b).astype(U32), u % U32(97)),
)
@cuda.jit
def divisions(a, b, u, quotient, remainder, unsigned, modulo):
    i = cuda.grid(1)
    if i < a.size:
        quotient[i] = a[i] // b[i]
        remainder[i] = a[i] % b[i]
        unsigned[i] = u[i] // np.uint32(abs(b[i]))
        modulo[i] = u[i] % np.uint32(97)


def _escapes(re, im):
    count = np.zeros((im.size, re.size), I32)
    for i, y in enumerate(im.tolist()):
        for j, x in enumerate(re.tolist()):
            a = b = n = 0
            while n < 50 and a * a + b * b <= 4 << 32:
                a, b = ((a * a - b * b) >> 16) + x, ((a * b) >> 15) + y
                n += 1
            count[i, j] = n
    return count


@CASES.case(
    covers="a data-dependent loop in 16.16 fixed point (Mandelbrot set)",
    bug="ashr is lshr",
    inputs=lambda rng: (
        np.sort(rng.integers(-2 << 16, 1 << 16, 47)),
        np.sort(rng.integers(-1 << 16, 1 << 16, 31)),
    ),
    outs=[((31, 47), I32)],
    launch_dims=(31, 47),
    reference=_escapes,
)
@cuda.jit
def mandelbrot(re, im, count):
    i, j = cuda.grid(2)
    if i < im.size and j < re.size:
        a = 0
        b = 0
        n = 0
        while n < 50 and a * a + b * b <= 17179869184:
            a, b = ((a * a - b * b) >> 16) + re[j], ((a * b) >> 15) + im[i]
            n += 1
        count[i, j] = n


def _morton(x, y):
    code = np.zeros(x.size, U64)
    for k in range(16):
        code |= (x >> k & 1).astype(U64) << U64(2 * k) | (y >> k & 1).astype(U64) << U64(2 * k + 1)
    return code, x ^ (x >> 1)


@CASES.case(
    covers="masks, shifts and exclusive or of unsigned words (Morton and Gray codes)",
    bug="xor is or",
    inputs=lambda rng: tuple(rng.integers(0, 1 << 16, 203).astype(np.uint16) for _ in range(2)),
    outs=[((203,), U64), ((203,), np.uint16)],
    launch_dims=203,
    reference=_morton,
)
@cuda.jit
def morton_and_gray(x, y, code, gray):
    i = cuda.grid(1)
    if i < x.size:
        a = np.uint64(x[i])
        b = np.uint64(y[i])
        for k in range(4):
            shift = np.uint64(8 >> k)
            mask = (
                np.uint64(0x00FF00FF) if k == 0
                else np.uint64(0x0F0F0F0F) if k == 1
                else np.uint64(0x33333333) if k == 2
                else np.uint64(0x55555555)
            )  # fmt: skip
            a = (a ^ (a << shift)) & mask
            b = (b ^ (b << shift)) & mask
        code[i] = a | (b << np.uint64(1))
        gray[i] = x[i] ^ (x[i] >> np.uint16(1))


@CASES.case(
    covers="loops of different lengths in neighbouring threads (Collatz, gcd)",
    bug="selects take the other value",
    inputs=lambda rng: (rng.integers(1, 5000, 150), rng.integers(1, 5000, 150)),
    outs=[((150,), I32), ((150,), I64)],
    launch_dims=150,
    reference=lambda a, b: (np.array([_collatz(int(v)) for v in a]), np.gcd(a, b)),
)
@cuda.jit
def collatz_and_gcd(a, b, steps, divisor):
    i = cuda.grid(1)
    if i < a.size:
        n = a[i]
        taken = 0
        while n != 1 and taken < 1000:
            n = cuda.selp(n & 1 == 1, 3 * n + 1, n >> 1)
            taken += 1
        steps[i] = taken
        x = a[i]
        y = b[i]
        while y:
            x, y = y, x % y
        divisor[i] = x


def _collatz(n):
    steps = 0
    while n != 1:
        n = 3 * n + 1 if n & 1 else n >> 1
        steps += 1
    return steps
