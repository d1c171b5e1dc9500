"""LLVM IR that computes with float16 and bfloat16: `kb.f16.*` and `kb.bf16.*`, on bits as i16.

Values are computed as floats or doubles. To round once in the end, what comes before rounds to odd:
of the two neighbours of an inexact value, it takes the one whose last bit is set.
NaNs that come out of a computation are 0x7fff, as on GPUs. XLA has processors take subnormal floats
for zero, so that what may be one is either a double or bits: bfloat16 has the range of floats.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from expressions import Value, arguments, call, returned

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


FORMATS = (
    Format("kb.f16", "6__half", "half", 0x7C00, 0x3C00, "float", 32),
    Format("kb.bf16", "13__nv_bfloat16", "bfloat16", 0x7F80, 0x3F80, "double", 64),
)


def _odd(v: Value, bits: int, inexact: Value, beyond: Value) -> str:
    """A function that returns `v`, whose error is not zero if `inexact`, and away from it if so."""
    n = v.to(f"i{bits}")
    keep = inexact.choose(n.to("i1", "trunc"), "true")
    return returned(keep.choose(n, n + beyond.choose(1, -1, n.kind)).to(v.kind))


def rounding_to_odd() -> dict[str, str]:
    (a,) = arguments("double %a")
    v = a.to("float", "fptrunc")
    back = v.to("double", "fpext")
    inexact = back.compared("one", a)
    a_size, v_size = (call("double", "llvm.fabs.f64", x) for x in (a, back))
    found = {"kb.odd.f32": _odd(v, 32, inexact, a_size.compared("ogt", v_size))}
    for sign, lowest in (("s", 2**52), ("u", 0)):
        (a,) = arguments("i64 %a")
        exact = (a + lowest).compared("ult", 2**53)
        bit = (a & 2047).compared("ne", 0).choose(2048, 0, "i64")
        odd = (a & -2048) | bit
        found[f"kb.odd.{sign}64"] = returned(exact.choose(a, odd).to("double", f"{sign}itofp"))
    for kind, bits in (("float", 32), ("double", 64)):  # of an exact product and a sum's error
        a, b, c = arguments(f"{kind} %a, {kind} %b, {kind} %c")
        p = a * b
        v = p + c
        c1 = v - p
        e = (p - (v - c1)) + (c - c1)
        inexact = e.compared("one", 0.0)
        both = v.to(f"i{bits}") ^ e.to(f"i{bits}")
        found[f"kb.odd.fma.{kind}"] = _odd(v, bits, inexact, both.compared("sge", 0))
    return found


def _nearest(f: Format, w: Value) -> Value:
    """The bits of a float that is not NaN."""
    if f.spelt == "half":
        return w.to("half", "fptrunc").to("i16")
    bits = w.to("i32")
    even = bits.by("lshr", 16) & 1
    up = bits + (even + 32767)
    return up.by("lshr", 16).to("i16", "trunc")


def _wide(f: Format, a: Value) -> Value:
    """The number with these bits, as it is computed with."""
    w = call("float", f"{f.prefix}.widen", a)
    if f.spelt == "half":
        return w
    size = a & 32767
    subnormal = (size - 1).compared("ult", 127)
    positive = size.to("i32", "zext").to("double", "sitofp") * "0x37A0000000000000"
    small = a.compared("slt", 0).choose(-positive, positive)
    return subnormal.choose(small, w.to("double", "fpext"))


def _narrow(f: Format, a: Value) -> Value:
    """The bits of a number that was computed."""
    if f.spelt == "half":
        return call("i16", "kb.f16.rn", a)
    n = call("i16", "kb.bf16.rn", call("float", "kb.odd.f32", a))
    size = call("double", "llvm.fabs.f64", a)
    subnormal = size.compared("olt", "0x3810000000000000")
    whole = call("double", "llvm.rint.f64", size * "0x4840000000000000")
    low = whole.to("i32", "fptosi").to("i16", "trunc")
    top = a.to("i64").by("lshr", 48).to("i16", "trunc")
    return subnormal.choose((top & -32768) | low, n)


def _narrowing(f: Format) -> dict[str, str]:
    """From floats and doubles, and back."""
    p = f.prefix
    (a,) = arguments("i16 %a")
    if f.spelt == "half":
        widened = a.to("half").to("float", "fpext")
    else:
        widened = a.to("i32", "zext").by("shl", 16).to("float")
    (w,) = arguments("float %w")
    nearest = _nearest(f, w)
    found = {
        f"{p}.widen": returned(widened),
        f"{p}.wide": returned(_wide(f, *arguments("i16 %a"))),
        f"{p}.narrow": returned(_narrow(f, *arguments(f"{f.kind} %a"))),
        f"{p}.copy": "i16 (i16 %a) { ret i16 %a }",
        f"{p}.rn": returned(w.compared("uno", w).choose(32767, nearest)),
    }
    if f.spelt == "half":
        odd = call("float", "kb.odd.f32", *arguments("double %a"))
        found["kb.f16.double"] = returned(call("i16", "kb.f16.rn", odd))
        (a,) = arguments("i16 %a")
        found["kb.cvt.f64.f16"] = returned(a.to("half").to("double", "fpext"))
    for other in (o for o in FORMATS if o is not f):
        w = call("float", f"{other.prefix}.widen", *arguments("i16 %a"))
        found[f"{p}.from.{other.spelt}"] = returned(call("i16", f"{p}.rn", w))
    for mode in ("rz", "rd", "ru"):
        (w,) = arguments("float %w")
        near = call("i16", f"{p}.rn", w)
        back = call("float", f"{p}.widen", near)
        size, back_size = w.to("i32") & 0x7FFFFFFF, back.to("i32") & 0x7FFFFFFF
        larger = back_size.compared("ugt", size), -1
        smaller = back_size.compared("ult", size), 1
        negative = near.compared("slt", 0)
        when_negative = smaller if mode == "rd" else larger
        when_positive = smaller if mode == "ru" else larger
        wrong = negative.choose(when_negative[0], when_positive[0])
        step = negative.choose(when_negative[1], when_positive[1], "i16")
        rounded = wrong.choose(near + step, near)
        found[f"{p}.{mode}"] = returned(w.compared("uno", w).choose(32767, rounded))
    return found


def integers(f: Format) -> dict[str, str]:
    """`from.s32.rz`, `to.s32.rz` and the like; numbers that are too large saturate."""
    p, found = f.prefix, {}
    for kind, (mode, intrinsic) in product(sorted(set(INTEGERS.values())), MODES.items()):
        sign, bits = kind[0], int(kind[1:])
        (a,) = arguments(f"i{bits} %a")
        if bits < 32:
            w = a.to("float", f"{sign}itofp")
        else:
            is_long = bits == 64
            d = call("double", f"kb.odd.{kind}", a) if is_long else a.to("double", f"{sign}itofp")
            w = call("float", "kb.odd.f32", d)
        found[f"{p}.from.{kind}.{mode}"] = returned(call("i16", f"{p}.{mode}", w))
        w = call(f.kind, f"{p}.wide", *arguments("i16 %a"))
        whole = call(f.kind, f"llvm.{intrinsic}.f{f.bits}", w)
        n = call(f"i{bits}", f"llvm.fpto{sign}i.sat.i{bits}.f{f.bits}", whole)
        of_nan = -(2**63) if bits == 64 else 0
        found[f"{p}.to.{kind}.{mode}"] = returned(w.compared("uno", w).choose(of_nan, n))
    return found


def _arithmetic(f: Format) -> dict[str, str]:
    p, kind, two, three = f.prefix, f.kind, "i16 %a, i16 %b", "i16 %a, i16 %b, i16 %c"

    def wide(parameters: str) -> list[Value]:
        return [call(kind, f"{p}.wide", a) for a in arguments(parameters)]

    def narrow(result: Value) -> str:
        return returned(call("i16", f"{p}.narrow", result))

    def then(name: str, parameters: str, form: str) -> str:
        return returned(call("i16", f"{p}.{form}", call("i16", name, *arguments(parameters))))

    (a,) = arguments("i16 %a")
    w = call(kind, f"{p}.wide", a)
    positive, large = w.compared("ogt", 0.0), w.compared("ogt", 1.0)
    found = {
        f"{p}.neg": "i16 (i16 %a) { %r = xor i16 %a, -32768 ret i16 %r }",
        f"{p}.abs": "i16 (i16 %a) { %r = and i16 %a, 32767 ret i16 %r }",
        f"{p}.rcp": f"i16 (i16 %a) {{ %r = call i16 @{p}.div(i16 {f.one}, i16 %a) ret i16 %r }}",
        f"{p}.sat": returned(large.choose(f.one, positive.choose(a, 0))),
        f"{p}.relu": "i16 (i16 %a) { %n = icmp slt i16 %a, 0 %r = select i1 %n, i16 0, i16 %a "
        "ret i16 %r }",
    }
    for name in ("add", "sub", "mul", "div"):
        a, b = wide(two)
        found[f"{p}.{name}"] = narrow(a.by(f"f{name}", b))
        found[f"{p}.{name}.sat"] = then(f"{p}.{name}", two, "sat")
    found[f"{p}.fma"] = narrow(call(kind, f"kb.odd.fma.{kind}", *wide(three)))
    for form in ("sat", "relu"):
        found[f"{p}.fma.{form}"] = then(f"{p}.fma", three, form)
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
    (a,) = arguments("i16 %a")
    is_infinite = (a & 32767).compared("eq", f.infinity)
    sign = a.compared("slt", 0).choose(-1, 1, "i32")
    found = {
        f"{p}.isinf": returned(is_infinite.choose(sign, 0)),
        f"{p}.isnan": f"i8 (i16 %a) {{ %r = call i8 @{p}.uno(i16 %a, i16 %a) ret i8 %r }}",
        f"{p}.bool": f"i8 (i16 %a) {{ %r = call i8 @{p}.une(i16 %a, i16 0) ret i8 %r }}",
    }
    for order in ("uno", *(f"{o}{order}" for o in "ou" for order in ORDERS)):
        x, y = (call(kind, f"{p}.wide", a) for a in arguments("i16 %a, i16 %b"))
        found[f"{p}.{order}"] = returned(x.compared(order, y).to("i8", "zext"))
    for name, better in (("max", "sgt"), ("min", "slt")):  # -0 is less than 0
        for form in ("", ".nan"):
            a, b = arguments("i16 %a, i16 %b")
            wide = (call(kind, f"{p}.wide", x) for x in (a, b))
            a_nan, b_nan = (w.compared("uno", w) for w in wide)
            a_key, b_key = (x ^ (x.by("ashr", 15) & 32767) for x in (a, b))
            best = a_key.compared(better, b_key).choose(a, b)
            nan = a_nan.by("or" if form else "and", b_nan)
            number = best if form else a_nan.choose(b, b_nan.choose(a, best))
            found[f"{p}.{name}{form}"] = returned(nan.choose(32767, number))
    return found


def _functions(f: Format) -> dict[str, str]:
    """Mathematical functions, and what moves a value."""
    p, found = f.prefix, {}
    kind, suffix = f.kind, "f" if f.kind == "float" else ""
    calls = {name: f"__nv_{name}{suffix}" for name in MATH}
    calls |= {name: f"llvm.{name}.f{f.bits}" for name in WHOLE}
    calls["rsqrt"] = f"llvm.sqrt.f{f.bits}"
    for name, called in calls.items():
        v = call(kind, called, call(kind, f"{p}.wide", *arguments("i16 %a")))
        last = v.inverse() if name == "rsqrt" else v
        found[f"{p}.{name}"] = returned(call("i16", f"{p}.narrow", last))
    for name in LOADS:
        how = "load volatile" if name == "__ldcv" else "load"
        found[f"{p}.{name}"] = f"i16 (ptr %at) {{ %r = {how} i16, ptr %at ret i16 %r }}"
    found[f"{p}.store"] = "i32 (ptr %at, i16 %a) { store i16 %a, ptr %at ret i32 0 }"
    for name, (mode, _, last_lane) in SHUFFLES.items():
        mask, a, lane, width = arguments("i32 %mask, i16 %a, i32 %lane, i32 %width")
        clamp = (-width + 32).by("shl", 8) | last_lane
        given = mask, f"i32 {mode}", a.to("i32", "zext"), lane, clamp
        pair = call("{ i32, i1 }", "kb.shfl.sync.i32", *given)
        found[f"{p}.{name}"] = returned(
            pair.made("i32", f"extractvalue {pair}, 0").to("i16", "trunc")
        )
    return found


def values(f: Format) -> dict[str, str]:
    """All functions of a format but `integers`, each as `result (parameters) { body }`."""
    return _narrowing(f) | _arithmetic(f) | _comparisons(f) | _functions(f)
