"""Functions in LLVM IR that compute on buffers, and their derivatives as functions of that kind.

A kernel of any language is brought into one form,

    void name(i32 *status, i8 **exception, data of each buffer..., i64 extents...)

with C-ordered buffers. Its derivative has this form, too: the kernel's own buffers, and their
shadows, which hold tangents or cotangents. Derivatives of any order are therefore made in one way.
Enzyme replaces the calls of `__enzyme_autodiff` and `__enzyme_fwddiff` (https://enzyme.mit.edu).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import numpy as np

from kernbridge._ext.enzyme import tool
from kernbridge._ext.enzyme.guards import chooses_arrays
from kernbridge._src.base.dtypes import BITS, DTYPES
from kernbridge._src.base.errors import NoDerivativeError
from kernbridge._src.calls.call import ArrayType, Call
from kernbridge._src.llvm.text import Instruction, Module, declared_once, symbol, symbols
from kernbridge._src.operation.spec import Mode, Step
from kernbridge._src.toolchain.programs import Ended

LABELS: dict[Mode, str] = {"jvp": "tangents", "vjp": "cotangents"}
Kind = Literal["in", "work", "inout", "out", "scratch", "shared"]

_CALLS = {"jvp": "__enzyme_fwddiff", "vjp": "__enzyme_autodiff"}
FILL = "@llvm.memset.p0.i64"
# Enzyme keeps the values of each loop, and sums the cotangents of all edges that a `switch` has to
# one block, as if each of them had been taken.
_OPTIMISED = ",default<O2>"
_PASSES = (
    "always-inline,function(sroa,early-cse<memssa>,instcombine,loop-simplify,lcssa,"
    "loop(indvars,loop-unroll-full),sroa,early-cse<memssa>,instcombine,lowerswitch),enzyme"
)
# Enzyme marks what it adds as `fast`, which leaves open what comes of infinite numbers and NaNs.
# Its own simplification would compute both sides of a branch, and make switches of branches.
# Memory filled with zeros stays a call of `malloc`, which is replaced by one that can fail.
_OPTIONS: dict[str, int | str] = {
    "disable-builtin": "calloc",
    **dict.fromkeys(("enzyme-fast-math", "enzyme-preopt", "enzyme-select-opt"), 0),
    **dict.fromkeys(("vectorize-loops", "vectorize-slp"), 0),
}
_UNDEDUCED = "Cannot deduce type of "
_UNDEDUCED_REALS = re.compile(
    _UNDEDUCED + r"[^\n=]*= (?:phi|load|f(?:add|sub|mul|div|neg))(?: [a-z]+)*? (?:float|double)\b"
)
# Enzyme's own simplification, but without computing both sides of a branch.
_SIMPLIFIED: dict[str, int | str] = {"enzyme-preopt": 1, "enzyme-loose-types": 0}
_SIMPLIFIED |= {"two-entry-phi-node-folding-threshold": 0, "phi-node-folding-threshold": 0}
_SIMPLIFIED |= {"speculate-one-expensive-inst": 0}


def _are_all_reals(said: str) -> bool:
    return said.count(_UNDEDUCED) == len(_UNDEDUCED_REALS.findall(said)) > 0


# Symptoms, as functions of what Enzyme says, and what another attempt does differently: options,
# and how much of the passes it leaves out. Each is tried once, after those before it.
_REMEDIES: tuple[tuple[Callable[[str], bool], dict[str, int | str], str], ...] = (
    # Enzyme may guess the type of what is a real number to LLVM, too.
    (_are_all_reals, {"enzyme-loose-types": 1}, ""),
    # Its choice of the values that it keeps may fail, such as in a loop that finds a maximum.
    (lambda said: "GradientUtils::computeMinCache" in said, {"enzyme-mincut-cache": 0}, ""),
    # LLVM may crash on what Enzyme leaves in memory, but not on its text.
    (lambda said: "PLEASE submit a bug report" in said, {}, _OPTIMISED),
    (lambda said: _UNDEDUCED in said, _SIMPLIFIED, ""),
)
_ADDED_ZERO = re.compile(r"( = fadd) ((?:double|float) \S+, 0\.0+e\+00)$", re.M)
_DATA, _DIMS = 24, 40  # where XLA's description of a buffer has its address and its extents


class Buffer(NamedTuple):
    """An array of a function.

    Its kind says what the function does with it: it reads an operand ("in"), may write to its own
    copy of an operand ("work"), turns an operand into a result in place ("inout"), makes a result
    ("out"), or writes to memory that has no meaning afterwards ("scratch"), which the threads of a
    block of a GPU may share ("shared").
    """

    dtype: str
    extents: tuple[int, ...]  # the parameter that holds each
    kind: Kind
    is_read: bool = True  # if not, what is written to it need not be computed for a derivative
    begins_as_zeros: bool = False
    is_alone: bool = True  # no other thread writes to it between two accesses of one thread
    size: int = 0  # bytes, if it is shared
    edges: int = 0  # elements on each side of where two blocks meet that begin as zeros

    @property
    def is_inexact(self) -> bool:
        return "Float" in DTYPES[self.dtype].enzyme

    @property
    def item_size(self) -> int:
        return BITS[self.dtype] // 8


@dataclass(frozen=True)
class Function:
    """A function, and the module that defines it, in the grammar of LLVM that Enzyme reads."""

    text: str
    name: str
    buffers: tuple[Buffer, ...]
    operands: tuple[int, ...]  # buffers, in the order of a call
    results: tuple[int, ...]
    chooses_arrays: bool = False  # at run time

    @property
    def arrays(self) -> tuple[int, ...]:
        """The buffers that a launch is given; shared memory is part of the launch itself."""
        return tuple(i for i, b in enumerate(self.buffers) if b.kind != "shared")

    @property
    def written(self) -> tuple[int, ...]:
        """The operands of which a call needs a copy."""
        return tuple(k for k, i in enumerate(self.operands) if self.buffers[i].kind == "work")

    @property
    def hidden(self) -> list[int]:
        """The buffers after the results of a call: copies of operands, and scratch memory."""
        scratch = [i for i, b in enumerate(self.buffers) if b.kind == "scratch"]
        return [self.operands[k] for k in self.written] + scratch

    @property
    def scratch(self) -> list[list[Any]]:
        """The dtype and the extents of each buffer of scratch memory, as JSON holds them."""
        return [[b.dtype, [*b.extents]] for b in self.buffers if b.kind == "scratch"]


def count_extents(buffers: Iterable[Buffer]) -> int:
    return 1 + max((e for b in buffers for e in b.extents), default=-1)


def temporaries(
    scratch: Iterable[Sequence[Any]], operands: Sequence[ArrayType], call: Call
) -> tuple[ArrayType, ...]:
    """The arrays that scratch memory is in a call of the kernel."""
    made = (call.outs[b - len(operands)] for b in call.fresh)
    sizes = [n for t in (*operands, *made) for n in t.shape]
    return tuple(ArrayType(tuple(sizes[e] for e in of), np.dtype(d)) for d, of in scratch)


class Roles(NamedTuple):
    """What a kernel does with the arrays of a call."""

    operands: tuple[int, ...]
    outputs: tuple[int, ...] = ()
    aliases: tuple[tuple[int, int], ...] = ()  # pairs of an operand and the output in its memory
    zeroed: tuple[int, ...] = ()  # outputs that begin as zeros, unless they are in such pairs
    in_place: tuple[int, ...] = ()  # more operands that become results, as their derivatives do


def roles_of(
    n: int, n_arrays: int, aliases: Iterable[tuple[int, int]], zeroed: Iterable[int] = ()
) -> Roles:
    """The roles of a call's arrays, of which the first `n` are operands; with its `aliases`."""
    pairs = tuple((i, n + o) for i, o in aliases)
    return Roles(tuple(range(n)), tuple(range(n, n_arrays)), pairs, tuple(zeroed))


def buffers_of(
    arrays: Mapping[int, tuple[str, int]], roles: Roles, written: Container[int] = ()
) -> tuple[list[Buffer], dict[int, int]]:
    """The buffers of a function on the arrays of a call, and the buffer of each array.

    `arrays` has the dtype and the rank of each, and `written` those to which the kernel may write.
    """
    of_output = {o: i for i, o in roles.aliases}
    inout = {*of_output.values(), *roles.in_place}
    buffers: list[Buffer] = []
    places: dict[int, int] = {}
    n_extents = 0
    for i, (dtype, rank) in arrays.items():
        if i in of_output:
            continue
        kind: Kind = "out" if i in roles.outputs else "work" if i in written else "in"
        extents = tuple(range(n_extents, n_extents + rank))
        places[i], n_extents = len(buffers), n_extents + rank
        kind = "inout" if i in inout else kind
        zeros = kind == "out" and i in roles.zeroed
        buffers.append(Buffer(dtype, extents, kind, begins_as_zeros=zeros))
    return buffers, places | {o: places[i] for o, i in of_output.items()}


def can_hold(dtype: str) -> bool:
    """Whether derivatives are known for arrays of a dtype, or are not needed."""
    return dtype in DTYPES and bool(DTYPES[dtype].enzyme)


def derive(function: Function, step: Step) -> Function:
    """Return the derivative with respect to some operands, before Enzyme has run.

    The derivative's operands are the function's operands, then tangents of the active ones (jvp) or
    cotangents of the results (vjp). Its results are the tangents of the results or the cotangents
    of the active operands; a step `with_values` has the function's own results before them.
    """
    mode, active = step.mode, {function.operands[k] for k in step.active}
    values: dict[Kind, Kind] = {} if step.with_values else {"inout": "work", "out": "scratch"}
    buffers = [b._replace(kind=values.get(b.kind, b.kind), is_read=True) for b in function.buffers]
    shadows: dict[int, int] = {}  # by buffer of the function
    for i, b in enumerate(function.buffers):
        if not b.is_inexact or (b.kind == "in" and i not in active):
            continue
        kinds = _SHADOWS[mode].get(b.kind, b.kind)
        name = kinds[i in active] if isinstance(kinds, tuple) else kinds
        kind = cast(Kind, name.lstrip("0"))
        zeros = name.startswith("0")
        zeros |= b.begins_as_zeros and kind in ("out", "scratch", "shared")
        shadows[i] = len(buffers)
        buffers.append(b._replace(kind=kind, is_read=True, begins_as_zeros=zeros))
    of_active = tuple(shadows[i] for i in function.operands if i in active)
    of_results = tuple(shadows[i] for i in function.results if i in shadows)
    given_shadows, results = (of_active, of_results) if mode == "jvp" else (of_results, of_active)
    name = f"{function.name}.{mode}"
    # What has no shadow then counts as its own, which Enzyme finds out by comparing addresses.
    given = ['metadata !"enzyme_runtime_activity"'] * function.chooses_arrays
    given += [f'metadata !"enzyme_const", ptr %{name}' for name in ("status", "exception")]
    for i in range(len(function.buffers)):
        shadow = f", ptr %b{shadows[i]}" if i in shadows else ""
        is_kept = function.buffers[i].is_read or (step.with_values and i in function.results)
        kept = "dup" if is_kept else "dupnoneed"
        given.append(f'metadata !"enzyme_{kept if shadow else "const"}", ptr %b{i}{shadow}')
    given += [f'metadata !"enzyme_const", i64 %e{k}' for k in range(count_extents(buffers))]
    enzyme = f"{_CALLS[mode]}.{name}"
    call = f"  call void (...) @{enzyme}(ptr @{function.name}, {', '.join(given)})"
    text = f"{function.text}\ndeclare void @{enzyme}(...)\n{definition(name, buffers, call)}"
    operands = (*function.operands, *given_shadows)
    made = replace(function, text=text, name=name, buffers=tuple(buffers))
    return replace(made, operands=operands, results=function.results * step.with_values + results)


# The kind of a shadow, by the kind of its buffer; a pair has the kinds for inactive and for active
# operands. A 0 before the kind means that the shadow begins as zeros. The tangent of a buffer that
# begins as zeros does so, too. Tangents of other buffers have the kind of their buffer.
_SHADOWS: dict[Mode, dict[Kind, str | tuple[str, str]]] = {
    "jvp": {"in": ("", "in"), "work": ("0scratch", "work"), "inout": ("0out", "inout")},
    "vjp": {
        "in": ("", "0out"),
        "work": ("0scratch", "0out"),
        "inout": ("work", "inout"),
        "out": "work",
        "scratch": "0scratch",
        "shared": "0shared",
    },
}


def around(
    text: str, called: str, buffers: Sequence[Buffer], operands: list[int], results: list[int]
) -> Function:
    """Return a function that calls a kernel of that form, which a module defines."""
    chooses = chooses_arrays(text, called)
    given = ["ptr %status", "ptr %exception"]
    given += [f"ptr %b{i}" for i in range(len(buffers))]
    given += [f"i64 %e{k}" for k in range(count_extents(buffers))]
    call = f"  call void @{called}({', '.join(given)})"
    text = f"{text}\n{definition('kernel', buffers, call)}"
    return Function(text, "kernel", tuple(buffers), tuple(operands), tuple(results), chooses)


def definition(name: str, buffers: Sequence[Buffer], *lines: str) -> str:
    """A function that executes lines, with what Enzyme should know of its memory."""
    parameters = ["ptr noalias %status", "ptr noalias %exception"]
    for i, b in enumerate(buffers):
        parameters.append(f"ptr {'noalias ' * b.is_alone}{holds(b.dtype)} %b{i}")
    parameters += [f"i64 %e{k}" for k in range(count_extents(buffers))]
    head = f"define void @{name}({', '.join(parameters)}) {{"
    return "\n".join([head, *lines, "  ret void", "}\n"])


def holds(dtype: str) -> str:
    """The attribute of a pointer to items of a dtype."""
    return f'"enzyme_type"="{{[-1]:Pointer, [-1,-1]:{DTYPES[dtype].enzyme}}}"'


# Enzyme takes memory that moves for memory that is copied, which is wrong where the two overlap.
_MOVE = "llvm.memmove.p0.p0."
_MOVED = """
declare noalias ptr @malloc(i64)
declare void @free(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define internal void @kb.move.{size}(ptr %to, ptr %from, {size} %n) alwaysinline {{
  %bytes = {as_i64}
  %copy = call noalias ptr @malloc(i64 %bytes)
  call void @llvm.memcpy.p0.p0.i64(ptr %copy, ptr %from, i64 %bytes, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %copy, i64 %bytes, i1 false)
  call void @free(ptr %copy)
  ret void
}}
"""
_AS_I64 = {"i32": "zext i32 %n to i64", "i64": "add i64 %n, 0"}
# The gamma function, and its logarithm, are computed as gamma.ll does.
_GAMMA = {f"{p}{f}" for f in ("gamma", "lgamma", "tgamma") for p in ("", "__nv_", "numba_")}
_GAMMA |= {f"{name}f" for name in _GAMMA}
_GAMMAS = Path(__file__).with_name("gamma.ll").read_text()
_GAMMA_OF = """define internal {t} @{name}({t} %x) alwaysinline {{
  %y = {widen} {t} %x to double
  %z = call double @kb.{function}(double %y)
  %r = {narrow} double %z to {t}
  ret {t} %r
}}"""
_OF_FLOAT = {"t": "float", "widen": "fpext", "narrow": "fptrunc"}
_OF_DOUBLE = {"t": "double", "widen": "bitcast", "narrow": "bitcast"}
# A tangent of zero would be multiplied by infinity in `max(x, 0) ** 0.3`.
_POWER = {"llvm.pow.f32", "llvm.pow.f64", "pow", "powf"}
_ONE = 0x3FF0000000000000  # the bits of 1.0
_POWERS = """
declare {0} @llvm.pow.{1}({0}, {0})
define internal {0} @kb.power.{0}({0} %x, {0} %y) alwaysinline {{
  %zero = fcmp oeq {0} %x, 0.0
  %none = fcmp oeq {0} %y, 0.0
  %some = fcmp oge {0} %y, 0.0
  %few = fcmp olt {0} %y, 1.0
  %root = and i1 %some, %few
  %steep = and i1 %zero, %root
  %base = select i1 %steep, {0} 1.0, {0} %x
  %power = call {0} @llvm.pow.{1}({0} %base, {0} %y)
  %value = uitofp i1 %none to {0}
  %result = select i1 %steep, {0} %value, {0} %power
  ret {0} %result
}}
"""
_TAGS = """
!{0} = !{{!"kernbridge"}}
!{1} = !{{!"double", !{0}, i64 0}}
!{2} = !{{!"float", !{0}, i64 0}}
!{3} = !{{!{1}, !{1}, i64 0}}
!{4} = !{{!{2}, !{2}, i64 0}}
"""
# Numba's LLVM prints what older ones cannot read: attributes and flags that only allow
# optimisations, which are dropped, and names for what had another name. `to_oldest` shows each
# rule. llvmlite 0.45 adds an attribute of a function to its result.
_MISPLACED = re.compile(
    r"^(define (?:\w+ )*?)(alwaysinline|noinline) (.*?)((?: !dbg !\d+)?) \{$", re.M
)
_GROUP = r"\((?:[^()]|\([^()]*\))*\)"
_RULES = (
    (rf"\bcaptures{_GROUP}", "nocapture"),
    (r"\bmemory\(none\)", "readnone"),
    (rf"\bmemory{_GROUP} ?", ""),
    (rf"\b(?:range|initializes|nofpclass){_GROUP} ?", ""),
    (r"\b(?:nocreateundeforpoison|dead_on_unwind|dead_on_return|writable) ?", ""),
    (r"\b(?:samesign|nneg|disjoint) ", ""),
    (r"\btrunc (?:nuw |nsw )+", "trunc "),
    (r"\b(getelementptr(?: inbounds)?) (?:nusw |nuw )+", r"\1 "),
    (r"^.*call void @llvm\.lifetime\.(?:start|end)\.[^\n]*\n", ""),
    (r"^declare void @llvm\.lifetime\.[^\n]*\n", ""),
    (r"^ +#dbg_[^\n]*\n", ""),
    (r"^target datalayout = [^\n]*\n", ""),  # what opt takes for the triple
)
_SPLAT = re.compile(r"<(\d+) x (\w+)> ((?:%[\w.]+, )?)splat \((\w+ [^()]*)\)")


def placed(text: str) -> str:
    """Return a module in which attributes that say whether a function is inlined are its own."""
    return _MISPLACED.sub(r"\1\3 \2\4 {", text)


def to_oldest(text: str) -> str:
    r"""Return a module in the grammar of LLVM `tool.OLDEST`.

    Examples
    --------
    >>> print(to_oldest("define internal alwaysinline void @f(ptr %x) #0 {"))
    define internal void @f(ptr %x) #0 alwaysinline {
    >>> print(to_oldest("ptr captures(none) %x, ptr captures(address, read_provenance) %y"))
    ptr nocapture %x, ptr nocapture %y
    >>> print(to_oldest("nounwind memory(none) memory(argmem: readwrite, errnomem: none) }"))
    nounwind readnone }
    >>> print(to_oldest("noundef range(i32 0, 2) i32, ptr writable dead_on_unwind %x"))
    noundef i32, ptr %x
    >>> print(to_oldest("zext nneg i32; or disjoint i64; icmp samesign ult; trunc nuw nsw i64"))
    zext i32; or i64; icmp ult; trunc i64
    >>> print(to_oldest("getelementptr inbounds nuw i8, <2 x i32> %a, splat (i32 1)"))
    getelementptr inbounds i8, <2 x i32> %a, <i32 1, i32 1>
    >>> dropped = "  call void @llvm.lifetime.start.p0(ptr %p)\n    #dbg_value(i64 0, !5, !6)\n"
    >>> dropped += 'declare void @llvm.lifetime.end.p0(ptr) #1\ntarget datalayout = "e-m:e"\n'
    >>> print(to_oldest(f"{dropped}ret"))
    ret
    """
    text = placed(text)
    for pattern, replacement in _RULES:
        text = re.sub(pattern, replacement, text, flags=re.M)

    def spelled(found: re.Match[str]) -> str:
        n, kind, before, item = found.groups()
        return f"<{n} x {kind}> {before}<{', '.join([item] * int(n))}>"

    return _SPLAT.sub(spelled, text)


def _prepared(text: str, is_tagged: bool) -> str:
    """A module in the grammar of the oldest LLVM, without what Enzyme differentiates wrongly.

    Unless each access to a real number already `is_tagged`, it gets a `tbaa` tag, which Enzyme's
    analysis of types reads.
    """
    module = Module(to_oldest(text))
    nodes = [int(node[1:]) for node in module.numbered if node[0] == "!" and node[1:].isdigit()]
    n = 1 + max(nodes, default=-1)
    tags = {} if is_tagged else {"double": n + 3, "float": n + 4}
    for i in module.instructions():
        if i.opcode == "call" and i.callee.startswith(_MOVE):
            given, _, rest = i.text.replace(f"@{_MOVE}", "@kb.move.").rpartition(", i1 ")
            i.text = given + rest[rest.index(")") :]
        elif i.opcode == "call" and i.callee in _POWER and _may_be_below_1(i.operands[1].value):
            i.text = i.text.replace(f"@{i.callee}(", f"@kb.power.{i.type}(")
        elif i.opcode == "atomicrmw" and i.flags[-1] == "fsub":
            # Enzyme differentiates an atomic subtraction as if it were an addition.
            _, (kind, value) = i.operands
            minus = f"%kb.minus.{i.result[1:].strip(chr(34))}"
            before, _, after = i.text.replace(" fsub ", " fadd ", 1).rpartition(f", {kind} {value}")
            i.text = f"  {minus} = fneg {kind} {value}\n{before}, {kind} {minus}{after}"
        elif i.opcode in ("load", "store") and i.type in tags and not i.flags:
            i.text += f", !tbaa !{tags[i.type]}" * ("tbaa" not in i.metadata)
    gammas = [f for f in module.functions.values() if f.is_declaration and f.name in _GAMMA]
    for f in gammas:
        function = "lgamma" if "lgamma" in f.name or f.name in ("gamma", "gammaf") else "tgamma"
        of = _OF_FLOAT if f.name.endswith("f") else _OF_DOUBLE
        f.head = _GAMMA_OF.format(name=f.name, function=function, **of)
    text = str(module) + _GAMMAS * bool(gammas)
    for size, as_i64 in _AS_I64.items():
        text += _MOVED.format(size=size, as_i64=as_i64) * (f"@kb.move.{size}(" in text)
    # Powers with an exponent below 1 have the derivative zero at zero, as square roots do.
    for kind, suffix in (("double", "f64"), ("float", "f32")):
        text += _POWERS.format(kind, suffix) * (f"@kb.power.{kind}(" in text)
    return declared_once(text + _TAGS.format(*range(n, n + 5)) * bool(tags))


def _may_be_below_1(exponent: str) -> bool:
    if exponent.startswith("0x"):
        return int(exponent, 16) < _ONE
    return exponent.startswith("%") or "e-" in exponent


class Refused(Exception):
    """Enzyme cannot differentiate a function: the reason, and the line if the module has lines.

    The place is None if no line needs to be found. `called` matches the function whose call is
    refused; empty if it is something else.
    """

    def __init__(self, reason: str, place: str | None = "", called: str = "") -> None:
        super().__init__(reason)
        self.place, self.called = place, called
        if found := re.match(r"it calls (\S+),", reason):
            self.called = rf'@"?(?:__nv_)?{re.escape(found[1])}"?\('

    def is_of(self, i: Instruction) -> bool:
        """Whether an instruction is the call that is refused."""
        return i.opcode == "call" and re.search(self.called, i.text) is not None

    def error(self, label: str, place: str) -> NoDerivativeError:
        return NoDerivativeError(
            f"{label}: Enzyme cannot differentiate the kernel: {self}{place and f' ({place})'}. "
            "Write the derivative of this kernel as a function (vjp=, jvp=), or leave this part "
            "out of it [KB2107]"
        )


def run(function: Function, by_clang: bool = False, has_lines: bool = False) -> str:
    """Let Enzyme replace its calls in a function's module; return the module, or raise Refused.

    Enzyme refuses, for example, a function that calls one whose derivative it does not know. Its
    LLVM optimises the module, unless that is of C or C++ (`by_clang`), where clang does. The lines
    of the module are left out, unless a refusal should name one.
    """
    text = function.text
    if name := _calling_itself(text):
        who = name if by_clang else "a function"  # Numba's names have its types in them
        raise Refused(f"{who} calls itself, which Enzyme differentiates wrongly", called=name)
    given = _prepared(text, is_tagged=by_clang).encode()
    options = _OPTIONS | {"strip-debug": int(not has_lines)}
    ended = _attempts(given, _PASSES if by_clang else _PASSES + _OPTIMISED, options)
    _, found, module = ended.text.partition("; ModuleID")
    # It does not matter for the memory that a first derivative allocates itself.
    where = "" if text.count("declare void @__enzyme_") == 1 else ".*@_Zd[la]Pv"
    if by_clang and re.search(f"freeing without malloc{where}", ended.text):
        raise Refused(
            "it frees memory of which Enzyme does not find where it is allocated: a container that "
            "grows has to get its size where it is made"
        )
    if ended.status == 0 and found:
        return _ADDED_ZERO.sub(r"\1 nsz \2", found + module)  # whatever the sign of a zero
    if "@llvm.stacksave" in text and not by_clang and not ended.limit:  # Numba's, for shapes
        why = "it has `np.where` of arrays, or broadcasts arrays by another function"
        raise Refused(why, called=r"@llvm\.stacksave")
    place = re.search(r"^error: (/?[^<:]\S*?:[1-9]\d*)", ended.text, re.M)
    raise Refused(ended.limit or _reason(ended.text), place[1] if place else "")


def _attempts(text: bytes, passes: str, options: dict[str, Any]) -> Ended:
    """Run Enzyme, and again as long as there is a remedy for what it says."""
    remedies = list(_REMEDIES)
    while True:
        words = [f"-{name}={value}" for name, value in options.items()]
        ended = tool.find().run(f"-passes={passes}", *words, "-S", "-o", "-", "-", input=text)
        remedy = next((r for r in remedies if r[2] in passes and r[0](ended.text)), None)
        if remedy is None:
            return ended
        remedies.remove(remedy)
        options, passes = options | remedy[1], passes.removesuffix(remedy[2])


def _calling_itself(text: str) -> str:
    """A function of a module that calls itself, perhaps by way of others; empty if none does."""
    defined = Module(text).defined
    bodies = {name: str(f).partition("\n")[2] for name, f in defined.items()}
    called = {name: set(symbols(body)) & defined.keys() for name, body in bodies.items()}
    while leaves := [name for name, others in called.items() if not others & called.keys()]:
        for name in leaves:
            del called[name]
    name = next((n for n, others in called.items() if n in others), next(iter(called), ""))
    return name and symbol(name)[1:]


def _reason(output: str) -> str:
    """Why Enzyme refused, in words."""
    if found := re.search(r"Enzyme: No .*? found for (\S+)", output):
        return f"it calls {found[1]}, of which Enzyme knows no derivative"
    if ".numba.unresolved$" in output:  # by whose address Numba calls a function that it compiles
        return "a function calls itself"
    if found := re.search(r"Enzyme: Cannot deduce type of (.*)", output):
        return f"Enzyme cannot tell numbers from other data in {found[1].strip()[:200]}"
    if re.search(r"Enzyme: <analysis>|Illegal updateAnalysis", output):
        return "it uses the same memory for real numbers and for integers"
    lines = re.findall(r"^(?:.*(?:error:|ERROR|UNREACHABLE)|cannot handle).*", output, re.M)
    first = re.sub(r"^.*Enzyme: ", "", (lines or output.splitlines() or ["it failed"])[0])
    if re.search("Assertion `|PLEASE submit", first):
        return "Enzyme itself failed on it, at an assertion of its own or of LLVM"
    return f"Enzyme reports: {first[:300]}"


def entry(function: Function, name: str) -> Function:
    """Add a function for a call of XLA, with the type that numba_cpu/entry.py describes."""
    head = f"define i32 @{name}(ptr %result, ptr %exception, ptr %inputs, ptr %outputs) {{"
    lines = [function.text, head, "  %status = alloca i32", "  store i32 0, ptr %status"]
    places = {i: ("inputs", k) for k, i in enumerate(function.operands)}
    for k, i in enumerate((*function.results, *function.hidden)):
        places.setdefault(i, ("outputs", k))  # or it is in the memory of an operand
    extents = set[int]()
    for i, (side, at) in places.items():
        lines += [
            f"  %at{i} = getelementptr ptr, ptr %{side}, i64 {at}",
            f"  %buffer{i} = load ptr, ptr %at{i}",
            f"  %field{i} = getelementptr i8, ptr %buffer{i}, i64 {_DATA}",
            f"  %given{i} = load ptr, ptr %field{i}",
            f"  %is_null{i} = icmp eq ptr %given{i}, null",
            f"  %data{i} = select i1 %is_null{i}, ptr inttoptr (i64 64 to ptr), ptr %given{i}",
            f"  %list{i} = getelementptr i8, ptr %buffer{i}, i64 {_DIMS}",
            f"  %dims{i} = load ptr, ptr %list{i}",
        ]
        for axis, e in enumerate(function.buffers[i].extents):
            if e not in extents:
                lines.append(f"  %dim{e} = getelementptr i64, ptr %dims{i}, i64 {axis}")
                lines.append(f"  %extent{e} = load i64, ptr %dim{e}")
        extents.update(function.buffers[i].extents)
    for i, b in enumerate(function.buffers):
        if b.begins_as_zeros:
            size = str(b.item_size)
            for axis, e in enumerate(b.extents):
                lines.append(f"  %size{i}.{axis} = mul i64 {size}, %extent{e}")
                size = f"%size{i}.{axis}"
            lines.append(f"  call void {FILL}(ptr %data{i}, i8 0, i64 {size}, i1 false)")
    arguments = ["ptr %status", "ptr %exception"]
    arguments += [f"ptr %data{i}" for i in range(len(function.buffers))]
    arguments += [f"i64 %extent{k}" for k in range(count_extents(function.buffers))]
    call = f"  call void @{function.name}({', '.join(arguments)})"
    lines += [call] if not _BROADCAST.search(function.text) else _versions(call, extents)
    lines += ["  %code = load i32, ptr %status", "  ret i32 %code", "}"]
    lines += [f"declare void {FILL}(ptr, i8, i64, i1)", "declare void @llvm.assume(i1)", ""]
    return replace(function, text="\n".join(lines), name=name)


# Whether all steps of a loop may read the same element.
_BROADCAST = re.compile(r"icmp ugt i64 %[^ ,]+, 1$", re.M)


def _versions(call: str, extents: Iterable[int]) -> list[str]:
    """Two calls: LLVM vectorises the loops of the first, in which no array is broadcast."""
    lines, all_ = list[str](), "true"
    for e in extents:
        lines.append(f"  %long{e} = icmp ugt i64 %extent{e}, 1")
        lines.append(f"  %all{e} = and i1 {all_}, %long{e}")
        all_ = f"%all{e}"
    lines += [f"  br i1 {all_}, label %long, label %short", "long:"]
    lines += [f"  call void @llvm.assume(i1 %long{e})" for e in extents]
    lines += [f"{call} alwaysinline", "  br label %end", "short:", f"{call} noinline"]
    return [*lines, "  br label %end", "end:"]


def guarded(text: str, entry: str, is_done: str) -> tuple[str, str]:
    """Add a function around an entry, to which what throws comes back; also return its name.

    Unless it `is_done` by a comparison of its `%code`, the failure is described by the core.
    """
    name = f"{entry}.guarded"
    return text + _GUARD.format(entry=entry, name=name, is_done=is_done), name


# What throws, or fails otherwise, comes back to the entry: see src/ext/enzyme/kb_thrown.c.
_GUARD = """
define i32 @{name}(ptr %result, ptr %exception, ptr %inputs, ptr %outputs) {{
  %place = alloca [512 x i8], align 16
  call void @kb_landing(ptr %place)
  %thrown = call i32 @_setjmp(ptr %place) returns_twice
  %is_back = icmp ne i32 %thrown, 0
  br i1 %is_back, label %failed, label %run
run:
  %code = call i32 @{entry}(ptr %result, ptr %exception, ptr %inputs, ptr %outputs) noinline
  call void @kb_landed()
  %is_done = {is_done}
  br i1 %is_done, label %end, label %failed
failed:
  %status = phi i32 [ 0, %0 ], [ %code, %run ]
  %record = call ptr @kb_failure(i32 %status)
  store ptr %record, ptr %exception
  br label %end
end:
  %returned = phi i32 [ %code, %run ], [ 1, %failed ]
  ret i32 %returned
}}
declare void @kb_landing(ptr)
declare void @kb_landed()
declare i32 @_setjmp(ptr) returns_twice
declare ptr @kb_failure(i32)
"""
