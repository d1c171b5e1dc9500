"""Replaces atomic operations that no other thread of the system can disturb by plain ones.

A processor takes several times as long for an atomic operation as for a plain one.
"""

from __future__ import annotations

from typing import Any

from kernbridge._src.llvm.text import Function, Instruction, Module, with_locals
from kernbridge._src.numba_common.private_llvmlite import binding as llvm
from kernbridge._src.numba_common.private_llvmlite import run_once

OPCODES = ("atomicrmw", "cmpxchg")
OF_BLOCK = "kb.of.block"  # the metadata of operations on memory of a block, which one thread runs

_ALONE = "declare zeroext i1 @kb_alone() nounwind willreturn speculatable memory(none)\n"
_EITHER = """
define internal {kind} @kb.plain.{n}({0}) alwaysinline {{
{1}
  ret {kind} %kb.old
}}
define internal {kind} @kb.atomic.{n}({0}) alwaysinline {{
  %kb.alone = call i1 @kb_alone()
  br i1 %kb.alone, label %kb.plain, label %kb.atomic
kb.plain:
  %kb.same = call {kind} @kb.plain.{n}({0})
  ret {kind} %kb.same
kb.atomic:
{1}
  ret {kind} %kb.old
}}
"""


def array_of(function: Function, i: Instruction) -> str:
    """The address of the array that an atomic operation changes; empty for any other number."""
    base, made = function.base(i.operands[0].value)
    if made and made.opcode == "inttoptr":
        word = made.operands[0].value  # of the launch, which gives an array's address
        return base if any(p.endswith(f" {word}") for p in function.parameters) else ""
    return "" if base.startswith("inttoptr") else base


def plain_if_alone(module: Any, builder: Any) -> Any:
    """The module with plain operations beside atomic ones, for launches that are alone.

    The function kb_alone says which are. Operations on memory of a block are plain. An operation
    at a computed number stays atomic, since it may access memory outside of the launch's arrays.
    """
    text = str(module)
    if not any(f" {opcode} " in text for opcode in OPCODES):
        return module
    read, made = Module(text), list[str]()
    for function in read.defined.values():
        for i in function.instructions:
            if i.opcode not in OPCODES or not array_of(function, i):
                continue
            of = i.operands[1].type
            kind = of if i.opcode == "atomicrmw" else f"{{ {of}, i1 }}"
            values = dict.fromkeys(o for o in i.operands if o.value in i.names)
            names = {o.value: f"%kb.{k}" for k, o in enumerate(values)} | {i.result: "%kb.old"}
            given = ", ".join(map(" ".join, values))
            way = "plain" if OF_BLOCK in i.metadata else "atomic"
            parts = (with_locals(part, names) for part in (given, i.text))
            made.append(_EITHER.format(*parts, n=len(made), kind=kind))
            i.text = f"  {i.result} = call {kind} @kb.{way}.{len(made) - 1}({given})"
    module = llvm.parse_assembly("".join((f"{read}\n", _ALONE, *made)))
    for n in range(len(made)):
        passes = llvm.create_new_function_pass_manager()
        passes.add_lower_atomic_pass()
        run_once(passes, module.get_function(f"kb.plain.{n}"), builder)
    return module
