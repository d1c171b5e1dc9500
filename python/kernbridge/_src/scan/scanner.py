"""Scans C, C++ and CUDA sources for functions to call, and for the names of their parameters.

Macros are not expanded and types are not interpreted, since the compiler does both. What is no code
is replaced by blanks, so that offsets stay as they are. The time grows with the size of a source
alone, whatever it contains.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence

from kernbridge._src.scan.agree import Agreement, Declaration, Parameter
from kernbridge._src.scan.annotation import PIECE, Annotation, Source, cut, is_name
from kernbridge._src.scan.signature import ScannedFunction

MOST_FUNCTIONS = 4096
MOST_BYTES = 16 << 20
_MOST_PATH = 1024  # characters of a path of namespaces, without which a function is named then
_MOST_SUFFIX = 63  # tokens between the parameters and the body
_MOST_TEMPLATE = 512  # tokens of the arguments of a template

_BLANK = r"[ \t\r\v\f]"
_ESCAPE = rf"\\(?:{_BLANK}*\n|.|\Z)"
_PREFIX = r"(?:(?<![\w$])(?:u8|[uUL])?R?)?"
# Comments, strings, numbers with quotes in them, and lines that are continued.
_NO_CODE = re.compile(
    rf"""
    (?P<line>//[^\\\n]*(?:\\(?:{_BLANK}*\n)?[^\\\n]*)*)
    |(?P<blank>/\*(?s:.*?)(?:\*/|\Z)|\\{_BLANK}*\n)
    |(?<![\w$])(?:u8|[uUL])?R"(?P<delimiter>[^\ ()\\\t\v\f\n"]{{0,16}})\(
        (?s:.*?)(?:\)(?P=delimiter)"|\Z)
    |{_PREFIX}(?:"[^"\\\n]*(?:{_ESCAPE}[^"\\\n]*)*"?|'[^'\\\n]*(?:{_ESCAPE}[^'\\\n]*)*'?)
    |(?P<number>(?<![\w$])\d[\w.]*(?:'\w[\w.]*)+)
    """,
    re.VERBOSE,
)
_MARKER = re.compile(rf"(?:/|{_BLANK})*(@BE)(?={_BLANK}|\Z)")
_DIRECTIVE = re.compile(rf"^{_BLANK}*#{_BLANK}*(\w*)([^\n]*)", re.MULTILINE)
_TOKEN = re.compile(r'[\w$]+|"[^"]*"|::|->|&&|\|\||[=!<>]=|<<|\S')
# What decides where declarations begin and end: words before a parenthesis, and marks.
_STEP = re.compile(r"(?<![\w$])(?:(?:[^\W\d]|\$)[\w$]*(?=\s*\()|namespace(?![\w$]))|[(){};]")
_NAMESPACE = re.compile(r"([^{};=]*)(\{?)")
_EXTERN_C = re.compile(r'(?<![\w$])extern\s*"[^"]*"\s*\Z')
_OPEN, _CLOSE = "([{", ")]}"

_NOT_BEFORE_NAME = {"typedef", "using", "friend", "operator", "return", "new", "throw", "else"}
_NOT_AFTER_PARAMETERS = frozenset(
    """
    void int static inline extern struct class enum template union auto namespace using typedef
    """.split()  # noqa: SIM905
)
_ATTRIBUTES = ("__attribute__", "alignas", "__align__", "__declspec")
_QUALIFIERS = frozenset(
    """
    const volatile struct class enum union typename auto register __restrict__ __restrict restrict
    _Noreturn __grid_constant__
    """.split()  # noqa: SIM905
)
_NO_NAMES = _QUALIFIERS | frozenset(
    "signed unsigned short long char int float double bool void _Bool _Complex".split()  # noqa: SIM905
)
# By the last word of a type: what a parameter seems to be, or a pointer to it.
_LOOKS = {
    "Tensor": "tensor",
    **dict.fromkeys(("cudaStream_t", "CUstream", "hipStream_t"), "stream"),
}
_POINTERS = {
    "kb_tensor": "bytes",
    **dict.fromkeys(("cudaStream_st", "CUstream_st"), "stream"),
}


def scan_functions(
    text: str,
    file: str,
    functions: Sequence[tuple[str, str | None]] | None,
    bytes_only: bool = False,
) -> list[ScannedFunction]:
    """Return the functions that a source annotates, or `functions`: names and tokens, or None.

    ValueError is raised with the place in the source if it does not say what a function takes, or
    says it twice. `bytes_only`: arrays must be declared, as in C and in machine code.
    """
    code = _Code(Source(text, file))
    if functions is None:
        annotations = code.annotations()
    elif not 1 <= len(functions) <= MOST_FUNCTIONS:
        raise ValueError(f"functions: expected 1 to {MOST_FUNCTIONS} of them, got {len(functions)}")
    else:
        annotations = [
            Annotation.given_by(code.source, name, tokens, f"functions['{cut(name)}']")
            for name, tokens in functions
        ]
    return code.describe(annotations, None, bytes_only)


def scan_kernel(
    text: str, file: str, expression: str, tokens: str | None, bytes_only: bool = False
) -> ScannedFunction:
    """Return what a kernel takes, whose name may be an expression such as ns::scale<float, 4>.

    Without tokens, an annotation of its last identifier counts.
    """
    code = _Code(Source(text, file))
    path = expression.partition("<")[0]
    name = path.rpartition(":")[2]
    if not is_name(name):
        raise ValueError(
            f"'{cut(expression)}' is no name of a kernel; write for example scale or "
            "ns::scale<float, 4>"
        )
    code.comments = [
        (at, end)
        for at, end in code.comments
        if any(m[0] == name for m in itertools.islice(PIECE.finditer(text, at + 3, end), 1))
    ]
    if tokens is None and code.comments:
        annotations = code.annotations()
    else:
        given = f"kernel '{cut(expression)}'"
        annotations = [Annotation.given_by(code.source, name, tokens, given)]
    return code.describe(annotations, path.lstrip(":"), bytes_only)[0]


class _Code:
    """A source of which only the code is left."""

    def __init__(self, source: Source) -> None:
        text = source.text
        if len(text.encode()) > MOST_BYTES:
            raise ValueError(
                f"{source.file}: a source has at most {MOST_BYTES} bytes; divide it into several "
                "modules"
            )
        if "\0" in text:
            source.refuse(text.index("\0"), "a NUL byte is no part of a source; remove it")
        self.source = source
        self.comments: list[tuple[int, int]] = []  # those that annotate, from "@BE" on
        self.text = self._select(_NO_CODE.sub(self._blank, text))

    def _blank(self, m: re.Match[str]) -> str:
        """Replace what is no code; of strings, only quotes stay."""
        size = m.end() - m.start()
        if m["number"]:
            return m[0].replace("'", "_")
        if m["line"]:
            marker = _MARKER.match(m.string, m.start(), m.end())
            if marker is not None:
                self.comments.append((marker.start(1), m.end()))
        elif not m["blank"] and size > 1:
            return f'"{" " * (size - 2)}"'
        return " " * size

    def _select(self, code: str) -> str:
        """Blank directives, and the branches that conditions leave out.

        Conditions are not evaluated, except for #if 0 and #if 1. If a branch leaves brackets open,
        the following ones are other ways to begin what comes after #endif, and are left out.
        """
        kept: list[str] = []
        begins: list[int] = []  # of what is left out
        ends: list[int] = []
        conditions: list[tuple[bool, bool, int]] = []
        at, n_open, skip = 0, 0, False
        for m in itertools.chain(_DIRECTIVE.finditer(code), [None]):
            begin, end = m.span() if m else (len(code), len(code))
            segment = code[at:begin]
            if skip:
                segment = " " * len(segment)
                begins.append(at)
                ends.append(end)
            n_open += sum(map(segment.count, "({")) - sum(map(segment.count, ")}"))
            kept += segment, " " * (end - begin)
            at = end
            word, what = (m[1], m[2].strip()) if m else ("", "")
            if word in ("if", "ifdef", "ifndef"):
                conditions.append((skip, False, n_open))
            elif word == "endif" and conditions:
                skip = conditions.pop()[0]
                continue
            if conditions and word.startswith(("if", "el")):
                outside, others, n_before = conditions.pop()
                others |= not skip and n_before != n_open
                skip = outside or others or what in ("0", "false")
                conditions.append((outside, others or what in ("1", "true"), n_before))
        self.comments = [
            (at, end)
            for at, end in self.comments
            if not (i := bisect.bisect(begins, at)) or at >= ends[i - 1]
        ]
        return "".join(kept)

    def annotations(self) -> list[Annotation]:
        """Read every annotation; there must be one."""
        if not self.comments:
            raise ValueError(
                f"{cut(self.source.file)}: no function is annotated; write before each that is to "
                "be called what it takes, for example\n"
                "    // @BE add arg:f32[n] arg:f32[n] ret:f32[n]"
            )
        if len(self.comments) > MOST_FUNCTIONS:
            self.source.refuse(
                self.comments[MOST_FUNCTIONS][0],
                f"a source annotates at most {MOST_FUNCTIONS} functions; divide it into several "
                "modules",
            )
        return [Annotation.in_comment(self.source, at, end) for at, end in self.comments]

    def describe(
        self, annotations: Sequence[Annotation], kernel: str | None, bytes_only: bool
    ) -> list[ScannedFunction]:
        """Find the declaration of each function and compare; `kernel` is the path of a kernel."""
        named: dict[str, Annotation] = {}
        for a in annotations:
            before = named.setdefault(a.name, a)
            if before is not a and a.given:
                a.refuse(f"{cut(a.name)} is there twice; list it once")
            if before is not a:
                first, second = map(self.source.line, (before.at, a.at))
                a.refuse(
                    f"{cut(a.name)} is annotated twice, in lines {first} and {second}; remove one"
                )
        found = self._find(named, kernel)
        return [
            Agreement(a, found.get(a.name), kernel is not None, bytes_only).result()
            for a in annotations
        ]

    def _find(self, wanted: Mapping[str, Annotation], kernel: str | None) -> dict[str, Declaration]:
        """Return the preferred declaration of each function, at namespace scope.

        A body is preferred to a prototype, then what comes after the annotation; a kernel whose
        qualified name is exactly the path precedes all others.
        """
        best: dict[str, tuple[tuple[bool, ...], str, int, range]] = {}
        scopes: list[str] = []  # the path before each open namespace
        code, path, begin, parens, i = self.text, "", 0, 0, 0
        hidden = 0  # open braces of bodies
        called: re.Match[str] | None = None  # the wanted name before the open parenthesis
        while m := _STEP.search(code, i):
            word, i = m[0], m.end()
            if hidden:
                hidden += (word == "{") - (word == "}")
                begin = begin if hidden or parens else i
            elif word == "(":
                parens += 1
            elif word == ")":
                parens = max(parens - 1, 0)
                if parens or called is None:
                    continue
                name, at, called = called[0], called, None
                head, end = _TOKEN.findall(code, begin, at.start()), _suffix(code, i, name)
                begin = i
                if end is None or not _is_head(head):
                    continue
                begin = i = end
                qualified = name if len(path) > _MOST_PATH else f"{path}::{name}"
                if ("__global__" in head) != (kernel is not None) or not (
                    kernel is None or qualified.endswith(f"::{kernel}")
                ):
                    continue
                exact = kernel is None or qualified == f"::{kernel}"
                rank = (not exact, code[i] != "{", at.start() < wanted[name].at)
                if name not in best or rank < best[name][0]:
                    listed = range(code.index("(", at.end()) + 1, m.start())
                    best[name] = rank, qualified, at.start(), listed
            elif word == "{" and not parens and _EXTERN_C.search(code, begin, m.start()):
                scopes.append(path)
                begin = i
            elif word == "{":
                hidden = 1
            elif word in "};":  # no parentheses go across
                path = scopes.pop() if word == "}" and scopes else path
                parens, begin, called = 0, i, None
            elif parens:
                continue
            elif word in wanted:
                called = m
            elif word == "namespace" and (opened := _NAMESPACE.match(code, i)):
                i = opened.end()
                if opened[2]:
                    scopes.append(path)
                    path = f"{path}{_path(opened[1])}"[: _MOST_PATH + 1]
                    begin = i
        return {
            name: Declaration(at, qualified, self._parameters(listed), listed)
            for name, (_, qualified, at, listed) in best.items()
        }

    def _parameters(self, listed: range) -> list[Parameter]:
        found = list(_TOKEN.finditer(self.text, listed.start, listed.stop))
        words = [m[0] for m in found]
        parameters: list[Parameter] = []
        if words in ([], ["void"]):
            return parameters
        items: list[range] = []
        first, is_default, attribute = 0, False, False
        for item in (*_items(words), range(len(words), len(words) + 1)):
            i = item.start
            if i == len(words) or words[i] == ",":
                at = found[min(first, len(words) - 1)].start()
                parameters.append(self._read(len(parameters), at, found, items))
                items, first, is_default = [], i + 1, False
                continue
            is_default |= words[i] == "="
            is_attribute = words[i] in _ATTRIBUTES
            if not (is_default or attribute or is_attribute or words[i : i + 2] == ["[", "["]):
                items.append(item)
            attribute = is_attribute
        return parameters

    def _read(
        self, index: int, at: int, found: Sequence[re.Match[str]], items: Sequence[range]
    ) -> Parameter:
        """Read a parameter without attributes and default: single tokens and groups of them."""
        firsts = [found[item.start][0] for item in items]
        end = next((i for i, word in enumerate(firsts) if word in "[("), len(firsts))
        name, ctype = "", ""
        if firsts[end : end + 1] != ["("] and _ends_with_name(firsts[:end]):
            name = firsts.pop(end - 1)
            items = [*items[: end - 1], *items[end:]]
        for m in (m for item in items for m in found[item.start : item.stop]):
            blank = self.text[m.start() - 1].isspace()
            spelled = self.source.text[m.start() : m.end()] if m[0][0] == '"' else m[0]
            ctype += f"{' ' if ctype and blank else ''}{spelled}"
        end = next((i for i, word in enumerate(firsts) if word[0] in "*&[("), len(firsts))
        words = [w for w in firsts[:end] if _is_word(w)]
        last = next((w for w in reversed(words) if w not in _QUALIFIERS), "")
        pointer = firsts[end : end + 1] in (["*"], ["["])
        look = (_POINTERS if pointer else _LOOKS).get(last, "pointer" if pointer else "value")
        constant = "const" in words
        if pointer and constant and last == "kb_call":
            look = "call"
        if look == "value" and (last, name) == ("int64_t", "stream"):
            look = "stream"
        at = found[items[0].start].start() if items else at
        return Parameter(index, at, name, ctype, look, constant)


def _is_word(token: str) -> bool:
    return token[0] in "_$" or token[0].isalpha()


def _items(words: Sequence[str]) -> Iterator[range]:
    """Yield tokens, each group in brackets or <> as one; one that is not closed goes too far."""
    i, n, expression = 0, len(words), False
    while i < n:
        word, end = words[i], i + 1
        expression = word != "," and (expression or word == "=")
        if word in _OPEN:
            end = _close(words, i, n) + 1
        elif word == "<" and i and _is_word(words[i - 1]):
            end = _template_end(words, i, expression) or end
        yield range(i, end)
        i = end


def _close(words: Sequence[str], begin: int, n: int) -> int:
    """Return the index of what closes a bracket; n if nothing does before a ; or a }."""
    depth = braces = 0
    for i in range(begin, n):
        word = words[i]
        if word in ";}" and not braces:
            break
        braces += (word == "{") - (word == "}")
        depth += (word in _OPEN) - (word in _CLOSE)
        if not depth:
            return i
    return n


def _template_end(words: Sequence[str], begin: int, expression: bool) -> int | None:
    """Return the index after a template's arguments, or None if the < is an operator."""
    angles, i, n = 0, begin, min(len(words), begin + _MOST_TEMPLATE)
    while i < n:
        word = words[i]
        if word in ";)]}" or (expression and word in ("=", "&&", "||")):
            return None
        if word in _OPEN:
            i = _close(words, i, n)
        angles += (word == "<" and _is_word(words[i - 1])) - (word == ">")
        i += 1
        if not angles:
            return i
    return None


def _is_head(words: Sequence[str]) -> bool:
    """Whether these tokens before a name begin the declaration of a function."""
    before, end = "", 0
    for item in _items(words):
        word, end = words[item.start], item.stop
        is_group = word == "[" or (
            len(item) > 1 and (word == "<" or (word == "(" and _is_word(before)))
        )
        if word in _NOT_BEFORE_NAME or not (
            is_group or _is_word(word) or word in ("*", "&", "&&", "::") or word[0] == '"'
        ):
            return False
        before = word
    return end == len(words) > 0 and before != "::"


def _suffix(code: str, begin: int, name: str) -> int | None:
    """Return where a body begins or a prototype ends; None if neither follows the parameters.

    Before that there may be const, noexcept, attributes, macros and -> type.
    """
    found = list(itertools.islice(_TOKEN.finditer(code, begin), _MOST_SUFFIX))
    words = [m[0] for m in found]
    typed = False
    for item in _items(words):
        word = words[item.start]
        if word in "{;":
            return found[item.start].start()
        typed |= word == "->"
        if word == "=" or not (
            typed
            or word in ("&", "&&", "[", "(")
            or word[0] == '"'
            or (_is_word(word) and word != name and word not in _NOT_AFTER_PARAMETERS)
        ):
            return None
    return None


def _path(head: str) -> str:
    """Return the names that `namespace head {` opens, each with :: before it."""
    words = _TOKEN.findall(head)
    first = [words[item.start] for item in _items(words)]
    return "".join(
        f"::{word}"
        for word, following in itertools.pairwise([*first, ""])
        if _is_word(word) and word != "inline" and following != "("
    )


def _ends_with_name(words: Sequence[str]) -> bool:
    """Whether the last of these tokens is the name of a parameter and no part of its type."""
    *types, last = words or [""]
    return (
        bool(types)
        and _is_word(last)
        and last not in _NO_NAMES
        and types[-1] != "::"
        and any(w == "auto" or (_is_word(w) and w not in _QUALIFIERS) for w in types)
    )
