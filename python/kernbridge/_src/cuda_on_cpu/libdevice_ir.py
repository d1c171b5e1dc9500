"""Functions of libdevice in LLVM IR, which are inlined where a kernel calls them."""

from __future__ import annotations

from functools import cache

PREFIX = "__nv_"

_WIDTHS = (("", "double", "f64", "i64"), ("f", "float", "f32", "i32"))

IN_C = ("j0", "j1", "y0", "y1", "tgamma")
"""Functions of doubles that the C library has; its float ones are not exact enough."""

_BY_DOUBLES = {  # of floats: what the double's function gives, rounded
    "x": """cbrt rcbrt lgamma tgamma erfcx erfinv erfcinv normcdf normcdfinv sinpi cospi j0 j1 y0 y1
            cyl_bessel_i0 cyl_bessel_i1""",
    "xy": "rhypot",
    "xyz": "norm3d rnorm3d",
    "xyzw": "norm4d rnorm4d",
    "nx": "jn yn",
}

# The first line of a definition is its head; the last value is the result, unless that is void.
_INTEGERS = """
i32 abs(i32 %x)
%r = call i32 @llvm.abs.i32(i32 %x, i1 false)

i64 llabs(i64 %x)
%r = call i64 @llvm.abs.i64(i64 %x, i1 false)

i32 clz(i32 %x)
%r = call i32 @llvm.ctlz.i32(i32 %x, i1 false)

i32 clzll(i64 %x)
%n = call i64 @llvm.ctlz.i64(i64 %x, i1 false)
%r = trunc i64 %n to i32

i32 popcll(i64 %x)
%n = call i64 @llvm.ctpop.i64(i64 %x)
%r = trunc i64 %n to i32

i32 ffs(i32 %x)
%n = call i32 @llvm.cttz.i32(i32 %x, i1 false)
%next = add i32 %n, 1
%zero = icmp eq i32 %x, 0
%r = select i1 %zero, i32 0, i32 %next

i32 ffsll(i64 %x)
%n = call i64 @llvm.cttz.i64(i64 %x, i1 false)
%next = add i64 %n, 1
%zero = icmp eq i64 %x, 0
%wide = select i1 %zero, i64 0, i64 %next
%r = trunc i64 %wide to i32

i32 mul24(i32 %x, i32 %y)
%xh = shl i32 %x, 8
%xs = ashr i32 %xh, 8
%yh = shl i32 %y, 8
%ys = ashr i32 %yh, 8
%r = mul i32 %xs, %ys

i32 umul24(i32 %x, i32 %y)
%xs = and i32 %x, 16777215
%ys = and i32 %y, 16777215
%r = mul i32 %xs, %ys

i32 byte_perm(i32 %x, i32 %y, i32 %z)
%low = zext i32 %x to i64
%top = zext i32 %y to i64
%high = shl i64 %top, 32
%both = or i64 %high, %low
%s = zext i32 %z to i64
%s0 = shl i64 %s, 3
%s1 = lshr i64 %s, 1
%s2 = lshr i64 %s, 5
%s3 = lshr i64 %s, 9
%n0 = and i64 %s0, 56
%n1 = and i64 %s1, 56
%n2 = and i64 %s2, 56
%n3 = and i64 %s3, 56
%w0 = lshr i64 %both, %n0
%w1 = lshr i64 %both, %n1
%w2 = lshr i64 %both, %n2
%w3 = lshr i64 %both, %n3
%b0 = and i64 %w0, 255
%b1 = and i64 %w1, 255
%b2 = and i64 %w2, 255
%p1 = shl i64 %b1, 8
%p2 = shl i64 %b2, 16
%p3 = shl i64 %w3, 24
%p01 = or i64 %b0, %p1
%p23 = or i64 %p2, %p3
%p = or i64 %p01, %p23
%r = trunc i64 %p to i32
"""

_FLOATS = """
float saturatef(float %x)
%over = fcmp ogt float %x, 0.0
%low = select i1 %over, float %x, float 0.0
%under = fcmp olt float %low, 1.0
%r = select i1 %under, float %low, float 1.0

i32 double2hiint(double %x)
%bits = bitcast double %x to i64
%high = lshr i64 %bits, 32
%r = trunc i64 %high to i32

i32 double2loint(double %x)
%bits = bitcast double %x to i64
%r = trunc i64 %bits to i32

double hiloint2double(i32 %x, i32 %y)
%top = zext i32 %x to i64
%high = shl i64 %top, 32
%low = zext i32 %y to i64
%bits = or i64 %high, %low
%r = bitcast i64 %bits to double

float rsqrtf(float %x)
%root = call float @llvm.sqrt.f32(float %x)
%r = fdiv float 1.0, %root

float frsqrt_rn(float %x)
%wide = fpext float %x to double
%root = call double @llvm.sqrt.f64(double %wide)
%inverse = fdiv double 1.0, %root
%r = fptrunc double %inverse to float

double rsqrt(double %given)
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
%r = fmul double %value, %back

double powi(double %x, i32 %n)
%y = sitofp i32 %n to double
%r = call double @pow(double %x, double %y)

float powif(float %x, i32 %n)
%wide = fpext float %x to double
%y = sitofp i32 %n to double
%power = call double @pow(double %wide, double %y)
%r = fptrunc double %power to float

float half2float(i16 %x)
%bits = zext i16 %x to i32
%size = and i32 %bits, 32767
%top = and i32 %bits, 32768
%sign = shl i32 %top, 16
%shifted = shl i32 %size, 13
%normal = add i32 %shifted, 939524096
%special = or i32 %shifted, 2139095040
%count = uitofp i32 %size to float
%tiny = fmul float %count, 0x3E70000000000000
%subnormal = bitcast float %tiny to i32
%small = icmp ult i32 %size, 1024
%large = icmp uge i32 %size, 31744
%a = select i1 %small, i32 %subnormal, i32 %normal
%b = select i1 %large, i32 %special, i32 %a
%c = or i32 %b, %sign
%r = bitcast i32 %c to float

i16 float2half_rn(float %x)
%bits = bitcast float %x to i32
%size = and i32 %bits, 2147483647
%top = lshr i32 %bits, 16
%sign = and i32 %top, 32768
%kept = lshr i32 %size, 13
%odd = and i32 %kept, 1
%half = add i32 %size, 4095
%up = add i32 %half, %odd
%rebased = sub i32 %up, 939524096
%normal = lshr i32 %rebased, 13
%positive = bitcast i32 %size to float
%scaled = fmul float %positive, 0x4170000000000000
%whole = call float @llvm.rint.f32(float %scaled)
%subnormal = call i32 @llvm.fptoui.sat.i32.f32(float %whole)
%small = icmp ult i32 %size, 947912704
%large = icmp uge i32 %size, 1199566848
%nan = icmp ugt i32 %size, 2139095040
%a = select i1 %small, i32 %subnormal, i32 %normal
%b = select i1 %large, i32 31744, i32 %a
%c = or i32 %b, %sign
%d = select i1 %nan, i32 32767, i32 %c
%r = trunc i32 %d to i16
"""


@cache
def definitions() -> dict[str, str]:
    """Functions in LLVM IR, whole."""
    texts = _INTEGERS.strip().split("\n\n") + _FLOATS.strip().split("\n\n")
    texts += _of_wide_products() + _of_averages() + _of_bits() + _of_one_instruction()
    texts += _to_integers() + _to_floats() + _of_pairs()
    whole = {}
    for text in texts:
        head, *lines = text.split("\n")
        result, rest = head.split(" ", 1)
        name, parameters = rest.split("(", 1)
        lines.append("ret void" if result == "void" else f"ret {result} %r")
        whole[name] = (
            f"define internal {result} @{PREFIX}{name}({parameters} alwaysinline {{\n"
            + "\n".join(lines)
            + "\n}"
        )
    return whole


def _of_wide_products() -> list[str]:
    return [
        f"i{n} {name}(i{n} %x, i{n} %y)\n%xw = {extend} i{n} %x to i{2 * n}\n"
        f"%yw = {extend} i{n} %y to i{2 * n}\n%p = mul i{2 * n} %xw, %yw\n"
        f"%h = lshr i{2 * n} %p, {n}\n%r = trunc i{2 * n} %h to i{n}"
        for n, name, extend in (
            (32, "mulhi", "sext"),
            (32, "umulhi", "zext"),
            (64, "mul64hi", "sext"),
            (64, "umul64hi", "zext"),
        )
    ]


def _of_averages() -> list[str]:
    texts = []
    for u, shift, s in (("", "ashr", "s"), ("u", "lshr", "u")):
        for name, common, combine in (("hadd", "and", "add"), ("rhadd", "or", "sub")):
            texts.append(
                f"i32 {u}{name}(i32 %x, i32 %y)\n%a = {common} i32 %x, %y\n%b = xor i32 %x, %y\n"
                f"%c = {shift} i32 %b, 1\n%r = {combine} i32 %a, %c"
            )
        texts.append(
            f"i32 {u}sad(i32 %x, i32 %y, i32 %z)\n"
            f"%a = call i32 @llvm.{s}max.i32(i32 %x, i32 %y)\n"
            f"%b = call i32 @llvm.{s}min.i32(i32 %x, i32 %y)\n%c = sub i32 %a, %b\n"
            "%r = add i32 %c, %z"
        )
    return texts


def _of_bits() -> list[str]:
    texts = [
        f"{to} {name}({of} %x)\n%r = bitcast {of} %x to {to}"
        for name, of, to in (
            ("double_as_longlong", "double", "i64"),
            ("longlong_as_double", "i64", "double"),
            ("float_as_int", "float", "i32"),
            ("float_as_uint", "float", "i32"),
            ("int_as_float", "i32", "float"),
            ("uint_as_float", "i32", "float"),
        )
    ]
    for f, t, llvm, i in _WIDTHS:
        infinity = "0x7FF0000000000000"
        least = -(1 << 31)
        size = f"%a = call {t} @llvm.fabs.{llvm}({t} %x)\n"
        for name, test in (
            (f"isnan{f or 'd'}", f"%t = fcmp uno {t} %x, 0.0"),
            (f"isinf{f or 'd'}", f"{size}%t = fcmp oeq {t} %a, {infinity}"),
            ("finitef" if f else "isfinited", f"{size}%t = fcmp olt {t} %a, {infinity}"),
            (f"signbit{f or 'd'}", f"%b = bitcast {t} %x to {i}\n%t = icmp slt {i} %b, 0"),
        ):
            texts.append(f"i32 {name}({t} %x)\n{test}\n%r = zext i1 %t to i32")
        texts.append(
            f"i32 ilogb{f}({t} %x)\n%n = call i32 @ilogb{f}({t} %x)\n%t = fcmp ueq {t} %x, 0.0\n"
            f"%r = select i1 %t, i32 {least}, i32 %n"
        )
        for name, combine, base in (("fmin", "or", "minnum"), ("fmax", "and", "maxnum")):
            texts.append(  # of equal ones, which the sign of zero may tell apart, the bits decide
                f"{t} {name}{f}({t} %x, {t} %y)\n"
                f"%m = call {t} @llvm.{base}.{llvm}({t} %x, {t} %y)\n%t = fcmp oeq {t} %x, %y\n"
                f"%a = bitcast {t} %x to {i}\n%b = bitcast {t} %y to {i}\n"
                f"%c = {combine} {i} %a, %b\n%d = bitcast {i} %c to {t}\n"
                f"%r = select i1 %t, {t} %d, {t} %m"
            )
    return texts


def _of_one_instruction() -> list[str]:
    texts = []
    for d, t in (("d", "double"), ("f", "float")):
        texts += [
            f"{t} {d}{op}_rn({t} %x, {t} %y)\n%r = f{op} {t} %x, %y"
            for op in ("add", "sub", "mul", "div")
        ]
        texts.append(f"{t} {d}rcp_rn({t} %x)\n%r = fdiv {t} 1.0, %x")
    texts.append("float fast_fdividef(float %x, float %y)\n%r = fdiv float %x, %y")
    texts.append("float double2float_rn(double %x)\n%r = fptrunc double %x to float")
    for u, instruction in (("", "sitofp"), ("u", "uitofp")):
        for of, i in (("int", "i32"), ("ll", "i64")):
            texts += [
                f"{t} {u}{of}2{t}_rn({i} %x)\n%r = {instruction} {i} %x to {t}"
                for t in ("double", "float")
            ]
    return texts


def _to_integers() -> list[str]:
    """NaN gives 0 where neither type has 64 bits, else the one topmost bit, as PTX has it."""
    texts = []
    of = {"rn": "rint", "rz": "trunc", "ru": "ceil", "rd": "floor"}
    for f, t, llvm, _ in _WIDTHS:
        heads = [
            (f"{t}2{name}_{direction}", bits, signed, whole)
            for name, bits, signed in (
                ("int", 32, "s"),
                ("uint", 32, "u"),
                ("ll", 64, "s"),
                ("ull", 64, "u"),
            )
            for direction, whole in of.items()
        ]
        heads += [(f"llrint{f}", 64, "s", "rint"), (f"llround{f}", 64, "s", "round")]
        for head, bits, signed, whole in heads:
            nan = 0 if bits == 32 and t == "float" else -(1 << bits - 1)
            texts.append(
                f"i{bits} {head}({t} %x)\n%w = call {t} @llvm.{whole}.{llvm}({t} %x)\n"
                f"%n = call i{bits} @llvm.fpto{signed}i.sat.i{bits}.{llvm}({t} %w)\n"
                f"%t = fcmp uno {t} %x, 0.0\n%r = select i1 %t, i{bits} {nan}, i{bits} %n"
            )
    return texts


def _to_floats() -> list[str]:
    texts = []
    for parameters, names in _BY_DOUBLES.items():
        for name in names.split():
            typed = ", ".join(f"{'i32' if p == 'n' else 'float'} %{p}" for p in parameters)
            wide = ", ".join(f"{'i32 %n' if p == 'n' else f'double %{p}d'}" for p in parameters)
            lines = [f"%{p}d = fpext float %{p} to double" for p in parameters if p != "n"]
            called = name if name in IN_C else f"kb_nv_{name}"
            lines.append(f"%d = call double @{called}({wide})")
            lines.append("%r = fptrunc double %d to float")
            texts.append("\n".join((f"float {name}f({typed})", *lines)))
    return texts


def _of_pairs() -> list[str]:
    texts = []
    for f, t, llvm, _ in _WIDTHS:
        for name, sine, cosine in (
            (f"sincos{f}", f"llvm.sin.{llvm}", f"llvm.cos.{llvm}"),
            (f"sincospi{f}", f"__nv_sinpi{f}", f"__nv_cospi{f}"),
            *((("fast_sincosf", "llvm.sin.f32", "llvm.cos.f32"),) if f else ()),
        ):
            if name == "sincospi":
                sine, cosine = "kb_nv_sinpi", "kb_nv_cospi"
            texts.append(
                f"void {name}({t} %x, ptr %ps, ptr %pc)\n%s = call {t} @{sine}({t} %x)\n"
                f"%c = call {t} @{cosine}({t} %x)\nstore {t} %s, ptr %ps\nstore {t} %c, ptr %pc"
            )
    return texts
