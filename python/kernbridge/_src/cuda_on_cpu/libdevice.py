"""libdevice on the CPU: what LLVM IR calls as `__nv_x` becomes what processors have.

An intrinsic of LLVM or a function of the C library takes the place of one that means the same.
Others are defined in LLVM IR, or by src/hostcuda/kb_libdevice.h as `kb_nv_x`. Errors are at most
those that CUDA's documentation states; conversions to integers saturate, as on GPUs.
"""

from __future__ import annotations

import re
from functools import cache

from kernbridge._src.cuda_on_cpu.libdevice_ir import IN_C, PREFIX, definitions

_WIDTHS = (("", "f64"), ("f", "f32"))
_DIRECTIONS = ("rd", "ru", "rz")

_OF_LLVM = "ceil copysign fabs floor fma nearbyint rint round sqrt trunc"

_OF_C = """
acos acosh asin asinh atan atan2 atanh cos erf erfc exp exp2 expm1 fdim fmod frexp hypot ldexp log
log1p log2 logb modf nextafter pow remainder remquo sin sinh tan
"""
_OF_C_TOO = "coshf exp10f log10f tanhf"  # doubles: src/hostcuda is more exact

_SAME = """
brev llvm.bitreverse.i32 brevll llvm.bitreverse.i64 popc llvm.ctpop.i32
max llvm.smax.i32 min llvm.smin.i32 umax llvm.umax.i32 umin llvm.umin.i32
llmax llvm.smax.i64 llmin llvm.smin.i64 ullmax llvm.umax.i64 ullmin llvm.umin.i64
dsqrt_rn llvm.sqrt.f64 fsqrt_rn llvm.sqrt.f32
fma_rn llvm.fma.f64 fmaf_rn llvm.fma.f32 fmaf_ieee_rn llvm.fma.f32
scalbn ldexp scalbnf ldexpf
fast_cosf cosf fast_exp10f exp10f fast_expf expf fast_log10f log10f fast_log2f log2f
fast_logf logf fast_powf powf fast_sinf sinf fast_tanf tanf fast_tanhf tanhf
"""

_OURS = """
cbrt rcbrt cosh tanh exp10 log10 lgamma erfcx erfinv erfcinv normcdf normcdfinv sinpi cospi jn yn
cyl_bessel_i0 cyl_bessel_i1 rhypot norm3d rnorm3d norm4d rnorm4d norm rnorm normf rnormf
"""
_OURS_ROUNDED = """
dadd dsub dmul ddiv drcp dsqrt fma fadd fsub fmul fdiv frcp fsqrt fmaf
double2float int2float uint2float ll2float ull2float ll2double ull2double
"""


def rewrite(text: str) -> str:
    """LLVM IR that calls nothing of libdevice's. Functions that are not known here are left."""
    if PREFIX not in text:
        return text
    names, bodies = _names(), definitions()
    needed: dict[str, str] = {}  # declarations by name
    added: dict[str, str] = {}  # definitions likewise
    waiting = []

    def declared(found: re.Match[str]) -> str:
        result, name, parameters = found.groups()
        if name in names:
            needed[names[name]] = f"{result} @{names[name]}({parameters})"
        elif name in bodies:
            waiting.append(name)
        else:
            return found[0]
        return ""

    def renamed(found: re.Match[str]) -> str:
        return f"@{names.get(found[1], PREFIX + found[1])}("

    text = re.sub(
        r'^declare (?:\w+ )*?(\w+) @"?__nv_(\w+)"?\((.*?)\)[^\n]*$', declared, text, flags=re.M
    )
    text = re.sub(r'@"?__nv_(\w+)"?\(', renamed, text)
    while waiting:
        name = waiting.pop()
        if name not in added:
            added[name] = bodies[name]
            for result, called, arguments in re.findall(
                r"call (\w+) @([\w.]+)\((.*?)\)", bodies[name]
            ):
                if called.startswith(PREFIX):
                    waiting.append(called[len(PREFIX) :])
                else:
                    types = ", ".join(a.split()[0] for a in arguments.split(", "))
                    needed[called] = f"{result} @{called}({types})"
    for name in re.findall(r'^declare [^@\n]*@"?([\w.]+)', text, flags=re.M):
        needed.pop(name, None)
    return "\n".join((text, *(_declaration(d) for d in needed.values()), *added.values(), ""))


def known(name: str) -> bool:
    """Whether `rewrite` knows a function of libdevice, by its name there."""
    own = name.removeprefix(PREFIX)
    return own != name and (own in _names() or own in definitions())


def _declaration(head: str) -> str:
    if "@llvm." in head:
        return f"declare {head}"
    memory = "argmem: readwrite" if "ptr" in head else "none"
    return f"declare {head} nounwind willreturn memory({memory})"


@cache
def _names() -> dict[str, str]:
    """Functions of another name and the same signature."""
    pairs = iter(_SAME.split())
    names = dict(zip(pairs, pairs, strict=True))
    for suffix, llvm in _WIDTHS:
        names |= {name + suffix: f"llvm.{name}.{llvm}" for name in _OF_LLVM.split()}
        names |= {name + suffix: name + suffix for name in _OF_C.split()}
    names |= {name: name for name in (*_OF_C_TOO.split(), *IN_C)}
    names |= {name: f"kb_nv_{name}" for name in _OURS.split()}
    for rounded in _OURS_ROUNDED.split():
        names |= {f"{rounded}_{d}": f"kb_nv_{rounded}_{d}" for d in _DIRECTIONS}
    return names | {f"fmaf_ieee_{d}": f"kb_nv_fmaf_{d}" for d in _DIRECTIONS}
