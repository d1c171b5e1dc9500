"""Keep what a GPU gives for every function of libdevice.

In tests/: `python -m cuda_corpus.keep_functions --into cuda_corpus`.
"""

from __future__ import annotations

import argparse
import sys
import zlib
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

if not hasattr(np, "row_stack"):  # numba-cuda 0.30 reads it; numpy 2.5 removed it
    np.row_stack = np.vstack

from numba import cuda

from . import kept_inputs
from .kept_inputs import settled
from .libdevice_inputs import FUNCTIONS, inputs

MOST = 192  # rows that are kept of a function
BLOCK = 128


def rows(name: str) -> list[np.ndarray]:
    """Return the arguments whose results are kept: some of those that tests use, edges included."""
    given = inputs(name)
    n = len(given[0])
    chosen = np.random.default_rng(len(name)).permutation(n)[:MOST] if n > MOST else np.arange(n)
    return settled(name, [row[np.sort(chosen)] for row in given])


def digest(given: Sequence[np.ndarray]) -> int:
    """Return what says whether kept values belong to these arguments."""
    return zlib.crc32(b"".join(row.tobytes() for row in given))


def result_types(name: str) -> list[str]:
    """Return the dtype of the result and of each value that comes by a pointer."""
    returned, arguments = FUNCTIONS[name]
    found = [] if str(returned) == "none" else [str(returned)]
    return found + [str(a.ty) for a in arguments if a.is_ptr]


def kernel(name: str) -> Any:
    """Return a kernel that calls a function on each row."""
    n_given = sum(not a.is_ptr for a in FUNCTIONS[name][1])
    n_results = len(result_types(name))
    given = [f"x{i}" for i in range(n_given)]
    results = [f"o{i}" for i in range(n_results)]
    picked = [f"r[{k}]" for k in range(n_results)] if n_results > 1 else ["r"]
    lines = [
        f"def kernel({', '.join(given + results)}):",
        "    i = cuda.grid(1)",
        "    if i < o0.size:",
        f"        r = function({', '.join(f'{x}[i]' for x in given)})",
        *(f"        {o}[i] = {r}" for o, r in zip(results, picked, strict=True)),
    ]
    space = {"cuda": cuda, "function": getattr(cuda.libdevice, name.removeprefix("__nv_"))}
    exec("\n".join(lines), space)
    return cuda.jit(space["kernel"])


def values(name: str) -> list[np.ndarray]:
    """Return what the first GPU gives."""
    given = rows(name)
    results = [np.zeros(len(given[0]), kind) for kind in result_types(name)]
    kernel(name)[-(-len(given[0]) // BLOCK), BLOCK](*given, *results)
    return results


def kept(file: Path) -> dict[str, list[np.ndarray]]:
    """Return the kept values by function; LookupError if they are of other arguments."""
    found: dict[str, list[np.ndarray]] = {}
    with np.load(file) as archive:
        digests = dict(zip(archive["names"].tolist(), archive["digests"].tolist(), strict=True))
        stored = {kind: archive[kind] for kind in archive.files if kind not in ("names", "digests")}
    at = dict.fromkeys(stored, 0)
    for name in sorted(FUNCTIONS):
        given = rows(name)
        if digests.get(name) != digest(given):
            raise LookupError(
                f"{name}: no values of these arguments are kept; run `python -m "
                "cuda_corpus.keep_functions --into cuda_corpus` in tests/ on a machine with a GPU"
            )
        found[name] = []
        for kind in result_types(name):
            found[name].append(stored[kind][at[kind] : at[kind] + len(given[0])])
            at[kind] += len(given[0])
    return found


def main() -> int:
    """Run every function on the first GPU."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, required=True, help="folder for functions.npz")
    parser.add_argument("--processes", type=int, default=8)
    options = parser.parse_args()
    names = sorted(FUNCTIONS)
    with ProcessPoolExecutor(options.processes) as pool:
        found = dict(zip(names, pool.map(values, names, chunksize=8), strict=True))
    stored: dict[str, list[np.ndarray]] = {}
    for name in names:
        for kind, result in zip(result_types(name), found[name], strict=True):
            stored.setdefault(kind, []).append(result)
    archive = {kind: np.concatenate(results) for kind, results in stored.items()}
    archive["names"] = np.array(names)
    archive["digests"] = np.array([digest(rows(name)) for name in names], np.uint32)
    options.into.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(options.into / "functions.npz", **archive)
    kept_inputs.keep()
    print(f"{len(names)} functions, {sum(r.size for r in archive.values()):,} numbers")
    return 0


if __name__ == "__main__":
    sys.exit(main())
