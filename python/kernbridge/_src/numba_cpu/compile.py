"""From a Numba kernel and a signature to registered native code, once per process and content."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kernbridge import _core
from kernbridge._src.base import debug
from kernbridge._src.base.errors import (
    KernbridgeWarning,
    KernelCompilationError,
    UnknownVersionError,
)
from kernbridge._src.numba_common.parameters import Assignment, KernelParameters
from kernbridge._src.operation.primitive import NativeCall

if TYPE_CHECKING:
    from kernbridge._src.keys.fingerprint import Fingerprint
    from kernbridge._src.numba_cpu.entry import Overload

_DTYPE_CODES = {name: code for name, (code, _bits) in _core.dtypes().items()}
_AS_BITS = {"bfloat16": "uint16", "float16": "uint16"}

ArraySignature = tuple[str, int]  # dtype name, rank


@dataclass(frozen=True, slots=True)
class Signature:
    """What machine code is made for: everything about a call but its shapes."""

    inputs: tuple[ArraySignature, ...]
    scalars: tuple[tuple[str, str], ...]  # (name, dtype name), sorted
    outputs: tuple[ArraySignature, ...]
    aliased: tuple[int, ...]  # inputs that share memory with an output, hence are writable

    @property
    def buffers(self) -> tuple[ArraySignature, ...]:
        return (*self.inputs, *((dtype, 0) for _, dtype in self.scalars), *self.outputs)

    @property
    def n_operands(self) -> int:
        return len(self.inputs) + len(self.scalars)


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """How a kernel is compiled, whatever its signature."""

    checked: bool = False  # every index is checked
    zero_outputs: bool = False  # outputs that are not aliased are filled before the kernel runs


@dataclass(frozen=True, slots=True)
class Native:
    """Registered code."""

    digest: bytes
    copied: tuple[int, ...]  # inputs that the kernel may write without being allowed to
    keep: Any  # owners of the machine code


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
        self._native: dict[Signature, Native] = {}
        self._returning_nothing: set[Signature] = set()
        self._identities: dict[Signature, tuple[bytes, Fingerprint]] = {}

    def digest(self, signature: Signature) -> bytes:
        """Identity of the kernel for this signature; taken once, when it is first asked for.

        Numba reads globals anew for every signature that it compiles, so each has its own.
        """
        return self._identity(signature)[0]

    def why_not_portable(self, signature: Signature) -> str:
        """Empty, or what keeps other processes from recognising the kernel."""
        return self._identity(signature)[1].why_not_portable

    def _identity(self, signature: Signature) -> tuple[bytes, Fingerprint]:
        from kernbridge._src.keys import fingerprint as keys_fingerprint

        with _lock:
            if signature not in self._identities:
                fingerprint = keys_fingerprint.take(self.kernel)
                digest = keys_fingerprint.combine(
                    fingerprint,
                    "numba.cpu",
                    signature.inputs,
                    signature.scalars,
                    signature.outputs,
                    signature.aliased,
                    *(name for name, on in asdict(self.options).items() if on),
                )
                self._identities[signature] = digest, fingerprint
            return self._identities[signature]

    def native(self, signature: Signature) -> Native:
        """Compile and register, unless this process already did for a kernel of equal content."""
        with _lock:
            native = self._native.get(signature)
            if native is None:
                digest = self.digest(signature)
                native = _registered.get(digest)
                if native is None:
                    native = _registered[digest] = self._compile(digest, signature)
                self._native[signature] = native
            return native

    def check_result(self, signature: Signature) -> None:
        """Refuse a kernel that returns a value; compiles it, once."""
        with _lock:
            if signature not in self._returning_nothing:
                overload, _ = self._find_overload(signature, self._assign(signature))
                self._refuse_result(overload.result)
                self._returning_nothing.add(signature)

    def _assign(self, signature: Signature) -> Assignment:
        return self.parameters.assign(
            len(signature.inputs), [name for name, _ in signature.scalars], len(signature.outputs)
        )

    def _compile(self, digest: bytes, signature: Signature) -> Native:
        from kernbridge._src.numba_cpu import entry as numba_cpu_entry
        from kernbridge._src.numba_cpu import errors

        errors.install()
        assignment = self._assign(signature)
        overload, copied = self._find_overload(signature, assignment)
        self._refuse_result(overload.result)
        if copied:
            self._warn_of_copies(copied, assignment)
        entry = numba_cpu_entry.build_entry(overload, self._entry_parameters(signature, assignment))
        if entry.parallel:
            _core.set_threading(*numba_cpu_entry.pool_functions())
        code = self.kernel.py_func.__code__
        place = f"{code.co_filename}:{code.co_firstlineno}"
        hidden = tuple((*signature.inputs[i], assignment.names[i]) for i in copied)
        _core.register_host(
            digest,
            self.label,
            place.encode("utf-8", "backslashreplace").decode(),  # file names may hold any bytes
            signature.n_operands,
            len(signature.outputs),
            tuple(
                (_DTYPE_CODES[dtype], rank, name)
                for dtype, rank, name in (*self._named_buffers(signature, assignment), *hidden)
            ),
            entry.address,
            entry.parallel,
            numba_cpu_entry.num_threads() if entry.parallel else 0,
        )
        return Native(digest, copied, entry)

    def _named_buffers(
        self, signature: Signature, assignment: Assignment
    ) -> Iterator[tuple[str, int, str]]:
        for (dtype, rank), name in zip(signature.buffers, assignment.names, strict=True):
            yield dtype, rank, name

    def _refuse_result(self, result: Any) -> None:
        """A kernel's results are its output arrays."""
        from kernbridge._src.numba_common.numba_inside import types

        if result != types.none:
            raise TypeError(
                f"{self.label}: the kernel returns {result}, expected nothing; "
                "write results into the output arrays, which come after the inputs"
            )

    def _types(self, signature: Signature, writable: frozenset[int]) -> list[Any]:
        """Numba types of the buffers; inputs outside `writable` are read-only."""
        from kernbridge._src.numba_common.numba_inside import numba, types

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
        overload = self._compile_protected(signature, assignment, frozenset())
        if not isinstance(overload, Exception):
            return overload, ()
        unaliased = frozenset(range(len(signature.inputs))) - frozenset(signature.aliased)
        opened, found = unaliased, self._compile_protected(signature, assignment, unaliased)
        if isinstance(found, Exception):
            named = self._named_buffers(signature, assignment)
            buffers = ", ".join(f"{name}: {dtype}[{rank}d]" for dtype, rank, name in named)
            raise KernelCompilationError(
                f"{self.label}: Numba cannot compile the kernel for {buffers}\n{found}"
            ) from found
        for i in sorted(unaliased) if len(unaliased) > 1 else ():  # close what need not be open
            overload = self._compile_protected(signature, assignment, opened - {i})
            if not isinstance(overload, Exception):
                opened, found = opened - {i}, overload
        return found, tuple(sorted(opened))

    def _compile_protected(
        self, signature: Signature, assignment: Assignment, opened: frozenset[int]
    ) -> Overload | Exception:
        """Compile with all inputs read-only but the aliased and the opened ones; or why not.

        Whatever Numba raises counts: its typing of read-only arrays trips over errors of many
        kinds.
        """
        from kernbridge._src.numba_common import readonly
        from kernbridge._src.numba_cpu import entry as numba_cpu_entry

        buffer_types = self._types(signature, opened | frozenset(signature.aliased))
        with self._compiling():
            try:
                overload = numba_cpu_entry.compile_kernel(
                    self.kernel,
                    [buffer_types[b] for b in assignment.positional],
                    {name: buffer_types[b] for name, b in assignment.named},
                )
            except UnknownVersionError:
                raise
            except Exception as e:
                return e
            search = readonly.WriteSearch(numba_cpu_entry.compile_anew)
            if search.may_write(overload.kernel, overload.arguments, overload.compiled):
                return TypeError("the kernel may write to a read-only input")
            return overload

    def _compiling(self) -> AbstractContextManager[None]:
        """What is different while the kernel is compiled. Holds Numba's lock if anything is."""
        if not self.options.checked:
            return nullcontext()
        from kernbridge._src.numba_cpu import checked as numba_cpu_checked

        return numba_cpu_checked.compiling_checked(self.kernel)

    def _entry_parameters(self, signature: Signature, assignment: Assignment) -> list[Any]:
        """For each of the kernel's parameters its buffer; None for a default."""
        from kernbridge._src.numba_cpu.entry import HostParameter

        aliased = frozenset(signature.aliased)
        n = signature.n_operands
        zeroed = self.options.zero_outputs
        by_buffer = [
            HostParameter(is_output=i >= n, index=i - n if i >= n else i, type=t, zeroed=zeroed)
            for i, t in enumerate(self._types(signature, aliased))
        ]
        named = dict(assignment.named)
        n_leading = min(len(assignment.positional), len(self.parameters.names))
        leading = [by_buffer[b] for b in assignment.positional[:n_leading]]
        middle = [
            by_buffer[named[name]] if name in named else None
            for name in self.parameters.names[n_leading:]
        ]
        return [*leading, *middle, *(by_buffer[b] for b in assignment.positional[n_leading:])]

    def _warn_of_copies(self, copied: tuple[int, ...], assignment: Assignment) -> None:
        names = ", ".join(f"input {i} ({assignment.names[i]})" for i in copied)
        warnings.warn(
            f"{self.label}: the kernel may write to {names}, which JAX does not allow; it gets a "
            "copy each time. To save the copy, write to a local array instead, declare the "
            "parameter read-only in an explicit signature, or alias it to an output with "
            "input_output_aliases.",
            KernbridgeWarning,
            stacklevel=2,
        )


def native_call(native: Native, origin: str, why_not_portable: str) -> NativeCall:
    """What the lowering needs of registered code."""
    from kernbridge._src.keys.fingerprint import key_of

    return NativeCall(
        target=debug.host_target(),
        digest=native.digest,
        key=key_of(native.digest),
        origin=origin,
        copied=native.copied,
        why_not_portable=why_not_portable,
    )
