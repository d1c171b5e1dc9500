"""Faults for the checked mode: small changes to the source of kernels.

Each is a text that takes the place of another in the module of a kernel. The lines that the report
must name are marked by comments, `# here` and `# there`.
"""

from __future__ import annotations

import importlib
import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .case import GROUPS, Case, cases
from .check import VALUES, kept, problems

KINDS = (
    "reads an argument out of bounds",
    "writes an argument out of bounds",
    "updates an argument out of bounds",
    "reads a shared array out of bounds",
    "writes a shared array out of bounds",
    "reads a local array out of bounds",
    "writes a local array out of bounds",
    "reads a constant array out of bounds",
    "leaves one axis and stays inside the array",
    "a negative index that is too far",
    "an index in a device function",
    "out of bounds in a batch",
    "two threads write to a shared element",
    "one thread reads a shared element and another writes to it",
    "an atomic access and a plain one of a shared element",
    "a race on an argument",
    "a race within a warp",
    "a race of an input and the output that is its alias",
    "unwritten static shared memory",
    "unwritten dynamic shared memory",
    "a barrier in a conditional",
    "two different barriers",
    "threads that end before a barrier",
    "a shuffle from a lane that does not take part",
)


@dataclass(frozen=True)
class Fault:
    """A fault in a kernel of the corpus.

    `words` must all be in the error, where {here} and {there} stand for lines. `within` is the
    function that `old` stands in, if it is not the kernel; `batch` how many times the inputs are
    stacked, for `jax.vmap`.
    """

    kernel: str
    kind: str
    old: str
    new: str
    words: tuple[str, ...]
    within: str = ""
    batch: int = 0


FAULTS: list[Fault] = []


def _fault(kernel: str, kind: str, old: str, new: str, *words: str, **more: Any) -> None:
    assert kind in KINDS
    FAULTS.append(Fault(kernel, kind, old, new, words, **more))


# fmt: off
OUT = "out of bounds"

_fault(
    "saxpy_in_place", "reads an argument out of bounds",
    "out[i] = a * x[i] + y[i]", "out[i] = a * x[i + 1] + y[i]  # here",
    "block (0, 0, 0), thread (7, 0, 0)", "reads 'x' (f32[1d]) out of bounds",
    "index 1013 of axis 0", "extent is 1013", "{here}",
)
_fault(
    "csr_by_row", "reads an argument out of bounds",
    "for k in range(start[row], start[row + 1]):",
    "for k in range(start[row], start[row + 2]):  # here",
    "thread (100, 0, 0)", "reads 'start'", OUT, "index 102 of axis 0", "extent is 102", "{here}",
)
_fault(
    "complex_polynomial", "reads an argument out of bounds",
    "for k in range(1, c.size):\n            total = total * z[i, j] + c[k]",
    "for k in range(1, c.size + 1):\n            total = total * z[i, j] + c[k]  # here",
    "thread (0, 0, 0)", "reads 'c'", "c128", OUT, "index 5 of axis 0", "{here}",
)
_fault(
    "conversions", "writes an argument out of bounds",
    "floored[i] =", "floored[i + 1] =",
    "thread (128, 0, 0)", "writes 'floored'", OUT, "index 129 of axis 0", "extent is 129",
)
_fault(
    "compaction", "writes an argument out of bounds",
    "out[warp, lane] = -1", "out[warp, lane + 1] = -1  # here",
    "block (0, 0, 0), thread (31, 0, 0)", "writes 'out'", OUT, "index 32 of axis 1", "{here}",
)
_fault(
    "deliver_spikes", "updates an argument out of bounds",
    "cuda.atomic.add(current, target[k], weight[k])",
    "cuda.atomic.add(current, target[k] + 64, weight[k])  # here",
    "updates 'current'", OUT, "of axis 0, whose extent is 64", "{here}",
)
_fault(
    "convolve_halo", "reads a shared array out of bounds",
    "total += tile[t + k] * weights[k]", "total += tile[t + k + 1] * weights[k]  # here",
    "block (0, 0, 0), thread (63, 0, 0)", "reads a shared array of 70 int32 from stencils_", OUT,
    "index 70 of axis 0", "{here}",
)
_fault(
    "odd_even_sort", "reads a shared array out of bounds",
    "if k + 1 < 63 and row[k] > row[k + 1]:", "if k < 63 and row[k] > row[k + 1]:  # here",
    "thread (31, 0, 0)", "reads a dynamic shared array of int16 from sorting_",
    OUT, "index 63 of axis 0", "{here}",
)
_fault(
    "private_histogram", "writes a shared array out of bounds",
    "if t < 37:\n        bins[t] = 0", "if t <= 37:\n        bins[t] = 0  # here",
    "thread (37, 0, 0)", "writes a shared array of 37 int32 from atomics_",
    OUT, "index 37 of axis 0", "{here}",
)
_fault(
    "delay_line", "reads a local array out of bounds",
    "for k in range(5):\n        total += (k + 1) * own[k]",
    "for k in range(6):\n        total += (k + 1) * own[k]  # here",
    "thread (34, 0, 0)", "reads a local array of 5 int32 from functions_",
    OUT, "index 5 of axis 0", "{here}",
)
_fault(
    "delay_line", "writes a local array out of bounds",
    "own[k] = row[(t + k * k) % 40]", "own[k + 1] = row[(t + k * k) % 40]  # here",
    "thread (35, 0, 0)", "writes a local array of 5 int32 from functions_",
    OUT, "index 5 of axis 0", "{here}",
)
_fault(
    "convolve_halo", "reads a constant array out of bounds",
    "total += tile[t + k] * weights[k]", "total += tile[t + k] * weights[k + 1]  # here",
    "thread (63, 0, 0)", "reads a constant array", OUT, "index 7 of axis 0", "{here}",
)
_fault(
    "outer_product", "leaves one axis and stays inside the array",
    "out[i, j] = x[i] * y[j]", "out[j, i] = x[i] * y[j]",
    "block (0, 3, 0), thread (0, 5, 0)", "writes 'out'", OUT, "index 29 of axis 1",
    "extent is 29",
)
_fault(
    "life_torus", "leaves one axis and stays inside the array",
    "(j + b) % m]", "(j + b) % n]  # here",
    "reads 'board'", OUT, "of axis 1", "extent is 29", "{here}",
)
_fault(
    "mirrored", "a negative index that is too far",
    "x[-1, -i - 1]", "x[-1, -i - 2]",
    "thread (36, 0, 0)", "reads 'x'", OUT, "index -38 of axis 1", "extent is 37",
)
_fault(
    "joint_histogram", "a negative index that is too far",
    "(x[i], y[i])", "(x[i], y[i] - 7)",
    "updates 'count'", OUT, "of axis 1", "extent is 7",
)
_fault(
    "uniform_draws", "an index in a device function",
    "xoroshiro128p_uniform_float32(after, i)", "xoroshiro128p_uniform_float32(after, i + 1)",
    "thread (42, 0, 0)", "reads 'after'", OUT, "index 43 of axis 0", "at random.py:",
)
_fault(
    "prefix_of_prefix", "an index in a device function",
    "values[t] = value", "values[t + 1] = value  # here",
    "thread (44, 0, 0)", "writes a shared array of 45 int32", OUT, "index 45 of axis 0", "{here}",
    within="block_prefix",
)
_fault(
    "kepler", "out of bounds in a batch",
    "(v - e[i] * math.sin(v) - mean[i])", "(v - e[i] * math.sin(v) - mean[i + 1])",
    "block (0, 0, 0), thread (140, 0, 0)", "reads 'mean'", OUT, "index 141 of axis 0", batch=3,
)
_fault(
    "argmax_rows", "two threads write to a shared element",
    "best[t] = x[b, t]", "best[t // 2] = x[b, t]  # here",
    "a data race", "writes element [", "of a shared array of 75 float32", "{here}",
    "with no barrier between",
)
_fault(
    "radix_splits", "two threads write to a shared element",
    "key[zeros + t - before] = mine", "key[zeros] = mine  # here",
    "a data race", "writes element [", "of a shared array of 48 uint32", "{here}",
)
_fault(
    "floyd_warshall", "one thread reads a shared element and another writes to it",
    "through = near[i, k] + near[k, j]\n        cuda.syncthreads()\n"
    "        if through < near[i, j]:\n            near[i, j] = through\n"
    "        cuda.syncthreads()",
    "through = near[i, k] + near[k, j]  # there\n        cuda.syncthreads()\n"
    "        if through < near[i, j]:\n            near[i, j] = through  # here",
    "a data race", "of a shared array of 19x19 uint16", "{here}", "{there}",
)
_fault(
    "block_sums", "one thread reads a shared element and another writes to it",
    "while n > 1:\n        cuda.syncthreads()\n        half = (n + 1) // 2",
    "cuda.syncthreads()\n    while n > 1:\n        half = (n + 1) // 2",
    "a data race", "of a dynamic shared array of int64",
)
_fault(
    "jacobi_sweeps", "one thread reads a shared element and another writes to it",
    "* np.float32(0.25)\n        cuda.syncthreads()", "* np.float32(0.25)",
    "a data race", "element [1, 1] of a shared array of 15x19 float32",
)
_fault(
    "hash_set", "an atomic access and a plain one of a shared element",
    "cuda.syncthreads()\n    echo[t] = table[slot]", "echo[t] = table[slot]  # here",
    "a data race", "of a shared array of 256 int32", "updates",
)
_fault(
    "tickets", "a race on an argument",
    "times[before if p[i] else p.size - 1 - before] += 1", "times[i // 2] += 1  # here",
    "thread (1, 0, 0)", "a data race", "element [0] of 'times'", "thread (0, 0, 0)", "{here}",
)
_fault(
    "groups_of_eight", "a race within a warp",
    "other = cell[t ^ step]\n        cuda.syncwarp(mask)\n        cell[t] += other",
    "other = cell[t ^ step]  # there\n        cell[t] += other  # here",
    "a data race", "of a shared array of 64 int32", "{here}", "{there}",
)
_fault(
    "compaction", "a race within a warp",
    "out[warp, lane] = -1\n    cuda.syncwarp()", "out[warp, lane] = -1  # there",
    "a data race", "of 'out'", "{there}",
)
_fault(
    "saxpy_in_place", "a race of an input and the output that is its alias",
    "out[i] = a * x[i] + y[i]", "out[i] = a * x[i] + y[(i + 1) % y.size]  # here",
    "a data race", "block (0, 0, 0), thread (1, 0, 0)", "element [1]", "{here}",
)
_fault(
    "segment_sums", "unwritten static shared memory",
    "if t % 32 == 0:\n        part[t // 32] = own\n    cuda.syncthreads()\n    if t == 0:\n"
    "        out[b] = part[0] + part[1] + part[2] + part[3]",
    "if t % 64 == 0:\n        part[t // 32] = own\n    cuda.syncthreads()\n    if t == 0:\n"
    "        out[b] = part[0] + part[1] + part[2] + part[3]  # here",
    "thread (0, 0, 0)", "reads element [1] of a shared array of 4 float32",
    "which no thread of the block has written", "{here}",
)
_fault(
    "rule_110", "unwritten dynamic shared memory",
    "row[t] = cells[b, t]", "if t > 0:\n        row[t] = cells[b, t]",
    "thread (52, 0, 0)", "reads element [0] of a dynamic shared array of uint8",
    "which no thread of the block has written",
)
_fault(
    "float_keys", "unwritten dynamic shared memory",
    "bits[(t + 1) % value.size]", "bits[t + 1]  # here",
    "thread (60, 0, 0)", "reads element [81] of a dynamic shared array of int32",
    "which no thread of the block has written", "{here}",
)
_fault(
    "argmax_rows", "a barrier in a conditional",
    "index[b] = where[0]", "index[b] = where[0]\n        cuda.syncthreads()  # here",
    "thread (0, 0, 0)", "comes to cuda.syncthreads (at {here})",
)
_fault(
    "delay_line", "a barrier in a conditional",
    "own[k] = row[(t + k * k) % 40]\n        cuda.syncthreads()",
    "own[k] = row[(t + k * k) % 40]\n        if t < 32:\n            cuda.syncthreads()  # here",
    "comes to cuda.syncthreads (at {here}), which 1 of the block's 40 threads never reach",
)
_fault(
    "last_block_total", "two different barriers",
    "mine[t] = own\n    cuda.syncthreads()",
    "mine[t] = own\n    if t < 32:\n        cuda.syncthreads()  # there\n    else:\n"
    "        cuda.syncthreads()  # here",
    "thread (32, 0, 0)", "comes to cuda.syncthreads (at {here})",
    "thread (0, 0, 0) to another (at {there})",
)
_fault(
    "gathered_lanes", "a shuffle from a lane that does not take part",
    "d_out[i] = cuda.shfl_sync(mask, d[i], lane[i])",
    "d_out[i] = cuda.shfl_sync(mask, d[i], lane[i] + i // 32 * 16)  # here",
    "thread (32, 0, 0)", "in a warp shuffle with the mask 0x0000ffff (at {here})", "not in its",
)
_fault(
    "tiled_product", "threads that end before a barrier",
    "total = np.float32(0)",
    "total = np.float32(0)\n    if i >= a.shape[0] or j >= b.shape[1]:\n        return",
    "ends without cuda.syncthreads", "thread (0, 0, 0) waits",
)
_fault(
    "top_six", "threads that end before a barrier",
    "taken[t] = False", "taken[t] = False\n    if t == 0:\n        return",
    "thread (1, 0, 0)", "comes to cuda.syncthreads", "which 1 of the block's 120 threads never",
)
# fmt: on


def planted(fault: Fault, folder: Path) -> tuple[Case, list[str]]:
    """The case with the fault, compiled from a file in the folder, and what its error must say."""
    _, group = _find(fault.kernel)
    text = Path(importlib.import_module(f"{__package__}.{group}").__file__).read_text()
    within = fault.within or fault.kernel
    begin = text.index(f"def {within}(")
    end = text.find("\n\n\n", begin)
    body = text[begin:end]
    assert body.count(fault.old) == 1, f"{within} has {fault.old!r} {body.count(fault.old)} times"
    text = text[:begin] + body.replace(fault.old, fault.new) + text[end:]
    path = folder / f"{group}_{FAULTS.index(fault)}.py"
    path.write_text(text)
    lines = text.split("\n")
    places = {
        name: f"{path.name}:{i}"
        for i, line in enumerate(lines, 1)
        for name in ("here", "there")
        if line.endswith(f"# {name}")
    }
    space: dict[str, Any] = {"__package__": __package__, "__name__": f"{__package__}.{path.stem}"}
    exec(compile(text, path, "exec"), space)
    found = [case for case in space["CASES"] if case.name == fault.kernel]
    assert len(found) == 1
    return found[0], [w.format(**places) for w in fault.words]


def _find(name: str) -> tuple[Case, str]:
    for group in GROUPS:
        for case in cases(group):
            if case.name == name:
                return case, group
    raise LookupError(name)


def _run_batch(case: Case, n: int) -> None:
    import jax
    from kernbridge import numba_cuda_kernel

    outs = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in case.outs]
    operation = numba_cuda_kernel(case.kernel, outs, launch_dims=case.launch_dims)
    inputs = [np.stack([x] * n) for x in case.arguments()]
    jax.block_until_ready(jax.jit(jax.vmap(operation))(*inputs))


def report(fault: Fault, folder: Path) -> tuple[str, list[str]]:
    """What the faulty kernel says, and the words that it must; empty if it says nothing."""
    import jax

    case, words = planted(fault, folder)
    try:
        if fault.batch:
            _run_batch(case, fault.batch)
        else:
            case.run()
    except jax.errors.JaxRuntimeError as e:
        return str(e), words
    return "", words


def one_of_each_kind() -> list[Fault]:
    """The first fault of each kind."""
    return list({fault.kind: fault for fault in reversed(FAULTS)}.values())


def check(faults: Sequence[Fault], folder: str, values: Path = VALUES) -> None:
    """Print what is wrong with some faults, in this process, as a JSON list.

    After each fault, the kernel without it must run in this process, checked, with a GPU's values.
    """
    import jax

    jax.config.update("jax_enable_x64", True)
    warnings.simplefilter("ignore")
    found = []
    with np.load(values) as archive:
        for fault in faults:
            label = f"{fault.kernel}, {fault.kind}"
            said, words = report(fault, Path(folder))
            missing = [w for w in words if w not in said]
            if missing or f"kernel '{fault.kernel}'" not in said:
                found.append(f"{label}: lacks {missing} in {said!r}")
            clean, _ = _find(fault.kernel)
            found += clean.differences(clean.run(), kept(clean, archive))
    print(json.dumps(found))


def check_clean(*groups: str, values: Path = VALUES) -> None:
    """Print what is wrong with the kernels of some groups without faults, as a JSON list."""
    import jax

    jax.config.update("jax_enable_x64", True)
    warnings.simplefilter("ignore")
    with np.load(values) as archive:
        found = [p for case in cases(*groups) for p in problems(case, kept(case, archive))]
    print(json.dumps(found))
