"""The identity of what is compiled, made by one function of one record of its ingredients.

Two compilations with equal identities share their result, in the process and on disk.

What a kernel's machine code depends on, but its fingerprint cannot know, are the companions of its
identity: the translations of the JAX functions that it calls. An extension makes these functions,
and knows their translations: `translations(job, described)` of the entry "inlined" in the table of
extensions returns their names.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Protocol

from kernbridge._src.base import extensions
from kernbridge._src.base.errors import defect
from kernbridge._src.keys.fingerprint import Fingerprint, combine


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingredients:
    """What decides what a compilation makes. No field has a default, so that none is forgotten."""

    made: str  # what is made, such as "numba.cpu"
    code: Fingerprint | bytes  # of the kernel, or the identity of what was made of it
    described: tuple[Any, ...]  # signature, options, values and modes, each as a plain value
    # The translations of the JAX functions that the kernel calls, on which the fingerprint is
    # silent. None: these are what is made.
    inlined: tuple[str, ...] | None


def identity_of(i: Ingredients) -> bytes:
    """Return the identity (32 bytes) of what is made of these ingredients."""
    if not isinstance(i.code, Fingerprint):
        return hashlib.sha256(repr((i.made, i.code, *i.described)).encode()).digest()
    if i.code.inlined and i.inlined == ():
        raise TypeError(defect(f"the identity of {i.made} lacks the functions that are inlined"))
    return combine(i.code, i.made, *i.described, *(i.inlined or ()))


class Job(Protocol):
    """The compilation of a kernel by Numba."""

    fingerprint: Fingerprint
    label: str
    name: str
    tool: str

    def made_of(self) -> tuple[Any, ...]:
        """Return the versions of what compiles it."""

    def libraries(self) -> list[Any]:
        """Compile the kernel to LLVM IR; return Numba's libraries of it."""


def identity_of_job(job: Job, made: str, *described: Any) -> bytes:
    """Return the identity of what is made of a kernel of Numba, with all that it calls.

    `described` is what the compilation depends on, beside the fingerprint of the kernel.
    """
    code, inlined = job.fingerprint, ()
    if code.inlined:
        extension = extensions.load("inlined", f"{job.label}: a function of JAX in the kernel")
        inlined = extension.translations(job, (made, *described))
    return identity_of(Ingredients(made=made, code=code, described=described, inlined=inlined))
