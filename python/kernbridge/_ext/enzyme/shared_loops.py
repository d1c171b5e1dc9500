"""Lets the threads of a warp take the steps of their loops together, where the order is free.

Where each thread has a loop, such as over a row of a matrix, the threads of a warp read and add far
from each other at each step. In the derivative of a sum, the steps of such a loop only read arrays
that nothing changes, and add atomically. If all threads of a warp come to the loop, or to the
branch that skips it, they take the steps of all their loops in turn, so that neighbours get
neighbouring steps. A thread asks the thread whose loop has the step for what the step needs.
"""

from __future__ import annotations

from typing import Any

from kernbridge._ext.enzyme import sums
from kernbridge._src.llvm.text import Block, Function, Instruction, Module, with_locals
from kernbridge._src.numba_common.private_llvmlite import binding as llvm
from kernbridge._src.numba_common.private_llvmlite import run_once

_PURE = {"add", "sub", "mul", "shl", "lshr", "ashr", "and", "or", "xor", "icmp", "fcmp", "select"}
_PURE |= {"sext", "zext", "trunc", "fpext", "fptrunc", "sitofp", "uitofp", "getelementptr"}
_PURE |= {"fadd", "fsub", "fmul", "fdiv", "fneg"}
_OF_OTHER_TYPES = {"icmp", "fcmp", "getelementptr", "alloca", "select"}  # than they name
_ASKED_AS = {"i32": "i32", "i64": "double", "float": "float", "double": "double"}


def with_shared_loops(text: str, entry: str, machine: Any) -> str:
    """A module in which the warps of an entry share such loops, and call kb.read.* of warps.py."""
    parsed, manager = llvm.parse_assembly(text), llvm.create_new_function_pass_manager()
    manager.add_instruction_combine_pass()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options())
    run_once(manager, parsed.get_function(entry), builder)
    module = Module(str(parsed))
    function = module.defined[entry]
    made = [_shared(function, block, f"kb.loop{n}.") for n, block in enumerate(function.blocks)]
    function.blocks[-1].instructions[-1].text += "".join(made)
    return str(module)


def _shared(function: Function, loop: Block, kb: str) -> str:
    """The blocks that share a loop, if it can be shared; it is then reached by way of them.

    The loop is one block that counts down to zero, and nothing else uses what it computes.
    """
    phi, body, end = loop.instructions[0], loop.instructions[1:-1], loop.instructions[-1]
    before = [b for b in function.blocks if loop.name in b.targets and b is not loop]
    guards = [b for b in function.blocks if before and before[0].name in b.targets]
    kinds = phi.opcode, end.opcode, len(end.targets), len(before), len(guards)
    if kinds != ("phi", "br", 2, 1, 1):
        return ""
    ready, guard, leave = before[0], guards[0], end.targets[0]
    own = [i.result for i in (phi, *body) if i.result]
    values = {block: value for value, block in phi.incoming}
    ways = {i.result: (i.opcode, *i.flags[:1], *(o.value for o in i.operands)) for i in body}
    test, following = (ways.get(x, ()) for x in (end.operands[0].value, values.get(loop.name, "")))
    users = [u for name in (loop.name, *own) for u in function.users.get(name, ())]
    if (
        phi.type != "i64"
        or end.targets[1] != loop.name
        or test != ("icmp", "eq", phi.result, "0")
        or (following[:1], following[-2:]) != (("add",), (phi.result, "-1"))
        or not all(map(_is_free, body))
        or {*guard.targets} != {ready.name, leave}
        or any(user.block not in (loop, ready) for user in users)
    ):
        return ""
    known, asked, phis, asks = dict[str, str](), dict[str, str](), "", ""
    for name in dict.fromkeys(name for i in body for name in i.names if name not in own):
        i, element = function.defined.get(name), sums.element(function, name)
        if i is None or (element is not None and not element.place):  # the same for all threads
            continue
        if i.opcode in _OF_OTHER_TYPES or i.type not in _ASKED_AS:
            return ""
        n, kind, asked_as = len(known), i.type, _ASKED_AS[i.type]
        known[name], asked[name] = f"%{kb}known{n}", f"%{kb}asked{n}"
        other = f"{'undef' if i.block is ready else name}, {guard.name}"
        phis += f"  {known[name]} = phi {kind} [ {other} ], [ {name}, {ready.name} ]\n"
        asks += f"  %{kb}bits{n} = bitcast {kind} {known[name]} to {asked_as}\n"
        asks += f"  %{kb}read{n} = {_read(asked_as, f'%{kb}bits{n}', f'%{kb}owner1')}"
        asks += f"  {asked[name]} = bitcast {asked_as} %{kb}read{n} to {kind}\n"
    steps = asked | {value: f"%{kb}step{n}" for n, value in enumerate(own)}
    step = "".join(f"{with_locals(i.text, steps)}\n" for i in body)
    for i in body:
        i.text = with_locals(i.text, known)
    before_it, now = f"[ {values[ready.name]}, {ready.name} ]", f"[ %{kb}last, %{kb}apart ]"
    phi.text = phi.text.replace(before_it, now)
    for block, name in ((guard, leave), (ready, loop.name)):
        branch = block.instructions[-1]
        branch.text = with_locals(branch.text, {name: f"%{kb}share"})
    summed = "".join(
        f"  %{kb}below{n} = sub i32 %{kb}lane, {n}\n"
        f"  %{kb}there{n} = {_read('i32', f'%{kb}sum{n}', f'%{kb}below{n}')}"
        f"  %{kb}is{n} = icmp uge i32 %{kb}lane, {n}\n"
        f"  %{kb}more{n} = select i1 %{kb}is{n}, i32 %{kb}there{n}, i32 0\n"
        f"  %{kb}sum{2 * n} = add i32 %{kb}sum{n}, %{kb}more{n}\n"
        for n in (1, 2, 4, 8, 16)
    )
    found = "".join(
        f"  %{kb}lane{n} = add i32 %{kb}owner{2 * n}, {n - 1}\n"
        f"  %{kb}end{n} = {_read('i32', f'%{kb}sum32', f'%{kb}lane{n}')}"
        f"  %{kb}past{n} = icmp ule i32 %{kb}end{n}, %{kb}at\n"
        f"  %{kb}skips{n} = select i1 %{kb}past{n}, i32 {n}, i32 0\n"
        f"  %{kb}owner{n} = add i32 %{kb}owner{2 * n}, %{kb}skips{n}\n"
        for n in (16, 8, 4, 2, 1)
    )
    return f"""
{kb}share:
{phis}  %{kb}takes = phi i1 [ false, {guard.name} ], [ true, {ready.name} ]
  %{kb}last = phi i64 [ -1, {guard.name} ], [ {values[ready.name]}, {ready.name} ]
  %{kb}count = add i64 %{kb}last, 1
  %{kb}few = icmp ult i64 %{kb}count, 33554432
  %{kb}active = call i32 @kb.active_mask()
  %{kb}votes = call {{ i32, i1 }} @kb.vote.sync(i32 %{kb}active, i32 3, i1 %{kb}few)
  %{kb}which = extractvalue {{ i32, i1 }} %{kb}votes, 0
  %{kb}whole = icmp eq i32 %{kb}which, -1
  br i1 %{kb}whole, label %{kb}begin, label %{kb}apart
{kb}apart:
  br i1 %{kb}takes, label {loop.name}, label {leave}
{kb}begin:
  %{kb}sum1 = trunc i64 %{kb}count to i32
  %{kb}lane = call i32 @llvm.nvvm.read.ptx.sreg.laneid()
{summed}  %{kb}before = sub i32 %{kb}sum32, %{kb}sum1
  %{kb}total = {_read("i32", f"%{kb}sum32", "31")}  br label %{kb}next
{kb}next:
  %{kb}first = phi i32 [ 0, %{kb}begin ], [ %{kb}more, %{kb}find ], [ %{kb}more, %{kb}step ]
  %{kb}more = add i32 %{kb}first, 32
  %{kb}at = add i32 %{kb}first, %{kb}lane
  %{kb}owner32 = add i32 0, 0
  %{kb}inside = icmp ult i32 %{kb}first, %{kb}total
  br i1 %{kb}inside, label %{kb}find, label {leave}
{kb}find:
{found}  %{kb}begins = {_read("i32", f"%{kb}before", f"%{kb}owner1")}{asks}\
  %{kb}number = sub i32 %{kb}at, %{kb}begins
  %{kb}is = icmp ult i32 %{kb}at, %{kb}total
  br i1 %{kb}is, label %{kb}step, label %{kb}next
{kb}step:
  {steps[phi.result]} = zext i32 %{kb}number to i64
{step}  br label %{kb}next"""


def _is_free(i: Instruction) -> bool:
    """Whether an instruction may run before or after other steps of the loop, in another thread."""
    if i.opcode == "load":
        return "invariant.load" in i.metadata and not i.flags
    is_sum = i.callee.startswith("kb_add.")
    return is_sum or i.opcode in _PURE or (i.opcode == "atomicrmw" and i.flags == ["fadd"])


def _read(kind: str, value: str, lane: str) -> str:
    return f"call {kind} @kb.read.{kind}(i32 -1, {kind} {value}, i32 {lane})\n"
