"""Compiles a Numba-CUDA kernel for the kinds of its parameters to machine code.

No GPU is needed. The forge finds what was compiled before, by content, in the process or on disk.
"""

from __future__ import annotations

import copy
import itertools
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kernbridge._src.base import versions
from kernbridge._src.base.errors import KernelCompilationError, UnknownVersionError, defect
from kernbridge._src.base.lru import attached_to
from kernbridge._src.base.reports import warn
from kernbridge._src.forge.artefacts import Artefact
from kernbridge._src.forge.obtain import Recipe, held, obtain
from kernbridge._src.keys import fingerprint
from kernbridge._src.keys.identity import identity_of_job
from kernbridge._src.numba_common import refusals
from kernbridge._src.numba_common.protect import compile_protected
from kernbridge._src.numba_cuda import dialect
from kernbridge._src.plan import program
from kernbridge._src.plan.program import Launch, Parameter, Parameters, Word, leaves, with_open
from kernbridge._src.plan.targets import Gpu, Target
from kernbridge._src.toolchain import cuda as toolchain_cuda


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class NumbaCudaFunction(program.DeviceFunction):
    """Machine code of one kernel for one list of parameters: one object for each identity.

    `opened` are the leaves of the parameters that the kernel may write to, although they should be
    read-only.
    """

    opened: tuple[int, ...]
    uses_z: bool
    cooperative: bool
    parameters: tuple[Parameter, ...]
    batched: bool
    kernel: Any  # a weak reference to the dispatcher

    @property
    def n_words(self) -> int:
        return sum(p.n_words(self.batched) for p in self.parameters)

    def code(self) -> tuple[str, str]:
        """LLVM IR and PTX. Neither is kept, so the kernel is compiled again."""
        kernel = self.kernel()
        if kernel is None:
            raise KernelCompilationError(defect(f"the kernel {self.name!r} is gone"))
        architecture = divmod(self.images[0][0], 10)
        job = KernelJob(self.name, kernel, self.parameters, self.batched, Gpu((architecture,)))
        library = job.dialect.compile_entry(job.with_open(self.opened))._codelibrary
        return library.get_llvm_str(), library.get_asm_str(cc=(*architecture, ""))


class KernelJob(Recipe[NumbaCudaFunction]):
    """The compilation of a kernel for its parameters and a target.

    Machine code for GPUs lives as long as a kernel that it was made for, or a plan that launches
    it. The core has copies of the code that it has loaded.
    """

    def __init__(
        self, label: str, kernel: Any, parameters: Parameters, batched: bool, target: Target
    ) -> None:
        self.label, self.kernel, self.parameters = label, kernel, tuple(parameters)
        self.batched, self.target = batched, target
        self.name = kernel.py_func.__name__
        self.tool = self.dialect.PACKAGE
        # Numba reads globals when it compiles for a signature: each has one fingerprint.
        identities = tuple(parameter.identity() for parameter in self.parameters)
        key = ("fingerprint", identities, batched, type(target))
        self.fingerprint = attached_to(
            kernel, key, lambda: fingerprint.take(target.counterpart(label, kernel))
        )
        where, *options = target.words(kernel)
        self.digest = self.fingerprint.digest  # until it is known what is inlined
        self.identity = self.digest = identity_of_job(self, where, identities, batched, *options)
        self.identity += target.key()
        self.lasting = not self.fingerprint.opaque
        self.kind, self.memory = target.kept(self.lasting)
        self.why_not_portable = self.fingerprint.why_not_portable

    @property
    def dialect(self) -> Any:
        """The dialect in which the target compiles the kernel."""
        return dialect.of(self.kernel, self.target)

    @property
    def symbol(self) -> str:
        """A name for the entry that no other kernel has: Numba numbers its own in each process."""
        return f"{self.name}_{self.digest[:6].hex()}"

    def with_open(self, opened: Iterable[int]) -> KernelJob:
        """This job, where the kernel may write to the leaves of its parameters of these numbers."""
        job = copy.copy(self)
        job.parameters = with_open(self.parameters, set(opened))
        return job

    def for_target(self, target: Target) -> KernelJob:
        """This job for a target, with the kernel that it compiles in place of another."""
        job = copy.copy(self)
        job.target, job.kernel = target, target.counterpart(self.label, self.kernel)
        return job

    def made_of(self) -> tuple[Any, ...]:
        return toolchain_cuda.versions()

    def libraries(self) -> list[Any]:
        compiled, _ = self.for_target(self.target).compile()
        return [compiled._codelibrary]

    def compile(self) -> tuple[Any, tuple[int, ...]]:
        """Compile to LLVM IR; with the leaves of parameters that had to be opened."""
        from kernbridge._src.numba_common.private_numba_cuda import global_compiler_lock

        with global_compiler_lock:
            return compile_protected(
                (i for i, p in enumerate(leaves(self.parameters)) if p.read_only),
                lambda opened: self.dialect.compile_entry(self.with_open(opened)),
                self.refusal,
            )

    def make(self) -> Artefact:
        from kernbridge._src.numba_common.private_numba_cuda import global_compiler_lock

        job = self.for_target(self.target)
        with global_compiler_lock:
            compiled, opened = job.compile()
            images, uses_z = job.target.finish(job, compiled, opened)
        meta = {
            "entry": compiled.entry_name,
            "architectures": list(images),
            "opened": list(opened),
            "lost": list(compiled.lost_fractions),
            "uses_z": uses_z,
            "cooperative": bool(compiled.cooperative),
        }
        return Artefact(meta, tuple(images.values()))

    def use(self, made: Artefact) -> NumbaCudaFunction:
        meta = made.meta
        for sentence in () if self.batched else meta.get("lost", ()):  # it is compiled for both
            warn(f"{self.label}: {sentence}")
        return NumbaCudaFunction(
            identity=self.digest,
            name=self.name,
            entry=meta["entry"],
            images=tuple(self.target.images(self, made).items()),
            opened=tuple(meta["opened"]),
            uses_z=meta["uses_z"],
            cooperative=meta["cooperative"],
            why_not_portable=self.why_not_portable,
            parameters=self.parameters,
            batched=self.batched,
            kernel=weakref.ref(self.kernel),
        )

    def refusal(self, error: Exception) -> Exception:
        missing = versions.missing_name(error)
        if missing is not None or isinstance(error, (KernelCompilationError, UnknownVersionError)):
            return missing or error
        remedy = self.dialect.refusal(self.label, self.target.architectures, error)
        if isinstance(remedy, Exception):
            return remedy
        what = ", ".join(p.describe() for p in self.parameters)
        return KernelCompilationError(
            f"{self.label}: {self.tool} cannot compile the kernel for ({what}) [KB4001]\n"
            + (remedy or refusals.report(error, self.kernel.py_func, of_cuda=True))
        )


def compile_kernel(job: KernelJob) -> NumbaCudaFunction:
    """Machine code for these parameters, compiled at most once per content and target.

    KernelCompilationError is raised if the kernel is refused, and TypeError if it returns a value.
    """
    function, kernel = obtain(job), job.kernel
    if function.kernel() is None:  # equal kernels share code; keep one that is alive
        function = held(job.kind)[job.identity] = replace(function, kernel=weakref.ref(kernel))
    attached_to(kernel, "functions", dict[bytes, NumbaCudaFunction])[job.identity] = function
    return function


def compiled_launch(
    label: str,
    kernel: Any,
    arguments: Sequence[program.Argument],
    launch: Launch,
    has_batch: bool,
    target: Target,
) -> tuple[Launch, set[int]]:
    """A launch with machine code for its arguments, and the read-only buffers it may write to.

    If there is a batch, and the launch leaves the z axis of the grid free, it serves all slices.
    """
    parameters = [parameter for parameter, _ in arguments]
    of_leaves = [words for _, all_ in arguments for words in all_]
    _check_declared(label, kernel, parameters)
    function = compile_kernel(KernelJob(label, kernel, parameters, False, target))
    cooperative = launch.cooperative or function.cooperative
    z_is_free = launch.grid[2] == program.Value(constant=1) and not (function.uses_z or cooperative)
    if wide := has_batch and z_is_free:
        function = compile_kernel(KernelJob(label, kernel, parameters, True, target))
    words: list[Word] = []
    for word in itertools.chain.from_iterable(of_leaves):
        words.append(word)
        if wide and word.kind == "address":
            words.append(Word("stride", buffer=word.buffer))
    opened = {of_leaves[i][0].buffer for i in function.opened}
    if launch.auto_block:
        function = replace(function, auto_shared=launch.shared)
    how = replace(launch, words=tuple(words), cooperative=cooperative, wide=wide)
    return replace(how, function=function), opened


DECLARED = "_kernbridge_declared"  # signatures that a dispatcher was given where CPUs run CUDA


def declared(kernel: Any) -> tuple[Any, ...]:
    """The signatures that a kernel was declared for, in a GPU's mode or in the CPU's."""
    return tuple(vars(kernel).get(DECLARED) or kernel.overloads)


def _check_declared(label: str, kernel: Any, parameters: Parameters) -> None:
    """Refuse arrays that fit none of the signatures that `cuda.jit` was given."""
    if getattr(kernel, "_can_compile", True):
        return

    def arrays(signature: Iterable[Any]) -> list[Any]:
        return [(t.dtype, t.ndim) if hasattr(t, "ndim") else None for t in signature]

    parameter_type = dialect.of(kernel).parameter_type
    signatures = declared(kernel)
    if arrays(map(parameter_type, parameters)) in map(arrays, signatures):
        return
    raise TypeError(
        f"{label}: the kernel was declared for {', '.join(map(str, signatures))}, but the call "
        f"has ({', '.join(p.describe() for p in parameters)}); convert the arrays, or decorate "
        "the kernel without a signature [KB4001]"
    )
