"""Derivatives of Numba kernels on the CPU, by Enzyme, as kernels of their own.

A derivative is machine code with the entry of any other kernel (numba_cpu/object_code.py). It is
made when a call of it is lowered, kept on disk, and carried by programs. Enzyme differentiates what
Numba has optimised, before loops are vectorised. Imported only when a derivative is lowered.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from kernbridge import _core
from kernbridge._src.base.errors import NoDerivativeError
from kernbridge._src.enzyme import function as ir
from kernbridge._src.enzyme import tool
from kernbridge._src.enzyme.function import Buffer, Function, Kind, Refused
from kernbridge._src.forge.artefacts import Artefact
from kernbridge._src.keys import fingerprint
from kernbridge._src.numba_cpu import entry as numba_cpu_entry
from kernbridge._src.numba_cpu import object_code
from kernbridge._src.numba_cpu.compile import Job, Native
from kernbridge._src.numba_cpu.entry import Entry
from kernbridge._src.operation.spec import Step

_LABELS = {"jvp": "tangents", "vjp": "cotangents"}


class DerivativeJob(Job):
    """The compilation of a derivative, given that of the kernel and the steps that lead to it."""

    kind = "numba_cpu_derivative"
    tool = "Enzyme"

    def __init__(
        self, primal: Job, aliases: tuple[tuple[int, int], ...], steps: tuple[Step, ...]
    ) -> None:
        self._primal, self._aliases, self._steps = primal, dict(aliases), steps
        self.kernel, self.options, self.label = primal.kernel, primal.options, primal.label
        self.name = f"{primal.name} ({_LABELS[steps[-1].mode]})"
        self.n_operands = self.n_outputs = 0  # which `make` sets
        self.fingerprint, self.why_not_portable = primal.fingerprint, primal.why_not_portable
        described = repr((aliases, [tuple(s) for s in steps]))
        self.identity = fingerprint.combine(self.fingerprint, primal.identity, "enzyme", described)
        self.key = fingerprint.key_of(self.identity)
        self.lasting = primal.lasting
        self._has_vector_math = primal._has_vector_math
        self._function: Function | None = None
        self._native: Native | None = None

    def made_of(self) -> tuple[Any, ...]:
        return (*self._primal.made_of(), tool.find().identity)

    def make(self) -> Artefact:
        enzyme = tool.find()
        try:
            function, library = self._derive()
            text = ir.run(function, enzyme)
            text = numba_cpu_entry.optimised(text, library, self._has_vector_math)
            entry = SimpleNamespace(name=function.name, keep=(library,), llvm_ir=text)
            code = object_code.make(cast(Entry, entry))
        except (Refused, object_code.NotCarried) as e:
            raise NoDerivativeError(
                f"{self.label}: Enzyme cannot differentiate the kernel: {e}{self._place(e)}. Write "
                "the derivative of this kernel as a function (vjp=, jvp=), or leave this part out "
                "of it [KB2107]"
            ) from None
        self._function = function
        self.n_operands, self.n_outputs = len(function.operands), len(function.results)
        program = self._encode(code, function.written)
        _core.register_host_code(self.identity, program)
        self.lasting = self.lasting and code.lasting
        scratch = tuple((b.dtype, b.extents) for b in function.scratch)
        self._native = Native(function.written, program, scratch=scratch)
        meta = {"copied": list(function.written), "scratch": [[d, list(e)] for d, e in scratch]}
        return Artefact(meta, (program,))

    def _derive(self, debug: bool = False) -> tuple[Function, Any]:
        """The derivative before Enzyme has run, and Numba's library of the kernel."""
        with numba_cpu_entry.compiling_to_differentiate(self.kernel, debug):
            overload, written = self._primal.compile_kernel()
            function = self._primal_function(overload, frozenset(written))
        for step in self._steps:
            active = frozenset(function.operands[k] for k in step.active)
            function = ir.derive(function, step.mode, active)
        return ir.entry(function, "kb_derivative"), overload.compiled.library

    def _place(self, refused: Exception) -> str:
        """The line that Enzyme refused, which needs the kernel with its lines."""
        if not isinstance(refused, Refused):
            return ""
        try:
            ir.run(self._derive(debug=True)[0], tool.find())
        except Refused as again:
            return f" ({again.place})" if again.place else ""
        except Exception:  # the message only lacks the line
            return ""
        return ""

    def use(self, made: Artefact) -> Native:
        if self._native is None:
            _core.register_host_code(self.identity, made.blobs[0])
            scratch = tuple((str(d), tuple(map(int, e))) for d, e in made.meta["scratch"])
            self._native = Native(tuple(made.meta["copied"]), made.blobs[0], scratch=scratch)
        return self._native

    def _buffers(self, copied: tuple[int, ...]) -> tuple[tuple[int, int, str], ...]:
        function = self._function
        assert function is not None
        operands = [function.buffers[i] for i in function.operands]
        results = [function.buffers[i] for i in function.results]
        every = (*operands, *results, *(operands[i] for i in copied), *function.scratch)
        return tuple(
            (_core.dtypes()[b.dtype][0], len(b.extents), f"array {i}") for i, b in enumerate(every)
        )

    def _primal_function(self, overload: Any, written: frozenset[int]) -> Function:
        """The kernel as a function of its operands and of those outputs that are no operands."""
        primal = self._primal
        for dtype, _ in primal._buffer_types:
            if not ir.can_hold(dtype):
                raise Refused(f"it has arrays of {dtype}, whose numbers it treats as bits")
        by_buffer = primal.host_parameters()
        n, aliases = primal.n_operands, self._aliases
        of_output = {o: i for i, o in aliases.items()}
        shared = {by_buffer[n + o]: by_buffer[i] for i, o in aliases.items()}
        own = [b for b in by_buffer if b not in shared]
        given = [None if b is None else by_buffer[b] for b in primal._assignment.given]
        text, name, only_written = numba_cpu_entry.build_primal(overload, given, own, shared)
        buffers: list[Buffer] = []
        n_extents = 0
        for i, parameter in enumerate(by_buffer):
            if parameter in shared:
                continue
            dtype, rank = primal._buffer_types[i]
            kind: Kind = "work" if i in written else "in"
            if i >= n or i in aliases:
                kind = "out" if i >= n else "inout"
            extents = tuple(range(n_extents, n_extents + rank))
            buffers.append(Buffer(dtype, extents, kind, len(buffers) not in only_written))
            n_extents += rank
        places = {p: k for k, p in enumerate(own)}
        results = tuple(
            places[by_buffer[of_output.get(o, n + o)]] for o in range(len(primal.signature.outputs))
        )
        return ir.around(text, name, tuple(buffers), n_extents, tuple(range(n)), results)
