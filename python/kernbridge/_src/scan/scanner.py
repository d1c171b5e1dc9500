"""Scans C, C++ and CUDA sources for functions to call, and for the names of their parameters.

Macros are not expanded and types are not interpreted, since the compiler does both. What is no code
is replaced by blanks, so that offsets stay as they are. The time grows with the size of a source
alone, whatever it contains.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from kernbridge._src.scan import annotation
from kernbridge._src.scan.annotation import WORD, Annotation, Declaration, Parameter, Source, cut
from kernbridge._src.scan.functions import Named, ScannedFunction

_BLANK = r"[ \t\r\v\f]"
_ESCAPE = rf"\\(?:{_BLANK}*\n|.|\Z)"
# Comments, strings, characters (but no quotes in numbers), and lines that are continued.
_NO_CODE = re.compile(
    rf"""
    (?P<line>//(?:/|{_BLANK})*(?P<mark>@BE(?!\S))?[^\\\n]*(?:\\(?:{_BLANK}*\n)?[^\\\n]*)*)
    |(?P<blank>/\*(?s:.*?)(?:\*/|\Z)|\\{_BLANK}*\n)
    |(?<![\w$])(?:u8|[uUL])?R"(?P<delimiter>[^\ ()\\\t\v\f\n"]{{0,16}})\(
        (?s:.*?)(?:\)(?P=delimiter)"|\Z)
    |"[^"\\\n]*(?:{_ESCAPE}[^"\\\n]*)*"?
    |(?<![\w$])(?:u8|[uUL])?'[^'\\\n]*(?:{_ESCAPE}[^'\\\n]*)*'?
    """,
    re.VERBOSE,
)
Included = Callable[[], str] | None  # returns the text of what a source includes
_ANNOTATED = "\0"  # stands for an annotation, in what is left of a source
_DIRECTIVE = re.compile(rf"^({_BLANK}*#{_BLANK}*)(\w*)([^\n{_ANNOTATED}]*)", re.MULTILINE)
_TOKEN = re.compile(r'[\w$]+|"[^"]*"|::|->|&&|\|\||[=!<>]=|<<|\S')
_EXAMPLE = """; write before each function what it takes, for example
    // @BE add arg:f32[n] arg:f32[n] ret:f32[n]"""
_ATTRIBUTE = re.compile(
    r"\[\[[^\[\]]*\]\]|(?<![\w$])(?:__attribute__|alignas|__align__|__declspec)\s*"
    r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
)
_NOT_BEFORE_NAME = {"typedef", "using", "friend", "operator", "return", "new", "throw", "else"}
_QUALIFIER = re.compile(
    "const|volatile|struct|class|enum|union|typename|register|(__)?restrict(__)?|__grid_constant__"
)
_NUMBER = re.compile("(un)?signed|short|long|char|int|float|double|bool|void|_Bool|_Complex")
# What a parameter seems to be, by the last word of its type.
_LOOKS = {"Tensor": "tensor", "kb_tensor*": "bytes", "kb_call*": "call"}
_LOOKS |= dict.fromkeys(
    ("cudaStream_t", "CUstream", "hipStream_t", "cudaStream_st*", "CUstream_st*"), "stream"
)


def scan_functions(
    source: Source, functions: Named, bytes_only: bool = False, included: Included = None
) -> list[ScannedFunction]:
    """Return the functions that a source annotates, or `functions`.

    Functions with signatures may be declared in what it includes, whose text `included` returns.

    ValueError is raised with the place in the source if it does not say what a function takes, or
    says it twice. `bytes_only`: arrays must be declared, as in C and in machine code.
    """
    code = _Code(source)
    if functions is None:
        annotations = code.annotations()
        if not annotations:
            raise ValueError(f"no function is annotated{_EXAMPLE}")
    elif not functions:
        raise ValueError("functions: expected at least one, got none")
    else:
        annotations = [
            _given(source, name, tokens, f"functions['{cut(name)}']") for name, tokens in functions
        ]
    return code.describe(annotations, None, bytes_only, included)


def scan_kernel(
    source: Source, expression: str, tokens: str | None, bytes_only: bool = False
) -> ScannedFunction:
    """Return what a kernel takes, whose name may be an expression such as ns::scale<float, 4>.

    Without tokens, an annotation of its last identifier counts.
    """
    code = _Code(source)
    path = expression.partition("<")[0]
    name = path.rpartition(":")[2]
    if not annotation.is_name(name):
        raise ValueError(
            f"'{cut(expression)}' is no name of a kernel; write for example scale or "
            "ns::scale<float, 4>"
        )
    generic = rf"\btemplate\s*<[^<>;{{}}]+>\s*__global__\b[^;{{}}()]*\b{name}\s*\("
    if path == expression and re.search(generic, code.text):
        raise ValueError(f"{name!r} is a template; name it with its arguments, as in {name}<float>")
    annotations = code.annotations(name) if tokens is None else []
    if not annotations:
        annotations = [_given(source, name, tokens, f"kernel '{cut(expression)}'")]
    return code.describe(annotations, path.lstrip(":"), bytes_only)[0]


def _given(source: Source, name: str, tokens: str | None, given: str) -> Annotation:
    words = None if tokens is None else list(WORD.finditer(tokens))
    return Annotation(source, name, -1, words, given)


class _Code:
    """A source of which only the code is left."""

    def __init__(self, source: Source) -> None:
        if (at := source.text.find("\0")) >= 0:
            raise ValueError(source.place(at, "a NUL byte is no part of a source; remove it"))
        self.source = source
        text = _select(_NO_CODE.sub(_blank, source.text))
        self._comments = [m.span() for m in re.finditer(f"{_ANNOTATED}+", text)]
        self.text = _ATTRIBUTE.sub(lambda m: " " * len(m[0]), text.replace(_ANNOTATED, " "))

    def annotations(self, only: str | None = None) -> list[Annotation]:
        """Read the annotations in comments, or only the annotations of one name."""
        found = []
        for at, end in self._comments:
            words = list(WORD.finditer(self.source.text, at + len("@BE"), end))
            if not words and only is None:
                raise ValueError(self.source.place(at, f"@BE names no function{_EXAMPLE}"))
            if words and only in (None, words[0][0]):
                name, *rest = words
                found.append(Annotation(self.source, name[0], name.start(), rest or None))
        return found

    def describe(
        self,
        annotations: Sequence[Annotation],
        kernel: str | None,
        bytes_only: bool,
        included: Included = None,
    ) -> list[ScannedFunction]:
        """Find the declaration of each function and compare; `kernel` is the path of a kernel."""
        named: dict[str, Annotation] = {}
        for a in annotations:
            first = named.setdefault(a.name, a)
            if first is not a:
                more = "" if a.given else "\n" + self.source.place(first.at, "the first is here")
                a.refuse(f"{a.name} is annotated twice; remove one", more=more)
        found = self._find(named, kernel)
        absent = {n: a for n, a in named.items() if a.signature and n not in found}
        if absent and included:
            elsewhere = _Code(Source([("", included())]))._find(absent, None)
            found |= {name: d._replace(at=-1) for name, d in elsewhere.items()}
            names = re.findall(r"\b([A-Za-z_]\w*)\s*\(", included() + self.source.text)
            for a in absent.values():
                a.near = next(iter(difflib.get_close_matches(a.name, set(names) - {a.name}, 1)), "")
        return [a.describe(found.get(a.name), kernel is not None, bytes_only) for a in annotations]

    def _find(self, wanted: Mapping[str, Annotation], kernel: str | None) -> dict[str, Declaration]:
        """Return the preferred declaration of each function, at namespace scope.

        A body is preferred to a prototype, then what comes after the annotation; a kernel whose
        qualified name is exactly the path precedes all others.
        """
        best: dict[str, tuple[tuple[bool, ...], Declaration]] = {}
        for scopes, tokens, has_body in self._statements():
            words = [m[0] for m in tokens]
            if wanted.keys().isdisjoint(words):
                continue
            declared = _declared(words, wanted)
            if declared is None or ("__global__" in words) != (kernel is not None):
                continue
            at, listed = declared
            name, place = words[at], tokens[at].start()
            qualified = "::".join(["", *itertools.chain(*scopes), name])
            if kernel is not None and not qualified.endswith(f"::{kernel}"):
                continue
            partial = kernel is not None and qualified != f"::{kernel}"
            rank = (partial, not has_body, place < wanted[name].at)
            if name not in best or rank < best[name][0]:
                begin, end = tokens[listed.start].end(), tokens[listed.stop - 1].start()
                found = self._parameters(tokens[listed.start + 1 : listed.stop - 1])
                listed_text = self.source.text[begin:end]
                is_void = words[at - 1 : at] == ["void"]
                best[name] = rank, Declaration(place, qualified, found, listed_text, is_void)
        return {name: declaration for name, (_, declaration) in best.items()}

    def _statements(self) -> Iterator[tuple[list[list[str]], Sequence[re.Match[str]], bool]]:
        """Yield what ends with a body or a semicolon at namespace scope.

        Each comes with the names of the namespaces around it, and whether it has a body.
        """
        scopes: list[list[str]] = []
        begin = at = parens = hidden = 0  # hidden: open braces of bodies
        for m in re.finditer("[{};]", self.text):
            mark, segment, at = m[0], self.text[at : m.start()], m.end()
            if hidden:
                hidden += (mark == "{") - (mark == "}")
                begin = begin if hidden or parens else at
                continue
            parens = max(0, parens + _open_brackets(segment))
            if mark == "{" and parens:  # a default value
                hidden = 1
                continue
            tokens = list(_TOKEN.finditer(self.text, begin, m.start()))
            begin, parens = at, 0
            if mark == "}":
                del scopes[-1:]
            elif mark == "{" and (scope := _scope([m[0] for m in tokens])) is not None:
                scopes.append(scope)
            else:
                hidden = int(mark == "{")
                yield scopes, tokens, mark == "{"

    def _parameters(self, tokens: Sequence[re.Match[str]]) -> list[Parameter]:
        words = [m[0] for m in tokens]
        if words in ([], ["void"]):
            return []
        listed: list[list[range]] = [[]]
        for item in grouped(words):
            if words[item.start] == ",":
                listed.append([])
            else:
                listed[-1].append(item)
        return [self._parameter(tokens, items) for items in listed]

    def _parameter(self, tokens: Sequence[re.Match[str]], items: Sequence[range]) -> Parameter:
        items = [*itertools.takewhile(lambda item: tokens[item.start][0] != "=", items)]
        firsts = [tokens[item.start][0] for item in items]
        mark = next((i for i, word in enumerate(firsts) if word in "[("), len(firsts))
        types = [word for word in firsts[:mark] if _is_type(word)]
        name = ""
        if (
            (len(types) > 1 and firsts[mark - 1] == types[-1] and firsts[mark - 2] != "::")
            and firsts[mark : mark + 1] != ["("]
            and not _NUMBER.fullmatch(types[-1])
        ):
            name = firsts.pop(mark - 1)
            del items[mark - 1]
        spelled = [m for item in items for m in tokens[item.start : item.stop]]
        ctype = "".join(" " * self.text[m.start() - 1].isspace() + m[0] for m in spelled).lstrip()
        mark = next((i for i, word in enumerate(firsts) if word[0] in "*&[("), len(firsts))
        last = next((w for w in reversed(firsts[:mark]) if _is_type(w)), "")
        pointer = firsts[mark : mark + 1] in (["*"], ["["])
        look = _LOOKS.get(last + "*" * pointer, "pointer" if pointer else "value")
        if look == "value" and (last, name) == ("int64_t", "stream"):
            look = "stream"
        at = spelled[0].start() if spelled else 0
        return Parameter(at, name, ctype, look, "const" in firsts[:mark])


def _blank(m: re.Match[str]) -> str:
    """Replace what is no code; of strings, only quotes stay."""
    size = len(m[0])
    if m["line"]:
        at = m.start("mark") - m.start() if m["mark"] else size
        return " " * at + _ANNOTATED * (size - at)
    return " " * size if m["blank"] or size == 1 else f'"{" " * (size - 2)}"'


def _select(code: str) -> str:
    """Blank directives, and the branches that conditions leave out.

    Conditions are not evaluated, except for #if 0 and #if 1. If a branch leaves brackets open,
    the following ones are other ways to begin what comes after #endif, and are left out.
    """
    first, *pieces = _DIRECTIVE.split(code)
    kept = [first]
    conditions: list[tuple[bool, bool, int]] = []
    skip, n_open = False, _open_brackets(first)
    for mark, word, what, segment in zip(*(pieces[i::4] for i in range(4)), strict=True):
        kept.append(" " * len(mark + word + what))
        if word in ("if", "ifdef", "ifndef"):
            conditions.append((skip, False, n_open))
        if word == "endif" and conditions:
            skip = conditions.pop()[0]
        elif conditions and word.startswith(("if", "el")):
            outside, others, n_before = conditions.pop()
            others |= not skip and n_before != n_open
            skip = outside or others or what.strip() in ("0", "false")
            conditions.append((outside, others or what.strip() in ("1", "true"), n_before))
        kept.append(" " * len(segment) if skip else segment)
        n_open += _open_brackets(kept[-1])
    return "".join(kept)


def _open_brackets(code: str) -> int:
    return sum(map(code.count, "({")) - sum(map(code.count, ")}"))


def is_word(token: str) -> bool:
    return token[0] in "_$" or token[0].isalpha()


def _is_type(token: str) -> bool:
    return is_word(token) and _QUALIFIER.fullmatch(token) is None


def grouped(words: Sequence[str]) -> list[range]:
    """Divide tokens: each group in brackets is one item; a < that nothing closes is an operator."""
    items: list[range] = []
    opened: list[tuple[str, int]] = []  # brackets, and their places in `items`
    for i, word in enumerate(words):
        while word in (")", "]", "}") and opened and opened[-1][0] == "<":
            opened.pop()
        items.append(range(i, i + 1))
        if word in ("(", "[", "{") or (word == "<" and i and is_word(words[i - 1])):
            opened.append((word, len(items) - 1))
        elif opened and opened[-1][0] + word in ("()", "[]", "{}", "<>"):
            _, first = opened.pop()
            items[first:] = [range(items[first].start, i + 1)]
    return items


def _scope(words: Sequence[str]) -> list[str] | None:
    """Return the names of the namespaces that a head with these tokens opens; None for a body."""
    if words[-2:-1] == ["extern"] and words[-1][0] == '"':
        return []
    if "namespace" not in words or "=" in words:
        return None
    names = words[words.index("namespace") + 1 :]
    firsts = [names[item.start] for item in grouped(names)]
    pairs = itertools.pairwise([*firsts, ""])  # a macro with arguments is no name
    return [a for a, b in pairs if is_word(a) and a != "inline" and b != "("]


def _declared(words: Sequence[str], wanted: Mapping[str, Annotation]) -> tuple[int, range] | None:
    """Return where a statement has the wanted name that it declares, and the parameters."""
    found, before = None, ""
    for item, following in itertools.pairwise(grouped(words)):
        word = words[item.start]
        is_called = words[following.start] == "(" and len(following) > 1
        if word in wanted and is_called and before not in ("", "::"):
            found = item.start, following
        is_part = is_word(word) or len(item) > 1 or word in ("*", "&", "&&", "::")
        if word in _NOT_BEFORE_NAME or not (is_part or word[0] == '"'):
            break
        before = word
    return found
