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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from kernbridge import _core
from kernbridge._ext.emulator.compiler import library, linked, polls
from kernbridge._ext.emulator.compiler.library import called, constant, text
from kernbridge._ext.emulator.compiler.to_host import OUTSIDE_MAX, HostModule, refused
from kernbridge._src.llvm.text import Function, Module, symbol, symbols
from kernbridge._src.numba_common import cpu_features, private_llvmlite
from kernbridge._src.numba_common.private_llvmlite import binding as llvm
from kernbridge._src.numba_common.private_llvmlite import ir

if TYPE_CHECKING:
    from kernbridge._ext.emulator.compiler.checks import Checks

_UNSUPPORTED = (  # what a call means, by the beginning of its name
    ("cudaCG", "cuda.cg.this_grid"),
    ("kb.", "an instruction that only GPUs have"),
    ("__nv_", "a function of libdevice that kernbridge does not know"),
    ("_Z", "a function in CUDA C++"),
    ("____", "a function in CUDA C++"),
    ("", "a function that does not exist on CPUs"),
)
_OF_FIBRES = {"kb.thread", "kb.shared", "kb.dynamic_shared", "kb.check.shared"}
_KEPT = {"kb_blocks", "kb_fibre", "kb_shared_size", "kb_thread"}
_OF_C = {"NRT_Allocate", "NRT_Free", "NRT_MemInfo_alloc_aligned", "NRT_MemInfo_new_varsize"}
_NOT_OF_C = ("llvm.", "kb.", "__nv_", "cudaCG")
_LATER = {"kb.frame", "kb.site", "kb.check.at"}  # see _place

_MEMSET = "llvm.memset.p0.i64"
_RECURSION = 256 * 1024  # bytes of stack for a thread that recurs, in addition to its variables
_THREAD_AT = 48  # of the frame, see loops.ll

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_POINTER = ir.IntType(8).as_pointer()


def host_ir(
    label: str, compiled: Any, entry: str, checks: Checks | None = None
) -> tuple[str, bool]:
    """The IR of a library of Numba-CUDA for the CPU, and whether the kernel reads z indices.

    The IR has no data layout. With `checks`, it is for the checked mode.
    """
    with opaque_pointers():
        host = HostModule(label, compiled.modules, checks)
        texts = [str(module) for module in host.modules]
    module, calls = _linked(texts)
    external = calls & host.declared
    foreign = {name for name in external if not name.startswith(_NOT_OF_C)} - _OF_C
    if foreign and (sources := linked.sources(compiled)):
        if checks:
            raise refused(
                label, f"functions in CUDA C++ ({', '.join(sorted(foreign))}) in checked mode"
            )
        texts += linked.fitted(label, module, linked.compiled(label, sources, foreign), foreign)
        host.declared |= {name for name in _linked(texts)[1] if not _core.cuda_code_provides(name)}
    text, uses_z = completed(label, texts, entry, host, checks)
    return text + "".join(host.tables.values()), uses_z


@dataclass
class Given:
    """What `completed` needs to know of modules in the form of a `HostModule`."""

    shared_size: int
    types: list[Any]  # of the parameters of the entry
    declared: set[str]
    outside: Sequence[str] = ()

    def parameters(self, entry: str) -> list[Any]:
        return self.types


def completed(
    label: str,
    texts: Sequence[str],
    entry: str,
    host: HostModule | Given,
    checks: Checks | None = None,
) -> tuple[str, bool]:
    """Complete modules that a `HostModule` has rewritten; see `host_ir`."""
    module, calls = _linked(texts)
    waits = not calls.isdisjoint(_OF_FIBRES)
    while True:
        _complete(module, entry, host, checks, waits)
        recursive = [f.name for f in module.functions if is_recursive(f)]
        text, stack_size, polled = _polling(module, _RECURSION if recursive else 0)
        if waits or not (recursive or polled):
            break
        # Only a fibre can measure how much of its stack is left, and let other threads go on.
        waits = True
        module, calls = _linked(texts)
    _check(label, module, calls & host.declared)
    read = Module(text)
    _order_loads(read, polled)
    more = _zero_by_calls(read)
    _place(read, checks)
    for name in recursive:
        # The checked mode knows one array for each place, and a recursion creates several.
        if checks and "call ptr @kb_check_local_array(" in str(read.functions[name]):
            raise refused(label, "a local array in a recursive device function in checked mode")
        if _is_value(read, name):
            raise refused(label, "a device function as a value")
    text = str(read) + more
    if recursive:
        text = _with_stack_checks(text, recursive)
    text += stack_size
    if checks:
        with opaque_pointers():
            text += checks.table()  # with the places where threads wait
    return text, not calls.isdisjoint({"kb.ctaid.z", "kb.nctaid.z"})


def _linked(texts: Sequence[str]) -> tuple[Any, set[str]]:
    """The kernel's modules as one, and the functions that it still declares."""
    module, *others = map(llvm.parse_assembly, texts)
    for other in others:
        module.link_in(other)
    return module, library.link(module)


def _complete(
    module: Any, entry: str, host: HostModule | Given, checks: Checks | None, waits: bool
) -> None:
    """Link in what runs the threads, and inline all; with `waits`, each thread has a stack.

    Functions are marked for inlining in text: llvmlite 0.45 adds an attribute to the result of a
    function.
    """
    by_threads = waits or checks is not None
    if checks:
        checks.waits = waits
    with opaque_pointers():
        around = str(_around(entry, host, checks, by_threads))
    module.link_in(llvm.parse_assembly(around))
    library.link_file(module, "fibres" if by_threads else "loops")
    module.get_global_variable("kb.outside.all").linkage = "internal"
    for function in module.functions:
        if not function.is_declaration and function.name not in _KEPT:
            function.linkage = "internal"
    inlining, builder = passes()[:2]
    inlining.run(module, builder)
    module.get_function("kb_thread").linkage = "internal"


@contextmanager
def opaque_pointers() -> Iterator[None]:
    """Print llvmlite's IR with opaque pointers for LLVM; Numba-CUDA prints typed ones for NVVM."""
    from kernbridge._src.numba_common.private_numba_cuda import global_compiler_lock

    with global_compiler_lock, private_llvmlite.opaque_pointers():
        yield


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
    values.add_sroa_pass()
    values.add_instruction_combine_pass()  # the addresses of some variables lie in tuples
    values.add_sroa_pass()
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
    if not polls.may_poll(text):
        return text, stack_size, False
    for function in module.functions:
        if function.name == "kb_thread" or is_recursive(function):
            _, builder, values = passes()
            values.run(function, builder)
    plain = str(module)
    polling = polls.with_polls(plain)
    return text if polling == plain else polling, stack_size, polling != plain


def _order_loads(read: Module, polled: bool) -> None:
    """Keep loads of what other threads may change plain where no loop waits, see to_host.py."""
    for i in read.instructions("load"):
        if " unordered," in i.text:
            plain = i.text.replace(" load atomic ", " load ").replace(" unordered,", ",")
            i.text = i.text.replace(" unordered,", " monotonic,") if polled else plain


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
            frame = "getelementptr i8, ptr %kb.frame, i64 0"
            i.text = i.text.replace("call ptr @kb.frame()", frame)
        elif i.callee == "kb.site":
            number = next(sites)
            if checks:
                number = len(checks.sites)
                checks.sites.append(checks.sites[place])
            i.text = i.text.replace("call i32 @kb.site()", f"add i32 0, {number}")
        elif i.callee == "kb.check.at":
            place = int(i.operands[0].value)
            i.text = i.text.replace(f"call void @kb.check.at(i32 {place})", "")
    for name in _LATER & read.functions.keys():
        read.functions[name].head = ""
    thread = read.functions["kb_thread"]  # compile.py inlines it, with other passes
    if thread.head.endswith(") {"):
        thread.head = f"{thread.head[:-1]}alwaysinline {{"


def _is_value(read: Module, name: str) -> bool:
    """Whether a function is used other than by calls."""
    using = (i for i in read.instructions() if name in i.text)
    uses = ((symbols(i.text).count(name), i.callee == name) for i in using)
    return any(n > is_called for n, is_called in uses)


def _around(entry: str, host: HostModule | Given, checks: Checks | None, by_threads: bool) -> Any:
    """The module around an entry. Make and print it inside `opaque_pointers()`."""
    made = ir.Module("kb.entry")
    made.triple = ""
    types = host.parameters(entry)
    words = ir.LiteralStructType(types)
    with _function(made, "kb_thread", [_POINTER, *types]) as (function, builder):
        frame, *values = function.args
        frame.name = "kb.frame"
        frame.add_attribute("noalias")
        called(builder, entry, values)
    with _function(made, "kb.run", [_POINTER, words.as_pointer()]) as (function, builder):
        function.attributes.add("alwaysinline")
        frame, address = function.args
        loaded = [builder.load(_member(builder, address, i)) for i in range(len(types))]
        called(builder, "kb_thread", [frame, *loaded])
    if by_threads:
        kinds = [_POINTER.as_pointer(), _POINTER]
        with _function(made, "kb_fibre", kinds) as (function, builder):
            parameters, thread = function.args
            parameters.add_attribute("noalias")
            given = _words(builder, words, parameters)
            for i, argument in enumerate(checks.arguments if checks else ()):
                at = builder.bitcast(_member(builder, given, argument.word), _I64.as_pointer())
                address = [builder.load(at), ir.Constant(_I64, i + 1)]
                builder.store(called(builder, "kb.check.argument", address, _I64), at)
            called(builder, "kb.fibre.checked" if checks else "kb.fibre", [given, thread])
    else:
        kinds = [_POINTER.as_pointer(), _POINTER, _I64, _I64, _POINTER]
        with _function(made, "kb_blocks", kinds) as (function, builder):
            parameters, sizes, begin, end, found = function.args
            for pointer in (parameters, sizes, found):
                pointer.add_attribute("noalias")
            given = _words(builder, words, parameters)
            called(builder, "kb.loops", [given, sizes, begin, end, found])
    shared_size = ir.Function(made, ir.FunctionType(_I64, []), "kb_shared_size")
    ir.IRBuilder(shared_size.append_basic_block("entry")).ret(ir.Constant(_I64, host.shared_size))
    shown = list(host.outside[:OUTSIDE_MAX])
    if len(host.outside) > OUTSIDE_MAX:
        shown[-1] = "one of its arrays"
    described = [text(made, what) for what in shown]
    constant(made, ir.ArrayType(_POINTER, len(shown)), described, "kb.outside.all")
    return made


@contextmanager
def _function(module: Any, name: str, types: Sequence[Any]) -> Iterator[tuple[Any, ir.IRBuilder]]:
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), types), name)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    yield function, builder
    builder.ret_void()


def _words(builder: Any, kind: Any, parameters: Any) -> Any:
    """The address of a copy of a launch's arguments in one structure."""
    words = builder.alloca(kind)
    for i, element in enumerate(kind.elements):
        parameter = builder.load(builder.gep(parameters, [ir.Constant(_I64, i)]))
        word = builder.load(builder.bitcast(parameter, element.as_pointer()))
        builder.store(word, _member(builder, words, i))
    return words


def _member(builder: Any, address: Any, i: int) -> Any:
    return builder.gep(address, [ir.Constant(_I32, 0), ir.Constant(_I32, i)])


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


def _with_stack_checks(text: str, names: Sequence[str]) -> str:
    """The module in which recursive functions check how much of the stack is left.

    As `kb_thread`, they get the thread's frame as their first parameter. The check is a function of
    src/ext/emulator/kb_block.c.
    """
    for name in names:
        called = f"{symbol(name)}("
        text = text.replace(called, f"{called}ptr %kb.frame, ")
        text = text.replace("(ptr %kb.frame, )", "(ptr %kb.frame)")
    read = Module(text)
    for name in names:
        lines, size = _size_of_variables(read.functions[name], 0)
        check = [
            f"  %kb.thread.at = getelementptr i8, ptr %kb.frame, i64 {_THREAD_AT}",
            "  %kb.thread = load ptr, ptr %kb.thread.at",
            *lines,
            f"  call void @kb_recurse(ptr %kb.thread, i64 {size})\n",
        ]
        first = next(read.functions[name].instructions)
        first.text = "\n".join(check) + first.text
    return f"{read}declare void @kb_recurse(ptr, i64)\n"
