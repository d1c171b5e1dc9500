"""Replaces the exceptions in Numba's LLVM IR by text that a process without Python can use.

Numba pickles the class, the arguments and the place of an exception into a constant. Here a text
takes the place of the pickle, in the form of src/core/kb_host.h. Arguments that are computed at
run time are objects of Python that a function of the module makes, and the text says where they
belong. Its calls of Python get other names, for which a process without Python has a stand-in
(src/object/kb_provided.c).
"""

from __future__ import annotations

import pickle
import re
from typing import Any

from kernbridge._src.numba_common.private_llvmlite import ir
from kernbridge._src.numba_cpu import errors

_RECORD = re.compile(r"^(@\S*\.const\.picklebuf\.\S*) = (.*?constant) (\{.*?\}) \{ (.*) \}", re.M)
_PICKLED = re.compile(
    r'^@("?\.const\.pickledata\.[^\s,]+) = (.*?constant) \[(\d+) x i8\] c"([^"]*)"', re.M
)
_UNWRAP = re.compile(r"^define [^\n]*@__excinfo_unwrap_args.*?^\}$", re.M | re.S)
_OF_PYTHON = re.compile(r"@(_?Py\w+)")
_ENVIRONMENT = re.compile(r'@"?_ZN08NumbaEnv[^\s,"]*"?')
_ESCAPED = re.compile(rb"\\(\\|[0-9A-Fa-f]{2})")
_PLAIN = re.compile(rb"[A-Za-z0-9 ]")
_VALUE = "\x01"  # KB_FAILURES_VALUE


class NotCarried(Exception):
    """The machine code of a kernel cannot leave its process, for the reason in the text."""


class _Value:
    """Stands for an argument that is computed at run time, and can only be written."""

    def __init__(self, index: int) -> None:
        self.index = index

    def __str__(self) -> str:
        return f"{_VALUE}{self.index}s"

    def __repr__(self) -> str:
        return f"{_VALUE}{self.index}r"

    def __format__(self, how: str) -> str:
        if how:
            raise TypeError(how)
        return str(self)

    def __bool__(self) -> bool:
        raise TypeError("the text depends on the value")

    def __eq__(self, other: object) -> bool:
        raise TypeError("the text depends on the value")

    __hash__ = None  # type: ignore[assignment]


def with_texts(module: str) -> tuple[str, bool]:
    """The IR of a module with texts for exceptions.

    Also whether the texts are lasting: from no code of the user's (see `errors.is_lasting`).

    Raises
    ------
    NotCarried
        If Python is needed to describe an exception.
    """
    pickled = {found[1]: _unescape(found[4]) for found in _PICKLED.finditer(module)}
    constants: list[str] = []
    lasting = True

    def described(data: bytes) -> bytes:
        nonlocal lasting
        text, from_kernel = _describe(data)
        lasting &= from_kernel
        return text

    def of_record(record: re.Match[str]) -> str:
        name, head, kind, fields = record.groups()
        text = described(next(data for at, data in pickled.items() if f"@{at}," in fields + ","))
        size, constant = f"[{len(text)} x i8]", f"@kb.text.{len(constants)}"
        constants.append(f'{constant} = private constant {size} c"{_escape(text)}"')
        pointer = kind[1:-1].split(",")[0].strip()
        reference = f"{pointer} {constant}"
        if pointer != "ptr":
            reference = f"{pointer} getelementptr ({size}, {size}* {constant}, i64 0, i64 0)"
        rest = f"i32 {len(text)}, {pointer} null, {pointer} null, i32 0"
        return f"{name} = {head} {kind} {{ {reference}, {rest} }}"

    def of_run_time(constant: re.Match[str]) -> str:
        name, head, room, _ = constant.groups()
        if name.endswith(".sha1") or len(re.findall(rf"@{re.escape(name)}(?![\w.])", static)) < 2:
            return constant[0]
        text = described(pickled[name])
        if len(text) > int(room):
            raise NotCarried("the text of an exception is longer than the exception itself")
        return f'@{name} = {head} [{room} x i8] c"{_escape(text.ljust(int(room), bytes(1)))}"'

    static = _RECORD.sub(of_record, module)
    result = _with_values(_PICKLED.sub(of_run_time, static))
    return "\n".join((result, *constants, "")), lasting


def _describe(data: bytes) -> tuple[bytes, bool]:
    """The text of an exception, given Numba's pickle of it."""
    loaded = pickle.loads(data)
    if not isinstance(loaded, tuple) or len(loaded) != 3:
        raise NotCarried("it uses Python objects")
    kind, args, place = loaded
    lasting = errors.is_lasting(kind)
    values = [i for i, arg in enumerate(args or ()) if isinstance(arg, ir.Value)]
    message = _template(kind, args, values, lasting) if values else errors.message(kind, args)
    parts = message, "" if place is None else errors.place_text(place)
    encoded = (p.encode("utf-8", "backslashreplace").replace(b"\0", rb"\x00") for p in parts)
    return b"".join(part + b"\0" for part in encoded), lasting


def _template(kind: Any, args: tuple[Any, ...], values: list[int], lasting: bool) -> str:
    """The message of an exception, with marks for the values that are computed at run time."""
    given = tuple(_Value(values.index(i)) if i in values else arg for i, arg in enumerate(args))
    refused = NotCarried(
        f"the text of {getattr(kind, '__name__', kind)} depends on values of the call"
    )
    if not lasting or any(_VALUE in str(arg) for arg in args if isinstance(arg, str)):
        raise refused
    try:
        error = kind(*given)
        text = error.__str__()
        if isinstance(text, _Value):  # NumPy's AxisError returns its argument as it is
            return f"{kind.__name__}: {text}"
        str(error)
    except Exception as e:
        raise refused from e
    return errors.message(kind, given)


def _with_values(module: str) -> str:
    """The IR with other names for what the functions that make the values call of Python."""
    names: set[str] = set()

    def replaced(function: re.Match[str]) -> str:
        names.update(_OF_PYTHON.findall(function[0]))
        body = _OF_PYTHON.sub(r"@kb_\1", function[0])
        return _ENVIRONMENT.sub("@kb.environment", body)

    result = _UNWRAP.sub(replaced, module)
    if not names:
        return module
    added = [
        line.replace(f"@{name}", f"@kb_{name}", 1)
        for name in sorted(names)
        for line in re.findall(rf"^(?:declare .*@{name}\(.*|@{name} = .*)$", module, re.M)
    ]
    loaded = re.search(r'load (\S+), \S+ @"?_ZN08NumbaEnv', module)
    pointer = loaded[1] if loaded else "ptr"
    something = f"{pointer} inttoptr (i64 1 to {pointer})"  # it is only compared with null
    return "\n".join((result, *added, f"@kb.environment = private constant {something}", ""))


def _unescape(text: str) -> bytes:
    def replaced(found: re.Match[bytes]) -> bytes:
        return b"\\" if found[1] == b"\\" else bytes.fromhex(found[1].decode())

    return _ESCAPED.sub(replaced, text.encode())


def _escape(data: bytes) -> str:
    return "".join(chr(b) if _PLAIN.match(bytes((b,))) else f"\\{b:02X}" for b in data)
