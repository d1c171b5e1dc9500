"""What Numba-CUDA calls of CUDA's headers for float16 and bfloat16, by its mangled names.

Each function of C++ is a shim there: it returns a status and takes pointers to its result and to
its arguments. Here it loads, calls a function of `halves`, and stores.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import halves
from halves import FORMATS, INTEGERS, LOADS, MATH, MODES, ORDERS, SHUFFLES, WHOLE, Format

# Integers as CUDA's names of conversions have them, and as C++'s mangled names do.
_SPELT = ("char", "uchar", "short", "ushort", "int", "uint", "ll", "ull"), "ahstijxy"
_STORES = ("__stwb", "__stcg", "__stcs", "__stwt")


def _mangled(name: str, parameters: str) -> str:
    return f"_ZL{len(name)}{name}{parameters}_nbst"


def _called(f: Format) -> dict[str, str]:
    """The function of values for each function of C++."""
    h, p = f.mangled, f.prefix
    double = "narrow" if f.kind == "double" else "double"
    names = {
        f"_ZN{h}C1Ef_nbst": "rn",
        f"_ZN{h}C1Ed_nbst": double,
        f"_ZN{h}C1ERK{_raw(f)}_nbst": "copy",
        _mangled(f"__double2{f.spelt}", "d"): double,
        _mangled(f"__float2{f.spelt}", "f"): "rn",
        _mangled(f"__{f.spelt}2float", h): "widen",
        _mangled("__hisinf", h): "isinf",
        _mangled("__hisnan", h): "isnan",
        _mangled("htanh_approx", h): "tanh",
        _mangled("atomicAdd", f"P{h}S_"): "atomic.add",
        f"_ZpsRK{h}_nbst": "copy",
        f"_ZngRK{h}_nbst": "neg",
    }
    if f.spelt == "bfloat16":  # operators of conversion; Numba has its own casts of float16
        names |= {
            f"__{h[2:]}__ZNK{h}cv{letter}Ev_1": f"to.{kind}.rz" for letter, kind in INTEGERS.items()
        }
        names[f"__{h[2:]}__ZNK{h}cvfEv_1"] = "widen"
        names[f"__{h[2:]}__ZNK{h}cvbEv_1"] = "bool"
    for constness in ("NK", "NVK"):
        names[f"__{h.lstrip('0123456789')}__Z{constness}{h}cv{_raw(f)}Ev_1"] = "copy"
    names |= {f"_ZN{h}C1E{letter}_nbst": f"from.{INTEGERS[letter]}.rn" for letter in "stijlmxy"}
    for mode in MODES:
        names[_mangled(f"__float2{f.spelt}_{mode}", "f")] = mode
        for spelt, letter in zip(*_SPELT, strict=True):
            kind = INTEGERS[letter]
            names[_mangled(f"__{f.spelt}2{spelt}_{mode}", h)] = f"to.{kind}.{mode}"
            names[_mangled(f"__{spelt}2{f.spelt}_{mode}", letter)] = f"from.{kind}.{mode}"
    for spelt, letter in (("short", "s"), ("ushort", "t")):
        names[_mangled(f"__{f.spelt}_as_{spelt}", h)] = "copy"
        names[_mangled(f"__{spelt}_as_{f.spelt}", letter)] = "copy"
    for name, letters in (("add", "plpL"), ("sub", "mimI"), ("mul", "mlmL"), ("div", "dvdV")):
        names[f"_Z{letters[:2]}RK{h}S1__nbst"] = names[f"_Z{letters[2:]}R{h}RKS__nbst"] = name
        for suffix, form in (("", ""), ("_rn", ""), ("_sat", ".sat")):
            names[_mangled(f"__h{name}{suffix}", f"{h}S_")] = name + form
    for form in ("", "sat", "relu"):
        names[_mangled(f"__hfma{form and '_' + form}", f"{h}S_S_")] = f"fma.{form}".strip(".")
    names |= {f"_ZN{h}C1E{o.mangled}_nbst": f"from.{o.spelt}" for o in FORMATS if o is not f}
    for order in ORDERS:
        names[_mangled(f"__h{order}", f"{h}S_")] = f"o{order}"
        names[_mangled(f"__h{order}u", f"{h}S_")] = f"u{order}"
        names[f"_Z{order}RK{h}S1__nbst"] = "une" if order == "ne" else f"o{order}"
    for name in ("max", "min"):
        names[_mangled(f"__h{name}", f"{h}S_")] = name
        names[_mangled(f"__h{name}_nan", f"{h}S_")] = f"{name}.nan"
    names |= {_mangled(f"__h{name}", h): name for name in ("neg", "abs")}
    names |= {_mangled(f"h{name}", h): name for name in (*MATH, *WHOLE, "rsqrt", "rcp")}
    names |= {_mangled(name, f"PK{h}"): name for name in LOADS}
    names |= {_mangled(name, f"P{h}S_"): "store" for name in _STORES}
    names |= {_mangled(n, f"j{h}{lane}i"): n for n, (_, lane, _) in SHUFFLES.items()}
    return {name: f"{p}.{called}" for name, called in names.items()}


def _raw(f: Format) -> str:
    name = f"{f.mangled.lstrip('0123456789')}_raw"
    return f"{len(name)}{name}"


def _shim(name: str, called: str, signature: str) -> str:
    result, parameters = signature.split(" (", 1)
    kinds = re.findall(r"(\w+) %\w+", parameters.split(")", 1)[0])
    pointers = ", ".join(["ptr %to", *(f"ptr %p{i}" for i in range(len(kinds)))])
    loads = "\n".join(f"  %v{i} = load {kind}, ptr %p{i}" for i, kind in enumerate(kinds))
    values = ", ".join(f"{kind} %v{i}" for i, kind in enumerate(kinds))
    status = "ptr %ignored, " if "C1E" in name else ""  # constructors have both
    return f"""i32 ({status}{pointers}) {{
{loads}
  %r = call {result} @{called}({values})
  store {result} %r, ptr %to
  ret i32 0 }}"""


def _casts() -> dict[str, str]:
    """The function of values for each of Numba's own casts, which bfloat16 does not have."""
    casts = {"kb.cvt.f32.f16": "widen", "kb.cvt.rn.f16.f32": "rn", "kb.cvt.rn.f16.f64": "double"}
    for kind in INTEGERS.values():
        casts[f"kb.cvt.rni.{kind}.f16"] = f"to.{kind}.rn"
        casts[f"kb.cvt.rn.f16.{kind}"] = f"from.{kind}.rn"
    return {name: f"kb.f16.{called}" for name, called in casts.items()}


def _named(f: Format, functions: Callable[[Format], dict[str, str]]) -> dict[str, str]:
    """Functions of values, and what calls them by other names."""
    found = functions(f)
    shims = {name: _shim(name, c, found[c]) for name, c in _called(f).items() if c in found}
    return found | shims | {name: found[c] for name, c in _casts().items() if c in found}


def _of_values(f: Format) -> dict[str, str]:
    empty = {f"_ZN{f.mangled}C1Ev_nbst": "i32 (ptr %ignored, ptr %self) { ret i32 0 }"}
    return _named(f, halves.values) | empty


_ODD = "; Rounding to odd, for float16 and bfloat16: see halves.py.\n"
_VALUES = """\
; {0.spelt}: {0.prefix}.* compute on bits as i16, as halves.py describes. What Numba-CUDA calls of
; CUDA's headers has C++'s mangled name: it takes pointers to its result and to its arguments.
"""
_INTEGERS = "; {0.spelt}: conversions to and from integers.\n"

FILES = {"halves.ll": (_ODD, halves.rounding_to_odd)}
for _f in FORMATS:
    _file = _f.prefix.removeprefix("kb.")
    FILES[f"{_file}.ll"] = _VALUES.format(_f), partial(_of_values, _f)
    FILES[f"{_file}_integers.ll"] = _INTEGERS.format(_f), partial(_named, _f, halves.integers)
