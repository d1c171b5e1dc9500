"""What a GPU gives for the CUDA sources: kept in values.npz, and compared with the CPU's outputs.

In tests/sources, on a machine with a GPU and nvcc: `python keep.py --write`.
"""

from __future__ import annotations

import os
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import corpus
import jax
import numpy as np

VALUES = Path(__file__).with_name("values.npz")
# CPUs refuse cub_reduce, which uses algorithms of the whole device.
CASES = [c for c in corpus.all_cases() if c.language == "cuda" and c.name != "cub_reduce"]
SEED = 0


def digest(arrays: Any) -> np.ndarray:
    """Of the inputs of a call: tells whether kept values belong to them."""
    return np.array(zlib.crc32(b"".join(a.tobytes() for a in arrays)), np.uint32)


def apart(case: corpus.Case, module: Any) -> str:
    """Says which output is not what the GPU gave; "" if none is.

    Integers are compared by their bits, and floats by the tolerances of the case.
    """
    with np.load(VALUES) as archive:
        kept = archive[case.name].tobytes()
    at = 0

    def read(like: Any) -> Any:
        nonlocal at
        if isinstance(like, jax.ShapeDtypeStruct):
            return like  # scratch
        at += like.nbytes
        return np.frombuffer(kept, like.dtype, like.size, at - like.nbytes).reshape(like.shape)

    for call, arrays, expected, found in case.called(module, SEED):
        if read(digest(arrays)) != digest(arrays):
            return f"{case.name}: the kept values are of other inputs; run keep.py on a GPU"
        why = call.wrong(found, [read(e) for e in expected])
        if why:
            return why
    return ""


def main() -> int:
    """Run every source on the GPU; give 1 if one is not as its reference."""
    jax.config.update("jax_enable_x64", True)
    (device,) = {d.device_kind for d in jax.devices("gpu")}
    kept = {"where": np.array(f"{device}, jax {jax.__version__}")}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        modules = list(pool.map(lambda case: case.load(auto_register=False), CASES))
    for case, module in zip(CASES, modules, strict=True):
        data = b""
        for _, arrays, expected, found in case.called(module, SEED):
            scratch = (isinstance(e, jax.ShapeDtypeStruct) for e in expected)
            made = [np.asarray(f) for f, s in zip(found, scratch, strict=True) if not s]
            data += b"".join(a.tobytes() for a in (digest(arrays), *made))
        kept[case.name] = np.frombuffer(data, np.uint8)
    wrong = [w for c, m in zip(CASES, modules, strict=True) if (w := c.wrong(m, SEED))]
    if "--write" in sys.argv:
        np.savez_compressed(VALUES, **kept)
    print("\n".join(wrong) or f"{len(CASES)} sources on {kept['where']}: all as their references")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
