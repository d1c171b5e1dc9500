"""Records functions of CUDA modules, which launch kernels, as plans for GPUs.

A function in CUDA C++ is code of the host, so a program that calls it needs its library. Most of
these functions do the same at each call with arrays of the same shapes: they launch kernels, fill
and copy memory. `process` runs such a function on made-up addresses, without a GPU, and reports
what it asks of the CUDA runtime. The words of a launch that lie in a buffer are its addresses.

A function is run twice, on addresses that differ and are aligned differently. It is recorded only
if it does the same, and if nothing says that a later call might do something else.
"""

from __future__ import annotations

import marshal
import math
import os
import struct
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from kernbridge import _core
from kernbridge._ext.recorder import library
from kernbridge._src.base.errors import KernelError
from kernbridge._src.base.lru import LRUCache
from kernbridge._src.calls.call import ArrayType, Call, Types
from kernbridge._src.plan import targets
from kernbridge._src.plan.frontend import Lowered, plan
from kernbridge._src.plan.program import Copy, Fill, Launch, Program, Step, Value, Word
from kernbridge._src.source.frontend import SourceFrontend
from kernbridge._src.toolchain import programs

_PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); import process; process.main()"
_DROPPED = ("LD_PRELOAD", "MALLOC_", "GLIBC_TUNABLES")  # variables; see `process` on memory
_LIMITS = programs.CompilerLimits(seconds=20, memory=0)
_BASES = (0x7EB0 << 48, 0x5EB0 << 48)  # of the addresses of each run
_SHIFT = 40
_ALIGNED = 16  # what XLA guarantees for the address of an array
_HALF = (1 << 32) - 1
_NEAR = 1 << 50
_ODD = 0x1555555  # so that addresses differ in bits of each size
_ALLOCATED = 256  # what cudaMalloc guarantees
_PARAMETER = 4096  # bytes of a parameter that a plan can hold
_LIBRARIES = LRUCache[library.Library](64)
_Steps = tuple[list[Step], list[ArrayType]]  # of a plan, and its temporaries
_RECORDED = LRUCache[_Steps | str](1024)


def lowered(frontend: SourceFrontend, operands: Types, call: Call) -> Any:
    """The call of a function as a plan, or None if the function runs at each call."""
    export = frontend.export
    is_asked = export.record == "always"
    if export.record == "never" or (call.has_side_effect and not is_asked):
        return None
    try:
        native = _lowered(frontend, operands, call)[0]
    except KernelError:
        if is_asked:
            raise
        return None
    on_gpu = targets.of_platform("cuda").handler(in_graph=export.graph)
    return native if export.graph else native._replace(target=on_gpu)


def program(frontend: SourceFrontend, operands: Types, call: Call) -> Program:
    """The plan of a function; KernelError has the reason if there is none."""
    return _lowered(frontend, operands, call)[1]


def _lowered(frontend: SourceFrontend, operands: Types, call: Call) -> Lowered:
    try:
        steps, temporaries = recorded(frontend, operands, call)
    except (ValueError, OSError, struct.error) as e:
        raise KernelError(
            f"{frontend.label} cannot be recorded: {e}. Let the function only launch kernels, fill "
            'and copy memory on the stream of the call, or load the module with record="auto", '
            "which runs such a function at each call [KB4012]"
        ) from None
    names = frontend.function.names_of(len(operands), len(call.outs))
    return plan(
        *(frontend.label, "", operands, call, names, steps),
        temporaries=temporaries,
        target=targets.of_platform("cuda"),
    )


def recorded(frontend: SourceFrontend, operands: Types, call: Call) -> _Steps:
    """What the function does; ValueError has the reason if that cannot be said."""
    export, arrays = frontend.export, (*operands, *call.outs)
    if not all(isinstance(n, (int, np.integer)) for t in arrays for n in t.shape):
        raise ValueError("the shapes of the call are symbolic")
    for flag in export.request.ldflags if export.request else ("files that are not known",):
        if not flag.startswith("-") or flag.startswith("-l"):
            raise ValueError(f"it is linked with {flag}, whose work cannot be seen")
    found = _LIBRARIES.find_or_make(export.path, lambda: library.read(export.path))
    called = {
        "function": frontend.name,
        "n_inputs": len(operands),
        "arrays": [*_describe(arrays, call)],
        "values": [*frontend.values],
    }
    key = (export.digest, marshal.dumps(called, 2))
    made = _RECORDED.find_or_make(key, lambda: _run(called, found))
    if isinstance(made, str):
        raise ValueError(made)
    return made


def _places(number: int, past: int) -> tuple[int, int]:
    """Addresses in two runs; order, distances and alignment beyond `past` differ between them."""
    past *= (2 * number + 1) * _ODD
    return _BASES[0] + (number << _SHIFT), _BASES[1] - (number << _SHIFT) + past


def _describe(arrays: Types, call: Call) -> Iterator[tuple[Any, ...]]:
    """What a kb_tensor says of each array, and the addresses in both runs."""
    in_place = {i: call.n_operands + o for i, o in call.aliases}
    for i, array in enumerate(arrays):
        shape, size = tuple(map(int, array.shape)), array.dtype.itemsize
        # A slice of a batch begins wherever the one before it ends.
        past = size if call.levels and size < _ALIGNED else _ALIGNED
        first, second = _places(in_place.get(i, i), past)
        strides = tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))
        places = (first, second if math.prod(shape) else 0)  # XLA's, too, may be NULL
        _, bits, number, code = _core.dtypes()[array.dtype.name]
        yield number, code, bits, shape, strides, math.prod(shape), places


def _run(called: dict[str, Any], found: library.Library) -> _Steps | str:
    """What the function does, or why that cannot be said."""
    n = len(called["arrays"])
    allocations = [_places(number, _ALLOCATED) for number in (n, n + 1)]
    kernels = {name: code.sizes for name, code in found.kernels.items()}
    request = {**called, **found._asdict(), "kernels": kernels, "allocations": allocations}
    command = [sys.executable, "-I", "-S", "-c", _PROGRAM, str(Path(__file__).parent)]
    kept = {key: text for key, text in os.environ.items() if not key.startswith(_DROPPED)}
    ended = programs.run(command, input=marshal.dumps(request), environment=kept, limits=_LIMITS)
    if ended.limit:
        return f"it does not end within {_LIMITS.seconds} s without a GPU"
    if ended.status < 0:
        return "it reads memory of the device on the host, or crashes"
    if ended.status or not ended.output:
        return f"it ends the process with {ended.status}"
    try:
        answer = marshal.loads(ended.output)
        return answer if isinstance(answer, str) else _Reader(called["arrays"], found).read(*answer)
    except (ValueError, EOFError) as e:
        return str(e)


class _Reader:
    """Makes the steps of a plan of what two runs have written."""

    def __init__(self, arrays: Sequence[tuple[Any, ...]], found: library.Library) -> None:
        self._kernels = found.kernels
        self._temporaries: list[ArrayType] = []
        # Of each buffer: its number, its addresses, and its bytes.
        self._buffers = [
            (i, *places, -(-size * bits // 8))
            for i, (_, _, bits, _, _, size, places) in enumerate(arrays)
        ][::-1]  # an output before the input in whose memory it is

    def read(self, first: Sequence[Any], second: Sequence[Any]) -> _Steps:
        steps: list[Step] = []
        for one, other in zip(first, second, strict=False):
            what, places, fixed = one
            if (what, fixed) != (other[0], other[2]):
                self._differ(one, other)
            pairs = [*zip(places, other[1], strict=True)]
            if what == "allocate":
                number, (size,) = len(self._buffers), fixed
                self._buffers.append((number, *pairs[0], size))
                held = -(-size // _ALLOCATED) * _ALLOCATED
                self._temporaries.append(ArrayType((held,), np.dtype(np.uint8)))
            elif what == "launch":
                steps.append(self._launch(pairs, *fixed))
            elif what == "fill":
                value, size = fixed
                steps.append(Fill(*self._place(*pairs[0]), 1, size, value))
            else:
                steps.append(Copy(*self._place(*pairs[0]), *self._place(*pairs[1]), *fixed))
        if len(first) != len(second):
            raise ValueError(f"it does {len(first)} things in one run and {len(second)} in another")
        return steps, self._temporaries

    def _differ(self, one: object, other: object) -> NoReturn:
        raise ValueError(
            "it behaves differently each time it runs, or depends on addresses or on their "
            f"alignment: {str(one)[:200]} becomes {str(other)[:200]}"
        )

    def _find(self, one: int, other: int) -> tuple[int, int, int] | None:
        """The number of a buffer, the offset of an address in it, and the bytes behind that."""
        for number, first, second, size in self._buffers:
            if 0 <= one - first <= size and one - first == other - second:
                return number, one - first, size - (one - first)
        return None

    def _place(self, one: int, other: int) -> tuple[int, int]:
        if not (found := self._find(one, other)):
            raise ValueError("it fills or copies memory that belongs to no array of the call")
        return found[:2]

    def _launch(self, pairs: Sequence[Any], name: str, grid: Any, block: Any, *how: Any) -> Launch:
        shared, cluster, cooperative, overlap = how
        kernel, (x, y, z) = self._kernels[name], (Value(constant=n) for n in grid)
        if max(kernel.sizes, default=0) > _PARAMETER:
            raise ValueError(f"it passes a kernel a parameter of more than {_PARAMETER} bytes")
        words = tuple(word for pair in pairs for word in self._words(*pair))
        cluster = cluster if any(cluster) else None
        return Launch((x, y, z), block, shared, kernel, words, cluster, cooperative, overlap)

    def _words(self, one: Sequence[int], other: Sequence[int]) -> Iterator[Word]:
        """The words of a parameter."""
        for a, b in zip(one, other, strict=True):
            if found := self._find(a, b):
                number, offset, left = found
                if offset and not left:
                    raise ValueError("it passes a kernel the address of the end of an array")
                yield Word("address", offset, number, reach=left)
                continue
            if all(abs(n - base) < _NEAR for n, base in zip((a, b), _BASES, strict=True)):
                if a & _HALF != b & _HALF:
                    raise ValueError(
                        "it passes a kernel an address outside of the arrays of the call"
                    )
                # Behind a number of four bytes, the padding of a structure holds half an address.
                a, b = a & _HALF, b & _HALF
            if a != b:
                self._differ(one, other)
            yield Word("constant", a - (a >> 63 << 64))
