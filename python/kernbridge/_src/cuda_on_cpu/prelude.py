"""LLVM IR that stands for what only GPUs have, in kernels that run on the CPU.

Functions are named after what Numba-CUDA calls, with `kb.` for `llvm.nvvm.`; only those that a
kernel needs are linked to it. `kb.tid.x` and the like, `kb.thread`, `kb.site` and `kb.shared.*` are
replaced once everything is inlined, see `_cuda_host_ir`. The functions of C are in
src/hostcuda/kb_thread.h.
"""

from __future__ import annotations

import re

from kernbridge._src.cuda_on_cpu import half_names

_LINEAR = """
  %tx = call i32 @kb.tid.x()
  %ty = call i32 @kb.tid.y()
  %tz = call i32 @kb.tid.z()
  %nx = call i32 @kb.ntid.x()
  %ny = call i32 @kb.ntid.y()
  %yz = mul i32 %ny, %tz
  %row = add i32 %ty, %yz
  %rows = mul i32 %nx, %row
  %linear = add i32 %tx, %rows
"""

_WAIT = """
  %thread = call ptr @kb.thread()
  %site = call i32 @kb.site()
"""

_UNPACK = """
  %low = trunc i64 %w to i32
  %high = lshr i64 %w, 32
  %p = trunc i64 %high to i1
  %one = insertvalue { i32, i1 } undef, i32 %low, 0
  %both = insertvalue { i32, i1 } %one, i1 %p, 1
  ret { i32, i1 } %both
"""

_FUNCTIONS = {
    "kb.warpsize": "i32 () { ret i32 32 }",
    "kb.laneid": f"i32 () {{ {_LINEAR} %lane = and i32 %linear, 31 \n ret i32 %lane }}",
    "kb.lanemask_lt": """i32 () {
  %lane = call i32 @kb.laneid()
  %bit = shl i32 1, %lane
  %mask = sub i32 %bit, 1
  ret i32 %mask }""",
    "kb.barrier0": f"""void () {{ {_WAIT}
  call void @kb_barrier(ptr %thread, i32 %site)
  ret void }}""",
    "kb.bar.warp.sync": f"""void (i32 %mask) {{ {_WAIT}
  call void @kb_warp_barrier(ptr %thread, i32 %mask, i32 %site)
  ret void }}""",
    "kb.shfl.sync.i32": f"""{{ i32, i1 }} (i32 %m, i32 %mode, i32 %v, i32 %b, i32 %c) {{ {_WAIT}
  %w = call i64 @kb_shuffle(ptr %thread, i32 %m, i32 %mode, i32 %v, i32 %b, i32 %c, i32 %site)
  {_UNPACK} }}""",
    "kb.vote.sync": f"""{{ i32, i1 }} (i32 %m, i32 %mode, i1 %p0) {{ {_WAIT}
  %v = zext i1 %p0 to i32
  %w = call i64 @kb_vote(ptr %thread, i32 %m, i32 %mode, i32 %v, i32 %site)
  {_UNPACK} }}""",
    "kb.active_mask": f"""i32 () {{ {_WAIT}
  %mask = call i32 @kb_active_mask(ptr %thread, i32 %site)
  ret i32 %mask }}""",
    "cudaCGGetIntrinsicHandle": "i64 (i32 %scope) { ret i64 1 }",
    "cudaCGSynchronize": f"""i32 (i64 %grid, i32 %flags) {{ {_WAIT}
  call void @kb_grid_barrier(ptr %thread, i32 %site)
  ret i32 0 }}""",
    "kb.nanosleep": """void (i32 %ns) {
  %thread = call ptr @kb.thread()
  call void @kb_yield(ptr %thread)
  ret void }""",
    "kb.dynamic_shared": """i32 () {
  %thread = call ptr @kb.thread()
  %at = getelementptr i8, ptr %thread, i64 56
  %size = load i32, ptr %at
  ret i32 %size }""",
    "vprintf": """i32 (ptr %format, ptr %arguments) {
  %n = call i32 @kb_print(ptr %format, ptr %arguments)
  ret i32 %n }""",
    "numba_attempt_nocopy_reshape": """i32 (
    i64 %n, ptr %d, ptr %s, i64 %n1, ptr %d1, ptr %s1, i64 %size, i32 %fortran) {
  %done = call i32 @kb_reshape(
    i64 %n, ptr %d, ptr %s, i64 %n1, ptr %d1, ptr %s1, i64 %size, i32 %fortran)
  ret i32 %done }""",
}

for _name in ("gl", "cta", "sys"):
    _FUNCTIONS[f"kb.membar.{_name}"] = "void () { fence seq_cst \n ret void }"

for _number, _name in enumerate(("popc", "and", "or")):
    _FUNCTIONS[f"kb.barrier0.{_name}"] = f"""i32 (i32 %p) {{ {_WAIT}
  %n = call i32 @kb_barrier_reduce(ptr %thread, i32 {_number}, i32 %p, i32 %site)
  ret i32 %n }}"""

for _bits in (32, 64):
    _widen = "%wide = zext i32 %v to i64" if _bits == 32 else "%wide = add i64 %v, 0"
    for _all, _name in enumerate(("any", "all")):
        _call = f"""(i32 %m, i{_bits} %v) {{ {_WAIT} {_widen}
  %w = call i64 @kb_match(ptr %thread, i32 %m, i32 {_all}, i64 %wide, i32 %site)"""
        _FUNCTIONS[f"kb.match.{_name}.sync.i{_bits}"] = (
            f"{{ i32, i1 }} {_call} {_UNPACK} }}"
            if _all
            else f"i32 {_call}\n  %lanes = trunc i64 %w to i32\n  ret i32 %lanes }}"
        )

for _bits, _type in ((32, "float"), (64, "double")):
    for _name in (f"kb.atomic.load.add.f{_bits}.p0f{_bits}", f"___numba_atomic_{_type}_add"):
        _FUNCTIONS[_name] = f"""{_type} (ptr %at, {_type} %v) {{
  %old = atomicrmw fadd ptr %at, {_type} %v monotonic
  ret {_type} %old }}"""
    _FUNCTIONS[f"___numba_atomic_{_type}_sub"] = f"""{_type} (ptr %at, {_type} %v) {{
  %old = atomicrmw fsub ptr %at, {_type} %v monotonic
  ret {_type} %old }}"""
    for _name, _operation in (("inc", "uinc_wrap"), ("dec", "udec_wrap")):
        for _callee in (
            f"kb.atomic.load.{_name}.{_bits}.p0i{_bits}",
            f"___numba_atomic_u{_bits}_{_name}",
        ):
            _FUNCTIONS[_callee] = f"""i{_bits} (ptr %at, i{_bits} %v) {{
  %old = atomicrmw {_operation} ptr %at, i{_bits} %v monotonic
  ret i{_bits} %old }}"""
    # The number stays where either is NaN; the forms with "nan" put one in the place of a NaN.
    for _nan in ("", "nan"):
        for _name, _worse in (("max", "lt"), ("min", "gt")):
            _FUNCTIONS[
                f"___numba_atomic_{_type}_{_nan}{_name}"
            ] = f"""{_type} (ptr %at, {_type} %v) {{
entry:
  %is_nan = fcmp uno {_type} %v, %v
  %new = bitcast {_type} %v to i{_bits}
  %first = load atomic i{_bits}, ptr %at monotonic, align {_bits // 8}
  br i1 %is_nan, label %done, label %again
again:
  %old = phi i{_bits} [ %first, %entry ], [ %seen, %swap ]
  %number = bitcast i{_bits} %old to {_type}
  %replaces = fcmp {"u" if _nan else "o"}{_worse} {_type} %number, %v
  br i1 %replaces, label %swap, label %done
swap:
  %pair = cmpxchg ptr %at, i{_bits} %old, i{_bits} %new monotonic monotonic
  %seen = extractvalue {{ i{_bits}, i1 }} %pair, 0
  %swapped = extractvalue {{ i{_bits}, i1 }} %pair, 1
  br i1 %swapped, label %done, label %again
done:
  %last = phi i{_bits} [ %first, %entry ], [ %old, %again ], [ %old, %swap ]
  %result = bitcast i{_bits} %last to {_type}
  ret {_type} %result }}"""

_OUTSIDE = """
declare void @kb_barrier(ptr, i32)
declare i32 @kb_barrier_reduce(ptr, i32, i32, i32)
declare void @kb_warp_barrier(ptr, i32, i32)
declare i64 @kb_shuffle(ptr, i32, i32, i32, i32, i32, i32)
declare i64 @kb_vote(ptr, i32, i32, i32, i32)
declare i64 @kb_match(ptr, i32, i32, i64, i32)
declare i32 @kb_active_mask(ptr, i32)
declare void @kb_grid_barrier(ptr, i32)
declare void @kb_yield(ptr)
declare i32 @kb_print(ptr, ptr)
declare i32 @kb_reshape(i64, ptr, ptr, i64, ptr, ptr, i64, i32)
declare ptr @kb.thread()
declare i32 @kb.site()
declare i32 @kb.tid.x()
declare i32 @kb.tid.y()
declare i32 @kb.tid.z()
declare i32 @kb.ntid.x()
declare i32 @kb.ntid.y()
"""

for _real, _bits, _narrow in (("float", 32, "rn"), ("double", 64, "double")):
    _FUNCTIONS[f"kb.cvt.f{_bits}.f16"] = f"""{_real} (i16 %v) {{
  %half = bitcast i16 %v to half
  %wide = fpext half %half to {_real}
  ret {_real} %wide }}"""
    _FUNCTIONS[f"kb.cvt.rn.f16.f{_bits}"] = f"""i16 ({_real} %v) {{
  %half = call i16 @kb.f16.{_narrow}({_real} %v)
  ret i16 %half }}"""

for _sign in "su":
    for _bits in (8, 16, 32, 64):
        _FUNCTIONS[f"kb.cvt.rni.{_sign}{_bits}.f16"] = f"""i{_bits} (i16 %v) {{
  %n = call i{_bits} @kb.f16.to.{_sign}{_bits}.rn(i16 %v)
  ret i{_bits} %n }}"""
        _FUNCTIONS[f"kb.cvt.rn.f16.{_sign}{_bits}"] = f"""i16 (i{_bits} %v) {{
  %half = call i16 @kb.f16.from.{_sign}{_bits}.rn(i{_bits} %v)
  ret i16 %half }}"""

_FUNCTIONS["kb.tanh.approx.f32"] = """float (float %v) {
  %t = call float @__nv_tanhf(float %v)
  ret float %t }"""

_ASSEMBLY = {
    "mov.u32 $0, %dynamic_smem_size;": "kb.dynamic_shared",
    "activemask.b32 $0;": "kb.active_mask",
    "mov.u32 $0, %lanemask_lt;": "kb.lanemask_lt",
    "nanosleep.u32 $0;": "kb.nanosleep",
}


def assembled(result: str, assembly: str, operands: str) -> str:
    """An instruction in place of one in PTX; empty if there is none."""
    name = _ASSEMBLY.get(assembly) or "kb." + assembly.removesuffix(" $0, $1;")
    if name in _FUNCTIONS:
        return f'call {result} @"{name}"({operands})'
    if re.fullmatch(r"ld\.global\.\w+\.b\d+ \$0, \[\$1\];", assembly):
        return f"load {result}, {operands}"
    if re.fullmatch(r"st\.global\.\w+\.b\d+ \[\$0\], \$1;", assembly):
        address, value = operands.split(", ", 1)
        return f"store {value}, {address}"
    return ""


def declarations(text: str) -> str:
    """Of functions here that a module calls and does not declare."""
    declared = set(re.findall(r'^declare [^@\n]*@"?([\w.]+)', text, flags=re.M))
    called = set(re.findall(r'call [^@\n]*@"(kb\.[\w.]+)"\(', text)) - declared
    lines = []
    for name in sorted(called.intersection(_FUNCTIONS)):
        result, rest = _FUNCTIONS[name].split(" (", 1)
        parameters = re.sub(r" %\w+", "", rest.split(")", 1)[0])
        lines.append(f'\ndeclare {result} @"{name}"({parameters})')
    return "".join(lines)


def prelude(texts: list[str]) -> str:
    """Definitions of what these modules call; empty if they call none of it."""
    functions = _FUNCTIONS
    if any("half" in text or "bfloat16" in text or ".f16" in text for text in texts):
        functions = _FUNCTIONS | half_names.definitions()
    wanted: dict[str, str] = {}
    todo = texts
    while todo:
        named = {m for text in todo for m in re.findall(r'@"?([\w.]+)"?\(', text)}
        new = [name for name in functions if name in named and name not in wanted]
        for name in new:
            result, rest = functions[name].split(" (", 1)
            wanted[name] = f'define {result} @"{name}"({rest}\n'
        todo = [wanted[name] for name in new]
    return _OUTSIDE + _declared(wanted) + "".join(wanted.values()) if wanted else ""


def _declared(wanted: dict[str, str]) -> str:
    """Declarations of the mathematical functions that these definitions call."""
    heads = {}
    for text in wanted.values():
        for result, name, arguments in re.findall(
            r"call (\w+) @((?:llvm\.|__nv_)[\w.]+)\((.*?)\)", text
        ):
            kinds = ", ".join(argument.split()[0] for argument in arguments.split(", "))
            heads[name] = f"declare {result} @{name}({kinds})\n"
    return "".join(heads.values())
