"""CUDA: reductions, scans, sorting, histograms, rows by index."""

from __future__ import annotations

import numpy as np
from corpus import F32, F64, I16, I32, I64, U8, call, case, integers, normal, unchecked


def cumulative(inclusive):
    def reference(x):
        dtype, blocks = x.dtype, -(-len(x) // 64)
        total = np.cumsum(x, dtype=dtype if dtype.kind in "iu" else F64)
        return (total - (0 if inclusive else x)).astype(dtype), unchecked(blocks, dtype=dtype)

    return reference


case(
    "scan_carry",
    "cuda",
    "scan double-buffer several-launches scratch-as-output bool-attribute dispatch-all-types",
    [
        call(
            "cumulative_sum",
            integers(-1000, 1000, 1001, dtype=I32),
            cumulative(True),
            inclusive=True,
        ),
        call("cumulative_sum", integers(0, 255, 130, dtype=U8), cumulative(False), inclusive=False),
        call(
            "cumulative_sum", normal(640, dtype=F64), cumulative(False), inclusive=False, rtol=1e-9
        ),
        call("cumulative_sum", normal(7), cumulative(True), inclusive=True, rtol=1e-5),
    ],
    ("d < THREADS; d <<= 1", "d < THREADS / 2; d <<= 1", "the last step within a block"),
    (
        "totals[b] = carry;\n        carry += own;",
        "carry += own;\n        totals[b] = carry;",
        "a carry too early",
    ),
    ("sums[now][t] - own", "sums[now][t]", "an attribute is ignored"),
    ("out[i] += totals[blockIdx.x]", "out[i] += totals[0]", "the carry of the first block"),
)


def sort_pairs(n, padded, descending):
    def reference(keys):
        order = np.argsort(keys, kind="stable")
        order = order[::-1] if descending else order
        scratch = unchecked(padded), unchecked(padded, dtype=I32)
        return keys[order], order.astype(I32), *scratch

    def inputs(rng):
        return (rng.integers(-40, 40, n) / 4).astype(F32)

    return call("sort_pairs", inputs, reference, descending=descending, rtol=0)


case(
    "bitonic_sort",
    "cuda",
    "many-launches name-only two-scratch-outputs power-of-two bool-attribute stable-pairs",
    [sort_pairs(200, 256, False), sort_pairs(129, 512, True), sort_pairs(64, 64, False)],
    ("(i & width) == 0", "(i & width / 2) == 0", "the direction of a run"),
    ("index[i] > index[j]", "index[i] < index[j]", "equal keys"),
    ("distance = width / 2", "distance = width / 2 > 1 ? width / 4 : 1", "the first pass of a run"),
    (
        "index[i] = from_index[from];",
        "index[i] = from_index[i];",
        "an attribute is ignored for the indices",
    ),
)


def rows(dtype, *shape):
    def make(rng):
        if dtype is bool:
            return rng.random(shape) < 0.1
        return (rng.integers(0, 60, shape) - (0 if dtype is U8 else 30)).astype(dtype)

    return make


def topk(x):
    order = np.argsort(-x, axis=1, kind="stable")[:, :5]
    return np.take_along_axis(x, order, 1), order.astype(I32)


case(
    "argmax_topk",
    "cuda",
    "struct-template shared-memory-of-structs tree-reduction ties dispatch-all-types insertion",
    [
        *(
            call("argmax", rows(t, *s), lambda x: x.argmax(-1).astype(I32))
            for t, s in (
                (F32, (7, 201)),
                (I16, (3, 2, 65)),
                (U8, (4, 500)),
                (bool, (9, 33)),
                (F64, (5, 1)),
            )
        ),
        call("topk", rows(F32, 43, 29), topk),
    ],
    ("a.index < b.index);", "a.index > b.index);", "equal ones: the last"),
    ("half = BLOCK / 2; half > 0", "half = BLOCK / 2; half > 1", "the last step of the reduction"),
    ("(int64_t)blockIdx.x * columns + i]", "i]", "every row is the first"),
    ("j > 0 && value > v[j - 1]", "j > 1 && value > v[j - 1]", "the first place of the list"),
)


def counts(bins, low, high):
    def reference(x):
        return np.histogram(x.astype(F32), bins, (low, high))[0].astype(I64)

    return reference


def quarters(dtype):
    def make(rng):
        x = rng.integers(-20, 140, 1111)
        return (x / 8 + 1 / 16 if dtype is F32 else x.clip(0)).astype(dtype)

    return make


case(
    "histogram",
    "cuda",
    "shared-memory-atomics 64-bit-atomics dynamic-shared-memory grid-stride memset float-range",
    [
        call("histogram", quarters(F32), counts(12, 0.0, 15.0), low=0.0, high=15.0),
        call("histogram", quarters(I32), counts(140, 0.0, 140.0), low=0.0, high=140.0),
        call("histogram", quarters(U8), counts(7, 10.0, 80.0), low=10.0, high=80.0),
    ],
    ("v < low || v > high", "v < low", "numbers above the range"),
    ("b < bins ? b : bins - 1", "b < bins - 1 ? b : 0", "the last bin"),
    (
        "b < bins; b += blockDim.x)\n        if (counts",
        "b < bins && b < blockDim.x; b += blockDim.x)\n        if (counts",
        "bins beyond the block",
    ),
    ("i += gridDim.x * blockDim.x", "i += n", "elements beyond the grid"),
    ("bins / (high - low)", "bins / high", "an attribute is ignored"),
)


def gather(wrap):
    def reference(table, index):
        n = len(table)
        return table[index % n if wrap else index.clip(0, n - 1)]

    return reference


def lookups(dtype):
    def make(rng):
        return rng.normal(size=(13, 45)), rng.integers(-9, 30, 21).astype(dtype)

    return make


def scatter(values, index):
    out = np.zeros((11, 6), I32)
    inside = (index >= 0) & (index < 11)
    np.add.at(out, index[inside], values[inside])
    return out


def scattered(rng):
    return rng.integers(-99, 99, (70, 6)).astype(I32), rng.integers(-2, 14, 70).astype(I32)


def segments(rng):
    values = rng.normal(size=300).astype(F32)
    return values, np.sort(rng.choice([0, 1, 2, 5, 6, 9, 70], 300)).astype(I64)


def segment_sum(values, segment):
    return np.bincount(segment, values.astype(F64), 71).astype(F32)


case(
    "gather_scatter",
    "cuda",
    "nested-namespaces using-declaration dispatch-signed-index atomics binary-search inferred-bool "
    "three-functions dropped-indices",
    [
        call("gather", lookups(I32), gather(False), wrap=False),
        call("gather", lookups(I64), gather(True), wrap=True),
        call("scatter_add", scattered, scatter),
        call("segment_sum", segments, segment_sum, rtol=1e-4),
    ],
    ("((from % n) + n) % n", "(from < 0 ? -from : from) % n", "negative indices"),
    ("from >= n ? n - 1 : from;", "from >= n ? 0 : from;", "indices beyond the end"),
    (
        "to * width + i % width], values[i]",
        "to * width + i % width], values[i / width]",
        "what is added",
    ),
    ("segment[middle] < s", "segment[middle] <= s", "where a segment begins"),
    ("to >= 0 && to < n", "to >= 0 && to < n - 1", "the last row"),
)


def reduced(f, blocks):
    def reference(x):
        return np.array(f(x.astype(F64))).astype(x.dtype), unchecked(blocks, dtype=x.dtype)

    return reference


case(
    "reduce_all",
    "cuda",
    "template-template two-stages scratch-as-output warp-shuffle cudaStream_t scalar-output",
    [
        call("sum", normal((41, 83), dtype=F64), reduced(np.sum, 5), rtol=1e-9),
        call("sum", normal(10), reduced(np.sum, 3), rtol=1e-4),
        call("sum_of_squares", normal(2003), reduced(lambda x: (x * x).sum(), 9), rtol=1e-4),
        call("maximum", lambda rng: -1 - rng.random(5000), reduced(np.max, 40)),
        call("maximum", lambda rng: (-1 - rng.random((2, 3))).astype(F32), reduced(np.max, 1)),
    ],
    ("stage<T, Op, Same><<<1, 64", "stage<T, Op, Map><<<1, 64", "squares of squares"),
    ("-T(3.4e38f)", "T(0)", "in the header: what the maximum begins with"),
    (
        "i += (int64_t)gridDim.x * blockDim.x)\n        value",
        "i += n)\n        value",
        "elements beyond the grid",
    ),
    ("blockDim.x + WARP - 1) / WARP ?", "blockDim.x / WARP - 1) ?", "in the header: the last warp"),
)


def summed(x):
    return np.array(x.sum(dtype=I32)), unchecked(1 << 16, dtype=U8)


def exclusive(x):
    total = np.cumsum(x, dtype=I32) - x
    return total.astype(I32), unchecked(1 << 16, dtype=U8)


case(
    "cub_reduce",
    "cuda",
    "cub temporary-storage-as-output device-scan cuda-check size-query",
    [
        call("cub_sum", integers(-9999, 9999, 12345, dtype=I32), summed),
        call("cub_exclusive_sum", integers(-9999, 9999, 12345, dtype=I32), exclusive),
    ],
    (
        "cub::DeviceReduce::Sum(storage.data_ptr()",
        "cub::DeviceReduce::Max(storage.data_ptr()",
        "the operation",
    ),
    ("cub::DeviceScan::ExclusiveSum", "cub::DeviceScan::InclusiveSum", "the kind of the scan"),
)
