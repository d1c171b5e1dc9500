"""Sources in C."""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.signal
from corpus import (
    C64,
    C128,
    F64,
    I32,
    U8,
    U16,
    U32,
    U64,
    call,
    case,
    complex_normal,
    integers,
    normal,
    unchecked,
)


def words(dtype):
    width = 8 * np.dtype(dtype).itemsize

    def reference(x):
        count = np.array([int(v).bit_count() for v in x], U8)
        backward = [int(f"{int(v):0{width}b}"[::-1], 2) for v in x]
        return count, x ^ (x >> dtype(1)), np.array(backward, dtype)

    return call("bits", integers(0, 2**width - 1, 37, dtype=dtype), reference)


def hamming(mask):
    def reference(a, b):
        bits = np.bitwise_count((a[:, None] ^ b[None]) & U64(mask))
        return bits.sum(-1).astype(I32)

    inputs = integers(0, 2**64 - 1, (4, 3), (6, 3), dtype=U64)
    return call("hamming", inputs, reference, mask=mask)


case(
    "bit_tricks",
    "c",
    "macro static-inline shared-header returns-int uint64-attribute switch-on-width",
    [*map(words, (U8, U16, U32, U64)), hamming(2**64 - 1), hamming(0xFFFF0000F0F00001)],
    ("x >> 4)) & 0x0f0f", "x >> 4)) & 0x070f", "in the header: a mask"),
    ("((x) ^ ((x) >> 1))", "((x) ^ ((x) << 1))", "in the header: the other way"),
    ("EACH(uint16_t, 16)", "case 16:\n        EACH(uint8_t, 160)\n", "the wrong type for 16 bits"),
    ("& mask)", ")", "an attribute is ignored"),
)


def resonate(x, state):
    y = np.empty_like(x)
    for t in range(len(x)):
        state = y[t] = (x[t] + C64(0.6 + 0.5j) * state).astype(C64)
    return y, y[-1]


def rotate(z):
    return abs(z) ** 2, z.conj() * (0.8 - 0.6j)


case(
    "complex_filter",
    "c",
    "c99-complex complex64-attribute complex128-attribute two-outputs",
    [
        call("resonate", complex_normal(C64, (25, 3), 3), resonate, pole=0.6 + 0.5j, rtol=1e-4),
        call("rotate", complex_normal(C128, (4, 5)), rotate, turn=0.8 - 0.6j),
    ],
    ("pole * now", "now", "the pole is ignored"),
    ("x->data)[t * channels + c] +", "x->data)[c * steps + t] +", "channels for steps"),
    ("conj(in[i]) * turn", "in[i] * turn", "not conjugated"),
    ("state->data)[c]", "state->data)[0]", "every channel begins as the first"),
)


def joined(*arrays):
    return np.concatenate(arrays)


def moments(ddof):
    def reference(x):
        return x.mean(1), x.var(1, ddof=ddof)

    return call("moments", normal((40, 6), dtype=F64), reference, ddof=ddof, rtol=1e-9)


case(
    "concatenate",
    "c",
    "whole-call any-number-of-inputs kb-fail kb-scratch kb-parallel-for int64-attribute",
    [
        call("concatenate", normal((2, 3), (4, 3), (1, 3)), joined),
        call("concatenate", integers(0, 255, (2, 2, 2), (3, 2, 2), dtype=U8), joined),
        call("concatenate", complex_normal(C128, 5), joined),
        moments(0),
        moments(1),
    ],
    ("to += bytes;", "to += i ? 0 : bytes;", "a third input over the second"),
    ("size * (in->dl_dtype.bits / 8)", "size * 1", "elements are taken for bytes"),
    ("(m.n - ddof)", "m.n", "an attribute is ignored"),
    (
        "m->x[r * m->n + i] * m->x[r * m->n + i]",
        "m->x[r * m->n + i] * m->x[i]",
        "squares with the first row",
    ),
)


def live(generations, torus):
    def reference(board):
        now = board.astype(int)
        for _ in range(generations):
            mode = "wrap" if torus else "fill"
            kernel = np.array([[1, 1, 1], [1, 0, 1], [1, 1, 1]])
            n = scipy.signal.convolve2d(now, kernel, "same", mode)
            now = (n == 3) | ((now == 1) & (n == 2))
        return now.astype(U8), unchecked(*board.shape, dtype=U8)

    inputs = integers(0, 2, (13, 18), dtype=U8)
    return call("life", inputs, reference, generations=generations, torus=torus)


case(
    "life",
    "c",
    "macro uint8-attribute bool-attribute scratch-as-output swaps-buffers",
    [live(0, True), live(1, False), live(4, True), live(7, False)],
    ("if (now != out->data)", "if (0)", "an odd number of generations stays in the scratch"),
    ("j = (j + w) % w;", "j = j < 0 ? 0 : j % w;", "the torus has an edge"),
    ("alive && n == 2", "n == 2", "a cell is born of two"),
    ("g < generations", "g <= generations", "one generation too many"),
)


def diagonals(rng):
    a, c, rhs = rng.normal(size=(3, 19))
    return a, 4 + rng.random(19), c, rhs


def tridiagonal(a, b, c, rhs):
    bands = np.stack([np.append(0, c[:-1]), b, np.append(a[1:], 0)])
    return scipy.linalg.solve_banded((1, 1), bands, rhs), unchecked(19, dtype=F64)


def cable(r, sealed):
    def reference(v):
        n = v.shape[1]
        a = (1 + 2 * r) * np.eye(n) - r * (np.eye(n, k=1) + np.eye(n, k=-1))
        if sealed:
            a[0, 0] = a[-1, -1] = 1 + r
        return np.linalg.solve(a, v.T).T, unchecked(n, dtype=F64)

    inputs = normal((3, 14), dtype=F64)
    return call("cable_step", inputs, reference, r=r, sealed=sealed, rtol=1e-9)


case(
    "tridiagonal",
    "c",
    "aliases returns-status-without-words static-helper int8-attribute strides",
    [
        call("tridiagonal", diagonals, tridiagonal, aliases={3: 0}, rtol=1e-9),
        call("tridiagonal", diagonals, tridiagonal, rtol=1e-9),
        cable(0.7, 0),
        cable(2.5, 1),
    ],
    ("x[i] - a[i] * x[i - 1]", "x[i] + a[i] * x[i - 1]", "a sign of the elimination"),
    (
        "for (int64_t i = n - 2; i >= 0; i--)\n        x[i] -= work",
        "for (int64_t i = n - 2; i > 0; i--)\n        x[i] -= work",
        "the first is not substituted",
    ),
    ("sealed ? one : other", "one", "an attribute is ignored"),
    ("row * v->strides[0]", "row", "stride of rows"),
)
