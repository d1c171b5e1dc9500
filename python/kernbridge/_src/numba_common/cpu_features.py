"""The processor features that machine code in programs may use."""

from __future__ import annotations

import os

from kernbridge import _core

_BASELINE = {  # of every x86-64 processor, and what only steers LLVM
    *("64bit", "cmov", "cx8", "fxsr", "mmx", "sse", "sse2", "x87", "crc32", "evex512"),
    *("neon", "fp-armv8"),  # of aarch64
}


def asked() -> tuple[str | None, str | None]:
    """LLVM's name of the processor that the user wants code for, and its features, if any.

    The variables and what follows from them are Numba's, which need not be there.
    """
    name = os.environ.get("NUMBA_CPU_NAME")
    generic = "" if (name or "").lower() == "generic" else None
    return name, os.environ.get("NUMBA_CPU_FEATURES", generic)


def known(given: str) -> tuple[str, int]:
    """LLVM's text of the features to compile for, and the bits that the processor must then have.

    What the core does not know is switched off: no check could find it missing elsewhere.
    """
    bits = _core.cpu_features()
    wanted = dict.fromkeys(bits, False)
    wanted |= {part[1:]: part[0] == "+" for part in given.split(",") if part}
    mask, parts = 0, []
    for name, on in wanted.items():
        bit, present = bits.get(name, (0, False))
        used = on and (present or name in _BASELINE)
        mask |= present << bit if used else 0
        parts.append(f"{'+' if used else '-'}{name}")
    return ",".join(parts), mask
