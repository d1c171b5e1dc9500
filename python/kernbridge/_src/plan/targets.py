"""The targets of GPU kernels: where they run, and all that differs between these machines.

`Gpu` is NVIDIA's GPUs. An extension has the target that runs kernels on the CPU in place of a GPU,
and a package of someone else may have one, too: it derives from `Target` and calls `register`.
Nobody asks which target it is. docs/design/0010-targets.md lists what a target fills in, and how a
process finds it.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import math
import os
import re
import shutil
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from kernbridge import _core
from kernbridge._src.base import extensions
from kernbridge._src.base.dtypes import HALVES
from kernbridge._src.base.errors import KernelNotAvailableError
from kernbridge._src.base.reports import instead_of
from kernbridge._src.forge.artefacts import Artefact
from kernbridge._src.operation.inspection import Inspection
from kernbridge._src.plan import cubin
from kernbridge._src.plan.program import Launch
from kernbridge._src.toolchain import cuda, programs

Images = dict[int, bytes]  # by architecture: 10 major + minor of a GPU, or a number for CPUs


class Target(ABC):
    """Where kernels run. Equal targets run the same machine code; they are hashed.

    A job is a `numba_cuda.compile.KernelJob`: the kernel, its parameters and its label.
    """

    architectures: tuple[tuple[int, int], ...] = ()  # of GPUs; errors name them
    checked: bool = False  # every access is checked
    raises: bool = False  # kernels with debug=True raise exceptions, without Numba's launcher
    language: str = ""  # of `toolchain.library`, by which CUDA C++ is compiled; "" if it is not
    numba_lacks: Collection[str] = HALVES  # dtypes that Numba's own arrays do not support

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

    def key(self) -> bytes:
        """Return what distinguishes machine code of one identity."""
        return repr(self).encode()

    def kept(self, lasting: bool) -> tuple[str, type[Any]]:
        """Return the `kind` and the `memory` of recipes, see `forge.obtain.Recipe`."""
        return "numba_cuda", weakref.WeakValueDictionary

    def announce(self, label: str) -> None:  # noqa: B027
        """Say that an operation is lowered for this target, or raise an error if it must not be."""

    def compiles(self, kernel: Any) -> bool:
        """Return whether a kernel is compiled as it is, and not its counterpart."""
        return True

    def counterpart(self, label: str, kernel: Any) -> Any:
        """Return the kernel that is compiled in place of another."""
        return kernel

    def why_not_by_numba(self, label: str, option: str) -> Exception | None:
        """Return an error if Numba's launcher cannot launch a kernel that has an option."""
        return None

    def running(self) -> AbstractContextManager[Any]:
        """Let a Python function launch kernels through Numba."""
        return nullcontext()

    def inspect(self, step: Launch) -> Inspection:
        """Return the code and resources of a launch."""
        block = None if step.auto_block else step.block
        return Inspection(step.function.name, "", "", "", shared_memory=step.shared, block=block)


@dataclass(frozen=True)
class Gpu(Target):
    architectures: tuple[tuple[int, int], ...]

    language = "cuda"

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
        cubin.check_words(job.label, list(found.values()), compiled.entry_name, n_words)
        assembly = library.get_asm_str(cc=(*self.architectures[0], ""))
        return found, any(f"%{r}.z" in assembly for r in ("tid", "ntid", "ctaid", "nctaid"))

    def images(self, job: Any, made: Artefact) -> Images:
        return dict(zip(made.meta["architectures"], made.blobs, strict=True))

    def handler(self, in_graph: bool) -> str:
        return "kernbridge.cuda.graph" if in_graph else "kernbridge.cuda"

    def inspect(self, step: Launch) -> Inspection:
        function = step.function
        cc, image = function.images[0]
        about = super().inspect(step)
        info = cubin.read(image, function.entry)
        llvm_ir, ptx = function.code()
        occupancy = None
        if _core.device_count()[0]:
            threads = 0 if about.block is None else math.prod(about.block)
            with contextlib.suppress(RuntimeError):  # compiled for another GPU than the first
                occupancy = _core.occupancy(image, function.entry, threads, step.shared)
        return replace(
            about,
            platform="cuda",
            llvm_ir=llvm_ir,
            assembly=ptx,
            sass=_disassemble(image),
            architecture=f"sm_{cc}",
            registers=info.registers,
            shared_memory=info.static_shared + step.shared,
            local_memory=info.local,
            occupancy=occupancy,
        )


def is_fast(kernel: Any) -> bool:
    """Return whether a kernel's `fastmath` lets functions be approximated."""
    return bool(kernel.targetoptions.get("fastmath"))


# The target of a platform, if accesses are checked, and if loops may call a library of vectors
MakeTarget = Callable[[bool, "bool | None"], Target]

_makers: dict[str, MakeTarget] = {"cuda": lambda checked, vector_math: Gpu(cuda.architectures())}
_of_gpus = ["cuda"]


def of_platform(
    platform: str,
    checked: bool = False,
    vector_math: bool | None = None,
    label: str = "a CUDA kernel",
) -> Target:
    """Return the target of a platform of JAX; KernelNotAvailableError is raised if it has none."""
    make, failed = _makers.get(platform), ""
    if make is None and platform == "cpu":
        make = getattr(extensions.find("target"), "make", None)
    if make is None:
        failed = extensions.load_installed()
        make = _makers.get(platform)
    if make is None:
        raise KernelNotAvailableError(
            f"{label} was lowered for {platform}, and no extension of this installation runs CUDA "
            f"kernels there{failed}; install kernbridge again, whose extension 'emulator' runs "
            "them on CPUs, or commit the inputs to a GPU, jax.device_put(x, jax.devices('cuda')[0])"
            " [KB7001]"
        )
    return make(checked, vector_math)


def platforms() -> tuple[str, ...]:
    """Return the platforms that kernels of GPUs may be lowered for."""
    return tuple(dict.fromkeys(("cuda", "cpu", *_makers)))


def gpu_platforms() -> tuple[str, ...]:
    """Return the platforms on which libraries run that nvcc compiled."""
    return tuple(_of_gpus)


def register(platform: str, make: MakeTarget) -> None:
    """Compile for another target where JAX lowers for a platform."""
    _makers[platform] = make


def _disassemble(image: bytes) -> str | None:
    """Run nvdisasm of PATH, CUDA_HOME or NVIDIA's wheel, if there is one."""
    folders = [os.environ.get("PATH", os.defpath)]
    folders.append(f"{os.environ.get('CUDA_HOME', '/usr/local/cuda')}/bin")
    spec = importlib.util.find_spec("nvidia")
    for place in (spec.submodule_search_locations or []) if spec else []:
        folders += [f"{place}/cu13/bin", f"{place}/cuda_nvdisasm/bin"]
    tool = shutil.which("nvdisasm", path=os.pathsep.join(folders))
    if tool is None:
        return None
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(image)
        file.flush()
        done = programs.run([tool, "-c", file.name], written=1 << 28)
    return None if done.status else re.sub(r"\s*/\* 0x[0-9a-f]+ \*/", "", done.text)
