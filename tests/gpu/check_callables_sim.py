"""The corpus of callables in Numba-CUDA's simulator, against its references: no GPU is needed.

    python tests/gpu/check_callables_sim.py [name...]

Prints one line a case. A case that asks for what the simulator lacks is skipped, with the reason.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

os.environ["NUMBA_ENABLE_CUDASIM"] = "1"  # read when numba.cuda is imported
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import numpy as np

if not hasattr(np, "row_stack"):  # numba-cuda 0.30 reads it; numpy 2.5 removed it
    np.row_stack = np.vstack

from callables import CASES, Case
from numba import cuda

NOT_SIMULATED = {
    "tiled_matmul": "two shared arrays made in one line are one array to the simulator",
    "separable_blur": "a transposed array is a view to the simulator, a copy to a GPU",
}


def run(case: Case) -> list[np.ndarray]:
    """The outputs of the function, which starts from memory that holds no result."""
    inputs = [cuda.to_device(x) for x in case.inputs(np.random.default_rng(0))]
    outs = []
    for i, t in enumerate(jax.tree.leaves(case.outs)):
        aliased = [a for a, b in (case.aliases or {}).items() if b == i]
        outs.append(inputs[aliased[0]] if aliased else cuda.to_device(garbage(t.shape, t.dtype)))
    case.function(*inputs, *outs, cuda.stream())
    return [out.copy_to_host() for out in outs]


def garbage(shape: Sequence[int], dtype: Any) -> np.ndarray:
    """Elements that no case computes."""
    n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.full(n_bytes, 0xA5, np.uint8).view(dtype).reshape(shape)


def check(case: Case, attempt: Callable[[Case], list[np.ndarray]] = run) -> str:
    """What to print of a case; begins with "ok", "skipped" or "WRONG"."""
    if case.name in NOT_SIMULATED:
        return f"skipped: {NOT_SIMULATED[case.name]}"
    try:
        found = attempt(case)
    except (AttributeError, NotImplementedError) as e:
        return f"skipped: the simulator cannot: {type(e).__name__}: {e}"
    except Exception as e:
        return f"WRONG: {type(e).__name__}: {e}"
    expected = case.reference(*case.inputs(np.random.default_rng(0)))
    if len(found) != len(expected):
        return f"WRONG: {len(found)} outputs, expected {len(expected)}"
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            return f"WRONG: output {i} is {a.dtype}{a.shape}, expected {b.dtype}{b.shape}"
        if not np.allclose(a, b, rtol=2e-5, atol=1e-5):
            return f"WRONG: output {i} differs, by {np.abs(a - b).max()} at most"
    return "ok"


def main(names: Sequence[str]) -> int:
    wrong = 0
    for case in CASES:
        if not names or case.name in names:
            result = check(case)
            wrong += result.startswith("WRONG")
            print(f"{case.name}: {result}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
