"""The grammar of annotations, and messages with places in a source."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple, NoReturn

from kernbridge._src.scan.signature import TYPES

MOST_TOKENS = 1024
_SHOWN = 120  # bytes of a name in a message
_LINE_SHOWN, _FILE_SHOWN, _MESSAGE_SHOWN = 160, 240, 1100

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_KEYWORDS = frozenset(
    """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t
    char32_t class compl concept const consteval constexpr constinit const_cast continue co_await
    co_return co_yield decltype default delete do double dynamic_cast else enum explicit export
    extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq
    nullptr operator or or_eq private protected public register reinterpret_cast requires return
    short signed sizeof static static_assert static_cast struct switch template this thread_local
    throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t while
    xor xor_eq
    """.split()  # noqa: SIM905
)
# A word of an annotation. Brackets hold their blanks. A backslash at the end of a line is a blank.
PIECE = re.compile(
    r"(?:\[[^\]]*\]?|\\(?![ \t\r\v\f\n]|\Z)|[^\[\\ \t\r\v\f\n])+",
)
_WORDS = {
    **dict.fromkeys(("arg", "args"), "arg"),
    **dict.fromkeys(("ret", "rets"), "ret"),
    **dict.fromkeys(("stream", "ctx.stream"), "stream"),
    "any": "any",
}
_ATTRIBUTE_TYPES = ", ".join(TYPES)


def cut(text: str, limit: int = _SHOWN) -> str:
    """Return as much of a text as fits into a number of bytes."""
    data = text.encode(errors="replace")
    return text if len(data) <= limit else data[:limit].decode(errors="ignore")


def is_name(name: str) -> bool:
    """Whether a text is a C identifier of ASCII and no keyword of C++."""
    return _NAME.fullmatch(name) is not None and name not in _KEYWORDS


class Source(NamedTuple):
    """A text, and the name of its file in messages."""

    text: str
    file: str

    def line(self, at: int) -> int:
        """Return the number of the line of an offset, counted from 1."""
        return self.text.count("\n", 0, at) + 1

    def place(self, at: int, message: str) -> str:
        """Return "file:line:column: message", the line, and a caret below the place."""
        begin = self.text.rfind("\n", 0, at) + 1
        line = self.text[begin:].partition("\n")[0].removesuffix("\r")
        before = shown = line[: at - begin]
        column, left = len(before) + 1, ""
        if len(line.encode()) > _LINE_SHOWN:
            shown = before.encode()[-_LINE_SHOWN // 2 :].decode(errors="ignore")
            left = "..." if shown != before else ""
        rest = shown + line[len(before) :]
        excerpt = cut(rest, _LINE_SHOWN)
        blanks = "".join("\t" if c == "\t" else " " for c in shown)
        return (
            f"{cut(self.file, _FILE_SHOWN)}:{self.line(at)}:{column}: "
            f"{cut(message, _MESSAGE_SHOWN)}\n{left}{excerpt}{'...' if excerpt != rest else ''}\n"
            f"{' ' * len(left)}{blanks}^"
        )

    def refuse(self, at: int, message: str) -> NoReturn:
        """Raise ValueError for a place."""
        raise ValueError(self.place(at, message))


class Token(NamedTuple):
    """One token of an annotation, which describes one parameter."""

    text: str
    at: int  # its offset in the source
    role: str  # "arg", "ret", "attr", "stream" or "any"
    name: str = ""  # of an attribute
    type: str = ""  # of an attribute; "" for the type in the signature
    array: str = ""  # the declared type of an array


class Annotation:
    """What a comment or the caller says about one function."""

    def __init__(self, source: Source, name: str, at: int, given: str = "") -> None:
        self.source = source
        self.name = name
        self.at = at  # the name's offset in the source; 0 if the caller gave the name
        self.given = given  # "functions['f']" or "kernel 'f'"; "" for a comment
        self.tokens: list[Token] = []
        self.infer = False  # there are no tokens: the signature says it all

    @staticmethod
    def in_comment(source: Source, at: int, end: int) -> Annotation:
        """Read an annotation from "@BE" to the end of its comment."""
        words = PIECE.finditer(source.text, at + 3, end)
        name = next(words, None)
        if name is None:
            source.refuse(
                at,
                "@BE names no function; write for example\n"
                "    // @BE add arg:f32[n] arg:f32[n] ret:f32[n]",
            )
        return Annotation(source, name[0], name.start())._read(words)

    @staticmethod
    def given_by(source: Source, name: str, tokens: str | None, given: str) -> Annotation:
        """Read what a caller says about a function; without tokens, all is inferred."""
        annotation = Annotation(source, name, 0, given)._read(PIECE.finditer(tokens or ""))
        annotation.infer = tokens is None
        return annotation

    def _read(self, words: Iterable[re.Match[str]]) -> Annotation:
        if not is_name(self.name):
            self.refuse(
                f"'{cut(self.name)}' is no name of a function: it must be a C identifier and no "
                "keyword of C++; for a member of a class, or an instance of a template, annotate a "
                "function that calls it"
            )

        self.tokens = [Token(m[0], m.start(), "") for m in words]  # with their roles below
        self.infer = not self.tokens
        if len(self.tokens) > MOST_TOKENS:
            self.refuse(f"{cut(self.name)} has more than {MOST_TOKENS} parameters")
        seen = set()
        for i in range(len(self.tokens)):
            token = self.tokens[i] = self._read_token(i)
            shown = cut(token.text)
            if token.role == "stream" and ("stream", "") in seen:
                self.refuse(f"{shown} is there twice; a call has one stream: remove one", i)
            if token.role == "attr" and ("attr", token.name) in seen:
                self.refuse(
                    f"attribute {cut(token.name)} is there twice; give each a name of its own", i
                )
            seen.add((token.role, token.name))
        return self

    def refuse(self, message: str, index: int | None = None, more: str = "") -> NoReturn:
        """Raise ValueError for a token, or for the name."""
        if not self.given:
            at = self.at if index is None else self.tokens[index].at
            raise ValueError(self.source.place(at, message) + more)
        token = "" if index is None else f" token {index + 1}"
        raise ValueError(f"{self.given}{token}: {message}{more}")

    def _read_token(self, index: int) -> Token:
        token = self.tokens[index]
        word, colon, rest = token.text.partition(":")
        role = _WORDS.get(word)
        if role and (not colon or (role in ("arg", "ret") and rest)):
            return token._replace(role=role, array=rest)
        invalid = f"Invalid arg_spec token '{cut(token.text)}'"
        if not token.text.startswith(("attr.", "attrs.")):
            self.refuse(
                f"{invalid}; expected arg, ret, stream, attr.NAME or attr.NAME:TYPE, TYPE one of "
                f"{_ATTRIBUTE_TYPES}; or arg and ret with the type of an array, as in arg:f32[n]",
                index,
            )
        name, colon, type = token.text.partition(".")[2].partition(":")
        if not is_name(name):
            self.refuse(
                f"{invalid}: '{cut(name)}' is not a valid name for an attribute: it must be a C "
                "identifier and no keyword of C++",
                index,
            )
        if colon and type not in TYPES:
            self.refuse(
                f"{invalid}: '{cut(type)}' is no type of an attribute; expected one of "
                f"{_ATTRIBUTE_TYPES}",
                index,
            )
        return token._replace(role="attr", name=name, type=type)
