"""Compiles a Numba kernel for a signature and registers it, once per process and content."""

from __future__ import annotations

import functools
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kernbridge import _core
from kernbridge._src.base import debug
from kernbridge._src.base.errors import KernelCompilationError
from kernbridge._src.base.reports import beginning_of
from kernbridge._src.forge import interrupts, progress
from kernbridge._src.numba_common import refusals, vector_math
from kernbridge._src.numba_common.protect import ReturnsValue, compile_protected
from kernbridge._src.numba_cpu import carried
from kernbridge._src.numba_cpu.carried import Carried, Warnings
from kernbridge._src.numba_cpu.signature import CompileOptions, Signature
from kernbridge._src.operation.parameters import Assignment, KernelParameters
from kernbridge._src.operation.primitive import NativeCall

if TYPE_CHECKING:
    from kernbridge._src.keys.fingerprint import Fingerprint
    from kernbridge._src.numba_cpu.entry import Entry, Overload

_DTYPE_CODES = {name: code for name, (code, _bits) in _core.dtypes().items()}
_AS_BITS = {"bfloat16": "uint16", "float16": "uint16"}


@functools.lru_cache(maxsize=256)  # kernels are lowered for one shape after the other
def _described(signature: Signature, options: CompileOptions) -> str:
    """The part of a kernel's identity that is not in its code: texts and integers, as Python."""
    s = signature
    return repr((s.inputs, s.scalars, s.outputs, s.aliased, *options.names))


@functools.lru_cache(maxsize=256)
def _digest(fingerprint: Fingerprint, described: str) -> bytes:
    from kernbridge._src.keys import fingerprint as keys_fingerprint

    return keys_fingerprint.combine(fingerprint, "numba.cpu", described)


@dataclass(frozen=True, slots=True)
class Native:
    """Registered code."""

    digest: bytes
    copied: tuple[int, ...]  # inputs that the kernel may write without being allowed to
    carried: Carried  # what other processes get of it
    entry: Entry | None = None  # Numba's; None if the core has placed the machine code itself


# Never released: the core has the addresses of the machine code, and finds them for every program
# that names a kernel of this content, one that was compiled long ago or comes from a file included.
_registered: dict[bytes, Native] = {}
_lock = threading.RLock()


class Compiler:
    """Compiles one kernel for one signature after the other."""

    def __init__(self, kernel: Any, label: str, options: CompileOptions) -> None:
        self.kernel = kernel
        self.label = label
        self.options = options
        self.parameters = KernelParameters(label, kernel.py_func)
        self._returning_nothing: set[Signature] = set()
        self._identities: dict[Signature, tuple[bytes, Fingerprint]] = {}
        self._keys_on_disk: dict[Signature, bytes | None] = {}

    def digest(self, signature: Signature) -> bytes:
        """Identity of the kernel for this signature; taken once, when it is first asked for.

        Numba reads globals again for every signature that it compiles, so each has its own.
        """
        return self._identity(signature)[0]

    def _identity(self, signature: Signature) -> tuple[bytes, Fingerprint]:
        known = self._identities.get(signature)
        if known is not None:
            return known
        from kernbridge._src.keys import fingerprint_cache

        with _lock:
            known = self._identities.get(signature)
            if known is None:
                fingerprint = fingerprint_cache.take(self.kernel)
                digest = _digest(fingerprint, _described(signature, self.options))
                known = self._identities[signature] = digest, fingerprint
            return known

    def native(self, signature: Signature) -> Native:
        """Compile and register, unless this process already did for a kernel of equal content."""
        digest = self.digest(signature)
        found = _registered.get(digest)
        if found is not None:
            return found
        with interrupts.deferred(), _lock:
            digest = self.digest(signature)  # another thread may have dropped it in between
            if digest not in _registered:
                _registered[digest] = self._load(digest, signature) or self._make(digest, signature)
            return _registered[digest]

    def library(self, signature: Signature) -> Any:
        """Numba's library of the kernel; compiled for that, unless the machine code is in it."""
        with interrupts.deferred(), _lock:
            entry = self.native(signature).entry
            if entry is None:
                entry, _ = self._build(signature, self._assign(signature), by_numba=True)
            return entry.keep[0]

    def check_result(self, signature: Signature) -> None:
        """Refuse a kernel that returns a value; compiles it, once, unless its code is on disk."""
        with interrupts.deferred(), _lock:
            if signature not in self._returning_nothing and not self._is_kept(signature):
                self._find_overload(signature, self._assign(signature))
                self._returning_nothing.add(signature)

    def _is_kept(self, signature: Signature) -> bool:
        """Whether the code of the kernel is registered, or on disk, and registered then."""
        digest = self.digest(signature)
        native = _registered.get(digest) or self._load(digest, signature)
        if native is None:  # globals may change until the kernel is compiled
            del self._identities[signature]
            self._keys_on_disk.pop(signature, None)
            return False
        _registered[digest] = native
        return True

    def _assign(self, signature: Signature) -> Assignment:
        return self.parameters.assign(
            len(signature.inputs), [name for name, _ in signature.scalars], len(signature.outputs)
        )

    def _make(self, digest: bytes, signature: Signature) -> Native:
        with progress.compiling(self.label, "Numba"):
            return self._compile(digest, signature)

    def _compile(self, digest: bytes, signature: Signature) -> Native:
        from kernbridge._src.numba_common.private_numba import numba
        from kernbridge._src.numba_cpu import entry as numba_cpu_entry
        from kernbridge._src.numba_cpu import errors

        errors.install()
        assignment = self._assign(signature)
        travels = self._travels(signature)
        entry, warnings = self._build(signature, assignment, by_numba=not travels)
        warnings.issue(self.label, assignment.names)
        if entry.parallel:
            _core.set_threading(*numba_cpu_entry.pool_functions())
        about = self._describe(signature, assignment, warnings.copied)
        if travels:
            key = self._key_on_disk(signature)
            code = carried.make(key, digest, about, warnings, entry)
        else:
            independent = carried.is_independent(digest, about, entry)
            code = Carried(why_not=self._why_not_carried(signature), independent=independent)
        if not code.runs_here:
            _core.register_host(
                digest,
                about.name,
                about.source,
                about.n_inputs,
                about.n_outputs,
                about.buffers,
                entry.address(),
                entry.parallel,
                numba.get_num_threads() if entry.parallel else 0,
                code.independent,
            )
        # Numba's library and all that it refers to, which would last, is needed only to run it.
        return Native(digest, warnings.copied, code, None if code.runs_here else entry)

    def _load(self, digest: bytes, signature: Signature) -> Native | None:
        """Register the machine code that the disk has; None if there is none."""
        if not self._travels(signature):
            return None
        found = carried.load(self._key_on_disk(signature), digest)
        if found is None:
            return None
        found.warnings.issue(self.label, self._assign(signature).names)
        return Native(digest, found.warnings.copied, Carried(found.program, runs_here=True))

    def _key_on_disk(self, signature: Signature) -> bytes | None:
        """The key of the kernel's code on disk. It depends on where the kernel stands, since its
        exceptions name lines."""
        if signature not in self._keys_on_disk:
            digest, fingerprint = self._identity(signature)
            key = carried.key(self.kernel, digest, fingerprint.lines, self._has_vector_math)
            self._keys_on_disk[signature] = key
        return self._keys_on_disk[signature]

    def _travels(self, signature: Signature) -> bool:
        """Whether other processes recognise the kernel, and its code is not printed by Numba."""
        return not self._why_not_carried(signature)

    def _why_not_carried(self, signature: Signature) -> str:
        """Empty, or what keeps the kernel's code in this process before it is compiled."""
        from kernbridge._src.numba_common.private_numba import config

        if self.kernel.targetoptions.get("debug", config.DEBUGINFO_DEFAULT):
            return "it has debug=True"
        if config.DUMP_ASSEMBLY or config.DUMP_OPTIMIZED or config.ENABLE_PROFILING:
            return "Numba prints or profiles the code that it compiles"
        return self._identity(signature)[1].why_not_portable

    def _build(
        self, signature: Signature, assignment: Assignment, by_numba: bool
    ) -> tuple[Entry, Warnings]:
        """Compile the kernel and its entry."""
        from kernbridge._src.numba_common import rounding
        from kernbridge._src.numba_cpu import entry as numba_cpu_entry

        overload, copied = self._find_overload(signature, assignment)
        parameters = self._entry_parameters(signature, assignment)
        entry = numba_cpu_entry.build_entry(overload, parameters, self._has_vector_math, by_numba)
        given, first = assignment.given[: len(overload.arguments)], signature.n_operands
        outputs = {
            i: assignment.names[b] for i, b in enumerate(given) if b is not None and b >= first
        }
        compiled = overload.kernel, overload.arguments, overload.compiled
        lost = rounding.lost_fractions(*compiled, outputs, numba_cpu_entry.compile_again)
        return entry, Warnings(copied, lost)

    @property
    def _has_vector_math(self) -> bool:
        wanted = self.options.vector_math
        return vector_math.is_default(self.kernel) if wanted is None else wanted

    def _describe(
        self, signature: Signature, assignment: Assignment, copied: tuple[int, ...]
    ) -> carried.Description:
        place = beginning_of(self.kernel.py_func)
        buffers = [
            (_DTYPE_CODES[dtype], rank, name)
            for (dtype, rank), name in zip(signature.buffers, assignment.names, strict=True)
        ]
        return carried.Description(
            name=self.label,
            kernel=self.kernel.py_func.__name__,
            source=place.encode("utf-8", "backslashreplace").decode(),  # files may have any name
            n_inputs=signature.n_operands,
            n_outputs=len(signature.outputs),
            buffers=(*buffers, *(buffers[i] for i in copied)),
        )

    def _types(self, signature: Signature, writable: frozenset[int]) -> list[Any]:
        """Numba types of the buffers; inputs outside `writable` are read-only."""
        from kernbridge._src.numba_common.private_numba import numba, types

        n_inputs = len(signature.inputs)
        result = []
        for i, (dtype, rank) in enumerate(signature.buffers):
            item = numba.from_dtype(np.dtype(_AS_BITS.get(dtype, dtype)))
            if n_inputs <= i < signature.n_operands:
                result.append(item)
            else:
                read_only = i < n_inputs and i not in writable
                result.append(types.Array(item, rank, "C", readonly=read_only))
        return result

    def _find_overload(
        self, signature: Signature, assignment: Assignment
    ) -> tuple[Overload, tuple[int, ...]]:
        """Compile with inputs as protected as the kernel allows; which ones had to be opened."""

        def refusal(error: Exception) -> Exception:
            named = zip(assignment.names, signature.buffers, strict=True)
            buffers = ", ".join(f"{name}: {dtype}[{rank}d]" for name, (dtype, rank) in named)
            return KernelCompilationError(
                f"{self.label}: Numba cannot compile the kernel for {buffers} "
                "[KB4001]\n" + refusals.report(error, self.kernel.py_func)
            )

        aliased = frozenset(signature.aliased)
        return compile_protected(
            frozenset(range(len(signature.inputs))) - aliased,
            lambda opened: self._compile_overload(signature, assignment, opened | aliased),
            refusal,
        )

    def _compile_overload(
        self, signature: Signature, assignment: Assignment, writable: frozenset[int]
    ) -> Overload:
        from kernbridge._src.numba_common import readonly
        from kernbridge._src.numba_common.private_numba import types
        from kernbridge._src.numba_cpu import apart
        from kernbridge._src.numba_cpu import entry as numba_cpu_entry

        compiling: Any = apart.compiling_apart("plain", apart.is_of_disk)
        if self.options.checked:
            from kernbridge._src.numba_cpu import checked as numba_cpu_checked

            compiling = numba_cpu_checked.compiling_checked(self.kernel)
        given = assignment.arguments(self._types(signature, writable))
        with compiling:
            overload = numba_cpu_entry.compile_kernel(self.kernel, *given)
            search = readonly.WriteSearch(numba_cpu_entry.compile_again)
            if search.may_write(overload.kernel, overload.arguments, overload.compiled):
                raise TypeError("the kernel may write to a read-only input")
        if overload.result != types.none:
            raise ReturnsValue(self.label, overload.result)
        return overload

    def _entry_parameters(self, signature: Signature, assignment: Assignment) -> list[Any]:
        """The buffer of each parameter of the kernel; None for a default."""
        from kernbridge._src.numba_cpu.entry import HostParameter

        n, zeroed = signature.n_operands, self.options.zero_outputs
        by_buffer = [
            HostParameter(is_output=i >= n, index=i - n if i >= n else i, type=t, zeroed=zeroed)
            for i, t in enumerate(self._types(signature, frozenset(signature.aliased)))
        ]
        return [None if b is None else by_buffer[b] for b in assignment.given]

    def lower(self, signature: Signature, native: Native, origin: str) -> NativeCall:
        """What the lowering needs of the registered code."""
        from kernbridge._src.keys.encode import key_of

        return NativeCall(
            target=debug.host_target(),
            digest=native.digest,
            key=key_of(native.digest),
            origin=origin,
            copied=native.copied,
            why_not_portable=self._identity(signature)[1].why_not_portable,
            program=native.carried.program,
        )
