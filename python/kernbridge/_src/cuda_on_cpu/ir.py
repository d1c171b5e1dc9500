"""The LLVM IR of a Numba-CUDA kernel, rewritten for the CPU.

All functions of a kernel are inlined into its entry. What the entry reads of thread and block
becomes loads from twelve slots. Around it goes one of two functions:

- `kb_blocks(parameters, sizes, begin, end, found)`, loops over blocks and threads: threads run one
  after the other, which is one of the orders that CUDA allows, unless they wait for each other;
- `kb_fibre(parameters, thread)`, one thread of a kernel that has barriers, shared memory or
  operations of warps; src/hostcuda runs it, and gives the thread's place as a `kb_thread`.

Both take parameters as cuLaunchKernel does.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

from kernbridge._src.base.errors import KernelCompilationError
from kernbridge._src.cuda_on_cpu import defined, libdevice
from kernbridge._src.cuda_on_cpu import prelude as cuda_on_cpu_prelude
from kernbridge._src.cuda_on_cpu.loops import LOOPS
from kernbridge._src.cuda_on_cpu.outside import Outside

if TYPE_CHECKING:
    from kernbridge._src.cuda_on_cpu.checks import Checks

REGISTERS = tuple(f"{r}.{d}" for r in ("tid", "ntid", "ctaid", "nctaid") for d in "xyz")
_MASKS = {"tid": 1023, "ntid": 2047, "ctaid": 2**31 - 1, "nctaid": 2**31 - 1}

_UNSUPPORTED = (  # what a call means, by the beginning of its name
    ("cudaCG", "cuda.cg.this_grid"),
    ("kb.", "an instruction of GPUs alone"),
    ("__nv_", "a function of libdevice that kernbridge does not know"),
    ("_Z", "a function in CUDA C++"),
    ("____", "a function in CUDA C++"),
    ("", "a function that is not there on CPUs"),
)

_THREAD_SHARED = 48  # its offset in kb_thread
_ALIGNMENT = 16  # of shared arrays, at least


def host_ir(label: str, library: Any, entry: str, checks: Checks | None = None) -> str:
    """The IR of a module for the CPU, without a data layout; with `checks` for the checked mode."""
    shared = _SharedArrays(library.modules, checks)
    texts = [_cleaned(label, text, shared, checks) for text in printed(library.modules)]
    prelude = cuda_on_cpu_prelude.prelude(texts)
    module = _inlined([*texts, prelude] if prelude else texts, entry)
    types = [str(a.type) for a in module.get_function(entry).arguments]
    return _wrapped(label, str(module), entry, types, shared, checks)


def refused(label: str, construct: str) -> KernelCompilationError:
    """The error for what a CPU cannot run."""
    return KernelCompilationError(
        f"{label}: the kernel uses {construct}, which kernbridge does not run on CPUs; run it on a "
        "GPU"
    )


def printed(modules: Any) -> list[str]:
    """LLVM IR with opaque pointers, which LLVM wants; Numba-CUDA prints typed ones for NVVM."""
    from kernbridge._src.numba_common import llvmlite_inside
    from kernbridge._src.numba_common.numba_cuda_inside import global_compiler_lock

    llvmlite_inside.check_for_cuda_on_cpu()
    with global_compiler_lock, llvmlite_inside.opaque_pointers():
        return [str(module) for module in modules]


class _SharedArrays:
    """Where each shared array begins in a block's shared memory: static ones, then the others."""

    def __init__(self, modules: Any, checks: Checks | None) -> None:
        from kernbridge._src.numba_common.llvmlite_inside import binding as llvm

        layout = llvm.create_target_data("e-m:e-i64:64-i128:128-f80:128-n8:16:32:64-S128")
        self.offsets: dict[str, int] = {}
        self.size = 0
        dynamic = []
        for variable in itertools.chain(*(m.global_values for m in modules)):
            if getattr(variable, "addrspace", 0) != 3 or variable.name in self.offsets:
                continue
            size = variable.value_type.get_abi_size(layout)
            if size == 0:
                dynamic.append(variable.name)
                continue
            self.offsets[variable.name] = self._aligned(variable.align or 1)
            self.size = self.offsets[variable.name] + size
        self.size = self._aligned(_ALIGNMENT)
        self.offsets.update(dict.fromkeys(dynamic, self.size))
        if checks:
            for variable in itertools.chain(*(m.global_values for m in modules)):
                if variable.name in self.offsets and variable.name not in checks.shared:
                    array = variable.value_type
                    item_size = array.element.get_abi_size(layout)
                    checks.add_shared(
                        variable.name,
                        str(array.element),
                        array.get_abi_size(layout),
                        item_size,
                        self.offsets[variable.name],
                    )

    def _aligned(self, alignment: int) -> int:
        alignment = max(alignment, _ALIGNMENT)
        return -(-self.size // alignment) * alignment


def _cleaned(label: str, text: str, shared: _SharedArrays, checks: Checks | None) -> str:
    """One module without what belongs to GPUs."""
    text = re.sub(r"^target .*$", "", text, flags=re.M)
    text = re.sub(r"^(!nvvm|!\"?llvm\.dbg\.cu|@\"?llvm\.used).*$", "", text, flags=re.M)
    text = re.sub(
        r"^ *(#dbg_|call void @\"?llvm\.dbg\.|declare void @\"?llvm\.dbg\.).*$",
        "",
        text,
        flags=re.M,
    )
    text = text.replace("ptx_kernel ", "").replace("common global", "internal global")
    text = text.replace("llvm.nvvm.read.ptx.sreg.", "kb.").replace("llvm.nvvm.", "kb.")
    for name in shared.offsets:
        text = text.replace(
            f'addrspacecast ptr addrspace(3) @"{name}" to ptr', f'call ptr @"kb.shared.{name}"()'
        )
        text = re.sub(
            rf'^@"{re.escape(name)}" = .*$',
            f'declare ptr @"kb.shared.{name}"()',
            text,
            flags=re.M,
        )
    text = re.sub(
        r'call (\S+) asm\s+(?:sideeffect\s+)?"([^"]*)",\s*"[^"]*"\s*\((.*)\)',
        lambda m: _assembled(label, m),
        text,
    )
    if "addrspace(3)" in text:
        raise refused(label, "shared memory in a way that is not an array's")
    text = re.sub(r" *addrspace\(\d\)", "", text)  # a CPU has one
    text = re.sub(r"addrspacecast \(ptr ([^ ]+) to ptr\)", r"\1", text)
    text = text.replace("= addrspacecast ptr", "= bitcast ptr")
    if checks:
        text = checks.ask(text)
    text = re.sub(r",? *!(range|dbg) !\d+", "", text)
    return text + cuda_on_cpu_prelude.declarations(text)


def _assembled(label: str, found: re.Match[str]) -> str:
    instruction = cuda_on_cpu_prelude.assembled(*found.groups())
    if not instruction:
        raise refused(label, f"inline PTX ({found[2]})")
    return instruction


def machine() -> Any:
    """LLVM's target machine of this process."""
    from kernbridge._src.numba_common.llvmlite_inside import binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        reloc="pic",
    )


def _inlined(texts: list[str], entry: str) -> Any:
    """The kernel as one function."""
    from kernbridge._src.numba_common.llvmlite_inside import binding as llvm

    whole = None
    for text in texts:
        module = llvm.parse_assembly(text)
        if whole is None:
            whole = module
        else:
            whole.link_in(module)
    assert whole is not None
    for function in whole.functions:
        if not function.is_declaration and function.name != entry:
            function.linkage = "internal"
            function.add_function_attribute("alwaysinline")
    options = llvm.create_pipeline_tuning_options(speed_level=0)
    builder = llvm.create_pass_builder(machine(), options)
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(whole, builder)
    return whole


def _wrapped(
    label: str,
    text: str,
    entry: str,
    types: list[str],
    shared: _SharedArrays,
    checks: Checks | None,
) -> str:
    name = rf'"?{re.escape(entry)}"?'
    if checks:
        text = checks.placed(text)
    text = re.sub(
        r'call i32 @"?kb\.([\w.]+?)"?\(\)[^\n]*',
        lambda m: f"load i32, ptr %kb.{m[1]}, align 4" if m[1] in REGISTERS else m[0],
        text,
    )
    text = re.sub(
        r'call ptr @"?kb\.shared\.([\w.$]+?)"?\(\)[^\n]*',
        lambda m: f"getelementptr i8, ptr %kb.shared, i64 {shared.offsets[m[1]]}",
        text,
    )
    text = re.sub(
        r"call ptr @kb\.thread\(\)[^\n]*", "getelementptr i8, ptr %kb.thread, i64 0", text
    )
    sites = itertools.count()
    text = re.sub(r"call i32 @kb\.site\(\)[^\n]*", lambda _: f"add i32 0, {next(sites)}", text)
    replaced = "|".join(map(re.escape, (*REGISTERS, "thread", "site")))
    text = re.sub(
        rf'^declare [^@\n]*@"?kb\.(?:shared\.[^(\n]*|{replaced})"?\(.*$', "", text, flags=re.M
    )
    if len(re.findall(r"^define ", text, flags=re.M)) != 1:
        raise refused(label, "a recursive device function")
    outside = Outside(text)
    by_threads = bool(checks) or "ptr %kb.thread," in text or "%kb.shared," in text
    text = outside.replaced(text, by_threads)
    _check_declared(label, text)
    text = defined.defined(libdevice.rewrite(text))
    slots = [f"ptr noalias %kb.{r}" for r in REGISTERS]
    slots += ["ptr %kb.thread", "ptr %kb.shared"] if by_threads else ["ptr noalias %kb.outside"]
    text, n = re.subn(
        rf"^define [^@\n]*@{name}\(([^\n]*?)\)[^\n{{]*\{{",
        rf"define internal void @kb_thread({', '.join(slots)}{', ' if types else ''}\1) "
        "alwaysinline {",
        text,
        flags=re.M,
    )
    assert n == 1
    text += _sizes(text, shared.size) + outside.definitions(by_threads)
    if checks:
        text += checks.table()
    return text + (_fibre(types, checks) if by_threads else outside.returned(_loops(types)))


def _check_declared(label: str, text: str) -> None:
    for declared in re.findall(r"^declare [^@\n]*@\"?([\w.$]+)", text, flags=re.M):
        if declared.startswith(("llvm.", "kb_")) or libdevice.known(declared):
            continue
        construct = next(c for beginning, c in _UNSUPPORTED if declared.startswith(beginning))
        raise refused(label, f"{construct} ({declared})")


def _sizes(text: str, shared: int) -> str:
    """Functions that tell what a thread's variables take at most, and static shared memory."""
    lines = [
        f"define i64 @kb_shared_size() {{ ret i64 {shared} }}",
        "define i64 @kb_stack_size() {",
    ]
    total = "0"
    for i, kind in enumerate(re.findall(r"= alloca (.*?)(?:, align \d+)?$", text, flags=re.M)):
        count = re.fullmatch(r"(.*), i(?:32|64) (\d+)", kind)
        kind, n = (count[1], count[2]) if count else (kind, "1")
        lines.append(f"  %p{i} = getelementptr {kind}, ptr null, i64 {n}")
        lines.append(f"  %n{i} = ptrtoint ptr %p{i} to i64")
        lines.append(f"  %s{i} = add i64 {total}, %n{i}")
        total = f"%s{i}"
    return "\n".join([*lines, f"  ret i64 {total}", "}\n"])


def _parameters(types: list[str]) -> list[str]:
    lines = []
    for i, kind in enumerate(types):
        lines.append(f"  %kb.pp{i} = getelementptr ptr, ptr %kb.parameters, i64 {i}")
        lines.append(f"  %kb.p{i} = load ptr, ptr %kb.pp{i}")
        lines.append(f"  %kb.w{i} = load {kind}, ptr %kb.p{i}")
    return lines


def _arguments(types: list[str], *more: str) -> str:
    words = [f"{kind} %kb.w{i}" for i, kind in enumerate(types)]
    return ", ".join([*(f"ptr %kb.{r}" for r in REGISTERS), *more, *words])


def _fibre(types: list[str], checks: Checks | None) -> str:
    lines = ["define void @kb_fibre(ptr noalias %kb.parameters, ptr %kb.thread) {", "entry:"]
    for i, register in enumerate(REGISTERS):
        mask = _MASKS[register.split(".")[0]]
        lines.append(f"  %kb.{register} = alloca i32")
        lines.append(f"  %kb.r{i} = getelementptr i32, ptr %kb.thread, i64 {i}")
        lines.append(f"  %kb.l{i} = load i32, ptr %kb.r{i}")
        lines.append(f"  %kb.m{i} = and i32 %kb.l{i}, {mask}")
        lines.append(f"  store i32 %kb.m{i}, ptr %kb.{register}")
    lines.append(f"  %kb.sp = getelementptr i8, ptr %kb.thread, i64 {_THREAD_SHARED}")
    lines.append("  %kb.shared = load ptr, ptr %kb.sp")
    arguments = _arguments(types, "ptr %kb.thread", "ptr %kb.shared")
    lines += _parameters(types)
    for i, argument in enumerate(checks.arguments if checks else ()):
        given = f"i64 %kb.w{argument.word}"
        lines.append(f"  %kb.c{i} = call i64 @kb_check_argument(ptr %kb.thread, {given}, i32 {i})")
        arguments = re.sub(rf"{given}\b", f"i64 %kb.c{i}", arguments)
    return "\n".join([*lines, f"  call void @kb_thread({arguments})", "  ret void", "}\n"])


def _loops(types: list[str]) -> str:
    """Masks tell LLVM that indices are not negative, without which it cannot see that neighbouring
    threads touch neighbouring elements.
    """
    lines = [
        "define void @kb_blocks(ptr noalias %kb.parameters, ptr noalias %kb.sizes, "
        "i64 %kb.begin, i64 %kb.end, ptr noalias %kb.found) {\nentry:",
        "  %kb.outside = alloca i64",
        "  store i64 0, ptr %kb.outside",
    ]
    lines += [f"  %kb.{r} = alloca i32" for r in REGISTERS]
    lines += _parameters(types)
    for i, d in enumerate("xyz"):
        lines.append(f"  %kb.gp{d} = getelementptr i32, ptr %kb.sizes, i64 {i}")
        lines.append(f"  %kb.g{d} = load i32, ptr %kb.gp{d}")
        lines.append(f"  store i32 %kb.g{d}, ptr %kb.nctaid.{d}")
        lines.append(f"  %kb.bp{d} = getelementptr i32, ptr %kb.sizes, i64 {i + 3}")
        lines.append(f"  %kb.bl{d} = load i32, ptr %kb.bp{d}")
        lines.append(f"  %kb.b{d} = and i32 %kb.bl{d}, 2047")
        lines.append(f"  store i32 %kb.b{d}, ptr %kb.ntid.{d}")
    lines.append(LOOPS.replace("ARGUMENTS", _arguments(types, "ptr %kb.outside")))
    return "\n".join(lines)
