"""Compares an annotation with a declaration. Types are compared by the compiler."""

from __future__ import annotations

from typing import NamedTuple, NoReturn, TypeAlias

from kernbridge._src.scan.annotation import Annotation, Token, cut, is_name
from kernbridge._src.scan.signature import (
    TYPES,
    WRITTEN_OUT,
    DeclaredType,
    ScannedFunction,
    ScannedParameter,
)

_Pair: TypeAlias = "tuple[str, Token | None, Parameter | None]"  # with the role
_TYPES = ", ".join(TYPES)
_LINE = 320  # bytes of an annotation that a message suggests


class Parameter(NamedTuple):
    """A parameter of a function, as it is spelled."""

    number: int  # from 0
    at: int
    name: str = ""
    ctype: str = ""  # without the name
    look: str = "value"  # or "pointer", "tensor", "bytes", "stream", "call"
    constant: bool = False  # before the first * or &


class Declaration(NamedTuple):
    """A declaration of a function."""

    at: int  # of the name
    qualified: str  # "::a::name"
    parameters: list[Parameter]
    listed: range  # what is between the parentheses


class Agreement:
    """One annotation, and the declaration that was found for it."""

    def __init__(
        self,
        annotation: Annotation,
        declaration: Declaration | None,
        kernel: bool,
        bytes_only: bool,
    ) -> None:
        self.annotation = annotation
        self.declaration = declaration
        self.kernel = kernel
        self.bytes_only = bytes_only  # the function sees the bytes of its arrays and no types
        self.parameters = declaration.parameters if declaration else []
        self.whole_call = not kernel and [p.look for p in self.parameters] == ["call"]
        self.name = cut(annotation.name)

    def result(self) -> ScannedFunction:
        """Return what a function takes; ValueError if the two disagree, or something is missing."""
        a, d = self.annotation, self.declaration
        if d is None and a.infer:
            kind = "the kernel (__global__) " if self.kernel else ""
            example = "attr.n:int32" if self.kernel else "attr.alpha:float32"
            a.refuse(
                f"the definition of {kind}{self.name} was not found in this source; write its "
                f"parameters out, for example\n    // @BE {self.name} arg:f32[n] ret:f32[n] "
                f"{example}\n({WRITTEN_OUT}, there or here)"
            )
        pairs = self._infer() if a.infer and not self.whole_call else self._take_tokens()
        self._check_declared(pairs)
        line = a.source.line(d.at if d else a.at) if d or not a.given else 0
        parameters = tuple(self._describe(role, token, p, line) for role, token, p in pairs)
        qualified = d.qualified if d else a.name
        return ScannedFunction(a.name, qualified, line, self.whole_call, parameters)

    def _describe(
        self, role: str, token: Token | None, p: Parameter | None, line: int
    ) -> ScannedParameter:
        name, ctype = (p.name, p.ctype) if p else ("", "")
        if token is None:
            return ScannedParameter(role, name, "", ctype)
        array = None
        if token.array:
            try:
                array = DeclaredType.parse(token.array)
            except ValueError as e:
                where = f"{self.annotation.source.file}:{line}: " if line else ""
                what = f"{self.annotation.name}: token '{role}:{token.array}'"
                raise ValueError(f"{where}{what}: {e}") from None
        return ScannedParameter(role, token.name or name, token.type, ctype, array)

    def _refuse(
        self, message: str, p: Parameter | None = None, index: int | None = None
    ) -> NoReturn:
        """Raise ValueError for a token or the name, with the place of the declaration."""
        a = self.annotation
        if p:
            message = f"parameter {p.number + 1}{f' {cut(p.name)!r}' if p.name else ''} {message}"
        message = f"{self.name}: {message}"
        if a.infer and p and not a.given:
            a.source.refuse(p.at, message)
        d = self.declaration
        more = "\n" + a.source.place(p.at if p else d.at, "declared here") if d else ""
        a.refuse(message, index, more)

    def _infer(self) -> list[_Pair]:
        """Read the roles off the declaration."""
        pairs: list[_Pair] = []
        for p in self.parameters:
            role = "attr"
            if p.look == "pointer" if self.kernel else p.look in ("tensor", "bytes"):
                role = "arg" if p.constant else "ret"
            elif p.look == "stream" and not self.kernel:
                role = "stream"
            if role == "attr" and not is_name(p.name):
                self._refuse(
                    "is an attribute, so it needs a name that is a C identifier of ASCII; rename "
                    f"it, or write the tokens out, with attr.NAME; {WRITTEN_OUT}",
                    p,
                )
            if role == "stream" and any(r == role for r, _, _ in pairs):
                self._refuse("is a second stream; a call has one stream: remove one", p)
            pairs.append((role, None, p))
        roles = [role for role, _, _ in pairs]
        tensor = "kb_tensor *" if self.bytes_only else "BE::Tensor"
        if "ret" not in roles:
            why = (
                f"it has no tensor: take `const {tensor}` for each input and `{tensor}` for each "
                f"result, or `const kb_call *` alone; {WRITTEN_OUT}"
            )
            if self.kernel:
                why = (
                    "it has no result: none of its pointers is to something that is not const; "
                    "remove const from a result's"
                )
            elif "arg" in roles:
                why = (
                    f"it has no result: all its tensors are const; a result is a `{tensor}` "
                    f"without const; {WRITTEN_OUT}"
                )
            self._refuse(why)
        return pairs

    def _take_tokens(self) -> list[_Pair]:
        a, d = self.annotation, self.declaration
        for i, token in enumerate(a.tokens):
            if token.role == "any":
                if self.whole_call and len(a.tokens) == 1:
                    return []
                a.refuse(
                    f"{self.name}: `any` alone stands for all arrays of a function that takes a "
                    "`const kb_call *`; write arg:any or ret:any for one",
                    i,
                )
        if not self.whole_call and not any(token.role == "ret" for token in a.tokens):
            a.refuse(f"{self.name} has no result: its annotation must have at least one 'ret'")
        found = self.parameters if d and not self.whole_call else None
        if found is not None and d and len(found) != len(a.tokens):
            names = {p.name for p in found}
            lone = next((t for t in a.tokens if t.role == "attr" and t.name not in names), None)
            absent = f": {cut(lone.text)} not found in signature" if lone else ""
            listed = cut(a.source.text[d.listed.start : d.listed.stop])
            what = "the function" if self.bytes_only else "C++"
            self._refuse(
                f"the annotation describes {len(a.tokens)} parameters, and {what} has {len(found)} "
                f"({listed}){absent}; {WRITTEN_OUT}"
            )
        pairs: list[_Pair] = []
        for i, token in enumerate(a.tokens):
            p = found[i] if found else None
            self._check_token(i, token, p)
            pairs.append((token.role, token, p))
        return pairs

    def _check_token(self, i: int, token: Token, p: Parameter | None) -> None:
        a, shown, name = self.annotation, cut(token.text), cut(token.name)
        if token.role == "stream" and self.kernel:
            a.refuse(f"{self.name}: a kernel takes no stream: it runs on one; remove it", i)
        if token.role == "attr" and not token.type and self.whole_call:
            a.refuse(
                f"{self.name} takes a kb_call, so the type of `{shown}` is not known; write "
                f"attr.{name}:TYPE, TYPE one of {_TYPES}",
                i,
            )
        if p is None:
            return
        # Whether a parameter by value is const is no part of a function's type.
        if token.role == "ret" and p.constant and p.look in ("pointer", "tensor", "bytes"):
            says = f"is `{cut(p.ctype)}`, and the annotation says `{shown}`"
            self._refuse(f"{says}: a result must not be const", p, i)
        if token.role != "attr" or not p.name or token.name == p.name:
            return
        # Numbers are passed by position: under another's name, the function gets the wrong one.
        says = f"is `{shown}` in the annotation"
        place = next((q.number for q in self.parameters if q.name == token.name), None)
        if place is not None:
            remedy = "write the tokens in the order of the parameters"
            self._refuse(f"{says}, and '{name}' is parameter {place + 1}: {remedy}", p, i)
        if not token.type and not self.kernel:  # else it has another name on purpose
            self._refuse(
                f"{says}: {shown} not found in signature; write attr.{cut(p.name)}, or "
                f"attr.{name}:TYPE to give it another name, TYPE one of {_TYPES}",
                p,
                i,
            )

    def _check_declared(self, pairs: list[_Pair]) -> None:
        """Refuse arrays without types where the function sees bytes."""
        a, whole = self.annotation, self.whole_call and not self.annotation.tokens
        words, missing = [], whole
        for role, token, p in pairs:
            word, array = role, token.array if token else ""
            if role in ("arg", "ret"):
                sees_bytes = self.bytes_only or self.whole_call or (p and p.look == "bytes")
                missing |= bool(sees_bytes and not array)
                word += f":{cut(array) or 'f32[n]'}"
            elif role == "attr":
                name, type = (token.name, token.type) if token else (p.name if p else "", "")
                word += f".{cut(name)}{f':{type}' if type else ''}"
            words.append(word)
        if not missing:
            return
        line = " ".join(words) or "any"
        if len(line) > _LINE:
            line = f"{line[: line.rindex(' ', 0, _LINE)]} ..."
        if not a.given:
            line = f"// @BE {self.name} {line}"
        else:
            line = f'params="{line}"' if self.kernel else f'"{self.name}": "{line}"'
        why = (
            "if it looks at their number, dtypes and shapes itself, or list them: arg:f32[n] for "
            "each input, ret:f32[n] for each output"
            if whole
            else "n is a name or a number, [...] any shape; `any` instead of f32[n] if the "
            "function looks at the dtype and the shape itself"
        )
        a.refuse(
            f"{self.name} sees only the bytes of its arrays, so their dtypes and shapes have to be "
            f"declared; write for example\n    {line}\n({why})"
        )
