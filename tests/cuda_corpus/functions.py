"""Functions that a kernel calls, what it closes over, and memory of its own."""

import math

import numba
import numpy as np
from numba import cuda

from .case import Cases

CASES = Cases()
F32, F64, I32 = np.float32, np.float64, np.int32
LIBM = "libm against libdevice, and fused multiply-add"


def _kepler(mean, e):
    anomaly = mean.copy()
    for _ in range(12):
        anomaly -= (anomaly - e * np.sin(anomaly) - mean) / (1 - e * np.cos(anomaly))
    return anomaly, np.cos(anomaly)


@CASES.case(
    covers="sine and cosine in double precision, iterated (Kepler's equation)",
    bug="sin is cos",
    inputs=lambda rng: (rng.uniform(-3, 3, 141), rng.uniform(0, 0.6, 141)),
    outs=[((141,), F64), ((141,), F64)],
    launch_dims=141,
    reference=_kepler,
    rtol=1e-12,
    atol=1e-12,
    why=LIBM,
)
@cuda.jit
def kepler(mean, e, anomaly, cosine):
    i = cuda.grid(1)
    if i < mean.size:
        v = mean[i]
        for _ in range(12):
            v -= (v - e[i] * math.sin(v) - mean[i]) / (1.0 - e[i] * math.cos(v))
        anomaly[i] = v
        cosine[i] = math.cos(v)


def _special(x):
    x = x.astype(F64)
    of = np.vectorize
    columns = [
        of(math.erf)(x), of(math.lgamma)(abs(x) + 0.5), np.log1p(abs(x)), np.cbrt(x),
        np.hypot(x, 1.5), x * x - 0.75, np.expm1(x), np.arctan2(x, 0.5), abs(x) ** 1.75,
        np.fmod(x, 0.7), np.copysign(2.0, x), np.log2(abs(x)),
    ]  # fmt: skip
    return np.stack(columns, 1)


@CASES.case(
    covers="twelve functions of the mathematical library in single precision",
    bug="erf is tanh",
    inputs=lambda rng: ((rng.uniform(0.05, 2.5, 99) * rng.choice([-1, 1], 99)).astype(F32),),
    outs=[((99, 12), F32)],
    launch_dims=99,
    reference=_special,
    rtol=5e-6,
    atol=2e-6,
    why=LIBM,
)
@cuda.jit
def special_functions(x, out):
    i = cuda.grid(1)
    if i < x.size:
        v = x[i]
        out[i, 0] = math.erf(v)
        out[i, 1] = math.lgamma(abs(v) + np.float32(0.5))
        out[i, 2] = math.log1p(abs(v))
        out[i, 3] = cuda.cbrt(v)
        out[i, 4] = math.hypot(v, np.float32(1.5))
        out[i, 5] = cuda.fma(v, v, np.float32(-0.75))
        out[i, 6] = math.expm1(v)
        out[i, 7] = math.atan2(v, np.float32(0.5))
        out[i, 8] = math.pow(abs(v), np.float32(1.75))
        out[i, 9] = math.fmod(v, np.float32(0.7))
        out[i, 10] = math.copysign(np.float32(2), v)
        out[i, 11] = math.log2(abs(v))


@cuda.jit(device=True)
def conjugate(q):
    return q[0], -q[1], -q[2], -q[3]


@cuda.jit(device=True)
def hamilton(p, q):
    return (
        p[0] * q[0] - p[1] * q[1] - p[2] * q[2] - p[3] * q[3],
        p[0] * q[1] + p[1] * q[0] + p[2] * q[3] - p[3] * q[2],
        p[0] * q[2] - p[1] * q[3] + p[2] * q[0] + p[3] * q[1],
        p[0] * q[3] + p[1] * q[2] - p[2] * q[1] + p[3] * q[0],
    )


def _rotated(q, v):
    w, u = q[:, :1], q[:, 1:]
    return v * (w * w - (u * u).sum(1, keepdims=True)) + 2 * (
        u * (u * v).sum(1, keepdims=True) + w * np.cross(u, v)
    )


@CASES.case(
    covers="device functions of tuples that call each other (rotation by quaternions)",
    bug="fneg is the identity",
    inputs=lambda rng: (rng.normal(size=(77, 4)), rng.normal(size=(77, 3))),
    outs=[((77, 3), F64)],
    launch_dims=77,
    reference=_rotated,
    rtol=1e-12,
    atol=1e-12,
    why="fused multiply-add",
)
@cuda.jit
def rotations(q, v, out):
    i = cuda.grid(1)
    if i < v.shape[0]:
        p = (q[i, 0], q[i, 1], q[i, 2], q[i, 3])
        turned = hamilton(hamilton(p, (0.0, v[i, 0], v[i, 1], v[i, 2])), conjugate(p))
        for k in range(3):
            out[i, k] = turned[k + 1]


def resampler(table, step):
    """A kernel that closes over an array and a scalar."""

    @cuda.jit
    def interpolate_table(x, out):
        values = cuda.const.array_like(table)
        i = cuda.grid(1)
        if i < out.size:
            place = x[i] / step
            k = min(int(place), values.size - 2)
            fraction = place - k
            out[i] = values[k] + fraction * (values[k + 1] - values[k])

    return interpolate_table


TABLE = np.array([0.0, 0.5, 2.0, -1.0, 3.5, 0.25, 1.75, -2.5], F32)

CASES.case(
    covers="a constant array and a scalar that the kernel closes over",
    bug="constant arrays are zero",
    inputs=lambda rng: (rng.uniform(0, 3.49, 211),),
    outs=[((211,), F64)],
    launch_dims=211,
    reference=lambda x: np.interp(x / 0.5, np.arange(8), TABLE.astype(F64)),
    rtol=1e-6,
    atol=1e-6,
    why="fused multiply-add; differences of the table in single precision",
)(resampler(TABLE, 0.5))


@CASES.case(
    covers="a local array of two axes, sorted (3 by 3 rank filter)",
    bug="floats compare the other way round",
    inputs=lambda rng: (rng.normal(size=(19, 23)).astype(F32),),
    outs=[((17, 21), F32)],
    launch_dims=(17, 21),
    reference=lambda x: np.sort(
        np.lib.stride_tricks.sliding_window_view(x, (3, 3)).reshape(17, 21, 9), -1
    )[..., 2],
)
@cuda.jit
def rank_filter(x, out):
    window = cuda.local.array((3, 3), numba.float32)
    i, j = cuda.grid(2)
    if i >= out.shape[0] or j >= out.shape[1]:
        return
    for a in range(3):
        for b in range(3):
            v = x[i + a, j + b]
            k = 3 * a + b
            while k > 0 and window[(k - 1) // 3, (k - 1) % 3] > v:
                window[k // 3, k % 3] = window[(k - 1) // 3, (k - 1) % 3]
                k -= 1
            window[k // 3, k % 3] = v
    out[i, j] = window[0, 2]


@CASES.case(
    covers="a local array that outlives barriers",
    bug="local arrays are shared by all threads",
    inputs=lambda rng: (rng.integers(-50, 50, (4, 40)).astype(I32),),
    outs=[((4, 40), I32)],
    grid=4,
    block=40,
    reference=lambda x: sum((k + 1) * np.roll(x, -k * k, 1) for k in range(5)),
)
@cuda.jit
def delay_line(x, out):
    own = cuda.local.array(5, numba.int32)
    row = cuda.shared.array(40, numba.int32)
    b = cuda.blockIdx.x
    t = cuda.threadIdx.x
    row[t] = x[b, t]
    cuda.syncthreads()
    for k in range(5):
        own[k] = row[(t + k * k) % 40]
        cuda.syncthreads()
    total = 0
    for k in range(5):
        total += (k + 1) * own[k]
    out[b, t] = total


@cuda.jit(device=True)
def block_prefix(value, t):
    """Sum of the values of all earlier threads of a block of 45."""
    values = cuda.shared.array(45, numba.int32)
    values[t] = value
    cuda.syncthreads()
    total = 0
    for k in range(t):
        total += values[k]
    cuda.syncthreads()
    return total


@CASES.case(
    covers="a device function with a shared array and barriers, called twice",
    bug="barriers do nothing",
    inputs=lambda rng: (rng.integers(0, 10, (2, 45)).astype(I32),),
    outs=[((2, 45), I32), ((2, 45), I32)],
    grid=2,
    block=45,
    reference=lambda x: (
        np.cumsum(x, 1) - x,
        np.cumsum(np.cumsum(x, 1) - x, 1) - (np.cumsum(x, 1) - x),
    ),
)
@cuda.jit
def prefix_of_prefix(x, once, twice):
    b = cuda.blockIdx.x
    t = cuda.threadIdx.x
    first = block_prefix(np.int64(x[b, t]), t)
    once[b, t] = first
    twice[b, t] = block_prefix(first, t)
