"""Faults that are planted in the CUDA sources, and what the checked mode on CPUs says of them.

A fault is a textual edit of a source, or of a header that it includes. Each has a kind of FOUND or
of MISSED, the two halves of the table in docs/checks.md.
"""

from __future__ import annotations

import os
import re
from collections import Counter

import corpus

FOUND = {
    "bounds": r"(reads|writes|updates) '\w+' \(.*\) out of bounds: element ",
    "index": r"the index -?\d+ is out of bounds for an array of type '.*'",
    "shared bounds": r"(reads|writes|updates) the (dynamic )?shared array '\w+' out of bounds: ",
    "shared race": r"a data race: it .* of the (dynamic )?shared array '\w+'",
    "race": r"a data race: it \w+ element \[.*\] of '\w+'",
    "race of blocks": r"a data race between blocks: it \w+ element \[.*\] of '\w+'",
    "unwritten shared": r"of the (dynamic )?shared array '\w+', which no thread of the block has",
    "unwritten output": r"(reads|updates) element \[.*\] of '\w+' .*, which nothing has written",
    "barrier": r"__syncthreads .*which \d+ of the block's|ends without __syncthreads|another \(at"
    r"|neither can continue|in a warp shuffle with the mask .* undefined",
    "input": r"writes element \[.*\] of '\w+' .*, which is an input",
    "shuffle": r"in a warp shuffle with the mask .* undefined|calls a warp shuffle with the mask",
    "alignment": r"at an address that is no multiple of the size of the access",
}
MISSED = ("same value", "inside the array", "passed by value")

FAULTS: list[tuple[str, str, str, str]] = []


def _add(kind: str, name: str, *edits: tuple[str, str]) -> None:
    FAULTS.extend((kind, name, old, new) for old, new in edits)


_SYNC = "\n    __syncthreads();"
_SYNC_8 = "\n        __syncthreads();"

_add(
    "bounds",
    "activations",
    ("if (i < n) y[i]", "if (i <= n) y[i]"),
    ("y[i] = f(x[i])", "y[i] = f(x[i - 1])"),
)
_add("unwritten output", "activations", ("y[i] = f(x[i])", "y[i] += f(x[i])"))
_add("input", "activations", ("y[i] = f(x[i])", "const_cast<T *>(x)[i] = y[i] = f(x[i]) + T(1)"))
_add(
    "bounds",
    "add_family",
    ("i < n; i +=", "i <= n; i +="),
    ("out[i] = a[i] + b[i]", "out[i + 1] = a[i] + b[i]"),
)
_add("bounds", "add_family", ("out[i] = a[i] + b[i]", "out[i + 1] = T(2)"))
_add(
    "race",
    "add_family",
    ("out[i] = a[i] + b[i]", "out[i / 2] = a[i] + b[i]"),
    ("out[i] = a[i] + b[i]", "out[0] = T(i)"),
)
_add("input", "add_family", ("out[i] = a[i] + b[i]", "const_cast<T *>(a)[i] = T(2)"))
_add("same value", "add_family", ("blockIdx.x * blockDim.x + threadIdx.x", "threadIdx.x"))
_add(
    "shared race",
    "argmax_topk",
    (f"best[threadIdx.x] = mine;{_SYNC}", "best[threadIdx.x] = mine;"),
    (f"= best[threadIdx.x + half];{_SYNC_8}", "= best[threadIdx.x + half];"),
)
_add(
    "barrier",
    "argmax_topk",
    (
        f"best[threadIdx.x] = best[threadIdx.x + half];{_SYNC_8}",
        "{ best[threadIdx.x] = best[threadIdx.x + half]; __syncthreads(); }",
    ),
    ("= {T(0), -1};", "= {T(0), -1}; if (threadIdx.x >= columns) return;"),
)
_add(
    "unwritten shared",
    "argmax_topk",
    ("best[threadIdx.x] = mine;", "if (threadIdx.x < 32) best[threadIdx.x] = mine;"),
)
_add("index", "argmax_topk", ("int half = BLOCK / 2;", "int half = BLOCK;"))
_add(
    "bounds",
    "argmax_topk",
    ("x[(int64_t)blockIdx.x * columns + i]", "x[(int64_t)(blockIdx.x + 1) * columns + i]"),
    ("out[blockIdx.x] =", "out[blockIdx.x + 1] ="),
    ("if (r >= rows)", "if (r > rows)"),
    ("values + r * k;", "values + (r + 1) * k;"),
)
_add("race of blocks", "argmax_topk", ("out[blockIdx.x] =", "out[0] ="))
_add("unwritten output", "argmax_topk", ("(held == k &&", "(held <= k &&"))
_add("bounds", "bitonic_sort", ("i < n ? keys[i]", "i <= n ? keys[i]"))
_add("race", "bitonic_sort", ("i >= padded || j <= i", "i >= padded"))
_add("unwritten output", "bitonic_sort", ("        index[i] = i;\n", ""))
_add(
    "bounds",
    "complex_ops",
    ("= coefficients[degree];", "= coefficients[degree + 1];"),
    ("if (i >= n) return;\n    C sum", "if (i > n) return;\n    C sum"),
    ("k >= 0; --k", "k >= -1; --k"),
)
_add("unwritten output", "complex_ops", ("w / (z[i] +", "w / (out[i] +"))
_add("shared race", "convolve_constant", (f"{_SYNC}\n    const int i =", "\n    const int i ="))
_add(
    "barrier",
    "convolve_constant",
    (
        f"{_SYNC}\n    const int i = blockIdx.x * kBlock + threadIdx.x;\n    if (i >= n) return;",
        "\n    const int i = blockIdx.x * kBlock + threadIdx.x;\n    if (i >= n) return;" + _SYNC,
    ),
)
_add("unwritten shared", "convolve_constant", ("i < kBlock + taps - 1; i +=", "i < kBlock; i +="))
_add(
    "bounds",
    "convolve_constant",
    ("at >= 0 && at < n ?", "at >= 0 && at <= n ?"),
    ("at >= 0 && at < n ?", "at < n ?"),
)
_add(
    "index",
    "convolve_constant",
    ("part[threadIdx.x + taps - 1 - k]", "part[threadIdx.x + kBlock + kMaxTaps - k]"),
    ("taps_of_filter[k] *", "taps_of_filter[k + kMaxTaps] *"),
    ("gains[mode]", "gains[mode + 4]"),
)
_add(
    "bounds",
    "csr_spmv",
    ("k < indptr[r + 1]; ++k", "k <= indptr[r + 1]; ++k"),
    ("x[indices[k]];\n    y[r]", "x[indices[k] * 64];\n    y[r]"),
    ("return;\n    W sum", "{}\n    W sum"),
)
_add(
    "shuffle", "csr_spmv", ("return; // whole warps", "return;\n    if (lane > 7) return; // whole")
)
_add(
    "unwritten output",
    "csr_spmv",
    ("if (lane == 0)\n        y[r] =", "if (!lane)\n        y[r] +="),
)
_add(
    "bounds",
    "delay_ring",
    ("if (k >= n * fan_out)", "if (k > n * fan_out)"),
    ("% slots;\n    atomicAdd", "% (slots + 4);\n    atomicAdd"),
    ("ring[slot * n + i] = 0;", "ring[-1 - i] = 0;"),
)
_add(
    "race",
    "delay_ring",
    ("atomicAdd(ring + to * n + targets[k], int(weights[k]))", "ring[to * n] += int(weights[k])"),
)
_add("unwritten output", "delay_ring", ("now[i] = ring", "now[i] += ring"))
_add("race", "event_product", ("atomicAdd(&current[indices[k]],", "(current[0] +="))
_add(
    "bounds",
    "event_product",
    ("k < indptr[pre + 1]; k", "k <= indptr[n_pre]; k"),
    ("spikes[pre])", "spikes[pre + n_pre])"),
)
_add(
    "bounds",
    "gather_scatter",
    ("from >= n ? n - 1 : from", "from"),
    ("((from % n) + n) % n", "from % n"),
    ("i < n && segment[i]", "i <= n && segment[i]"),
    ("if (s >= segments)", "if (s > segments)"),
    ("if (i >= count * width)", "if (i > count * width)"),
    ("if (to >= 0 && to < n)", "if (to >= 0)"),
)
_add("race", "gather_scatter", ("atomicAdd(&out[to * width + i % width],", "(out[0] +="))
_add("bounds", "half_axpy", ("if (i < n)", "if (i <= n)"))
_add("input", "half_axpy", ("out[i] = T(", "const_cast<T *>(y)[i] = T("))
_add(
    "shared race",
    "histogram",
    (f"counts[b] = 0;{_SYNC}", "counts[b] = 0;"),
    (f"    }}{_SYNC}\n    for (int b", "    }\n    for (int b"),
    ("atomicAdd(&counts[b < bins ? b : bins - 1], 1u)", "counts[b < bins ? b : bins - 1]++"),
)
_add("unwritten shared", "histogram", ("counts[b] = 0;", "if (b) counts[b] = 0;"))
_add(
    "shared bounds",
    "histogram",
    ("b < bins ? b : bins - 1", "bins"),
    ("bins * sizeof(unsigned int), s", "(bins - 1) * sizeof(unsigned int), s"),
)
_add("race of blocks", "histogram", ("atomicAdd(&total[b],", "(total[b] +="))
_add("barrier", "histogram", ("continue;", "return;"))
_add("bounds", "integer_mix", ("if (i >= n)", "if (i > n)"), ("if (i < n) {", "if (i <= n) {"))
_add("race", "ising", ("x += (y + colour) & 1;", "x += 1;"))
_add(
    "shared race",
    "ising",
    (f"total = 0;{_SYNC}", "total = 0;"),
    (f"atomicAdd(&total, mine);{_SYNC}", "atomicAdd(&total, mine);"),
    ("atomicAdd(&total, mine);", "total += mine;"),
)
_add("unwritten shared", "ising", ("    if (threadIdx.x == 0)\n        total = 0;\n", ""))
_add(
    "bounds",
    "ising",
    ("(y + h - 1) % h", "(y - 1)"),
    ("i < n; i += blockDim.x)\n        mine", "i <= n; i += blockDim.x)\n        mine"),
)
_add("bounds", "lambda_map", ("if (i < n)", "if (i <= n)"), ("a[i / columns]", "a[i]"))
_add(
    "shuffle",
    "layer_norm",
    ("if (r >= rows)", "if (r >= rows || lane > 20)"),
    ("__shfl_down_sync(0xffffffff, m.count", "__shfl_down_sync(0x0000ffff, m.count"),
)
_add("bounds", "layer_norm", ("gamma[i] +", "gamma[i + 1] +"), ("means[r] =", "means[r + 1] ="))
_add("bounds", "lif_step", ("if (i >= n)", "if (i > n)"))
_add("unwritten output", "lif_step", ("(v[i] - target)", "(v_next[i] - target)"))
_add("input", "lif_step", ("wait_next[i] = wait[i] - 1;", "--const_cast<int32_t *>(wait)[i];"))
_add(
    "shared race",
    "matmul_tiled",
    ("        __syncthreads();\n#pragma", "#pragma"),
    (f"tile_b[j][tx];{_SYNC_8}", "tile_b[j][tx];"),
)
_add(
    "index",
    "matmul_tiled",
    ("tile_a[ty][j] *", "tile_a[ty][j + 1] *"),
    ("tile_b[ty][tx] =", "tile_b[ty][tx + 2] ="),
)
_add("unwritten shared", "matmul_tiled", ("tile_a[ty][tx] =", "if (ty) tile_a[ty][tx] ="))
_add(
    "bounds",
    "matmul_tiled",
    ("row < m && i + tx < k", "row <= m && i + tx < k"),
    ("if (row < m && column < n)", "if (row <= m && column < n)"),
)
_add("barrier", "matmul_tiled", ("T sum = 0;", "T sum = 0; if (row >= m || column >= n) return;"))
_add(
    "passed by value",
    "nbody",
    (f"n - 1)];{_SYNC_8}", "n - 1)];"),
    (f"tile[j], softening);{_SYNC_8}", "tile[j], softening);"),
)
_add("barrier", "nbody", ("make_float3(0, 0, 0);", "make_float3(0, 0, 0); if (i >= n) return;"))
_add(
    "passed by value",
    "nbody",
    ("        tile[threadIdx.x] =", "if (threadIdx.x) tile[threadIdx.x] ="),
)
_add("index", "nbody", ("tile[j]", "tile[j + TILE]"))
_add("bounds", "nbody", ("    if (i >= n)\n", "    if (i > n)\n"))
_add("bounds", "nbody", ("body_out.data_ptr<float>())", "body_out.data_ptr<float>() + 1)"))
_add(
    "alignment",
    "integer_mix",
    ("stream>>>(x.data_ptr<int64_t>()", "stream>>>((int64_t *)((char *)x.data_ptr() + 4)"),
)
_add("index", "random_numbers", ("= words[k];", "= words[k + 1];"))
_add(
    "bounds",
    "random_numbers",
    ("if (t >= streams)", "if (t > streams)"),
    ("4 * block + k < n; k++", "4 * block + k <= n; k++"),
    ("uniform[k * streams + t]", "uniform[(k + 1) * streams + t]"),
)
_add("bounds", "roll_any", ("i < total;", "i <= total;"))
_add("race", "roll_any", ("out[i + (to - k) * inner]", "out[(i + (to - k) * inner) / 2]"))
_add(
    "shared race",
    "scan_carry",
    (f"now = 1 - now;{_SYNC_8}", "now = 1 - now;"),
    ("sums[1 - now][t] =", "sums[now][t] ="),
)
_add("index", "scan_carry", ("t >= d ?", "t >= 0 ?"))
_add("unwritten shared", "scan_carry", ("sums[now][t] = own;", "if (t) sums[now][t] = own;"))
_add("barrier", "scan_carry", ("int now = 0;", "int now = 0; if (i >= n) return;"))
_add("race of blocks", "scan_carry", ("totals[blockIdx.x] =", "totals[0] ="))
_add("unwritten output", "scan_carry", ("if (t == THREADS - 1)", "if (t == THREADS)"))
_add(
    "shared race",
    "softmax_rows",
    (f"parts[warp] = value;{_SYNC}", "parts[warp] = value;"),
    ("    __syncthreads(); // parts may", "    // parts may"),
)
_add(
    "unwritten shared", "softmax_rows", ("lane < (blockDim.x + WARP - 1) / WARP ?", "lane < WARP ?")
)
_add("shared bounds", "softmax_rows", ("columns * sizeof(float), (c", "(columns - 1) * 4, (c"))
_add("barrier", "softmax_rows", ("    most = block_r", "    if (threadIdx.x < 40) most = block_r"))
_add("bounds", "softmax_rows", ("y[base + i]", "y[base + columns + i]"))
_add("bounds", "stdp_inplace", ("if (i >= n_pre ||", "if (i > n_pre ||"))
_add("race", "stdp_inplace", ("w[i * n_post + j] =", "w[j] ="))
_add("inside the array", "stdp_inplace", ("j >= n_post)", "j >= n_post - 1)"))
_add("shared race", "transpose_batched", (f"{_SYNC}\n    x =", "\n    x ="))
_add("index", "transpose_batched", ("tile[k][threadIdx.x]", "tile[k][threadIdx.x + 2]"))
_add(
    "unwritten shared",
    "transpose_batched",
    ("x < columns && y < rows)", "y && x < columns && y < rows)"),
)
_add("bounds", "transpose_batched", ("x < columns && y < rows)", "x < columns && y <= rows)"))
_add("bounds", "wave3d", ("if (x > 0) lap", "lap"), ("if (z < nz - 1)", "if (z < nz)"))
_add("race", "wave3d", ("    next[INDEX(z, y, x)] = 2", "    ((float *)u)[INDEX(z, y, x)] = 2"))
_add("bounds", "reduce_all", ("i < n; i += (int64_t)gridDim", "i <= n; i += (int64_t)gridDim"))
_add("race of blocks", "reduce_all", ("out[blockIdx.x] =", "out[0] ="))
_add(
    "shared bounds",
    "reduce_all",
    ("T parts[WARP];", "T parts[1];"),
    ("parts[warp] =", "parts[warp + WARP] ="),
)


def counts() -> Counter[str]:
    """Count the faults of each kind."""
    return Counter(kind for kind, *_ in FAULTS)


def verdict(number: int) -> str:
    """Run a source with a fault in the checked mode; return what is wrong with what that says."""
    kind, name, old, new = FAULTS[number]
    (case,) = (c for c in corpus.all_cases() if c.name == name and c.language == "cuda")
    module = case.load_edited(f"fault_{number}", old, new, check=True, optimization_level=3)
    try:
        case.wrong(module, 0)  # which may be that numbers differ
        said = ""
    except Exception as e:
        said = str(e)
    expected = FOUND.get(kind)
    if name == "nbody" and kind != "barrier" and "clang" in os.environ.get("CXX", ""):
        # It copies structures as a whole, by instructions that g++ does not use.
        kinds = ("bounds", "index", "shared bounds", "shared race", "unwritten shared", "alignment")
        expected = "|".join(FOUND[k] for k in kinds)
    if expected is None:
        return said and f"{name}, {old!r}: nothing is to be said of {kind}: {said}"
    is_found = re.search(expected, said) and "launch of" in said and "[KB3004]" in said
    return "" if is_found else f"{name}, {old!r} is to be {new!r}: {kind}: {said or 'nothing'}"


def sample() -> list[int]:
    """Return the number of one fault of each kind, of the sources that are built soonest."""
    quick = (
        "add_family",
        "integer_mix",
        "ising",
        "layer_norm",
        "stdp_inplace",
        "half_axpy",
        "wave3d",
    )
    first = {}
    for i, (kind, name, *_) in enumerate(FAULTS):
        if name in quick:
            first.setdefault(kind, i)
    return sorted(first.values())
