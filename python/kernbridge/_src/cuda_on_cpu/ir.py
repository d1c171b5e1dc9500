"""The LLVM IR of a Numba-CUDA kernel for the CPU.

Copies of the kernel's modules, which `copies` makes, are linked with the `.ll` files of this
package. Then it is known whether its threads may wait for each other: `entry` and either
ll/loops.ll or ll/fibres.ll define what runs them. All functions are inlined into `kb_thread`, but
those that call themselves.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from kernbridge import _core
from kernbridge._src.cuda_on_cpu import entry as around
from kernbridge._src.cuda_on_cpu import library, linked, polls, recursion, variables
from kernbridge._src.cuda_on_cpu.to_host import Copies, refused
from kernbridge._src.numba_common import private_llvmlite
from kernbridge._src.numba_common.private_llvmlite import binding as llvm

if TYPE_CHECKING:
    from kernbridge._src.cuda_on_cpu.checks import Checks

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
_LATER = {"kb.frame", "kb.site", "kb.check.at"}  # see _PLACEHOLDER

_PLACEHOLDER = re.compile(
    r"call ptr @kb\.frame\(\)|call i32 @kb\.site\(\)|call void @kb\.check\.at\(i32 (\d+)\)"
    r"|^declare .*@kb\.(?:frame|site|check\.at)\(.*$",
    re.M,
)
_ZEROED = re.compile(r"\bstore (\[.*\]) zeroinitializer, ptr ([^\s,]+)(?:, align \d+)?$", re.M)
_ZEROING = "void @llvm.memset.p0.i64(ptr"
_UNORDERED = re.compile(r"\bload atomic (.*?) unordered,")  # loads that may wait, see to_host.py
_THREAD = re.compile(r"^(define internal void @kb_thread\(.*\)) \{$", re.M)


def host_ir(
    label: str, compiled: Any, entry: str, checks: Checks | None = None
) -> tuple[str, bool]:
    """The IR of a library of Numba-CUDA for the CPU, and whether the kernel reads z indices.

    The IR has no data layout. With `checks` for the checked mode.
    """
    with opaque_pointers():
        copies = Copies(label, compiled.modules, checks)
        texts = [str(copied) for copied in copies.modules]
    return _whole(label, texts, entry, copies, checks, lambda: linked.sources(compiled))


def _whole(
    label: str,
    texts: list[str],
    entry: str,
    copies: Copies,
    checks: Checks | None,
    sources_of: Callable[[], Sequence[Any]],
) -> tuple[str, bool]:
    """The kernel with all that runs it, and whether it reads z indices.

    `sources_of` returns the CUDA C++ that the kernel links.
    """
    module, called = _linked(texts)
    external = called.intersection(copies.declared)
    foreign = {name for name in external if not name.startswith(_NOT_OF_C)} - _OF_C
    if foreign and (sources := sources_of()):
        if checks:
            raise refused(
                label, f"functions in CUDA C++ ({', '.join(sorted(foreign))}) in checked mode"
            )
        more = linked.compiled(label, sources, foreign)
        texts += linked.fitted(label, module, more, foreign)
        module, called = _linked(texts)
        copies.declared |= {name for name in called if not _core.cuda_code_provides(name)}
    waits = not called.isdisjoint(_OF_FIBRES)
    while True:
        _complete(module, entry, copies, checks, waits)
        recursive = _recursive(module)
        text, stack_size, polled = _polling(module, recursion.STACK if recursive else 0)
        if waits or not (recursive or polled):
            break
        # Only a fibre can measure how much of its stack is left, and let other threads go on.
        waits = True
        module, called = _linked(texts)
    _check(label, module, called.intersection(copies.declared))
    text = _placed(_with_arrays_in_memory(text), checks)
    if checks and recursion.has_checked_array(text, recursive):
        raise refused(label, "a local array in a recursive device function in checked mode")
    if recursion.is_value(text, recursive):
        raise refused(label, "a device function as a value")
    if recursive:
        text = recursion.bounded(text, recursive)
    text += stack_size
    if checks:
        with opaque_pointers():
            text += checks.table()  # with the places where threads wait
    return text, not called.isdisjoint({"kb.ctaid.z", "kb.nctaid.z"})


def _linked(texts: Sequence[str]) -> tuple[Any, set[str]]:
    """The kernel's modules as one, and the functions that it still declares."""
    module, *others = map(llvm.parse_assembly, texts)
    for other in others:
        module.link_in(other)
    return module, library.link(module)


def _complete(module: Any, entry: str, copies: Copies, checks: Checks | None, waits: bool) -> None:
    """Link in what runs the threads, and inline it all; `waits`: each thread has a stack."""
    by_threads = waits or checks is not None
    if checks:
        checks.waits = waits
    with opaque_pointers():
        text = str(around.module(entry, copies, checks, by_threads))
    module.link_in(llvm.parse_assembly(text))
    library.link_files(module, "frame", "fibres" if by_threads else "loops")
    _inline(module)


@contextmanager
def opaque_pointers() -> Iterator[None]:
    """Print llvmlite's IR with opaque pointers for LLVM; Numba-CUDA prints typed ones for NVVM."""
    from kernbridge._src.numba_common.private_numba_cuda import global_compiler_lock

    private_llvmlite.check_for_cuda_on_cpu()
    with global_compiler_lock, private_llvmlite.opaque_pointers():
        yield


def machine(features: str | None = None) -> Any:
    """LLVM's target machine of this process; it may use all features of `processor`, or these."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    cpu, present = processor()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=cpu,
        features=present if features is None else features,
        opt=3,
        reloc="pic",
        codemodel="default",
    )


def processor() -> tuple[str, str]:
    """LLVM's name of the processor that code is for, and its features.

    This one, unless the variables say otherwise that do so for Numba, which need not be there.
    """
    features = os.environ.get("NUMBA_CPU_FEATURES")
    return (
        os.environ.get("NUMBA_CPU_NAME") or llvm.get_host_cpu_name(),
        llvm.get_host_cpu_features().flatten() if features is None else features,
    )


@cache
def _passes() -> tuple[Any, Any]:
    """What inlines, and removes what is not needed then."""
    options = llvm.create_pipeline_tuning_options(speed_level=0)
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_global_dead_code_eliminate_pass()
    return passes, llvm.create_pass_builder(machine(), options)


@cache
def _values() -> Any:
    """What turns variables into values."""
    passes = llvm.create_new_function_pass_manager()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()  # the addresses of some lie in tuples
    passes.add_sroa_pass()
    return passes


def _inline(module: Any) -> None:
    """Inline all functions into kb_thread, or into those that are called from outside.

    They are marked for that in text: llvmlite 0.45 adds an attribute to the result of a function.
    """
    module.get_global_variable("kb.outside.all").linkage = "internal"
    for function in module.functions:
        if not function.is_declaration and function.name not in _KEPT:
            function.linkage = "internal"
    passes, builder = _passes()
    passes.run(module, builder)
    module.get_function("kb_thread").linkage = "internal"


def _recursive(module: Any) -> list[str]:
    return [function.name for function in module.functions if is_recursive(function)]


def is_recursive(function: Any) -> bool:
    """Whether this is a function of a kernel that is left, since it calls itself."""
    return not function.is_declaration and function.name not in (*_KEPT, "kb_stack_size")


def _check(label: str, module: Any, unknown: set[str]) -> None:
    """Refuse what a kernel calls and nothing defines."""
    unknown = unknown - _LATER - _OF_C
    for name in (function.name for function in module.functions if function.is_declaration):
        if name in unknown and not name.startswith("llvm."):
            construct = next(c for beginning, c in _UNSUPPORTED if name.startswith(beginning))
            raise refused(label, f"{construct} ({name})")


def _polling(module: Any, stack: int) -> tuple[str, str, bool]:
    """The module with calls in loops that wait, the size of its stack, and whether there are any.

    `stack` are the bytes that a thread needs besides its variables.
    """
    text = str(module)
    stack_size = _stack_size(text, stack)
    if not polls.may_poll(text):
        return text, stack_size, False
    for function in module.functions:
        if function.name == "kb_thread" or is_recursive(function):
            _values().run(function, _passes()[1])
    plain = str(module)
    polling = polls.with_polls(plain)
    if polling == plain:
        return _UNORDERED.sub(r"load \1,", text), stack_size, False
    return polling.replace(" unordered, align", " monotonic, align"), stack_size, True


def _with_arrays_in_memory(text: str) -> str:
    """The module with arrays that are set to zero as memory.

    Numba stores the array as one value, of which LLVM makes a store for each of its elements.
    """
    size = r"ptrtoint (ptr getelementptr (\1, ptr null, i64 1) to i64)"
    text, n = _ZEROED.subn(rf"call {_ZEROING} \2, i8 0, i64 {size}, i1 false)", text)
    is_new = n and f"declare {_ZEROING}" not in text
    return f"{text}\ndeclare {_ZEROING}, i8, i64, i1)\n" if is_new else text


def _placed(text: str, checks: Checks | None) -> str:
    """The module with what is known once all is inlined: the frame, and where threads wait.

    This is done on text, since llvmlite cannot change an instruction of a parsed module.
    """
    sites = itertools.count()
    place = 0

    def instead(found: re.Match[str]) -> str:
        nonlocal place
        if found[0].startswith("call ptr"):
            return "getelementptr i8, ptr %kb.frame, i64 0"
        if found[0].startswith("call i32"):
            number = checks.add_site(place) if checks else next(sites)
            return f"add i32 0, {number}"
        if found[1]:
            place = int(found[1])
        return ""

    text = _PLACEHOLDER.sub(instead, text)
    return _THREAD.sub(r"\1 alwaysinline {", text)  # by compile.py, with other passes


def _stack_size(text: str, more: int) -> str:
    """A function that returns what the variables of a thread take at most, and `more`."""
    lines, total = variables.size(text, text.index("define internal void @kb_thread("), more)
    return "\n".join(["define i64 @kb_stack_size() {", *lines, f"  ret i64 {total}", "}\n"])
