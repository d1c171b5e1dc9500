"""Distinguishes default arguments that Python compares as equal: 0.0 and -0.0, (1,) and (True,).

Numba compiles a function for the value of each default argument that a call omits, and makes one
type of the values that compare as equal: a kernel with the default -0.0 is compiled with 0.0, if
Numba has met that before. While kernbridge compiles, such types compare by their values' bits.
"""

from __future__ import annotations

from typing import Any

from kernbridge._src.base.exact import exact
from kernbridge._src.base.patched import replace

_CONFUSED = (float, complex, tuple, frozenset)  # NumPy's numbers of 64 bits are among them


def change_of(omitted: Any) -> tuple[Any, str, Any]:
    """Return a change, for `patched`, that gives omitted arguments types of their own.

    `omitted` is the class of such types, Numba's or Numba-CUDA's. The caller holds Numba's lock.
    """
    make = omitted.__init__

    def make_exact(self: Any, value: Any) -> None:
        make(self, value)
        if not isinstance(value, _CONFUSED) and not hasattr(value, "dtype"):
            return
        try:
            replace(self, "_value_key", exact(value))
        except TypeError:  # not hashable: Numba's key is the identity
            return

    return omitted, "__init__", make_exact
