"""Derivatives of CUDA C++ kernels by Enzyme, for GPUs and for CPUs in their place.

The clang of Enzyme's LLVM compiles a kernel for a GPU without CUDA's own headers: the headers for
CUDA C++ on CPUs have the names, and cuda_for_enzyme.hpp has what only a GPU has. Its IR is brought
into the form that kernels of Numba-CUDA have, see numba_cuda.py. A template is instantiated where
the same translation unit takes its address, and a function of the words of a launch calls it.

Of functions of modules, the launches that were recorded are differentiated. The recorder of
launchers says what a function does for arrays of given shapes, from what nvcc has made of it. clang
compiles the module's kernels once more, and finds them by their mangled names.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernbridge._ext.enzyme import clang, tool, warps
from kernbridge._ext.enzyme.function import Refused, Roles, can_hold
from kernbridge._ext.enzyme.kernel import Form, Primal, Words, check_launch
from kernbridge._ext.enzyme.numba_cuda import native_call, obtained, own_name
from kernbridge._ext.enzyme.record import Derivative, Reaches, refused
from kernbridge._src.base import extensions
from kernbridge._src.base.dtypes import DTYPES, HALVES
from kernbridge._src.base.errors import KernelToolchainError
from kernbridge._src.calls.call import ArrayType
from kernbridge._src.keys.identity import identity_of
from kernbridge._src.llvm.text import (
    Function,
    Global,
    Instruction,
    Module,
    declared_once,
    reached,
    renamed,
    split,
    symbol,
    symbols,
)
from kernbridge._src.numba_common.private_llvmlite import binding as llvm
from kernbridge._src.operation.derivatives import Differentiated, Differentiator
from kernbridge._src.operation.primitive import NativeCall
from kernbridge._src.plan import targets
from kernbridge._src.plan.program import Copy, Fill, Launch, Step
from kernbridge._src.plan.targets import Target
from kernbridge._src.record.record import Recording
from kernbridge._src.source.frontend import SourceFrontend
from kernbridge._src.toolchain import compilers, library

HEADER = '#include "kernbridge/cuda_for_enzyme.hpp"\n'
_BEGIN, _END = (f"#pragma clang force_cuda_host_device {word}" for word in ("begin", "end"))
_LAST = f"""#line 1 "kernbridge"
{_BEGIN}
template <typename F> struct kb_parameters;
template <typename... P> struct kb_parameters<void (*)(P...)> {{
    static constexpr int codes[] = {{kernbridge_signature::code<P>::value..., 0}};
    static constexpr int sizes[] = {{sizeof(P)..., 0}};
}};
using kb_kernel = kb_parameters<decltype(&KB_KERNEL)>;
extern "C" __device__ const void *const kb_description[] = {{
    reinterpret_cast<const void *>(&KB_KERNEL), kb_kernel::codes, kb_kernel::sizes}};
"""
_CLANG = (
    *("--cuda-device-only", "-nocudainc", "-nocudalib", "--cuda-gpu-arch=sm_80", "-std=c++17"),
    *("-Xclang", "-fcuda-allow-variadic-functions", "-D__CUDACC__", "-Wno-c++11-narrowing"),
    *("-Xclang", "-fnative-half-type", "-Xclang", "-fallow-half-arguments-and-returns"),
)
_FOLDERS = ("ext/emulator/cuda", "ext/emulator")
_ALIGNMENT = 16
_NAME = r"(@[\w.$]+|@\"[^\"]*\")"
_SHARED = re.compile(rf"addrspacecast \(ptr addrspace\(3\) {_NAME} to ptr\)")
_OF_SHARED = re.compile(r"(getelementptr(?: inbounds)?|ptrtoint) \(([^()]*%kb\.shared\.[^()]*)\)")
_OF_GLOBAL = re.compile(rf"addrspacecast \(ptr addrspace\([14]\) {_NAME} to ptr\)")
_GLOBAL = re.compile(r"^(@.*) addrspace\([14]\)((?: externally_initialized)?) ", re.M)
_CONSTANT = re.compile(r"^(@.* addrspace\(4\).*) global ", re.M)
_KERNELS = re.compile(r'^(?:!nvvm\.annotations = |!\d+ = !\{ptr @.*, !"kernel", ).*\n', re.M)
_LINES = re.compile(r", !dbg !\d+|^!llvm\.dbg\.cu .*\n|(?:distinct )?!DI\w+\(.*\)$", re.M)
# What only matters to a GPU, or would be inlined otherwise.
_STRIPPED = re.compile(
    r", !tbaa(?:\.struct)? !\d+|\b(?:convergent|noinline|optnone) |\bcomdat(?:\([^)]*\))? ?"
    r'| "(?:target-cpu|target-features|frame-pointer)"="[^"]*"'
    r"|^(?:\$.* = comdat|target|!nvvm\.|@llvm\.(?:compiler\.)?used) .*\n",
    re.M,
)
_ITEMS = {"float": ("float", 4), "double": ("double", 8), "any pointer": ("ptr", 8)}
_ITEMS["__fp16"] = ("half", 2)
_MEMBER = re.compile(r"i64 (\d+), i64 (\d+), (!\d+)")
_MEMBERS = 64  # of a structure that are copied one by one
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
        unit = f"{HEADER}{_BEGIN}\n{code.unit(_END, _LAST.replace('KB_KERNEL', code.name))}"
        module = compiled(label, unit, code.options, code.include_paths, [code.file])
        _, entry, *lists = symbols(module.globals["kb_description"].text)
        found = (re.findall(r"i32 (\d+)", module.globals[name].value) for name in lists)
        codes, sizes = ([int(n) for n in numbers[:-1]] for numbers in found)
        kernel = CppKernel(label, code.name, target, arrays, module, entry, sizes)
        function = frontend.typed(code.types_of(codes), operands, call.outs)
        words = frontend.words(function, sizes, operands, call.outs)
        return native_call(frontend, kernel, [words], frontend.file, wanted)


def compiled(
    label: str, unit: str, options: Sequence[str], folders: Sequence[str], files: Sequence[str]
) -> Module:
    """The IR of the kernels of a translation unit, and of all that they call."""
    root = library.include_paths()[-2]
    folders = [*folders, *(os.path.join(root, part) for part in _FOLDERS), *library.include_paths()]
    flags = [*options, *(f"-I{folder}" for folder in folders)]
    try:
        text = str(clang.to_ir(unit, "cuda", flags, compilers.find_cxx(), _CLANG, files))
    except Refused as e:
        raise e.error(label, e.place or "") from None
    return Module(_KERNELS.sub("", text))


@dataclass(eq=False)
class CppKernel(Primal):
    """A kernel of CUDA C++ in a module that has its IR under the name `entry`.

    `sizes` has the bytes of each parameter, and `arrays` the buffers that words belong to.
    """

    label: str
    name: str
    target: Target
    arrays: Sequence[ArrayType]
    module: Module
    entry: str
    sizes: Sequence[int]

    def __post_init__(self) -> None:
        self._arrays = [(t.dtype.name, len(t.shape)) for t in self.arrays]
        self._module = m = Module(declared_once(str(self.module)))
        needed = reached({**m.functions, **m.globals}, self.entry)
        m.lines = [li for li in m.lines if isinstance(li, str) or li.name in needed]
        described = _LINES.sub("", _STRIPPED.sub("", str(self._module))), self._arrays
        self.digest = identity_of(made="enzyme.cuda", code=b"", described=described, inlined=None)
        self.symbol = f"{re.sub(r'[^0-9A-Za-z]+', '_', self.name)}_{self.digest[:6].hex()}"

    def made_of(self) -> tuple[Any, ...]:
        return tool.find().identity(with_clang=True)

    def place(self, is_it: Callable[[Instruction], bool]) -> str:
        return clang.place_in(self._module, is_it)

    def form(self, words: Words, roles: Roles) -> Form:
        used = {word.buffer for given in words for word in given if word.kind == "address"}
        used |= {i for i, o in roles.aliases if o in used}
        arrays = {b: self._arrays[b] for b in sorted(used)}
        for dtype, _ in arrays.values():
            if not (can_hold(dtype) or dtype in HALVES):
                raise Refused(f"it has arrays of {dtype}", None)
        module, shared = _with_own_memory(str(self._module))
        for i in module.instructions("load", "store", "atomicrmw", "cmpxchg"):
            if "volatile" in i.flags:
                place = clang.place_of(module, i)
                raise Refused("it has volatile accesses, whose order in a warp matters", place)
        clang.check(module, self.entry)
        names = itertools.count()
        for i in module.instructions("call"):
            if i.callee.startswith("llvm.memcpy") and "tbaa.struct" in i.metadata:
                i.text = _by_members(module, i, names)
        for f in module.defined.values():
            f.head = re.sub(r"( !dbg !\d+)? \{$", " alwaysinline {", f.head)
        text = re.sub(r"= \{ +\}", '= { "kb" }', _STRIPPED.sub("", str(module)))
        text = renamed(text, own_name)
        text += _of_words(Module(text).functions[own_name(self.entry)], self.sizes)
        made = llvm.parse_assembly(warps.in_cpp(text))
        return Form(made, "kb_words", arrays, used, shared)


def _of_words(kernel: Function, sizes: Sequence[int]) -> str:
    """A function of the words of a launch, which calls a kernel."""
    counts = [-(-size // 8) for size in sizes]
    begins = itertools.accumulate(counts, initial=0)
    words, lines, given = list[str](), list[str](), list[str]()
    for k, (parameter, n, begin) in enumerate(zip(kernel.parameters, counts, begins, strict=False)):
        lines.append(f"  %at{k} = alloca [{n} x i64]")
        for i in range(n):
            lines.append(f"  %to{begin + i} = getelementptr i64, ptr %at{k}, i64 {i}")
            lines.append(f"  store i64 %w{begin + i}, ptr %to{begin + i}")
            words.append(f"i64 %w{begin + i}")
        kind, *attributes = split(parameter, " ")
        if by_value := [a for a in attributes if a.startswith("byval(")]:
            given.append(f"ptr {by_value[0]} %at{k}")
        elif kind == "i1":
            lines.append(f"  %byte{k} = load i8, ptr %at{k}")
            lines.append(f"  %value{k} = trunc i8 %byte{k} to i1")
            given.append(f"i1 %value{k}")
        else:
            lines.append(f"  %value{k} = load {kind}, ptr %at{k}")
            given.append(f"{kind} %value{k}")
    head = f"define void @kb_words({', '.join(words)}) alwaysinline {{"
    last = f"  call void {symbol(kernel.name)}({', '.join(given)})"
    return "\n".join(["", head, *lines, last, "  ret void", "}", "declare ptr @kb.shared(i64)", ""])


def _with_own_memory(text: str) -> tuple[Module, list[tuple[str, int, int]]]:
    """Let shared arrays be calls of `kb.shared`, and memory of constants be constants."""
    parsed = llvm.parse_assembly(text)
    layout = llvm.create_target_data(parsed.data_layout)
    sizes = {
        v.name: layout.get_abi_size(v.global_value_type)
        for v in parsed.global_variables
        if str(v.type) == "ptr addrspace(3)"
    }
    shared, offsets, end = list[tuple[str, int, int]](), dict[str, int](), 0
    for name, size in sorted(sizes.items(), key=lambda item: not item[1]):  # dynamic memory is last
        offsets[name] = end
        if size or ("i8", 0, end) not in shared:
            shared.append(("i8", size, end))
        end += -(-size // _ALIGNMENT) * _ALIGNMENT
    text = _GLOBAL.sub(r"\1 ", _CONSTANT.sub(r"\1 constant ", text))
    module = Module(_OF_GLOBAL.sub(r"\1", text))
    module.lines = [li for li in module.lines if not (isinstance(li, Global) and li.name in sizes)]
    for f in module.defined.values():
        _call_for_shared(f, offsets)
    return Module(str(module)), shared


def _call_for_shared(function: Function, offsets: Mapping[str, int]) -> None:
    """Let a function ask for the addresses of shared arrays when it begins."""
    values: dict[str, str] = {}  # by the instruction that makes each

    def value(text: str) -> str:
        return values.setdefault(text, f"%kb.shared.{len(values)}")

    def address(found: re.Match[str]) -> str:
        name = found[1][1:].strip('"')
        return value(f"call ptr @kb.shared(i64 {offsets[name]})")

    for i in function.instructions:
        if "addrspace(3)" not in i.text:
            continue
        i.text, left = _SHARED.sub(address, i.text), 1
        while left:  # a constant in a constant
            i.text, left = _OF_SHARED.subn(lambda found: value(f"{found[1]} {found[2]}"), i.text)
        if "addrspace(3)" in i.text:
            raise Refused("it uses shared memory in a way that is not an array's")
    if values:
        first = next(function.instructions)
        made = "".join(f"  {name} = {text}\n" for text, name in values.items())
        first.text = made + first.text


def _by_members(module: Module, copy: Instruction, names: Iterator[int]) -> str:
    """Loads and stores of the members of a structure for a copy of it, of which clang tells them.

    Otherwise, LLVM would copy real numbers as integers.
    """
    to, of, *_ = copy.operands
    members = []
    for offset, size, tag in _MEMBER.findall(module.numbered[copy.metadata["tbaa.struct"]]):
        accessed = module.numbered[re.findall(r"!\d+", module.numbered[tag])[1]]
        name = accessed.partition('!"')[2].partition('"')[0]
        item, width = _ITEMS.get(name, (f"i{8 * int(size)}", int(size)))
        if width not in (1, 2, 4, 8):
            return copy.text
        members += [(int(offset) + at, item) for at in range(0, int(size), width)]
    if len(members) > _MEMBERS:
        return copy.text
    lines = []
    for offset, item in members:  # the two structures are the same one, or lie apart
        k = next(names)
        lines += [
            f"  %kb.from.{k} = getelementptr i8, ptr {of.value}, i64 {offset}",
            f"  %kb.value.{k} = load {item}, ptr %kb.from.{k}",
            f"  %kb.to.{k} = getelementptr i8, ptr {to.value}, i64 {offset}",
            f"  store {item} %kb.value.{k}, ptr %kb.to.{k}",
        ]
    return "\n".join(lines)


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


def _of_floats(label: str, step: Step, arrays: Sequence[ArrayType]) -> Step:
    """A step of a derivative, whose buffers hold floats in place of halves."""
    sizes = {Fill: ("offset", "count"), Copy: ("to_offset", "from_offset", "size")}.get(type(step))
    if sizes is None:  # a launch, whose kernel is changed
        return step
    buffers = [getattr(step, name) for name in step.__slots__ if "buffer" in name]
    halves = {arrays[b].dtype.name in HALVES for b in buffers}
    if len(halves) > 1 or (True in halves and getattr(step, "pattern", False)):
        raise refused(label, "it fills or copies arrays of half precision as bytes")
    return replace(step, **{name: getattr(step, name) * (1 + max(halves)) for name in sizes})


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
