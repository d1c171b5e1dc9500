"""Translates CUDA C++ to C++, after the preprocessor, for the CPU.

A launch, shared memory and inline PTX have no form that a C++ compiler takes; everything else is
defined by headers (include/ext/emulator/cuda). What has no meaning on CPUs is refused by its line.
Only the user's own text and CUB's are read: lines of system headers stay as they are.
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import json
import os
import re
import sys
from collections.abc import Sequence

from kernbridge._src.base.errors import KernelCompilationError
from kernbridge._src.forge.obtain import log
from kernbridge._src.keys import package_digest
from kernbridge._src.numba_common import cpu_features
from kernbridge._src.scan import scanner
from kernbridge._src.toolchain import compilers, library
from kernbridge._src.toolchain.library import Command, Language, LibraryJob, Preprocess, Request

CPP_ON_CPU = "; CUDA C++ "
"""Begins the text of an image for CPUs whose code is a library, made from CUDA C++."""

refusals: dict[str, str] = {}
"""Messages about kernels and sources that do not run on CPUs, by what messages call them."""

FRAME_MAX = 640 << 10
"""Bytes that a function of CUDA C++ on the CPU may take of a thread's stack; a GPU has 512 KB."""
# Calls of functions before every access, which kernbridge/cuda_on_cpu/checked.hpp of
# include/ext/emulator defines in place of the sanitizers' libraries. g++ would write out what
# copies memory, without such calls.
_CHECKED = (
    *("-O1", "-g1", "-fsanitize=thread", "-fsanitize=bounds,alignment", "-nodefaultlibs"),
    *("-fno-builtin-memcpy", "-fno-builtin-memmove", "-fno-builtin-memset"),
)
_WRAPPED = "-Wl,-Bsymbolic,--wrap=memcpy,--wrap=memmove,--wrap=memset"  # clang copies structures so
Changes = list[tuple[int, int, str]]  # of a text: each from, to before, and what stands there
_CHECKED_LIBRARIES = (_WRAPPED, "-lstdc++", "-lm", "-lgcc_s", "-lc")

_LOOPS_BY = "-DKB_LOOPS_BY="  # what makes loops, of which others are other libraries
_NAMESPACE = "::kernbridge::cuda_on_cpu::"
_CUB = re.compile(r"/cub/[^\0]+\.cuh$")
_MARKER = re.compile(r'^# (\d+) "((?:[^"\\\n]|\\.)*)"([ \d]*)$', re.MULTILINE)
_MARKER_AFTER_LINE = re.compile(f"\n{_MARKER.pattern[1:]}", re.MULTILINE)  # is found in less time
_LITERAL = (
    r'R"(?P<raw>[^()\\\s]{0,16})\((?:.|\n)*?\)(?P=raw)"|"(?:[^"\\\n]|\\.)*"'
    r"|(?<![0-9a-fA-F])'(?:[^'\\\n]|\\.)+'"
)
_REFUSED = {
    r"cuda(?:Texture|Surface)Object_t|(?:tex|surf)[123]D\w*|cudaArray\w*": "textures",
    r"__cluster_dims__|this_cluster|cluster_group|__cluster\w+": "clusters",
    r"cub::Device\w+": "an algorithm of CUB for the whole device",
    r"(?:cublas|cusparse|cusolver|cufft|cudnn|nccl)[A-Z]\w*": "a library of CUDA",
    r"curandState(?:MRG|Mtgp|Sobol|Scrambled)\w*": "a generator other than XORWOW and Philox",
    r"cudaGraph[A-Z]\w*|cudaStream\w*Capture\w*ToGraph": "CUDA graphs",
    r"nvcuda|wmma|__pipeline_\w+|__nv_fp[468]\w*": "what only GPUs have",
}
_TOKEN = re.compile(
    rf"(?P<literal>{_LITERAL})|(?P<launch>(?<!operator)(?<!operator )<<\s*<)"
    r"|(?P<shared>\b__shared__\b)"
    r"|\bcuda(?:Launch(?:Cooperative)?Kernel|Func\w+)\s*\(\s*"
    r"(?P<cast>\(\s*(?:const\s+)?void\s*\*\s*\)|reinterpret_cast\s*<[\w\s]*\bvoid\s*\*\s*>)"
    r"|(?P<noinline>(?<!\()\b__noinline__\b)"
    r"|(?P<asm>\b(?:asm|__asm__|__asm)\b)"
    rf"|(?P<refused>\b(?:{'|'.join(_REFUSED)})\b)"
)
_OF_CUB = re.compile("__shared__|__noinline__|asm")
_FORWARD = re.compile(rf"{_LITERAL}|[()\[\]{{}}]|>>\s*>")
_WORDS = re.compile(rf"{_LITERAL}|[\w$]+|::|->|\S")
_UNSIZED = re.compile(r"([^;\[\]=]*?)([A-Za-z_]\w*)\s*\[\s*\]((?:\s*\[[^\[\]]*\])*)([^;,]*);")
_NAMESPACE_HEAD = re.compile(r'\bnamespace\b[^()]*$|\bextern\s*"[^"]*"\s*$')
_ALIGNED = r"\balignas\s*\((?:[^()]|\([^()]*\))*\)"
_ATTRIBUTE = rf"__attribute__\s*\(\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)\)|{_ALIGNED}"
_ATTRIBUTES = re.compile(_ATTRIBUTE)
# The words of a declaration before and after __shared__, which has no place of its own in it.
_WORDS_BEFORE = re.compile(
    rf"(?:(?:{_ATTRIBUTE}|\b\w+(?:\s*::\s*\w+)*(?:\s*<[^<>;{{}}]*>)?)\s*)*+\Z"
)
_ATTRIBUTES_AFTER = re.compile(rf"\s*(?:(?:{_ATTRIBUTE})\s*)*")
_NAMES = r"[A-Za-z_]\w*\s*(?:\[[^;]*?\]\s*)*(?:,\s*[A-Za-z_]\w*\s*(?:\[[^;]*?\]\s*)*)*"
# Of several arrays in one declaration, all have the same type.
_SIZED = re.compile(rf"([^;\[\]=(),]*?(?:<[^;=]*?>)?[^;\[\]=(),<>]*?[\s&*>])({_NAMES});")
_NAMES_ALONE = re.compile(rf"(\s*)({_NAMES});")
_TYPE_WITH_MEMBERS = re.compile(r"(union|struct|class)\b\s*(\w*)\s*(?=\{)")
_KEYWORDS = frozenset(
    ("return", "else", "do", "case", "throw", "and", "or", "not", "if", "while", "for", "switch")
)
# How __global__ is defined on CPUs.
_KERNEL = r"__attribute__\(\(always_inline\)\) __inline__\b[^;{}()]*?\b(\w+)\s*\("
_CALL = (
    r"(?:[;{{}})]|\belse\b|\breturn\b)(?:\s|#[^\n]*\n)*(?:::)?\b({})\s*"
    r"(?:<(?:(?!<\s*<)[^;{{}}()])*>\s*)?\("
)
# What PTX instructions mean, by their text without blanks; names of registers have one %.
_PTX = {
    "mov.u32%0,%laneid;": "({0}) = ::kernbridge::cuda_on_cpu::index_of_thread() & 31",
    "mov.u32%0,%warpid;": "({0}) = ::kernbridge::cuda_on_cpu::index_of_thread() >> 5",
    "mov.u32%0,%smid;": "({0}) = 0",
    "mov.u64%0,%globaltimer;": "({0}) = ::clock64()",
    "mov.u64%0,%clock64;": "({0}) = ::clock64()",
    "ex2.approx.f32%0,%1;": "({0}) = ::exp2f({1})",
    "lg2.approx.f32%0,%1;": "({0}) = ::log2f({1})",
    "rcp.approx.f32%0,%1;": "({0}) = 1.0f / ({1})",
    "rsqrt.approx.f32%0,%1;": "({0}) = ::rsqrtf({1})",
    "sqrt.approx.f32%0,%1;": "({0}) = ::sqrtf({1})",
    "tanh.approx.f32%0,%1;": "({0}) = ::tanhf({1})",
    "membar.gl;": "::__threadfence()",
    "membar.cta;": "::__threadfence_block()",
    "trap;": "::__trap()",
    "bar.sync0;": "::__syncthreads()",
    "": "(void)0",
}
_FTZ = [f"{name}.approx{{}}.f32%0,%1;" for name in ("ex2", "lg2", "rcp", "rsqrt")]
_PTX |= {ptx.format(".ftz"): _PTX[ptx.format("")] for ptx in _FTZ}
_MASKS = ("eq", "lt", "le", "ge", "gt")
_PTX |= {f"mov.u32%0,%lanemask_{n};": f"({{0}}) = ::__lanemask_{n}()" for n in _MASKS}
# What CUB's headers have. The sources of a vector are numbered before or after the address.
_ADDRESS = r"(?:\.v[24])?\.[ub](?P<bits>16|32|64)"
_VECTOR = r"(?:\{(?:%\d,?)+\}|%\d)"
_PTX_OF_CUB = {
    r"shfl\.sync\.(?P<mode>up|down)\.b32"
    r"%0,%1,%2,%3,%4;": "({0}) = {ns}shuffle_in_range({mode}, {1}, {2}, {3}, {4})",
    r"\{(?:\.reg\.\w+;)+(?:mov\.b64[^;]*;)*"
    r"(?:shfl\.sync\.(?P<mode>up|down)\.b32(?:r0|lo|hi)\|p,(?:%1|lo|hi),%2,%3,%[45];){1,2}"
    r"(?:mov\.b64[^;]*;)?@padd\.[usf](?:32|64)(?:r0,r0,(?P<addend>%4)|%0,%0,(?:r0|%1));"
    r"(?:mov\.\w+%0,r0;)?\}": "({0}) = {ns}add_shuffled({mode}, {1}, {2}, {3}, {addend})",
    rf"ld\.(?:c[agsv]|global\.nc){_ADDRESS}{_VECTOR},\[%\d\];": "load",
    rf"st\.(?:wb|cg|cs|wt){_ADDRESS}\[%0\],{_VECTOR};": "store",
    r"\{\.reg\.u(?P<bits>8)datum;ld\..*cvt\.u16\.u8%0,datum;\}": "load",
    r"\{\.reg\.u(?P<bits>8)datum;cvt\.u8\.u16datum,%1;st\..*\}": "store",
    r"bfe\.u32%0,%1,%2,%3;": "({0}) = {ns}bits_of({1}, {2}, {3})",
    r"shl\.b32%0,%1,%2;": "({0}) = {ns}shifted_left({1}, {2})",
    r"shr\.b32%0,%1,%2;": "({0}) = {ns}shifted_right({1}, {2})",
    r"\{\.reg\.predp;and\.b32%0,%1,%2;setp\.ne\.u32p,%0,0;vote\.ballot\.sync\.b32%0,p,"
    r"0xffffffff;@!pnot\.b32%0,%0;\}": "({0}) = {ns}lanes_that_agree({1}, {2})",
}
# What g++ refuses in CUB: a name that means another thing in a class than around it, and a count of
# rounds that depends on a parameter of a template.
_FOR_NVCC = re.compile(
    r"(?P<same>\busing (?P<name>\w+)\s*=\s*(?:typename\s+)?)(?=(?P=name)\s*<)|#pragma GCC unroll.*"
)


def _refused(label: str, place: str, what: str) -> KernelCompilationError:
    refusals[label] = (
        f"{label}: {place}: the source uses {what}, which CUDA C++ does not have on CPUs; run it "
        "on a GPU, or write this part differently [KB4005]"
    )
    return KernelCompilationError(refusals[label])


class _Translation:
    """What the C++ compiler gets; KernelCompilationError is raised for what has no meaning.

    The lines of `own` folders stay as they are; where accesses are `checked`, the core gives shared
    arrays their memory; and where there are `loops`, launches tell which kernel they launch.
    """

    def __init__(
        self, label: str, text: str, own: tuple[str, ...], checked: bool, loops: Sequence[str]
    ) -> None:
        self.label, self.text, self.checked, self.loops = label, f"\n{text}", checked, loops
        self.markers = list(_MARKER_AFTER_LINE.finditer(self.text))
        self.starts = [m.start() for m in self.markers]
        of_cub = functools.cache(lambda name: _CUB.search(name) is not None)
        stays = functools.cache(lambda name: name.startswith(("<", *own)))
        self.segments = [  # that are translated, and whether they are CUB's
            (m.end(), end, of_cub(m[2]))
            for m, end in zip(self.markers, [*self.starts[1:], len(self.text)], strict=True)
            if not stays(m[2]) and ("3" not in m[3] or of_cub(m[2]))
        ]

    def result(self) -> str:
        """Each change replaces a span; changes inside of a change are made by a second call."""
        changes: Changes = []
        self._refuse_plain_calls()
        for begin, end, is_cub in self.segments:
            if is_cub:
                for m in _FOR_NVCC.finditer(self.text, begin, end):
                    changes.append((*m.span(), m["same"] + "::cub::" if m["same"] else ""))
                if _OF_CUB.search(self.text, begin, end) is None:
                    continue
            position = begin
            while found := _TOKEN.search(self.text, position, end):
                kind, position = found.lastgroup, found.end()
                if kind == "raw" or found["literal"] is not None:
                    continue
                if found["noinline"] is not None:
                    changes.append((*found.span(), "__attribute__((noinline))"))
                elif found["shared"] is not None:
                    changes += self._shared(found, begin)
                elif found["asm"] is not None:
                    changes += self._assembly(found, is_cub)
                elif is_cub:
                    continue
                elif found["cast"] is not None:
                    changes.append((*found.span("cast"), ""))
                elif found["refused"] is not None:
                    self._refuse_name(found)
                else:
                    changes += self._launch(found)
        parts, at = [], 0
        for begin, end, new in sorted(changes):
            parts += [self.text[at:begin], new]
            at = end
        return "".join([*parts, self.text[at:], *self.loops])

    def _refuse(self, position: int, what: str) -> KernelCompilationError:
        return _refused(self.label, self._place(position), what)

    def _place(self, position: int) -> str:
        marker = self.markers[bisect.bisect_right(self.starts, position) - 1]
        line = int(marker[1]) + self.text.count("\n", marker.end() + 1, position)
        return f"{marker[2]}:{line}"

    def _find(self, pattern: str) -> list[re.Match[str]]:
        """Return where a pattern is in the user's own text."""
        compiled = re.compile(pattern)
        own = [(begin, end) for begin, end, is_cub in self.segments if not is_cub]
        return [m for span in own for m in compiled.finditer(self.text, *span)]

    def _refuse_plain_calls(self) -> None:
        """Refuse statements that call a kernel as a function, as nvcc does."""
        for name in {m[1] for m in self._find(_KERNEL)}:
            if any(not m[0].startswith("__inline__") for m in self._declarations(name)):
                continue  # another function or variable has this name, too
            for found in self._find(_CALL.format(name)):
                raise KernelCompilationError(
                    f"{self.label}: {self._place(found.start(1))}: a __global__ function call must "
                    f"be configured: write {name}<<<grid, block>>>(...) [KB4006]"
                )

    def _declarations(self, name: str) -> list[re.Match[str]]:
        """Return where something may be declared that has a name."""
        words = "|".join((*_KEYWORDS, "new", "typename", "sizeof"))
        head = rf"(?:__inline__[^;{{}}()]*?)?(?:\b(?!(?:{words})\b)\w+|[>*&])\s"
        return self._find(rf"{head}\s*[*&]*\b{name}\s*(?=[=;,({{:[])")

    def _refuse_name(self, found: re.Match[str]) -> None:
        word = found["refused"]
        what = next(what for names, what in _REFUSED.items() if re.fullmatch(names, word))
        if what != "a library of CUDA" or not self._declarations(word):
            raise self._refuse(found.start(), f"{word} ({what})")

    def _shared(self, found: re.Match[str], floor: int) -> Changes:
        before = _WORDS_BEFORE.search(self.text, max(floor, found.start() - 512), found.start())
        assert before is not None
        after = _ATTRIBUTES_AFTER.match(self.text, found.end())
        assert after is not None
        words = before[0].split()
        given = " ".join(w for w in words if w not in ("extern", "static"))
        kind = " ".join(_ATTRIBUTES.sub(" ", given).split())
        if "extern" not in words:
            known = self._checked_array(before.start(), after.end(), kind) if self.checked else None
            aligned = "".join(f"{a} " for a in re.findall(_ALIGNED, before[0] + after[0]))
            rest = re.sub(_ALIGNED, " ", f"{given} {after[0]}")
            return known or [(before.start(), after.end(), f"{aligned}static thread_local {rest}")]
        declared = _UNSIZED.match(self.text, after.end())
        if declared is None:
            raise self._refuse(
                found.start(), "extern __shared__ memory that is not one array without a size"
            )
        kind = " ".join([*kind.split(), *_ATTRIBUTES.sub(" ", declared[1]).split()])
        name, dims = declared[2], declared[3].strip()
        pointer = f"{kind} (*{name}){dims}"
        lines = "\n" * self.text.count("\n", before.start(), declared.end())
        value = f'({kind} (*){dims}){_NAMESPACE}shared_of_launch<{kind}>("{name}")'
        if self._is_in_function(before.start()):
            new = f"{pointer} = {value};"
        else:  # each block that runs sets it
            new = f"static thread_local {pointer}; static const {_NAMESPACE}DynamicName "
            new += f"kb_dynamic_{name}{{[] {{ {name} = {value}; }}}};"
        return [(before.start(), declared.end(), new + lines)]

    def _checked_array(self, begin: int, after: int, kind: str) -> Changes | None:
        """Return references to what the core gives; None for what is not declared in a function."""
        if not self._is_in_function(begin):
            return None
        changes, start = [], begin
        if members := _TYPE_WITH_MEMBERS.match(self.text, after):
            tag = members[2] or f"kb_shared_{after}"
            changes.append((begin, members.end(), f"{members[1]} {tag} "))
            after = start = self._close(members.end() + 1, "}") + 1
            kind = f"{kind} {tag}"
        declared = (_NAMES_ALONE if members else _SIZED).match(self.text, after)
        if declared is None:
            return None
        kind = " ".join([*kind.split(), *_ATTRIBUTES.sub(" ", declared[1]).split()])
        made = [
            f'auto &{name} = {_NAMESPACE}shared_array<{kind}{dims}>([] {{}}, "{name}");'
            for name, dims in re.findall(
                r"([A-Za-z_]\w*)\s*((?:\[[^;]*?\]\s*)*)(?:,|$)", declared[2]
            )
        ]
        lines = "\n" * self.text.count("\n", start, declared.end())
        return [*changes, (start, declared.end(), "; " * bool(changes) + " ".join(made) + lines)]

    def _is_in_function(self, position: int) -> bool:
        """Whether the innermost braces around a place belong to no namespace."""
        depth, at = 0, position
        while at > 0 and depth >= 0:
            at = max(self.text.rfind("{", 0, at), self.text.rfind("}", 0, at))
            depth += 1 if self.text[at] == "}" else -1
        before = re.split(r"[;{}]", self.text[max(0, at - 512) : max(at, 0)])[-1]
        return at > 0 and _NAMESPACE_HEAD.search(before) is None

    def _close(self, position: int, closing: str) -> int:
        """Return where `closing` is in a group that begins before `position`."""
        depth = 0
        for found in _FORWARD.finditer(self.text, position):
            word = found[0]
            if depth == 0 and "".join(word.split()) == closing:
                return found.start()
            depth += (word in "([{") - (word in ")]}") if len(word) == 1 else 0
            if depth < 0:
                break
        raise self._refuse(position, f"something without the {closing!r} that closes it")

    def _launch(self, found: re.Match[str]) -> Changes:
        begin = self._callee(found.start())
        end = self._close(found.end(), ">>>")
        after = re.compile(r">>\s*>\s*\(").match(self.text, end)
        callee = self.text[begin : found.start()]
        if not callee.strip() or after is None:
            raise self._refuse(found.start(), "<<< that launches no kernel")
        capture, given, passed, changes = self._arguments(after.end())
        plain, loops = " ".join(_MARKER.sub("", callee).split()), "0"
        if self.loops:
            run = f"kb_how.run_loops({plain}, kb_p...)"
            loops = f"[&](auto &kb_how, auto &...kb_p) -> decltype({run}) {{ return {run}; }}"
        head = (
            f"{_NAMESPACE}Launch{{[{capture}]({given}) __attribute__((always_inline)) {{ "
            f"{callee.rstrip()}({passed}); }}, {_NAMESPACE}Configuration({json.dumps(plain)}, "
        )
        lines = "\n" * callee[len(callee.rstrip()) :].count("\n")
        changes.append((begin, found.end(), head + lines))
        changes.append((end, after.end() - 1, f"), {loops}}}"))
        return changes

    def _arguments(self, begin: int) -> tuple[str, str, str, Changes]:
        """Return how a launch captures, its parameters, what it passes on, and what it leaves out.

        A null pointer and a list in braces have no type of their own, so they stay in the call.
        """
        end = self._close(begin, ")")
        tokens, items = _grouped(self.text, begin, end)
        commas = [tokens[i.start].start() for i in items if tokens[i.start][0] == ","]
        spans = zip([begin, *(comma + 1 for comma in commas)], [*commas, end], strict=True)
        parts = [(a, b, _MARKER.sub("", self.text[a:b]).strip()) for a, b in spans]
        stay = [re.match(r"\{|(?:\d[\w.]*|__null|NULL)\Z", word) is not None for *_, word in parts]
        if not any(stay):
            return "&", "auto... kb_p", "kb_p...", []
        given, passed, changes = [], [], []
        for i, ((at, until, word), stays) in enumerate(zip(parts, stay, strict=True)):
            dots = "..." if word.endswith("...") else ""
            given += [] if stays else [f"auto{dots} kb_p{i}"]
            passed.append(word if stays else f"kb_p{i}{dots}")
            if stays:
                markers = list(_MARKER.finditer(self.text, at, until))
                lines = "\n" * self.text.count("\n", at, until)
                changes.append((at, until, f"\n{markers[-1][0]}\n" if markers else lines))
            if i and (stays or len(given) == 1):
                changes.append((at - 1, at, ""))
        capture = "=" if any(word[:1] == "{" for _, _, word in parts) else "&"
        return capture, ", ".join(given), ", ".join(passed), changes

    def _callee(self, position: int) -> int:
        """Return where the expression begins that names the kernel."""
        begin = max(self.text.rfind(mark, 0, position) for mark in ";{}") + 1
        tokens, items = _grouped(self.text, begin, position)
        at, before, is_named = position, "", False
        for item in reversed(items):
            first, end = tokens[item.start], tokens[item.stop - 1].end()
            word, is_word = first[0], scanner.is_word(first[0])
            if is_named and word not in ("::", ".", "->", "template"):
                break
            if not is_named and (word in _KEYWORDS or not (is_word or word in "([<")):
                break
            if end < at and not (is_word or is_named or before in ("", "<", ".", "->")):
                break  # brackets of something else, as those after `if`
            at, before, is_named = first.start(), word, is_word
        return at

    def _assembly(self, found: re.Match[str], is_cub: bool) -> Changes:
        """Return what an instruction of PTX becomes; nothing if the compiler takes it as it is."""
        start = re.compile(r"(?:\s*\b(?:volatile|__volatile__|goto|inline)\b)*\s*\(").match(
            self.text, found.end()
        )
        if start is None:
            return []
        end = self._close(start.end(), ")")
        texts = re.match(r'\s*((?:"(?:[^"\\\n]|\\.)*"\s*)+)', self.text[start.end() : end])
        code = "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', texts[1])) if texts else "?"
        operands: list[str] = []
        position = start.end() + (texts.end() if texts else 0)
        while operand := re.search(r'"[^"]*"\s*\(', self.text[position:end]):
            begin = position + operand.end()
            position = self._close(begin, ")")
            operands.append(self.text[begin:position])
        new = _meaning(re.sub(r"\s|\\[nt]|%(?=%)", "", code), operands)
        if new is None and not is_cub:
            raise self._refuse(found.start(), f"inline PTX ({' '.join(code.split())[:60]!r})")
        lines = "\n" * (self.text.count("\n", found.start(), end + 1))
        return [(found.start(), end + 1, f"({new or _NAMESPACE + 'no_instruction()'}){lines}")]


def _grouped(text: str, begin: int, end: int) -> tuple[list[re.Match[str]], list[range]]:
    """Return the tokens of a part of a text, and how brackets group them."""
    tokens = list(_WORDS.finditer(text, begin, end))
    return tokens, scanner.grouped([token[0] for token in tokens])


def _meaning(code: str, operands: list[str]) -> str | None:
    """Return the C++ expression of PTX without blanks, or None if it has none here."""
    if (known := _PTX.get(code)) is not None:
        return known.format(*operands)
    for pattern, meaning in _PTX_OF_CUB.items():
        if (found := re.fullmatch(pattern, code)) is None:
            continue
        words = found.groupdict()
        if meaning in ("load", "store"):
            at = len(operands) - 1 if meaning == "load" else 0
            memory = f"((volatile uint{words['bits']}_t *)({operands.pop(at)}))"
            pairs = [(f"({o})", f"{memory}[{i}]") for i, o in enumerate(operands)]
            return ", ".join(f"{a} = {b}" if meaning == "load" else f"{b} = {a}" for a, b in pairs)
        mode = f"{_NAMESPACE}SHUFFLE_{words.get('mode', '').upper()}"
        addend = ", ".join(operands[4:] if words.get("addend") else operands[1:2] + operands[4:])
        return meaning.format(*operands, ns=_NAMESPACE, mode=mode, addend=addend)
    return None


_CONDITION = re.compile(
    r"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif|line|include)\b((?:[^\\\n]|\\.|\\\n)*)$",
    re.MULTILINE,
)
_LIBRARIES = re.compile(
    r'\s*[<"]((?:cub/device|thrust|cuda|cutlass|cute)/[^">]*|(?:cu(?:blas|fft|sparse)|mma)[^">/]*)'
)
_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_SPECIALISATION = re.compile(r"\s*template\s*<\s*>[^;@#]*[;@]")


def check_directives(label: str, file: str, text: str, preprocess: Preprocess) -> None:
    """Raise KernelCompilationError for includes of what does not run on CPUs.

    It is also raised for code that only GPUs compile, since it would be left out on CPUs without a
    word. `preprocess(None)` is the source with its macros, and `preprocess(text)` what a text is.
    """
    levels: list[tuple[str, int, int, list[str]]] = []  # around a line: place, and directives
    name, shift = file, 0
    for found in _CONDITION.finditer(text):
        kind, rest, directive = found[1], found[2], found[0].strip()
        line = text.count("\n", 0, found.start()) + 1 - shift
        if kind == "line":
            if numbered := re.match(r'\s*(\d+)\s*"([^"]*)"', rest):
                name, shift = numbered[2], line + shift + 1 - int(numbered[1])
        elif kind == "include":
            if named := _LIBRARIES.match(rest):
                raise _refused(label, f"{name}:{line}", f"{named[1]} (a library of CUDA)")
        elif kind.startswith("if"):
            levels.append((name, line, found.end(), [directive]))
        elif kind in ("elif", "else") and levels:
            levels[-1][3].append(directive)
        elif kind == "endif" and levels:
            place, at, begin, directives = levels[-1]
            if _may_be_for_gpus(directives, text[begin : found.start()]):
                macros = _macros(preprocess(None), place, at)
                if _is_for_gpus(preprocess, macros, [level[3] for level in levels]):
                    raise KernelCompilationError(
                        f"{label}: {place}:{at}: the source has code for GPUs alone "
                        "(__CUDA_ARCH__), and none for CPUs, where it would be left out; write an "
                        "#else [KB4005]"
                    )
            levels.pop()


def _may_be_for_gpus(directives: Sequence[str], inside: str) -> bool:
    """Whether branches depend on __CUDA_ARCH__, and have more than optional specialisations."""
    has_else = directives[-1].lstrip("# \t").startswith("else")
    if has_else or not any("__CUDA_ARCH__" in directive for directive in directives):
        return False
    code, before = _COMMENTS.sub(" ", inside), ""
    while code != before:
        before, code = code, re.sub(r"\{[^{}#]*\}", "@", code)
    return _SPECIALISATION.sub("", code).strip() != ""


def _macros(text: str, file: str, line: int) -> str:
    """Return the definitions of macros before a line, of a text from `-E -dD`."""
    here, number, end = "", 0, 0
    lines = text.split("\n")
    for i, written in enumerate(lines):
        if marker := _MARKER.match(written):
            here, number = marker[2], int(marker[1])
            continue
        if here == file and number < line:
            end = i + 1
        number += 1
    return "\n".join(w for w in lines[:end] if re.match(r"#\s*(?:define|undef) ", w))


def _is_for_gpus(preprocess: Preprocess, macros: str, levels: Sequence[Sequence[str]]) -> bool:
    """Whether a CPU reaches the branches of the last level and takes none, but some GPU does."""
    directives, around = levels[-1], [d for level in levels[:-1] for d in level]
    numbers = {int(n) for n in re.findall(r"\b\d{3,4}\b", " ".join(directives))}
    architectures = {n + i for n in numbers for i in (-1, 0, 1)} | {520, 750, 900, 1200}
    tests = [macros]
    for machine in ("cpu", *map(str, sorted(architectures))):
        gpu = "" if machine == "cpu" else f"#define __CUDA_ARCH__ {machine}"
        branches = [f"{directive}\nkb_takes_{machine}" for directive in directives]
        tests += ["#undef __CUDA_ARCH__", gpu, *around, f"kb_reaches_{machine}", *branches]
        tests += ["#endif"] * len(levels)
    seen = preprocess("\n".join([*tests, ""]))
    takes = set(re.findall(r"\bkb_takes_(\w+)", seen))
    return "kb_reaches_cpu" in seen and "cpu" not in takes and takes != set()


def flags_of(flags: Sequence[str]) -> list[str]:
    """Return the flags of the C++ compiler that flags of nvcc stand for; others have no meaning."""
    found: list[str] = []
    left = iter(flags)
    for flag in left:
        name, is_whole, value = flag.partition("=")
        if name in ("-Xcompiler", "--compiler-options"):
            found += (value if is_whole else next(left, "")).split(",")
        elif name in ("-Xptxas", "-Xnvlink", "-arch", "-code", "-gencode", "-maxrregcount"):
            if not is_whole:
                next(left, "")
        elif flag in ("-D", "-U", "-I", "-include", "-isystem", "-std"):
            found += [flag, next(left, "")]
        elif flag.startswith(("-D", "-U", "-I", "-O", "-g", "-std=", "-isystem", "-f", "-m")):
            found.append(flag)
        elif name == "--std":
            found.append(flag[1:])
    return found


def headers() -> list[str]:
    """Return the folders of CUDA's own headers, which sources may include, where there are some."""
    places = [os.path.join(place or ".", "nvidia") for place in sys.path]
    parts = ("cu13", "cuda_runtime", "cuda_cccl", "curand")
    wheels = [os.path.join(place, part) for place in places for part in parts]
    homes = [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")]
    roots = [*wheels, *filter(None, homes), "/usr/local/cuda"]
    found = [os.path.join(root, end) for root in roots for end in ("include", "include/cccl")]
    return list(dict.fromkeys(os.path.realpath(f) for f in found if os.path.isdir(f)))


def _command(request: Request) -> Command:
    compiler, folders = compilers.find_cxx(), headers()
    start = [*compiler.command, "-x", "c++", "-std=c++17", "-E", "-MD", "-MF", "@deps"]
    start += ["-o", "@preprocessed", "-D__CUDACC__", "-D__NVCC__", "-DKB_SHARED_RUNTIME"]
    start += ["-DKB_CUDA_CHECKED"] * request.checked + ["-include", "cuda_runtime.h"]
    rest = [word for folder in folders for word in ("-idirafter", folder)]
    # Loops over threads keep their guards, code reads memory as other types, and stacks are small.
    optimize = _CHECKED if request.checked else [*library.optimize(request), "-funroll-loops"]
    translated = [*compiler.command, "-std=c++17", *optimize, "-fPIC", "-shared", "-fno-math-errno"]
    translated += ["-fvisibility=hidden", "-fno-strict-aliasing", "-ffp-contract=off", "-o", "@out"]
    translated += ["-fno-trapping-math", f"-Werror=frame-larger-than={FRAME_MAX}"]
    if os.uname().machine == "aarch64":  # where a division by zero would give 0
        translated += ["-fsanitize=integer-divide-by-zero", "-fsanitize-undefined-trap-on-error"]
    elif "__syncthreads" in request.source and not request.checked:
        with contextlib.suppress(ImportError):  # without the extension
            from kernbridge._ext.enzyme import tool

            made_by = package_digest.digest_of(), *tool.roots(), cpu_features.asked()
            translated += ["-Wno-attribute-alias", _LOOPS_BY + library.digest_of_values(made_by)]
    if request.checked and any("clang" in os.path.basename(tool) for tool in compiler.tools):
        translated += ["-mllvm", "-tsan-instrument-read-before-write"]
    return Command(
        *(compiler, start, [*rest, "@source"], tuple(flags_of(request.cflags))),
        label=f"{os.path.basename(compiler.path)} for the CPU",
        translated=tuple(translated),
        libraries=_CHECKED_LIBRARIES if request.checked else (),
        system=tuple(folders),
    )


def _translated(job: LibraryJob, flags: Sequence[str], text: str) -> str:
    """Return what the C++ compiler gets, with loops of the kernels that can have some."""
    request, loops = job.request, list[str]()
    try:
        if any(word.startswith(_LOOPS_BY) for word in job.command.translated):
            from kernbridge._ext.enzyme import cuda_ir

            loops += cuda_ir.loops(request, [*flags, *job.command.cflags])
    except Exception as e:  # without clang, say
        log.debug("%s has no loops between barriers: %s", request.name, e)
    return _Translation(request.name, text, job.own, request.checked, loops).result()


LANGUAGE = Language(
    ".cu",
    _command,
    own_headers=("emulator/cuda", "emulator"),
    rules=("../_ext/emulator/cuda_source.py",),
    check=check_directives,
    translate=_translated,
)
