"""Replaces atomic operations that no other thread of the system can disturb by plain ones.

A processor takes several times as long for an atomic operation as for a plain one.
"""

from __future__ import annotations

from typing import Any

from kernbridge._src.llvm.text import Function, Instruction, Module, declared_once, with_locals
from kernbridge._src.numba_common.private_llvmlite import binding as llvm
from kernbridge._src.numba_common.private_llvmlite import run_once

OPCODES = ("atomicrmw", "cmpxchg")
OF_BLOCK = "kb.of.block"  # the metadata of operations on memory of a block, which one thread runs

_EITHER = """
declare zeroext i1 @kb_alone() nounwind willreturn speculatable memory(none)
define internal {kind} @kb.plain.{n}({parameters}) alwaysinline {{
{text}
  ret {kind} %kb.old
}}
define internal {kind} @kb.atomic.{n}({parameters}) alwaysinline {{
  %kb.alone = call i1 @kb_alone()
  br i1 %kb.alone, label %kb.plain, label %kb.atomic
kb.plain:
  %kb.same = call {kind} @kb.plain.{n}({parameters})
  ret {kind} %kb.same
kb.atomic:
{text}
  ret {kind} %kb.old
}}
"""


def array_of(function: Function, i: Instruction) -> str:
    """The address from which that of an atomic operation is computed."""
    base = i.operands[0].value
    while base in function.defined and function.defined[base].opcode == "getelementptr":
        base = function.defined[base].operands[0].value
    return base


def _is_at_number(function: Function, base: str) -> bool:
    """Whether an address is a number that is not a word of the launch, as those of arrays are."""
    made = function.defined.get(base)
    if made is None or made.opcode != "inttoptr":
        return base.startswith("inttoptr")
    return not any(p.endswith(f" {made.operands[0].value}") for p in function.parameters)


def plain_if_alone(module: Any, builder: Any) -> Any:
    """The module with plain operations beside atomic ones, for launches that are alone.

    The function kb_alone says which are. Operations on memory of a block are plain. Those at a
    number stay atomic, since they may access what no array of the launch has.
    """
    read, made = Module(str(module)), list[str]()
    for function in read.defined.values():
        for i in function.instructions:
            if i.opcode not in OPCODES or _is_at_number(function, array_of(function, i)):
                continue
            kind = i.operands[1].type
            kind = kind if i.opcode == "atomicrmw" else f"{{ {kind}, i1 }}"
            types = {o.value: o.type for o in i.operands if o.value in i.names}
            names = {value: f"%kb.{k}" for k, value in enumerate(types)}
            text = with_locals(i.text, names | {i.result: "%kb.old"})
            parameters = ", ".join(f"{types[value]} {name}" for value, name in names.items())
            way = "plain" if OF_BLOCK in i.metadata else "atomic"
            given = ", ".join(f"{of} {value}" for value, of in types.items())
            i.text = f"  {i.result} = call {kind} @kb.{way}.{len(made)}({given})"
            made.append(_EITHER.format(n=len(made), kind=kind, parameters=parameters, text=text))
    if not made:
        return module
    module = llvm.parse_assembly(declared_once("".join((f"{read}\n", *made))))
    for n in range(len(made)):
        passes = llvm.create_new_function_pass_manager()
        passes.add_lower_atomic_pass()
        run_once(passes, module.get_function(f"kb.plain.{n}"), builder)
    return module
