"""libdevice on CPUs: functions that call one of LLVM, of the C library or of kernbridge.

In a signature, the letter `x` is the number that a function is about; `_KINDS` has the other
letters. The functions that follow no rule are written out in `_CALLED` and `_COMPUTED`.
"""

from __future__ import annotations

from collections.abc import Mapping

import halves

_REALS = (("double", "f64", ""), ("float", "f32", "f"))  # a type, its intrinsics, C's letter
_KINDS = {"d": "double", "f": "float", "i": "i32", "l": "i64", "p": "ptr"}
_INTEGERS = {"int": (32, "s"), "uint": (32, "u"), "ll": (64, "s"), "ull": (64, "u")}

_INTRINSICS = {
    "x": "ceil fabs floor nearbyint rint round sqrt trunc",
    "xx": "copysign",
    "xxx": "fma",
}
_OF_C = {
    "x": "acos acosh asin asinh atan atanh cos erf erfc exp exp2 expm1 log log1p log2 logb sin "
    "sinh tan",
    "xx": "atan2 fdim fmod hypot nextafter pow remainder",
    "xp": "frexp modf",
    "xi": "ldexp",
    "xxp": "remquo",
}
_OF_C_FOR_FLOATS = "cosh exp10 log10 tanh"  # doubles have kernbridge's
_FAST = "cos exp exp10 log log10 log2 sin tan"
_OF_C_FOR_DOUBLES = {"x": "j0 j1 tgamma y0 y1"}  # floats round what it returns
_OURS = {  # as kb_nv_x; floats round what it returns
    "x": "cbrt rcbrt lgamma erfcx erfinv erfcinv normcdf normcdfinv sinpi cospi",
    "ix": "jn yn",
}
_OURS_ROUNDED = {  # of floats alone
    "x": "cyl_bessel_i0 cyl_bessel_i1",
    "xx": "rhypot",
    "xxx": "norm3d rnorm3d",
    "xxxx": "norm4d rnorm4d",
}
_DIRECTED = {  # as kb_nv_x, with the suffixes rd, ru and rz
    "d dd": "dadd dmul ddiv",
    "d d": "drcp dsqrt",
    "d ddd": "fma",
    "d l": "ll2double ull2double",
    "f ff": "fadd fsub fmul fdiv",
    "f f": "frcp fsqrt",
    "f fff": "fmaf",
    "f d": "double2float",
    "f i": "int2float uint2float",
    "f l": "ll2float ull2float",
}
_SAME_BITS = {
    "double_as_longlong": "dl",
    "longlong_as_double": "ld",
    "float_as_int": "fi",
    "float_as_uint": "fi",
    "int_as_float": "if",
    "uint_as_float": "if",
}

_CALLED = {
    "rsqrt": """double (double %given) {
        %tiny = fcmp olt double %given, 0x2000000000000000
        %up = select i1 %tiny, double 0x5FF0000000000000, double 1.0
        %back = select i1 %tiny, double 0x4FF0000000000000, double 1.0
        %x = fmul double %given, %up
        %root = call double @llvm.sqrt.f64(double %x)
        %inverse = fdiv double 1.0, %root
        %minus = fneg double %root
        %lost = call double @llvm.fma.f64(double %minus, double %root, double %x)
        %left = call double @llvm.fma.f64(double %minus, double %inverse, double 1.0)
        %square = fmul double %inverse, %inverse
        %half = fmul double %square, -0.5
        %step = call double @llvm.fma.f64(double %lost, double %half, double %left)
        %better = call double @llvm.fma.f64(double %inverse, double %step, double %inverse)
        %positive = fcmp ogt double %x, 0.0
        %finite = fcmp olt double %x, 0x7FF0000000000000
        %usual = and i1 %positive, %finite
        %value = select i1 %usual, double %better, double %inverse
        %r = fmul double %value, %back ret double %r }""",
    "rsqrtf": """float (float %x) {
        %root = call float @llvm.sqrt.f32(float %x)
        %r = fdiv float 1.0, %root ret float %r }""",
    "frsqrt_rn": """float (float %x) {
        %wide = fpext float %x to double
        %root = call double @llvm.sqrt.f64(double %wide)
        %inverse = fdiv double 1.0, %root
        %r = fptrunc double %inverse to float ret float %r }""",
    "powi": """double (double %x, i32 %n) {
        %y = sitofp i32 %n to double
        %r = call double @pow(double %x, double %y) ret double %r }""",
    "fast_powf": """float (float %x, float %y) {
        %l = call float @log2f(float %x)
        %p = fmul float %y, %l
        %r = call float @exp2f(float %p) ret float %r }""",
    # A divisor above 2^126 gives a zero, or NaN of what is infinite, as on GPUs.
    "fast_fdividef": """float (float %x, float %y) {
        %size = call float @llvm.fabs.f32(float %y)
        %large = fcmp ogt float %size, 0x47D0000000000000
        %zero = call float @llvm.copysign.f32(float 0.0, float %y)
        %p = fmul float %x, %zero
        %q = fdiv float %x, %y
        %r = select i1 %large, float %p, float %q ret float %r }""",
    "saturatef": """float (float %x) {
        %over = fcmp ogt float %x, 0.0
        %low = select i1 %over, float %x, float 0.0
        %under = fcmp olt float %low, 1.0
        %r = select i1 %under, float %low, float 1.0 ret float %r }""",
}
_COMPUTED = {
    "mul24": """i32 (i32 %x, i32 %y) {
        %xh = shl i32 %x, 8
        %xs = ashr i32 %xh, 8
        %yh = shl i32 %y, 8
        %ys = ashr i32 %yh, 8
        %r = mul i32 %xs, %ys ret i32 %r }""",
    "umul24": """i32 (i32 %x, i32 %y) {
        %xs = and i32 %x, 16777215
        %ys = and i32 %y, 16777215
        %r = mul i32 %xs, %ys ret i32 %r }""",
    "double2hiint": """i32 (double %x) {
        %bits = bitcast double %x to i64
        %high = lshr i64 %bits, 32
        %r = trunc i64 %high to i32 ret i32 %r }""",
    "double2loint": """i32 (double %x) {
        %bits = bitcast double %x to i64
        %r = trunc i64 %bits to i32 ret i32 %r }""",
    "hiloint2double": """double (i32 %x, i32 %y) {
        %top = zext i32 %x to i64
        %high = shl i64 %top, 32
        %low = zext i32 %y to i64
        %bits = or i64 %high, %low
        %r = bitcast i64 %bits to double ret double %r }""",
}


def _parameters(letters: str, real: str = "") -> str:
    kinds = (real if letter == "x" else _KINDS[letter] for letter in letters)
    return ", ".join(f"{kind} %{name}" for kind, name in zip(kinds, "xyzw", strict=False))


def _calling(called: str, result: str, letters: str) -> str:
    parameters = _parameters(letters, result)
    return (
        f"{result} ({parameters}) {{ %r = call {result} @{called}({parameters}) ret {result} %r }}"
    )


def _rounded(called: str, letters: str) -> str:
    """A function of floats that rounds what a function of doubles returns."""
    wide = "".join(
        f"%{name}d = fpext float %{name} to double "
        for name, letter in zip("xyzw", letters, strict=False)
        if letter == "x"
    )
    arguments = ", ".join(
        f"double %{name}d" if letter == "x" else f"{_KINDS[letter]} %{name}"
        for name, letter in zip("xyzw", letters, strict=False)
    )
    return f"""float ({_parameters(letters, "float")}) {{ {wide}
        %d = call double @{called}({arguments})
        %r = fptrunc double %d to float ret float %r }}"""


def _each(table: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(letters, name) for letters, names in table.items() for name in names.split()]


def calls() -> dict[str, str]:
    found = {**_CALLED, "powif": _rounded("__nv_powi", "xi")}
    for real, suffix, f in _REALS:
        for letters, name in _each(_INTRINSICS):
            found[name + f] = _calling(f"llvm.{name}.{suffix}", real, letters)
        for letters, name in _each(_OF_C):
            found[name + f] = _calling(name + f, real, letters)
        found[f"scalbn{f}"] = _calling(f"ldexp{f}", real, "xi")
        found[f"ilogb{f}"] = f"""i32 ({real} %x) {{
            %n = call i32 @ilogb{f}({real} %x)
            %t = fcmp ueq {real} %x, 0.0
            %r = select i1 %t, i32 -2147483648, i32 %n ret i32 %r }}"""
        kind = f"i{suffix[1:]}"
        for name, operation in (("min", "or"), ("max", "and")):
            found[f"f{name}{f}"] = f"""{real} ({real} %x, {real} %y) {{
                %m = call {real} @llvm.{name}num.{suffix}({real} %x, {real} %y)
                %t = fcmp oeq {real} %x, %y
                %a = bitcast {real} %x to {kind}
                %b = bitcast {real} %y to {kind}
                %c = {operation} {kind} %a, %b
                %d = bitcast {kind} %c to {real}
                %r = select i1 %t, {real} %d, {real} %m ret {real} %r }}"""
    for letters, name in _each(_OF_C_FOR_DOUBLES):
        found[name] = _calling(name, "double", letters)
        found[f"{name}f"] = _rounded(name, letters)
    for letters, name in _each(_OURS):
        found[name] = _calling(f"kb_nv_{name}", "double", letters)
        found[f"{name}f"] = _rounded(f"kb_nv_{name}", letters)
    for letters, name in _each(_OURS_ROUNDED):
        found[f"{name}f"] = _rounded(f"kb_nv_{name}", letters)
    for name in _OF_C_FOR_FLOATS.split():
        found[name] = _calling(f"kb_nv_{name}", "double", "x")
        found[f"{name}f"] = _calling(f"{name}f", "float", "x")
    for name in _FAST.split():
        found[f"fast_{name}f"] = _calling(f"{name}f", "float", "x")
    for name, real, called in (
        ("sincos", "double", "llvm.{}.f64"),
        ("sincospi", "double", "kb_nv_{}pi"),
        ("sincosf", "float", "llvm.{}.f32"),
        ("sincospif", "float", "__nv_{}pif"),
        ("fast_sincosf", "float", "llvm.{}.f32"),
    ):
        found[name] = f"""ptr ({real} %x, ptr %ps, ptr %pc) {{
            %s = call {real} @{called.format("sin")}({real} %x)
            %c = call {real} @{called.format("cos")}({real} %x)
            store {real} %s, ptr %ps store {real} %c, ptr %pc ret ptr null }}"""
    return found


def conversions() -> dict[str, str]:
    found = {
        "half2float": "float (i16 %x) { %r = call float @kb.f16.widen(i16 %x) ret float %r }",
        "float2half_rn": "i16 (float %x) { %r = call i16 @kb.f16.rn(float %x) ret i16 %r }",
        "double2float_rn": "float (double %x) { %r = fptrunc double %x to float ret float %r }",
    }
    for real, suffix, f in _REALS:
        to_integers = {
            f"{real}2{word}_{mode}": (word, function)
            for word in _INTEGERS
            for mode, function in halves.MODES.items()
        }
        to_integers |= {f"llrint{f}": ("ll", "rint"), f"llround{f}": ("ll", "round")}
        for name, (word, function) in to_integers.items():
            bits, sign = _INTEGERS[word]
            found[name] = f"""i{bits} ({real} %x) {{
                %w = call {real} @llvm.{function}.{suffix}({real} %x)
                %r = call i{bits} @kb.fpto{sign}i.{suffix}.i{bits}({real} %w) ret i{bits} %r }}"""
        for word, (bits, sign) in _INTEGERS.items():
            found[f"{word}2{real}_rn"] = f"""{real} (i{bits} %x) {{
                %r = {sign}itofp i{bits} %x to {real} ret {real} %r }}"""
        d, fence = real[0], f"call {real} @llvm.arithmetic.fence.{suffix}"
        for name in ("add", "sub"):
            found[f"{d}{name}_rn"] = f"""{real} ({real} %x, {real} %y) {{
                %a = {fence}({real} %x)
                %b = {fence}({real} %y)
                %r = f{name} {real} %a, %b ret {real} %r }}"""
        found[f"{d}mul_rn"] = f"""{real} ({real} %x, {real} %y) {{
            %m = fmul {real} %x, %y
            %r = {fence}({real} %m) ret {real} %r }}"""
        found[f"{d}div_rn"] = f"""{real} ({real} %x, {real} %y) {{
            %r = fdiv {real} %x, %y ret {real} %r }}"""
        found[f"{d}rcp_rn"] = f"{real} ({real} %x) {{ %r = fdiv {real} 1.0, %x ret {real} %r }}"
        found[f"{d}sqrt_rn"] = _calling(f"llvm.sqrt.{suffix}", real, "x")
        found[f"fma{f}_rn"] = _calling(f"llvm.fma.{suffix}", real, "xxx")
    for kinds, name in _each(_DIRECTED):
        result, letters = kinds.split()
        for mode in ("rd", "ru", "rz"):
            called = f"kb_nv_{name}_{mode}"
            found[f"{name}_{mode}"] = _calling(called, _KINDS[result], letters)
    return found


def _byte_perm() -> str:
    picked = "".join(
        f"""%s{i} = {shift}
        %n{i} = and i64 %s{i}, 56
        %w{i} = lshr i64 %both, %n{i}
        %b{i} = and i64 %w{i}, 255
        %p{i} = shl i64 %b{i}, {8 * i}
        %q{i + 1} = or i64 {f"%q{i}" if i else 0}, %p{i} """
        for i, shift in enumerate(("shl i64 %s, 3", *(f"lshr i64 %s, {n}" for n in (1, 5, 9))))
    )
    return f"""i32 (i32 %x, i32 %y, i32 %z) {{
        %low = zext i32 %x to i64
        %top = zext i32 %y to i64
        %high = shl i64 %top, 32
        %both = or i64 %high, %low
        %s = zext i32 %z to i64
        {picked} %r = trunc i64 %q4 to i32 ret i32 %r }}"""


def integers() -> dict[str, str]:
    found = {**_COMPUTED, "byte_perm": _byte_perm()}
    for kind, ll in (("i32", ""), ("i64", "ll")):
        cut, r = ("%r = trunc i64 %n to i32", "%r") if ll else ("", "%n")
        for name, called in ((f"{ll}abs", "abs"), (f"brev{ll}", "bitreverse")):
            more = ", i1 false" if called == "abs" else ""
            found[name] = f"""{kind} ({kind} %x) {{
                %r = call {kind} @llvm.{called}.{kind}({kind} %x{more}) ret {kind} %r }}"""
        for name, called, more in (("clz", "ctlz", ", i1 false"), ("popc", "ctpop", "")):
            found[name + ll] = f"""i32 ({kind} %x) {{
                %n = call {kind} @llvm.{called}.{kind}({kind} %x{more})
                {cut} ret i32 {r} }}"""
        found[f"ffs{ll}"] = f"""i32 ({kind} %x) {{
            %before = call {kind} @llvm.cttz.{kind}({kind} %x, i1 false)
            %next = add {kind} %before, 1
            %zero = icmp eq {kind} %x, 0
            %n = select i1 %zero, {kind} 0, {kind} %next
            {cut} ret i32 {r} }}"""
    for name, letter, sign in (
        ("", "i", "s"),
        ("u", "i", "u"),
        ("ll", "l", "s"),
        ("ull", "l", "u"),
    ):
        for which in ("max", "min"):
            kind = _KINDS[letter]
            found[name + which] = _calling(f"llvm.{sign}{which}.{kind}", kind, letter * 2)
    for sign, u, extend, shift in (("s", "", "sext", "ashr"), ("u", "u", "zext", "lshr")):
        for bits, name in ((32, f"{u}mulhi"), (64, f"{u}mul64hi")):
            found[name] = f"""i{bits} (i{bits} %x, i{bits} %y) {{
                %xw = {extend} i{bits} %x to i{2 * bits}
                %yw = {extend} i{bits} %y to i{2 * bits}
                %p = mul i{2 * bits} %xw, %yw
                %h = lshr i{2 * bits} %p, {bits}
                %r = trunc i{2 * bits} %h to i{bits} ret i{bits} %r }}"""
        for name, first, last in ((f"{u}hadd", "and", "add"), (f"{u}rhadd", "or", "sub")):
            found[name] = f"""i32 (i32 %x, i32 %y) {{
                %a = {first} i32 %x, %y
                %b = xor i32 %x, %y
                %c = {shift} i32 %b, 1
                %r = {last} i32 %a, %c ret i32 %r }}"""
        found[f"{u}sad"] = f"""i32 (i32 %x, i32 %y, i32 %z) {{
            %a = call i32 @llvm.{sign}max.i32(i32 %x, i32 %y)
            %b = call i32 @llvm.{sign}min.i32(i32 %x, i32 %y)
            %c = sub i32 %a, %b
            %r = add i32 %c, %z ret i32 %r }}"""
    for name, kinds in _SAME_BITS.items():
        before, after = (_KINDS[letter] for letter in kinds)
        found[name] = (
            f"{after} ({before} %x) {{ %r = bitcast {before} %x to {after} ret {after} %r }}"
        )
    for real, suffix, f in _REALS:
        d, kind = f or "d", f"i{suffix[1:]}"
        found[f"isnan{d}"] = f"""i32 ({real} %x) {{
            %t = fcmp uno {real} %x, 0.0
            %r = zext i1 %t to i32 ret i32 %r }}"""
        for name, order in ((f"isinf{d}", "oeq"), ("finitef" if f else "isfinited", "olt")):
            found[name] = f"""i32 ({real} %x) {{
                %a = call {real} @llvm.fabs.{suffix}({real} %x)
                %t = fcmp {order} {real} %a, 0x7FF0000000000000
                %r = zext i1 %t to i32 ret i32 %r }}"""
        found[f"signbit{d}"] = f"""i32 ({real} %x) {{
            %b = bitcast {real} %x to {kind}
            %t = icmp slt {kind} %b, 0
            %r = zext i1 %t to i32 ret i32 %r }}"""
    return found


_CALLS = """\
; libdevice on the CPU: an intrinsic of LLVM or a function of the C library takes the place of one
; that means the same. Others are in src/ext/emulator/kb_libdevice.h as kb_nv_x.
; No error is larger than CUDA's documentation states.
;
; Of equal numbers, which the sign of zero may tell apart, the bits decide which is the smaller one.
; Numba-CUDA declares that the functions of pairs return a pointer, and uses none.
"""
_CONVERSIONS = """\
; libdevice on the CPU: conversions, and arithmetic with a direction of rounding.
;
; Numbers that do not fit into an integer saturate; NaN becomes 0 where neither type has 64 bits,
; else the number with the highest bit alone, as PTX has it. GPUs never fuse products and sums that
; are rounded to nearest here with others; fma.py, which fuses as NVVM and ptxas do, takes the
; fences away afterwards. src/ext/emulator/kb_libdevice.h has the other directions.
"""
_BITS = "; libdevice on the CPU: functions of integers and of the bits of a number.\n"

FILES = {
    "libdevice_calls.ll": (_CALLS, calls),
    "libdevice_conversions.ll": (_CONVERSIONS, conversions),
    "libdevice_integers.ll": (_BITS, integers),
}
