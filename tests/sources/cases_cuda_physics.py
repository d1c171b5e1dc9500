"""CUDA: physics and random numbers."""

from __future__ import annotations

import numpy as np
from corpus import F32, F64, I8, I32, U32, U64, call, case, integers, normal


def fields(rng):
    u = rng.normal(size=(7, 10, 19)).astype(F32)
    return u, (u + 0.1 * rng.normal(size=u.shape)).astype(F32)


def wave(steps, c2):
    def reference(u, before):
        u, before = u.astype(F64), before.astype(F64)
        for _ in range(steps):
            p = np.pad(u, 1)
            neighbours = sum(np.roll(p, d, a) for a in range(3) for d in (-1, 1))
            laplacian = neighbours[1:-1, 1:-1, 1:-1] - 6 * u
            u, before = 2 * u - before + c2 * laplacian, u
        return u.astype(F32), before.astype(F32)

    return reference


case(
    "wave3d",
    "cuda",
    "stencil 3d-grid several-launches aliases macro-index uint32-attribute copy-if-not-aliased",
    [
        call("wave", fields, wave(6, 0.15), aliases={0: 0, 1: 1}, steps=6, c2=0.15, rtol=1e-4),
        call("wave", fields, wave(2, 0.3), steps=2, c2=0.3, rtol=1e-4),
        call("wave", fields, wave(0, 0.3), steps=0, c2=0.3),
    ],
    ("if (z < nz - 1)", "if (z < nz - 2)", "the wall of one side"),
    ("u[INDEX(z, y - 1, x)]", "u[INDEX(z, y, x)]", "a neighbour"),
    (
        "wave_step<<<grid, block, 0, s>>>(b, a,",
        "wave_step<<<grid, block, 0, s>>>(a, b,",
        "buffers do not take turns",
    ),
    ("+ c2 * laplacian", "+ laplacian * 0.1f", "an attribute is ignored"),
)


def bodies(rng):
    body = rng.normal(size=(150, 4)).astype(F32)
    body[:, 3] = rng.random(150) + 0.5
    return body, rng.normal(size=(150, 3)).astype(F32)


def nbody(dt, softening):
    def reference(body, velocity):
        x, m = body[:, :3].astype(F64), body[:, 3].astype(F64)
        d = x[None] - x[:, None]
        r2 = (d**2).sum(-1) + softening
        v = velocity + dt * (m[None, :, None] * d * r2[..., None] ** -1.5).sum(1)
        return np.hstack([x + dt * v, m[:, None]]).astype(F32), v.astype(F32)

    return reference


case(
    "nbody",
    "cuda",
    "float4 shared-memory-tiles launch-bounds operators returns-int own-headers float32-attributes",
    [call("nbody_step", bodies, nbody(0.02, 0.05), dt=0.02, softening=0.05, rtol=2e-4, atol=2e-4)],
    ("min(TILE, n - first)", "min(TILE, n / 3)", "how much of a tile counts"),
    ("inverse * inverse * inverse * d", "inverse * inverse * d", "the power of the distance"),
    ("d.z * d.z + softening", "d.z * d.z + 0.2f", "an attribute is ignored"),
    ("first += TILE", "first += 2 * TILE", "every other tile"),
    ("me.z + dt * v.z, me.w", "me.z + dt * v.z, me.z", "the mass"),
)


def lattice(rng):
    h, w = 22, 38
    spin = rng.choice([-1, 1], (h, w)).astype(I8)
    chance = np.array([1, 1, 0.6, 0.3, 0.1], F32)
    return spin, rng.random((2, h, w)).astype(F32), chance


def metropolis(spin, uniform, chance):
    spin = spin.astype(I32)
    y, x = np.indices(spin.shape)
    for colour in range(2):
        field = sum(np.roll(spin, d, a) for a in (0, 1) for d in (-1, 1))
        accepted = uniform[colour] < chance[(spin * field + 4) // 2]
        spin = np.where(((y + x + colour) % 2 == 0) & accepted, -spin, spin)
    return spin.astype(I8), np.array([spin.sum()], I32)


case(
    "ising",
    "cuda",
    "checkerboard aliases prototype-with-annotation int8 reference-output memcpy-default "
    "shared-atomics",
    [
        call("metropolis", lattice, metropolis, aliases={0: 0}),
        call("metropolis", lattice, metropolis),
    ],
    ("(x + w - 1) % w", "(x > 0 ? x - 1 : 0)", "the torus has an edge"),
    ("colour * uniform.stride(0)", "0", "numbers of the other colour"),
    ("x += (y + colour) & 1;", "x += y & 1;", "one colour twice"),
    ("i += blockDim.x)\n        mine", "i += n)\n        mine", "the sum beyond the block"),
    ("(gain + 4) / 2", "(4 - gain) / 2", "the sign of the energy"),
)

OSCILLATOR = {"k": 3.0, "c": 0.2, "dt": 0.05, "steps": 40}


def oscillate(x, v):
    x, v = x.astype(F64), v.astype(F64)
    for _ in range(40):
        v = v + 0.05 * (-3.0 * x - 0.2 * v)
        x = x + 0.05 * v
    return x.astype(F32), v.astype(F32)


case(
    "lambda_map",
    "cuda",
    "extended-lambda extra-cuda-cflags uint8-attribute float64-attribute generic-launcher",
    [
        call("oscillate", normal((3, 111), (3, 111)), oscillate, **OSCILLATOR, rtol=1e-4),
        call(
            "outer_distance",
            normal(23, 31, dtype=F64),
            lambda x, y: abs(x[:, None] - y[None]) ** 1.5,
            p=1.5,
            rtol=1e-9,
        ),
    ],
    ("a += dt * b;", "a += dt * v[i];", "the velocity of before"),
    ("- c * b)", ")", "an attribute is ignored"),
    ("b[i % columns]", "b[i / columns]", "the column's index"),
    ("s < steps;", "s < steps - 1;", "one step too few"),
    extra_cuda_cflags=["--extended-lambda"],
)


def philox(n, seed, offset):
    """Salmon et al. 2011, doi:10.1145/2063384.2063405."""

    def reference():
        blocks = np.arange(-(-n // 4), dtype=U64)
        c = [blocks, np.full_like(blocks, offset), 0 * blocks, 0 * blocks]
        low = U64(0xFFFFFFFF)
        key = [U64(seed) & low, U64(seed) >> U64(32)]
        for _ in range(10):
            a, b = U64(0xD2511F53) * c[0], U64(0xCD9E8D57) * c[2]
            c = [(b >> U64(32)) ^ c[1] ^ key[0], b & low, (a >> U64(32)) ^ c[3] ^ key[1], a & low]
            key = [(key[0] + U64(0x9E3779B9)) & low, (key[1] + U64(0xBB67AE85)) & low]
        return np.stack(c, 1).reshape(-1)[:n].astype(U32)

    return call("philox_bits", lambda rng: (), reference, seed=seed, offset=offset)


def xorshift(state):
    drawn = []
    for _ in range(5):
        state = state ^ (state << U32(13))
        state = state ^ (state >> U32(17))
        state = state ^ (state << U32(5))
        drawn.append((state >> U32(8)).astype(F32) / F32(2**24))
    return state, np.stack(drawn)


case(
    "random_numbers",
    "cuda",
    "no-inputs philox xorshift uint4 uint64-attribute uint32-attribute state-in-and-out",
    [
        philox(403, 2**63 + 12345, 7),
        philox(64, 1, 2**32 - 1),
        call("xorshift", integers(1, 2**32 - 1, 77, dtype=U32), xorshift, rtol=0),
    ],
    ("r < 10", "r < 9", "a round less"),
    ("uint32_t(seed >> 32)", "0u", "the upper half of an attribute"),
    ("s ^= s >> 17;", "s ^= (uint32_t)((int32_t)s >> 17);", "a shift with a sign"),
    (
        "make_uint4(uint32_t(block), offset, 0, 0)",
        "make_uint4(uint32_t(block), 0, 0, 0)",
        "an attribute is ignored",
    ),
    ("next[t] = s;", "next[t] = state[t];", "the state does not move on"),
)
