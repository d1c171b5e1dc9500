"""Compiles a Numba kernel for one signature, to machine code for every process where possible.

A `CpuJob` is one compilation. Its result lives in memory, on disk and in programs as a description
for the core with machine code (src/object/kb_host_code.h), or is Numba's library in this process.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kernbridge import _core
from kernbridge._src.base.dtypes import CODES, HALVES
from kernbridge._src.base.errors import KernelCompilationError, typed
from kernbridge._src.base.packing import HostCode, host_code
from kernbridge._src.base.reports import beginning_of, warn
from kernbridge._src.forge.artefacts import Artefact
from kernbridge._src.forge.obtain import Recipe
from kernbridge._src.keys import fingerprint
from kernbridge._src.keys.identity import identity_of_job
from kernbridge._src.numba_common import private_llvmlite, refusals, vector_math, write_search
from kernbridge._src.numba_common.parameters import Assignment, KernelParameters, warn_of_copies
from kernbridge._src.numba_common.private_numba import config, numba, types
from kernbridge._src.numba_common.protect import ReturnsValue, compile_protected
from kernbridge._src.numba_cpu import entry as numba_cpu_entry
from kernbridge._src.numba_cpu import object_code
from kernbridge._src.numba_cpu.entry import Entry, HostParameter, Overload
from kernbridge._src.numba_cpu.signature import CompileOptions, Signature

# Numba's settings that do not change the code, and differ between processes.
_OTHER_SETTINGS = ("NUM_THREADS", "NUMBA_NUM_THREADS", "NUMBA_DEFAULT_NUM_THREADS", "CACHE_DIR")


@dataclass(frozen=True, slots=True)
class Native:
    """A kernel that the core can call.

    It is never released: programs that were compiled before, or come from a file, may name it.
    """

    copied: tuple[int, ...]  # inputs that the kernel may write to although they are not aliased
    program: bytes  # for other processes; empty if its machine code cannot leave this one
    why_not: str = ""  # why it cannot
    entry: Entry | None = None  # Numba's; None if the core has placed the code of `program` itself

    def export(self) -> str:
        if self.program:
            return f"as {len(self.program):,} bytes of machine code"
        return f"by name, because {self.why_not}"


@dataclass(eq=False, repr=False)
class CpuJob(Recipe[Native]):
    """One compilation. Its identity is taken when the object is made.

    Numba reads globals again for every signature that it compiles, so each has its own identity.
    """

    kernel: Any
    parameters: KernelParameters
    signature: Signature
    options: CompileOptions

    kind, tool = "numba_cpu_code", "Numba"
    origin = ""  # by which another process finds the kernel, once that was asked

    def __post_init__(self) -> None:
        s, kernel, options = self.signature, self.kernel, self.options
        self._buffer_types = (*s.inputs, *((dtype, 0) for _, dtype in s.scalars), *s.outputs)
        self.n_operands = len(s.inputs) + len(s.scalars)
        self.n_outputs = len(s.outputs)
        self.label = self.parameters.label
        self.name = kernel.py_func.__name__
        self.fingerprint = fingerprint.take(kernel)
        names = [name for name in ("checked", "zero_outputs") if getattr(options, name)]
        if options.vector_math is not None:
            names.append("vector_math" if options.vector_math else "no vector_math")
        described = repr((s.inputs, s.scalars, s.outputs, s.aliased, *names))
        if self.parameters.bound is not None:
            described += repr(self._assignment.given)
        self.why_not_portable = self.fingerprint.why_not_portable
        self._why_not = self.why_not_portable  # empty, or what keeps the code in this process
        if kernel.targetoptions.get("debug", config.DEBUGINFO_DEFAULT):
            self._why_not = "it has debug=True"
        elif config.DUMP_ASSEMBLY or config.DUMP_OPTIMIZED or config.ENABLE_PROFILING:
            self._why_not = "Numba prints or profiles the code that it compiles"
        self.lasting = not self._why_not
        wanted = options.vector_math
        self.has_vector_math = vector_math.is_default(kernel) if wanted is None else wanted
        self._native: Native | None = None  # if this object has compiled it
        self._compiled: tuple[Overload, tuple[int, ...]] | None = None  # if `libraries` has
        self.identity = identity_of_job(self, "numba.cpu", described)
        self.key = fingerprint.key_of(self.identity)

    def made_of(self) -> tuple[Any, ...]:
        """Where the kernel stands, since its exceptions name lines, and all that generates code."""
        plain = (bool, int, float, str, type(None))
        settings = (
            (name, repr(value))
            for name, value in vars(config).items()
            if name.isupper() and isinstance(value, plain) and name not in _OTHER_SETTINGS
        )
        return (
            self.fingerprint.lines,
            self.kernel.targetctx.codegen().magic_tuple(),
            numba.__version__,
            np.__version__,
            private_llvmlite.version,
            private_llvmlite.binding.llvm_version_info,
            sorted(settings),
            vector_math.provided() if self.has_vector_math else (),
        )

    def make(self) -> Artefact:
        """Compile and register the kernel.

        Code whose exceptions need no code of the user's is registered as machine code: what this
        process runs is what others get. Anything else is registered as what Numba has compiled.
        """
        entry, copied, lost = self.build()
        self._warn(copied, lost)
        if entry.parallel:
            _core.set_threading(*numba_cpu_entry.pool_functions())
        program, why_not, independent, runs_here = b"", self._why_not, False, False
        head = self.label, self.place, self.n_operands, self.n_outputs, len(copied)
        try:
            code = object_code.make(entry)
            program = host_code(self.identity, head, self._buffers(copied), code)
            independent = _core.check_host_code(self.identity, program)
            runs_here = self.lasting and code.lasting
            if runs_here:
                _core.register_host_code(self.identity, program)
        except object_code.NotCarried as e:
            why_not = why_not or str(e)
        except ValueError as e:
            why_not = why_not or f"its machine code cannot be loaded elsewhere: {e}"
        self.lasting = runs_here and not why_not
        if not self.lasting:
            nothing = HostCode(b"", features=0, places={}, lasting=False)
            described = host_code(self.identity, head, self._buffers(copied), nothing)
            n_threads = numba.get_num_threads() if entry.parallel else 0
            _core.register_host_code(
                *(self.identity, described, entry.address(), entry.parallel, n_threads), independent
            )
        # Numba's library and all that it refers to, which would last, is needed only to run it.
        kept = None if self.lasting else entry
        program = b"" if why_not else program
        self._native = Native(copied, program, why_not, kept)
        return Artefact({"copied": list(copied), "lost": list(lost)}, (program,))

    def use(self, made: Artefact) -> Native:
        """Register code from the disk; ValueError if it is damaged, or of another processor."""
        if self._native is None:
            copied = tuple(map(int, made.meta["copied"]))
            _core.register_host_code(self.identity, made.blobs[0])
            self._warn(copied, tuple(map(str, made.meta["lost"])))
            self._native = Native(copied, made.blobs[0])
        return self._native

    def _warn(self, copied: tuple[int, ...], lost: tuple[str, ...]) -> None:
        remedy = "write to a local array instead, declare the parameter read-only in an explicit "
        warn_of_copies(self.label, copied, self._assignment.names, remedy + "signature")
        for sentence in lost:
            warn(f"{self.label}: {sentence}")

    @cached_property
    def _assignment(self) -> Assignment:
        s = self.signature
        names = [name for name, _ in s.scalars]
        return self.parameters.assign(len(s.inputs), names, len(s.outputs))

    @property
    def place(self) -> str:
        place = beginning_of(self.kernel.py_func)
        return place.encode("utf-8", "backslashreplace").decode()  # files may have any name

    def _buffers(self, copied: tuple[int, ...]) -> tuple[tuple[int, int, str], ...]:
        """The dtype code, rank and name of inputs, outputs and hidden results."""
        named = zip(self._buffer_types, self._assignment.names, strict=True)
        buffers = [(CODES[dtype], rank, name) for (dtype, rank), name in named]
        return (*buffers, *(buffers[i] for i in copied))

    def build(self) -> tuple[Entry, tuple[int, ...], tuple[str, ...]]:
        """Compile the kernel and its entry; with the inputs that it may write to, and sentences
        about floats that become integers."""
        assignment, first = self._assignment, self.n_operands
        overload, copied = self._compiled or self.compile_kernel()
        self._compiled = None  # the library is closed
        by_buffer = self.host_parameters()
        parameters = [None if b is None else by_buffer[b] for b in assignment.given]
        entry = numba_cpu_entry.build_entry(overload, parameters, self.has_vector_math)
        given = assignment.given[: len(overload.arguments)]
        outputs = {
            i: assignment.names[b] for i, b in enumerate(given) if b is not None and b >= first
        }
        compile_again = numba_cpu_entry.compile_again
        return entry, copied, write_search.lost_fractions(overload[:3], outputs, compile_again)

    def libraries(self) -> list[Any]:
        self._compiled = overload, _ = self.compile_kernel()
        return [c.library for c in (overload.compiled, *overload.loops)]

    def host_parameters(self) -> list[HostParameter]:
        """What the kernel's parameters are filled from, for each buffer of a call."""
        first, names = self.n_operands, self._assignment.names
        return [
            HostParameter(
                is_output=i >= first,
                index=i - first if i >= first else i,
                type=kind,
                zeroed=self.options.zero_outputs and names[i] not in names[:first],
            )
            for i, kind in enumerate(self._types(frozenset(self.signature.aliased)))
        ]

    def compile_kernel(self) -> tuple[Overload, tuple[int, ...]]:
        """Compile with inputs as protected as the kernel allows; which ones had to be opened."""
        names = self._assignment.names

        def refusal(error: Exception) -> Exception:
            named = zip(names, self._buffer_types, strict=True)
            buffers = ", ".join(
                f"{name}: {typed(dtype, [f'{rank}d'])}" for name, (dtype, rank) in named
            )
            return KernelCompilationError(
                f"{self.label}: Numba cannot compile the kernel for {buffers} "
                "[KB4001]\n" + refusals.report(error, self.kernel.py_func)
            )

        aliased = frozenset(self.signature.aliased)
        return compile_protected(
            frozenset(range(len(self.signature.inputs))) - aliased,
            lambda opened: self._compile_overload(opened | aliased),
            refusal,
        )

    def _compile_overload(self, writable: frozenset[int]) -> Overload:
        compiling: Any = numba_cpu_entry.compiling_apart("plain", numba_cpu_entry.is_of_disk)
        if self.options.checked:
            from kernbridge._src.numba_cpu import checked as numba_cpu_checked

            compiling = numba_cpu_checked.compiling_checked(self.kernel)
        given = self._assignment.arguments(self._types(writable))
        with compiling:
            overload = numba_cpu_entry.compile_kernel(self.kernel, *given)
            if write_search.WriteSearch(numba_cpu_entry.compile_again).may_write(overload[:3]):
                raise TypeError("the kernel may write to a read-only input")
        if overload.result != types.none:
            remedy = ", or pass a function that returns them to kernbridge.kernel without `outs`"
            raise ReturnsValue(self.label, overload.result, remedy)
        return overload

    def _types(self, writable: frozenset[int]) -> list[Any]:
        """Numba's types of the buffers; inputs outside `writable` are read-only."""
        n_inputs = len(self.signature.inputs)
        result = []
        for i, (dtype, rank) in enumerate(self._buffer_types):
            item = numba.from_dtype(np.dtype("uint16" if dtype in HALVES else dtype))
            if n_inputs <= i < self.n_operands:
                result.append(item)
            else:
                read_only = i < n_inputs and i not in writable
                result.append(types.Array(item, rank, "C", readonly=read_only))
        return result
