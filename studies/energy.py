"""The energy that a GPU has used, from NVML where it is there."""

from __future__ import annotations

import ctypes
import os


class Meter:
    """The energy counter of the first visible GPU. Reads None where there is none."""

    def __init__(self) -> None:
        self._library: ctypes.CDLL | None = None
        self._device = ctypes.c_void_p()
        first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
        try:
            library = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return
        index = ctypes.c_uint(int(first) if first.isdigit() else 0)
        if library.nvmlInit_v2() == 0:
            found = library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(self._device))
            self._library = library if found == 0 else None

    def joules(self) -> float | None:
        """Return what it has used since its driver was loaded."""
        if self._library is None:
            return None
        mj = ctypes.c_ulonglong()
        asked = self._library.nvmlDeviceGetTotalEnergyConsumption(self._device, ctypes.byref(mj))
        return mj.value / 1000 if asked == 0 else None


def between(before: float | None, after: float | None) -> float | None:
    """Return the difference of two readings; None where either is."""
    return None if before is None or after is None else after - before
