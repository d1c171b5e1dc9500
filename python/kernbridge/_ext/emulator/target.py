"""The target of CUDA kernels that run on the CPU in place of a GPU."""

from __future__ import annotations

import inspect
import os
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from kernbridge import _core
from kernbridge._ext.emulator.cuda_source import CPP_ON_CPU
from kernbridge._src.base import debug
from kernbridge._src.base.errors import KernelNotAvailableError
from kernbridge._src.forge.artefacts import Artefact
from kernbridge._src.keys import fingerprint
from kernbridge._src.operation.inspection import Inspection
from kernbridge._src.plan.program import Launch, leaves, with_open
from kernbridge._src.plan.targets import Images, Target, is_fast
from kernbridge._src.toolchain import cuda
from kernbridge._src.toolchain.library import CUDA_ON_CPU


@dataclass(frozen=True)
class Emulated(Target):
    """This machine's CPU; if `checked`, with a check of every access.

    `vector_math` lets loops call libmvec; by default, the kernel's `fastmath` decides.
    """

    checked: bool = False
    vector_math: bool | None = None

    raises = True
    language = CUDA_ON_CPU
    numba_lacks = ()

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

        asking = isolated_compile.compiling(self.checked, raises)
        # The IR is the same for all architectures that Numba-CUDA types for.
        with patches.compiling_for((9, 0)), patches.without_nvvm(), asking:
            yield

    def finish(self, job: Any, compiled: Any, opened: tuple[int, ...]) -> tuple[Images, bool]:
        from kernbridge._ext.emulator.compiler.compile import image_of

        library, fast, checks = compiled._codelibrary, self.vector_math, None
        if self.checked:
            checks, fast = _checks(job, opened), False
        elif fast is None:
            fast = is_fast(job.kernel)
        image, uses_z = image_of(job.label, library, library._entry_name, checks, fast)
        return {_core.HOST_CC: image}, uses_z

    def images(self, job: Any, made: Artefact) -> Images:
        from kernbridge._ext.emulator.compiler.compile import host_code

        (image,) = made.blobs
        code = host_code(image, job.label, getattr(job.kernel, "py_func", None))
        return {_core.HOST_CC: image, _core.HOST_CODE_CC: code.data}

    def handler(self, in_graph: bool) -> str:
        return "kernbridge.cuda.host"

    def key(self) -> bytes:
        return b""  # the words are enough

    def kept(self, lasting: bool) -> tuple[str, type[Any]]:
        # Never released, except for opaque kernels, which equal no other: Numba numbers what it
        # compiles, so other code would be made of an equal kernel.
        if lasting:
            return "numba_cuda_on_cpu", dict
        return "numba_cuda_opaque", weakref.WeakValueDictionary

    def announce(self, label: str) -> None:
        cuda.tell_of_cpu(label)

    def compiles(self, kernel: Any) -> bool:
        return not fingerprint.is_mlir(kernel)

    def counterpart(self, label: str, kernel: Any) -> Any:
        from kernbridge._ext.emulator.counterpart import counterpart

        return kernel if self.compiles(kernel) else counterpart(label, kernel)

    def why_not_by_numba(self, label: str, option: str) -> Exception | None:
        return KernelNotAvailableError(
            f"{label} was lowered for the CPU, but has {option}, which only Numba's own launcher "
            "supports, on a GPU; remove it (check=True finds faults on the CPU) [KB4005]"
        )

    def running(self) -> AbstractContextManager[Any]:
        from kernbridge._ext.emulator.device.switch import cuda_on_cpu

        return cuda_on_cpu()

    def inspect(self, step: Launch) -> Inspection:
        from kernbridge._ext.emulator.compiler import compile as emulator_compile
        from kernbridge._ext.emulator.compiler import ir

        found = replace(super().inspect(step), platform="cpu", architecture=os.uname().machine)
        _, image = step.function.images[0]
        if CPP_ON_CPU.encode() in image:  # whose library is known, and no code
            return found
        machine, module, *_ = emulator_compile.compiled(image[:-1].decode().split("\n", 1)[1])
        return replace(
            found,
            llvm_ir=str(module),
            assembly=machine.emit_assembly(module),
            architecture=ir.processor()[0],
            shared_memory=emulator_compile.size_of(module, "shared") + step.shared,
        )


def _checks(job: Any, opened: tuple[int, ...]) -> Any:
    from kernbridge._ext.emulator.compiler import checks

    names = list(inspect.signature(job.kernel.py_func).parameters)
    names += [f"parameter {i}" for i in range(len(names), len(job.parameters))]
    arguments, word = [], 0
    for name, parameter in zip(names, with_open(job.parameters, set(opened)), strict=False):
        for leaf in leaves([parameter]):
            if leaf.kind != "scalar":
                described = f"{parameter.keyword or name!r} ({leaf.describe()})"
                flags = checks.BATCHED * job.batched + checks.STRIDED * (leaf.layout != "C")
                flags += checks.CONSTANT * leaf.read_only
                sizes = leaf.dtype.itemsize, checks.written_together(leaf.dtype)
                arguments.append(checks.Argument(described, word, *sizes, leaf.ndim, flags))
            word += leaf.n_words(job.batched)
    return checks.Checks(job.label, arguments)


def make(checked: bool, vector_math: bool | None) -> Emulated:
    return Emulated(checked or debug.checks(), vector_math)
