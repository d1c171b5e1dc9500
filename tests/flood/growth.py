"""What new kernels leave in memory: those of kernbridge, beside those of Numba and JAX alone.

    python tests/flood/growth.py --number 40 --json growth.json

Prints, for each subject, KiB that malloc has given out and Python objects that are left for each
kernel when the kernel, its operation and its programs are gone and JAX's caches are empty. The
subjects take turns in one process. `known` kernels are new functions of contents that were
compiled before.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

FIRST = 1000  # of the constants of new kernels, which no other test has


def in_use() -> tuple[float, int]:
    """Return KiB that malloc has given out, and Python's objects, once all is collected."""
    import flood
    import jax

    jax.clear_caches()
    gc.collect()
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    allocated = flood.in_use()
    assert allocated is not None, "mallinfo2 needs glibc 2.33"
    return allocated / 1024, len(gc.get_objects())


def subjects() -> dict[str, tuple[Callable[[int], Any], bool]]:
    """Return what makes and calls one kernel, and whether its content is new each time."""
    import jax
    import kinds
    import numpy as np

    x = np.ones(8, np.float32)

    def numba_alone(c: int) -> None:
        out = np.empty_like(x)
        kinds.compiled_by_numba(c)(x, out)
        assert out[0] == c + 1

    def called(make: Callable[[int], Any]) -> Callable[[int], None]:
        def call(c: int) -> None:
            assert np.asarray(jax.jit(make(c))(x))[0] == c + 1

        return call

    return {
        "Numba alone": (numba_alone, True),
        "JAX alone": (called(kinds.twin), True),
        "numba": (called(kinds.numba_cpu), True),
        "numba, known": (called(kinds.numba_cpu), False),
        "numba-cuda": (called(kinds.numba_cuda), True),
        "numba-cuda, known": (called(kinds.numba_cuda), False),
        "recorded, known": (called(kinds.recorded), False),
        "unrecorded, known": (called(kinds.unrecorded_anew), False),
    }


def constants(new: bool) -> Iterator[int]:
    c = FIRST if new else 0
    while True:
        yield c if new else c % 3
        c += 1


def measure(number: int, names: list[str]) -> dict[str, dict[str, float]]:
    """Return what each kernel of a subject leaves, after as many that may fill caches."""
    found = {}
    for name, (run, new) in subjects().items():
        if names and name not in names:
            continue
        draw = constants(new)
        for _ in range(max(number, 70 if "unrecorded" in name else 0)):  # 64 callees are kept
            run(next(draw))
        before = in_use()
        for _ in range(number):
            run(next(draw))
        kib, objects = (after - b for after, b in zip(in_use(), before, strict=True))
        found[name] = {"KiB": kib / number, "objects": objects / number}
        print(f"{name}: {kib / number:.1f} KiB, {objects / number:.1f} objects", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=40, help="of kernels of each subject")
    parser.add_argument("--only", nargs="*", default=[], help="subjects")
    parser.add_argument("--json", help="a file for the figures")
    options = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory(prefix="growth-") as folder:
        os.environ["KERNBRIDGE_CACHE_DIR"] = folder
        figures = measure(options.number, options.only)
    if options.json:
        Path(options.json).write_text(json.dumps(figures))


if __name__ == "__main__":
    sys.exit(main())
