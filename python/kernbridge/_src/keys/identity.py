"""The identity of what is compiled, made by one function of one record of its ingredients.

Two compilations with equal identities share their result, in the process and on disk.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from kernbridge._src.base.errors import defect
from kernbridge._src.keys.fingerprint import Fingerprint, combine


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingredients:
    """What decides what a compilation makes. No field has a default, so that none is forgotten."""

    made: str  # what is made, such as "numba.cpu"
    code: Fingerprint | bytes  # of the kernel, or the identity of what was made of it
    described: tuple[Any, ...]  # signature, options, values and modes, each as a plain value
    # The translations of the JAX functions that the kernel calls, on which the fingerprint is
    # silent (inline/asked.py). None: these are what is made.
    inlined: tuple[str, ...] | None


def identity_of(i: Ingredients) -> bytes:
    """Return the identity (32 bytes) of what is made of these ingredients."""
    if not isinstance(i.code, Fingerprint):
        return hashlib.sha256(repr((i.made, i.code, *i.described)).encode()).digest()
    if i.code.inlined and i.inlined == ():
        raise TypeError(defect(f"the identity of {i.made} lacks the functions that are inlined"))
    return combine(i.code, i.made, *i.described, *(i.inlined or ()))
