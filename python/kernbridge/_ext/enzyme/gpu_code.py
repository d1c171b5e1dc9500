"""Makes machine code of LLVM IR for NVIDIA's GPUs, by LLVM's own back end, with libdevice.

Mathematical functions have the names of C while Enzyme reads the IR. Here they get libdevice's.
"""

from __future__ import annotations

import re
from collections import Counter

from kernbridge._ext.enzyme import shared_loops, warps
from kernbridge._src.llvm.text import Module
from kernbridge._src.numba_common.private_llvmlite import binding as llvm
from kernbridge._src.numba_common.private_llvmlite import run_once
from kernbridge._src.numba_common.private_numba_cuda import driver, get_cuda_paths

TRIPLE = "nvptx64-nvidia-cuda"
_SHARED = "ptr addrspacecast (ptr addrspace(3) @kb_shared to ptr)"

# Functions of libdevice that have the names of C's in what Enzyme reads, and their own before and
# after it. LLVM's intrinsics that NVIDIA's back end does not know become libdevice's, too.
MATH = {"acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "copysign"}
MATH |= {"cos", "cosh", "erf", "erfc", "exp", "exp10", "exp2", "expm1", "fabs", "fdim", "floor"}
MATH |= {"fma", "fmax", "fmin", "fmod", "hypot", "j0", "j1", "jn", "ldexp", "log", "log10"}
MATH |= {"log1p", "log2", "nearbyint", "pow", "powi", "remainder", "rint", "round", "sin"}
MATH |= {"sinh", "sqrt", "tan", "tanh", "trunc", "y0", "y1", "yn"}
MATH |= {f"{name}f" for name in MATH}
_INTRINSICS = {"acos", "asin", "atan", "atan2", "cos", "cosh", "exp", "exp10", "exp2", "log"}
_INTRINSICS |= {"log10", "log2", "pow", "powi", "sin", "sinh", "tan", "tanh"}


def cubin(text: str, entry: str, cc: tuple[int, int], shared_size: int, registers: int) -> bytes:
    """Machine code for GPUs of a compute capability, with so many registers a thread, or any."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(TRIPLE)
    machine = target.create_target_machine(cpu=f"sm_{cc[0]}{cc[1]}", opt=3)
    text = shared_loops.with_shared_loops(warps.with_reads(text), entry, machine)
    module = Module(warps.on_gpus(text))
    for i in module.instructions("call"):
        if i.callee == "kb.shared":
            i.text = f"  {i.result} = getelementptr i8, {_SHARED}, i64 {i.operands[0].value}"
        elif i.callee == "malloc":  # the launch ends if a thread gets no memory for its loops
            i.text = f"  {i.result} = call ptr @kb_tape(i64 {i.operands[0].value})"
    for own in (name for name in module.defined if name == entry or name.startswith("kb_")):
        pointers = (i for i in module.defined[own].instructions if i.opcode == "inttoptr")
        for n, i in enumerate(pointers):  # into global memory
            name = f"%kb.global.{n}"
            i.text = f"  {name} = inttoptr i64 {i.operands[0].value} to ptr addrspace(1)"
            i.text += f"\n  {i.result} = addrspacecast ptr addrspace(1) {name} to ptr"
    f = module.functions[entry]
    f.head = f.head.replace("define void ", "define ptx_kernel void ", 1)
    f.head = f.head.removesuffix("{") + '"no-jump-tables"="true" {'
    text = str(module) + _TAPE * ("@kb_tape(" in str(module))
    text += f"\n@kb_shared = internal addrspace(3) global [{shared_size} x i8] undef, align 16\n"
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = TRIPLE, str(machine.target_data)
    if "@__nv_" in text:
        with open(get_cuda_paths()["libdevice"].info, "rb") as file:
            module.link_in(llvm.parse_bitcode(file.read()))
    for f in module.functions:
        if not f.is_declaration and f.name != entry:
            f.linkage = "internal"
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    builder = llvm.create_pass_builder(machine, options)
    run_once(builder.getModulePassManager(), module, builder)
    linker = driver._Linker(max_registers=registers or None, cc=(*cc, ""))
    linker.add_ptx(_with_reductions(machine.emit_assembly(module)).encode())
    return bytes(linker.complete().code)


def _with_reductions(ptx: str) -> str:
    """PTX in which atomic additions whose result is not used are reductions.

    Neither LLVM nor nvJitLink makes them of such additions, and sums would come back from memory.
    An addition stays as it is if another function has a register of the same name.
    """
    uses = Counter(re.findall(r"%\w+", ptx))
    addition = re.compile(r"\batom(\.global\.add\.f(?:32|64))\s+(%\w+), ")
    return addition.sub(lambda a: f"red{a[1]} \t" if uses[a[2]] == 1 else a[0], ptx)


def libdevice_name(name: str) -> str:
    """The name of a function in libdevice; another name as it is."""
    library, function, kind, *_ = [*name.split("."), "", ""]
    if library == "llvm" and function in _INTRINSICS and kind in ("f32", "f64"):
        return f"__nv_{function}{'f' * (kind == 'f32')}"
    return f"__nv_{name}" if name in MATH else name


def tape(text: str) -> str:
    """How much memory each thread of a derivative allocates, in words."""
    calls = Module(text).instructions("call")
    sizes = [i.operands[0].value for i in calls if i.callee == "malloc"]
    if not sizes:
        return ""
    if all(size.isdigit() for size in sizes):
        return f"{sum(map(int, sizes)):,} bytes"
    return "an amount that grows with the steps of a loop"


_TAPE = """
declare void @__assertfail(ptr, ptr, i32, ptr, i64)
@kb_what = private constant [55 x i8] c"memory for what a derivative's loops overwrite is left\\00"
@kb_where = private constant [11 x i8] c"derivative\\00"
define internal noalias ptr @kb_tape(i64 %size) {
  %memory = call ptr @malloc(i64 %size)
  %none = icmp eq ptr %memory, null
  br i1 %none, label %fail, label %end
fail:
  call void @__assertfail(ptr @kb_what, ptr @kb_where, i32 0, ptr @kb_where, i64 1)
  br label %end
end:
  ret ptr %memory
}
"""
