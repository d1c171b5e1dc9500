"""How `numba_cuda_kernel` reads the option `vector_math`."""

from __future__ import annotations

from typing import Any

import numpy as np


def read_vector_math(label: str, kernel: Any, given: Any, is_checked: bool) -> bool | None:
    """The option as kernels are compiled with it: None where it says what holds anyway."""
    if given is None:
        return None
    if not isinstance(given, (bool, np.bool_)):
        raise TypeError(f"{label}: vector_math is {given!r}, expected True, False or None [KB1005]")
    if given and is_checked:
        raise ValueError(
            f"{label}: vector_math=True and check=True exclude each other: the checked mode runs "
            "the threads of a block one by one; leave one of them out"
            " [KB1005]"
        )
    return None if given == is_fast(kernel) else bool(given)


def is_fast(kernel: Any) -> bool:
    """Whether a kernel's `fastmath` lets functions be approximated."""
    return bool(kernel.targetoptions.get("fastmath"))
