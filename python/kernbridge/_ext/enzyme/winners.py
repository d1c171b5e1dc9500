"""Atomic maxima and minima of real numbers, as sums that Enzyme can differentiate.

Which threads win is known when all have offered their numbers. So the plan of a derivative first
launches another form of the kernel twice: the first launch finds the best number that is offered to
each element, and the second counts the threads that offer it. In the derivative, each of them adds
its number, divided by their count, to a result that begins as zeros. Equal numbers share a
cotangent, as in JAX; the number with which an element begins is one of them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from kernbridge._ext.enzyme import guards
from kernbridge._ext.enzyme.function import Buffer, Refused, holds
from kernbridge._src.llvm.text import Function, Module

_NAME = re.compile(r"___numba_atomic_(float|double)_(max|min)\b")
# What may make a number differ between two launches.
_VARYING = {"fast", "contract", "reassoc", "arcp", "afn", "kb.active_mask"}


def hidden(text: str) -> str:
    """A module of Numba-CUDA in which these operations are calls of unknown functions."""
    return _NAME.sub(r"kb.offer.\1.\2", text)


def with_sums(
    text: str,
    buffers: Sequence[Buffer],
    begun: Collection[int],
    read: set[int],
    written: set[int],
    counts: bool,
) -> tuple[str, list[Buffer], dict[int, int]]:
    """kb_primal with such sums, or in the form that `counts` for them, and its buffers.

    Also returns the buffer that is the result in the place of each array. The two buffers before it
    have the best numbers and the counts. Arrays that are `begun` have known contents at first.
    """
    module, made, sums = Module(text), list(buffers), dict[int, int]()
    primal = module.functions["kb_primal"]
    arrays = guards.arrays_of(primal)
    offers = [i for i in primal.instructions if i.callee.startswith("kb.offer.")]
    of = {i: arrays.get(i.operands[0].value, -1) for i in offers}
    if not of:
        return text, made, sums
    # All launches compute the same numbers if these depend on nothing that a launch changes.
    outs = {b for b in written - read if buffers[b].kind == "out"}
    known = {b for b in written if buffers[b].kind == "shared"}.union(outs, of.values())
    added = (i.operands[0].value for i in primal.instructions if i.opcode == "atomicrmw")
    repeats = written <= known and all(arrays.get(address) in outs for address in added)
    repeats &= all(_VARYING.isdisjoint((i.callee, *i.flags)) for i in primal.instructions)
    for k, (i, array) in enumerate(of.items()):
        (_, address), (kind, x) = i.operands
        extreme = i.callee[-3:]
        users = (u for name, a in arrays.items() if a == array for u in primal.users.get(name, ()))
        is_alone = all(u.callee == i.callee or u.result in arrays for u in users)
        if not (repeats and is_alone and array in begun):
            why = "might be others if the kernel ran again"
            why = why if array in begun else "begin neither as zeros nor as a constant input"
            reason = f"it has an atomic {extreme}imum of real numbers, which {why}"
            raise Refused(reason, called=rf"___numba_atomic_\w+_{extreme}\b")
        if array not in sums:
            zeros = (b := buffers[array])._replace(kind="scratch", begins_as_zeros=True)
            made[array] = b._replace(kind="in") if b.kind == "inout" else zeros
            sums[array] = len(made) + 2
            made += [zeros, zeros, zeros._replace(kind="out")]
        lines, n = list[str](), sums[array]
        given = [_moved(primal, address, b, f"%kb.at{k}.", lines) for b in (n - 2, n - 1, n)]
        given = [f"{kind} {x}", *(f"ptr {name}" for name in (address, *given))]
        lines.append(f"  call void @kb_offer.{kind}.{extreme}({', '.join(given)})")
        i.text = "\n".join([*lines, f"  {i.result} = bitcast {kind} {x} to {kind}"])
    last = primal.parameters[1 + len(buffers)]
    more = [f", ptr {holds(b.dtype)} %b{n}" for n, b in enumerate(made)][len(buffers) :]
    primal.head = primal.head.replace(last, "".join([last, *more]), 1)
    how = {"mode": "count" if counts else "share", "kind": "float"}
    for extreme, order in (("max", "oge"), ("min", "ole")):
        offered = _OFFERED.format(extreme=extreme, order=order, **how)
        module.lines += [offered, offered.replace("float", "double")]
    return str(module), made, sums


def _moved(primal: Function, address: str, b: int, begin: str, lines: list[str]) -> str:
    """The address of the same element of another buffer; adds the lines that compute it."""
    if (i := primal.defined.get(address)) is None:
        return f"%b{b}"
    base = i.operands[0].value
    text = i.text.replace(f"ptr {base},", f"ptr {_moved(primal, base, b, begin, lines)},", 1)
    name = f"{begin}{len(lines)}"
    lines.append(text.replace(f"{address} = ", f"{name} = ", 1))
    return name


# What is offered first is better than NaN, with which the best numbers begin.
_OFFERED = """
define internal void @kb_offer.{kind}.{extreme}\
({kind} %x, ptr %array, ptr %best, ptr %n, ptr %sum) alwaysinline {{
  %first = load {kind}, ptr %array
  %wins = fcmp {order} {kind} %x, %first
  br i1 %wins, label %{mode}, label %end
count:
  %before = atomicrmw f{extreme} ptr %best, {kind} %x monotonic
  %is_best = fcmp {order} {kind} %x, %before
  %more = uitofp i1 %is_best to {kind}
  %old = atomicrmw fadd ptr %n, {kind} %more monotonic
  br label %end
share:
  %most = load {kind}, ptr %best
  %ties = fcmp oeq {kind} %x, %most
  br i1 %ties, label %add, label %end
add:
  %also = fcmp oeq {kind} %x, %first
  %one = uitofp i1 %also to {kind}
  %others = load {kind}, ptr %n
  %all = fadd {kind} %others, %one
  %part = fdiv {kind} %x, %all
  %whole = atomicrmw fadd ptr %sum, {kind} %part monotonic
  br label %end
end:
  ret void
}}
"""
