"""LLVM IR that computes with float16 and bfloat16: `kb.f16.*` and `kb.bf16.*`, on bits as i16.

Values are computed as floats or doubles. To round once in the end, what comes before rounds to odd:
of the two neighbours of an inexact value, it takes the one whose last bit is set.
NaNs that come out of a computation are 0x7fff, as on GPUs. XLA has processors take subnormal floats
for zero, so that what may be one is either a double or bits: bfloat16 has the range of floats.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

MODES = {"rn": "rint", "rz": "trunc", "rd": "floor", "ru": "ceil"}
_LETTERS = "as8 cs8 hu8 ss16 tu16 is32 ju32 ls64 mu64 xs64 yu64"  # Itanium's
INTEGERS = {word[0]: word[1:] for word in _LETTERS.split()}  # signedness and bits
ORDERS = ("eq", "ne", "le", "ge", "lt", "gt")
MATH = ("cos", "exp", "exp10", "exp2", "log", "log10", "log2", "sin", "tanh")
WHOLE = ("trunc", "ceil", "floor", "rint", "sqrt")
LOADS = ("__ldg", "__ldcg", "__ldca", "__ldcs", "__ldlu", "__ldcv")
SHUFFLES = {  # mode, type of the lane, and what the last lane is made of
    "__shfl_sync": (0, "i", 31),
    "__shfl_up_sync": (1, "j", 0),
    "__shfl_down_sync": (2, "j", 31),
    "__shfl_xor_sync": (3, "i", 31),
}


@dataclass(frozen=True)
class Format:
    """What a kind of 16-bit number is called, and how it is made of bits."""

    prefix: str
    mangled: str
    spelt: str
    infinity: int
    one: int
    kind: str  # that it is computed in, where products are exact
    bits: int  # of that kind
    rn: str  # from a float
    wide: str
    narrow: str


FORMATS = (
    Format(
        *("kb.f16", "6__half", "half", 0x7C00, 0x3C00, "float", 32),
        rn="%h = fptrunc float %w to half %n = bitcast half %h to i16",
        wide="%r = call float @kb.f16.widen(i16 %a)",
        narrow="%r = call i16 @kb.f16.rn(float %a)",
    ),
    Format(
        *("kb.bf16", "13__nv_bfloat16", "bfloat16", 0x7F80, 0x3F80, "double", 64),
        rn="""
  %bits = bitcast float %w to i32
  %last = lshr i32 %bits, 16
  %even = and i32 %last, 1
  %half = add i32 %even, 32767
  %up = add i32 %bits, %half
  %high = lshr i32 %up, 16
  %n = trunc i32 %high to i16""",
        wide="""
  %w = call float @kb.bf16.widen(i16 %a)
  %d = fpext float %w to double
  %size = and i16 %a, 32767
  %before = sub i16 %size, 1
  %subnormal = icmp ult i16 %before, 127
  %i = zext i16 %size to i32
  %n = sitofp i32 %i to double
  %positive = fmul double %n, 0x37A0000000000000
  %negative = fneg double %positive
  %sign = icmp slt i16 %a, 0
  %s = select i1 %sign, double %negative, double %positive
  %r = select i1 %subnormal, double %s, double %d""",
        narrow="""
  %w = call float @kb.odd.f32(double %a)
  %n = call i16 @kb.bf16.rn(float %w)
  %size = call double @llvm.fabs.f64(double %a)
  %subnormal = fcmp olt double %size, 0x3810000000000000
  %scaled = fmul double %size, 0x4840000000000000
  %whole = call double @llvm.rint.f64(double %scaled)
  %i = fptosi double %whole to i32
  %bits = bitcast double %a to i64
  %high = lshr i64 %bits, 48
  %top = trunc i64 %high to i16
  %sign = and i16 %top, -32768
  %low = trunc i32 %i to i16
  %s = or i16 %sign, %low
  %r = select i1 %subnormal, i16 %s, i16 %n""",
    ),
)


def _odd(kind: str, bits: int) -> str:
    """Of `%v`, whose error is not zero if `%inexact`, and away from zero if `%beyond`."""
    return f"""
  %bits = bitcast {kind} %v to i{bits}
  %odd = trunc i{bits} %bits to i1
  %keep = select i1 %inexact, i1 %odd, i1 true
  %step = select i1 %beyond, i{bits} 1, i{bits} -1
  %moved = add i{bits} %bits, %step
  %to = select i1 %keep, i{bits} %bits, i{bits} %moved
  %r = bitcast i{bits} %to to {kind}
  ret {kind} %r }}"""


def _common() -> dict[str, str]:
    """Rounding to odd."""
    found = {
        "kb.odd.f32": f"""float (double %a) {{
  %v = fptrunc double %a to float
  %back = fpext float %v to double
  %inexact = fcmp one double %back, %a
  %a_size = call double @llvm.fabs.f64(double %a)
  %v_size = call double @llvm.fabs.f64(double %back)
  %beyond = fcmp ogt double %a_size, %v_size
  {_odd("float", 32)}"""
    }
    for sign, lowest in (("s", 2**52), ("u", 0)):
        found[f"kb.odd.{sign}64"] = f"""double (i64 %a) {{
  %from = add i64 %a, {lowest}
  %exact = icmp ult i64 %from, {2**53}
  %low = and i64 %a, 2047
  %rest = icmp ne i64 %low, 0
  %bit = select i1 %rest, i64 2048, i64 0
  %high = and i64 %a, -2048
  %odd = or i64 %high, %bit
  %n = select i1 %exact, i64 %a, i64 %odd
  %r = {sign}itofp i64 %n to double
  ret double %r }}"""
    for kind, bits in (("float", 32), ("double", 64)):  # of an exact product and a sum's error
        found[f"kb.odd.fma.{kind}"] = f"""{kind} ({kind} %a, {kind} %b, {kind} %c) {{
  %p = fmul {kind} %a, %b
  %v = fadd {kind} %p, %c
  %c1 = fsub {kind} %v, %p
  %p1 = fsub {kind} %v, %c1
  %pe = fsub {kind} %p, %p1
  %ce = fsub {kind} %c, %c1
  %e = fadd {kind} %pe, %ce
  %inexact = fcmp one {kind} %e, 0.0
  %v_bits = bitcast {kind} %v to i{bits}
  %e_bits = bitcast {kind} %e to i{bits}
  %both = xor i{bits} %v_bits, %e_bits
  %beyond = icmp sge i{bits} %both, 0
  {_odd(kind, bits)}"""
    return found


def _narrowing(f: Format) -> dict[str, str]:
    """From floats and doubles, and back."""
    p = f.prefix
    widened = "%h = bitcast i16 %a to half %w = fpext half %h to float"
    if f.spelt == "bfloat16":
        widened = "%z = zext i16 %a to i32 %s = shl i32 %z, 16 %w = bitcast i32 %s to float"
    found = {
        f"{p}.widen": f"float (i16 %a) {{ {widened} ret float %w }}",
        f"{p}.wide": f"{f.kind} (i16 %a) {{ {f.wide} ret {f.kind} %r }}",
        f"{p}.narrow": f"i16 ({f.kind} %a) {{ {f.narrow} ret i16 %r }}",
        f"{p}.copy": "i16 (i16 %a) { ret i16 %a }",
        f"{p}.rn": f"""i16 (float %w) {{ {f.rn}
  %nan = fcmp uno float %w, %w
  %r = select i1 %nan, i16 32767, i16 %n
  ret i16 %r }}""",
        "kb.f16.double": """i16 (double %a) {
  %w = call float @kb.odd.f32(double %a)
  %r = call i16 @kb.f16.rn(float %w)
  ret i16 %r }""",
    }
    for mode, when_negative, when_positive in (
        ("rz", ("%larger", -1), ("%larger", -1)),
        ("rd", ("%smaller", 1), ("%larger", -1)),
        ("ru", ("%larger", -1), ("%smaller", 1)),
    ):
        found[f"{p}.{mode}"] = f"""i16 (float %w) {{
  %near = call i16 @{p}.rn(float %w)
  %back = call float @{p}.widen(i16 %near)
  %bits = bitcast float %w to i32
  %back_bits = bitcast float %back to i32
  %size = and i32 %bits, 2147483647
  %back_size = and i32 %back_bits, 2147483647
  %larger = icmp ugt i32 %back_size, %size
  %smaller = icmp ult i32 %back_size, %size
  %negative = icmp slt i16 %near, 0
  %wrong = select i1 %negative, i1 {when_negative[0]}, i1 {when_positive[0]}
  %step = select i1 %negative, i16 {when_negative[1]}, i16 {when_positive[1]}
  %next = add i16 %near, %step
  %r0 = select i1 %wrong, i16 %next, i16 %near
  %nan = fcmp uno float %w, %w
  %r = select i1 %nan, i16 32767, i16 %r0
  ret i16 %r }}"""
    return found


def _integers(f: Format) -> dict[str, str]:
    """`from.s32.rz`, `to.s32.rz` and the like; numbers that are too large saturate."""
    p, found = f.prefix, {}
    for kind in sorted(set(INTEGERS.values())):
        sign, bits = kind[0], int(kind[1:])
        double = f"%d = {sign}itofp i{bits} %a to double"
        if bits == 64:
            double = f"%d = call double @kb.odd.{kind}(i64 %a)"
        wide = f"{double} %w = call float @kb.odd.f32(double %d)"
        if bits < 32:
            wide = f"%w = {sign}itofp i{bits} %a to float"
        of_nan = -(2**63) if bits == 64 else 0
        for mode, intrinsic in MODES.items():
            found[f"{p}.from.{kind}.{mode}"] = f"""i16 (i{bits} %a) {{ {wide}
  %r = call i16 @{p}.{mode}(float %w)
  ret i16 %r }}"""
            found[f"{p}.to.{kind}.{mode}"] = f"""i{bits} (i16 %a) {{
  %w = call {f.kind} @{p}.wide(i16 %a)
  %whole = call {f.kind} @llvm.{intrinsic}.f{f.bits}({f.kind} %w)
  %n = call i{bits} @llvm.fpto{sign}i.sat.i{bits}.f{f.bits}({f.kind} %whole)
  %nan = fcmp uno {f.kind} %w, %w
  %r = select i1 %nan, i{bits} {of_nan}, i{bits} %n
  ret i{bits} %r }}"""
    return found


def _arithmetic(f: Format) -> dict[str, str]:
    p, kind = f.prefix, f.kind
    a, b, c = (f"%w{name} = call {kind} @{p}.wide(i16 %{name})" for name in "abc")
    found = {
        f"{p}.neg": "i16 (i16 %a) { %r = xor i16 %a, -32768 ret i16 %r }",
        f"{p}.abs": "i16 (i16 %a) { %r = and i16 %a, 32767 ret i16 %r }",
        f"{p}.rcp": f"i16 (i16 %a) {{ %r = call i16 @{p}.div(i16 {f.one}, i16 %a) ret i16 %r }}",
        f"{p}.sat": f"""i16 (i16 %a) {{
  {a}
  %positive = fcmp ogt {kind} %wa, 0.0
  %large = fcmp ogt {kind} %wa, 1.0
  %low = select i1 %positive, i16 %a, i16 0
  %r = select i1 %large, i16 {f.one}, i16 %low
  ret i16 %r }}""",
        f"{p}.relu": "i16 (i16 %a) { %n = icmp slt i16 %a, 0 %r = select i1 %n, i16 0, i16 %a "
        "ret i16 %r }",
    }

    for name in ("add", "sub", "mul", "div"):
        found[f"{p}.{name}"] = f"""i16 (i16 %a, i16 %b) {{ {a} {b}
  %v = f{name} {kind} %wa, %wb
  %r = call i16 @{p}.narrow({kind} %v)
  ret i16 %r }}"""
        found[f"{p}.{name}.sat"] = f"""i16 (i16 %a, i16 %b) {{
  %v = call i16 @{p}.{name}(i16 %a, i16 %b)
  %r = call i16 @{p}.sat(i16 %v)
  ret i16 %r }}"""
    found[f"{p}.fma"] = f"""i16 (i16 %a, i16 %b, i16 %c) {{ {a} {b} {c}
  %v = call {kind} @kb.odd.fma.{kind}({kind} %wa, {kind} %wb, {kind} %wc)
  %r = call i16 @{p}.narrow({kind} %v)
  ret i16 %r }}"""
    for form in ("sat", "relu"):
        found[f"{p}.fma.{form}"] = f"""i16 (i16 %a, i16 %b, i16 %c) {{
  %v = call i16 @{p}.fma(i16 %a, i16 %b, i16 %c)
  %r = call i16 @{p}.{form}(i16 %v)
  ret i16 %r }}"""
    found[f"{p}.atomic.add"] = f"""i16 (ptr %at, i16 %b) {{
entry:
  %first = load atomic i16, ptr %at monotonic, align 2
  br label %again
again:
  %old = phi i16 [ %first, %entry ], [ %seen, %again ]
  %new = call i16 @{p}.add(i16 %old, i16 %b)
  %pair = cmpxchg ptr %at, i16 %old, i16 %new monotonic monotonic
  %seen = extractvalue {{ i16, i1 }} %pair, 0
  %done = extractvalue {{ i16, i1 }} %pair, 1
  br i1 %done, label %end, label %again
end:
  ret i16 %old }}"""
    return found


def _comparisons(f: Format) -> dict[str, str]:
    p, kind = f.prefix, f.kind
    both = f"%x = call {kind} @{p}.wide(i16 %a) %y = call {kind} @{p}.wide(i16 %b)"
    found = {
        f"{p}.isinf": f"""i32 (i16 %a) {{
  %size = and i16 %a, 32767
  %is = icmp eq i16 %size, {f.infinity}
  %negative = icmp slt i16 %a, 0
  %sign = select i1 %negative, i32 -1, i32 1
  %r = select i1 %is, i32 %sign, i32 0
  ret i32 %r }}""",
        f"{p}.isnan": f"i8 (i16 %a) {{ %r = call i8 @{p}.uno(i16 %a, i16 %a) ret i8 %r }}",
        f"{p}.bool": f"i8 (i16 %a) {{ %r = call i8 @{p}.une(i16 %a, i16 0) ret i8 %r }}",
    }
    for order in ("uno", *(f"{o}{order}" for o in "ou" for order in ORDERS)):
        found[f"{p}.{order}"] = f"""i8 (i16 %a, i16 %b) {{ {both}
  %is = fcmp {order} {kind} %x, %y
  %r = zext i1 %is to i8
  ret i8 %r }}"""
    for name, better in (("max", "sgt"), ("min", "slt")):  # -0 is less than 0
        for form in ("", ".nan"):
            number = """%one = select i1 %bn, i16 %a, i16 %best
  %r0 = select i1 %an, i16 %b, i16 %one
  %nan = and i1 %an, %bn"""
            nan = "%r0 = add i16 %best, 0 %nan = or i1 %an, %bn"
            found[f"{p}.{name}{form}"] = f"""i16 (i16 %a, i16 %b) {{ {both}
  %an = fcmp uno {kind} %x, %x
  %bn = fcmp uno {kind} %y, %y
  %as = ashr i16 %a, 15
  %am = and i16 %as, 32767
  %ak = xor i16 %a, %am
  %bs = ashr i16 %b, 15
  %bm = and i16 %bs, 32767
  %bk = xor i16 %b, %bm
  %better = icmp {better} i16 %ak, %bk
  %best = select i1 %better, i16 %a, i16 %b
  {nan if form else number}
  %r = select i1 %nan, i16 32767, i16 %r0
  ret i16 %r }}"""
    return found


def _functions(f: Format) -> dict[str, str]:
    """Mathematical functions, and what moves a value."""
    p, found = f.prefix, {}
    kind, suffix = f.kind, "f" if f.kind == "float" else ""
    calls = {name: f"__nv_{name}{suffix}" for name in MATH}
    calls |= {name: f"llvm.{name}.f{f.bits}" for name in WHOLE}
    calls["rsqrt"] = f"llvm.sqrt.f{f.bits}"
    for name, called in calls.items():
        last = f"%u = fdiv {kind} 1.0, %v" if name == "rsqrt" else ""
        found[f"{p}.{name}"] = f"""i16 (i16 %a) {{
  %w = call {kind} @{p}.wide(i16 %a)
  %v = call {kind} @{called}({kind} %w)
  {last}
  %r = call i16 @{p}.narrow({kind} {"%u" if last else "%v"})
  ret i16 %r }}"""
    for name in LOADS:
        how = "load volatile" if name == "__ldcv" else "load"
        found[f"{p}.{name}"] = f"i16 (ptr %at) {{ %r = {how} i16, ptr %at ret i16 %r }}"
    found[f"{p}.store"] = "i32 (ptr %at, i16 %a) { store i16 %a, ptr %at ret i32 0 }"
    for name, (mode, _, last_lane) in SHUFFLES.items():
        found[f"{p}.{name}"] = f"""i16 (i32 %mask, i16 %a, i32 %lane, i32 %width) {{
  %v = zext i16 %a to i32
  %outside = sub i32 32, %width
  %high = shl i32 %outside, 8
  %clamp = or i32 %high, {last_lane}
  %b = call {{ i32, i1 }} @kb.shfl.sync.i32(i32 %mask, i32 {mode}, i32 %v, i32 %lane, i32 %clamp)
  %w = extractvalue {{ i32, i1 }} %b, 0
  %r = trunc i32 %w to i16
  ret i16 %r }}"""
    return found


@cache
def values() -> dict[str, str]:
    """Definitions by name, each as `result (parameters) { body }`."""
    found = _common()
    for f in FORMATS:
        for part in (_narrowing, _integers, _arithmetic, _comparisons, _functions):
            found |= part(f)
    return found
