"""The entry of a kernel of numba-cuda-mlir: the kernel itself with other parameters.

MLIR has a kernel as one function, in its LLVM dialect, which takes an array as a memref (the
address twice, the index of the first element, extents, and strides in elements) and a scalar by
value. In place of these the entry takes the words of 8 bytes that `entry` describes; its first
instructions compute from them what the kernel took. All of this is text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernbridge._src.numba_cuda.parameters import DeviceParameter

_POINTER = "!llvm.ptr"
_KERNEL = re.compile(r"^ *llvm\.func @\S+?\((?P<parameters>.*)\) attributes \{.*nvvm\.kernel.*\{$")
_GLOBAL = re.compile(r"llvm\.mlir\.global (?:private|internal) [^@\n]*(@[\w.$]+)\(")
_DYNAMIC = re.compile(
    r"(llvm\.mlir\.global )(?:private|internal)( [^\n]*addr_space = 3 [^\n]*!llvm\.array<0 x )"
)
_PARAMETER = re.compile(r"%arg\d+: ")


def with_entry(
    module: str,
    symbol: str,
    attributes: Sequence[str],
    parameters: Sequence[DeviceParameter],
    batched: bool,
    on_gpu: bool,
) -> str:
    """The text of a module whose kernel has become the entry `symbol`.

    `attributes` are those that every kernel has, and what limits its launches. Variables get names
    that are the same in every process; numba-cuda-mlir counts them. On a GPU, dynamic shared memory
    is external, so that it lies behind the static one; numba-cuda-mlir defines an array without
    elements, which other arrays overlap.
    """
    module = _renamed(module)
    if on_gpu:
        module = _DYNAMIC.sub(r"\1external\2", module)
    lines = module.splitlines()
    (begin,) = (i for i, line in enumerate(lines) if _KERNEL.match(line))
    end = next(i for i in range(begin, len(lines)) if lines[i] == "    }")
    header = _KERNEL.match(lines[begin])
    assert header is not None
    kinds = [
        re.sub(r"(,| \{.*\},?)? *$", "", k) for k in _PARAMETER.split(header["parameters"])[1:]
    ]
    made = _Entry(kinds, batched)
    for parameter in parameters:
        if parameter.kind == "array":
            made.array(parameter.ndim)
        else:
            made.scalar()
    if len(made.given) != len(kinds):
        raise ValueError(
            f"the kernel takes {len(kinds)} values ({', '.join(kinds)}), and kernbridge has "
            f"{len(made.given)} for them"
        )
    words = ", ".join(f"%kb_w{i}: i64" for i in range(made.n_words))
    body = [
        re.sub(r"%arg(\d+)\b", lambda m: made.given[int(m[1])], b) for b in lines[begin + 1 : end]
    ]
    return "\n".join(
        [
            *lines[:begin],
            f"    llvm.func @{symbol}({words}) attributes {{{', '.join(attributes)}}} {{",
            *(f"      {line}" for line in made.lines),
            *body,
            *lines[end:],
            "",
        ]
    )


def _renamed(module: str) -> str:
    names = dict.fromkeys(_GLOBAL.findall(module))
    new = {name: f"@kb_global_{i}" for i, name in enumerate(names)}
    return re.sub(r"@[\w.$]+", lambda m: new.get(m[0], m[0]), module)


class _Entry:
    """The first instructions of an entry, and the values that they compute."""

    def __init__(self, kinds: Sequence[str], batched: bool) -> None:
        self.n_words = 0
        self.given: list[str] = []
        self.lines = [
            "%kb_zero = llvm.mlir.constant(0 : i64) : i64",
            "%kb_one = llvm.mlir.constant(1 : i64) : i64",
        ]
        self._types = kinds
        self._batched = batched
        self._n_values = 0
        if batched:
            self.lines.append("%kb_z32 = nvvm.read.ptx.sreg.ctaid.z : i32")
            self.lines.append("%kb_z = llvm.zext %kb_z32 : i32 to i64")

    def array(self, ndim: int) -> None:
        """A C-ordered array."""
        address = self._address()
        extents = [self._word() for _ in range(ndim)]
        strides = ["%kb_one"] * ndim
        for i in reversed(range(ndim - 1)):
            strides[i] = self._value(f"llvm.mul {strides[i + 1]}, {extents[i + 1]} : i64")
        self.given += [address, address, "%kb_zero", *extents, *strides]

    def scalar(self) -> None:
        """A scalar that lies in a buffer."""
        address = self._address()
        kind = self._types[len(self.given)] if len(self.given) < len(self._types) else "i64"
        in_memory = "i8" if kind == "i1" else kind
        value = self._value(f"llvm.load {address} : {_POINTER} -> {in_memory}")
        if kind == "i1":
            value = self._value(f"llvm.trunc {value} : i8 to i1")
        self.given.append(value)

    def _address(self) -> str:
        address = self._word()
        if self._batched:
            offset = self._value(f"llvm.mul %kb_z, {self._word()} : i64")
            address = self._value(f"llvm.add {address}, {offset} : i64")
        return self._value(f"llvm.inttoptr {address} : i64 to {_POINTER}")

    def _word(self) -> str:
        self.n_words += 1
        return f"%kb_w{self.n_words - 1}"

    def _value(self, instruction: str) -> str:
        name = f"%kb_v{self._n_values}"
        self._n_values += 1
        self.lines.append(f"{name} = {instruction}")
        return name
