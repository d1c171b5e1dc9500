"""The processor that kernels are compiled for: this one, or what tests/processor makes of it."""

import os
import platform
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")


def has_fma():
    """Whether products and sums are fused."""
    if (given := os.environ.get("NUMBA_CPU_FEATURES")) is not None:
        return "+fma" in given.split(",")
    return platform.machine() == "aarch64" or (CPUINFO.exists() and " fma " in CPUINFO.read_text())
