"""Analyses the costs of a jitted function apart from its kernels, from the compiled program."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax

from kernbridge import _core
from kernbridge._src.base import jax_state_inside
from kernbridge._src.source import targets
from kernbridge._src.tools import cuda_graphs, hlo_text, moves
from kernbridge._src.tools.explained import (
    ExplainedCall,
    ExplainedGraph,
    ExplainedLoop,
    Explanation,
    Finding,
)
from kernbridge._src.tools.hlo_text import Computation, Instruction, Program
from kernbridge._src.tools.visits import Visit, visits

_OWN = f"{Path(_core.__file__).parent}/"


def explain(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """Report the costs of a jitted function apart from the work of its kernels.

    The function is lowered and compiled for these arguments, but not executed. Gathered arrays and
    donations without effect are reported as findings, and not as warnings.

    Parameters
    ----------
    function : callable
        A function that `jax.jit` returned, with its donated arguments, shardings and compiler
        options; or a function that has not been jitted.
    *args, **kwargs
        Arguments of the function: arrays, or `jax.ShapeDtypeStruct` objects instead.

    Returns
    -------
    Explanation
        The calls of kernbridge, the loops around them, the CUDA graphs that XLA makes of them, and
        `findings`: copies and transpositions next to calls, donated arguments that are not reused,
        arrays that are gathered from several devices, and loops on a GPU whose iterations are
        launched step by step. Each finding contains a remedy. `print` shows the whole report.

    Notes
    -----
    The graphs are derived from the steps of the compiled program by XLA's rule, with the settings
    in `XLA_FLAGS` and in the function's `compiler_options`, because the text of a compiled program
    does not contain them.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, kernbridge, numba
    >>> @numba.njit
    ... def increment(_x, x):
    ...     for i in range(x.size):
    ...         x[i] += 1
    >>> x = jax.ShapeDtypeStruct((1000,), jnp.float32)
    >>> op = kernbridge.numba_kernel(increment, x, input_output_aliases={0: 0})
    >>> explanation = kernbridge.explain(jax.jit(op), x)
    >>> [finding.kind for finding in explanation.findings]
    ['copy']
    >>> kernbridge.explain(jax.jit(op, donate_argnums=0), x).findings
    ()
    """
    jitted: Any = function if hasattr(function, "lower") else jax.jit(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lowered = jitted.lower(*args, **kwargs)
        compiled = lowered.compile()
    name = getattr(function, "__name__", None) or str(function)
    options = jax_state_inside.compiler_options(lowered)
    text = compiled.as_text() or ""
    return explain_text(name, text, _platform(compiled), options, lowered.args_info)


def explain_text(
    name: str, text: str, platform: str, options: Mapping[str, Any], args_info: Any = ()
) -> Explanation:
    """Explain the text of a program; the arguments are those of its function in `Lowered`."""
    program = hlo_text.read(text)
    reader = _Reader(program, platform, cuda_graphs.Settings.of(options))
    findings = [*reader.findings(), *moves.donations(program, args_info)]
    return Explanation(
        name=name,
        platform=platform,
        calls=reader.calls(),
        loops=reader.loops(),
        graphs=reader.graphs(),
        findings=tuple(sorted(findings, key=_weight, reverse=True)),
    )


def _weight(finding: Finding) -> tuple[bool, int, int]:
    often = finding.executions or 1
    return finding.kind == "absent", often * (1 + finding.n_bytes), often


def _platform(compiled: Any) -> str:
    devices = [d for s in jax.tree.leaves(compiled.output_shardings) for d in s.device_set]
    name = devices[0].platform if devices else jax.default_backend()
    return "cuda" if name == "gpu" else name


class _Reader:
    """A program with the calls of kernbridge in it."""

    def __init__(self, program: Program, platform: str, settings: cuda_graphs.Settings) -> None:
        self._program, self._on_gpu, self._settings = program, platform == "cuda", settings
        self._targets = frozenset(targets.list_registered_targets())
        in_graphs = self._targets | {"kernbridge.cuda.graph"}
        self._graphs = cuda_graphs.Graphs(program, settings, in_graphs)
        self._visits = tuple(visits(program))
        self._runs: dict[Visit, list[cuda_graphs.Run]] = {}  # those that are graphs
        for visit in self._visits if self._on_gpu else ():
            runs = [] if self._is_in_graph(visit) else self._graphs.runs(visit.computation)
            self._runs[visit] = [run for run in runs if run.is_graph]

    def _is_in_graph(self, visit: Visit) -> bool:
        """Whether a computation runs as part of a graph, or where XLA makes none."""
        caller, parent = visit.caller, visit.parent
        if caller is None or parent is None:
            return False
        if caller.opcode == "while" and not visit.is_body:
            return True
        in_run = any(caller in run.steps for run in self._runs[parent])
        return in_run or self._graphs.is_written(caller) or self._is_in_graph(parent)

    def calls(self) -> tuple[ExplainedCall, ...]:
        """All calls, those that differ only in their place together."""
        found: dict[tuple[Any, ...], list[tuple[str, int | None]]] = {}
        for visit in self._visits:
            for call in self._calls_in(visit.computation):
                inputs = [a.text for o in visit.computation.operands(call) if o for a in o.arrays]
                batch = tuple(_sizes(call.arrays[0].text)[: call.batch_levels])
                outputs = tuple(array.text for array in call.arrays)
                key = (self._operation(call), call.target, tuple(inputs), outputs, batch)
                found.setdefault(key, []).append((self._where(call), visit.executions))
        return tuple(
            ExplainedCall(
                operation=operation,
                front_end=operation.split(" ")[0],
                target=target,
                inputs=inputs,
                outputs=outputs,
                batch=batch,
                where=tuple(dict.fromkeys(line for line, _ in each)),
                places=len(each),
                executions=_sum([n for _, n in each]),
            )
            for (operation, target, inputs, outputs, batch), each in found.items()
        )

    def loops(self) -> tuple[ExplainedLoop, ...]:
        """The loops whose own turns call kernbridge."""
        return tuple(
            ExplainedLoop(
                where=self._where(loop),
                turns=loop.turns,
                calls=sum(len(self._calls_in(v.computation)) for v in turn),
                steps=len([*self._graphs.steps(turn[0].computation)]),
                graphs=tuple(len(run.steps) for v in turn for run in self._runs.get(v, ())),
            )
            for loop, turn in self._loops()
        )

    def graphs(self) -> tuple[ExplainedGraph, ...]:
        """The CUDA graphs of the program."""
        rows = []
        for visit, runs in self._runs.items():
            turn = visit.turn
            loop = turn.caller if turn else None
            where = self._where(loop) if loop else "outside of loops"
            for run in runs:
                n = sum(map(self._is_ours, run.steps))
                rows.append(ExplainedGraph(where, len(run.steps), n))
        return tuple(rows)

    def findings(self) -> list[Finding]:
        """What can be avoided, apart from donations."""
        found = []
        for visit in self._visits:
            for call in self._calls_in(visit.computation):
                where, operation = self._where(call), self._operation(call)
                if call.target == "kernbridge.absent":
                    found.append(_absent(where, visit.executions))
                    continue
                found += moves.around(self._program, visit, call, operation, where)
        if self._on_gpu:
            for loop, turn in self._loops():
                found += self._findings_of_loop(loop, turn)
        return list(dict.fromkeys(found))

    def _findings_of_loop(self, loop: Instruction, turn: list[Visit]) -> list[Finding]:
        found = []
        where, turns, least = self._where(loop), turn[0].executions, self._settings.min_size
        if loop.turns is None:
            text = (
                "The number of iterations of this loop is not known before it runs, so the host "
                "waits for the GPU in every iteration to read the condition."
            )
            remedy = (
                "Use jax.lax.scan, or jax.lax.fori_loop with bounds that are Python numbers, or do "
                "several steps in one turn of jax.lax.while_loop."
            )
            found.append(Finding("unknown_turns", where, text, remedy, executions=turns))
        calls = sum(len(self._calls_in(visit.computation)) for visit in turn)
        loose = [visit for visit in turn if not self._is_in_graph(visit)]
        alone = sum(
            not any(call in run.steps for run in self._runs[visit])
            for visit in loose
            for call in self._calls_in(visit.computation)
        )
        outside = [i for visit in loose for i in self._graphs.outside(visit.computation)]
        steps = len([*self._graphs.steps(turn[0].computation)])
        if alone and not outside:
            text = (
                f"A turn of this loop has {steps} step{'s'[: steps != 1]}, fewer than the {least} "
                "of which XLA makes a CUDA graph, so each is started by itself."
            )
            remedy = (
                "Pass unroll=10 to jax.lax.fori_loop or jax.lax.scan, which makes one graph of ten "
                'steps, or compiler_options={"xla_gpu_graph_min_graph_size": 1} to jax.jit.'
            )
            found.append(Finding("small_loop", where, text, remedy, executions=turns))
        elif alone:
            names = [self._operation(i) if self._is_ours(i) else i.opcode for i in outside]
            listed = ", ".join(dict.fromkeys(names))
            text = (
                f"{alone} of {calls} calls in a turn of this loop are in no CUDA graph, "
                f"since these steps cannot be part of one and leave fewer than {least} steps "
                f"between them: {listed}."
            )
            remedy = (
                "Move these steps out of the loop, or next to each other; an operation with "
                "allow_cuda_graph=False, pdl or a callback is in no graph."
            )
            found.append(Finding("no_graph", where, text, remedy, executions=turns))
        return found

    def _loops(self) -> Iterator[tuple[Instruction, list[Visit]]]:
        """The loops whose own turns call kernbridge, and what a turn runs: its body first."""
        for body in [visit for visit in self._visits if visit.is_body]:
            turn = [visit for visit in self._visits if visit.turn is body]
            if body.caller and any(self._calls_in(visit.computation) for visit in turn):
                yield body.caller, turn

    def _calls_in(self, computation: Computation) -> list[Instruction]:
        return [i for i in computation if self._is_ours(i)]

    def _is_ours(self, instruction: Instruction) -> bool:
        target = instruction.target
        own = target.startswith("kernbridge.") and not target.endswith(".carrier")
        return instruction.opcode == "custom-call" and (own or target in self._targets)

    def _operation(self, call: Instruction) -> str:
        digest = call.digest
        name = _core.kernel_name(digest) if digest is not None else None
        return name or f"ffi_call {call.target!r}"

    def _where(self, instruction: Instruction) -> str:
        return self._program.where(instruction, _OWN)


def _absent(where: str, executions: int | None) -> Finding:
    text = "The operation has no kernel for this platform, and the call fails when it is executed."
    remedy = (
        "Give the operation a kernel for this platform, or choose another function with "
        "jax.lax.platform_dependent."
    )
    return Finding("absent", where, text, remedy, executions=executions)


def _sizes(text: str) -> list[int]:
    return [int(n) for n in text.partition("[")[2].rstrip("]").split(",") if n.isdigit()]


def _sum(numbers: list[int | None]) -> int | None:
    known = [n for n in numbers if n is not None]
    return sum(known) if len(known) == len(numbers) else None
