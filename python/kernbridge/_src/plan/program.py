"""A GPU plan as Python values, and its encoding for the core (src/cuda/kb_program.h).

Buffers are numbered inputs (keyword scalars last), outputs, copies of inputs, temporaries.

The parameters of a kernel are described without Numba; `entry` makes Numba's types of them. The
leaves of a list of parameters are the parameters that are not tuples, and the members of tuples at
every depth, in their order. Each leaf has its words in the launch.
"""

from __future__ import annotations

import hashlib
import itertools
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernbridge import _core
from kernbridge._src.base.dtypes import CODES
from kernbridge._src.base.errors import typed
from kernbridge._src.base.html import table
from kernbridge._src.base.packing import fields, sealed

VERSION = _core.PROGRAM_VERSION

_VALUE_KINDS = {"constant": 0, "extent": 1, "count": 2}
_WORD_KINDS = {"constant": 0, "address": 1, "extent": 2, "stride": 3, "count": 4}
_LAUNCH, _FILL, _COPY, _CALLBACK = 1, 2, 3, 4


@dataclass(frozen=True, slots=True, weakref_slot=True, kw_only=True)
class DeviceFunction:
    """Machine code of a kernel. Classes of front ends are compared by these fields, too."""

    identity: bytes  # the digest of what the code computes
    name: str
    entry: str  # the name in the images
    images: tuple[tuple[int, bytes], ...]  # (10 major + minor, cubin); (0, fatbin); for CPUs
    sizes: tuple[int, ...] = ()  # bytes of each parameter; none where each is a word
    auto_shared: int = 0  # dynamic shared memory to reckon with when a block size is chosen
    why_not_portable: str = ""  # empty, or why no exported program can contain the code

    @property
    def n_words(self) -> int:
        """The words of eight bytes that the parameters take."""
        return sum(-(-size // 8) for size in self.sizes)

    def code(self) -> tuple[str, str]:
        raise NotImplementedError


NOT_COMPILED = DeviceFunction(identity=b"", name="", entry="", images=())
"""The function of a launch before its kernel is compiled for the arguments."""


@dataclass(frozen=True, slots=True)
class DeviceParameter:
    """One parameter of the kernel, or a member of one that is a tuple.

    `kind` is "array"; "record", an element of an array of records; "loaded", a scalar that lies in
    a buffer of one element; or "scalar", whose value the words hold. `dtype` is a NumPy or
    ml_dtypes dtype.
    """

    kind: str
    dtype: np.dtype[Any]
    ndim: int = 0
    layout: str = "C"
    read_only: bool = False
    keyword: str = ""  # passed by name, after a parameter that was left to its default
    enumeration: Any = None  # the class of a scalar that is a member of one

    def n_words(self, batched: bool) -> int:
        if self.kind == "scalar":
            return 2 if self.dtype.itemsize > 8 else 1
        strides = 0 if self.layout == "C" else self.ndim
        return 1 + batched + self.ndim + strides

    def describe(self) -> str:
        if self.enumeration is not None:
            return str(self.enumeration.__name__)
        name = str(self.dtype) if self.dtype.names else self.dtype.name
        return typed(name, [f"{self.ndim}d"]) if self.kind == "array" else name

    def identity(self) -> tuple[Any, ...]:
        """All that the machine code depends on, as plain values."""
        found = (self.kind, self.dtype, self.ndim, self.layout, self.read_only, self.keyword)
        if self.enumeration is None:
            return found
        members = self.enumeration.__members__.items()
        values = tuple((name, type(m.value).__name__, repr(m.value)) for name, m in members)
        return (*found, (self.enumeration.__module__, self.enumeration.__qualname__, values))


@dataclass(frozen=True, slots=True)
class TupleParameter:
    """A tuple, or a named tuple of the class `made_by`."""

    members: tuple[Parameter, ...]
    made_by: Any = None
    keyword: str = ""

    def n_words(self, batched: bool) -> int:
        return sum(member.n_words(batched) for member in self.members)

    def describe(self) -> str:
        inside = ", ".join(member.describe() for member in self.members)
        if self.made_by is not None:
            return f"{self.made_by.__name__}({inside})"
        return f"({inside},)" if len(self.members) == 1 else f"({inside})"

    def identity(self) -> tuple[Any, ...]:
        made_by = self.made_by
        name = made_by and (made_by.__module__, made_by.__qualname__, made_by._fields)
        return ("tuple", name, tuple(member.identity() for member in self.members), self.keyword)


Parameter = DeviceParameter | TupleParameter
Parameters = Sequence[Parameter]
Argument = tuple[Parameter, Sequence[Sequence["Word"]]]
"""A parameter, and the words of each of its leaves."""


def leaves(parameters: Iterable[Parameter]) -> Iterator[DeviceParameter]:
    for parameter in parameters:
        if isinstance(parameter, TupleParameter):
            yield from leaves(parameter.members)
        else:
            yield parameter


def with_open(parameters: Iterable[Parameter], opened: Collection[int]) -> tuple[Parameter, ...]:
    """Return these parameters; the kernel may write to the leaves with the numbers `opened`."""
    numbers = itertools.count()

    def change(parameter: Parameter) -> Parameter:
        if isinstance(parameter, TupleParameter):
            return replace(parameter, members=tuple(map(change, parameter.members)))
        return replace(parameter, read_only=False) if next(numbers) in opened else parameter

    return tuple(map(change, parameters))


@dataclass(frozen=True, slots=True)
class Value:
    """A number: ceil(x / divisor), x a constant, an extent or an element count of a buffer."""

    kind: str = "constant"
    constant: int = 0
    buffer: int = 0
    dim: int = 0
    divisor: int = 1

    def __str__(self) -> str:
        if self.kind == "constant":
            return str(-(-self.constant // self.divisor))
        what = f"b{self.buffer}." + (f"shape[{self.dim}]" if self.kind == "extent" else "size")
        return what if self.divisor == 1 else f"ceil({what} / {self.divisor})"


@dataclass(frozen=True, slots=True)
class Word:
    """Eight bytes of a launch's parameters.

    `value` is the constant, or the byte offset of an address; `reach` the bytes from there that
    the kernel may touch, 0 for the whole buffer.
    """

    kind: str
    value: int = 0
    buffer: int = 0
    dim: int = 0
    reach: int = 0

    def __str__(self) -> str:
        if self.kind == "constant":
            return f"{self.value:#x}" if abs(self.value) > 1 << 20 else str(self.value)
        if self.kind == "address":
            return f"&b{self.buffer}" + (f"+{self.value}" if self.value else "")
        what = {"extent": f"shape[{self.dim}]", "stride": "step", "count": "size"}
        return f"b{self.buffer}.{what[self.kind]}"


@dataclass(frozen=True, slots=True)
class Launch:
    grid: tuple[Value, Value, Value]
    block: tuple[int, int, int]
    shared: int
    function: DeviceFunction = NOT_COMPILED
    words: tuple[Word, ...] = ()
    cluster: tuple[int, int, int] | None = None
    cooperative: bool = False
    pdl: bool = False
    auto_block: bool = False
    zeroed: tuple[int, ...] | None = None  # outputs that a grid of zero fills
    wide: bool = False

    def __str__(self) -> str:
        block = "auto" if self.auto_block else _triple(self.block)
        more = f", {self.shared} B shared" if self.shared else ""
        more += ", cooperative" if self.cooperative else ""
        more += ", pdl" if self.pdl else ""
        more += f", cluster {_triple(self.cluster)}" if self.cluster else ""
        more += ", batch in z" if self.wide else ""
        words = ", ".join(map(str, self.words))
        return f"launch {self.function.name}[{_triple(self.grid)}, {block}{more}]({words})"


@dataclass(frozen=True, slots=True)
class Fill:
    buffer: int
    offset: int
    item_size: int
    count: int | Value
    pattern: int

    def __str__(self) -> str:
        what = f"{self.count} x {self.item_size} B of {self.pattern:#x}"
        return f"fill b{self.buffer}+{self.offset}: {what}"


@dataclass(frozen=True, slots=True)
class Copy:
    to_buffer: int
    to_offset: int
    from_buffer: int
    from_offset: int
    size: int

    def __str__(self) -> str:
        source = f"b{self.from_buffer}+{self.from_offset}"
        return f"copy {self.size} B: b{self.to_buffer}+{self.to_offset} <- {source}"


@dataclass(frozen=True, slots=True)
class Callback:
    handle: int

    def __str__(self) -> str:
        return "call Python"


Step = Launch | Fill | Copy | Callback


def renumbered(step: Step, number: Callable[[int], int]) -> Step:
    """A step that acts on other buffers; `number` returns the new number of each."""
    if isinstance(step, Fill):
        return replace(step, buffer=number(step.buffer))
    if isinstance(step, Copy):
        return replace(step, to_buffer=number(step.to_buffer), from_buffer=number(step.from_buffer))
    if isinstance(step, Callback):
        return step
    words = (w if w.kind == "constant" else replace(w, buffer=number(w.buffer)) for w in step.words)
    return replace(step, words=tuple(words))


def _triple(values: Sequence[object]) -> str:
    return f"({', '.join(map(str, values))})"


@dataclass(frozen=True, slots=True, repr=False)
class Program:
    """The description of one operation that the core receives."""

    name: str
    source: str
    n_inputs: int
    n_outputs: int
    buffers: tuple[tuple[str, int, str], ...]  # of each: the dtype, the rank and the name
    steps: tuple[Step, ...]

    def _lines(self) -> list[str]:
        kinds = ["input"] * self.n_inputs + ["output"] * self.n_outputs
        kinds += ["hidden"] * (len(self.buffers) - len(kinds))
        lines = [
            f"b{i}: {kind} {name}, {typed(dtype, [f'{rank}d'])}"
            for i, (kind, (dtype, rank, name)) in enumerate(zip(kinds, self.buffers, strict=True))
        ]
        return [*lines, *map(str, self.steps)]

    def __str__(self) -> str:
        return "\n  ".join([self.name, *self._lines()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return table(self.name, ("buffer or step", ""), [s.split(" ", 1) for s in self._lines()])

    @property
    def functions(self) -> tuple[DeviceFunction, ...]:
        return tuple(dict.fromkeys(s.function for s in self.steps if isinstance(s, Launch)))

    def digest(self) -> bytes:
        """Return the identity of what the program means, which does not depend on machine code."""
        h = hashlib.sha256(b"kernbridge.cuda")
        h.update(self._body(with_images=False))
        for function in self.functions:
            h.update(function.identity)
        return h.digest()

    def write(self, digest: bytes) -> bytes:
        """The bytes that the core reads as the program of the kernel of this digest."""
        return sealed("KBCU", VERSION, digest, self._body(with_images=True))

    def _body(self, with_images: bool) -> bytes:
        n_hidden = len(self.buffers) - self.n_inputs - self.n_outputs
        out = [fields(self.name, self.source, self.n_inputs, self.n_outputs, n_hidden)]
        out += [fields(CODES[dtype], rank, name) for dtype, rank, name in self.buffers]
        functions = {f: i for i, f in enumerate(self.functions)}
        out.append(fields(len(functions)))
        out += [_function(f) for f in functions if with_images]
        out.append(fields(len(self.steps)))
        out += [_step(step, functions) for step in self.steps]
        return b"".join(out)


def _value(value: int | Value) -> bytes:
    v = Value(constant=value) if isinstance(value, int) else value
    return struct.pack("<IIIIq", _VALUE_KINDS[v.kind], v.buffer, v.dim, v.divisor, v.constant)


def _function(f: DeviceFunction) -> bytes:
    content = fields(f.entry, f.n_words, f.auto_shared, len(f.sizes), *f.sizes, len(f.images))
    content += b"".join(fields(cc, image) for cc, image in f.images)
    return hashlib.sha256(content).digest() + content


def _step(step: Step, functions: dict[DeviceFunction, int]) -> bytes:
    """The bytes of a step: its kind, whether it serves all slices of a batch, and the rest."""
    if isinstance(step, Fill):
        pattern = step.pattern.to_bytes(16, "little")
        head = struct.pack("<IIIIq", _FILL, True, step.buffer, step.item_size, step.offset)
        return head + _value(step.count) + pattern
    if isinstance(step, Copy):
        head = struct.pack("<IIII", _COPY, True, step.to_buffer, step.from_buffer)
        return head + struct.pack("<qq", step.to_offset, step.from_offset) + _value(step.size)
    if isinstance(step, Callback):
        return struct.pack("<IIq", _CALLBACK, False, step.handle)
    has_cluster, zeroes = step.cluster is not None, step.zeroed is not None
    how = step.cooperative, step.pdl, has_cluster, step.auto_block, zeroes
    flags = sum(is_set << bit for bit, is_set in enumerate(how))  # KB_LAUNCH_* of kb_step.h
    words = [
        struct.pack("<IIIqq", _WORD_KINDS[w.kind], w.buffer, w.dim, w.value, w.reach)
        for w in step.words
    ]
    zeroed, cluster = step.zeroed or (), step.cluster or (1, 1, 1)
    head = fields(_LAUNCH, step.wide, functions[step.function])
    shape = fields(*step.block, *cluster, step.shared, flags, len(words))
    return b"".join((head, *map(_value, step.grid), shape, *words, fields(len(zeroed), *zeroed)))
