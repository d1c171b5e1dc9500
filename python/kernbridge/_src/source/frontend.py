"""Operations of functions that were built from source: their front end, and calls by attribute."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernbridge import _core
from kernbridge._src.base import debug
from kernbridge._src.base.errors import KernelError
from kernbridge._src.base.exact import exact_items
from kernbridge._src.base.kept import Kept
from kernbridge._src.keys.fingerprint import key_of
from kernbridge._src.operation.operation import Operation, spec_key
from kernbridge._src.operation.primitive import Frontend, NativeCall
from kernbridge._src.operation.spec import ArrayType, Call, OperationSpec
from kernbridge._src.scan import attributes as scan_attributes
from kernbridge._src.scan.attributes import Attribute
from kernbridge._src.scan.signature import ScannedFunction
from kernbridge._src.toolchain.cuda import has_fake_driver

if TYPE_CHECKING:
    from kernbridge._src.operation.inspection import Inspection

OPERATIONS_KEPT = 256  # of one function: outputs, options, attribute values
_DTYPES = {name: code for name, (code, _bits) in _core.dtypes().items()}
_BITS = {name: bits for name, (_code, bits) in _core.dtypes().items()}


@dataclass(frozen=True, slots=True, eq=False)
class SourceCode:
    """Machine code of a function: addresses in an open library."""

    run: int
    last_error: int
    cuda: bool
    graph: bool
    identity: bytes
    origin: Callable[[tuple[bytes, ...], Sequence[ArrayType], int], str]
    zeroed: bool = False  # its outputs, before it runs


class SourceFrontend(Frontend):
    """One function with the values of its attributes, as a front end."""

    def __init__(
        self, label: str, function: ScannedFunction, native: SourceCode, values: tuple[bytes, ...]
    ) -> None:
        self.label = label
        self.name = function.name
        self.function = function
        self.native = native
        self.values = values
        self.platforms: tuple[str, ...] = ("cuda",) if native.cuda else ("cpu",)
        if native.cuda and has_fake_driver():
            self.platforms = ("cuda", "cpu")

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The names of the function's outputs."""
        return self.function.output_names

    def check(self, operands: Sequence[ArrayType], call: Call) -> None:
        """Refuse a wrong number of inputs or outputs, and dtypes that no kernel knows."""
        inputs, outs = operands, call.outs
        if call.scalars:
            raise TypeError(f"{self.label} has no keyword {call.scalars[0]!r}")
        if not self.function.takes_any:
            for what, given, role in (("input", inputs, "arg"), ("output", outs, "ret")):
                expected = self.function.count(role)
                if len(given) != expected:
                    raise TypeError(
                        f"{self.label} has {expected} {what}{'s'[: expected != 1]} "
                        f"({self.function.tokens}), and the call has {len(given)}"
                    )
        for what, arrays in (("input", inputs), ("output", outs)):
            for i, array in enumerate(arrays):
                if array.dtype.name not in _DTYPES:
                    raise ValueError(
                        f"{self.label}: {what} {i} is {array.dtype.name}, which XLA "
                        "hands to no kernel; pass its bits as an integer array"
                    )
        for i, array in enumerate(outs if self.native.zeroed else ()):
            if _BITS[array.dtype.name] < 8:
                raise ValueError(
                    f"{self.label}: output {i} is {array.dtype.name}, whose elements are no whole "
                    "bytes, and zero_outputs=True cannot fill it; write every element instead"
                )

    def lower(self, platform: str, operands: Sequence[ArrayType], call: Call) -> NativeCall:
        """Register the function for these operands."""
        arrays = (*operands, *call.outs)
        names = self.function.names_of(len(operands), len(call.outs))
        buffers = tuple(
            (_DTYPES[t.dtype.name], len(t.shape), name)
            for t, name in zip(arrays, names, strict=True)
        )
        digest = register(self.label, self.native, self.values, buffers, len(operands))
        cuda = self.native.cuda
        return NativeCall(
            target=("kernbridge.cuda.graph" if self.native.graph else "kernbridge.cuda")
            if cuda
            else debug.host_target(),
            digest=digest,
            key=key_of(digest),
            origin=self.native.origin(self.values, arrays, len(operands)),
            copied=(),
            why_not_portable="",
        )

    def inspect(self, operands: Sequence[ArrayType], call: Call) -> tuple[Inspection, ...]:
        """Raise KernelError: another program compiled the function."""
        raise KernelError(
            f"{self.label} was compiled by another program; look at its library with objdump, or "
            "cuobjdump"
        )


def register(
    label: str,
    native: SourceCode,
    values: tuple[bytes, ...],
    buffers: tuple[tuple[int, int, str], ...],
    n_inputs: int,
    digest: bytes | None = None,
) -> bytes:
    """Register a function for buffers of these kinds; returns its identity."""
    kinds = tuple((dtype, rank) for dtype, rank, _ in buffers)
    if digest is None:
        made_of = ("kernbridge.source", native.identity, values, kinds, n_inputs, native.cuda)
        options = ("zeroed",) if native.zeroed else ()
        digest = hashlib.sha256(repr((*made_of, *options)).encode()).digest()
    if not _core.is_registered(digest):
        n_outputs = len(buffers) - n_inputs
        _core.register_source(
            digest,
            label,
            "",
            n_inputs,
            n_outputs,
            buffers,
            native.run,
            native.last_error,
            native.cuda,
            values,
            native.zeroed,
        )
    return digest


class Attributed:
    """Operations that differ by static attributes, each made once and remembered."""

    def __init__(
        self,
        label: str,
        attributes: Sequence[Attribute],
        make: Callable[[tuple[bytes, ...]], Any],
    ) -> None:
        self.label = label
        self.attributes = tuple(attributes)
        self._make = make
        self._kept: Kept[Operation] = Kept(OPERATIONS_KEPT)

    def operation(self, spec: OperationSpec, values: Mapping[str, Any]) -> Operation:
        """The operation of this specification and these values."""
        encoded = scan_attributes.encode_all(self.label, self.attributes, values)
        plain, key = scan_attributes.plain(values), spec_key(spec)

        def make() -> Operation:
            return Operation(spec, self._make(encoded), plain)

        if key is None:
            return make()
        # Derivative rules get Python's numbers, which may differ where the bytes do not.
        numbers = exact_items(plain) if spec.is_differentiable else None
        return self._kept.find_or_make((key, encoded, numbers), make)
