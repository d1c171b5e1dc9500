"""Signatures of functions in sources: what each parameter of C receives.

`operation/call_signature.py` defines the notation. On the left side, an extent without a type,
such as `n`, `rows + 1`, `-1` or `'T'`, is a number that C receives; `lda = n` names its parameter.
On the right side, `return: f64` is what the function returns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from kernbridge._src.base.struct import Struct
from kernbridge._src.operation.call_signature import CallSignature, split_items
from kernbridge._src.operation.signature import (
    ANY,
    LEADING,
    DeclaredType,
    ScannedParameter,
    is_variable,
    named_dtype,
    names_in,
)

_ITEM = re.compile(r"\s*(?:([A-Za-z_]\w*)\s*([:=]))?\s*(.*?)\s*", re.DOTALL)
RETURN = "return"


class Passed(Struct):
    """One parameter of C, or what it returns, and what it receives or is."""

    role: str  # "in", "out", "number", "extent", "call", "stream", "return"
    at: int  # of the array among the inputs or the outputs
    what: str  # as the signature has it; an extent
    dtype: str = ""  # of an array or a number
    name: str = ""
    ctype: str = ""
    look: str = ""
    constant: bool = False


class _Item(NamedTuple):
    name: str
    text: str
    is_extent: bool = False


def read(text: str, parameters: Sequence[Any]) -> tuple[CallSignature, tuple[Passed, ...]]:
    """Return the signature of a function with these parameters, and what each of them receives.

    ValueError says what is wrong with the signature, or how it differs from the parameters.
    """
    sides = text.split("->")
    if len(sides) != 2:
        raise ValueError('write "->" once, between inputs and outputs')
    given = [p for p in parameters if p.look not in ("call", "stream")]
    names = [p.name or f"parameter{i}" for i, p in enumerate(given, 1)]
    dimensions = {
        n
        for dims in re.findall(r"\[([^\]]*)\]", sides[0])
        for n in re.findall(r"[A-Za-z_]\w*", dims)
    }
    left = [_read_left(item, names, dimensions) for item in split_items(sides[0])]
    right = [_read_right(item) for item in split_items(sides[1])]
    free = [n for n in names if n not in {i.name for i in (*left, *right)}]
    by_name = dict(zip(names, given, strict=True))
    for items in (left, right):
        for k, item in enumerate(items):
            name, text = item.name, item.text
            if not name and not free and items is left:
                raise ValueError(
                    f"it has more inputs than the function has parameters, which are "
                    f"{', '.join(names) or 'none'}"
                )
            name = name or (free.pop(0) if free else RETURN)
            if not item.name and items is left and _may_be_output(by_name[name]):
                raise ValueError(
                    f"the parameter {name!r} can be an input or an output; name it, as in "
                    f"{name}: {text}"
                )
            if name == RETURN and "[" not in text:
                text += "[]"
            items[k] = item._replace(name=name, text=text)
    for items in (left, right):
        twice = [i.name for i in items if [k.name for k in items].count(i.name) > 1]
        if twice:
            raise ValueError(f"{twice[0]!r} stands twice on one side; write it once")
    for item in (*left, *right):
        if item.name not in names and (item.name != RETURN or item in left):
            raise ValueError(
                f"the function's parameters are {', '.join(names) or 'none'}, and none is "
                f"{item.name!r}; use their names, or leave out"
            )
    if free:
        raise ValueError(
            f"it does not describe the parameter {free[0]!r}; add what it receives: an array, a "
            "number such as f64, an extent such as n, or a constant"
        )
    typed = [item for item in left if not item.is_extent]
    sides = [
        ", ".join(f"{i.name}: {i.text}" if i.text else i.name for i in items)
        for items in (typed, right)
    ]
    every = list(dict.fromkeys(i.name for i in (*typed, *right)))
    signature = CallSignature.parse("", " -> ".join(sides), (), every, ())
    return signature, _passed(signature, left, by_name, parameters)


def _may_be_output(p: Any) -> bool:
    return p.look in ("pointer", "tensor", "bytes") and not p.constant


def _read_left(text: str, names: Sequence[str], dimensions: set[str]) -> _Item:
    name, mark, rest = _parts(text)
    is_type = "[" in rest or rest == ANY or (rest not in dimensions and _is_dtype(rest))
    if mark == ":" or (not mark and is_type):
        return _Item(name, rest)
    if re.fullmatch(r"[+-]?\d+|'[^'\\]'", rest):
        return _Item(name, str(ord(rest[1]) if rest[0] == "'" else int(rest)), True)
    try:
        (dim,) = DeclaredType.parse(f"{ANY}[{rest}]").dims
    except ValueError:
        dim = LEADING
    if dim == LEADING:
        raise ValueError(
            f"{text.strip()!r} is neither an array such as x: f64[n], nor a number such as k: f64, "
            "nor an extent such as n"
        )
    return _Item(name or (rest if rest in names else ""), str(dim), True)


def _read_right(text: str) -> _Item:
    name, mark, rest = _parts(text)
    if not mark and "[" not in rest and not _is_dtype(rest):
        return _Item(rest, "")  # an input that the function changes
    return _Item(name, rest)


def _parts(text: str) -> tuple[str, str, str]:
    found = _ITEM.fullmatch(text)
    assert found is not None
    return found[1] or "", found[2] or "", found[3]


def _is_dtype(text: str) -> bool:
    try:
        return bool(named_dtype(text))
    except ValueError:
        return False


def _passed(
    signature: CallSignature,
    left: Sequence[_Item],
    by_name: dict[str, Any],
    parameters: Sequence[Any],
) -> tuple[Passed, ...]:
    inputs = {p.name: (i, p) for i, p in enumerate(in_order_of_call(signature))}
    outputs = {p.name: (i, p) for i, p in enumerate(signature.outputs)}
    known = {n for _, p in inputs.values() if p.type for d in p.type.dims for n in _names(d)}
    found: dict[int, Passed] = {}
    extents = {item.name: item.text for item in left if item.is_extent}
    for name, p in by_name.items():
        spelled = (p.name, p.ctype, p.look, p.constant)
        if name in extents:
            unknown = [n for n in _names(extents[name]) if n not in known]
            if unknown:
                raise ValueError(
                    f"no input has the dimension {unknown[0]!r}, which the parameter {name!r} "
                    "receives; name a dimension of an input, or write a number or a dtype"
                )
            found[id(p)] = Passed("extent", 0, extents[name], "", *spelled)
            continue
        role = "out" if name in outputs else "in"
        index, item = (outputs if name in outputs else inputs)[name]
        declared = item.type or inputs[name][1].type
        assert declared is not None
        role = "number" if item.is_number else role
        if is_variable(declared.dtype) or (role == "number" and not declared.dtype):
            raise ValueError(f"{name!r} needs a dtype, since C has no variables for types")
        text = str(inputs[name][1] if name in inputs else item)
        found[id(p)] = Passed(role, index, text, declared.dtype, *spelled)
    passed = [
        found.get(id(p)) or Passed(p.look, 0, p.look, "", p.name, p.ctype) for p in parameters
    ]
    if RETURN in outputs:
        index, item = outputs[RETURN]
        assert item.type is not None
        if item.type.dims:
            raise ValueError(f"the function returns {item.type}; it can return one number only")
        passed.append(Passed("return", index, str(item), item.type.dtype))
    return tuple(passed)


def _names(dim: str | int) -> tuple[str, ...]:
    return names_in(dim) if isinstance(dim, str) and dim != LEADING else ()


def in_order_of_call(signature: CallSignature) -> list[Any]:
    """The inputs as C finds them in a call: the arrays, and then the numbers sorted by name."""
    arrays = [p for p in signature.inputs if not p.is_number]
    return arrays + sorted((p for p in signature.inputs if p.is_number), key=lambda p: p.name)


def parameters_of(signature: CallSignature) -> tuple[ScannedParameter, ...]:
    """The arrays of a call, as annotations describe them."""
    inputs = {p.name: p for p in in_order_of_call(signature)}
    return (
        *(ScannedParameter("arg", p.name, array=p.type) for p in inputs.values()),
        *(
            ScannedParameter("ret", p.name, array=p.type or inputs[p.name].type)
            for p in signature.outputs
        ),
    )
