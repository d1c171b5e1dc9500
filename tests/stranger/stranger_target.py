"""A target of another package: CPUs that run CUDA kernels as the extension `emulator` makes them.

It uses the interface of docs/design/0010-targets.md, and counts what is compiled.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from kernbridge._src.forge.artefacts import Artefact
from kernbridge._src.plan import targets


class Counting(targets.Target):
    def __init__(self, base: targets.Target) -> None:
        self.base = base
        self.numba_lacks, self.raises = base.numba_lacks, base.raises

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counting) and other.base == self.base

    def __hash__(self) -> int:
        return hash(("stranger", self.base))

    def key(self) -> bytes:
        return b"stranger " + self.base.key()

    def words(self, kernel: Any) -> tuple[str, ...]:
        return ("stranger", *self.base.words(kernel))

    def lowering(self, raises: bool) -> AbstractContextManager[None]:
        return self.base.lowering(raises)

    def kept(self, lasting: bool) -> tuple[str, type[Any]]:
        return self.base.kept(lasting)

    def finish(
        self, job: Any, compiled: Any, opened: tuple[int, ...]
    ) -> tuple[targets.Images, bool]:
        print("compiles", job.label)
        return self.base.finish(job, compiled, opened)

    def images(self, job: Any, made: Artefact) -> targets.Images:
        return self.base.images(job, made)

    def handler(self, in_graph: bool) -> str:
        return self.base.handler(in_graph)


def start() -> None:
    """Called when JAX starts its backends, by the entry point of this package."""
    base = targets.of_platform("cpu")
    targets.register("cpu", lambda checked, vector_math: Counting(base))
