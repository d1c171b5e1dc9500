"""Finds copies, transpositions and gathers next to calls of kernbridge, and unused donations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import jax

from kernbridge._src.tools.explained import Finding
from kernbridge._src.tools.hlo_text import Computation, Instruction, Program
from kernbridge._src.tools.visits import Visit

_SAME_MEMORY = ("bitcast", "copy-done", "get-tuple-element", "opt-barrier", "reshape")
_MOVING = ("copy", "copy-start", "transpose")
_GATHERS = ("all-gather", "all-to-all", "collective-permute", "ragged-all-to-all")
_GATHER_REMEDY = (
    "Declare the dimensions along which the kernel may be split with sharding_rule= "
    "(docs/sharding.md), or give the array the sharding that the call needs."
)


def around(
    program: Program, visit: Visit, call: Instruction, operation: str, where: str
) -> Iterator[Finding]:
    """What is moved before and after a call."""
    inside = visit.computation
    for index, name in enumerate(call.operands):
        for moved in _before(inside, name):
            kind = _kind(program, inside, moved)
            if kind is None:
                continue
            text = f"XLA {_VERBS[kind]} input {index} of {operation}, {_array(moved)}, "
            if kind == "gather":
                text, remedy = text + "from the devices before the call.", _GATHER_REMEDY
            elif kind == "transpose":
                text += "before the call, since kernels get arrays in row-major order."
                remedy = (
                    "Let the kernel read the array in the order in which it is stored, or create "
                    "the array in that order."
                )
            else:
                why, remedy = _why_copied(program, visit, moved, index in call.in_place)
                text += f"before the call, since {why}."
            yield Finding(kind, where, text, remedy, _bytes(moved), visit.executions)
    for moved in _after(inside, call):
        kind = _kind(program, inside, moved)
        if kind in ("gather", "transpose"):
            text = f"XLA {_VERBS[kind]} a result of {operation}, {_array(moved)}, after the call"
            remedy = _GATHER_REMEDY
            if kind == "transpose":
                text += ", since kernels write arrays in row-major order"
                remedy = "Let the kernel write the array in the order in which it is used."
            yield Finding(kind, where, f"{text}.", remedy, _bytes(moved), visit.executions)


_VERBS = {"copy": "copies", "gather": "gathers", "transpose": "transposes"}


def donations(program: Program, args_info: Any) -> list[Finding]:
    """The donated arguments whose memory the program does not take."""
    flat = jax.tree_util.tree_flatten_with_path(args_info)[0]
    donated = [(i, path, info) for i, (path, info) in enumerate(flat) if info.donated]
    parameters = [i for i in program.entry if i.opcode == "parameter"]
    if len(parameters) == len(flat):
        unused = [(path, info) for i, path, info in donated if i not in program.donated]
    else:  # arguments that the function does not use are no parameters of the program
        sizes = Counter(
            p.arrays[0].n_bytes for p in parameters if int(p.operands[0]) in program.donated
        )
        unused = []
        for _, path, info in donated:
            n_bytes = _bytes_of(info)
            sizes[n_bytes] -= 1
            if sizes[n_bytes] < 0:
                unused.append((path, info))
    return [
        Finding(
            "donation",
            "arguments",
            f"The donated argument {_argument(path)}, {info.dtype}{list(info.shape)}, is not "
            "reused, since no further output has its shape and dtype.",
            "Remove it from donate_argnums, or return an array of its shape and dtype.",
            0,
        )
        for path, info in unused
    ]


def _argument(path: Any) -> str:
    """The name of a leaf of ((positional arguments), {keywords}), such as "args[0].v"."""
    return ("kwargs" if path[0].idx else "args") + jax.tree_util.keystr(path[1:])


def _bytes_of(info: Any) -> int:
    n = info.dtype.itemsize
    for size in info.shape:
        n *= size
    return int(n)


def _before(inside: Computation, name: str) -> Iterator[Instruction]:
    """The instructions that made an operand, as long as they change no number."""
    instruction = inside.instructions.get(name)
    while instruction is not None:
        yield instruction
        through = (*_SAME_MEMORY, *_MOVING, "fusion")
        is_gather = instruction.opcode.startswith(_GATHERS)
        if len(instruction.operands) != 1 or not (instruction.opcode in through or is_gather):
            return
        instruction = inside.instructions.get(instruction.operands[0])


def _after(inside: Computation, call: Instruction) -> Iterator[Instruction]:
    """The instructions that read a result, and those that read the same memory."""
    for user in inside.users.get(call.name, ()):
        yield user
        if user.opcode in _SAME_MEMORY:
            yield from _after(inside, user)


def _kind(program: Program, inside: Computation, moved: Instruction) -> str | None:
    """What an instruction does if it only moves an array: copy, transpose or gather."""
    if moved.opcode.startswith(_GATHERS) and not moved.opcode.endswith("-done"):
        return "gather"
    steps = [moved]
    if moved.opcode == "fusion":
        called = program.computations.get(moved.called.get("calls", ""))
        steps = [i for i in called or () if i.opcode not in (*_SAME_MEMORY, "parameter")]
    if not steps or any(i.opcode not in _MOVING for i in steps):
        return None
    before = inside.instructions.get(moved.operands[0]) if moved.operands else None
    turned = before is not None and before.arrays and moved.arrays
    if any(i.opcode == "transpose" for i in steps):
        return "transpose"
    if turned and before is not None and before.arrays[0].layout != moved.arrays[0].layout:
        return "transpose"
    return "copy"


def _why_copied(
    program: Program, visit: Visit, moved: Instruction, in_place: bool
) -> tuple[str, str]:
    """Why XLA copies an array before a call, and the remedy."""
    *_, source = _before(visit.computation, moved.name)
    is_state = source.opcode == "parameter" and visit.computation is not program.entry
    if source.opcode == "parameter" and not is_state:
        name = source.op_name or source.name
        if int(source.operands[0]) not in program.donated:
            return (
                f"the call works in place and the caller keeps the argument {name!r}",
                "Donate the argument with donate_argnums or donate_argnames of jax.jit, if the "
                "caller does not need it afterwards.",
            )
        return (
            f"the call works in place and the old value of the argument {name!r} is used again",
            "Use the old value only before the call, or give the kernel a separate output "
            "instead of input_output_aliases.",
        )
    if source.opcode == "constant":
        return (
            "the call works in place on a constant of the program",
            "Pass the array as an argument, and donate it.",
        )
    what = "the state of the loop" if is_state else "the array"
    why = f"{what} is used again after it is changed in place"
    if not in_place:
        why = f"another call changes {what} in place before its last use"
    return (
        why,
        "Use the old value only before the call that works in place, or give that kernel a "
        "separate output instead of input_output_aliases.",
    )


def _array(moved: Instruction) -> str:
    return f"{moved.arrays[0].text} ({_bytes(moved):,} bytes)" if moved.arrays else "a value"


def _bytes(moved: Instruction) -> int:
    return moved.arrays[-1].n_bytes if moved.arrays else 0
