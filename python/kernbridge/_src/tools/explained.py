"""The return types of `explain`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import wrap


@dataclass(frozen=True)
class ExplainedCall:
    """A call of kernbridge in a compiled program.

    Attributes
    ----------
    operation : str
        What messages call the operation, such as "numba_kernel 'relu'".
    front_end : str
        The function that made it, such as "numba_kernel".
    target : str
        The FFI target that XLA calls.
    inputs, outputs : tuple of str
        The arrays, such as "f32[8,4]"; on each device, where there are several.
    batch : tuple of int
        The sizes of the `vmap` axes around the call, which are the leading ones of its outputs.
    where : tuple of str
        The lines "file.py:12" of the calls that have this operation and these arrays.
    places : int
        The number of these calls in the program.
    executions : int or None
        How often they run when the program runs once, with all conditional branches counted. None
        if one of them is in a loop whose number of turns is not known.
    """

    operation: str
    front_end: str
    target: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    batch: tuple[int, ...]
    where: tuple[str, ...]
    places: int
    executions: int | None

    def __str__(self) -> str:
        arrays = f"({', '.join(self.inputs)}) -> ({', '.join(self.outputs)})"
        batch = f", batched over {', '.join(map(str, self.batch))}" if self.batch else ""
        often = _often(self.executions, "execution")
        return f"{self.operation} {arrays}{batch}: {_number(self.places, 'place')}, {often}"


@dataclass(frozen=True)
class ExplainedLoop:
    """A loop whose body calls kernbridge.

    Attributes
    ----------
    where : str
        The line "file.py:12" of the loop.
    turns : int or None
        How often it turns each time; None if that is not known before it runs.
    calls : int
        The calls of kernbridge in one turn.
    steps : int
        What XLA starts in one turn, calls included: kernels, copies, inner loops.
    graphs : tuple of int
        The CUDA graphs of a turn, each by the number of its steps; empty on a CPU.
    """

    where: str
    turns: int | None
    calls: int
    steps: int
    graphs: tuple[int, ...]

    def __str__(self) -> str:
        inside = f"{_number(self.calls, 'call')} among {_number(self.steps, 'step')} a turn"
        return f"{self.where}: {_often(self.turns, 'turn')}, {inside}"


@dataclass(frozen=True)
class ExplainedGraph:
    """A CUDA graph, which starts its steps together.

    Attributes
    ----------
    where : str
        The line of the loop whose turn it is in; "outside of loops" elsewhere.
    steps : int
        The kernels, copies and calls in it.
    calls : int
        The calls of kernbridge among them.
    """

    where: str
    steps: int
    calls: int

    def __str__(self) -> str:
        return f"{self.where}: {_number(self.steps, 'step')}, {_number(self.calls, 'call')} of them"


@dataclass(frozen=True)
class Finding:
    """Something that costs time, and what to do about it.

    Attributes
    ----------
    kind : str
        "absent", "small_loop", "no_graph", "unknown_turns", "copy", "transpose", "donation" or
        "gather".
    where : str
        The line "file.py:12" of the call or of the loop; "arguments" for a donation.
    text : str
        What was found, in one sentence.
    remedy : str
        What to do about it, in one sentence.
    n_bytes : int
        The size of the arrays that are moved each time; 0 if none are.
    executions : int or None
        How often it happens when the program runs once; None if that is not known.
    """

    kind: str
    where: str
    text: str
    remedy: str
    n_bytes: int = 0
    executions: int | None = 1

    def __str__(self) -> str:
        often = "" if self.executions == 1 else f" ({_often(self.executions, 'time')})"
        return f"{self.where}{often}: {self.text} {self.remedy}"


@dataclass(frozen=True)
class Explanation:
    """The costs of a jitted function apart from the work of its kernels. `print` shows the report.

    Attributes
    ----------
    name : str
        Of the function.
    platform : str
        "cpu" or "cuda", where it was compiled for.
    calls : tuple of ExplainedCall
        The calls of kernbridge; calls of the same operation with the same arrays are combined.
    loops : tuple of ExplainedLoop
        The loops that contain calls.
    graphs : tuple of ExplainedGraph
        The CUDA graphs that XLA makes by its rule for consecutive steps; empty on a CPU.
    findings : tuple of Finding
        Avoidable costs, the most expensive first.
    """

    __module__ = "kernbridge"

    name: str
    platform: str
    calls: tuple[ExplainedCall, ...]
    loops: tuple[ExplainedLoop, ...]
    graphs: tuple[ExplainedGraph, ...]
    findings: tuple[Finding, ...]

    def __str__(self) -> str:
        return "\n".join(self._lines())

    __repr__ = __str__

    def _lines(self) -> Iterator[str]:
        n = sum(call.places for call in self.calls)
        yield f"{self.name} on {self.platform}: {_number(n, 'call')} of kernbridge"
        yield from (f"  {call}" for call in self.calls)
        for title, rows in (("loops", self.loops), ("CUDA graphs", self.graphs)):
            if rows:
                yield title
                yield from (f"  {row}" for row in rows)
        yield "findings" if self.findings else "findings: none"
        for i, finding in enumerate(self.findings, 1):
            first, *more = wrap(str(finding), 94, break_long_words=False, break_on_hyphens=False)
            yield f"  {i}. {first}"
            yield from (f"     {line}" for line in more)


def _number(n: int, what: str) -> str:
    return f"{n:,} {what}" + "s"[: n != 1]


def _often(n: int | None, what: str) -> str:
    return f"an unknown number of {what}s" if n is None else _number(n, what)
