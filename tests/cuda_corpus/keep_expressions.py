"""Keep what a GPU gives for every drawn expression.

In tests/: `python -m cuda_corpus.keep_expressions --into cuda_corpus`.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
import zlib
from pathlib import Path

import numpy as np

if not hasattr(np, "row_stack"):  # numba-cuda 0.30 reads it; numpy 2.5 removed it
    np.row_stack = np.vstack

from . import kept_inputs
from .case import Case
from .expressions import cases


def digest(case: Case, texts: tuple[str, ...]) -> int:
    """Tells whether kept values belong to these expressions and these inputs."""
    return zlib.crc32("\n".join(texts).encode(), case.digest())


def main() -> int:
    """Run every kernel on the first device; give 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, required=True, help="folder for expressions.npz")
    parser.add_argument("--cpu", action="store_true", help="run on the CPU, to compare by hand")
    options = parser.parse_args()

    import jax

    jax.config.update("jax_enable_x64", True)
    platform = "cpu" if options.cpu else "gpu"
    jax.config.update("jax_default_device", jax.devices(platform)[0])
    found: dict[str, list[np.ndarray]] = {}
    digests: dict[str, int] = {}
    unstable: list[str] = []
    failed = 0
    began = time.perf_counter()
    for case, texts in cases():
        try:
            (got,), (again,) = case.run(), case.run()
        except Exception:
            traceback.print_exc()
            failed += 1
            continue
        for row, other, text in zip(got, again, texts, strict=True):
            if row.tobytes() != other.tobytes():
                print(f"{case.name}: another value at the second run: {text}")
                unstable.append(f"{case.name}: {text}")
        digests[case.name] = digest(case, texts)
        found.setdefault(got.dtype.name, []).append(got)
    options.into.mkdir(parents=True, exist_ok=True)
    file = options.into / "expressions.npz"
    np.savez_compressed(
        file,
        names=np.array(list(digests)),
        digests=np.array(list(digests.values()), np.uint32),
        unstable=np.array(unstable, str),
        **{name: np.concatenate(values) for name, values in found.items()},
    )
    kept_inputs.keep()
    print(
        f"{len(digests)} kernels, {failed} failed, {time.perf_counter() - began:.0f} s, "
        f"{file}: {file.stat().st_size} bytes, on {jax.devices(platform)[0].device_kind}"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
