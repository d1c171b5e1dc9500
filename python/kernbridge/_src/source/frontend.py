"""A function of a library that was built from source, as a front end."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from kernbridge import _core
from kernbridge._src.base import debug, extensions
from kernbridge._src.base.dtypes import BITS, CODES
from kernbridge._src.base.errors import KernelError, KernelToolchainError, counted
from kernbridge._src.base.packing import Buffers, fields, sealed
from kernbridge._src.base.struct import Struct
from kernbridge._src.calls.call import ArrayType, Call
from kernbridge._src.keys.fingerprint import key_of
from kernbridge._src.keys.identity import identity_of
from kernbridge._src.operation import origin
from kernbridge._src.operation.inspection import Inspection, Plan
from kernbridge._src.operation.primitive import Frontend, NativeCall
from kernbridge._src.scan.functions import ScannedFunction
from kernbridge._src.toolchain.library import Request

ORIGIN = "source"  # kind of an origin, see operation/origin.py


class Described(Struct):
    """The description of one function in a library that kernbridge built."""

    tokens: str
    run: int
    handler: Any  # a capsule, or None if kernbridge did not build the library
    slot: int
    types: bytes  # see `compiled_types.py`


class Export(Struct):
    """A function of an open library: where it is, and how its calls are described."""

    label: str
    module: str
    digest: str  # of all that the module was built from
    function: ScannedFunction
    of_cuda: bool  # whether the source is CUDA C++
    cuda: bool  # whether the function runs on GPUs
    graph: bool
    built: Described
    last_error: int
    path: str  # of the library
    library: bytes = b""  # if exported programs hold it
    request: Request | None = None  # what it was built from, if there is a source
    # Of CUDA source: loads the module as it is compiled for the other of GPUs and the CPU.
    load_other: Callable[[], Any] | None = None
    record: str = "never"  # whether a function of a CUDA module becomes a plan

    def bind(self, slot: int, target: str) -> None:
        function = self.function
        attributes, declared = function.attributes, function.declared
        _core.bind_slot(
            slot,
            f"{self.label.split(' ')[0]} {target!r}",
            -1 if function.takes_any else len(function.having("arg")),
            -1 if function.takes_any else len(function.having("ret")),
            tuple((a.name, CODES[a.type]) for a in attributes),
            b"".join(struct.pack("=i", CODES[d.dtype] if d and d.dtype else 0) for d in declared),
            self.built.run,
            self.last_error,
            self.cuda,
            self.graph,
        )


class SourceFrontend(Frontend):
    """One function with the values of its attributes, as a front end."""

    def __init__(self, export: Export, values: tuple[bytes, ...], zeroed: bool) -> None:
        self.label = export.label
        self.name, self.place = export.function.name, export.function.place
        self.function = export.function
        self.platforms: tuple[str, ...] = ("cpu",)
        if export.of_cuda:
            from kernbridge._src.plan.targets import gpu_platforms

            self.of_gpus = gpu_platforms()
            on_cpu = ("cpu",) if export.load_other else ()
            self.platforms = tuple(dict.fromkeys((*self.of_gpus, *on_cpu)))
        self.export = export
        self.values = values
        self.zeroed = zeroed

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return self.function.parameter_names

    def buffer_names(self, n_inputs: int, scalars: Sequence[str], n_outputs: int) -> Sequence[str]:
        return self.function.buffer_names(n_inputs + len(scalars))

    def check(self, operands: Sequence[ArrayType], call: Call) -> None:
        """Refuse a wrong number of inputs or outputs, and dtypes that no kernel has."""
        inputs, outs = operands, call.outs
        if call.scalars and not self.function.signature:
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
                if array.dtype.name not in BITS:
                    raise ValueError(
                        f"{self.label}: {what} {i} is {array.dtype.name}, which XLA cannot pass "
                        "to kernels; pass its bits as an integer array [KB2003]"
                    )
        for i, array in enumerate(outs if self.zeroed else ()):
            if BITS[array.dtype.name] < 8:
                raise ValueError(
                    f"{self.label}: output {i} is {array.dtype.name}, whose elements are not "
                    "whole bytes, so zero_outputs=True cannot fill it; write every element "
                    "instead [KB2003]"
                )

    def check_described(self, arrays: Sequence[tuple[str, int]], n_inputs: int) -> None:
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
        if len(self.values) != len(known):
            raise ValueError(f"{len(self.values)} attributes, and the function has {len(known)}")
        for array, (dtype, rank) in zip(function.declared, arrays, strict=not function.takes_any):
            if array is not None and not array.fits(dtype, rank, batched=True):
                raise ValueError(f"an array of {dtype} of rank {rank}, declared as {array}")
        for attribute, value in zip(known, self.values, strict=True):
            size = BITS[attribute.type] // 8
            if len(value) != size:
                raise ValueError(
                    f"attribute {attribute.name!r} of {len(value)} bytes, expected {size}"
                )
        for dtype, _ in arrays[n_inputs:] if self.zeroed else ():
            if BITS[dtype] < 8:
                raise ValueError(f"it zeroes an output of {dtype}")

    def identity(self, buffers: Buffers, n_inputs: int) -> bytes:
        export, kinds = self.export, tuple((dtype, rank) for dtype, rank, _ in buffers)
        code = f"{export.digest} {self.name}".encode()
        options = ("zeroed",) if self.zeroed else ()
        made_of = (self.values, kinds, n_inputs, export.cuda, *options)
        return identity_of(made="kernbridge.source", code=code, described=made_of, inlined=None)

    def register(self, buffers: Buffers, n_inputs: int) -> bytes:
        """Register the function for a call, and return the call's identity."""
        digest, export = self.identity(buffers, n_inputs), self.export
        if _core.kernel_name(digest) is None:
            described = self._program(digest, buffers, n_inputs, b"")
            _core.register_source(
                digest, described, export.built.run, export.last_error, export.cuda
            )
        return digest

    def lower(self, platform: str, operands: Sequence[ArrayType], call: Call) -> NativeCall:
        export, arrays, n_inputs = self.export, (*operands, *call.outs), len(operands)
        if export.of_cuda and platform not in self.of_gpus:
            from kernbridge._src.toolchain import cuda

            cuda.tell_of_cpu(self.label)
        if export.load_other and export.cuda != (platform in self.of_gpus):
            try:
                found: Export = export.load_other()[self.name]._export
            except KernelToolchainError as e:
                raise type(e)(f"{self.label} was lowered for {platform}: {e}") from None
            return SourceFrontend(found, self.values, self.zeroed).lower(platform, operands, call)
        recorder = extensions.find("recorder") if export.cuda else None
        if recorder and (planned := recorder.lowered(self, operands, call)):
            return planned
        names = self.function.names_of(n_inputs, len(call.outs))
        buffers = tuple(
            (CODES[t.dtype.name], len(t.shape), name) for t, name in zip(arrays, names, strict=True)
        )
        digest, library = self.register(buffers, n_inputs), export.library
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
                n_inputs=n_inputs,
                zeroed=self.zeroed,
            ),
            copied=(),
            why_not_portable="",
            program=self._program(digest, buffers, n_inputs, library) if library else b"",
        )

    def _program(self, digest: bytes, buffers: Buffers, n_inputs: int, library: bytes) -> bytes:
        """Return the library with the description of a call: see src/module/kb_library.h."""
        listed = [part for buffer in buffers for part in buffer]
        body = fields(self.label, "", n_inputs, len(buffers) - n_inputs, 0, *listed, self.name)
        body += fields(self.zeroed, len(self.values), *self.values, library)
        return sealed(_core.LIBRARY_MAGIC, _core.LIBRARY_VERSION, digest, body)

    def program(self, operands: Sequence[ArrayType], call: Call) -> Plan:
        if not self.export.cuda:
            return super().program(operands, call)
        return extensions.load("recorder", self.label).program(self, operands, call)

    def inspect(self, operands: Sequence[ArrayType], call: Call) -> tuple[Inspection, ...]:
        raise KernelError(
            f"{self.label} was compiled by another program; objdump -d {self.export.path} "
            "disassembles it [KB2106]"
        )
