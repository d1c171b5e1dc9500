"""What a function returns, as Numba infers it: dtypes, and shapes from a call on zeros."""

from __future__ import annotations

import json
import math
import os
import re
import select
import signal
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import jax
import numpy as np

from kernbridge._src.base import settings
from kernbridge._src.base.errors import KernelCompilationError, quoted
from kernbridge._src.base.progress import shown
from kernbridge._src.base.reports import instead_of
from kernbridge._src.calls.call import ArrayType
from kernbridge._src.forge.artefacts import Artefact
from kernbridge._src.forge.obtain import Recipe, is_interrupted, log
from kernbridge._src.keys import fingerprint
from kernbridge._src.keys.identity import identity_of_job
from kernbridge._src.toolchain.programs import get_compiler_limits

SECONDS = 30.0
_TICK = 0.05
_OF_NUMBER = r"(attribute '\w+' of type |([gs]etitem|getiter.*|len)\()(float|u?int|complex)"
_PARALLEL = "numba_parallel_for"  # which needs threads that a forked process does not have


class Results(NamedTuple):
    """What a function returns: dtypes and shapes, whether it is a tuple, and the tuple's class."""

    items: tuple[tuple[str, tuple[Any, ...] | None], ...]  # a shape of None: a scalar
    single: bool
    made_by: Any = tuple

    @property
    def ranks(self) -> tuple[int | None, ...]:
        return tuple(None if shape is None else len(shape) for _, shape in self.items)


@dataclass(eq=False, repr=False)
class Question(Recipe[Results]):
    """The question to Numba what a function returns for arguments of these types.

    If it returns arrays, their shapes are given, or are found by a call on zeros or on ones.
    """

    label: str
    dispatcher: Any
    arguments: tuple[ArrayType, ...]
    outs: tuple[ArrayType, ...] | None = None

    kind, tool = "numba_cpu_results", "Numba"

    def __post_init__(self) -> None:
        self.name = self.dispatcher.py_func.__name__
        self.fingerprint = fingerprint.take(self.dispatcher)
        self.lasting = not self.fingerprint.opaque
        self._made_by: Any = tuple
        self._code: Any = None  # Numba's library, once the function is compiled
        self.identity = identity_of_job(self, "returned", repr((self.arguments, self.outs)))

    def made_of(self) -> tuple[Any, ...]:
        from kernbridge._src.numba_common.private_numba import numba

        return numba.__version__, np.__version__

    def libraries(self) -> list[Any]:
        self._type()
        return [self._code]

    def make(self) -> Artefact:
        from kernbridge._src.numba_common.private_numba import types

        result = self._type()
        single = not isinstance(result, types.BaseTuple)
        if isinstance(result, types.BaseNamedTuple):
            self._made_by, self.lasting = result.instance_class, False
        found = [self._described(kind) for kind in ([result] if single else result)]
        shapes: Sequence[Any] = [()] * len(found)
        if self.outs is not None:
            dtypes = [dtype for dtype, _ in found]
            if [t.dtype for t in self.outs] != [*map(canonical, dtypes)]:
                raise ValueError(
                    f"{self.label}: `outs` has {', '.join(map(str, self.outs))}, but the function "
                    f"returns {', '.join(dtypes)}; convert the values or correct `outs` [KB1002]"
                )
        elif any(is_array for _, is_array in found):
            shapes = self._shapes()
        items = [
            [dtype, list(shape) if is_array else None]
            for (dtype, is_array), shape in zip(found, shapes, strict=True)
        ]
        return Artefact({"items": items, "single": single}, ())

    def use(self, made: Artefact) -> Results:
        found = made.meta["items"]
        shapes = [t.shape for t in self.outs] if self.outs else [s for _, s in found]
        pairs = zip(found, shapes, strict=True)
        items = tuple((str(t), None if s is None else tuple(shape)) for (t, s), shape in pairs)
        return Results(items, bool(made.meta["single"]), self._made_by)

    def _type(self) -> Any:
        from kernbridge._src.numba_common import refusals
        from kernbridge._src.numba_common.private_numba import numba, types
        from kernbridge._src.numba_cpu import entry

        failure: Exception = TypeError("it is declared for other types")
        for read_only in (True, False):  # a function may write to its inputs, which are copied
            given = [numba.from_dtype(t.dtype) for t in self.arguments]
            for i, t in enumerate(self.arguments):
                if t.shape:
                    given[i] = types.Array(given[i], len(t.shape), "C", readonly=read_only)
            try:
                with entry.compiling_apart("plain", entry.is_of_disk):
                    of = types.Dispatcher(self.dispatcher)
                    signature = of.get_call_type(self.dispatcher.typingctx, tuple(given), {})
                    if signature is not None:
                        self._code = self.dispatcher.overloads[signature.args].library
                        return signature.return_type
            except Exception as e:  # Numba's typing of read-only arrays raises errors of many kinds
                failure = e
        hint = ""
        if any(t.shape for t in self.arguments):
            hint = "; if it is a function of numbers, use kernbridge.elementwise"
        elif self.label.startswith("elementwise") and re.search(_OF_NUMBER, str(failure)):
            hint = "; it gets each element as a number: use kernbridge.kernel for arrays"
        raise instead_of(
            failure,
            KernelCompilationError(
                f"{self.label}: Numba cannot compile the function for {self._listed}"
                + f"{hint} [KB4001]\n"
                + refusals.report(failure, self.dispatcher.py_func)
            ),
        )

    @property
    def _listed(self) -> str:
        return ", ".join(str(t) if t.shape else t.dtype.name for t in self.arguments)

    def _described(self, kind: Any) -> tuple[str, bool]:
        """The dtype of a value that Numba types so, and whether it is an array."""
        from kernbridge._src.numba_common.private_numba import as_dtype, types

        kind = types.unliteral(kind)
        is_array = isinstance(kind, types.Array)
        item = kind.dtype if is_array else kind
        if isinstance(item, (types.Number, types.Boolean)):
            return as_dtype(item).name, is_array
        expected = "a number, an array, or a tuple of these, the same in every branch"
        what = str(kind)
        if kind == types.none:
            what, expected = "nothing", f"{expected}; write `return` before the result"
            if not self.label.startswith("elementwise"):
                expected += ", or pass outs= if it writes its results into arrays"
        raise TypeError(f"{self.label}: the function returns {what}, expected {expected} [KB4002]")

    def _shapes(self) -> list[tuple[Any, ...]]:
        how = f"{self.label}: the shapes that it returns are found by a call on zeros or ones"
        remedy = "pass outs= with a function of all parameters that returns the shapes"
        if any(not isinstance(d, int) for t in self.arguments for d in t.shape):
            raise ValueError(f"{how}, but {self._listed} have symbolic extents; {remedy} [KB1002]")
        failure, first = "", None
        # An empty result is often one of values: x[x > 5]. Numbers that may be indices stay small.
        of_all = (("zeros", (0, 0), 0), ("ones", (1, 1), 1), ("large ones", (1e3, -1e3), 1))
        for what, real, whole in of_all:
            if what == "large ones" and first is None:
                break
            log.info("%s, %s: now on %s", how, self._listed, what)
            given = []
            for t in self.arguments:
                even, odd = real if t.dtype.kind in "fc" else (whole, whole)
                a = np.full(t.shape, even, t.dtype)
                a.reshape(-1)[1::2] = odd
                given.append(a if t.shape else a[()])
            with shown(f"calling {self.label} on {what}, to find the shapes of its results"):
                shapes = _shapes_by_call(self.dispatcher, given)
            if isinstance(shapes, str):
                failure = failure or f"{shapes} for {what}"
                continue
            log.info("%s: it returned %s", self.label, ", ".join(map(str, shapes)))
            if first not in (None, shapes):
                raise ValueError(
                    f"{self.label}: the shapes that it returns depend on values: {first} for "
                    f"zeros, {shapes} for {what}; {remedy}, or pass a number as static= [KB1002]"
                )
            if not given or not any(0 in shape for shape in shapes):
                return shapes
            first = shapes
        if first is not None:
            return first
        raise ValueError(f"{how}, {self._listed}, which failed: {failure}; {remedy} [KB1002]")


def canonical(dtype: Any) -> np.dtype[Any]:
    if settings.keeps_64_bits:
        return np.dtype(dtype)
    return np.dtype(jax.dtypes.canonicalize_dtype(np.dtype(dtype)))


def _shapes_by_call(function: Any, given: Sequence[Any]) -> list[tuple[int, ...]] | str:
    """The shapes of what a dispatcher returns for these arguments, or why they are not known.

    It is called in a forked process, which can be ended: it may never end for the values that it
    gets, and compiled code hears no Ctrl-C. Its own parallel loops run serially there.
    """
    if _is_parallel(function):
        from kernbridge._src.numba_common.private_numba import numba

        serial = numba.jit(**{**function.targetoptions, "parallel": False})(function.py_func)
        for signature in function.overloads:
            serial.compile(signature)
        if _is_parallel(serial):  # a function that it calls
            return _call(function, given)
        function = serial
    reader, writer = os.pipe()
    limit = min(SECONDS, get_compiler_limits().seconds)
    with warnings.catch_warnings():  # the child calls nothing of JAX
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        _answer(function, given, writer, limit)
    os.close(writer)
    end, text = time.monotonic() + limit, b""
    try:
        while time.monotonic() < end:
            if select.select([reader], (), (), _TICK)[0]:
                text += (part := os.read(reader, 1 << 16))
                if not part:
                    break
            elif is_interrupted():
                raise KeyboardInterrupt
        else:
            return f"it did not end within {limit:g} s"
    finally:
        os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        os.close(reader)
    if not text:
        return f"it ended the process, with status {status}"
    found = json.loads(text)
    return found if isinstance(found, str) else list(map(tuple, found))


def _is_parallel(function: Any) -> bool:
    return any(_PARALLEL in made.library.get_llvm_str() for made in function.overloads.values())


def _call(function: Any, given: Sequence[Any]) -> list[tuple[int, ...]] | str:
    try:
        found = function(*given)
    except Exception as e:
        return quoted(e)
    return [np.shape(item) for item in (found if isinstance(found, tuple) else (found,))]


def _answer(function: Any, given: Sequence[Any], writer: int, limit: float) -> NoReturn:
    try:
        for number in (signal.SIGINT, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        signal.alarm(math.ceil(limit) + 1)  # the process that would end this one may be gone
        os.write(writer, json.dumps(_call(function, given)).encode())
    finally:
        os._exit(0)
