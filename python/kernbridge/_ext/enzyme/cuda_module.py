"""Derivatives of functions of CUDA C++ modules: the launches that were recorded, differentiated.

The recorder of launchers says what a function does for arrays of given shapes, from what nvcc has
made of it. clang compiles the module's kernels once more, and finds them by their mangled names.
Imported only when a derivative is lowered.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kernbridge._ext.enzyme.cuda_cpp import HEADER, CppKernel, compiled
from kernbridge._ext.enzyme.primal import Primal, Roles, check_launch
from kernbridge._ext.enzyme.record import Derivative, Reaches, refused
from kernbridge._src.base import extensions
from kernbridge._src.base.dtypes import DTYPES
from kernbridge._src.base.errors import KernelToolchainError
from kernbridge._src.calls.call import ArrayType
from kernbridge._src.llvm.text import Module, split
from kernbridge._src.operation.derivatives import Differentiated
from kernbridge._src.operation.primitive import NativeCall
from kernbridge._src.plan import targets
from kernbridge._src.plan.program import Copy, Launch, Step, Word
from kernbridge._src.record.record import Recording
from kernbridge._src.source import glue
from kernbridge._src.source.frontend import SourceFrontend

_UNNAMED = re.compile(r"(\d+)_GLOBAL__N_")  # a namespace, whose name differs between compilers
_REAL = {"float": "float32", "double": "float64"}
_WHOLE = {"bool", "char", "short", "int", "long", "long long"}


def lower(frontend: SourceFrontend, platform: str, wanted: Differentiated) -> NativeCall:
    label, export = frontend.label, frontend.export
    target = targets.of_platform(platform, label=label)
    if len(wanted.steps) > 1:
        raise refused(label, "second derivatives of launches are not made")
    call = replace(wanted.call, levels=wanted.own_call.levels)
    try:
        if not export.cuda:
            assert export.load_other is not None
            export = export.load_other()[frontend.name]._export
        of_gpus = SourceFrontend(export, frontend.values, frontend.zeroed)
        recorder = extensions.load("recorder", label)
        steps, temporaries = recorder.recorded(of_gpus, wanted.operands, call)
    except KernelToolchainError as e:
        raise refused(label, f"nvcc is needed to record what it launches: {e}") from None
    except (ValueError, OSError, struct.error) as e:
        raise refused(label, f"it cannot be recorded: {e}") from None
    request = export.request
    assert request is not None  # see `why_not`
    assert request.finish is not None
    unit = f'{HEADER}#include "kernbridge/module.h"\n{request.source}'
    flags = request.finish().flags
    options = [*(f for f in flags if f != glue.HALF_FLAG), *request.cflags]  # halves are refused
    module = compiled(label, unit, options, request.include_paths, _files(request.source))
    arrays = [*wanted.operands, *call.outs]
    recording = Recording(label, target, len(arrays), frozenset(), bool(call.levels))
    recording.steps += steps
    for array in temporaries:
        dtype = _held(label, len(arrays), arrays, steps)
        arrays.append(ArrayType((array.shape[0] // dtype.itemsize,), dtype))
        recording.temporaries.append(arrays[-1])
    return _OfModule(recording, wanted, module).lowered("")


def _files(source: str) -> list[str]:
    """The user's files that are joined in a source."""
    return [json.loads(name) for name in re.findall(r'^#line 1 (".*")$', source, re.M)]


def _held(
    label: str, buffer: int, arrays: Sequence[ArrayType], steps: Sequence[Step]
) -> np.dtype[Any]:
    """What temporary memory holds: what parameters that are its address point to."""
    found = set[str]()
    for step in steps:
        if isinstance(step, Copy) and buffer in (step.to_buffer, step.from_buffer):
            other = step.from_buffer if buffer == step.to_buffer else step.to_buffer
            found |= {arrays[other].dtype.name} if other < buffer else set()
        if not isinstance(step, Launch):
            continue
        words, types = iter(step.words), _types_of_parameters(step.function.name)
        for k, size in enumerate(step.function.sizes):
            own = [next(words) for _ in range(-(-size // 8))]
            if any(word.kind == "address" and word.buffer == buffer for word in own):
                pointed = (types[k : k + 1] or [step.function.name])[0].removesuffix("*")
                name = pointed.removesuffix(" const").removeprefix("unsigned ").rstrip("1234")
                found.add("uint8" if name in _WHOLE else _REAL.get(name, pointed))
    known = [np.dtype(name) for name in found if name in DTYPES]
    if len(found) > 1 or len(known) != len(found):
        raise refused(label, f"it has temporary memory that holds {' and '.join(sorted(found))}")
    return known[0] if known else np.dtype(np.uint8)


def _types_of_parameters(shown: str) -> list[str]:
    """The types in the name of a function of C++, as a demangler writes it."""
    depth = 0
    for at in range(len(shown) - 1, -1, -1):
        depth += (shown[at] == ")") - (shown[at] == "(")
        if depth == 0:
            return [kind.strip() for kind in split(shown[at + 1 : -1], ",")]
    return []


def _for_all_files(symbol: str) -> str:
    """The mangled name that a function has, whether or not other files may name it."""
    if hidden := _UNNAMED.search(symbol):
        symbol = symbol[: hidden.start()] + symbol[hidden.end(1) + int(hidden[1]) :]
    return symbol.replace("_ZL", "_Z", 1)


class _OfModule(Derivative):
    def __init__(self, recording: Recording, wanted: Differentiated, module: Module) -> None:
        self._module = module
        self._names = {_for_all_files(name): name for name in module.defined}
        self._never_written = set[int]()
        super().__init__(recording, wanted)
        self._never_written = set(range(self._n_operands)) - self._written
        used = set().union(*(r.shadows for r in self._reaches)) & self._never_written
        if used - self._sources.keys() - self._results.keys():
            self._reaches = [self._reach(step) for step in self._primal]

    def _kernel(self, step: Launch) -> tuple[Primal, list[list[Word]], set[int]]:
        function, label = step.function, self._recording.label
        check_launch(label, step)
        entry = self._names.get(_for_all_files(function.entry))
        if entry is None:
            raise refused(label, f"clang does not find the kernel that nvcc calls {function.name}")
        kernel = CppKernel(
            label,
            function.name,
            self._recording.target,
            self._arrays,
            self._module,
            entry,
            function.sizes,
        )
        return kernel, [list(step.words)], self._never_written

    def _repeat(self, step: Step, reach: Reaches) -> None:
        if not isinstance(step, Launch) or self._recording.target.architectures:
            super()._repeat(step, reach)
            return
        primal, own, _ = self._kernel(step)
        made = self._obtained(step, primal, own, Roles(reach.buffers, in_place=reach.buffers), ())
        self.steps.append(made.launch(step, [self._values[b] for b in reach.buffers]))
