"""Annotations: their grammar, and what they say together with the declarations of functions."""

from __future__ import annotations

import bisect
import itertools
import re
from typing import NamedTuple, NoReturn

from kernbridge._src.base.dtypes import DTYPES
from kernbridge._src.scan import plain
from kernbridge._src.scan.functions import WRITTEN_OUT, ScannedFunction, ScannedParameter, Sources
from kernbridge._src.signatures.array_types import DeclaredType
from kernbridge._src.signatures.call_signature import own_names

_LINE = 160  # characters of a line that a message shows
# A word of an annotation. Brackets hold their blanks. A backslash at the end of a line is a blank.
WORD = re.compile(r"(?:\[[^\]]*\]?|\\(?![ \t\r\v\f\n]|\Z)|[^\[\\ \t\r\v\f\n])+")
_ROLES = {role: role for role in ("arg", "ret", "stream", "any")}
_ROLES |= {"args": "arg", "rets": "ret", "ctx.stream": "stream"}
_TYPES = ", ".join(DTYPES)
_EXAMPLE = DeclaredType("float32", ("n",))


def cut(text: str, limit: int = 120) -> str:
    return text if len(text) <= limit else f"{text[:limit]}..."


def is_name(name: str) -> bool:
    return name.isascii() and name.isidentifier()


class Source:
    """The texts of files, each with its name in messages, as one text."""

    def __init__(self, files: Sources) -> None:
        self.text = "".join(f"{text}\n\n" for _, text in files)
        self.names = [name for name, _ in files]
        self.starts = [0, *itertools.accumulate(len(text) + 2 for _, text in files)]

    def line(self, at: int) -> str:
        """Return "file:line" of an offset, or the last file's name for an offset of -1."""
        i = bisect.bisect(self.starts, at) - 1
        number = f":{self.text.count(chr(10), self.starts[i], at) + 1}" if at >= 0 else ""
        return f"{self.names[i]}{number}"

    def place(self, at: int, message: str) -> str:
        """Return "file:line:column: message", the line, and a caret below the place."""
        begin, end = self.text.rfind("\n", 0, at) + 1, self.text.find("\n", at)
        line = self.text[begin : end if end >= 0 else None].removesuffix("\r")
        column = at - begin
        left = max(0, column - _LINE // 2) if len(line) > _LINE else 0
        dots = "..." if left else ""
        blanks = re.sub(r"[^\t]", " ", dots + line[left:column])
        shown = f"{dots}{cut(line[left:], _LINE)}\n{blanks}^"
        return f"{self.line(at)}:{column + 1}: {cut(message, 1100)}\n{shown}"


class Parameter(NamedTuple):
    at: int = 0
    name: str = ""
    ctype: str = ""  # without the name
    look: str = "value"  # or "pointer", "tensor", "bytes", "stream", "call"
    constant: bool = False  # before the first * or &


class Declaration(NamedTuple):
    at: int  # of the name; -1 if unknown
    qualified: str  # "::a::name"
    parameters: list[Parameter]
    listed: str  # what is between the parentheses
    returns_nothing: bool = False  # whether `void` is before the name


class Annotation:
    """What a comment or the caller says about one function, and what its declaration adds.

    `words` are None if the declaration says it all. What the caller says has a name in messages,
    such as "functions['f']", which is `given`, and -1 for its place.
    """

    found: Declaration

    def __init__(
        self, source: Source, name: str, at: int, words: list[re.Match[str]] | None, given: str = ""
    ) -> None:
        self.source, self.name, self.at, self.given = source, name, at, given
        if not is_name(name):
            self.refuse(
                f"'{cut(name)}' is no name of a function: it must be a C identifier; for a member "
                "of a class, or an instance of a template, annotate a function that calls it"
            )
        self.near = ""  # a name that is declared, if this one is not
        self.infer = words is None
        self.words = words or []
        text = " ".join(m[0] for m in self.words)
        self.signature = text if "->" in text else ""
        self.tokens: list[ScannedParameter] = []  # as far as the annotation describes them
        if self.signature:
            return
        for m in self.words:
            self.tokens.append(self._read(len(self.tokens), *m[0].partition(":")))

    def refuse(self, message: str, i: int | None = None, more: str = "") -> NoReturn:
        """Raise ValueError about a token, or about the name."""
        if self.given:
            token = "" if i is None else f" token {i + 1}"
            raise ValueError(f"{self.given}{token}: {cut(message, 1100)}{more}")
        at = self.at if i is None else self.words[i].start()
        raise ValueError(self.source.place(at, message) + more)

    def _disagree(self, message: str, i: int | None = None) -> NoReturn:
        """Raise ValueError about a parameter or the function, with the place of the declaration."""
        at = self.found.at
        if i is not None:
            p = self.found.parameters[i]
            at, message = p.at, f"parameter {i + 1}{f' {p.name!r}' if p.name else ''} {message}"
        more = "\n" + self.source.place(at, "declared here") if at >= 0 else ""
        self.refuse(f"{self.name}: {message}", None if self.infer else i, more)

    def _read(self, i: int, word: str, colon: str, rest: str) -> ScannedParameter:
        invalid = f"Invalid arg_spec token '{cut(word + colon + rest)}'"
        role = "" if word == "any" and len(self.words) > 1 else _ROLES.get(word, "")
        if role in ("arg", "ret") and colon:
            try:
                return ScannedParameter(role, array=DeclaredType.parse(rest))
            except ValueError as e:
                self.refuse(f"{invalid}: {e}", i)
        if role and not colon:
            if role == "stream" and any(t.role == role for t in self.tokens):
                self.refuse(f"{word} is there twice; a call has one stream: remove one", i)
            return ScannedParameter(role)
        if not word.startswith(("attr.", "attrs.")):
            self.refuse(
                f"{invalid}; expected arg, ret, stream, attr.NAME or attr.NAME:TYPE, TYPE one of "
                f"{_TYPES}; or arg and ret with the type of an array, as in arg:f32[n]",
                i,
            )
        name = word.partition(".")[2]
        if not is_name(name):
            why = f"'{cut(name)}' is not a valid name for an attribute: it must be a C identifier"
            self.refuse(f"{invalid}: {why}", i)
        if colon and rest not in DTYPES:
            why = f"'{cut(rest)}' is no type of an attribute; expected one of {_TYPES}"
            self.refuse(f"{invalid}: {why}", i)
        if any(t.name == name for t in self.tokens):
            self.refuse(f"attribute {name} is there twice; give each a name of its own", i)
        return ScannedParameter("attr", name, rest)

    def describe(
        self, found: Declaration | None, kernel: bool, bytes_only: bool
    ) -> ScannedFunction:
        """Return what the function takes; ValueError if the declaration disagrees, or is missing.

        `bytes_only`: the function sees the bytes of its arrays and no types.
        """
        kernels = rf"\b__global__\b[^;{{}}()]*(?:\([^()]*\)[^;{{}}()]*)?\b{self.name}\s*\("
        if found is None and not kernel and re.search(kernels, self.source.text):
            self.refuse(
                f"{self.name} is a kernel (__global__), and a module calls functions: annotate the "
                "function that launches it, or make an operation of it with kernbridge.cuda_kernel"
            )
        if self.infer and found is None:
            kind = "the kernel (__global__) " if kernel else ""
            self.refuse(
                f"the definition of {kind}{self.name} was not found in this source; write its "
                f"parameters out, for example\n    // @BE {self.name} arg:f32[n] ret:f32[n] "
                f"attr.n:int32\n({WRITTEN_OUT}, there or here)"
            )
        if self.signature:
            return self._describe_signature(found, kernel)
        # Where a macro makes the function, nothing but the annotation is known.
        self.found = found or Declaration(self.at, self.name, [Parameter()] * len(self.tokens), "")
        parameters = self.found.parameters
        whole_call = not kernel and [p.look for p in parameters] == ["call"]
        if whole_call:
            tokens = self._of_whole_call()
            parameters = [Parameter()] * len(tokens)
        elif self.infer:
            tokens = self._infer(kernel, "kb_tensor *" if bytes_only else "BE::Tensor")
        else:
            tokens = self._compare(kernel, "the function" if bytes_only else "C++")
        pairs = list(zip(tokens, parameters, strict=True))
        taken = tuple(t._replace(name=t.name or p.name, ctype=p.ctype) for t, p in pairs)
        sees_bytes = bytes_only or whole_call
        undeclared = [t.role for t, p in pairs if not t.array and (sees_bytes or p.look == "bytes")]
        if "arg" in undeclared or "ret" in undeclared or (whole_call and self.infer):
            arrays = {"arg": _EXAMPLE, "ret": _EXAMPLE}
            typed = [p._replace(array=p.array or arrays.get(p.role)) for p in taken]
            line = " ".join(p.token for p in typed) or "any"
            if self.given:
                line = f'params="{line}"' if kernel else f'"{self.name}": "{line}"'
            else:
                line = f"// @BE {self.name} {line}"
            self.refuse(
                f"{self.name} sees only the bytes of its arrays, so their dtypes and shapes have "
                "to be declared; write for example\n"
                f"    {line}\n"
                "(n is a name or a number, [...] any shape; `any` instead of f32[n] if the "
                "function looks at the dtype and the shape itself)"
            )
        place = self.source.line(self.found.at)
        return ScannedFunction(self.name, self.found.qualified, whole_call, taken, place)

    def _describe_signature(self, found: Declaration | None, kernel: bool) -> ScannedFunction:
        if kernel:
            self.refuse(f"{self.name}: a kernel is described by tokens, such as arg:f32[n]")
        if found is None:
            self.refuse(
                f"the declaration of {self.name}, to which the signature belongs, was not found in "
                "the source or header, or in what it includes"
                f"{self.near and f' (did you mean {self.near}?)'}; {WRITTEN_OUT}"
            )
        self.found = found
        whole_call = [p.look for p in found.parameters] == ["call"]
        try:
            parameters = found.parameters
            if whole_call:
                parameters = [Parameter(name=name) for name in own_names(self.signature)]
            signature, arrays, passed = plain.read(self.signature, parameters)
            if whole_call and any(p.role == "extent" for p in passed):
                raise ValueError("a function of the whole call finds extents in its arrays")
        except ValueError as e:
            why = str(e)
            for p in found.parameters:
                if "*" in p.ctype and f"parameter {p.name!r} receives" in why:
                    why = f"{p.name} is a `{p.ctype}`, which JAX cannot pass; write a function of "
                    why += "your own that makes it (load_c_inline, docs/libraries.md)"
            self._disagree(f"the signature '{cut(self.signature)}': {why}")
        if found.returns_nothing:
            passed = (*passed, plain.Passed("nothing", 0, ""))
        return ScannedFunction(
            *(self.name, found.qualified, whole_call, arrays),
            self.source.line(self.at),
            signature,
            () if whole_call else passed,
        )

    def _infer(self, kernel: bool, tensor: str) -> list[ScannedParameter]:
        roles: list[str] = []
        for i, p in enumerate(self.found.parameters):
            role = "attr"
            if p.look == "pointer" if kernel else p.look in ("tensor", "bytes"):
                role = "arg" if p.constant else "ret"
            elif p.look == "stream" and not kernel:
                role = "stream"
            if role == "attr" and not is_name(p.name):
                self._disagree(
                    "is an attribute, so it needs a name that is a C identifier of ASCII; rename "
                    f"it, or write the tokens out, with attr.NAME; {WRITTEN_OUT}",
                    i,
                )
            if role == "stream" and role in roles:
                self._disagree("is a second stream; a call has one stream: remove one", i)
            roles.append(role)
        if "ret" not in roles:
            self._disagree(
                "it has no result: none of its pointers is to something that is not const; remove "
                "const from a result's"
                if kernel
                else f"it has no result: take `const {tensor}` for each input and `{tensor}` for "
                "each result, or `const kb_call *` alone; or describe pointers in C and C++ by a "
                f"signature, such as x: f32[n], n -> y: f32[n]; {WRITTEN_OUT}"
            )
        return [ScannedParameter(role) for role in roles]

    def _of_whole_call(self) -> list[ScannedParameter]:
        """Return the tokens of a function that takes the call; none if it takes any arrays."""
        if [t.role for t in self.tokens] == ["any"]:
            return []
        for i, token in enumerate(self.tokens):
            if token.role == "attr" and not token.type:
                self.refuse(
                    f"{self.name} takes a kb_call, so the type of `attr.{token.name}` is not "
                    f"known; write attr.{token.name}:TYPE, TYPE one of {_TYPES}",
                    i,
                )
        return self.tokens

    def _compare(self, kernel: bool, what: str) -> list[ScannedParameter]:
        """Return the tokens of a function, each of which suits its parameter."""
        parameters = self.found.parameters
        if not any(t.role == "ret" for t in self.tokens):
            self.refuse(f"{self.name} has no result: its annotation must have at least one 'ret'")
        places = {p.name: i for i, p in enumerate(parameters, 1)}
        if len(parameters) != len(self.tokens):
            lone = [t.name for t in self.tokens if t.role == "attr" and t.name not in places]
            absent = f": attr.{lone[0]} not found in signature" if lone else ""
            streams = [p.name for p in parameters if p.look == "stream" or p.name == "stream"]
            if streams and not any(t.role == "stream" for t in self.tokens):
                absent += f": add `stream` for its parameter {streams[0] or 'of this type'} in "
                absent += "CUDA source, or remove the parameter of a function for CPUs"
            self._disagree(
                f"the annotation describes {len(self.tokens)} parameters, and {what} has "
                f"{len(parameters)} ({cut(self.found.listed)}){absent}; {WRITTEN_OUT}"
            )
        for i, (token, p) in enumerate(zip(self.tokens, parameters, strict=True)):
            name, text = token.name, self.words[i][0]
            if token.role == "stream" and kernel:
                self.refuse(f"{self.name}: a kernel takes no stream: it runs on one; remove it", i)
            # Whether a parameter by value is const is no part of a function's type.
            if token.role == "ret" and p.constant and p.look in ("pointer", "tensor", "bytes"):
                says = f"is `{p.ctype}`, and the annotation says `{text}`"
                self._disagree(f"{says}: a result must not be const", i)
            # Numbers are passed by position: under another's name, the function gets the wrong one.
            if token.role == "attr" and p.name and name != p.name and name in places:
                self._disagree(
                    f"is `{text}` in the annotation, and '{name}' is parameter {places[name]}: "
                    "write the tokens in the order of the parameters",
                    i,
                )
            if token.role == "attr" and p.name and name != p.name and not (token.type or kernel):
                self._disagree(
                    f"is `{text}` in the annotation: attr.{name} not found in signature; write "
                    f"attr.{p.name}, or attr.{name}:TYPE to give it another name, TYPE one of "
                    f"{_TYPES}",
                    i,
                )
        return self.tokens
