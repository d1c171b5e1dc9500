"""Adds the checks of the checked mode to the LLVM IR of a Numba-CUDA kernel for the CPU.

Each load, store and atomic operation, except those on the function's own variables, is preceded by
a call of a function of src/ext/emulator/kb_check.h, which returns the address to use instead.
Shared and local arrays, and the addresses in arguments, are numbered. Line numbers come from the
debug information. Constants of the module describe the arrays to the C core.
"""

from __future__ import annotations

import linecache
import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernbridge._ext.emulator.compiler.library import Constants, replaced
from kernbridge._src.numba_common.private_llvmlite import ir

_READ, _WRITE, _ATOMIC, _WRITE_VALUE = range(4)  # as kb_check.h has them, and so on
_KINDS = 4
_VALUE_MAX = 64  # bits of a value that is compared with what is there
BATCHED, STRIDED, CONSTANT, _DYNAMIC = 1, 2, 4, 8
_TEXT = "\t"
_TEXT_MAX = 100  # characters of a line of the source

_WAITS = re.compile(  # and what a loop has that waits
    r"kb\.(?:barrier0|bar\.warp|shfl|vote|match|active_mask|membar|nanosleep)|cudaCGSynchronize"
)
_ATOMICS = ("kb.atomic", "___numba_atomic")
_COPIES = ("llvm.memcpy", "llvm.memmove")

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_VOID = ir.VoidType()

# The types of a kb_check_array and of the kb_check_table.
_ROW = ("ptr", *["i32"] * 4, "i64", "i64", "ptr", "i64")
_TABLE = ("ptr", "ptr", *["i32"] * 4, "ptr", "i64")


@dataclass(frozen=True, slots=True)
class Argument:
    """An array, or a scalar in a buffer, whose address is passed to the kernel."""

    name: str  # with its type
    word: int
    item_size: int
    cell: int  # bytes of an item that are always written together
    n_dims: int
    flags: int  # of BATCHED, STRIDED and CONSTANT


def written_together(dtype: np.dtype[Any]) -> int:
    if dtype.fields is None:
        return dtype.base.itemsize
    parts = (math.gcd(written_together(kind), at) for kind, at, *_ in dtype.fields.values())
    return math.gcd(dtype.itemsize, *parts)


@dataclass(slots=True)
class Array:
    symbol: str
    item: str  # LLVM's type
    item_size: Any  # a number, or a constant of LLVM
    size: Any  # 0 for dynamic shared memory
    offset: int = 0
    place: str = ""  # the line that creates it


@dataclass
class Checks:
    label: str
    arguments: Sequence[Argument]
    sites: list[str] = field(default_factory=lambda: [""])
    shared: dict[str, Array] = field(default_factory=dict)  # by name, as the table has them
    _local: list[Array] = field(default_factory=list)
    _own: set[str] = field(default_factory=set)  # addresses of the function's variables
    _unplaced: dict[str, Array] = field(default_factory=dict)  # the function's, by their addresses
    waits: bool = False  # threads may wait for each other
    _host: Any = None  # the HostModule to which instructions are appended

    def begin_function(self, host: Any) -> None:
        self._host, self._own, self._unplaced = host, set(), {}

    def put(self, instruction: Any, location: Any) -> None:
        place = _place(location)
        if place and self._unplaced:
            is_phi = isinstance(instruction, ir.PhiInstr)
            read = [v for v, _ in instruction.incomings] if is_phi else instruction.operands
            for array in (self._unplaced.pop(v.get_reference(), None) for v in read):
                if array:
                    array.place = place
        operation = instruction.opname
        if operation == "call":
            self._put_call(instruction, place)
        elif operation == "alloca" and "_cudapy_lmem" in instruction.name:
            self._put_local(instruction)
        elif operation in ("load", "load atomic"):
            self._put_access(instruction, 0, _READ, instruction, place)
        elif operation in ("store", "store atomic"):
            self._put_access(instruction, 1, _WRITE, instruction.operands[0], place)
        elif operation in ("atomicrmw", "cmpxchg"):
            self._put_access(instruction, 0, _ATOMIC, instruction.operands[1], place)
        else:
            if operation == "alloca" or (
                operation in ("getelementptr", "bitcast")
                and any(o.get_reference() in self._own for o in instruction.operands)
            ):
                self._own.add(instruction.get_reference())
            self._host.put(instruction)

    def _put_call(self, call: Any, place: str) -> None:
        name = call.callee.name
        if name.startswith(_ATOMICS) and call.type != _VOID:
            self._put_access(call, 1, _ATOMIC, call, place)
        elif name.startswith(_COPIES) and call.args[2].type == _I64:
            to, of, size = call.operands[1:4]
            call = replaced(call, 1, self._asked(to, size, _WRITE, place))
            self._host.put(replaced(call, 2, self._asked(of, size, _READ, place)))
        else:
            if name == "kb.check.shared":
                array = list(self.shared.values())[call.args[0].constant]
                array.place = array.place or place
            if _WAITS.match(name):
                self._put_at(place)
            if name == "cudaCGSynchronize":
                self._put_question("kb.check.grid", _VOID, [])
            self._host.put(call)
            if name.startswith("kb.membar."):
                self._put_question("kb.check.fence", _VOID, [])

    def _put_at(self, place: str) -> None:
        self._put_question("kb.check.at", _VOID, [ir.Constant(_I32, self._site(place))])

    def _put_question(self, name: str, result: Any, arguments: Any, called: str = "") -> Any:
        return self._host.put(self._host.call(name, result, arguments, called or "kb.call"))

    def _put_local(self, array: Any) -> None:
        """Append an array, and the address that stands in for it, which takes its name."""
        kind = array.allocated_type
        item = kind.element if isinstance(kind, ir.ArrayType) else kind
        sizes = (size.get_reference() for size in (_size_of(item).trunc(_I32), _size_of(kind)))
        described = Array(array.get_reference(), str(item), *sizes)
        memory = ir.AllocaInstr(self._host.block, kind, None, "kb.local")
        memory.align = array.align
        arguments = [self._host.put(memory), ir.Constant(_I32, len(self._local))]
        self._put_question("kb.check.local", array.type, arguments, array.name)
        self._local.append(described)
        self._unplaced[array.get_reference()] = described

    def _put_access(self, instruction: Any, at: int, kind: int, value: Any, place: str) -> None:
        """Append an instruction that accesses a value at the address in operand `at`."""
        address = instruction.operands[at]
        if kind == _ATOMIC or instruction.opname == "load atomic":
            self._put_at(place)
        if kind == _ATOMIC or address.get_reference() not in self._own:
            written = self._bits(value) if kind == _WRITE else None
            asked = self._asked(address, _size_of(value.type), kind, place, written)
            instruction = replaced(instruction, at, asked)
        self._host.put(instruction)

    def _asked(self, address: Any, size: Any, kind: int, place: str, value: Any = None) -> Any:
        """The memory to use in place of an address."""
        how = ir.Constant(_I32, (_WRITE_VALUE if value else kind) + _KINDS * self._site(place))
        arguments = [address, size, how, value or ir.Constant(_I64, 0)]
        return self._put_question("kb.check.access", address.type, arguments, "kb.memory")

    def _bits(self, value: Any) -> Any:
        """The bits of a number as one of 64 bits; None if it has more."""
        kind = value.type
        builder = ir.IRBuilder(self._host.block)
        if isinstance(kind, (ir.HalfType, ir.FloatType, ir.DoubleType)):
            kind = ir.IntType(int(kind.intrinsic_name[1:]))
            value = builder.bitcast(value, kind, "kb.bits")
        if not isinstance(kind, ir.IntType) or kind.width > _VALUE_MAX:
            return None
        return builder.zext(value, _I64, "kb.bits")

    def _site(self, place: str) -> int:
        if place not in self.sites:
            self.sites.append(place)
        return self.sites.index(place)

    def table(self) -> str:
        """The constants for the C side, which src/ext/emulator/kb_check.h describes."""
        constants = Constants("kb.table")
        rows: list[tuple[Any, ...]] = [
            (a.name, a.item_size, a.n_dims, a.word, a.flags, 0, 0, "null", a.cell)
            for a in self.arguments
        ]
        for where, made in (("shared", self.shared.values()), ("local", self._local)):
            for array in made:
                name, shape = _described(where, array.symbol, array.item, array.place)
                extents = constants.array("i64", shape) if shape else "null"
                numbers = (array.item_size, max(len(shape), 1), 0, 0 if array.size else _DYNAMIC)
                cell = 1 if "records" in name else array.item_size
                cell = cell if where == "shared" else 0
                rows.append((name, *numbers, array.offset, array.size, extents, cell))
        described = [_structure(_ROW, constants.string(name), *more) for name, *more in rows]
        arrays = constants.array(f"{{{', '.join(_ROW)}}}", described)
        sites = constants.array("ptr", list(map(constants.string, self.sites)))
        counts = (len(self.arguments), len(self.shared), len(self._local), len(self.sites))
        label = constants.string(self.label)
        table = _structure(_TABLE, label, arrays, *counts, sites, int(self.waits))
        constants.add(f"{{{', '.join(_TABLE)}}} {table}", "kb_check_table")
        return str(constants)


def _structure(kinds: Sequence[str], *values: Any) -> str:
    return f"{{{', '.join(f'{k} {v}' for k, v in zip(kinds, values, strict=True))}}}"


def _size_of(kind: Any) -> Any:
    return ir.Constant(kind.as_pointer(), None).gep([ir.Constant(_I32, 1)]).ptrtoint(_I64)


def _described(where: str, symbol: str, item: str, place: str) -> tuple[str, tuple[int, ...]]:
    """An array in words, and its shape; `isolated_compile` puts both into the symbol."""
    shape: tuple[int, ...] = ()
    if found := re.search(r"\.(\w+)\.(\d+(?:x\d+)*)[.\d]*\"?$", symbol):
        item = found[1]
        shape = tuple(int(n) for n in found[2].split("x"))
    if 0 in shape:
        where, shape = f"dynamic {where}", ()
    count = "x".join(map(str, shape))
    made = f" from {place.split(_TEXT)[0]}" if place else ""
    return " ".join(filter(None, ("a", where, "array of", count, item))) + made, shape


def _place(location: Any) -> str:
    """Return "file:line" of debug information, with the line's text if it can be read; or ""."""
    node = dict(location.operands) if location else {}
    line = node.get("line")
    for _ in range(32):
        if "filename" in node:
            path = os.path.join(node.get("directory") or "", node["filename"])
            file = os.path.basename(path)
            if not line or file.startswith("<"):
                return ""
            read = linecache.getline(path, line).strip()[:_TEXT_MAX]
            return f"{file}:{line}{_TEXT}{read}" if read else f"{file}:{line}"
        parent = node.get("file") or node.get("scope")
        node = dict(parent.operands) if parent else {}
    return ""
