"""Matrices, transforms and points in space."""

import math

import numba
import numpy as np
from numba import cuda

from .case import Cases

CASES = Cases()
F32, F64, I32, I64 = np.float32, np.float64, np.int32, np.int64
FMA = "fused multiply-add"


@CASES.case(
    covers="a product by tiles of 8, of sizes that 8 does not divide",
    bug="static shared arrays overlap",
    inputs=lambda rng: (
        rng.normal(size=(21, 30)).astype(F32),
        rng.normal(size=(30, 27)).astype(F32),
    ),
    outs=[((21, 27), F32)],
    grid=(4, 3),
    block=(8, 8),
    reference=lambda a, b: a.astype(F64) @ b,
    rtol=1e-5,
    atol=1e-5,
    why=FMA,
)
@cuda.jit
def tiled_product(a, b, c):
    left = cuda.shared.array((8, 8), numba.float32)
    right = cuda.shared.array((8, 8), numba.float32)
    j, i = cuda.grid(2)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    total = np.float32(0)
    for first in range(0, a.shape[1], 8):
        left[ty, tx] = 0
        right[ty, tx] = 0
        if i < a.shape[0] and first + tx < a.shape[1]:
            left[ty, tx] = a[i, first + tx]
        if first + ty < b.shape[0] and j < b.shape[1]:
            right[ty, tx] = b[first + ty, j]
        cuda.syncthreads()
        for k in range(8):
            total += left[ty, k] * right[k, tx]
        cuda.syncthreads()
    if i < c.shape[0] and j < c.shape[1]:
        c[i, j] = total


@CASES.case(
    covers="a transposition through a padded tile, four rows a thread",
    bug="threadIdx.y is 0",
    inputs=lambda rng: (rng.normal(size=(45, 37)),),
    outs=[((37, 45), F64)],
    grid=(3, 3),
    block=(16, 4),
    reference=lambda x: x.T,
)
@cuda.jit
def transpose_padded(x, out):
    tile = cuda.shared.array((16, 17), numba.float64)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    top, left = 16 * cuda.blockIdx.y, 16 * cuda.blockIdx.x
    for k in range(ty, 16, 4):
        if top + k < x.shape[0] and left + tx < x.shape[1]:
            tile[k, tx] = x[top + k, left + tx]
    cuda.syncthreads()
    for k in range(ty, 16, 4):
        if left + k < out.shape[0] and top + tx < out.shape[1]:
            out[left + k, top + tx] = tile[tx, k]


def _positive_definite(rng):
    a = rng.normal(size=(5, 7, 7))
    return (a @ a.transpose(0, 2, 1) + 2 * np.eye(7),)


@CASES.case(
    covers="small factorisations, a block each (Cholesky)",
    bug="sqrt is the identity",
    inputs=_positive_definite,
    outs=[((5, 7, 7), F64)],
    grid=5,
    block=7,
    reference=np.linalg.cholesky,
    rtol=1e-11,
    atol=1e-12,
    why=FMA,
)
@cuda.jit
def cholesky_blocks(a, out):
    m = cuda.shared.array((7, 7), numba.float64)
    b = cuda.blockIdx.x
    i = cuda.threadIdx.x
    for j in range(7):
        m[i, j] = a[b, i, j]
    for k in range(7):
        cuda.syncthreads()
        if i == k:
            m[k, k] = math.sqrt(m[k, k])
        cuda.syncthreads()
        if i > k:
            m[i, k] /= m[k, k]
        cuda.syncthreads()
        if i > k:
            for j in range(k + 1, i + 1):
                m[i, j] -= m[i, k] * m[j, k]
    for j in range(7):
        out[b, i, j] = m[i, j] if j <= i else 0.0


@CASES.case(
    covers="a transform of 64 points in shared complex numbers (FFT)",
    bug="barriers do nothing",
    inputs=lambda rng: (rng.normal(size=(3, 64, 2)).astype(F32).view(np.complex64)[..., 0],),
    outs=[((3, 64), np.complex64)],
    grid=3,
    block=32,
    reference=np.fft.fft,
    rtol=2e-5,
    atol=2e-5,
    why="libm against libdevice, and fused multiply-add",
)
@cuda.jit
def fft_64(x, out):
    v = cuda.shared.array(64, numba.complex64)
    b = cuda.blockIdx.x
    t = cuda.threadIdx.x
    for k in range(t, 64, 32):
        v[np.int64(cuda.brev(np.uint32(k)) >> np.uint32(26))] = x[b, k]
    half = 1
    while half < 64:
        cuda.syncthreads()
        place = t % half
        i = 2 * (t - place) + place
        angle = np.float32(-math.pi) * np.float32(place) / np.float32(half)
        turn = complex(math.cos(angle), math.sin(angle))
        upper = v[i]
        lower = v[i + half] * turn
        v[i] = upper + lower
        v[i + half] = upper - lower
        half *= 2
    cuda.syncthreads()
    for k in range(t, 64, 32):
        out[b, k] = v[k]


def _distances(d):
    d = d.astype(I64)
    for k in range(d.shape[0]):
        d = np.minimum(d, d[:, [k]] + d[[k]])
    return d


@CASES.case(
    covers="shortest paths, a phase a barrier, on 16-bit words of a block of two axes",
    bug="only the first barrier works",
    inputs=lambda rng: (rng.integers(1, 2000, (19, 19)).astype(np.uint16),),
    outs=[((19, 19), np.uint16)],
    grid=1,
    block=(19, 19),
    reference=_distances,
)
@cuda.jit
def floyd_warshall(d, out):
    near = cuda.shared.array((19, 19), numba.uint16)
    j = cuda.threadIdx.x
    i = cuda.threadIdx.y
    near[i, j] = d[i, j]
    cuda.syncthreads()
    for k in range(19):
        through = near[i, k] + near[k, j]
        cuda.syncthreads()
        if through < near[i, j]:
            near[i, j] = through
        cuda.syncthreads()
    out[i, j] = near[i, j]


def _nearest(x, centre):
    distance = ((x[:, None] - centre) ** 2).sum(-1)
    nearest = distance.argmin(1)
    return nearest, np.bincount(nearest, minlength=6), distance.min(1)


@CASES.case(
    covers="nearest of a few centres, counted by atomics (k-means)",
    bug="floats compare the other way round",
    inputs=lambda rng: (
        rng.integers(-64, 64, (257, 3)).astype(F32),
        rng.integers(-64, 64, (6, 3)).astype(F32),
    ),
    outs=[((257,), I32), ((6,), I32), ((257,), F32)],
    launch_dims=257,
    zero_outputs=True,
    reference=_nearest,
)
@cuda.jit
def assign_clusters(x, centre, nearest, count, distance):
    i = cuda.grid(1)
    if i < x.shape[0]:
        best = np.float32(np.inf)
        which = -1
        for k in range(centre.shape[0]):
            d = np.float32(0)
            for c in range(3):
                d += (x[i, c] - centre[k, c]) ** 2
            if d < best:
                best = d
                which = k
        nearest[i] = which
        distance[i] = best
        cuda.atomic.add(count, which, 1)


def _leapfrog(x, v, m, dt):
    d = x[None] - x[:, None]
    r = (d**2).sum(-1) + 0.05
    v = v + dt * (m[None, :, None] * d / (r * np.sqrt(r))[..., None]).sum(1)
    return x + dt * v, v


@CASES.case(
    covers="all pairs by tiles of points in shared memory, one leapfrog step (n-body)",
    bug="sqrt is the identity",
    inputs=lambda rng: (rng.normal(size=(75, 3)), rng.normal(size=(75, 3)), rng.random(75)),
    outs=[((75, 3), F64), ((75, 3), F64)],
    grid=3,
    block=32,
    scalars={"dt": F64(0.01)},
    reference=_leapfrog,
    rtol=1e-12,
    atol=1e-13,
    why=FMA,
)
@cuda.jit
def leapfrog(x, v, m, x_out, v_out, dt):
    place = cuda.shared.array((32, 3), numba.float64)
    mass = cuda.shared.array(32, numba.float64)
    i = cuda.grid(1)
    t = cuda.threadIdx.x
    mine = min(i, x.shape[0] - 1)
    ax = ay = az = 0.0
    for first in range(0, x.shape[0], 32):
        k = first + t
        mass[t] = m[k] if k < x.shape[0] else 0.0
        for c in range(3):
            place[t, c] = x[min(k, x.shape[0] - 1), c]
        cuda.syncthreads()
        for k in range(32):
            dx = place[k, 0] - x[mine, 0]
            dy = place[k, 1] - x[mine, 1]
            dz = place[k, 2] - x[mine, 2]
            r = dx * dx + dy * dy + dz * dz + 0.05
            w = mass[k] / (r * math.sqrt(r))
            ax += w * dx
            ay += w * dy
            az += w * dz
        cuda.syncthreads()
    if i < x.shape[0]:
        v_out[i, 0] = v[i, 0] + dt * ax
        v_out[i, 1] = v[i, 1] + dt * ay
        v_out[i, 2] = v[i, 2] + dt * az
        for c in range(3):
            x_out[i, c] = x[i, c] + dt * v_out[i, c]
