"""CUDA: what machine learning is made of."""

from __future__ import annotations

import numpy as np
import scipy.special
from corpus import BF16, C128, F16, F32, F64, I8, U16, anything, call, case, normal


def gemm(dtype, m, k, n, alpha, beta):
    def reference(a, b, c):
        return (alpha * (a.astype(F64) @ b.astype(F64)) + beta * c).astype(dtype)

    inputs = normal((m, k), (k, n), (m, n), dtype=dtype)
    tolerance = 1e-4 if dtype is F32 else 1e-10
    return call("gemm", inputs, reference, alpha=alpha, beta=beta, rtol=tolerance)


case(
    "matmul_tiled",
    "cuda",
    "shared-memory tiles 2d-grid template-int dispatch-floating float64-attributes odd-sizes",
    [
        gemm(F32, 37, 45, 51, 1.5, 0.5),
        gemm(F64, 16, 16, 16, 1.0, 0.0),
        gemm(F64, 5, 70, 3, -1.0, 2.0),
    ],
    ("(k + TILE - 1) / TILE; ++t", "k / TILE; ++t", "the last, partial tile of the sum"),
    ("tile_a[ty][j] * tile_b[j][tx]", "tile_a[j][ty] * tile_b[j][tx]", "a transposed tile"),
    (
        "row < m && i + tx < k ? a[row * k + i + tx]",
        "row < m && i + tx < k ? a[row * k + tx % k]",
        "every tile of A is the first",
    ),
    ("alpha * sum + beta * c0[row * n + column]", "alpha * sum", "an attribute is ignored"),
)

case(
    "transpose_batched",
    "cuda",
    "shared-memory bank-padding grid-z element-width switch bits-of-any-type kb-error macro-cases",
    [
        call("transpose_last", anything(t, *s), lambda x: np.swapaxes(x, -1, -2).copy())
        for t, s in (
            (F32, (3, 33, 47)),
            (U16, (40, 5)),
            (C128, (2, 2, 9, 35)),
            (bool, (32, 32)),
            (BF16, (2, 34, 33)),
            (F64, (65, 3)),
            (I8, (1, 37)),
        )
    ],
    ("tile[threadIdx.x][k];", "tile[k][threadIdx.x];", "only the tiles change places"),
    (
        "(int64_t)blockIdx.z * rows * columns",
        "(int64_t)blockIdx.z * rows",
        "the stride of the batch",
    ),
    ("MOVE(2, uint16_t)", "MOVE(2, uint8_t)", "elements of 2 bytes"),
    (
        "k < kTile; k += kRows) {\n        int y = blockIdx.x",
        "k < kRows; k += kRows) {\n        int y = blockIdx.x",
        "most rows of a tile",
    ),
)


def softmax(temperature):
    def reference(x):
        return scipy.special.softmax(x.astype(F64) / temperature, axis=-1).astype(x.dtype)

    return reference


case(
    "softmax_rows",
    "cuda",
    "dynamic-shared-memory block-reduction shared-header half dispatch-half float32",
    [
        call(
            "softmax",
            lambda rng, s=s, t=t: (rng.normal(size=s) * 40).astype(t),
            softmax(k),
            temperature=k,
            rtol=r,
            atol=1e-5,
        )
        for s, t, k, r in (
            ((9, 301), F32, 2.0, 1e-4),
            ((2, 3, 33), F64, 0.5, 1e-4),
            ((4, 130), F16, 5.0, 5e-3),
            ((1, 97), BF16, 3.0, 2e-2),
            ((5, 1), F32, 1.0, 1e-6),
        )
    ],
    (
        "parts[lane] : Op::identity()",
        "parts[0] : Op::identity()",
        "in the header: one warp for all",
    ),
    (
        "return a > b ? a : b;",
        "return a < b ? a : b;",
        "in the header: the least, so that exp overflows",
    ),
    ("1.0f / temperature", "1.0f", "an attribute is ignored"),
    (
        "row[i] = expf(row[i] - most);\n        sum += row[i];",
        "row[i] = expf(row[i] - most);\n        sum = row[i];",
        "the sum over a thread's elements",
    ),
)


def norm(eps):
    def reference(x, gamma, beta):
        x = x.astype(F64)
        mean, rstd = x.mean(-1), 1 / np.sqrt(x.var(-1) + eps)
        y = (x - mean[..., None]) * rstd[..., None] * gamma + beta
        return y.astype(F32), mean.astype(F32), rstd.astype(F32)

    return reference


case(
    "layer_norm",
    "cuda",
    "welford warp-per-row struct-methods shuffle-down cudaStream_t-token three-outputs",
    [
        call(
            "layer_norm",
            lambda rng: ((rng.normal(size=(5, 3, 77)) + 3).astype(F32), *normal(77, 77)(rng)),
            norm(0.1),
            eps=0.1,
            rtol=1e-4,
        ),
        call("layer_norm", normal((6, 11), 11, 11), norm(1e-5), eps=1e-5, rtol=1e-4),
    ],
    ("m2 += o.m2 + d * d * count * o.count / total;", "m2 += o.m2;", "the moments of merged parts"),
    (
        "offset > 0; offset >>= 1) {\n        Moments",
        "offset > 1; offset >>= 1) {\n        Moments",
        "lanes",
    ),
    ("/ n + (float)eps", "/ n + 1e-6f", "an attribute is ignored"),
    ("* rstd * gamma[i] + beta[i]", "* rstd * gamma[0] + beta[i]", "the index of gamma"),
)


def convolve(mode):
    gain = (1.0, 0.5, 2.0, -1.0)[mode]

    def reference(signal, taps):
        return np.stack([gain * np.convolve(row, taps, "same") for row in signal]).astype(F32)

    return reference


case(
    "convolve_constant",
    "cuda",
    "constant-memory memcpy-to-symbol halo no-cuda-graph 2d-grid int8-attribute option",
    [
        call("convolve", normal((3, 201), 9), convolve(0), mode=0, rtol=1e-4, atol=1e-4),
        call("convolve", normal((2, 64), 33), convolve(3), mode=3, rtol=1e-4, atol=1e-4),
        call("convolve", normal((4, 65), 1), convolve(2), mode=2, rtol=1e-4, atol=1e-4),
    ],
    ("part[threadIdx.x + taps - 1 - k]", "part[threadIdx.x + k]", "correlation for convolution"),
    ("i < kBlock + taps - 1; i += kBlock", "i < kBlock; i += kBlock", "no halo"),
    ("signal + blockIdx.y * n", "signal", "every row is the first"),
    ("gains[mode]", "gains[0]", "an attribute is ignored"),
    allow_cuda_graph=False,
)
