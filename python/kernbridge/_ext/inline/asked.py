"""Which translations of inlined functions a kernel calls, before the kernel is compiled.

The machine code of a kernel depends on these translations, so its identity contains their texts.
For which types the kernel calls a function is known only after Numba has typed the kernel, but the
identity is needed to find code that was compiled before. A list in the cache on disk therefore
says what each kernel asked of its functions, and what types they returned. Numba's typing reads
nothing but these types, so where all functions still return the same types, the list is complete.
Otherwise, it is made again.
"""

from __future__ import annotations

from typing import Any

from kernbridge._ext.inline.function import NAMED, InlinedFunction, NotInlined
from kernbridge._src.base.errors import KernelCompilationError
from kernbridge._src.forge.artefacts import Artefact
from kernbridge._src.forge.obtain import Recipe, obtain
from kernbridge._src.keys.identity import identity_of


class _Forgetful(dict[bytes, Any]):
    """A table that remembers nothing: functions of another kernel may answer differently."""

    def __setitem__(self, identity: bytes, answers: Any) -> None:
        pass


class _Asked(Recipe[tuple[str, ...]]):
    kind = "inlined"
    memory = _Forgetful

    def __init__(self, job: Any, described: tuple[Any, ...]) -> None:
        self._job = job
        self._functions: tuple[InlinedFunction, ...] = job.fingerprint.inlined
        code = job.fingerprint
        self.identity = identity_of(made="inlined", code=code, described=described, inlined=None)
        self.label, self.tool, self.name = job.label, job.tool, job.name
        self.lasting = not job.fingerprint.opaque

    def made_of(self) -> tuple[Any, ...]:
        found: tuple[Any, ...] = self._job.made_of()
        return found

    def make(self) -> Artefact:
        from kernbridge._src.numba_common.private_numba import linked

        names = {each.name for each in linked(self._job.libraries()) if NAMED in each.name}
        asked = []
        for i, function in enumerate(self._functions):
            for dtypes, made in sorted(function.translations.items()):
                if made.name in names:
                    try:
                        asked.append([i, [*dtypes], [*function.translation(dtypes).results]])
                    except NotInlined as e:
                        text = f"{self.label}: Numba cannot compile the kernel [KB4001]\n{e}"
                        raise KernelCompilationError(text) from None
        return Artefact({"asked": asked}, ())

    def use(self, made: Artefact) -> tuple[str, ...]:
        names = []
        for i, dtypes, results in made.meta["asked"]:
            try:
                found = self._functions[i].translation(tuple(dtypes))
            except NotInlined as e:
                raise ValueError from e
            if list(found.results) != list(results):
                raise ValueError  # the list is made again
            names.append(f"{i} {found.name}")
        return ("asked", *names)  # never empty, which the forge would take for nothing


def translations(job: Any, described: tuple[Any, ...]) -> tuple[str, ...]:
    """The names of the translations that a kernel calls, for what is `described`."""
    return obtain(_Asked(job, described))
