"""Derivatives as kernels: how one is made, kept on disk, registered and carried.

The compilation of a derivative is a `DerivativeJob`. For CPUs, the job of a front end brings its
kernel into the form of `function.py`, and makes machine code of what Enzyme has derived from that.
One job makes the derivatives of all CUDA kernels, of which a front end describes a `Primal`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from kernbridge import _core
from kernbridge._ext.enzyme import adjoint, clang, tool
from kernbridge._ext.enzyme import function as ir
from kernbridge._ext.enzyme.function import LABELS, Function, Refused, Roles
from kernbridge._src.base import debug
from kernbridge._src.base.dtypes import CODES
from kernbridge._src.base.errors import NoDerivativeError
from kernbridge._src.base.lru import LRUCache
from kernbridge._src.base.packing import HostCode, host_code
from kernbridge._src.calls.call import Call, Types
from kernbridge._src.forge.artefacts import Artefact
from kernbridge._src.forge.obtain import Recipe, obtain
from kernbridge._src.keys.fingerprint import key_of
from kernbridge._src.keys.identity import identity_of
from kernbridge._src.llvm.text import Instruction, Module
from kernbridge._src.operation.primitive import NativeCall
from kernbridge._src.operation.spec import Step
from kernbridge._src.plan.launch import LaunchRule
from kernbridge._src.plan.program import Launch, Word
from kernbridge._src.plan.targets import Target

T = TypeVar("T")
Steps = tuple[Step, ...]


class DerivativeJob(Recipe[T]):
    """The compilation of a derivative, given the steps that lead to it from the kernel.

    `kernel` is the identity of the kernel, and `given` what the derivative depends on beside that
    and the steps.
    """

    tool = "Enzyme"
    why_not_portable = ""
    by_clang = False  # whether the kernel is of C or C++
    compiled: Callable[[], Artefact]  # makes the derivative, or raises Refused
    place: Callable[[Refused], str]  # the line that was refused; empty if it is not found

    def __init__(
        self, label: str, name: str, kernel: bytes, given: Any, steps: Steps, lasting: bool
    ) -> None:
        self.label, self.lasting, self.steps = label, lasting, steps
        self.name = f"{name} ({LABELS[steps[-1].mode]})" if steps else name
        self._given = kernel, given  # what the kernel is for derivatives
        described = given, [tuple(step) for step in steps]
        self.identity = identity_of(made="enzyme", code=kernel, described=described, inlined=None)

    def made_of(self) -> tuple[Any, ...]:
        return tool.find().identity(self.by_clang)

    def make(self) -> Artefact:
        try:
            return self.compiled()
        except Refused as e:
            place = self.place(e) if e.place == "" else e.place
            raise e.error(self.label, place or "") from None


Kernel = tuple[Function, Any]  # as it was compiled for derivatives, and Numba's library of it
# The last one, which a derivative shares with the one of the other mode that tests it.
_kernels: LRUCache[Kernel] = LRUCache(1)


class HostDerivativeJob(DerivativeJob[Artefact]):
    """The compilation of a derivative of a function for CPUs."""

    source = ""  # where the kernel is defined
    # Brings the kernel into the form of `function.py`, with its lines, or raises Refused.
    primal: Callable[[], Kernel]
    # Makes machine code of a function, whose module Enzyme has written, or raises Refused.
    machine_code: Callable[[Function, str], HostCode]
    _kernel: Kernel | None = None

    def lowered(self, operands: Types, call: Call) -> NativeCall:
        """Make the derivative of a kernel, whose operands and call are given."""
        native = obtain(self)
        return NativeCall(
            target=debug.host_target(),
            digest=self.identity,
            key=key_of(self.identity),
            origin="",
            copied=tuple(native.meta["copied"]),
            why_not_portable=self.why_not_portable,
            program=native.blobs[0],
            temporaries=ir.temporaries(native.meta["scratch"], operands, call),
        )

    def compiled(self) -> Artefact:
        key = repr((self._given, self.made_of()))
        self._kernel = _kernels.find(key) or self.primal()
        _kernels.put(key, self._kernel)
        function, text = self._derive(self._kernel[0])
        code = self.machine_code(function, text)
        of = function.operands, function.results, function.hidden
        buffers = [function.buffers[i] for part in of for i in part]
        described = [(CODES[b.dtype], len(b.extents), f"array {i}") for i, b in enumerate(buffers)]
        counts = map(len, of)
        program = host_code(self.identity, (self.label, self.source, *counts), described, code)
        self.lasting = self.lasting and code.lasting
        meta = {"copied": list(function.written), "scratch": function.scratch}
        return Artefact(meta, (program,))

    def _derive(self, kernel: Function, has_lines: bool = False) -> tuple[Function, str]:
        """The derivative, and its module after Enzyme has run."""
        function = functools.reduce(ir.derive, self.steps, kernel)
        function = ir.entry(function, "kb_derivative")
        return function, ir.run(function, self.by_clang, has_lines)

    def place(self, refused: Refused) -> str:
        """The line that was refused: of the function that it calls, or as Enzyme finds it again."""
        if self._kernel is None:  # refused before Enzyme has run
            return ""
        kernel, _ = self._kernel
        try:
            if refused.called and (place := clang.place_in(Module(kernel.text), refused.is_of)):
                return place
            self.machine_code(*self._derive(kernel, has_lines=True))
        except Refused as again:
            place = again.place or ""
            return "" if place.startswith("/usr/") else place
        except Exception:  # the message only lacks the line
            return ""
        return ""

    def use(self, made: Artefact) -> Artefact:
        _core.register_host_code(self.identity, made.blobs[0])  # which is never released
        adjoint.entered.add(self.identity)
        return made


Words = Sequence[Sequence[Word]]  # of each leaf of the parameters of a kernel


def check_launch(label: str, rule: LaunchRule | Launch, why_not: str = "") -> None:
    """Raise NoDerivativeError for `why_not`, or for options that Enzyme knows nothing of."""
    options = {"cluster=": rule.cluster, "pdl=True": rule.pdl, "cooperative=True": rule.cooperative}
    if why := why_not or next((name for name, given in options.items() if given), ""):
        raise NoDerivativeError(
            f"{label}: Enzyme cannot differentiate a kernel with {why}; write the derivative of "
            "this kernel as a function (vjp=, jvp=) [KB2107]"
        )


class Form(NamedTuple):
    """A kernel in that form, whose entry takes the words of a launch."""

    module: Any  # of LLVM, with all its code
    entry: str
    arrays: dict[int, tuple[str, int]]  # the dtype and the rank of each array of the call
    written: Collection[int]  # arrays that it may write to
    # Shared arrays: their items, their bytes (0 if the launch gives them), and their offsets.
    shared: Iterable[tuple[str, int, int]]


class Primal:
    """The CUDA kernel that a derivative is made of, whatever its language, and its compiled code.

    `numba_cuda.CudaDerivativeJob` makes derivatives of kernels in the form that `HostModule` of the
    emulator gives them. A `Primal` brings a kernel into that form.
    """

    label: str
    name: str
    symbol: str  # a name for the entry that no other kernel has
    digest: bytes
    lasting = True  # whether other processes may use what is made of it
    target: Target
    kernel: Any = None  # of Numba
    why_not_portable = ""

    made_of: Callable[[], tuple[Any, ...]]  # what decides the form besides the digest
    form: Callable[[Words, Roles], Form]  # compiles the kernel, or raises Refused
    # The line of the first such instruction in what `form` has compiled.
    place: Callable[[Callable[[Instruction], bool]], str]
