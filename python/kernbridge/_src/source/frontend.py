"""The front end for functions that were built from source."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kernbridge import _core
from kernbridge._src.base import debug
from kernbridge._src.base.errors import KernelError, counted
from kernbridge._src.keys.encode import key_of
from kernbridge._src.operation import origin
from kernbridge._src.operation.primitive import Frontend, NativeCall
from kernbridge._src.operation.spec import ArrayType, Call
from kernbridge._src.plan.targets import gpu_platforms
from kernbridge._src.scan.attributes import TYPES
from kernbridge._src.scan.signature import NamedByScanner, ScannedFunction

if TYPE_CHECKING:
    from kernbridge._src.operation.inspection import Inspection

ORIGIN = "source"  # kind of an origin, see operation/origin.py
_DTYPES = _core.dtypes()  # of each name: its code, and its bits


class Export(NamedTuple):
    """A function of an open library: where it is, and how its calls are described."""

    label: str
    module: str
    digest: str  # of all that the module was built from
    function: ScannedFunction
    cuda: bool
    graph: bool
    run: int
    handler: int
    slot: int
    last_error: int
    path: str  # of the library
    library: bytes = b""  # if exported programs hold it

    def bind(self, slot: int, target: str) -> None:
        """Let the handler of a slot call this function."""
        function = self.function
        _core.bind_slot(
            slot,
            f"{self.label.split(' ')[0]} {target!r}",
            -1 if function.takes_any else len(function.having("arg")),
            -1 if function.takes_any else len(function.having("ret")),
            tuple((a.name, _DTYPES[a.type][0]) for a in function.attributes),
            tuple(_DTYPES[d.dtype][0] if d and d.dtype else 0 for d in function.declared),
            self.run,
            self.last_error,
            self.cuda,
            self.graph,
        )

    def identity(
        self,
        values: tuple[bytes, ...],
        zeroed: bool,
        buffers: tuple[tuple[int, int, str], ...],
        n_inputs: int,
    ) -> bytes:
        """Return the digest of a call with these attributes and buffers of these kinds."""
        kinds = tuple((dtype, rank) for dtype, rank, _ in buffers)
        identity = f"{self.digest} {self.function.name}".encode()
        made_of = ("kernbridge.source", identity, values, kinds, n_inputs, self.cuda)
        options = ("zeroed",) if zeroed else ()
        return hashlib.sha256(repr((*made_of, *options)).encode()).digest()

    def check(
        self,
        values: tuple[bytes, ...],
        zeroed: bool,
        arrays: Sequence[tuple[str, int]],
        n_inputs: int,
    ) -> None:
        """Raise ValueError if a call that a program describes is none of this function.

        The function reads its arguments and attributes without looking at their number or size.
        `arrays` are the dtype and the rank of each, which may have batch axes.
        """
        function, known = self.function, self.function.attributes
        counts = n_inputs, len(arrays) - n_inputs
        expected = len(function.having("arg")), len(function.having("ret"))
        if min(counts) < 0 or (not function.takes_any and counts != expected):
            raise ValueError(
                f"{counts[0]} inputs and {counts[1]} outputs, and the function has {expected[0]} "
                f"and {expected[1]}"
            )
        if len(values) != len(known):
            raise ValueError(f"{len(values)} attributes, and the function has {len(known)}")
        for array, (dtype, rank) in zip(function.declared, arrays, strict=not function.takes_any):
            if array is not None and not array.with_leading.fits(dtype, rank):
                raise ValueError(f"an array of {dtype} of rank {rank}, declared as {array}")
        for attribute, value in zip(known, values, strict=True):
            size = TYPES[attribute.type][0]
            if len(value) != size:
                raise ValueError(
                    f"attribute {attribute.name!r} of {len(value)} bytes, expected {size}"
                )
        for dtype, _ in arrays[n_inputs:] if zeroed else ():
            if _DTYPES[dtype][1] < 8:
                raise ValueError(f"it zeroes an output of {dtype}")

    def register(
        self,
        values: tuple[bytes, ...],
        zeroed: bool,
        buffers: tuple[tuple[int, int, str], ...],
        n_inputs: int,
    ) -> bytes:
        """Register the function for buffers of these kinds; returns its identity."""
        digest = self.identity(values, zeroed, buffers, n_inputs)
        if not _core.is_registered(digest):
            _core.register_source(
                digest,
                self.label,
                "",
                n_inputs,
                len(buffers) - n_inputs,
                buffers,
                self.run,
                self.last_error,
                self.cuda,
                values,
                zeroed,
            )
        return digest


class SourceFrontend(NamedByScanner, Frontend):
    """One function with the values of its attributes, as a front end."""

    def __init__(self, export: Export, values: tuple[bytes, ...], zeroed: bool) -> None:
        self.label = export.label
        self.name = export.function.name
        self.function = export.function
        self.platforms = gpu_platforms() if export.cuda else ("cpu",)
        self.export = export
        self.values = values
        self.zeroed = zeroed

    def check(self, operands: Sequence[ArrayType], call: Call) -> None:
        """Refuse a wrong number of inputs or outputs, and dtypes that no kernel has."""
        inputs, outs = operands, call.outs
        if call.scalars:
            raise TypeError(
                f"{self.label} has no keyword {call.scalars[0]!r}; pass the values of attributes "
                "where the operation is made, as attrs= [KB2006]"
            )
        if not self.function.takes_any:
            for what, given, role in (("input", inputs, "arg"), ("output", outs, "ret")):
                expected = len(self.function.having(role))
                if len(given) != expected:
                    where, remedy = "the call has", f"pass {counted(expected, 'array')}"
                    if role == "ret":
                        where, remedy = "`outs` describes", f"describe {expected} in `outs`"
                    raise TypeError(
                        f"{self.label} has {counted(expected, what)} ({self.function.tokens}), but "
                        f"{where} {len(given)}; {remedy} [KB2001]"
                    )
            self.function.check_arrays(self.label, inputs, call)
        for what, arrays in (("input", inputs), ("output", outs)):
            for i, array in enumerate(arrays):
                if array.dtype.name not in _DTYPES:
                    raise ValueError(
                        f"{self.label}: {what} {i} is {array.dtype.name}, which XLA cannot pass "
                        "to kernels; pass its bits as an integer array [KB2003]"
                    )
        for i, array in enumerate(outs if self.zeroed else ()):
            if _DTYPES[array.dtype.name][1] < 8:
                raise ValueError(
                    f"{self.label}: output {i} is {array.dtype.name}, whose elements are not "
                    "whole bytes, so zero_outputs=True cannot fill it; write every element "
                    "instead [KB2003]"
                )

    def lower(self, platform: str, operands: Sequence[ArrayType], call: Call) -> NativeCall:
        """Register the function for these operands."""
        arrays = (*operands, *call.outs)
        names = self.function.names_of(len(operands), len(call.outs))
        buffers = tuple(
            (_DTYPES[t.dtype.name][0], len(t.shape), name)
            for t, name in zip(arrays, names, strict=True)
        )
        export = self.export
        digest = export.register(self.values, self.zeroed, buffers, len(operands))
        on_gpu = "kernbridge.cuda.graph" if export.graph else "kernbridge.cuda"
        return NativeCall(
            target=on_gpu if export.cuda else debug.host_target(),
            digest=digest,
            key=key_of(digest),
            origin=origin.write(
                ORIGIN,
                module=export.module,
                digest=export.digest,
                function=self.name,
                values=[v.hex() for v in self.values],
                arrays=[(t.dtype.name, len(t.shape)) for t in arrays],
                n_inputs=len(operands),
                zeroed=self.zeroed,
            ),
            copied=(),
            why_not_portable="",
            program=self._program(digest, buffers, len(operands)) if export.library else b"",
        )

    def _program(
        self, digest: bytes, buffers: tuple[tuple[int, int, str], ...], n_inputs: int
    ) -> bytes:
        """The library with the description of a call, in the form of src/module/kb_library.h."""
        from kernbridge._src.source import carried

        values, library = self.values, self.export.library
        return carried.encode(
            digest, self.label, buffers, n_inputs, self.name, self.zeroed, values, library
        )

    def inspect(self, operands: Sequence[ArrayType], call: Call) -> tuple[Inspection, ...]:
        """Raise KernelError: another program compiled the function."""
        raise KernelError(
            f"{self.label} was compiled by another program; objdump -d {self.export.path} "
            "disassembles it [KB2106]"
        )
