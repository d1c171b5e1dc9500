"""Generates the entry of a numba-cuda-mlir kernel by replacing the kernel's parameters, in text.

In MLIR, a kernel is one function of the LLVM dialect. It takes an array as a memref (the address
twice, the index of the first element, extents, and strides in elements, or in bytes if the elements
are records), a scalar by value, a record by its address, and the members of a tuple. The entry
takes 8-byte words instead (see numba_cuda/entry.py), from which its first instructions compute what
the kernel took.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kernbridge._src.base.errors import defect
from kernbridge._src.plan.parameters import DeviceParameter, Parameter, leaves

_KERNEL = re.compile(r"^ *llvm\.func @\S+?\((?P<parameters>.*)\) attributes \{.*nvvm\.kernel.*\{$")
_GLOBAL = re.compile(r"llvm\.mlir\.global (?:private|internal) [^@\n]*(@[\w.$]+)\(")
_DYNAMIC = re.compile(
    r"(llvm\.mlir\.global )(?:private|internal)( [^\n]*addr_space = 3 [^\n]*!llvm\.array<0 x )"
)
_PARAMETER = re.compile(r"%arg\d+: ")
_COMPLEX = re.compile(r"!llvm\.struct<\((f32|f64), \1\)>")
_BITS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}


def with_entry(
    module: str,
    symbol: str,
    attributes: Sequence[str],
    parameters: Sequence[Parameter],
    batched: bool,
) -> str:
    """The text of a module whose kernel has become the entry `symbol`.

    `attributes` are those of the entry. Variables, which numba-cuda-mlir numbers, get names that
    are the same in every process. Dynamic shared memory becomes external, so that it lies after the
    static one; numba-cuda-mlir defines an array without elements, which other arrays overlap.
    """
    new = {name: f"@kb_global_{i}" for i, name in enumerate(dict.fromkeys(_GLOBAL.findall(module)))}
    module = re.sub(r"@[\w.$]+", lambda m: new.get(m[0], m[0]), module)
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
    for parameter in leaves(parameters):
        made.add(parameter)
    if len(made.given) != len(kinds):
        takes = f"the kernel takes {len(kinds)} values ({', '.join(kinds)})"
        raise ValueError(defect(f"{takes}, and kernbridge has {len(made.given)} for them"))
    words = ", ".join(f"%kb_w{i}: i64" for i in range(made.n_words))
    body = "\n".join(lines[begin + 1 : end])
    lines[begin:end] = [
        f"    llvm.func @{symbol}({words}) attributes {{{', '.join(attributes)}}} {{",
        *(f"      {line}" for line in made.lines),
        *([re.sub(r"%arg(\d+)\b", lambda m: made.given[int(m[1])], body)] if body else []),
    ]
    return "\n".join([*lines, ""])


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

    def add(self, parameter: DeviceParameter) -> None:
        if parameter.kind == "array":
            self._add_array(parameter)
        elif parameter.kind == "scalar":
            self._add_scalar(parameter)
        else:
            self.given.append(self._address() if parameter.kind == "record" else self._loaded())

    def _add_array(self, parameter: DeviceParameter) -> None:
        ndim, item_size = parameter.ndim, parameter.dtype.itemsize
        address = self._address()
        extents = [self._word() for _ in range(ndim)]
        if parameter.layout == "C":
            unit = "%kb_one" if parameter.dtype.names is None else self._constant(item_size)
            strides = [unit] * ndim
            for i in reversed(range(ndim - 1)):
                strides[i] = self._value(f"llvm.mul {strides[i + 1]}, {extents[i + 1]} : i64")
        else:
            size = self._constant(item_size)
            strides = [self._value(f"llvm.sdiv {self._word()}, {size} : i64") for _ in range(ndim)]
        self.given += [address, address, "%kb_zero", *extents, *strides]

    def _loaded(self) -> str:
        address, kind = self._address(), self._type()
        in_memory = "i8" if kind == "i1" else kind
        value = self._value(f"llvm.load {address} : !llvm.ptr -> {in_memory}")
        return self._value(f"llvm.trunc {value} : i8 to i1") if kind == "i1" else value

    def _add_scalar(self, parameter: DeviceParameter) -> None:
        """A scalar whose bits are in words."""
        words = [self._word() for _ in range(parameter.n_words(False))]
        kind = self._type()
        found = _COMPLEX.fullmatch(kind)
        if not found:
            self.given.append(self._of_bits(words[0], kind))
            return
        part = found[1]
        if len(words) == 1:
            shift = self._constant(_BITS[part])
            words.append(self._value(f"llvm.lshr {words[0]}, {shift} : i64"))
        value = self._value(f"llvm.mlir.undef : {kind}")
        for i, word in enumerate(words):
            bits = self._of_bits(word, part)
            value = self._value(f"llvm.insertvalue {bits}, {value}[{i}] : {kind}")
        self.given.append(value)

    def _of_bits(self, word: str, kind: str) -> str:
        """The value of this type in the first bits of a word."""
        if kind == "i64":
            return word
        width = _BITS.get(kind)
        bits = f"i{width}" if width else kind
        if bits != "i64":
            word = self._value(f"llvm.trunc {word} : i64 to {bits}")
        return self._value(f"llvm.bitcast {word} : {bits} to {kind}") if width else word

    def _type(self) -> str:
        """The type of the kernel's next value."""
        return self._types[len(self.given)] if len(self.given) < len(self._types) else "i64"

    def _constant(self, value: int) -> str:
        return self._value(f"llvm.mlir.constant({value} : i64) : i64")

    def _address(self) -> str:
        address = self._word()
        if self._batched:
            offset = self._value(f"llvm.mul %kb_z, {self._word()} : i64")
            address = self._value(f"llvm.add {address}, {offset} : i64")
        return self._value(f"llvm.inttoptr {address} : i64 to !llvm.ptr")

    def _word(self) -> str:
        self.n_words += 1
        return f"%kb_w{self.n_words - 1}"

    def _value(self, instruction: str) -> str:
        name = f"%kb_v{self._n_values}"
        self._n_values += 1
        self.lines.append(f"{name} = {instruction}")
        return name
