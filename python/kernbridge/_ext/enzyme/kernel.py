"""Derivatives as kernels for CPUs: how one is made, kept on disk, registered and carried.

The compilation of a derivative is a `DerivativeJob`. For CPUs, the job of a front end brings its
kernel into the form of `function.py`, and makes machine code of what Enzyme has derived from that.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from kernbridge import _core
from kernbridge._ext.enzyme import adjoint, clang, tool
from kernbridge._ext.enzyme import function as ir
from kernbridge._ext.enzyme.function import LABELS, Function, Refused
from kernbridge._ext.enzyme.tool import Enzyme
from kernbridge._src.base import debug
from kernbridge._src.base.dtypes import CODES
from kernbridge._src.base.packing import HostCode, host_code
from kernbridge._src.calls.call import ArrayType, Call
from kernbridge._src.forge.artefacts import Artefact
from kernbridge._src.forge.obtain import Recipe, obtain
from kernbridge._src.keys.fingerprint import key_of
from kernbridge._src.keys.identity import identity_of
from kernbridge._src.operation.primitive import NativeCall
from kernbridge._src.operation.spec import Mode, Step

T = TypeVar("T")


_OTHER: dict[Mode, Mode] = {"jvp": "vjp", "vjp": "jvp"}


class DerivativeJob(Recipe[T]):
    """The compilation of a derivative, given the steps that lead to it from the kernel.

    `kernel` is the identity of the kernel, and `described` returns what the derivative depends on
    beside that, the steps among them.
    """

    tool = "Enzyme"
    why_not_portable = ""
    by_clang = False  # whether the kernel is of C or C++

    def __init__(
        self,
        label: str,
        name: str,
        kernel: bytes,
        described: Callable[[list[Any]], Any],
        steps: tuple[Step, ...],
        lasting: bool,
    ) -> None:
        self.label, self.lasting = label, lasting
        self._given = name, kernel, described
        self._take(steps)

    def _take(self, steps: tuple[Step, ...]) -> None:
        name, kernel, described = self._given
        self.steps, self.name = steps, f"{name} ({LABELS[steps[-1].mode]})"
        made_of = described([tuple(step) for step in steps])
        self.identity = identity_of(made="enzyme", code=kernel, described=made_of, inlined=None)

    def made_of(self) -> tuple[Any, ...]:
        return tool.find().identity(self.by_clang)

    def make(self) -> Artefact:
        enzyme = tool.find()
        try:
            return self.compiled(enzyme)
        except Refused as e:
            place = self.place(enzyme, e) if e.place == "" else e.place
            raise e.error(self.label, place or "") from None

    def compiled(self, enzyme: Enzyme) -> Artefact:
        """Make the derivative, or raise Refused."""
        raise NotImplementedError

    def place(self, enzyme: Enzyme, refused: Refused) -> str:
        """The line of the kernel that was refused; empty if it is not found."""
        raise NotImplementedError


class Native(NamedTuple):
    """A derivative that the core can call. It is never released."""

    program: bytes
    about: dict[str, Any]  # as `HostDerivativeJob.compiled` describes it


class HostDerivativeJob(DerivativeJob[Native]):
    """The compilation of a derivative of a function for CPUs."""

    source = ""  # where the kernel is defined
    _kernel: Function | None = None  # as it was compiled for derivatives
    _native: Native | None = None

    def lowered(self, operands: Sequence[ArrayType], call: Call) -> NativeCall:
        """Make the derivative of a kernel, whose operands and call are given."""
        native = obtain(self)
        if not call.has_side_effect:
            adjoint.watch(self, native)
        made = (call.outs[b - len(operands)] for b in call.fresh)
        extents = [n for t in (*operands, *made) for n in t.shape]
        return NativeCall(
            target=debug.host_target(),
            digest=self.identity,
            key=key_of(self.identity),
            origin="",
            copied=tuple(native.about["copied"]),
            why_not_portable=self.why_not_portable,
            program=native.program,
            temporaries=tuple(
                ArrayType(tuple(extents[k] for k in axes), np.dtype(dtype))
                for dtype, axes in native.about["scratch"]
            ),
        )

    def other_mode(self) -> HostDerivativeJob:
        """The derivative whose last step is in the other mode; it takes the compiled kernel."""
        other = copy.copy(self)
        *before, (mode, active) = self.steps
        other._take((*before, Step(_OTHER[mode], active)))
        other._native = None
        return other

    def primal(self, debug: bool) -> Function:
        """Bring the kernel into the form of `function.py`, with its lines if `debug`.

        Kernels of Numba always have them. Refused is raised if that cannot be.
        """
        raise NotImplementedError

    def machine_code(self, function: Function, text: str) -> HostCode:
        """Make machine code of a function, whose module Enzyme has written, or raise Refused."""
        raise NotImplementedError

    def compiled(self, enzyme: Enzyme) -> Artefact:
        self._kernel = self._kernel or self.primal(debug=False)  # the other mode's, too
        function, text = self._derive(enzyme, self._kernel)
        code = self.machine_code(function, text)
        operands = [function.buffers[i] for i in function.operands]
        results = [function.buffers[i] for i in function.results]
        hidden = [function.buffers[i] for i in function.hidden]
        described = [
            (CODES[b.dtype], len(b.extents), f"array {i}")
            for i, b in enumerate((*operands, *results, *hidden))
        ]
        counts = (len(operands), len(results), len(hidden))
        program = host_code(self.identity, (self.label, self.source, *counts), described, code)
        self.lasting = self.lasting and code.lasting
        arrays = {"operands": operands, "results": results, "scratch": function.scratch}
        meta: dict[str, Any] = {
            kind: [[b.dtype, list(b.extents)] for b in of] for kind, of in arrays.items()
        }
        place = {i: k for k, i in enumerate(function.operands)}
        in_place = [place.get(i) for i in function.results]  # which operand becomes each result
        meta |= {"copied": list(function.written), "in_place": in_place}
        meta |= {"mode": self.steps[-1][0], "size": len(text)}
        made = Artefact(meta, (program,))
        self._native = self._registered(made)
        return made

    def _derive(
        self, enzyme: Enzyme, kernel: Function, has_lines: bool = False
    ) -> tuple[Function, str]:
        """The derivative, and its module after Enzyme has run."""
        function = ir.derive_in_steps(kernel, self.steps)
        function = ir.entry(function, "kb_derivative")
        return function, ir.run(function, enzyme, self.by_clang, has_lines)

    def place(self, enzyme: Enzyme, refused: Refused) -> str:
        """The line that was refused: of the function that it calls, or as Enzyme finds it again."""
        if not (self._kernel or self.by_clang):  # refused before Enzyme has run
            return ""
        try:
            kernel = self.primal(debug=True) if self.by_clang else self._kernel
            assert kernel is not None
            if refused.called:
                calls = re.compile(rf"^ *(%\S+ = )?[^\n]*call [^\n]*{refused.called}[^\n]*", re.M)
                for call in calls.finditer(kernel.text):
                    # The optimiser may have moved it, which then has no line; what uses it has.
                    name = re.escape((call[1] or "\0").removesuffix(" = "))
                    uses = re.findall(rf"^[^\n]*{name}(?![\w.])[^\n]*", kernel.text, re.M)
                    places = (clang.place_of(kernel.text, i) for i in (call[0], *uses))
                    if place := next(filter(None, places), ""):
                        return place
            self.machine_code(*self._derive(enzyme, kernel, has_lines=True))
        except Refused as again:
            place = again.place or ""
            return "" if place.startswith("/usr/") else place
        except Exception:  # the message only lacks the line
            return ""
        return ""

    def use(self, made: Artefact) -> Native:
        if self._native is None:
            self._native = self._registered(made)
        return self._native

    def _registered(self, made: Artefact) -> Native:
        _core.register_host_code(self.identity, made.blobs[0])
        return Native(made.blobs[0], made.meta)
