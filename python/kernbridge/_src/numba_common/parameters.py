"""Assigns the parameters of a kernel that is a Python function to inputs, scalars and outputs.

The bytecode of the kernel shows whether it writes to its outputs, and whether it returns a value.
"""

from __future__ import annotations

import dis
import functools
import inspect
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any

from kernbridge._src.base.dtypes import HALVES, taken_by
from kernbridge._src.base.errors import counted
from kernbridge._src.base.lru import LRUCache
from kernbridge._src.base.reports import warn
from kernbridge._src.base.struct import Struct
from kernbridge._src.calls.call import ArrayType, Call, Types
from kernbridge._src.operation.operation import Operation, spec_key
from kernbridge._src.operation.primitive import Frontend
from kernbridge._src.operation.spec import OperationSpec, Outputs

if TYPE_CHECKING:
    from kernbridge._src.signatures.call_signature import CallSignature

_DTYPES = taken_by("Numba") | HALVES
_VARIADIC = inspect.Parameter.VAR_POSITIONAL
Bound = tuple[tuple[str, ...], tuple[str, ...]]
"""The names of a kernel's parameters for inputs and for outputs."""


def read_signature(
    label: str, function: Callable[..., Any], signature: Any, inplace: Any, static: Collection[str]
) -> CallSignature | None:
    """The arguments `signature` and `inplace` of an operation of this function."""
    if signature is None and inplace is None:
        return None
    from kernbridge._src.signatures.call_signature import CallSignature

    parameters = inspect.signature(function).parameters.values()
    named = [p for p in parameters if p.kind is not _VARIADIC and p.name not in static]
    optional = {p.name for p in named if p.default is not p.empty}
    return CallSignature.read(label, signature, inplace, [p.name for p in named], optional)


def name_of(front_end: str, function: Any, name: Any) -> str:
    """The name of an operation of this function, for which the user may give another."""
    own: str = getattr(function, "__name__", type(function).__name__)
    if name is not None and (not isinstance(name, str) or not name):
        raise TypeError(f"{front_end} {own!r}: name is {name!r}, expected a text [KB1005]")
    return name or own


class Assignment(Struct):
    """The buffer that each parameter stands for in one call.

    Buffers are the inputs, then the scalars sorted by name, then the outputs. The `positional` ones
    are passed in order; `named` ones follow a parameter that keeps its default. `given` contains
    all of them in the order of the parameters, and None for each default.
    """

    given: tuple[int | None, ...]
    positional: tuple[int, ...]
    named: tuple[tuple[str, int], ...]
    names: tuple[str, ...]  # of the parameter of each buffer

    def arguments(self, buffers: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        return [buffers[b] for b in self.positional], {name: buffers[b] for name, b in self.named}


@functools.lru_cache(maxsize=256)  # kernels are often traced for many shapes
def _assign(
    parameters: tuple[str, ...],
    variadic: str | None,
    n_inputs: int,
    scalars: tuple[str, ...],
    n_outputs: int,
    bound: Bound | None,
) -> Assignment:
    free = [name for name in parameters if name not in scalars]
    if bound is not None:  # an output may have the parameter of the input that it replaces
        before, after = ([name for name in side if name not in scalars] for side in bound)
        free = [*before, *after, *(name for name in free if name not in (*before, *after))]
    n_buffers = n_inputs + len(scalars) + n_outputs
    buffers = [*range(n_inputs), *range(n_inputs + len(scalars), n_buffers)]
    starred = buffers[len(free) :]
    names = dict(zip(buffers, free, strict=False))
    names |= {n_inputs + i: name for i, name in enumerate(scalars)}
    buffer_of = {name: buffer for buffer, name in names.items()}
    names |= {buffer: f"{variadic}[{i}]" for i, buffer in enumerate(starred)}

    given = [buffer_of.get(name) for name in parameters]
    cut = given.index(None) if None in given else len(given)
    positional = [b for b in given[:cut] if b is not None]
    named = [(n, b) for n, b in zip(parameters[cut:], given[cut:], strict=True) if b is not None]
    return Assignment(
        given=(*given, *starred),
        positional=(*positional, *starred),
        named=tuple(named),
        names=tuple(names[b] for b in range(n_buffers)),
    )


class KernelParameters:
    """The signature of a kernel's Python function, without parameters that are always the same."""

    def __init__(
        self,
        label: str,
        function: Callable[..., Any],
        static: Collection[str] = (),
        has_stream: bool = False,
        zeroed: bool = False,
        bound: Bound | None = None,
        around: Callable[..., Any] | None = None,
    ) -> None:
        """If `has_stream`, a stream follows the outputs. Outputs that are `zeroed` may stay so.

        `bound` are the names of the parameters for inputs and for outputs, if a signature says
        which they are. The function `around` this one has the parameters, if there is one.
        """
        if bound is not None:
            inputs, outputs = (tuple(n for n in side if n not in static) for side in bound)
            bound = inputs, outputs
        self.bound = bound
        self.n_appended = int(has_stream)  # the number of parameters that follow the outputs
        self._what = "function" if has_stream else "kernel"
        self.label, self._static = label, static
        parameters = inspect.signature(around or function).parameters.values()
        kinds = {p.name: p.kind for p in parameters if p.name not in static}
        self.names = tuple(name for name, kind in kinds.items() if kind is not _VARIADIC)
        self.variadic = next((name for name, kind in kinds.items() if kind is _VARIADIC), None)
        self._optional = frozenset(p.name for p in parameters if p.default is not p.empty)
        code = getattr(function, "__code__", None)
        known = code is not None and not zeroed
        self._unwritten = dict(_unwritten(code)) if known else {}  # without those warned of
        self._file = getattr(code, "co_filename", "")

    def __str__(self) -> str:
        star = (f"*{self.variadic}",) if self.variadic else ()
        return f"({', '.join(self.names + star)})"

    def check_outputs(self, n_outputs: int, aliased: Collection[int]) -> None:
        """Check what does not depend on inputs. The outputs `aliased` have the memory of inputs."""
        if self.bound is not None:
            return
        first = len(self.names) - self.n_appended - n_outputs
        fresh = [first + o for o in range(max(-first, 0), n_outputs) if o not in aliased]
        # An unused name may belong to a keyword scalar, which is known only when there is a call.
        self.warn_of_unwritten([self.names[i] for i in fresh], unused=False)
        n_outputs += self.n_appended
        if not self.variadic and n_outputs > len(self.names):
            raise TypeError(
                f"{self.label}: `outs` has {counted(n_outputs, 'output')}, but the kernel {self} "
                f"takes {counted(len(self.names), 'parameter')}; it takes the inputs and then one "
                "array per output [KB1004]"
            )

    def assign(self, n_inputs: int, scalars: Sequence[str], n_outputs: int) -> Assignment:
        """Assign inputs and then outputs to the parameters that no scalar names."""
        self.check_keywords(scalars)
        n_outputs += self.n_appended
        if self.bound is None:
            free = [name for name in self.names if name not in scalars]
            self._check_count(free, n_inputs, n_outputs)
        found = _assign(self.names, self.variadic, n_inputs, tuple(scalars), n_outputs, self.bound)
        if self.bound is None and not self._optional.isdisjoint(found.names):
            self._check_defaults(found, n_inputs, n_outputs)
        return found

    def check_keywords(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.names:
                why = "; static= has its value: leave it out" if name in self._static else ""
                raise TypeError(
                    f"{self.label}: the kernel {self} has no parameter {name!r}, which the call "
                    f"passes by keyword{why} [KB2001]"
                )

    def warn_of_unwritten(self, outputs: Iterable[str], unused: bool) -> None:
        """Warn, once, of outputs whose name is assigned to before it is used.

        If `unused`, warn also of outputs that are never used.
        """
        for name in outputs:
            line = self._unwritten.get(name)
            if name not in self._unwritten or (line is None and not unused):
                continue
            self._unwritten.pop(name, None)
            if line is not None:
                warn(
                    f"{self.label}: {self._file}:{line} assigns to the name of the output "
                    f"{name!r}, which does not write to the array, so the output is never "
                    f"written. Write {name}[...] = ... [KB1008]"
                )
            else:
                warn(
                    f"{self.label}: the {self._what} never uses the output {name!r}, so the output "
                    f"is never written. Write {name}[...] = ..., or remove it from the "
                    f"{self._what} and from `outs` [KB1008]"
                )

    def _check_count(self, free: list[str], n_inputs: int, n_outputs: int) -> None:
        n_arrays = n_inputs + n_outputs
        missing = [name for name in free[n_arrays:] if name not in self._optional]
        if not missing and (n_arrays <= len(free) or self.variadic):
            return
        left = f"; nothing would be passed for {', '.join(missing)}" if missing else ""
        inputs, what = counted(n_inputs, "input"), self._what
        if self.n_appended:
            given = f"{inputs}, {counted(n_outputs - 1, 'output')} and a stream"
            them, taken = f"these {n_arrays}", "inputs, then one array per output, then the stream"
        else:
            given = f"{inputs} and {counted(n_outputs, 'output')}, {counted(n_arrays, 'array')}"
            them, taken = "them", "inputs and then one array per output"
        raise TypeError(
            f"{self.label}: the call has {given}, but the {what} {self} has "
            f"{counted(len(free), 'parameter')} for {them}{left}. A {what} takes the {taken}; pass "
            "scalars by keyword, with the names of their parameters [KB2001]"
        )

    def _check_defaults(self, found: Assignment, n_inputs: int, n_outputs: int) -> None:
        """Refuse an output for a parameter that has a default, which is meant for an input."""
        n_written = n_outputs - self.n_appended  # the stream comes last
        outputs = found.names[len(found.names) - n_outputs :][:n_written]
        if name := next((n for n in outputs if n in self._optional), None):
            raise TypeError(
                f"{self.label}: the call has {counted(n_inputs, 'input')} and "
                f"{counted(n_written, 'output')}, so an output would be passed for the parameter "
                f"{name!r} of the {self._what} {self}, which has a default. Results are written "
                "into arrays that come after the inputs: add a parameter without a default for "
                f"each output, or remove the default if {name!r} is the output [KB2001]"
            )


class PythonFrontend(Frontend):
    """A front end whose kernel is a Python function, after whose parameters outputs are named."""

    parameters: KernelParameters
    warns_of_unused = True  # if False, the front end refuses unused outputs later
    lacking = "Numba has no type for on CPUs"  # what is said of other dtypes

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return self.parameters.names

    def buffer_names(
        self, n_inputs: int, scalars: Sequence[str], n_outputs: int
    ) -> tuple[str, ...]:
        names = self.parameters.assign(n_inputs, scalars, n_outputs).names
        return names[: n_inputs + len(scalars) + n_outputs]

    def check(self, operands: Types, call: Call) -> None:
        names = self.assign(call).names
        self.parameters.warn_of_unwritten([names[b] for b in call.fresh], self.warns_of_unused)

    def assign(self, call: Call) -> Assignment:
        return self.parameters.assign(call.n_inputs, call.scalars, len(call.outs))

    def described(self, operands: Types, call: Call) -> Iterator[tuple[str, ArrayType]]:
        """Yield what messages call each operand and output of a call, and its type."""
        kinds = ["input"] * call.n_inputs + ["keyword"] * len(call.scalars)
        kinds += ["output"] * len(call.outs)
        names, arrays = self.assign(call).names, (*operands, *call.outs)
        for kind, name, array in zip(kinds, names, arrays, strict=False):
            yield f"{self.label}: {kind} {name!r}", array

    def operation(self, spec: OperationSpec, kept: LRUCache[Operation]) -> Operation:
        """Return the operation of this kernel and specification, which `kept` remembers."""
        if isinstance(spec.outs, Outputs):
            self.parameters.check_outputs(len(spec.outs.types), [o for _, o in spec.aliases])
        key = (spec_key(spec, self.functions()), self.state())
        if None in key:
            return self.make_operation(spec)
        return kept.find_or_make(key, lambda: self.make_operation(spec))

    def state(self) -> Hashable | None:
        """A key that distinguishes operations of one kernel and specification, or None."""
        return ()

    def make_operation(self, spec: OperationSpec) -> Operation:
        return Operation(spec, self)

    def check_dtype(self, place: str, dtype: str) -> None:
        """Refuse an element type that no kernel can take."""
        if dtype not in _DTYPES:
            raise ValueError(
                f"{place} is {dtype}, which {self.lacking}; convert it before the call, or pass "
                f"its bits as an integer array. Supported: {', '.join(sorted(_DTYPES))} [KB2003]"
            )


def warn_of_copies(label: str, copied: Sequence[int], names: Sequence[str], remedy: str) -> None:
    if copied:
        listed = ", ".join(f"input {i} ({names[i]})" for i in copied)
        if any(names[i].startswith(("out", "result")) for i in copied):
            remedy = f"let the outputs follow the inputs among the parameters, {remedy}"
        warn(
            f"{label}: the kernel may write to {listed}, which JAX does not allow, so each call "
            f"passes a copy. To avoid the copy, {remedy}, or alias the input to an output with "
            "input_output_aliases. [KB4003]"
        )


_ACCESS = re.compile(r"(LOAD|STORE|DELETE)_(?:FAST|DEREF|CLOSURE)")


@functools.lru_cache(maxsize=256)
def _unwritten(code: CodeType) -> Mapping[str, int | None]:
    """Parameters that are assigned to before they are used, with the line; None: never used.

    Functions that seem to return their results, or that always raise an exception, have no unused
    parameters.
    """
    names_given, *starred = inspect.getargs(code)
    left = {*names_given, *filter(None, starred)}
    found: dict[str, int | None] = {}
    ends, line = False, code.co_firstlineno
    for instruction in dis.get_instructions(code):
        position = instruction.positions
        line = (position.lineno if position else None) or line
        ends |= instruction.opname.startswith("RETURN_")
        names = instruction.argval
        accesses = _ACCESS.findall(instruction.opname)
        for access, name in zip(
            accesses, names if isinstance(names, tuple) else (names,), strict=False
        ):
            if name in left:
                left.discard(name)
                if access == "STORE":
                    found[name] = line
    return found if not ends or seems_to_return(code) else {**found, **dict.fromkeys(left)}


def seems_to_return(code: CodeType) -> bool:
    """Whether the bytecode has a `return` of anything but the constant None.

    It may still be None, as in ``return helper(x, out)``; only Numba's type inference knows.
    """
    before = None
    for instruction in dis.get_instructions(code):
        if instruction.opname == "RETURN_CONST" and instruction.argval is not None:
            return True
        if instruction.opname == "RETURN_VALUE" and (
            before is None or before.opname != "LOAD_CONST" or before.argval is not None
        ):
            return True
        before = instruction
    return False
