"""Derivatives of what the threads of a warp pass to each other.

In a shuffle, each thread reads the number of one thread. That is linear: tangents are shuffled in
the same way, and the cotangent of a thread is the sum of the cotangents of all that read from it.
Each of the two is the adjoint of the other, so that derivatives of any order are made of them.

Numba-CUDA shuffles the bits of real numbers. `typed` finds this in the IR of a kernel, before any
optimisation, and `link` defines the shuffles by functions whose derivatives Enzyme is given. Their
bodies follow when Enzyme has run (`completed`). Shuffled integers and votes are constant.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

from kernbridge._ext.enzyme import registered
from kernbridge._src.llvm.text import Module, declared_once, renamed
from kernbridge._src.numba_common.private_llvmlite import binding as llvm

# LLVM may neither move such a call to where other threads come, nor make one of two.
_BOUND = " convergent nomerge"
CONSTANT = f'nounwind nofree memory(inaccessiblemem: readwrite) "enzyme_inactive"{_BOUND}'
_KINDS = {"float": ("fpext", "fptrunc"), "double": ("bitcast", "bitcast")}
_LINEAR = {f"kb.gather.{k}": f"kb.scatter.{k}" for k in _KINDS}
_LINEAR |= {adjoint: name for name, adjoint in _LINEAR.items()}
_MODES = ("idx", "up", "down", "bfly")
# The type of what each vote gives, and its place in what kb.vote.sync gives.
_VOTES = {**dict.fromkeys(("all", "any", "uni"), ("i1", 1)), "ballot": ("i32", 0)}
_ON_GPUS = {"kb.lanemask_lt": "llvm.nvvm.read.ptx.sreg.lanemask.lt"}
_ON_GPUS |= {f"kb.match.any.sync.i{n}": f"llvm.nvvm.match.any.sync.i{n}" for n in (32, 64)}
_ON_GPUS |= {f"kb.match.all.sync.i{n}": f"llvm.nvvm.match.all.sync.i{n}p" for n in (32, 64)}
CONSTANTS = {"kb.shfl.sync.i32", "kb.vote.sync", "kb.active_mask", *_ON_GPUS}
KNOWN = {*CONSTANTS, *(f"{name}.plain" for name in _LINEAR)}

_LL = Path(__file__).with_name("shuffles.ll").read_text()
_BEFORE, _, _AFTER = _LL.partition("; After Enzyme:\n")
_FORWARD = """
  %%t = extractelement <4 x double> %%d, i32 0
  %%y = insertelement <4 x double> %%x, double %%t, i32 0
  %%m = call double @%s(<4 x double> %%y)"""
_BACKWARD = """
  %%y = insertelement <4 x double> %%x, double %%ct, i32 0
  %%c = call double @%s(<4 x double> %%y)
  %%m = insertelement <4 x double> zeroinitializer, double %%c, i32 0"""

# What clang calls in CUDA C++, where shuffles of real numbers are calls of kb.shfl.* at once.
_OF_CPP = """
define internal {0} @kb.{1}({2}) alwaysinline convergent {{
  %pair = call {{ i32, i1 }} @kb.{3}
  %r = extractvalue {{ i32, i1 }} %pair, {4}
  ret {0} %r
}}
declare {{ i32, i1 }} @kb.vote.sync(i32, i32, i1)
declare {{ i32, i1 }} @kb.shfl.sync.i32(i32, i32, i32, i32, i32)
"""
_SHUFFLED = "shfl.sync.i32(i32 %m, i32 0, i32 %x, i32 %l, i32 %c)"

# What Numba-CUDA writes for a shuffle of real numbers, where values have the names after each $.
_CALL = 'call {i32, i1} @"kb.shfl.sync.i32"(i32 $mask, i32 $mode, i32 %s, i32 $b, i32 $c)'
_FLOAT = f"""\
  $pair = {_CALL % "$x"}
  $word = extractvalue {{i32, i1}} $pair, 0
  $y = bitcast i32 $word to float
"""
_DOUBLE = f"""\
  $low = trunc i64 $x to i32
  $shifted = lshr i64 $x, 32
  $high = trunc i64 $shifted to i32
  $lows = {_CALL % "$low"}
  $highs = {_CALL % "$high"}
  $l = extractvalue {{i32, i1}} $lows, 0
  $h = extractvalue {{i32, i1}} $highs, 0
  $wide = zext i32 $l to i64
  $top = zext i32 $h to i64
  $up = shl i64 $top, 32
  $word = or i64 $up, $wide
  $y = bitcast i64 $word to double
"""
# Of each mode: the lane from which lane l reads, the one that reads from it, and the parameter c.
_READS = {
    "0": ("add i32 %n.b, 0", "add i32 %n.l, 0", "31"),
    "1": ("sub i32 %n.l, %n.b", "add i32 %n.l, %n.b", "0"),
    "2": ("add i32 %n.l, %n.b", "sub i32 %n.l, %n.b", "31"),
    "3": ("xor i32 %n.l, %n.b", "xor i32 %n.l, %n.b", "31"),
}
_TYPED = """\
  %n.x = bitcast {bits} {x} to {kind}
  %n.l = call i32 @kb.laneid()
  %n.b = and i32 {b}, 31
  %n.to = {to}
  %n.is.to = icmp ult i32 %n.to, 32
  %n.source = select i1 %n.is.to, i32 %n.to, i32 %n.l
  %n.of = {of}
  %n.is.of = icmp ult i32 %n.of, 32
  %n.back = select i1 %n.is.of, i32 %n.of, i32 %n.l
  {y} = call {kind} @kb.shfl.{kind}(i32 {mask}, {kind} %n.x, i32 %n.source, i32 %n.back)
"""


def typed(text: str) -> str:
    """A module in which shuffles of real numbers are calls of kb.shfl.float and kb.shfl.double."""
    if "@kb.shfl." not in text.replace('"', ""):
        return text
    for kind, bits, shuffle in (("float", "i32", _FLOAT), ("double", "i64", _DOUBLE)):

        def instead(found: re.Match[str], kind: str = kind, bits: str = bits) -> str:
            to, of, c = _READS.get(found["mode"], ("", "", ""))
            given = {"kind": kind, "bits": bits, "to": to, "of": of} | found.groupdict()
            called = _TYPED.format(**given).replace("%n.", f"%kb.{kind}{found.start()}.")
            return called if found["c"] == c else found[0]

        text = _pattern(shuffle).sub(instead, text)
        text += f"declare {kind} @kb.shfl.{kind}(i32, {kind}, i32, i32)\n"
    return declared_once(f"{text}declare i32 @kb.laneid()\n")


@functools.cache
def _pattern(shuffle: str) -> re.Pattern[str]:
    pattern = re.escape(shuffle)
    for name in dict.fromkeys(re.findall(r"\$(\w+)", shuffle)):
        pattern = re.sub(rf"\\\${name}\b", f"(?P={name})", pattern)
        pattern = pattern.replace(f"(?P={name})", rf"(?P<{name}>[^\s,)]+)", 1)
    return re.compile(pattern)


def in_cpp(text: str) -> str:
    """A module of CUDA C++ with what it calls for shuffles of integers and for votes."""
    given = "i32 %m, i32 %x, i32 %l, i32 %c"
    text += _OF_CPP.format("i32", "shfl.sync.idx.i32", given, _SHUFFLED, 0)
    for mode, (kind, (t, at)) in enumerate(_VOTES.items()):
        called = f"vote.sync(i32 %m, i32 {mode}, i1 %p)"
        text += _OF_CPP.format(t, f"vote.{kind}.sync", "i32 %m, i1 %p", called, at)
    return declared_once(text)


def link(module: Any) -> None:
    """Define the shuffles of real numbers that a module declares, for Enzyme."""
    declared = {f.name for f in module.functions}
    if declared.isdisjoint(f"kb.shfl.{kind}" for kind in _KINDS):
        return
    # So LLVM removes what is not used. Enzyme does not see this, and repeats no shuffle.
    effects = "memory(inaccessiblemem: read)"
    like = {"t": "double", "a": "<4 x double>", "effects": effects, "bound": _BOUND}
    called = {name: f"{registered.REGISTERED}{name}" for name in _LINEAR}
    functions = [
        {"name": name, "forward": _FORWARD % called[name], "backward": _BACKWARD % called[other]}
        for name, other in _LINEAR.items()
    ]
    made = registered.module(like | function for function in functions)
    for text in (made, *(_of_kind(_BEFORE, kind) for kind in _KINDS)):
        module.link_in(llvm.parse_assembly(text))
    for name in _LINEAR:
        module.get_function(name).linkage = "internal"


def _of_kind(text: str, kind: str) -> str:
    widen, narrow = _KINDS[kind]
    return text.replace("KIND", kind).replace("WIDEN", widen).replace("NARROW", narrow)


def marked(text: str) -> str:
    """A module that tells Enzyme of shuffles on which only comparisons and integers depend."""
    module = Module(text)
    for f in module.defined.values():
        ahead = [n for i in f.instructions if not i.result or "atomic" in i.opcode for n in i.names]
        used = set[str]()
        while ahead:
            if (name := ahead.pop()) not in used:
                used.add(name)
                i = f.defined.get(name)
                ahead += i.names if i and i.opcode not in ("fcmp", "fptosi", "fptoui") else []
        for i in f.instructions:
            if i.callee.startswith(registered.REGISTERED) and i.result not in used:
                call, comma, metadata = i.text.partition(", !")
                i.text = f'{call} "enzyme_inactive"{comma}{metadata}'
    return str(module)


def completed(text: str) -> str:
    """A module after Enzyme with the bodies of the shuffles of which a result is used."""
    if f"@{registered.REGISTERED}kb." not in text:
        return text
    module = Module(text)
    for f in module.defined.values():
        for i in f.instructions:
            if i.callee.startswith(registered.REGISTERED) and i.result not in f.users:
                i.text = ""
    return with_reads(registered.released(str(module)))


def with_reads(text: str) -> str:
    """A module after Enzyme with the functions by which a thread reads the number of another."""
    if "kb.read.i32" in Module(text).defined:
        return text
    definitions = [part for kind in _KINDS for part in _of_kind(_AFTER, kind).split("\n}\n")]
    more = "".join(f"{part}\n}}\n" for part in dict.fromkeys(definitions) if part)
    return declared_once(f"{text}\n{more}declare i32 @kb.active_mask() convergent\n")


def on_gpus(text: str) -> str:
    """A module that calls what LLVM knows of NVIDIA's GPUs."""
    module = Module(text)
    for i in module.instructions("call"):
        given = [f"{o.type} {o.value}" for o in i.operands]
        if i.callee == "kb.shfl.sync.i32":
            called = f"shfl.sync.{_MODES[int(given.pop(1)[-1])]}.i32p"
            i.text = f"  {i.result} = call {{ i32, i1 }} @llvm.nvvm.{called}({', '.join(given)})"
        elif i.callee == "kb.vote.sync":
            kind, (t, at) = [*_VOTES.items()][int(given.pop(1)[-1])]
            called = f"call {t} @llvm.nvvm.vote.{kind}.sync({', '.join(given)})"
            into = f"insertvalue {{ i32, i1 }} undef, {t} {i.result}.vote, {at}"
            i.text = f"  {i.result}.vote = {called}\n  {i.result} = {into}"
        elif i.callee == "kb.active_mask":
            called = 'asm sideeffect "activemask.b32 $0;", "=r"() convergent'
            i.text = f"  {i.result} = call i32 {called}"
    text = renamed(str(module), lambda name: _ON_GPUS.get(name, name))
    for mode in _MODES:
        text += f"declare {{ i32, i1 }} @llvm.nvvm.shfl.sync.{mode}.i32p(i32, i32, i32, i32)\n"
    for kind, (t, _) in _VOTES.items():
        text += f"declare {t} @llvm.nvvm.vote.{kind}.sync(i32, i1)\n"
    return text
