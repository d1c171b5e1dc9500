"""What LLVM and Enzyme would otherwise make of a kernel.

LLVM makes of `1 / x if x != 0 else 0` a division and a choice, since a division has no effects. The
derivative of a choice multiplies a cotangent of zero by the derivative of what is not chosen. If
that is infinite, the product is NaN. Operations whose derivative may be infinite or NaN are
therefore calls of unknown functions while LLVM optimises: it does not move such a call to where it
might not be reached. So what a branch guards stays behind the branch.

Enzyme takes some code for something else, unless it is told or the code is refused. This is code
that reads the bits of real numbers as integers, or the reverse, and code that finds out at run time
which array it uses.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from kernbridge._ext.enzyme.registered import REGISTERED
from kernbridge._src.llvm.text import Function, Instruction, Module, declared_once, renamed

_OPERATIONS = ("fmul", "fdiv", "frem")
_KINDS = ("double", "float")
_HIDDEN = "kb.hidden."
# Functions of LLVM whose derivative is somewhere infinite or NaN.
_FUNCTIONS = {f"{a}{f}{h}" for a in ("", "a") for f in ("sin", "cos", "tan") for h in ("", "h")}
_FUNCTIONS |= {"atan2", "exp", "exp2", "exp10", "fma", "fmuladd", "ldexp", "log", "log2", "log10"}
_FUNCTIONS |= {"pow", "powi", "sqrt"}
_PURE = "readnone nounwind willreturn"
_INTEGERS = {"i8", "i16", "i32", "i64"}


def hidden(text: str) -> str:
    """Return a module in which these operations are calls of unknown functions."""
    module = Module(renamed(text, _hidden_name))
    for f in module.functions.values():
        if f.is_declaration and f.name.startswith(_HIDDEN):
            f.head = f"{signature(f)} {_PURE}"
    for i in module.instructions(*_OPERATIONS):
        (kind, a), (_, b) = i.operands
        is_constant = not b.startswith("%") or (i.opcode == "fmul" and not a.startswith("%"))
        if i.type in _KINDS and not is_constant:  # its derivative
            flags = "".join(f"{flag} " for flag in i.flags)
            plain = f" = {i.opcode} {flags}{kind} {a}, {b}"
            call = f"{kind} @{_HIDDEN}{i.opcode}.{kind}({kind} {a}, {kind} {b})"
            i.text = i.text.replace(plain, f" = call {flags}{call}", 1)
    pairs = itertools.product(_OPERATIONS, _KINDS)
    calls = (f"declare {k} @{_HIDDEN}{name}.{k}({k}, {k}) {_PURE}\n" for name, k in pairs)
    return str(module) + "".join(calls)


def _hidden_name(name: str) -> str:
    library, function, kind, *_ = [*name.split("."), "", ""]
    is_one = library == "llvm" and function in _FUNCTIONS and kind in ("f32", "f64")
    return f"{_HIDDEN}{name}" if is_one else name


def signature(declaration: Function) -> str:
    """A declaration without its attributes."""
    head = declaration.head
    return head[: head.index(")", head.index("@")) + 1]


def shown(text: str) -> str:
    """Return a module in which hidden operations are what they were."""
    module = Module(text)
    for i in module.instructions("call"):
        if i.callee.startswith(f"{_HIDDEN}f"):
            operation = i.callee.split(".")[2]
            flags = "".join(f"{flag} " for flag in i.flags)
            (kind, a), (_, b) = i.operands
            metadata = "".join(f", !{name} {node}" for name, node in i.metadata.items())
            i.text = f"  {i.result} = {operation} {flags}{kind} {a}, {b}{metadata}"
    return declared_once(str(module).replace(f"@{_HIDDEN}", "@"))


def _is_real(kind: str) -> bool:
    return kind.strip("<>").endswith(("float", "double", "half"))


def _is_integer(kind: str) -> bool:
    return kind.strip("<>").split()[-1] in _INTEGERS


class _Addresses:
    """Which addresses may lie in the same memory, of which one stands for all."""

    def __init__(self) -> None:
        self._others: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        while name in self._others:
            name = self._others[name]
        return name

    def join(self, name: str, other: str) -> None:
        if self[name] != self[other]:
            self._others[self[name]] = self[other]


def reinterprets(module: Module, primal: str, of_reals: Sequence[bool]) -> Instruction | None:
    """The instruction that uses memory, or a value, both as a real number and as an integer.

    Enzyme would take what depends on the bits of a number as constant. The function `primal` calls
    the kernel, and others are inlined into it; `of_reals` says what each of its buffers holds.
    Structures on the stack do not count, since they may hold both. An integer that is only stored
    again is a copy of what it was read from.
    """
    for function in module.defined.values():
        if function.name.startswith(REGISTERED):  # whose body Enzyme does not differentiate
            continue
        buffers = buffer_names(function) if function.name == primal else []
        memory, structures, accesses, cast = all_accesses(function)
        real = {memory[b] for b, is_real in zip(buffers, of_reals, strict=False) if is_real}
        real |= {memory[a] for a, kind, _ in accesses if _is_real(kind)}
        real = {name for name in real - structures if name.startswith("%")}  # no constants
        mixed = (i for a, kind, i in accesses if _is_integer(kind) and memory[a] in real)
        if found := cast or next(mixed, None):
            return found
    return None


def buffer_names(primal: Function) -> list[str]:
    """The names of its buffers, which come after the status and the exception."""
    pointers = (p for p in primal.parameters if p.startswith("ptr"))
    return [p.rpartition(" ")[2] for p in pointers][2:]


def arrays_of(primal: Function) -> dict[str, int]:
    """The numbers of the buffers in which addresses lie that are computed from one buffer's."""
    arrays = {name: i for i, name in enumerate(buffer_names(primal))}
    for i in primal.instructions:
        if i.opcode == "getelementptr" and i.operands[0].value in arrays:
            arrays[i.result] = arrays[i.operands[0].value]
    return arrays


def all_accesses(
    function: Function,
) -> tuple[_Addresses, set[str], list[tuple[str, str, Instruction]], Instruction | None]:
    """Addresses, structures on the stack, accesses by address and type, and a cast of bits."""
    memory, structures, copied = _Addresses(), set[str](), set[str]()
    accesses: list[tuple[str, str, Instruction]] = []
    cast = None
    for i in function.instructions:
        if i.opcode == "bitcast":
            kinds = i.type, i.operands[0].type
            if any(map(_is_real, kinds)) and any(map(_is_integer, kinds)):
                cast = cast or i
        elif i.opcode == "alloca":
            item = i.type.partition(" x ")[2] if i.type.startswith("[") else i.type
            if item.startswith(("%", "{")):
                structures.add(i.result)
        elif i.opcode == "load":
            uses = function.users.get(i.result, [])
            stored = [u for u in uses if u.opcode == "store" and u.operands[0].value == i.result]
            if _is_integer(i.type) and len(stored) == len(uses):
                copied.add(i.result)
            else:
                accesses.append((i.operands[0].value, i.type, i))
        elif i.opcode == "store":
            (kind, value), (_, address) = i.operands
            if _is_real(kind) or (value.startswith("%") and value not in copied):
                accesses.append((address, kind, i))
        elif i.opcode in ("atomicrmw", "cmpxchg"):
            accesses.append((i.operands[0].value, i.operands[1].type, i))
        elif i.opcode == "getelementptr" and (pointers := _pointers(i)):
            memory.join(i.result, *pointers)
        else:
            for a, b in same_memory(i):
                if structures.isdisjoint((memory[a], memory[b])):
                    memory.join(a, b)
    return memory, structures, accesses, cast


def same_memory(i: Instruction) -> Iterator[tuple[str, str]]:
    """Pairs of addresses of which an instruction makes one of the other, or copies one to it."""
    if i.opcode in ("phi", "select", "freeze"):
        yield from ((i.result, other) for other in _pointers(i))
    elif i.opcode == "call" and i.callee.startswith(("llvm.memcpy", "llvm.memmove")):
        to, of, *_ = i.operands
        yield to.value, of.value


def _pointers(i: Instruction) -> Iterable[str]:
    return [o.value for o in i.operands if o.type.startswith("ptr") and o.value.startswith("%")]


def without_overlaps(text: str, primal: str) -> str:
    """A module without tests of whether two arrays overlap that do not; empty if it has none.

    Numba copies an array that might overlap, and Enzyme finds out at run time which one is read.
    """
    module, has_tests = Module(text), False
    function = module.functions[primal]
    for i in (i for i in function.instructions if i.opcode == "and" and i.type == "i1"):
        arrays = list[str]()  # at a lower and at a higher address, for each comparison
        for test in (function.defined[o.value] for o in i.operands if o.value in function.defined):
            if order := {"ult": 1, "ugt": -1}.get("".join(test.flags)):
                arrays += [_array_at(function, o.value) for o in test.operands[::order]]
        if len({*arrays} - {""}) == 2 and arrays == arrays[::-1]:
            i.text, has_tests = f"  {i.result} = and i1 false, false", True
    return str(module) if has_tests else ""


def _array_at(function: Function, value: str) -> str:
    """The buffer, or array of Numba's, of whose address alone a value is made; or nothing."""
    names, found = [value], set[str]()
    for name in names:  # which grows
        if (i := function.defined.get(name)) is None:
            found |= {name} & {*buffer_names(function)}
        elif i.opcode in ("call", "alloca", "load"):
            found.add(name if i.callee.startswith("NRT_MemInfo_alloc") else "")
        else:
            names += [o.value for o in i.operands if o.type != "i1" and o.value not in names]
    return found.pop() if len(found) == 1 else ""


def chooses_arrays(module: str, primal: str) -> bool:
    """Whether a kernel may find out at run time which array it uses.

    That is where it chooses between the addresses of several arrays, or stores the address of a
    buffer. Functions are inlined into `primal`.
    """
    function = Module(module).functions[primal]
    memory, kept = _Addresses(), set[str]()
    choices: dict[str, Iterable[str]] = {}
    for i in function.instructions:
        if i.opcode in ("getelementptr", "freeze") and (pointers := _pointers(i)):
            memory.join(i.result, *pointers)
        elif i.opcode in ("phi", "select") and (pointers := _pointers(i)):
            choices[i.result] = pointers
        elif i.opcode == "store" and i.operands[0].type == "ptr":
            kept.add(i.operands[0].value)
    while settled := {
        name: others
        for name, among in choices.items()
        if len(others := {memory[other] for other in among} - {name}) < 2
    }:  # of one array, perhaps at another element
        for name, others in settled.items():
            for other in others:
                memory.join(name, other)
            del choices[name]
    return bool(choices) or not {memory[name] for name in kept}.isdisjoint(buffer_names(function))
