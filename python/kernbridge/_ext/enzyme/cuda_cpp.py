"""Derivatives of CUDA C++ kernels by Enzyme, for GPUs and for CPUs in their place.

Their IR, see cuda_ir.py, has the form that kernels of Numba-CUDA have, see numba_cuda.py.

Of functions of modules, the launches that were recorded are differentiated. The recorder of
launchers says what a function does for arrays of given shapes, from what nvcc has made of it. clang
compiles the module's kernels once more, and finds them by their mangled names.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kernbridge._ext.enzyme.cuda_ir import HEADER, CppKernel, compiled, entry_of
from kernbridge._ext.enzyme.function import Roles
from kernbridge._ext.enzyme.kernel import Primal, Words, check_launch
from kernbridge._ext.enzyme.numba_cuda import native_call, obtained
from kernbridge._ext.enzyme.record import Derivative, Reaches, refused
from kernbridge._src.base import extensions
from kernbridge._src.base.dtypes import DTYPES, HALVES
from kernbridge._src.base.errors import KernelToolchainError
from kernbridge._src.calls.call import ArrayType, Types
from kernbridge._src.llvm.text import Module, split
from kernbridge._src.operation.derivatives import Differentiated, Differentiator
from kernbridge._src.operation.primitive import NativeCall
from kernbridge._src.plan import targets
from kernbridge._src.plan.program import Copy, Fill, Launch, Step
from kernbridge._src.record.record import Recording
from kernbridge._src.source.frontend import SourceFrontend

_UNNAMED = re.compile(r"(\d+)_GLOBAL__N_")  # a namespace, whose name differs between compilers
_REAL = {"float": "float32", "double": "float64", "__half": "float16", "__nv_bfloat16": "bfloat16"}
_WHOLE = {"bool", "char", "short", "int", "long", "long long"}


class OfCudaKernel(Differentiator):
    """Of `CudaKernelFrontend`, whose class this module does not need."""

    @property
    def why_not(self) -> str:  # type: ignore[override]
        has_source = hasattr(self.frontend.code, "source")
        return "" if has_source else "there is no source to differentiate"

    def lower(self, platform: str, wanted: Differentiated) -> NativeCall:
        frontend, label = self.frontend, self.frontend.label
        check_launch(label, frontend.rule)
        operands, call, *_ = wanted
        target = targets.of_platform(platform, frontend.checked, None, label)
        arrays, code = (*operands, *call.outs), frontend.code
        unit = HEADER + code.unit()
        module = compiled(label, unit, code.options, code.include_paths, [code.file])
        entry, codes, sizes = entry_of(module)
        own = sizes[: len(sizes) - len(code.members)]
        kernel = CppKernel(label, code.name, target, arrays, module, entry, own)
        function = frontend.typed(code.types_of(codes), operands, call.outs)
        words = frontend.words(function, sizes, operands, call.outs)
        return native_call(frontend, kernel, [words], frontend.file, wanted)


def lower_function(frontend: SourceFrontend, platform: str, wanted: Differentiated) -> NativeCall:
    label, export = frontend.label, frontend.export
    target = targets.of_platform(platform, label=label)
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
    options = [*request.finish().flags, *request.cflags]
    # The user's files that are joined in the source.
    files = [json.loads(name) for name in re.findall(r'^#line 1 (".*")$', request.source, re.M)]
    module = compiled(label, unit, options, request.include_paths, files)
    arrays = [*wanted.operands, *call.outs]
    recording = Recording(label, target, len(arrays), frozenset(), bool(call.levels))
    for array in temporaries:
        dtype = _held(label, len(arrays), arrays, steps)
        arrays.append(ArrayType((array.shape[0] // dtype.itemsize,), dtype))
        recording.temporaries.append(arrays[-1])
    recording.steps += [_of_floats(label, step, arrays) for step in steps]
    return _OfModule(recording, wanted, module).lowered("")


def _of_floats(label: str, step: Step, arrays: Types) -> Step:
    """A step of a derivative, whose buffers hold floats in place of halves."""
    sizes = {Fill: ("offset", "count"), Copy: ("to_offset", "from_offset", "size")}.get(type(step))
    if sizes is None:  # a launch, whose kernel is changed
        return step
    buffers = [getattr(step, name) for name in step.__slots__ if "buffer" in name]
    halves = {arrays[b].dtype.name in HALVES for b in buffers}
    if len(halves) > 1 or (True in halves and getattr(step, "pattern", False)):
        raise refused(label, "it fills or copies arrays of half precision as bytes")
    return replace(step, **{name: getattr(step, name) * (1 + max(halves)) for name in sizes})


def _held(label: str, buffer: int, arrays: Types, steps: Sequence[Step]) -> np.dtype[Any]:
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
    if len(found) > 1 or not found <= DTYPES.keys():
        raise refused(label, f"it has temporary memory that holds {' and '.join(sorted(found))}")
    return np.dtype(next(iter(found), "uint8"))


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
        self._never_written, self._kernels = set[int](), dict[str, CppKernel]()
        super().__init__(recording, wanted)
        self._never_written = set(range(self._n_operands)) - self._written
        used = set().union(*(r.shadows for r in self._reaches)) & self._never_written
        if used - self._sources.keys() - self._results.keys():
            self._reaches = [self._reach(step) for step in self._primal]

    def _kernel(self, step: Launch) -> tuple[Primal, Words, set[int]]:
        function, label = step.function, self._recording.label
        check_launch(label, step)
        entry = self._names.get(_for_all_files(function.entry))
        if entry is None:
            raise refused(label, f"clang does not find the kernel that nvcc calls {function.name}")
        if entry not in self._kernels:
            of_words = self._of_kernels, self._module, entry, function.sizes
            made = CppKernel(label, function.name, self._recording.target, *of_words)
            self._kernels[entry] = made
        return self._kernels[entry], [list(step.words)], self._never_written

    def _repeat(self, step: Step, reach: Reaches) -> None:
        has_floats = self._of_kernels != self._arrays  # in place of halves
        is_on_gpu = bool(self._recording.target.architectures)
        if not isinstance(step, Launch) or (is_on_gpu and not has_floats):
            super()._repeat(step, reach)
            return
        primal, own, _ = self._kernel(step)
        roles = Roles(reach.buffers, in_place=reach.buffers)
        made = obtained(primal, own, roles, (), self._has_batch, step)
        self.steps.append(made.launch(step, [self._values[b] for b in reach.buffers]))
