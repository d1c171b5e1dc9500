"""`explain`: what XLA moves in a compiled program next to calls of kernbridge."""

from __future__ import annotations

import math
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax

from kernbridge import _core
from kernbridge._src.base.errors import typed
from kernbridge._src.base.html import table
from kernbridge._src.base.reports import hides_frames
from kernbridge._src.source.module import list_registered_targets

_OWN = f"{Path(_core.__file__).parent}/"
_COMPUTATION = re.compile(r"(ENTRY )?%?([\w.\-]+) (?:\(.*\) -> .*)?\{$")
_INSTRUCTION = re.compile(r"\s+(?:ROOT )?%?([\w.\-]+) = (\(.*?\)|\S+) ([\w\-]+)\((.*)$")
_ARRAY = re.compile(r"\b([a-z]\w*)\[([\d,<=]*)\](\{[^}]*\})?")
_CALLED = re.compile(r"\b(?:body|calls|to_apply|(?:true|false|branch)_\w+)=(\{[^}]*|[%\w.\-]+)")
_TURNS = re.compile(r'known_trip_count\\?":\{\\?"n\\?":\\?"(\d+)')
_DIGEST = re.compile(r"\bdigest = dense<\[([-\d, ]*)\]>")
_LINE = re.compile(r'source_file="([^"]*)" source_line=(\d+)')
_TABLES = {
    "FileNames": re.compile(r'(\d+) "(.*)"$'),
    "FileLocations": re.compile(r"(\d+) \{file_name_id=(\d+) .*?\bline=(\d+)"),
    "StackFrames": re.compile(r"(\d+) \{file_location_id=(\d+)(?: parent_frame_id=(\d+))?"),
}
_SAME_MEMORY = ("bitcast", "copy-done", "get-tuple-element", "opt-barrier", "reshape")
_MOVING = ("copy", "copy-start", "transpose")
_GATHERS = ("all-gather", "all-to-all", "collective-permute", "ragged-all-to-all")
_VERBS = {"copy": "copies", "gather": "gathers", "transpose": "transposes"}
_REMEDIES = {
    "gather": "Declare with sharding_rule= along which dimensions the kernel may be split, or give "
    "the array the sharding that the call needs (docs/sharding.md).",
    "transpose": "Let the kernel use the order in which the array is stored elsewhere.",
    "copy": "Use the old value only before the call that works in place, or give the kernel a "
    "separate output instead of input_output_aliases.",
}


@dataclass(frozen=True)
class Finding:
    """Something that costs time, and what to do about it."""

    kind: str  # "copy", "transpose", "donation" or "gather"
    where: str  # the line "file.py:12" of the call; "arguments" for a donation
    text: str
    remedy: str
    n_bytes: int = 0  # the size of the array that is moved each time
    executions: int | None = 1  # of a run of the program; None if that is not known

    def __str__(self) -> str:
        n = self.executions
        often = "" if n == 1 else f" ({'an unknown number of' if n is None else f'{n:,}'} times)"
        return f"{self.where}{often}: {self.text} {self.remedy}"


@dataclass(frozen=True)
class Explanation:
    """The avoidable costs around the kernels of the function `name`, the most expensive first."""

    __module__ = "kernbridge"

    name: str
    findings: tuple[Finding, ...]

    def __str__(self) -> str:
        found = self.findings or ("nothing is copied, transposed or gathered next to a kernel",)
        return "\n".join([f"{self.name}:", *(f"- {finding}" for finding in found)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [(f.where, f.kind, f.executions, f.text, f.remedy) for f in self.findings]
        headers = ("where", "kind", "times", "what", "remedy")
        return table(self.name if rows else str(self), headers, rows)


@hides_frames
def explain(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """Report what XLA copies, transposes and gathers for the calls in a jitted function.

    The function is lowered and compiled for these arguments, but not executed.

    Parameters
    ----------
    function : callable
        A function, or what `jax.jit` returned, with its donated arguments and shardings.
    *args, **kwargs
        Arguments of the function: arrays, or `jax.ShapeDtypeStruct` objects instead.

    Returns
    -------
    Explanation
        Its `findings` are copies and transpositions next to calls, donated arguments that are not
        reused, and arrays that are gathered from several devices, each with `kind`, `where`,
        `text`, `remedy`, `n_bytes` (moved each time) and `executions` (None if unknown).

    Examples
    --------
    >>> import jax, jax.numpy as jnp, kernbridge, numba
    >>> @numba.njit
    ... def increment(_x, x):
    ...     for i in range(x.size):
    ...         x[i] += 1
    >>> x = jax.ShapeDtypeStruct((1000,), jnp.float32)
    >>> op = kernbridge.numba_kernel(increment, x, input_output_aliases={0: 0})
    >>> [finding.kind for finding in kernbridge.explain(jax.jit(op), x).findings]
    ['copy']
    """
    jitted: Any = function if hasattr(function, "lower") else jax.jit(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lowered = jitted.lower(*args, **kwargs)
        program = _Program(lowered.compile().as_text() or "")
    found = [*_donations(program, lowered.args_info)]
    known = frozenset(list_registered_targets())
    for body, executions in _visits(program, program.entry, 1):
        for call in body.values():
            target = call.quoted("custom_call_target")
            own = target.startswith("kernbridge.") and not target.endswith(".carrier")
            if call.opcode == "custom-call" and (own or target in known):
                found += _around(program, body, call, executions)
    found = sorted(dict.fromkeys(found), key=lambda f: -(f.executions or 1) * (1 + f.n_bytes))
    return Explanation(getattr(function, "__name__", None) or str(function), tuple(found))


class _Array(NamedTuple):
    text: str  # "f32[8,4]"
    layout: str
    n_bytes: int


class _Instruction(NamedTuple):
    name: str
    opcode: str
    operands: list[str]
    attributes: str
    arrays: list[_Array]

    def quoted(self, name: str) -> str:
        return (re.findall(rf'\b{name}="([^"]*)"', self.attributes) or [""])[0]

    @property
    def called(self) -> list[str]:
        listed = _CALLED.findall(self.attributes)
        return [name.strip("{ %") for names in listed for name in names.split(",")]


_Body = dict[str, _Instruction]  # in the order in which they run


class _Program:
    def __init__(self, text: str) -> None:
        self.computations: dict[str, _Body] = {}
        self.donated: frozenset[int] = frozenset()
        self.tables: dict[str, dict[int, Any]] = {name: {} for name in _TABLES}
        body = self.entry = _Body()
        table = ""
        for line in text.splitlines():
            if line.startswith("HloModule "):
                listed = [line.partition(w)[2].partition(" }")[0] for w in ("_alias={", "_donor={")]
                self.donated = frozenset(map(int, re.findall(r"\((\d+), \{", " ".join(listed))))
            elif found := _INSTRUCTION.match(line):
                name, result, opcode, rest = found.groups()
                inside, _, attributes = rest.partition("), ")
                operands = re.findall(r"%([\w.\-]+)", inside) or [inside.strip(")")]
                body[name] = _Instruction(name, opcode, operands, attributes, _arrays(result))
            elif found := _COMPUTATION.match(line):
                body = self.computations[found[2]] = {}
                self.entry = body if found[1] else self.entry
            elif line.isalpha():
                table = line
            elif table in _TABLES and (row := _TABLES[table].match(line)):
                self.tables[table][int(row[1])] = row.groups()[1:]

    def where(self, instruction: _Instruction) -> str:
        """The line "file.py:12" of the user's program; JAX's path where it is not known."""
        files, locations, frames = self.tables.values()
        lines = _LINE.findall(instruction.attributes)
        frame = int((re.findall(r"stack_frame_id=(\d+)", instruction.attributes) or "0")[0])
        while frame in frames and len(lines) < len(frames):
            file, line = locations.get(int(frames[frame][0]), ("0", ""))
            lines.append((files.get(int(file), ("",))[0], line))
            frame = int(frames[frame][1] or 0) - 1  # the numbers of parents begin with one for none
        users = [f"{f.rpartition('/')[2]}:{n}" for f, n in lines if not f.startswith(_OWN)]
        return users[0] if users else instruction.quoted("op_name") or instruction.name


def _arrays(result: str) -> list[_Array]:
    found = []
    for dtype, extents, layout in _ARRAY.findall(result):
        bits = 8 if dtype == "pred" else int((re.findall(r"\d+", dtype) or "0")[0])
        size = math.prod(map(int, re.findall(r"\d+", extents)))
        found.append(_Array(f"{dtype}[{extents}]", layout, -(-size * bits // 8)))
    return found


def _visits(program: _Program, body: _Body, n: int | None) -> Iterator[tuple[_Body, int | None]]:
    """Every computation that runs when one runs, and how often; None if that is not known."""
    yield body, n
    for instruction in body.values():
        if instruction.opcode not in ("async-start", "call", "conditional", "while"):
            continue
        turns, inner = _TURNS.search(instruction.attributes), n
        if instruction.opcode == "while":
            inner = int(turns[1]) * n if turns and n is not None else None
        for name in instruction.called:
            yield from _visits(program, program.computations.get(name, {}), inner)


def _around(program: _Program, body: _Body, call: _Instruction, n: int | None) -> Iterator[Finding]:
    """What is moved before and after a call that runs so often."""
    found = _DIGEST.search(call.attributes)
    digest = bytes(int(n) & 255 for n in found[1].split(",")) if found else bytes(32)
    operation = _core.kernel_name(digest) or call.quoted("custom_call_target")
    chains = [(i, [*_before(body, name)]) for i, name in enumerate(call.operands)]
    near = [(i, moved, chain[-1]) for i, chain in chains for moved in chain]
    near += [(-1, moved, moved) for moved in _after(body, call)]
    for index, moved, source in near:
        kind = _kind(program, body, moved)
        if kind is None or not moved.arrays or (index < 0 and kind == "copy"):
            continue
        array, why, remedy = moved.arrays[-1], "", _REMEDIES[kind]
        of_argument = source.opcode == "parameter" and body is program.entry
        if kind == "transpose":
            why = ", since kernels have arrays in row-major order"
        elif kind == "copy" and source.opcode == "constant":
            why = ", since it works in place on a constant of the program"
            remedy = "Pass the array as an argument, and donate it."
        elif kind == "copy" and of_argument and int(source.operands[0]) not in program.donated:
            argument = source.quoted("op_name") or source.name
            why = f", which works in place, since the caller keeps the argument {argument!r}"
            remedy = "Donate the argument with donate_argnums or donate_argnames of jax.jit."
        elif kind == "copy":
            of_loop = source.opcode == "parameter" and not of_argument
            state = "the state of the loop" if of_loop else "the array"
            why = f", since {state} is used again after it is changed in place"
        place = f"before the call{why}" if index >= 0 else "after the call"
        what = f"input {index}" if index >= 0 else "a result"
        size = f"{array.text} ({array.n_bytes:,} bytes)"
        text = f"XLA {_VERBS[kind]} {what} of {operation}, {size}, {place}."
        yield Finding(kind, program.where(call), text, remedy, array.n_bytes, n)


def _before(body: _Body, name: str) -> Iterator[_Instruction]:
    """Yield the instructions that made an operand, as long as they change no number."""
    while name in body:
        yield body[name]
        through = body[name].opcode.startswith((*_SAME_MEMORY, *_MOVING, *_GATHERS, "fusion"))
        name = body[name].operands[0] if through and len(body[name].operands) == 1 else ""


def _after(body: _Body, call: _Instruction) -> Iterator[_Instruction]:
    """Yield the instructions that read a result or the same memory."""
    for user in body.values():
        if call.name in user.operands:
            yield user
            if user.opcode in _SAME_MEMORY:
                yield from _after(body, user)


def _kind(program: _Program, body: _Body, moved: _Instruction) -> str | None:
    """What an instruction does if it only moves an array."""
    if moved.opcode.startswith(_GATHERS) and not moved.opcode.endswith("-done"):
        return "gather"
    steps = [moved]
    if moved.opcode == "fusion":
        inside = program.computations.get((moved.called or [""])[0], {}).values()
        steps = [i for i in inside if i.opcode not in (*_SAME_MEMORY, "parameter")]
    if not steps or not all(i.opcode in _MOVING for i in steps):
        return None
    layouts = {i.arrays[0].layout for i in (body.get(moved.operands[0]), moved) if i and i.arrays}
    turned = any(i.opcode == "transpose" for i in steps) or len(layouts) > 1
    return "transpose" if turned else "copy"


def _donations(program: _Program, args_info: Any) -> Iterator[Finding]:
    """The donated arguments whose memory the program does not take."""
    flat = jax.tree_util.tree_flatten_with_path(args_info)[0]
    parameters = [i for i in program.entry.values() if i.opcode == "parameter"]
    reused = [p for p in parameters if int(p.operands[0]) in program.donated]
    taken = Counter(p.arrays[0].n_bytes for p in reused)
    whole = len(parameters) == len(flat)  # unused arguments are no parameters
    for i, (path, info) in enumerate(flat):
        n_bytes = info.dtype.itemsize * math.prod(info.shape)
        taken[n_bytes] -= info.donated
        if not info.donated or (i in program.donated if whole else taken[n_bytes] >= 0):
            continue
        name = ("kwargs" if path[0].idx else "args") + jax.tree_util.keystr(path[1:])
        array = typed(info.dtype, info.shape)
        text = f"The donated argument {name}, {array}, is not reused: no further output is like it."
        remedy = "Remove it from donate_argnums, or return an array of its shape and dtype."
        yield Finding("donation", "arguments", text, remedy)
