"""Half precision as float32 in derivatives of CUDA C++.

Enzyme would sum cotangents of halves as halves, and takes bfloat16 for bits. So each half in the IR
of a kernel becomes a float: in registers, in local and shared memory, and in arrays, which the
derivative gets as arrays of float32. What lies in such memory is then twice as far from its begin.
"""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Collection, Sequence

from kernbridge._ext.enzyme import guards
from kernbridge._ext.enzyme.function import FILL, Buffer, Refused, holds
from kernbridge._src.base.dtypes import HALVES
from kernbridge._src.llvm.text import Instruction, Module

_HALF = re.compile(r'(?<![%@\w."])half\b')
_BITS = re.compile(r"\b0xH([0-9A-F]{4})")
_STRUCTURE = re.compile(r"%struct\.__(?:half|nv_bfloat16)(2?)(?:\.\d+)*")
_CALLS = {f"kb_{name}_{to}_float": name for name in ("half", "bfloat16") for to in ("to", "of")}
_USES = ("phi", "select", "freeze", "icmp")  # of addresses, which do not depend on distances


def widened(text: str, buffers: Sequence[Buffer]) -> tuple[str, list[Buffer]]:
    """Let `kb_primal` compute with floats instead of halves; also return what its buffers are."""
    module, made = Module(text), list[Buffer]()
    primal = module.functions["kb_primal"]
    memory, _, accesses, _ = guards.all_accesses(primal)
    for i in primal.instructions:
        for pair in guards.same_memory(i):  # of structures, too
            memory.join(*pair)
    wide = {memory[address] for address, kind, _ in accesses if "half" in kind}
    for name, b in zip(guards.buffer_names(primal), buffers, strict=True):
        if b.dtype in HALVES:
            wide.add(memory[name])
            primal.head = primal.head.replace(holds(b.dtype), holds("float32"))
            b = b._replace(dtype="float32")
        elif memory[name] in wide and b.kind != "shared":
            raise Refused(f"it uses an array of {b.dtype} as one of half precision", None)
        made.append(b._replace(size=2 * b.size) if memory[name] in wide else b)
    if not wide:
        return text, made
    if not all(name.startswith("%") for name in wide):
        raise Refused("it has constant arrays of half precision", None)
    number = functools.partial(_float, {_CALLS.get(name) for name in module.functions} - {None})
    for n, i in enumerate(primal.instructions):
        own = [o.value for o in i.operands if memory[o.value] in wide]
        if i.callee in _CALLS:
            i.text = f"  {i.result} = bitcast float {i.operands[0].value} to float"
        elif i.opcode == "alloca" and memory[i.result] in wide:
            i.text = i.text.replace(f" {i.type}", f" [2 x {i.type}]", 1)
        elif own and i.opcode not in _USES and not i.callee.startswith("llvm.lifetime."):
            i.text = _using(i, own, f"%kb.far{n}")
        if i.opcode != "alloca" and (own or i.opcode != "getelementptr"):
            text = _HALF.sub("float", _BITS.sub(number, i.text))
            i.text = re.sub(r"\bfp(?:ext|trunc) (float \S+ to float)\b", r"bitcast \1", text)
    return f"{module}\ndeclare void {FILL}(ptr, i8, i64, i1)\n", made


def _using(i: Instruction, own: Sequence[str], far: str) -> str:
    """What an access to memory of halves, a copy of it or an address in it is for floats."""
    text = re.sub(r"\balign (\d+)", lambda a: f"align {min(2 * int(a[1]), 16)}", i.text)
    given, distances = i.operands, i.operands[1:]
    number = given[0] if i.opcode == "store" else given[-1]
    if i.opcode in ("load", "store", "atomicrmw"):
        if _HALF.search(i.type if i.opcode == "load" else number.type):
            return text
        if i.opcode == "store" and number.value == "0":  # several halves, say
            size = int(number.type[1:]) // 4
            return f"  call void {FILL}(ptr {own[0]}, i8 0, i64 {size}, i1 false)"
    elif i.opcode == "getelementptr":
        item = _STRUCTURE.sub(lambda name: "[2 x half]" if name[1] else "half", i.type)
        if re.fullmatch(r"(?:\[\d+ x )*half]*", item):
            return text.replace(f" {i.type},", f" {item},", 1)
    elif i.callee.startswith(("llvm.memcpy.", "llvm.memset.")):
        distances = given[2:3] if {o.value for o in given[:2]} <= {*own, "0"} else []
    if len(distances) == 1 and i.opcode in ("call", "getelementptr") and not _HALF.search(i.type):
        ((kind, value),) = distances
        text = text.replace(f", {kind} {value}", f", {kind} {far}")
        return f"  {far} = shl {kind} {value}, 1\n{text}"
    raise Refused(f"it uses memory of half precision as other data ({i.opcode} {i.type})", None)


def _float(kinds: Collection[str | None], constant: re.Match[str]) -> str:
    """A constant as a float, if all halves of the kernel are of one kind."""
    if len(kinds) > 1 and int(constant[1], 16) & 0x7FFF:
        raise Refused("it has constants of both half and bfloat16", None)
    form, more = (">f", "0000") if "bfloat16" in kinds else (">e", "")
    return f"0x{struct.pack('>d', *struct.unpack(form, bytes.fromhex(constant[1] + more))).hex()}"
