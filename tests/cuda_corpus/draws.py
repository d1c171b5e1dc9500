"""Random numbers: by counter, by state, and Numba's own."""

import numpy as np
from numba import cuda
from numba.cuda.random import xoroshiro128p_dtype, xoroshiro128p_uniform_float32

from .case import Cases

CASES = Cases()
F32, I32, U32, U64 = np.float32, np.int32, np.uint32, np.uint64
LOW = 0xFFFFFFFF


@cuda.jit(device=True)
def philox_round(c, k):
    """One round on four 32-bit words, held in 64-bit integers."""
    first = np.uint64(0xD2511F53) * c[0]
    second = np.uint64(0xCD9E8D57) * c[2]
    low = np.uint64(0xFFFFFFFF)
    wide = np.uint64(32)
    return (
        (second >> wide) ^ c[1] ^ k[0],
        second & low,
        (first >> wide) ^ c[3] ^ k[1],
        first & low,
    )


def _philox(counter, key):
    out = np.zeros((counter.shape[0], 4), U32)
    for row, c in zip(out, counter.tolist(), strict=True):
        k = key.tolist()
        for _ in range(10):
            p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = (q >> 32) ^ c[1] ^ k[0], q & LOW, (p >> 32) ^ c[3] ^ k[1], p & LOW
            k = (k[0] + 0x9E3779B9) & LOW, (k[1] + 0xBB67AE85) & LOW
        row[:] = c
    return out


@CASES.case(
    covers="Philox 4x32-10, by 64-bit products of unsigned words",
    bug="lshr is ashr",
    inputs=lambda rng: (
        rng.integers(0, 1 << 32, (67, 4), dtype=U32),
        rng.integers(0, 1 << 32, 2, dtype=U32),
    ),
    outs=[((67, 4), U32)],
    launch_dims=67,
    reference=_philox,
)
@cuda.jit
def philox(counter, key, out):
    i = cuda.grid(1)
    if i < out.shape[0]:
        low = np.uint64(0xFFFFFFFF)
        c = (
            np.uint64(counter[i, 0]),
            np.uint64(counter[i, 1]),
            np.uint64(counter[i, 2]),
            np.uint64(counter[i, 3]),
        )
        k0 = np.uint64(key[0])
        k1 = np.uint64(key[1])
        for _ in range(10):
            c = philox_round(c, (k0, k1))
            k0 = (k0 + np.uint64(0x9E3779B9)) & low
            k1 = (k1 + np.uint64(0xBB67AE85)) & low
        out[i, 0] = c[0]
        out[i, 1] = c[1]
        out[i, 2] = c[2]
        out[i, 3] = c[3]


def _inside(seed):
    inside = np.zeros(seed.size, I32)
    state = [int(s) for s in seed]
    for i, s in enumerate(state):
        for _ in range(50):
            point = []
            for _ in range(2):
                s ^= s << 13 & LOW
                s ^= s >> 17
                s ^= s << 5 & LOW
                point.append(s >> 17)
            inside[i] += point[0] ** 2 + point[1] ** 2 < 1 << 30
        state[i] = s
    return inside, np.array(state, U32), inside.sum()


@cuda.jit(device=True)
def xorshift(s):
    """The next state; Numba widens what it shifts."""
    s = np.uint32(s ^ (s << np.uint32(13)))
    s = np.uint32(s ^ (s >> np.uint32(17)))
    return np.uint32(s ^ (s << np.uint32(5)))


@CASES.case(
    covers="xorshift of 32 bits, counting points in a circle over the grid's z axis",
    bug="blockIdx.z is 0",
    inputs=lambda rng: (rng.integers(1, 1 << 32, 60, dtype=U32),),
    outs=[((60,), I32), ((60,), U32), ((1,), I32)],
    grid=(1, 1, 4),
    block=(5, 1, 3),
    zero_outputs=True,
    reference=_inside,
)
@cuda.jit
def points_in_circle(seed, inside, state, total):
    t = cuda.threadIdx
    i = (cuda.blockIdx.z * cuda.blockDim.z + t.z) * cuda.blockDim.x + t.x
    s = seed[i]
    count = 0
    for _ in range(50):
        s = xorshift(s)
        x = np.int64(s >> np.uint32(17))
        s = xorshift(s)
        y = np.int64(s >> np.uint32(17))
        if x * x + y * y < 1 << 30:
            count += 1
    inside[i] = count
    state[i] = s
    cuda.atomic.add(total, 0, count)


def _xoroshiro(states):
    mask = (1 << 64) - 1
    out, after = np.zeros((states.shape[0], 7), F32), []
    for row, (a, b) in zip(out, states.tolist(), strict=True):
        for k in range(7):
            row[k] = ((a + b & mask) >> 11) * 2.0**-53
            b ^= a
            a = (a << 55 & mask | a >> 9) ^ b ^ (b << 14 & mask)
            b = b << 36 & mask | b >> 28
        after.append((a, b))
    return out, np.array(after, U64)


@CASES.case(
    covers="states of Numba's generator (xoroshiro128+), records given by their words",
    bug="xor is or",
    inputs=lambda rng: (rng.integers(1, 1 << 63, (43, 2), dtype=U64),),
    outs=[((43, 7), F32), ((43, 2), U64)],
    launch_dims=43,
    aliases={0: 1},
    view={"states": xoroshiro128p_dtype, "after": xoroshiro128p_dtype},
    reference=_xoroshiro,
)
@cuda.jit
def uniform_draws(states, out, after):
    i = cuda.grid(1)
    if i < out.shape[0]:
        for k in range(out.shape[1]):
            out[i, k] = xoroshiro128p_uniform_float32(after, i)
