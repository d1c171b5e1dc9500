"""The LLVM IR of a Numba-CUDA kernel for the CPU.

The kernel's modules, as `to_host` rewrites them, are linked with the `.ll` files of this package
and with functions that run the threads:

- `kb_thread(frame, words ...)` runs one thread; `kb.run(frame, words)` calls it with words that lie
  in memory. All functions are inlined into it, except those that call themselves.
- `kb_blocks(parameters, sizes, begin, end, found)` loops over blocks and threads, see loops.ll.
- `kb_fibre(parameters, thread)` runs one thread of a kernel that has barriers, shared memory or
  operations of warps, see fibres.ll; src/ext/emulator gives the thread's place as a `kb_thread`.

The last two take parameters as cuLaunchKernel does.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from kernbridge import _core
from kernbridge._ext.emulator.compiler import library, linked
from kernbridge._ext.emulator.compiler.checks import Checks
from kernbridge._ext.emulator.compiler.to_host import OUTSIDE_MAX, HostModule, refused
from kernbridge._src.llvm.text import LOCAL, Function, Instruction, Module, symbol, symbols
from kernbridge._src.numba_common import cpu_features
from kernbridge._src.numba_common.private_llvmlite import binding as llvm

_UNSUPPORTED = (  # what a call means, by the beginning of its name
    ("cudaCG", "cuda.cg.this_grid"),
    ("kb.", "an instruction that only GPUs have"),
    ("__nv_", "a function of libdevice that kernbridge does not know"),
    (("_Z", "____"), "a function in CUDA C++"),
    ("", "a function that does not exist on CPUs"),
)
_OF_FIBRES = {"kb.thread", "kb.shared", "kb.dynamic_shared", "kb.check.shared"}
_KEPT = {"kb_blocks", "kb_fibre", "kb_shared_size", "kb_thread"}
_OF_C = {"NRT_Allocate", "NRT_Free", "NRT_MemInfo_alloc_aligned", "NRT_MemInfo_new_varsize"}
_NOT_OF_C = ("llvm.", "kb.", "__nv_", "cudaCG")
_LATER = {"kb.frame", "kb.site", "kb.check.at"}  # see _place

_UNORDERED = re.compile(r"^(  %.* = load )atomic (.*) unordered,", re.M)
_TYPE = re.compile(r"^%.* = type .*\n", re.M)
_MEMSET = "llvm.memset.p0.i64"
_RECURSION = 256 * 1024  # bytes of stack for a thread that recurs, in addition to its variables
_THREAD_AT = 48  # of the frame, see loops.ll

# A module with a loop that may wait has one of these.
_NEEDED = ("atomicrmw ", "cmpxchg ", "load atomic ", "load volatile ", " fence ")
_READS = {"atomicrmw", "cmpxchg", "load"}
_ADDITIONS = {"add", "sub", "fadd", "fsub", "uinc_wrap", "udec_wrap"}
_ZEROS = {"0", "0.000000e+00", "-0.000000e+00"}


def host_ir(
    label: str, compiled: Any, entry: str, checks: Checks | None = None
) -> tuple[str, bool]:
    """The IR of a library of Numba-CUDA for the CPU, and whether the kernel reads z indices.

    The IR has no data layout. With `checks`, it is for the checked mode.
    """
    from kernbridge._src.numba_common.private_numba_cuda import global_compiler_lock

    with global_compiler_lock:
        host = HostModule(label, compiled.modules, checks)
    texts, declared = [*host.texts, about(host.shared_size, host.outside)], host.declared
    module, calls = _linked(texts)
    foreign = {n for n in calls & declared if not n.startswith(_NOT_OF_C)} - _OF_C
    if foreign and (sources := linked.sources(compiled)):
        names = ", ".join(sorted(foreign))
        if checks:
            raise refused(label, f"functions in CUDA C++ ({names}) in checked mode")
        made = (linked.compiled(label, source, names) for source in sources)
        texts += [linked.fitted(label, module, text, foreign) for text in made]
        declared |= {name for name in _linked(texts)[1] if not _core.cuda_code_provides(name)}
    text, uses_z = completed(label, texts, entry, declared, checks)
    return text + "".join(host.tables.values()), uses_z


def completed(
    label: str, texts: Sequence[str], entry: str, declared: set[str], checks: Checks | None = None
) -> tuple[str, bool]:
    """Complete modules in the form of a `HostModule`, with one of `about`; see `host_ir`.

    A function that is `declared` and that no module defines is refused.
    """
    waits = False
    while True:
        module, calls = _linked(texts)
        waits = waits or not calls.isdisjoint(_OF_FIBRES)
        _complete(module, entry, checks, waits)
        recursive = [f.name for f in module.functions if is_recursive(f)]
        text, stack_size, polled = _polling(module, _RECURSION if recursive else 0)
        if waits or not (recursive or polled):
            break
        # Only a fibre can measure how much of its stack is left, and let other threads go on.
        waits = True
    _check(label, module, calls & declared)
    # Loads of what other threads may change are plain where no loop waits, see to_host.py.
    read = Module(_UNORDERED.sub(r"\1atomic \2 monotonic," if polled else r"\1\2,", text))
    more = _zero_by_calls(read)
    _place(read, checks)
    for name in recursive:
        # The checked mode knows one array for each place, and a recursion creates several.
        if checks and "call ptr @kb_check_local_array(" in str(read.functions[name]):
            raise refused(label, "a local array in a recursive device function in checked mode")
        _add_stack_check(label, read, name)
    more += "declare void @kb_recurse(ptr, i64)\n" if recursive else ""
    text = str(read) + more + stack_size
    if checks:
        text += checks.table()  # with the places where threads wait
    return text, not calls.isdisjoint({"kb.ctaid.z", "kb.nctaid.z"})


def _linked(texts: Sequence[str]) -> tuple[Any, set[str]]:
    """The kernel's modules as one, and the functions that it still declares."""
    module, *others = map(llvm.parse_assembly, texts)
    for other in others:
        module.link_in(other)
    return module, library.link(module)


def _complete(module: Any, entry: str, checks: Checks | None, waits: bool) -> None:
    """Link in what runs the threads, and inline all; with `waits`, each thread has a stack.

    Functions are marked for inlining in text: llvmlite 0.45 adds an attribute to the result of a
    function.
    """
    by_threads = waits or checks is not None
    if checks:
        checks.waits = waits
    types = [str(argument.type) for argument in module.get_function(entry).arguments]
    module.link_in(llvm.parse_assembly(_around(entry, types, checks, by_threads)))
    library.link_file(module, "fibres" if by_threads else "loops")
    module.get_global_variable("kb.outside.all").linkage = "internal"
    for function in module.functions:
        if not function.is_declaration and function.name not in _KEPT:
            function.linkage = "internal"
    inlining, builder = passes()[:2]
    inlining.run(module, builder)
    module.get_function("kb_thread").linkage = "internal"


def machine(features: str | None = None) -> Any:
    """LLVM's target machine of this process; it may use all features of `processor`, or these."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    cpu, present = processor()
    features = present if features is None else features
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=cpu, features=features, opt=3, reloc="pic", codemodel="default"
    )


def processor() -> tuple[str, str]:
    """LLVM's name of the processor that code is for, and its features: this one's by default."""
    name, features = cpu_features.asked()
    return (
        name or llvm.get_host_cpu_name(),
        llvm.get_host_cpu_features().flatten() if features is None else features,
    )


@cache
def passes() -> tuple[Any, Any, Any]:
    """Passes that inline and drop dead code, their builder, and passes for `_polling`.

    The latter turn variables into values.
    """
    options = llvm.create_pipeline_tuning_options(speed_level=0)
    inlining = llvm.create_new_module_pass_manager()
    inlining.add_always_inliner_pass()
    inlining.add_global_dead_code_eliminate_pass()
    values = llvm.create_new_function_pass_manager()
    for _ in range(2):  # the addresses of some variables lie in tuples
        values.add_sroa_pass()
        values.add_instruction_combine_pass()
    return inlining, llvm.create_pass_builder(machine(), options), values


def is_recursive(function: Any) -> bool:
    """Whether a function of a kernel was not inlined, since it calls itself."""
    return not function.is_declaration and function.name not in (*_KEPT, "kb_stack_size")


def _check(label: str, module: Any, unknown: set[str]) -> None:
    unknown = unknown - _LATER - _OF_C
    for name in (function.name for function in module.functions if function.is_declaration):
        if name in unknown and not name.startswith("llvm."):
            construct = next(c for beginning, c in _UNSUPPORTED if name.startswith(beginning))
            raise refused(label, f"{construct} ({name})")


def _polling(module: Any, stack: int) -> tuple[str, str, bool]:
    """The module with calls in loops that wait, the size of its stack, and whether there are any.

    `stack` is the number of bytes that a thread needs besides its variables.
    """
    text = str(module)
    lines, total = _size_of_variables(Module(text).functions["kb_thread"], stack)
    stack_size = "\n".join(["define i64 @kb_stack_size() {", *lines, f"  ret i64 {total}", "}\n"])
    if not any(operation in text for operation in _NEEDED):
        return text, stack_size, False
    for function in module.functions:
        if function.name == "kb_thread" or is_recursive(function):
            _, builder, values = passes()
            values.run(function, builder)
    read = Module(str(module))
    found = [_Loops(function).add_polls() for function in read.defined.values()]
    if not any(found):
        return text, stack_size, False
    polling = f"{read}declare void @kb_poll(ptr, i32, i32)\n"
    types = {*_TYPE.findall(text)}.difference(_TYPE.findall(polling))  # only variables had them
    return polling, "".join((*sorted(types), stack_size)), True


class _Loops:
    """The loops of a function in which a thread may wait for others by reading memory.

    Such a loop gets a call of `kb_poll`, see src/ext/emulator/kb_block.c, so that the other threads
    of the block run meanwhile. It has an exit that depends on memory: on the value of an atomic
    operation, or on a load in a loop with a fence. Operations that always change the memory do not
    count, such as the additions of a histogram or a queue, nor does a compare-and-swap that expects
    a value that the loop has read, which fails only if another thread has changed it.

    Loops are found in the text of LLVM IR after variables have become values.
    """

    def __init__(self, function: Function) -> None:
        self._instructions, self._defined = list(function.instructions), function.defined
        self._base = function.base
        self._blocks = {block.name: block for block in function.blocks}
        self._preceding: dict[str, list[str]] = {name: [] for name in self._blocks}
        for name, block in self._blocks.items():
            for target in block.targets:
                self._preceding[target].append(name)

    def add_polls(self) -> bool:
        found = ((h, loop, self._awaited(h, loop)) for h, loop in self._loops().items())
        waiting = [(h, loop, read) for h, loop, read in found if read is not None]
        for header, loop, read in waiting:
            self._add_poll(header, loop, read)
        return bool(waiting)

    def _add_poll(self, header: str, loop: set[str], read: int) -> None:
        """Let a loop poll where it begins."""
        block = self._blocks[header]
        name = f"%kb.poll.{list(self._blocks).index(header)}"
        before = reversed(self._instructions[: read + 1])
        site = next((i.text for i in before if i.callee == "kb.check.at"), "")
        edges = ", ".join(f"[ {int(p in loop)}, {p} ]" for p in self._preceding[header])
        call = f"""{site}
  {name}.frame = call ptr @kb.frame()
  {name}.at = getelementptr i8, ptr {name}.frame, i64 48
  {name}.thread = load ptr, ptr {name}.at
  {name}.site = call i32 @kb.site()
  call void @kb_poll(ptr {name}.thread, i32 {name}.again, i32 {name}.site)"""
        block.label = f"{block.label}\n  {name}.again = phi i32 {edges}"
        n_phis = sum(i.opcode == "phi" for i in block.instructions)
        block.instructions.insert(n_phis, Instruction(call, block))

    def _loops(self) -> dict[str, set[str]]:
        """The blocks of each loop, by the one with which it begins, to which an edge goes back."""
        loops: dict[str, set[str]] = {}
        begin = next(iter(self._blocks))
        path, seen = {begin: iter(self._blocks[begin].targets)}, {begin}
        while path:
            name = next(reversed(path))
            target = next(path[name], "")
            if not target:
                del path[name]
            elif target in path:
                self._add_ways(name, loops.setdefault(target, {target}))
            elif target not in seen:
                seen.add(target)
                path[target] = iter(self._blocks[target].targets)
        return loops

    def _add_ways(self, to: str, found: set[str]) -> set[str]:
        """Add the blocks from which a block is reached without passing a block of `found`."""
        new = [to]
        while new:
            if (block := new.pop()) not in found:
                found.add(block)
                new += self._preceding[block]
        return found

    def _awaited(self, header: str, loop: set[str]) -> int | None:
        """The number of the read on which an exit depends, or of the loop's fence; or None."""
        ending = {n for n, b in self._blocks.items() if b.instructions[-1].opcode == "unreachable"}
        exits = [name for name in loop if {*self._blocks[name].targets} - loop - ending]
        fences = [i for i in self._inside(loop) if i.opcode == "fence"]
        found = []
        for i in self._made_of(map(self._condition, exits), header, loop):
            if self._is_awaited(i, header, loop):
                found.append(i)
            elif fences and i.opcode == "load" and not self._is_own(i.operands[0].value):
                found.append(fences[0])
        return min(map(self._instructions.index, found), default=None)

    def _inside(self, loop: set[str]) -> list[Instruction]:
        """The instructions of a loop, in their order."""
        return [i for i in self._instructions if i.block.name in loop]

    def _condition(self, block: str) -> str:
        """What decides where a block goes on."""
        operands = self._blocks[block].instructions[-1].operands
        return operands[0].value if len(operands) > 1 else ""

    def _made_of(self, names: Iterable[str], header: str, loop: set[str]) -> Iterator[Instruction]:
        """The instructions of a loop that values depend on."""
        seen: set[str] = set()
        new = list(names)
        while new:
            name = new.pop()
            made = self._defined.get(name)
            if made is None or name in seen or made.block.name not in loop:
                continue
            seen.add(name)
            yield made
            if made.opcode == "load" and self._is_own(made.operands[0].value):
                stores = (i for i in self._inside(loop) if i.opcode == "store")
                new += (v for s in stores for v in LOCAL.findall(s.operands[0].value))
            if made.opcode != "phi":
                new += made.names
                continue
            values = {value for value, before in made.incoming if before in loop}
            new += values
            if len(values) > 1:
                new += self._deciding(made.block.name, header, loop)

    def _deciding(self, block: str, header: str, loop: set[str]) -> Iterator[str]:
        """The conditions that decide from which block a block is reached in one round."""
        before = [name for name in self._preceding[block] if name in loop]
        ways = {name: self._add_ways(name, {header, block}) - {header} for name in before}

        def by(name: str, target: str) -> set[str]:
            return {name} if target == block else {last for last in before if target in ways[last]}

        for name in loop:
            reached = [by(name, target) for target in self._blocks[name].targets]
            if any(r != reached[0] for r in reached):
                yield self._condition(name)

    def _is_awaited(self, i: Instruction, header: str, loop: set[str]) -> bool:
        if i.opcode == "atomicrmw" and i.flags[-1] in _ADDITIONS:
            return i.operands[1].value in _ZEROS
        if i.opcode == "cmpxchg":
            made_of = self._made_of([i.operands[1].value], header, loop)
            return not any(made.opcode in _READS for made in made_of)
        return i.opcode == "atomicrmw" or (i.opcode == "load" and bool(i.flags))

    def _is_own(self, address: str) -> bool:
        """Whether an address points to a variable of the thread, or into its frame."""
        _, made = self._base(address)
        return made is not None and (made.opcode == "alloca" or made.callee == "kb.frame")


def _zero_by_calls(read: Module) -> str:
    """Call memset where zeros are stored into an array; returns its declaration.

    Numba stores an array as one value, of which LLVM makes a store for each of its elements.
    """
    stores = read.instructions("store")
    zeroed = [i for i in stores if i.operands[0].value == "zeroinitializer" and i.type[0] == "["]
    for i in zeroed:
        size = f"ptrtoint (ptr getelementptr ({i.type}, ptr null, i64 1) to i64)"
        i.text = f"  call void @{_MEMSET}(ptr {i.operands[1].value}, i8 0, i64 {size}, i1 false)"
    declared = f"\ndeclare void @{_MEMSET}(ptr, i8, i64, i1)\n"
    return declared if zeroed and _MEMSET not in read.functions else ""


def _place(read: Module, checks: Checks | None) -> None:
    """Replace placeholders by the frame, and by the numbers of places where threads wait.

    Both are known once all is inlined.
    """
    sites = itertools.count()
    place = 0
    for i in read.instructions("call"):
        if i.callee == "kb.frame":
            i.text = f"  {i.result} = getelementptr i8, ptr %kb.frame, i64 0"
        elif i.callee == "kb.site":
            number = next(sites)
            if checks:
                number = len(checks.sites)
                checks.sites.append(checks.sites[place])
            i.text = f"  {i.result} = add i32 0, {number}"
        elif i.callee == "kb.check.at":
            place = int(i.operands[0].value)
            i.text = i.text.replace(f"call void @kb.check.at(i32 {place})", "")
    for name in _LATER & read.functions.keys():
        read.functions[name].head = ""
    thread = read.functions["kb_thread"]  # compile.py inlines it, with other passes
    if thread.head.endswith(") {"):
        thread.head = f"{thread.head[:-1]}alwaysinline {{"


def about(shared_size: int, outside: Sequence[str] = ()) -> str:
    """A module for `completed`: static shared memory, and what `kb.outside` calls the arrays."""
    constants = library.Constants("kb.about")
    shown = list(outside[:OUTSIDE_MAX])
    if len(outside) > OUTSIDE_MAX:
        shown[-1] = "one of its arrays"
    constants.array("ptr", list(map(constants.string, shown)), "kb.outside.all")
    return f"{constants}define i64 @kb_shared_size() {{\n  ret i64 {shared_size}\n}}\n"


def _around(entry: str, types: Sequence[str], checks: Checks | None, by_threads: bool) -> str:
    """The module around an entry, whose parameters have these types."""
    words = f"{{{', '.join(types)}}}"
    values = [f"{kind} %v{i}" for i, kind in enumerate(types)]
    called = f"{symbol(entry)}({', '.join(values)})"
    member = f"getelementptr {words}, ptr %words, i32 0, i32"
    load = copy = check = ""
    for i, kind in enumerate(types):
        load += f"""
  %at{i} = {member} {i}
  %v{i} = load {kind}, ptr %at{i}"""
        copy += f"""
  %parameter{i} = getelementptr ptr, ptr %parameters, i64 {i}
  %from{i} = load ptr, ptr %parameter{i}
  %v{i} = load {kind}, ptr %from{i}
  %at{i} = {member} {i}
  store {kind} %v{i}, ptr %at{i}"""
    for i, argument in enumerate(checks.arguments if checks else ()):
        check += f"""
  %address{i} = load i64, ptr %at{argument.word}
  %known{i} = call i64 @kb.check.argument(i64 %address{i}, i64 {i + 1})
  store i64 %known{i}, ptr %at{argument.word}"""
    if by_threads:
        head = "@kb_fibre(ptr noalias %parameters, ptr %thread)"
        run = f"@kb.fibre{'.checked' if checks else ''}(ptr %words, ptr %thread)"
    else:
        more = "i64 %begin, i64 %end, ptr {}%found"
        head = f"@kb_blocks(ptr noalias %parameters, ptr noalias %sizes, {more.format('noalias ')})"
        run = f"@kb.loops(ptr %words, ptr %sizes, {more.format('')})"
    return f"""\
declare void {called}
declare void {run}
declare i64 @kb.check.argument(i64, i64)

define void @kb_thread({", ".join(["ptr noalias %kb.frame", *values])}) {{
  call void {called}
  ret void
}}

define void @kb.run(ptr %frame, ptr %words) alwaysinline {{{load}
  call void @kb_thread({", ".join(["ptr %frame", *values])})
  ret void
}}

define void {head} {{
  %words = alloca {words}{copy}{check}
  call void {run}
  ret void
}}
"""


def _size_of_variables(function: Function, more: int) -> tuple[list[str], str]:
    """Instructions that compute the bytes of a function's variables plus `more`, and their value.

    llvmlite does not return the type of a variable in a parsed module.
    """
    lines, total = [], str(more)
    for n, i in enumerate(i for i in function.instructions if i.opcode == "alloca"):
        count = i.operands[0].value if i.operands else 1
        end = f"ptrtoint (ptr getelementptr ({i.type}, ptr null, i64 {count}) to i64)"
        lines.append(f"  %kb.s{n} = add i64 {total}, {end}")
        total = f"%kb.s{n}"
    return lines, total


def _add_stack_check(label: str, read: Module, name: str) -> None:
    """Let a recursive function check how much of the stack is left.

    As `kb_thread`, it gets the thread's frame as its first parameter. The check is a function of
    src/ext/emulator/kb_block.c.
    """
    function, begin = read.functions[name], f"{symbol(name)}("

    def with_frame(text: str) -> str:
        given = text.replace(begin, f"{begin}ptr %kb.frame, ")
        return given.replace("(ptr %kb.frame, )", "(ptr %kb.frame)")

    function.head = with_frame(function.head)
    for i in (i for i in read.instructions() if name in i.text):
        if symbols(i.text).count(name) > (i.callee == name):
            raise refused(label, "a device function as a value")
        i.text = with_frame(i.text)
    lines, size = _size_of_variables(function, 0)
    check = [
        f"  %kb.thread.at = getelementptr i8, ptr %kb.frame, i64 {_THREAD_AT}",
        "  %kb.thread = load ptr, ptr %kb.thread.at",
        *lines,
        f"  call void @kb_recurse(ptr %kb.thread, i64 {size})\n",
    ]
    first = next(function.instructions)
    first.text = "\n".join(check) + first.text
