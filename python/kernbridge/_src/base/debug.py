"""The checked modes: of the environment variable KERNBRIDGE_DEBUG when kernbridge is imported.

A comma-separated list of: "sync", wait for every GPU launch, so that a fault is reported by the
launch that made it; "poison", run every call over two fill patterns, and report output elements
that the kernel did not write; "verify", run recorded functions unrecorded as well, and compare;
"check", check every access of Numba and Numba-CUDA kernels that run on the CPU, and of C++ modules,
and report inputs that a kernel on the CPU changed; both of "poison" and "check", report writes
outside of the outputs of a kernel on the CPU, and bool outputs with other bytes than 0 and 1;
"full", print all that Numba or another compiler writes about a kernel that it cannot compile;
"nodes", count the graph nodes that calls add, for tests. `switch_on` adds modes later: "check", and
"count", count the launches of CUDA kernels on the CPU.
"""

from __future__ import annotations

import os

from kernbridge import _core

_BITS = {"sync": 1, "poison": 2, "nodes": 4, "fake driver": 8, "check": 16, "count": 64}
_KNOWN = ("sync", "poison", "nodes", "check", "verify", "full")


def _read() -> set[str]:
    names = set(filter(None, os.environ.get("KERNBRIDGE_DEBUG", "").split(",")))
    for name in names:
        if name not in _KNOWN:
            error = ValueError(
                f"KERNBRIDGE_DEBUG names {name!r}, expected some of {', '.join(_KNOWN)}, "
                "separated by commas [KB8002]"
            )
            error.add_note("`kernbridge explain KB8002` says more.")
            raise error
    return names


_names = _read()


def waits() -> bool:
    """Return whether calls wait for the GPU, which keeps them out of graphs."""
    return bool(_names & {"sync", "poison"})


def verifies() -> bool:
    return "verify" in _names


def is_full() -> bool:
    """Return whether errors are printed with all that other packages wrote."""
    return "full" in _names


def checks() -> bool:
    return "check" in _names


def host_target() -> str:
    """Return the target of CPU kernels, which differs where outputs or inputs are examined."""
    return "kernbridge.cuda.host" if _names & {"poison", "check"} else "kernbridge.host"


def switch_on(*modes: str) -> None:
    """Switch the modes on that were read, and these, for all that is lowered from now on."""
    _names.update(modes)
    _core.set_debug(sum(bit for name, bit in _BITS.items() if name in _names))
