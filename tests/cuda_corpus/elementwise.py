"""Where a thread is, and what it reads there: indices, grids, dtypes."""

import math

import numpy as np
from numba import cuda

from .case import Cases

CASES = Cases()
F32, F64, I32 = np.float32, np.float64, np.int32


@CASES.case(
    covers="a grid-stride loop over an array updated in place",
    bug="gridDim.x is 1",
    inputs=lambda rng: (rng.normal(size=1013).astype(F32), rng.normal(size=1013).astype(F32)),
    outs=[((1013,), F32)],
    grid=3,
    block=67,
    scalars={"a": F32(1.25)},
    aliases={1: 0},
    reference=lambda x, y, a: a * x + y,
    rtol=1e-6,
    atol=1e-6,
    why="fused multiply-add",
)
@cuda.jit
def saxpy_in_place(x, y, out, a):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        out[i] = a * x[i] + y[i]


@CASES.case(
    covers="negative indices, in each axis",
    bug="negative indices are 0",
    inputs=lambda rng: (rng.integers(-1000, 1000, (3, 37)).astype(I32),),
    outs=[((37,), I32)],
    launch_dims=37,
    reference=lambda x: x[-1, ::-1] - 3 * x[-3, -(np.arange(37) // 2) - 1],
)
@cuda.jit
def mirrored(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[-1, -i - 1] - 3 * x[-3, -(i // 2) - 1]


@CASES.case(
    covers="two-dimensional blocks and grids over a shape that they do not divide",
    bug="blockIdx.y is 0",
    inputs=lambda rng: (rng.integers(-99, 99, 45).astype(I32), rng.integers(-99, 99, 29)),
    outs=[((45, 29), np.int64)],
    grid=(4, 6),
    block=(9, 8),
    reference=lambda x, y: (
        np.multiply.outer(x, y) + np.add.outer(100 * np.arange(45), np.arange(29))
    ),
)
@cuda.jit
def outer_product(x, y, out):
    j, i = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = x[i] * y[j] + 100 * i + j


@CASES.case(
    covers="three-dimensional blocks and grids, two-byte elements",
    bug="threadIdx.z is 0",
    inputs=lambda rng: (rng.integers(-30000, 30000, (5, 11, 13)).astype(np.int16),),
    outs=[((13, 5, 11), np.int16)],
    grid=(4, 3, 2),
    block=(4, 4, 3),
    reference=lambda x: x.transpose(2, 0, 1),
)
@cuda.jit
def permute_axes(x, out):
    k, j, i = cuda.grid(3)
    if i < x.shape[0] and j < x.shape[1] and k < x.shape[2]:
        out[k, i, j] = x[i, j, k]


@CASES.case(
    covers="all twelve index registers, and a size from each axis",
    bug="blockDim.y is 1",
    inputs=lambda rng: (rng.integers(0, 1 << 20, 540).astype(np.uint32),),
    outs=[((540,), np.uint32), ((540,), np.uint32)],
    grid=(3, 2, 3),
    block=(5, 3, 2),
    reference=lambda x: (
        x ^ np.arange(540, dtype=np.uint32),
        np.repeat(np.uint32([x_ + 7 * (y + 11 * z) for z in range(3) for y in range(2)
                             for x_ in range(3)]), 30),
    ),
)  # fmt: skip
@cuda.jit
def flat_numbering(x, out, blocks):
    b, g, t, n = cuda.blockIdx, cuda.gridDim, cuda.threadIdx, cuda.blockDim
    thread = t.x + n.x * (t.y + n.y * t.z)
    block = b.x + g.x * (b.y + g.y * b.z)
    i = thread + n.x * n.y * n.z * block
    out[i] = x[i] ^ np.uint32(i)
    blocks[i] = b.x + 7 * (b.y + 11 * b.z)


@CASES.case(
    covers="bools read, written and combined",
    bug="a stored bool is inverted",
    inputs=lambda rng: (
        rng.normal(size=301).astype(F32),
        rng.integers(0, 2, 301).astype(bool),
        rng.integers(0, 2, 301).astype(bool),
    ),
    outs=[((301,), F32), ((301,), bool)],
    launch_dims=301,
    reference=lambda x, p, q: (np.where(p ^ q, x, F32(-1)), p & ~q | (x > 1)),
)
@cuda.jit
def masked_select(x, p, q, out, flag):
    i = cuda.grid(1)
    if i >= out.size:
        return
    out[i] = x[i] if p[i] != q[i] else -1
    flag[i] = (p[i] and not q[i]) or x[i] > 1


@CASES.case(
    covers="complex arithmetic: a polynomial by Horner's rule",
    bug="fsub is fadd",
    inputs=lambda rng: (
        (rng.normal(size=(2, 130)) * 0.7).astype(F32).view(np.complex64),
        rng.normal(size=(5, 2)).view(np.complex128).ravel(),
    ),
    outs=[((2, 65), np.complex128), ((2, 65), F32)],
    launch_dims=(2, 65),
    reference=lambda z, c: (np.polyval(c, z.astype(np.complex128)), z.real * z.imag),
    rtol=1e-6,
    atol=1e-6,
    why="fused multiply-add",
)
@cuda.jit
def complex_polynomial(z, c, out, product):
    i, j = cuda.grid(2)
    if i < z.shape[0] and j < z.shape[1]:
        total = c[0]
        for k in range(1, c.size):
            total = total * z[i, j] + c[k]
        out[i, j] = total
        product[i, j] = z[i, j].real * z[i, j].imag


@CASES.case(
    covers="bytes and two-byte words, signed and unsigned, saturating",
    bug="sext is zext",
    inputs=lambda rng: (
        rng.integers(0, 256, 333).astype(np.uint8),
        rng.integers(-128, 128, 333).astype(np.int8),
        rng.integers(-(1 << 15), 1 << 15, 333).astype(np.int16),
    ),
    outs=[((333,), np.uint8), ((333,), np.int8), ((333,), np.int16)],
    launch_dims=333,
    reference=lambda u, s, w: (
        np.clip(u.astype(I32) + s, 0, 255),
        np.clip(w.astype(I32) >> 7, -128, 127) // 2 - s // 2,
        (u * w.astype(I32)).astype(np.int16),
    ),
)
@cuda.jit
def blend_saturating(u, s, w, bright, mixed, product):
    i = cuda.grid(1)
    if i < u.size:
        bright[i] = min(max(np.int32(u[i]) + np.int32(s[i]), 0), 255)
        mixed[i] = min(max(w[i] >> 7, -128), 127) // 2 - s[i] // 2
        product[i] = np.int32(u[i]) * np.int32(w[i])


@CASES.case(
    covers="scalars by name of four dtypes, and an input without axes",
    bug="scalars are zero",
    inputs=lambda rng: (rng.normal(size=(3, 70)), np.array(0.375)),
    outs=[((3, 70), F64)],
    launch_dims=lambda x, bias, **_: (x.shape[1], x.shape[0]),
    scalars={"scale": F64(2.5), "lower": F32(-1.5), "shift": I32(3), "flip": np.bool_(True)},
    reference=lambda x, bias, scale, lower, shift, flip: (
        -(np.maximum(np.roll(x, -shift, 1), lower) * scale + bias)
    ),
    rtol=1e-14,
    atol=1e-14,
    why="fused multiply-add",
)
@cuda.jit
def affine_scalars(x, bias, out, scale, lower, shift, flip):
    j, i = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        v = max(x[i, (j + shift) % x.shape[1]], lower) * scale + bias[()]
        out[i, j] = -v if flip else v


@CASES.case(
    covers="integers to floats and back: rounding, truncation, widths",
    bug="sitofp is uitofp",
    inputs=lambda rng: (
        rng.integers(-(1 << 20), 1 << 20, 129).astype(I32),
        rng.normal(size=129) * 100,
    ),
    outs=[((129,), F32), ((129,), I32), ((129,), np.int64), ((129,), F32)],
    launch_dims=129,
    reference=lambda k, x: (k.astype(F32) / F32(8), np.trunc(x), np.floor(x), x.astype(F32)),
)
@cuda.jit
def conversions(k, x, eighth, truncated, floored, narrowed):
    i = cuda.grid(1)
    if i < k.size:
        eighth[i] = np.float32(k[i]) / np.float32(8)
        truncated[i] = np.int32(x[i])
        floored[i] = np.int64(math.floor(x[i]))
        narrowed[i] = np.float32(x[i])
