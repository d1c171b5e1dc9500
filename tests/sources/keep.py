"""What a GPU gives for the CUDA sources: kept in values.npz, and compared with the CPU's outputs.

In tests/sources, on a machine with a GPU and nvcc: `python keep.py --write`. Without `--write`,
outputs are compared with the kept ones on JAX's default device.
"""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Iterator
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


def outputs(case: corpus.Case, module: Any) -> Iterator[np.ndarray]:
    """For each call, the digest of its inputs and its outputs, except scratch, as bytes."""
    for _, arrays, expected, found in case.called(module, SEED):
        yield digest(arrays)
        for e, f in zip(expected, found, strict=True):
            if not isinstance(e, jax.ShapeDtypeStruct):
                yield np.asarray(f)


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
    """Keep the outputs of every source; give 1 if one is not as its reference."""
    jax.config.update("jax_enable_x64", True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        modules = list(pool.map(lambda case: case.load(auto_register=False), CASES))
    if "--write" not in sys.argv:
        wrong = list(filter(None, map(apart, CASES, modules)))
    else:
        (device,) = {d.device_kind for d in jax.devices("gpu")}
        kept = {"where": np.array(f"{device}, jax {jax.__version__}")}
        for case, module in zip(CASES, modules, strict=True):
            data = b"".join(a.tobytes() for a in outputs(case, module))
            kept[case.name] = np.frombuffer(data, np.uint8)
        wrong = [w for c, m in zip(CASES, modules, strict=True) if (w := c.wrong(m, SEED))]
        np.savez_compressed(VALUES, **kept)
        print(f"{len(CASES)} sources, {VALUES.stat().st_size:,} bytes, {kept['where']}")
    print("\n".join(wrong) or "all as they should be")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
