"""Reads the parameters, registers, and shared and local memory of kernels from a cubin.

Parses ELF64 files for NVIDIA GPUs in plain Python, without a GPU or CUDA. Any thread may enter.
For any bytes, the result is a value or a `ValueError`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kernbridge._src.base.errors import KernelCompilationError
from kernbridge._src.numba_common.elf import Elf, part, refusing_damage

_ATTRIBUTE = struct.Struct("<BBH")
_PAIR = struct.Struct("<II")
_PARAMETER = struct.Struct("<IHHI")

_MACHINE, _LINKED = 190, 2  # EM_CUDA, ET_EXEC
_OLD_ABI = 0x33  # CUDA 12 and before: the architecture is the low byte of e_flags, then the second
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
    architecture: int  # 10 major + minor


def entries(cubin: bytes) -> tuple[str, ...]:
    return tuple(sorted(_Cubin(cubin).kernels))


def read(cubin: bytes, entry: str) -> CubinInfo:
    elf = _Cubin(cubin)
    if entry not in elf.kernels:
        known = ", ".join(sorted(elf.kernels)) or "none"
        raise ValueError(f"the cubin has no kernel {entry!r}; its kernels are: {known}")
    with refusing_damage():
        of_symbol: dict[int, int] = {}
        for code, value in _attributes(elf.contents[".nv.info"]):
            if code in (_REGCOUNT, _FRAME_SIZE):
                index, number = _PAIR.unpack(value)
                if index == elf.kernels[entry]:
                    of_symbol[code] = number
        shared = elf.sizes.get(f".nv.shared.{entry}")
        reserved = _RESERVED if shared is not None and elf.architecture >= 90 else 0
        if reserved > (shared or 0):
            raise ValueError(f"{entry!r} has {shared} bytes of shared memory")
        return CubinInfo(
            parameters=_parameters(list(_attributes(elf.contents[f".nv.info.{entry}"]))),
            registers=of_symbol[_REGCOUNT],
            static_shared=(shared or 0) - reserved,
            local=of_symbol[_FRAME_SIZE],
            architecture=elf.architecture,
        )


def _parameters(attributes: list[tuple[int, Any]]) -> tuple[tuple[int, int], ...]:
    found = []
    for code, value in attributes:
        if code in (_KPARAM_INFO, _KPARAM_INFO_V2):
            _, ordinal, offset, size = _PARAMETER.unpack(value)
            # Besides the size: alignment and space of a pointer, and in the old form the bank.
            found.append((ordinal, offset, size >> 18 if code == _KPARAM_INFO else size & 0xFFFF))
    found.sort()
    total = max((value for code, value in attributes if code == _CBANK_PARAM_SIZE), default=0)
    ends = [0, *(offset + size for _, offset, size in found)]
    for i, (ordinal, offset, size) in enumerate(found):
        if ordinal != i or size == 0 or offset < ends[i] or ends[i + 1] > total:
            raise ValueError(f"its parameters are (number, offset, size) {found} of {total} bytes")
    return tuple((offset, size) for _, offset, size in found)


def _attributes(data: bytes) -> Iterator[tuple[int, Any]]:
    """Codes and values in a `.nv.info` section: its bytes, or the number in the header."""
    at = 0
    while at < len(data):
        form, code, value = _ATTRIBUTE.unpack_from(data, at)
        at += _ATTRIBUTE.size
        if form == _WITH_BYTES:
            yield code, part(data, at, value)
            at += value
        elif 1 <= form < _WITH_BYTES:
            yield code, value
        else:
            raise ValueError(f"attribute {code:#x} has the unknown format {form}")


class _Cubin(Elf):
    """Sections and kernels of a cubin."""

    def __init__(self, cubin: bytes) -> None:
        data = bytes(cubin)
        if not data.startswith(b"\x7fELF"):
            raise ValueError(f"not a cubin: it starts with {data[:4]!r}, not with '\\x7fELF'")
        super().__init__(data)
        width, order, kind, machine = self.kind
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
        self.architecture = (self.flags if data[7] == _OLD_ABI else self.flags >> 8) & 0xFF
        named = [*zip(self.names, self.headers, self.parts, strict=True)][::-1]
        self.sizes = {name: header[5] for name, header, _ in named}
        self.contents = {name: part for name, _, part in named}
        with refusing_damage():
            self.kernels = dict(self._kernels())

    def _kernels(self) -> Iterator[tuple[str, int]]:
        """The name of each kernel, and its number among the symbols."""
        for i, (name, info, other, section, _, _) in enumerate(self.symbols()):
            if info & 0xF == _FUNCTION and other & _ENTRY:
                if self.names[section] != f".text.{name}":
                    raise ValueError(f"the code of {name!r} is not where it says")
                yield name, i


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
