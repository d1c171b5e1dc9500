"""Numba-CUDA kernels on the CPU: the same typed LLVM IR, for another processor.

All functions of a kernel are inlined into its entry. What the entry reads of thread and block
becomes loads from twelve slots, and around it go the loops over blocks and threads, in a function
`kb_blocks(parameters, sizes, begin, end)` that takes what cuLaunchKernel takes. Threads run one
after the other, which is one of the orders that CUDA allows, unless the kernel has barriers.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kernbridge import _core
from kernbridge._cache import Artefact
from kernbridge._errors import KernelCompilationError

CC = 1000  # of images for the CPU, as src/hostcuda/kb_hostcuda.h has it
TARGET = "kernbridge.cuda.host"

_REGISTERS = tuple(f"{r}.{d}" for r in ("tid", "ntid", "ctaid", "nctaid") for d in "xyz")


_NAMES = """
acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 exp10 expm1
fabs fdim floor fma fmax fmin fmod hypot ldexp lgamma log log10 log1p log2 logb nearbyint nextafter
pow remainder rint round sin sinh sqrt tan tanh tgamma trunc
"""
LIBM = frozenset(name + suffix for name in _NAMES.split() for suffix in ("", "f"))
"""Functions of libdevice (there with __nv_ before their names) that the C library has."""

_UNSUPPORTED = (  # what a call means, by the beginning of its name
    ("llvm.nvvm.barrier", "cuda.syncthreads"),
    ("llvm.nvvm.bar.warp", "cuda.syncwarp"),
    ("llvm.nvvm.shfl", "a warp shuffle"),
    ("llvm.nvvm.vote", "a warp vote"),
    ("llvm.nvvm.match", "a warp match"),
    ("llvm.nvvm.activemask", "cuda.activemask"),
    ("llvm.nvvm.membar", "a memory fence"),
    ("cudaCGGetIntrinsicHandle", "cuda.cg.this_grid"),
    ("llvm.nvvm", "an instruction of GPUs alone"),
    ("__nv_", "a function of libdevice that the C library does not have"),
    ("vprintf", "print"),
    ("", "a function that is not there on CPUs"),
)

_engines: dict[str, Any] = {}  # of each digest; the machine code lives as long as the process
_lock = threading.RLock()


class _NoNvvm:
    """What Numba-CUDA asks of libNVVM while it makes LLVM IR: two constants."""

    def __init__(self) -> None:
        from numba.cuda.cudadrv import nvvm

        self.data_layout = nvvm._datalayout

    def get_ir_version(self) -> tuple[int, int, int, int]:
        return 2, 0, 3, 2


@contextmanager
def without_nvvm() -> Iterator[None]:
    """Stop Numba-CUDA at LLVM IR, for which no CUDA library is needed. Under Numba's lock."""
    from numba.cuda import codegen
    from numba.cuda.cudadrv import nvvm

    library, whole = codegen.CUDACodeLibrary, nvvm.NVVM
    assemble = library.get_asm_str
    library.get_asm_str = lambda self, *_, **__: ""
    nvvm.NVVM = _NoNvvm
    try:
        yield
    finally:
        library.get_asm_str, nvvm.NVVM = assemble, whole


def artefact(label: str, compiled: Any, opened: tuple[int, ...], n_words: int) -> Artefact:
    """What is kept of a kernel that Numba-CUDA compiled, for the CPU.

    Raises
    ------
    KernelCompilationError
        If the kernel needs what a CPU does not have.
    """
    if compiled.cooperative:
        raise refused(label, "cuda.cg.this_grid")
    library = compiled._codelibrary
    image, uses_z = image_of(label, library, library._entry_name, n_words)
    return Artefact(
        meta={
            "entry": compiled.entry_name,
            "architectures": [CC],
            "opened": list(opened),
            "uses_z": uses_z,
            "cooperative": False,
        },
        blobs=(image,),
    )


def image_of(label: str, library: Any, entry: str, n_words: int) -> tuple[bytes, bool]:
    """The image of a kernel for the CPU, digest and LLVM IR; whether it reads z indices."""
    module = _inlined(label, library, entry)
    text = _with_loops(label, str(module), entry, n_words)
    digest = hashlib.sha256(text.encode()).hexdigest()
    uses_z = re.search(r"load i32, ptr %kb\.\w+\.z,", text) is not None
    return f"{digest}\n{text}\0".encode(), uses_z


def compile_image(image: bytes) -> None:
    """Make machine code of an image, unless this process did."""
    import llvmlite.binding as llvm

    digest, text = image[:-1].decode().split("\n", 1)
    with _lock:
        if digest in _engines:
            return
        machine = _machine()
        module = llvm.parse_assembly(text)
        module.triple = llvm.get_default_triple()
        module.data_layout = str(machine.target_data)
        module.verify()
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        options.loop_vectorization = options.slp_vectorization = True
        options.loop_interleaving = True
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)
        engine = llvm.create_mcjit_compiler(module, machine)
        engine.finalize_object()
        _engines[digest] = engine
        _core.add_host_code(digest.encode(), engine.get_function_address("kb_blocks"))


def provide(program: Any) -> None:
    """Make machine code of all kernels of a program for the CPU."""
    for function in program.functions:
        for cc, image in function.images:
            if cc == CC:
                compile_image(image)


def _machine() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3
    )


def _inlined(label: str, library: Any, entry: str) -> Any:
    """The kernel as one function, without what belongs to GPUs."""
    import llvmlite.binding as llvm

    whole = None
    for text in _texts(library.modules):
        text = re.sub(r"^target .*$", "", text, flags=re.M)
        text = re.sub(r"^(!nvvm|@\"?llvm\.used).*$", "", text, flags=re.M)
        text = text.replace("ptx_kernel ", "").replace("common global", "internal global")
        text = re.sub(r'"?llvm\.nvvm\.read\.ptx\.sreg\.([\w.]+)"?', r'"kb.\1"', text)
        text = re.sub(r", !range !\d+", "", text)
        if "addrspace(3)" in text:
            raise refused(label, "cuda.shared.array")
        text = re.sub(r" *addrspace\(\d\)", "", text)  # a CPU has one
        text = re.sub(r"addrspacecast \(ptr ([^ ]+) to ptr\)", r"\1", text)
        text = text.replace("= addrspacecast ptr", "= bitcast ptr")
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
    builder = llvm.create_pass_builder(
        _machine(), llvm.create_pipeline_tuning_options(speed_level=0)
    )
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(whole, builder)
    return whole


def _texts(modules: Any) -> list[str]:
    """LLVM IR with opaque pointers, which LLVM wants; Numba-CUDA prints typed ones for NVVM."""
    import llvmlite.ir._utils as utils
    import llvmlite.ir.types as types

    typed, printed = types.ir_layer_typed_pointers_enabled, utils._StrCaching.__str__
    types.ir_layer_typed_pointers_enabled = False
    utils._StrCaching.__str__ = lambda self: self._to_string()
    try:
        return [str(module) for module in modules]
    finally:
        types.ir_layer_typed_pointers_enabled, utils._StrCaching.__str__ = typed, printed


def _with_loops(label: str, text: str, entry: str, n_words: int) -> str:
    name = rf'"?{re.escape(entry)}"?'
    text = re.sub(
        r"call i32 @\"?kb\.([\w.]+?)\"?\(\)[^\n]*", lambda m: _register(label, m[1]), text
    )
    text = re.sub(r"^declare i32 @\"?kb\..*$", "", text, flags=re.M)
    text = re.sub(r"@__nv_(\w+)\(", lambda m: f"@{m[1] if m[1] in LIBM else m[0][1:-1]}(", text)
    if len(re.findall(r"^define ", text, flags=re.M)) != 1:
        raise refused(label, "a recursive device function")
    for declared in re.findall(r"^declare [^@\n]*@\"?([\w.$]+)", text, flags=re.M):
        if declared in LIBM or (declared.startswith("llvm.") and "nvvm" not in declared):
            continue
        construct = next(c for beginning, c in _UNSUPPORTED if declared.startswith(beginning))
        raise refused(label, f"{construct} ({declared})")
    if " asm " in text:
        raise refused(label, "inline PTX")
    slots = ", ".join(f"ptr noalias %kb.{r}" for r in _REGISTERS)
    text, n = re.subn(
        rf"^define [^@\n]*@{name}\(([^\n]*?)\)[^\n{{]*\{{",
        rf"define internal void @kb_thread({slots}{', ' if n_words else ''}\1) alwaysinline {{",
        text,
        flags=re.M,
    )
    assert n == 1
    return text + _loops(n_words)


def _register(label: str, register: str) -> str:
    if register == "warpsize":
        return "add i32 0, 32"
    if register == "laneid":
        raise refused(label, "cuda.laneid")
    if register not in _REGISTERS:
        raise refused(label, f"the special register {register}")
    return f"load i32, ptr %kb.{register}, align 4"


def refused(label: str, construct: str) -> KernelCompilationError:
    return KernelCompilationError(
        f"{label}: the kernel uses {construct}, which kernbridge does not run on CPUs; run it on a "
        "GPU"
    )


def _loops(n_words: int) -> str:
    """`kb_blocks`: blocks begin to end of a launch, and the threads of each.

    Masks tell LLVM that indices are not negative, without which it cannot see that neighbouring
    threads touch neighbouring elements.
    """
    lines = ["declare void @llvm.assume(i1)"]
    lines.append(
        "define void @kb_blocks(ptr noalias %kb.parameters, ptr noalias %kb.sizes, "
        "i64 %kb.begin, i64 %kb.end) {\nentry:"
    )
    lines += [f"  %kb.{r} = alloca i32" for r in _REGISTERS]
    for i in range(n_words):
        lines.append(f"  %kb.pp{i} = getelementptr ptr, ptr %kb.parameters, i64 {i}")
        lines.append(f"  %kb.p{i} = load ptr, ptr %kb.pp{i}")
        lines.append(f"  %kb.w{i} = load i64, ptr %kb.p{i}")
    for i, d in enumerate("xyz"):
        lines.append(f"  %kb.gp{d} = getelementptr i32, ptr %kb.sizes, i64 {i}")
        lines.append(f"  %kb.g{d} = load i32, ptr %kb.gp{d}")
        lines.append(f"  store i32 %kb.g{d}, ptr %kb.nctaid.{d}")
        lines.append(f"  %kb.bp{d} = getelementptr i32, ptr %kb.sizes, i64 {i + 3}")
        lines.append(f"  %kb.bl{d} = load i32, ptr %kb.bp{d}")
        lines.append(f"  %kb.b{d} = and i32 %kb.bl{d}, 2047")
        lines.append(f"  store i32 %kb.b{d}, ptr %kb.ntid.{d}")
    arguments = [f"ptr %kb.{r}" for r in _REGISTERS] + [f"i64 %kb.w{i}" for i in range(n_words)]
    lines.append(_LOOPS.replace("ARGUMENTS", ", ".join(arguments)))
    return "\n".join(lines)


_LOOPS = """\
  %kb.gx64 = zext i32 %kb.gx to i64
  %kb.gy64 = zext i32 %kb.gy to i64
  br label %kb.block
kb.block:
  %kb.b = phi i64 [ %kb.begin, %entry ], [ %kb.bnext, %kb.block.end ]
  %kb.more = icmp slt i64 %kb.b, %kb.end
  br i1 %kb.more, label %kb.block.begin, label %kb.done
kb.block.begin:
  %kb.cx = urem i64 %kb.b, %kb.gx64
  %kb.row = udiv i64 %kb.b, %kb.gx64
  %kb.cy = urem i64 %kb.row, %kb.gy64
  %kb.cz = udiv i64 %kb.row, %kb.gy64
  %kb.cxt = trunc i64 %kb.cx to i32
  %kb.cyt = trunc i64 %kb.cy to i32
  %kb.czt = trunc i64 %kb.cz to i32
  %kb.cx32 = and i32 %kb.cxt, 2147483647
  %kb.cy32 = and i32 %kb.cyt, 65535
  %kb.cz32 = and i32 %kb.czt, 65535
  store i32 %kb.cx32, ptr %kb.ctaid.x
  store i32 %kb.cy32, ptr %kb.ctaid.y
  store i32 %kb.cz32, ptr %kb.ctaid.z
  br label %kb.z
kb.z:
  %kb.iz = phi i32 [ 0, %kb.block.begin ], [ %kb.znext, %kb.z.end ]
  %kb.zmore = icmp ult i32 %kb.iz, %kb.bz
  br i1 %kb.zmore, label %kb.y.begin, label %kb.block.end
kb.y.begin:
  store i32 %kb.iz, ptr %kb.tid.z
  br label %kb.y
kb.y:
  %kb.iy = phi i32 [ 0, %kb.y.begin ], [ %kb.ynext, %kb.y.end ]
  %kb.ymore = icmp ult i32 %kb.iy, %kb.by
  br i1 %kb.ymore, label %kb.x.begin, label %kb.z.end
kb.x.begin:
  store i32 %kb.iy, ptr %kb.tid.y
  br label %kb.x
kb.x:
  %kb.ix = phi i32 [ 0, %kb.x.begin ], [ %kb.xnext, %kb.thread ]
  %kb.xmore = icmp ult i32 %kb.ix, %kb.bx
  br i1 %kb.xmore, label %kb.thread, label %kb.y.end
kb.thread:
  store i32 %kb.ix, ptr %kb.tid.x
  call void @kb_thread(ARGUMENTS)
  %kb.xnext = add nuw nsw i32 %kb.ix, 1
  br label %kb.x
kb.y.end:
  %kb.ynext = add nuw nsw i32 %kb.iy, 1
  br label %kb.y
kb.z.end:
  %kb.znext = add nuw nsw i32 %kb.iz, 1
  br label %kb.z
kb.block.end:
  %kb.bnext = add nuw nsw i64 %kb.b, 1
  br label %kb.block
kb.done:
  ret void
}
"""
