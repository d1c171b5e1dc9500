"""The targets of GPU kernels, and what differs between them.

Kernels run on GPUs (`Gpu`), or on the CPU in place of a GPU (`Emulated`). The design record
docs/design/0010-targets.md says what a further target would define.
"""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from kernbridge import _core
from kernbridge._src.base import debug
from kernbridge._src.base.reports import instead_of
from kernbridge._src.forge.artefacts import Artefact
from kernbridge._src.plan.cubin import check_words
from kernbridge._src.plan.program import leaves, with_open
from kernbridge._src.toolchain import cuda

Images = dict[int, bytes]  # by architecture: 10 major + minor of a GPU, or a number for CPUs

_LIKE_CPU = (9, 0)  # the architecture that Numba-CUDA types for; its IR is the same for all


class Target(ABC):
    """Where kernels run. Equal targets run the same machine code."""

    emulates: bool = False  # the CPU runs kernels in place of a GPU
    checked: bool = False  # every access is checked

    @abstractmethod
    def words(self, kernel: Any) -> tuple[str, ...]:
        """Return what the identity of a kernel's machine code contains of the target."""

    @abstractmethod
    def lowering(self, raises: bool) -> AbstractContextManager[None]:
        """Let Numba-CUDA type a kernel and generate its IR; with `raises`, debug=True is set."""

    @abstractmethod
    def finish(self, job: Any, compiled: Any, opened: tuple[int, ...]) -> tuple[Images, bool]:
        """Make machine code of a kernel of Numba-CUDA; also return whether it reads z indices."""

    @abstractmethod
    def images(self, job: Any, made: Artefact) -> Images:
        """Return the images that a plan contains, and let this process run them."""

    @abstractmethod
    def handler(self, in_graph: bool) -> str:
        """Return the name of the handler that XLA calls for a plan."""


@dataclass(frozen=True)
class Gpu(Target):
    architectures: tuple[tuple[int, int], ...]

    def words(self, kernel: Any) -> tuple[str, ...]:
        return ("numba.cuda",)

    def lowering(self, raises: bool) -> AbstractContextManager[None]:
        from kernbridge._src.numba_common.numba_cuda_patches import compiling_for

        return compiling_for(self.architectures[0])

    def finish(self, job: Any, compiled: Any, opened: tuple[int, ...]) -> tuple[Images, bool]:
        library = compiled._codelibrary
        cubin_of = getattr(compiled, "cubin_of", None)  # of numba-cuda-mlir
        try:
            if cubin_of is None:
                from kernbridge._src.numba_common import numba_cuda_patches

                cubin_of = functools.partial(numba_cuda_patches.cubin_of, library)
            found = {10 * cc[0] + cc[1]: cubin_of(cc) for cc in self.architectures}
        except Exception as e:
            raise instead_of(e, job.refusal(e))  # noqa: B904
        n_words = sum(p.n_words(job.batched) for p in job.parameters)
        check_words(job.label, list(found.values()), compiled.entry_name, n_words)
        assembly = library.get_asm_str(cc=(*self.architectures[0], ""))
        return found, any(f"%{r}.z" in assembly for r in ("tid", "ntid", "ctaid", "nctaid"))

    def images(self, job: Any, made: Artefact) -> Images:
        return dict(zip(made.meta["architectures"], made.blobs, strict=True))

    def handler(self, in_graph: bool) -> str:
        return "kernbridge.cuda.graph" if in_graph else "kernbridge.cuda"


@dataclass(frozen=True)
class Emulated(Target):
    """This machine's CPU; if `checked`, with a check of every access.

    `vector_math` lets loops call libmvec; by default, the kernel's `fastmath` decides.
    """

    checked: bool = False
    vector_math: bool | None = None

    emulates = True

    def words(self, kernel: Any) -> tuple[str, ...]:
        # A program of another ABI must not be taken for one of this ABI.
        mode = f"numba.cuda.{'checked' if self.checked else 'host'}.{_core.HOST_ABI}"
        if self.checked or self.vector_math in (None, is_fast(kernel)):
            return (mode,)
        return mode, f"vector_math={self.vector_math}"

    @contextmanager
    def lowering(self, raises: bool) -> Iterator[None]:
        from kernbridge._ext.emulator.compiler import isolated_compile
        from kernbridge._src.numba_common import numba_cuda_patches as patches

        with patches.compiling_for(_LIKE_CPU), patches.without_nvvm(), ExitStack() as stack:
            if self.checked:
                stack.enter_context(isolated_compile.compiling_checked())
            else:
                stack.enter_context(isolated_compile.compiling_bounded())
            if raises:
                stack.enter_context(isolated_compile.compiling_raising())
            yield

    def finish(self, job: Any, compiled: Any, opened: tuple[int, ...]) -> tuple[Images, bool]:
        from kernbridge._ext.emulator.compiler import compile as cuda_on_cpu_compile
        from kernbridge._ext.emulator.compiler.checks import Checks

        library, fast, checks = compiled._codelibrary, self.vector_math, None
        if self.checked:
            names = list(inspect.signature(job.kernel.py_func).parameters)
            names += [f"parameter {i}" for i in range(len(names), len(job.parameters))]
            parameters = with_open(job.parameters, set(opened))
            named = [
                (p.keyword or name, list(leaves([p])))
                for name, p in zip(names, parameters, strict=False)
            ]
            checks, fast = Checks.of(job.label, named, job.batched), False
        elif fast is None:
            fast = is_fast(job.kernel)
        image, uses_z = cuda_on_cpu_compile.image_of(
            job.label, library, library._entry_name, checks, fast
        )
        return {_core.HOST_CC: image}, uses_z

    def images(self, job: Any, made: Artefact) -> Images:
        from kernbridge._ext.emulator.compiler.compile import host_code

        (image,) = made.blobs
        code = host_code(image, job.label, job.kernel.py_func)
        return {_core.HOST_CC: image, _core.HOST_CODE_CC: code.data}

    def handler(self, in_graph: bool) -> str:
        return "kernbridge.cuda.host"


def is_fast(kernel: Any) -> bool:
    """Return whether a kernel's `fastmath` lets functions be approximated."""
    return bool(kernel.targetoptions.get("fastmath"))


MakeTarget = Callable[[bool, "bool | None"], Target]

_makers: dict[str, MakeTarget] = {
    "cuda": lambda checked, vector_math: Gpu(cuda.architectures()),
    "cpu": lambda checked, vector_math: Emulated(checked or debug.checks(), vector_math),
}
_of_gpus = ["cuda"]


def of_platform(platform: str, checked: bool = False, vector_math: bool | None = None) -> Target:
    return _makers[platform](checked, vector_math)


def gpu_platforms() -> tuple[str, ...]:
    return tuple(_of_gpus)


def register(platform: str, make: MakeTarget) -> None:
    """Compile for another target where JAX lowers for a platform; it counts as one of GPUs."""
    _makers[platform] = make
    if platform not in _of_gpus:
        _of_gpus.append(platform)
