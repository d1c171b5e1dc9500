"""The identity of what is compiled, made by one function of all its ingredients.

Two compilations with equal identities share their result, in the process and on disk.

What a kernel's machine code depends on, but its fingerprint cannot know, are the companions of its
identity: the translations of the JAX functions that it calls. An extension makes these functions,
and knows their translations: `translations(job, described)` of the entry "inline" in the table of
extensions returns their names.
"""

from __future__ import annotations

import hashlib
from typing import Any

from kernbridge._src.base import extensions
from kernbridge._src.base.errors import defect
from kernbridge._src.keys.fingerprint import Fingerprint, combine


def identity_of(
    *,
    made: str,  # what is made, such as "numba.cpu"
    code: Fingerprint | bytes,  # of the kernel, or the identity of what was made of it
    described: tuple[Any, ...],  # signature, options, values and modes, each as a plain value
    # The translations of the JAX functions that the kernel calls, on which the fingerprint is
    # silent. None: these are what is made.
    inlined: tuple[str, ...] | None,
) -> bytes:
    """Return the identity (32 bytes) of what is made of these ingredients."""
    if not isinstance(code, Fingerprint):
        return hashlib.sha256(repr((made, code, *described)).encode()).digest()
    if code.inlined and inlined == ():
        raise TypeError(defect(f"the identity of {made} lacks the functions that are inlined"))
    return combine(code, made, *described, *(inlined or ()))


def identity_of_job(job: Any, made: str, *described: Any) -> bytes:
    """Return the identity of what is made of a kernel of Numba, with all that it calls.

    `described` is what the compilation depends on beside the `fingerprint` of the recipe `job`.
    """
    code, inlined = job.fingerprint, ()
    if code.inlined:
        extension = extensions.load("inline", f"{job.label}: a function of JAX in the kernel")
        inlined = extension.translations(job, (made, *described))
    return identity_of(made=made, code=code, described=described, inlined=inlined)
