"""Signatures of functions in sources: what each parameter of C receives.

`signatures/call_signature.py` defines the notation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernbridge._src.base.struct import Struct
from kernbridge._src.scan.functions import ScannedParameter
from kernbridge._src.signatures.array_types import is_variable
from kernbridge._src.signatures.call_signature import RETURN, CallSignature


class Passed(Struct):
    """One parameter of C, or what it returns, and what it receives or is."""

    role: str  # "in", "out", "number", "extent", "call", "stream", "return", "structure"
    at: int  # of the array among the inputs or the outputs
    what: str  # as the signature has it; an extent
    dtype: str = ""  # of an array or a number
    name: str = ""
    ctype: str = ""
    look: str = ""  # as of a parameter, or "member"
    constant: bool = False
    members: tuple[tuple[str, Any], ...] = ()  # of a structure: their names, each with a `Passed`


def read(
    text: str, parameters: Sequence[Any]
) -> tuple[str, tuple[ScannedParameter, ...], tuple[Passed, ...]]:
    """Return the signature of a call, its arrays and numbers, and what each parameter receives.

    ValueError says what is wrong with the signature, or how it differs from the parameters.
    """
    given = [p for p in parameters if p.look not in ("call", "stream")]
    names = [p.name or f"parameter{i}" for i, p in enumerate(given, 1)]
    is_stream = any(p.name == "stream" and p.ctype.replace(" ", "") == "void*" for p in given)
    if is_stream and "stream:" not in text:
        raise ValueError("the function takes a stream, and there is none on CPUs; remove it")
    unclear = [
        name
        for name, p in zip(names, given, strict=True)
        if p.look in ("pointer", "tensor", "bytes") and not p.constant
    ]
    signature = CallSignature.parse("", text, (), names, (), unclear)
    # C finds the arrays of a call first, and then the numbers sorted by name.
    in_order = sorted(signature.inputs, key=lambda p: p.name if p.is_number else "")
    inputs = {p.name: (i, p) for i, p in enumerate(in_order)}
    outputs = {p.name: (i, p) for i, p in enumerate(signature.outputs)}
    extents = {p.name: p.extent for p in signature.extents}

    def received(name: str, *spelled: Any) -> Passed:
        if name in extents:
            return Passed("extent", 0, extents[name], "", *spelled)
        at, item = (outputs if name in outputs else inputs)[name]
        _, described = inputs.get(name, (at, item))
        assert described.type is not None
        role, dtype = "out" if name in outputs else "in", described.type.dtype
        role = "number" if item.is_number else role
        if is_variable(dtype) or (role == "number" and not dtype):
            raise ValueError(f"{item.shown!r} needs a dtype, since C has no variables for types")
        return Passed(role, at, str(described), dtype, *spelled)

    left, passed = iter(names), list[Passed]()
    for p in parameters:
        spelled = (p.name, p.ctype, p.look, p.constant)
        if p.look in ("call", "stream"):
            passed.append(Passed(p.look, 0, p.look, "", *spelled))
            continue
        name = next(left)
        fields = [q for q in (*signature.inputs, *signature.extents) if q.field[:1] == (name,)]
        members = tuple((q.field[1], received(q.name, q.shown, "", "member")) for q in fields)
        structure = Passed("structure", 0, name, "", *spelled, members)
        passed.append(structure if members else received(name, *spelled))
    if RETURN in outputs:
        at, item = outputs[RETURN]
        assert item.type is not None
        if item.type.dims:
            raise ValueError(f"the function returns {item.type}; it can return one number only")
        passed.append(Passed("return", at, str(item), item.type.dtype))
    arrays = (
        *(ScannedParameter("arg", name, array=p.type) for name, (_, p) in inputs.items()),
        *(
            ScannedParameter("ret", p.name, array=p.type or inputs[p.name][1].type)
            for p in signature.outputs
        ),
    )
    return str(signature), arrays, tuple(passed)
