"""Derivatives of recorded functions: each launch is differentiated, and the plan run in reverse.

The steps of a recording act on buffers: inputs, outputs and temporaries. A derivative has a shadow
of each buffer of real numbers, which holds tangents or cotangents, and every launch is replaced by
its derivative (enzyme/numba_cuda.py), which works on buffers and shadows in place.

- For tangents, the steps run in their order.
- For cotangents, they first run forward, and what a step overwrites is kept. Then they run in
  reverse. The derivative of a launch runs the launch again, on what its buffers contained before.

Imported only when a derivative is lowered.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from numba import cuda

from kernbridge._ext.enzyme.function import Roles
from kernbridge._ext.enzyme.kernel import Primal, Words
from kernbridge._ext.enzyme.numba_cuda import DerivativeFunction, NumbaKernel, obtained, planned
from kernbridge._src.base.errors import NoDerivativeError
from kernbridge._src.calls.call import is_inexact, wide_types
from kernbridge._src.numba_cuda.callback import Configured
from kernbridge._src.numba_cuda.compile import KernelJob, NumbaCudaFunction
from kernbridge._src.operation.derivatives import Differentiated, Differentiator
from kernbridge._src.operation.primitive import NativeCall
from kernbridge._src.operation.spec import Step as Differentiation
from kernbridge._src.plan import targets
from kernbridge._src.plan.program import Copy, Fill, Launch, Step, leaves, renumbered
from kernbridge._src.record.callable import NumbaCudaCallable
from kernbridge._src.record.record import DeviceArray, NotRecordable, Recording, host_like, record


class OfFunction(Differentiator):
    frontend: NumbaCudaCallable
    halves_can_be_wide = True

    def lower(self, platform: str, wanted: Differentiated) -> NativeCall:
        label = self.frontend.label
        target = targets.of_platform(platform, vector_math=self.frontend.vector_math)
        batched = replace(wanted.call, levels=wanted.own_call.levels)
        try:
            recording = record(self.frontend, wanted.operands, batched, target)
        except NotRecordable as e:
            raise refused(label, f"it cannot be recorded: {e}") from None
        return Derivative(recording, wanted).lowered(self.frontend.place)


def refused(label: str, why: str) -> NoDerivativeError:
    return NoDerivativeError(
        f"{label}: Enzyme cannot differentiate the function: {why}. Write the derivative as a "
        "function (vjp=, jvp=) [KB2107]"
    )


@dataclass
class Reaches:
    """The buffers that a step of the recording reads and writes."""

    reads: set[int]
    writes: set[int]
    made: DerivativeFunction | None = None  # of a launch
    buffers: tuple[int, ...] = ()  # whose addresses it takes, before the ones of `shadows`
    shadows: tuple[int, ...] = ()


class Derivative:
    """The steps of a derivative. Buffers of the recording are numbered as there."""

    def __init__(self, recording: Recording, wanted: Differentiated) -> None:
        if len(wanted.steps) > 1:
            raise refused(recording.label, "second derivatives of launches are not made")
        operands, call, (step,), own_operands, own_call = wanted
        self._recording, self._wanted, self._differentiation = recording, wanted, step
        self._n_operands = n = len(operands)
        self._of_kernels = (*operands, *call.outs, *recording.temporaries)
        self._arrays = wide_types(self._of_kernels)
        self._same = {n + o: i for i, o in call.aliases}  # as which buffer an output is known
        self._has_batch = bool(own_call.levels)
        self._n_buffers = len(own_operands) + len(own_call.outs)
        label, target = recording.label, recording.target
        self._made = Recording(label, target, self._n_buffers, frozenset(), self._has_batch)
        self.steps, self.temporaries = self._made.steps, self._made.temporaries
        outs = [n + o for o, t in enumerate(call.outs) if is_inexact(t.dtype)]
        sources, results = (step.active, outs) if step.mode == "jvp" else (outs, step.active)
        self._sources = {self._known(b): n + k for k, b in enumerate(sources)}
        self._results = {self._known(b): len(own_operands) + k for k, b in enumerate(results)}
        # An output in the memory of an input has the input's number.
        self._primal = [renumbered(step, self._known) for step in recording.steps]
        self._reaches = [self._reach(s) for s in self._primal]
        self._written = set().union(*(r.writes for r in self._reaches))
        self._values: dict[int, int] = {}  # numbers in the derivative's plan, by buffer
        self._shadows: dict[int, int] = {}

    def lowered(self, source: str) -> NativeCall:
        own = [b for b in range(len(self._arrays)) if self._known(b) == b]
        used = set().union(*(r.reads | r.writes for r in self._reaches))
        for b in own:
            is_input = b < self._n_operands
            if is_input and b not in self._written:
                self._values[b] = b
            elif b in used:
                self._values[b] = self._temporary(b)
                if is_input:
                    self._copy(b, self._values[b], b)
        shadowed = {b for r in self._reaches for b in r.shadows} | self._sources.keys()
        real = {b for b in used if is_inexact(self._arrays[b].dtype)}
        shadowed |= (used & self._results.keys()) | {b for b in real if b >= self._n_operands}
        for b in sorted(shadowed):
            self._begin_shadow(b)
        if self._differentiation.mode == "jvp":
            for step, reach in zip(self._primal, self._reaches, strict=True):
                if not isinstance(step, Launch):
                    self.steps.append(renumbered(step, self._values.__getitem__))
                self._differentiate(step, reach)
        else:
            self._backward()
        for b, result in self._results.items():
            if b not in self._shadows:
                self._fill(b, result)
            elif self._shadows[b] != result:
                self._copy(self._shadows[b], result, b)
        label, target = self._recording.label, self._recording.target
        named, made = f"{label} ({self._differentiation.mode})", self.temporaries
        return planned(named, source, self._wanted, self.steps, target, temporaries=made)

    def _begin_shadow(self, b: int) -> None:
        source, result = self._sources.get(b), self._results.get(b)
        if source is None:
            self._shadows[b] = self._temporary(b) if result is None else result
            self._fill(b, self._shadows[b])
        elif b in self._written or self._differentiation.mode == "vjp":  # it changes
            self._shadows[b] = self._temporary(b)
            self._copy(source, self._shadows[b], b)
        else:
            self._shadows[b] = source

    def _backward(self) -> None:
        defined = set(range(self._n_operands))
        kept: list[dict[int, int]] = []
        last = len(self._primal) - 1
        before: set[int] = set()  # what earlier steps access
        for k, (step, reach) in enumerate(zip(self._primal, self._reaches, strict=True)):
            saved = {}
            for b in sorted(reach.writes & defined):
                if k < last or b in before:
                    saved[b] = self._temporary(b)
                    self._copy(self._values[b], saved[b], b)
            kept.append(saved)
            if k < last:  # the derivative of the last one runs it
                self._repeat(step, reach)
            defined |= reach.writes
            before |= reach.writes | reach.reads
        for k in range(last, -1, -1):
            step = self._primal[k]
            if k < last and isinstance(step, Launch):
                self._restore(kept[k])
            self._differentiate(step, self._reaches[k])
            self._restore(kept[k])

    def _differentiate(self, step: Step, reach: Reaches) -> None:
        """Add what a step becomes for shadows."""
        if isinstance(step, Launch):
            assert reach.made is not None
            numbers = [self._values[b] for b in reach.buffers]
            numbers += [self._shadows[b] for b in reach.shadows]
            self.steps.append(reach.made.launch(step, numbers))
        elif isinstance(step, Fill) and step.buffer in self._shadows:
            self.steps.append(renumbered(replace(step, pattern=0), self._shadows.__getitem__))
        elif isinstance(step, Copy) and self._shadows.keys() & {step.to_buffer, step.from_buffer}:
            self._copy_derivative(step)

    def _repeat(self, step: Step, reach: Reaches) -> None:
        self.steps.append(renumbered(step, self._values.__getitem__))

    def _restore(self, saved: dict[int, int]) -> None:
        for b, number in saved.items():
            self._copy(number, self._values[b], b)

    def _reach(self, step: Step) -> Reaches:
        if isinstance(step, Fill):
            return Reaches(set(), {step.buffer})
        if isinstance(step, Copy):
            return Reaches({step.from_buffer}, {step.to_buffer})
        assert isinstance(step, Launch)
        primal, own, read_only = self._kernel(step)
        buffers = tuple(sorted({w.buffer for found in own for w in found if w.kind == "address"}))
        real = {b for b in buffers if is_inexact(self._arrays[b].dtype)}
        active = set(self._sources if self._differentiation.mode == "jvp" else self._results)
        in_place = tuple(b for b in buffers if b not in read_only or (b in real and b in active))
        shadows = tuple(b for b in in_place if b in real)
        how = Differentiation(self._differentiation.mode, tuple(map(buffers.index, shadows)))
        roles = Roles(buffers, in_place=in_place)
        made = obtained(primal, own, roles, (how,), self._has_batch, step)
        writes = {buffers[i] for i in made.written}
        return Reaches(set(buffers), writes, made, buffers, shadows)

    def _kernel(self, step: Launch) -> tuple[Primal, Words, set[int]]:
        """The kernel of a launch, its words, and the inputs that nothing writes to."""
        function = step.function
        assert isinstance(function, NumbaCudaFunction)
        words = iter(w for w in step.words if w.kind != "stride")
        parameters = list(leaves(function.parameters))
        own = [[next(words) for _ in range(leaf.n_words(False))] for leaf in parameters]
        read_only = {
            found[0].buffer
            for i, (found, leaf) in enumerate(zip(own, parameters, strict=True))
            if found[0].kind == "address" and (leaf.read_only or leaf.kind == "loaded")
            if i not in function.opened
        }
        label, target = self._recording.label, self._recording.target
        job = KernelJob(label, function.kernel(), function.parameters, False, target)
        return NumbaKernel(job), own, read_only

    def _copy_derivative(self, step: Copy) -> None:
        """Copy the tangent, or add the copy's cotangent to the source's and set it to zero."""
        dtypes = {self._arrays[b].dtype for b in (step.to_buffer, step.from_buffer)}
        if len(dtypes) > 1:
            raise refused(self._recording.label, "it copies between arrays of different dtypes")
        (dtype,), shadow = dtypes, self._shadows[step.to_buffer]
        is_active = step.from_buffer in self._shadows
        if is_active and self._differentiation.mode == "jvp":
            self.steps.append(renumbered(step, self._shadows.__getitem__))
            return
        count = step.size // dtype.itemsize
        if is_active:
            array = host_like((count,), dtype)
            places = ((step.to_buffer, step.to_offset), (step.from_buffer, step.from_offset))
            given = [DeviceArray(self._made, self._shadows[b], at, array) for b, at in places]
            self._made.launch(Configured(_add, -(-array.size // 256), 256), given)
        self.steps.append(Fill(shadow, step.to_offset, dtype.itemsize, count, 0))

    def _known(self, b: int) -> int:
        return self._same.get(b, b)

    def _temporary(self, b: int) -> int:
        self.temporaries.append(self._arrays[b])
        return self._n_buffers + len(self.temporaries) - 1

    def _copy(self, source: int, to: int, b: int) -> None:
        array = self._arrays[b]
        if size := math.prod(array.shape) * array.dtype.itemsize:
            self.steps.append(Copy(to, 0, source, 0, size))

    def _fill(self, b: int, number: int) -> None:
        array = self._arrays[b]
        if n := math.prod(array.shape):
            self.steps.append(Fill(number, 0, array.dtype.itemsize, n, 0))


@cuda.jit
def _add(x, out):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i < out.size:
        out[i] += x[i]
