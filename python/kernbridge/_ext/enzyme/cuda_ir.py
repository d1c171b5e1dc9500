"""The IR of CUDA C++ kernels, by the clang of Enzyme's LLVM, in the form of Numba-CUDA's kernels.

clang compiles a kernel for a GPU without CUDA's own headers: the headers for CUDA C++ on CPUs have
the names, and cuda_for_enzyme.hpp has what only a GPU has. In the IR, what only a GPU has becomes
calls of functions `kb.*`, as the emulator's compiler knows them. A template is instantiated where
the same translation unit takes its address, and a function of the words of a launch calls it.

Of this, cuda_cpp.py makes derivatives, and `loops` code for CPUs. Nothing here imports Numba.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernbridge import _core
from kernbridge._ext.emulator.compiler import compile as host_compile
from kernbridge._ext.emulator.compiler import ir as host_ir
from kernbridge._ext.enzyme import clang, tool, warps
from kernbridge._ext.enzyme.function import Refused, Roles, can_hold
from kernbridge._ext.enzyme.kernel import Form, Primal, Words
from kernbridge._src.base.dtypes import HALVES
from kernbridge._src.calls.call import ArrayType
from kernbridge._src.forge.obtain import log
from kernbridge._src.keys.identity import identity_of
from kernbridge._src.llvm import text as llvm_text
from kernbridge._src.llvm.text import Function, Global, Instruction, Module, renamed
from kernbridge._src.numba_common.private_llvmlite import binding as llvm
from kernbridge._src.plan import targets
from kernbridge._src.toolchain import compilers, library

HEADER = '#include "kernbridge/cuda_for_enzyme.hpp"\n'
_CLANG = (
    *("--cuda-device-only", "-nocudainc", "-nocudalib", "--cuda-gpu-arch=sm_80", "-std=c++17"),
    *("-Xclang", "-fcuda-allow-variadic-functions", "-D__CUDACC__", "-Wno-c++11-narrowing"),
    *("-Xclang", "-fnative-half-type", "-Xclang", "-fallow-half-arguments-and-returns"),
)
# As the CPU's own compiler, but for numbers that do not fit into an integer, as on a GPU.
_FOR_CPU = (
    *("-g0", "-U__CUDA_ARCH__", "-D__NVCC__", "-Xclang", "-mlong-double-80"),
    "-fno-strict-float-cast-overflow",
)
_LOOPS = """
static void kb_kernel_{i}() __attribute__((weakref("{0}")));
extern "C" __attribute__((weak, visibility("hidden"))) kb_cuda_loops kb_cuda_loops_{next};
kb_cuda_loops kb_cuda_loops_{i} = {{
    &kb_cuda_loops_{next}, kb_kernel_{i}, {1}, {2}, {3}, "{4}", 0}};
"""
_FOLDERS = ("ext/emulator/cuda", "ext/emulator")
_ALIGNMENT = 16
_NAME = r"(@[\w.$]+|@\"[^\"]*\")"
_SHARED = re.compile(rf"addrspacecast \(ptr addrspace\(3\) {_NAME} to ptr\)")
_OF_SHARED = re.compile(r"(getelementptr(?: inbounds)?|ptrtoint) \(([^()]*%kb\.shared\.[^()]*)\)")
_OF_GLOBAL = re.compile(rf"addrspacecast \(ptr addrspace\([14]\) {_NAME} to ptr\)")
_GLOBAL = re.compile(r"^(@.*) addrspace\([14]\)((?: externally_initialized)?) ", re.M)
_CONSTANT = re.compile(r"^(@.* addrspace\(4\).*) global ", re.M)
_KERNELS = re.compile(r'^(?:!nvvm\.annotations = |!\d+ = !\{ptr @.*, !"kernel", ).*\n', re.M)
_BY_VALUE = re.compile(r"byval\(([^()]*)\)")
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


def entry_of(module: Module) -> tuple[str, list[int], list[int]]:
    """The kernel that a unit describes: its name, and the codes and sizes of its parameters."""
    _, entry, *lists = llvm_text.symbols(module.globals["kb_description"].text)
    found = (re.findall(r"i32 (\d+)", module.globals[name].value) for name in lists)
    codes, sizes = ([int(n) for n in numbers[:-1]] for numbers in found)
    return entry, codes, sizes


def loops(request: Any, flags: Sequence[str]) -> Iterator[str]:
    """The kb_cuda_loops, in C++, of the kernels of a request that can have some.

    Each has an image for CPUs, which takes words and computes what the library of the request does.
    """
    label, is_module, n = request.name, request.finish is not None, 0
    unit = HEADER + '#include "kernbridge/module.h"\n' * is_module + request.source
    text = str(compiled(label, unit, flags, request.include_paths, ()))
    if is_module:  # whose host may write to what is constant for kernels
        text = text.replace("addrspace(4)", "addrspace(1)")
    module, target = Module(text), targets.of_platform("cpu", label=label)
    kernels = llvm_text.symbols("".join(_KERNELS.findall(text)))
    types = [*dict.fromkeys(_BY_VALUE.findall(text))]
    text += "".join(f"@kb.type.{i} = external global {kind}\n" for i, kind in enumerate(types))
    parsed = llvm.parse_assembly(text)
    variables = (parsed.get_global_variable(f"kb.type.{i}") for i in range(len(types)))
    layout = llvm.create_target_data(parsed.data_layout)
    known = [layout.get_abi_size(v.global_value_type) for v in variables]
    for entry in kernels if is_module else [entry_of(module)[0]]:
        if "llvm.nvvm.barrier0" not in llvm_text.reached(module.functions, entry):
            continue
        by_value = map(_BY_VALUE.search, module.functions[entry].parameters)
        sizes = [known[types.index(found[1])] if found else 8 for found in by_value]
        try:
            form = CppKernel(label, entry, target, (), module, entry, sizes).form((), Roles(()))
            if any(f.name.endswith("trap") for f in form.module.functions):
                raise Refused("it calls __trap")
            # What is said of a loop would be said of its copies, and keep LLVM from unrolling it.
            body = re.sub(r", !llvm\.loop !\d+", "", str(form.module))
            size = sum(-(-size // _ALIGNMENT) * _ALIGNMENT for _, size, _ in form.shared)
            (image,) = host_images(label, body, form.entry, size).values()
            code = host_compile.host_code(image, label)
            if "kb_whole" not in code.symbols:
                raise Refused("some threads may not come to a barrier that others wait at")
        except Exception as e:  # whatever it is, there are fibres
            log.debug("%s of %s has no loops between barriers: %s", entry, label, e)
            continue
        data = "".join(f"\\{byte:03o}" for byte in image + code.data)
        numbers = sum(-(-size // 8) for size in sizes), len(image), len(code.data)
        yield _LOOPS.format(entry, *numbers, data, i=n, next=(n := n + 1))


def compiled(
    label: str, unit: str, options: Sequence[str], folders: Sequence[str], files: Sequence[str]
) -> Module:
    """The IR of the kernels of a translation unit, and of all that they call.

    It has the lines of the user's `files`; without any, it is for CPUs.
    """
    root = library.include_paths()[-2]
    folders = [*folders, *(os.path.join(root, part) for part in _FOLDERS), *library.include_paths()]
    flags = [*options, *(f"-I{folder}" for folder in folders)]
    more = _CLANG if files else (*_CLANG, *_FOR_CPU)
    try:
        text = str(clang.to_ir(unit, "cuda", flags, compilers.find_cxx(), more, files))
    except Refused as e:
        raise e.error(label, e.place or "") from None
    return Module(text)


@dataclass(eq=False)
class CppKernel(Primal):
    """A kernel of CUDA C++ in a module that has its IR under the name `entry`.

    `sizes` has the bytes of each parameter, and `arrays` the buffers that words belong to.
    """

    label: str
    name: str
    target: targets.Target
    arrays: Sequence[ArrayType]
    module: Module
    entry: str
    sizes: Sequence[int]

    def __post_init__(self) -> None:
        self._arrays = [(t.dtype.name, len(t.shape)) for t in self.arrays]
        text = _KERNELS.sub("", str(self.module))
        self._module = m = Module(llvm_text.declared_once(text))
        needed = llvm_text.reached({**m.functions, **m.globals}, self.entry)
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
        return Form(llvm.parse_assembly(warps.in_cpp(text)), "kb_words", arrays, used, shared)


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
        kind, *attributes = llvm_text.split(parameter, " ")
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
    last = f"  call void {llvm_text.symbol(kernel.name)}({', '.join(given)})"
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


def host_images(label: str, text: str, entry: str, shared_size: int) -> targets.Images:
    text = re.sub(r"^target .*\n", "", renamed(text, own_name), flags=re.M)
    functions = Module(text).functions.items()
    declared = {n for n, f in functions if f.is_declaration and not _core.cuda_code_provides(n)}
    texts = [text, host_ir.about(shared_size)]
    body, _ = host_ir.completed(label, texts, entry, declared)
    # As LLVM does for GPUs: all forms of a kernel then compute the same numbers.
    return {_core.HOST_CC: host_compile.image(body, host_compile.UNFUSED)}


def own_name(name: str) -> str:
    own = name.removeprefix("llvm.nvvm.")
    return name if own == name else f"kb.{own.removeprefix('read.ptx.sreg.')}"
