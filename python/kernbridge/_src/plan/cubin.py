"""Reads the parameters, registers, and shared and local memory of kernels from a cubin.

Parses ELF64 files for NVIDIA GPUs in plain Python, without a GPU or CUDA. Any thread may enter. A
cubin may come from a cache or from another program: for any bytes, the result is a value or a
`ValueError`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kernbridge._src.base.errors import KernelCompilationError

_HEADER = struct.Struct("<4xBB10xHH20xQI6xHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_ATTRIBUTE = struct.Struct("<BBH")
_PAIR = struct.Struct("<II")
_PARAMETER = struct.Struct("<IHHI")

_MACHINE, _LINKED = 190, 2  # EM_CUDA, ET_EXEC
_OLD_ABI = 0x33  # CUDA 12 and before: the architecture is the low byte of e_flags, then the second
_STRTAB, _SYMTAB, _NOBITS = 3, 2, 8
_FUNCTION, _ENTRY = 2, 0x10  # symbol type; bit of st_other: a kernel, not a device function

_WITH_BYTES = 4  # format of an attribute: SVAL; 1 to 3 hold their value in the header
_FRAME_SIZE, _KPARAM_INFO, _CBANK_PARAM_SIZE = 0x11, 0x17, 0x19
_REGCOUNT, _KPARAM_INFO_V2 = 0x2F, 0x45

_RESERVED = 1024  # bytes of shared memory that CUDA keeps in every block, from sm_90 on


@dataclass(frozen=True, slots=True)
class CubinInfo:
    """What a cubin records about one kernel.

    `static_shared` are the bytes of shared memory that the kernel declares: what `ptxas -v` calls
    smem. From sm_90 on CUDA keeps 1024 bytes more in each block, which `cuobjdump -res-usage` adds.
    `local` are the bytes of the stack frame per thread; functions that the kernel calls and that
    were not inlined may take more.
    """

    parameters: tuple[tuple[int, int], ...]  # offset and size in bytes of each, in order
    registers: int  # per thread
    static_shared: int
    local: int
    constant: int  # bytes of constant bank 0, parameters included
    architecture: int  # 10 major + minor


def entries(cubin: bytes) -> tuple[str, ...]:
    return tuple(sorted(_Elf(cubin).kernels))


def read(cubin: bytes, entry: str) -> CubinInfo:
    elf = _Elf(cubin)
    if entry not in elf.kernels:
        known = ", ".join(sorted(elf.kernels)) or "none"
        raise ValueError(f"the cubin has no kernel {entry!r}; its kernels are: {known}")
    symbol = elf.kernels[entry]
    of_kernel = list(_attributes(elf.contents(f".nv.info.{entry}")))
    of_symbol: dict[int, int] = {}
    for code, value in _attributes(elf.contents(".nv.info")):
        if code in (_REGCOUNT, _FRAME_SIZE):
            index, number = _exactly(_PAIR, value, "an attribute of `.nv.info`")
            if index == symbol:
                of_symbol[code] = number
    for code, name in ((_REGCOUNT, "register count"), (_FRAME_SIZE, "frame size")):
        if code not in of_symbol:
            raise ValueError(f"damaged cubin: `.nv.info` has no {name} of {entry!r}")
    return CubinInfo(
        parameters=_parameters(of_kernel),
        registers=of_symbol[_REGCOUNT],
        static_shared=_shared(elf, entry),
        local=of_symbol[_FRAME_SIZE],
        constant=elf.size(f".nv.constant0.{entry}") or 0,
        architecture=elf.architecture,
    )


def _shared(elf: _Elf, entry: str) -> int:
    size = elf.size(f".nv.shared.{entry}")
    if size is None or elf.architecture < 90:
        return size or 0
    if size < _RESERVED:
        raise ValueError(
            f"damaged cubin: {entry!r} has {size} bytes of shared memory, and sm_"
            f"{elf.architecture} reserves {_RESERVED}"
        )
    return size - _RESERVED


def _parameters(attributes: list[tuple[int, bytes | int]]) -> tuple[tuple[int, int], ...]:
    found: dict[int, tuple[int, int]] = {}
    total = 0
    for code, value in attributes:
        if code == _CBANK_PARAM_SIZE and isinstance(value, int):
            total = value
        elif code in (_KPARAM_INFO, _KPARAM_INFO_V2):
            _, ordinal, offset, size = _exactly(_PARAMETER, value, "a parameter")
            # Besides the size: alignment and space of a pointer, and in the old form the bank.
            size = size >> 18 if code == _KPARAM_INFO else size & 0xFFFF
            if ordinal in found:
                raise ValueError(f"damaged cubin: parameter {ordinal} is there twice")
            found[ordinal] = (offset, size)
    end = 0
    for ordinal in range(len(found)):
        if ordinal not in found:
            raise ValueError(
                f"damaged cubin: it has {len(found)} parameters, and none is number {ordinal}"
            )
        offset, size = found[ordinal]
        if size == 0 or offset < end or offset + size > total:
            raise ValueError(
                f"damaged cubin: parameter {ordinal} has {size} bytes at {offset}, the ones before "
                f"it end at {end}, and all take {total}"
            )
        end = offset + size
    return tuple(found[ordinal] for ordinal in range(len(found)))


def _attributes(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Codes and values in a `.nv.info` section: its bytes, or the number in the header."""
    at = 0
    while at < len(data):
        form, code, value = _at(_ATTRIBUTE, data, at, "an attribute")
        at += _ATTRIBUTE.size
        if form == _WITH_BYTES:
            if value > len(data) - at:
                raise ValueError("damaged cubin: an attribute ends behind its section")
            yield code, data[at : at + value]
            at += value
        elif 1 <= form < _WITH_BYTES:
            yield code, value
        else:
            raise ValueError(f"damaged cubin: attribute {code:#x} has the unknown format {form}")


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    kind: int
    start: int
    size: int
    link: int


class _Elf:
    """Sections and kernels of a cubin. Nothing is read without its bounds being checked."""

    def __init__(self, cubin: bytes) -> None:
        self.data = bytes(cubin)
        if not self.data.startswith(b"\x7fELF"):
            raise ValueError(f"not a cubin: it starts with {self.data[:4]!r}, not with '\\x7fELF'")
        header = _at(_HEADER, self.data, 0, "the header")
        width, order, kind, machine, sections, flags, size, count, names = header
        if (width, order, machine) != (2, 1, _MACHINE):
            raise ValueError(
                f"not a cubin: an ELF file of class {width}, byte order {order} and machine "
                f"{machine}; expected 2, 1 and {_MACHINE}"
            )
        if kind != _LINKED:
            raise ValueError(
                f"the cubin is not linked (ELF type {kind}, expected {_LINKED}): relocatable "
                "device code needs nvlink or nvJitLink first"
            )
        self.architecture = (flags if self.data[7] == _OLD_ABI else flags >> 8) & 0xFF
        self.sections = self._read_sections(sections, size, count, names)
        self._by_name = {s.name: s for s in reversed(self.sections)}
        self.kernels = self._read_kernels()

    def size(self, name: str) -> int | None:
        section = self._by_name.get(name)
        return None if section is None else section.size

    def contents(self, name: str) -> bytes:
        section = self._by_name.get(name)
        if section is None:
            raise ValueError(f"damaged cubin: it has no section `{name}`")
        return self._bytes(section)

    def _bytes(self, section: _Section) -> bytes:
        if section.kind == _NOBITS:
            raise ValueError(f"damaged cubin: section `{section.name}` has no contents")
        return self.data[section.start : section.start + section.size]

    def _read_sections(self, start: int, size: int, count: int, names: int) -> list[_Section]:
        if size != _SECTION.size or names >= count:
            raise ValueError(
                f"damaged cubin: {count} sections of {size} bytes, names in section {names}"
            )
        headers = [
            _at(_SECTION, self.data, start + i * size, "a section header") for i in range(count)
        ]
        for _, kind, _, _, begin, length, *_ in headers:
            if kind != _NOBITS and begin + length > len(self.data):
                raise ValueError(
                    f"damaged cubin: a section of {length} bytes at {begin}, and the file has "
                    f"{len(self.data)}"
                )
        _, kind, _, _, begin, length, *_ = headers[names]
        if kind != _STRTAB:
            raise ValueError("damaged cubin: no table of section names")
        table = self.data[begin : begin + length]
        return [_Section(_string(table, h[0]), h[1], h[4], h[5], h[6]) for h in headers]

    def _read_kernels(self) -> dict[str, int]:
        kernels: dict[str, int] = {}
        for table in self.sections:
            if table.kind != _SYMTAB:
                continue
            if table.link >= len(self.sections) or self.sections[table.link].kind != _STRTAB:
                raise ValueError("damaged cubin: its symbols have no names")
            names, data = self._bytes(self.sections[table.link]), self._bytes(table)
            for i in range(len(data) // _SYMBOL.size):
                name, info, other, section, _, _ = _SYMBOL.unpack_from(data, i * _SYMBOL.size)
                if info & 0xF != _FUNCTION or not other & _ENTRY:
                    continue
                entry = _string(names, name)
                if section >= len(self.sections) or (
                    self.sections[section].name != f".text.{entry}"
                ):
                    raise ValueError(f"damaged cubin: the code of {entry!r} is not where it says")
                kernels[entry] = i
        return kernels


def _string(table: bytes, start: int) -> str:
    end = table.find(b"\0", start)
    if end < 0:
        raise ValueError("damaged cubin: a name ends behind its table")
    try:
        return table[start:end].decode()
    except UnicodeDecodeError as e:
        raise ValueError(f"damaged cubin: {table[start:end]!r} is no name") from e


def _at(layout: struct.Struct, data: bytes, at: int, what: str) -> tuple[Any, ...]:
    if at + layout.size > len(data):
        raise ValueError(f"damaged cubin: {what} at {at} ends behind the {len(data)} bytes there")
    return layout.unpack_from(data, at)


def _exactly(layout: struct.Struct, value: bytes | int, what: str) -> tuple[Any, ...]:
    if isinstance(value, int) or len(value) != layout.size:
        raise ValueError(f"damaged cubin: {what} has other than {layout.size} bytes")
    return layout.unpack(value)


def check_words(label: str, cubins: Sequence[bytes], entry: str, n_words: int) -> None:
    """Refuse cubins whose entry takes anything else than words of eight bytes."""
    expected = tuple((8 * i, 8) for i in range(n_words))
    for cubin in cubins:
        found = read(bytes(cubin), entry).parameters
        if found != expected:
            raise KernelCompilationError(
                f"{label}: the compiled entry takes parameters at (offset, size) {found}, expected "
                f"{n_words} words of 8 bytes; this Numba-CUDA lays them out in a way that "
                "kernbridge does not know [KB8004]"
            )
