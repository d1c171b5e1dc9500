"""Keep what a GPU gives for every kernel of the corpus.

In tests/: `python -m cuda_corpus.keep --into cuda_corpus`.
"""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

if not hasattr(np, "row_stack"):  # numba-cuda 0.30 reads it; numpy 2.5 removed it
    np.row_stack = np.vstack

from . import kept_inputs
from .case import Case, cases

PACKAGES = ("jax", "numba-cuda", "numba", "llvmlite", "numpy", "nvidia-", "cuda-bindings")


def where() -> dict[str, Any]:
    """The GPU, its driver, and the versions of what compiled and ran the kernels."""
    import jax
    from kernbridge._src.plan import targets
    from numba import cuda

    found = ((d.metadata["Name"], d.version) for d in metadata.distributions())
    packages = {name: version for name, version in found if name and name.startswith(PACKAGES)}
    return {
        "gpu": jax.devices("gpu")[0].device_kind,
        "compute_capability": list(cuda.get_current_device().compute_capability),
        "cuda_driver": list(cuda.cudadrv.driver.driver.get_version()),
        "kernels_compiled_for": [list(cc) for cc in targets.of_platform("cuda").architectures],
        "packages": dict(sorted(packages.items())),
    }


def deviation(case: Case, got: list[np.ndarray]) -> str:
    """How far the values are from the reference, in words."""
    want = case.expected()
    if want is None:
        return "no reference"
    largest = 0.0
    for g, w in zip(got, want, strict=True):
        if g.dtype.kind in "biu":
            largest = max(largest, float((g != w).any()))
        elif g.size:
            apart = np.abs(g.astype(np.complex128) - w)
            largest = max(largest, float(np.nanmax(apart / np.maximum(np.abs(w), 1))))
    found = case.differences(got, want)
    return f"{largest:.2g} from the reference{', WRONG: ' + '; '.join(found) if found else ''}"


def main() -> int:
    """Run every case on the GPU; give 1 if one fails or is not as its reference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--into", type=Path, required=True, help="folder for values.npz, where.json"
    )
    parser.add_argument("names", nargs="*", help="only these cases, and nothing is written")
    options = parser.parse_args()

    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_default_device", jax.devices("gpu")[0])
    kept: dict[str, np.ndarray] = {}
    failed = []
    for case in cases():
        if options.names and case.name not in options.names:
            continue
        try:
            got, again = case.run(), case.run()
            told = deviation(case, got)
            if case.differences(got, again):
                told += ", WRONG: another value at the second run"
        except Exception:
            traceback.print_exc()
            told = "WRONG: an exception"
        else:
            kept[f"{case.name}/inputs"] = np.uint32(case.digest())
            kept.update({f"{case.name}/{i}": out for i, out in enumerate(got)})
        print(f"{case.name:24} {told}", flush=True)
        if "WRONG" in told:
            failed.append(case.name)
    if not options.names:
        options.into.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(options.into / "values.npz", **kept)
        (options.into / "where.json").write_text(json.dumps(where(), indent=2) + "\n")
        kept_inputs.keep()
    print(f"{len(failed)} failed: {' '.join(failed)}" if failed else "all as their references")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
