"""Formats the message for a kernel that Numba or Numba-CUDA cannot compile: cause, line and remedy.

Numba's own text has up to 250 lines, and repeats the cause for each function that it tried. The
message contains the first cause, the line of the kernel, and a remedy for common causes. With
KERNBRIDGE_DEBUG=full, the complete text is printed.
"""

from __future__ import annotations

import inspect
import linecache
import os
import re
import sys
import traceback
from collections.abc import Iterator
from typing import Any

import jax

from kernbridge._src.base.errors import without_code

_MOST_LINES = 12  # of the cause
_NOISE = re.compile(
    r"^\s*(Failed in \w+ mode pipeline.*|During: .*|- Resolution failure for .*|"
    r"<source missing.*|Enable logging at debug level.*|This error may have been caused.*|"
    r"Rejected as the implementation raised a specific error:|raised from \S+:\d+|"
    r"\w*Error: Failed in \w+ mode pipeline.*|\* \(op\|func\).*|\^*)$"
)
_CANDIDATES = re.compile(
    r"^(There are \d+ candidate implementations:|- Of which \d+ did not match due to:)"
)
_SPECIFIC = "Rejected as the implementation raised a specific error:"
RECURSION = "insert_unresolved_ref"  # which Numba-CUDA calls, and does not have
_SURPRISED = "Numba itself failed with"
_ARGUMENTS = "Compare the line with Numba's documentation: most often, its arguments are wrong"
_NEW_ARRAY = "Only accept returning of array passed into the function as argument"
_ONLY_ON_CPUS = (
    "A CUDA kernel cannot create strings, lists, dicts or arrays, nor call other functions that "
    "Numba implements only for CPUs: write a loop, with cuda.local.array for what it needs in "
    "between, use numba.cuda.random for random numbers, or compute it with JAX outside of the "
    "kernel"
)
_SHAPE = (
    "The shape of a {0} array must be a constant, a number or a name that is global to the kernel: "
    "for a shape such as B + 2, compute T = B + 2 outside of the kernel, and use T"
)
_REMEDIES = (  # regular expressions
    (RECURSION, "Convert the arguments, as in f(int32(5)) for f(5), so that every call of the "
     "function has the same types, and make one function of those that call each other"),
    (r"of type Module\(<module '(?!numpy|numba|math')", "A kernel can call functions of NumPy, "
     "math and Numba, and functions of JAX that kernbridge.inline made callable"),
    ("Cannot unify", "A variable can have only one type in a kernel; use two names"),
    (r"cannot index array\(\w+, 0d", "The element of an array without dimensions is out[()]"),
    ("Use of unsupported NumPy function", "Write a loop, or compute it with JAX outside of the "
     "kernel"),
)  # fmt: skip
_REMEDIES_OF_CUDA = (
    (r"NRT required but not enabled|of type list\(|DictType\[", "A CUDA kernel cannot create "
     "strings, lists, dicts or arrays: use cuda.local.array, or set NUMBA_CUDA_ENABLE_NRT=1"),
    (_NEW_ARRAY, "A CUDA kernel cannot create arrays: write a loop, with cuda.local.array for what "
     "it needs in between, or compute it with JAX outside of the kernel"),
    ("re-entrant to the same function", "A CUDA kernel cannot call itself; a device function can"),
    (r"> array\((Literal|(Uni)?Tuple\(Literal)", "The dtype must be a type of Numba or NumPy, "
     "such as numba.float32 or np.float32"),
    ("function shared.array", f"{_SHAPE.format('shared')}. For a size that depends on the call, "
     "write cuda.shared.array(0, dtype) and pass the number of bytes as shared_mem="),
    ("function local.array", _SHAPE.format("local")),
    ("IMPORT_NAME", "A device function cannot import modules: move the import to the top of the "
     "module"),
    ("module 'numpy.random'", "A CUDA kernel cannot draw numbers with NumPy: use "
     "numba.cuda.random, whose states are an input with view=, or draw them with JAX outside of "
     "the kernel"),
    ("maximum recursion depth exceeded", _ONLY_ON_CPUS),
    ("Exception matching is limited", "A CUDA kernel cannot catch exceptions: test for the "
     "condition with `if`"),
)  # fmt: skip


def report(error: BaseException, function: Any, of_cuda: bool = False) -> str:
    """Return the lines about an error of Numba in a kernel, whose Python function is given."""
    values = _values(function).items()
    array = next((name for name, value in values if isinstance(value, jax.Array)), None)
    cause = _cause(error) if array is None else f"Numba cannot use {array!r}, which is a JAX array."
    place = _place(error, function, cause)
    remedy = _remedy(without_code(str(error)), cause, function, of_cuda)
    rest = "Set KERNBRIDGE_DEBUG=full to see Numba's complete message."
    return without_code("\n".join(filter(None, (cause, *place, remedy, rest))))


def _cause(error: BaseException) -> str:
    """The first cause that Numba names, without the functions that it tried."""
    text = without_code(str(error))
    if RECURSION in text:
        return _recursion(error)
    if _NEW_ARRAY in text:
        return "The kernel calls a function that creates an array."
    inner = text.rfind(_SPECIFIC)
    if inner >= 0 and len(text) - inner > len(_SPECIFIC) + 8:
        text = text[inner + len(_SPECIFIC) :]
    kept: list[str] = []
    in_source = False
    for line in text.splitlines():
        if _CANDIDATES.match(line.strip()) and kept:
            break
        if line.lstrip().startswith('File "'):
            in_source = True
        elif not line.strip():
            in_source = False
        if not in_source and not _NOISE.match(line) and line.strip() not in kept:
            kept.append(line.strip())
    if len(kept) > _MOST_LINES:
        kept = [*kept[:_MOST_LINES], "..."]
    cause = re.sub(r"\.*\s*Raised from .*", ".", "\n".join(kept)) or type(error).__name__
    if isinstance(error, (TypeError, ValueError)):
        cause = f"{_SURPRISED} {type(error).__name__}: {cause}"
    return cause


def _recursion(error: BaseException) -> str:
    for known in (frame.f_locals for frame, _ in traceback.walk_tb(error.__traceback__)):
        if "rec_ov" in known:
            caller = known["self"].func_ir.func_id.func_name
            callee = known["rec_ov"].qualname.rpartition(".")[2]
            if caller != callee:
                return f"The device functions {callee!r} and {caller!r} call each other."
    return (
        "Device functions call each other, or one calls itself with types that differ from "
        "those of its first call."
    )


def _place(error: BaseException, function: Any, cause: str) -> list[str]:
    """The line of the kernel, with a caret below what the cause is about."""
    names = re.findall(r"'(?:[\w.]*\.)?(\w+)'|function (?:\w+\.)?(\w+)[ >]", cause)
    words = [a or b for a, b in names]
    file, number = _numba_place(error, function) or _named_place(function, words)
    shown = linecache.getline(file, number).strip()
    if not shown:
        return [f"  at {file}:{number}"]
    at = next((m.start() for w in words for m in [re.search(rf"\b{w}\b", shown)] if m), 0)
    return [f'  File "{file}", line {number}', f"    {shown}", f"    {' ' * at}^"]


def _numba_place(error: BaseException, function: Any) -> tuple[str, int] | None:
    """The innermost place that Numba names outside of sources that are not the user's."""
    loaded = map(sys.modules.get, ("numba", "numba.cuda", "numba_cuda_mlir", "kernbridge"))
    packages = tuple(f"{os.path.dirname(m.__file__)}/" for m in loaded if m and m.__file__)
    for file, number in _places(error, packages):
        line = linecache.getline(file, number).lstrip()
        known = line or file == function.__code__.co_filename
        if known and not line.startswith("@") and not file.startswith(packages):
            return file, number
    return None


def _places(error: BaseException, packages: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    """The places of an error's text, and then those at which its traceback shows Numba."""
    for pattern in (r'^File "([^"<]+)", line (\d+):', r"\b(?:at|from) ([^\s(<]+) \((\d+)\)"):
        for found in re.finditer(pattern, without_code(str(error)), re.M):
            yield os.path.abspath(found[1]), int(found[2])
    locations = [getattr(error, "loc", None)]
    for frame, _ in reversed([*traceback.walk_tb(error.__traceback__)]):
        if frame.f_code.co_filename.startswith(packages):
            known = frame.f_locals
            locations += [known.get("loc")]
            locations += [getattr(known.get(name), "loc", None) for name in ("inst", "self")]
    for location in locations:
        if location is not None and getattr(location, "filename", None) is not None:
            yield str(location.filename), int(location.line)


def _named_place(function: Any, words: list[str]) -> tuple[str, int]:
    """The first line of a kernel with one of the words, or else where its definition begins."""
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        lines, first = [], function.__code__.co_firstlineno
    code = {i: s for i, s in enumerate(lines) if not s.lstrip().startswith(("@", "def "))}
    found = (i for word in words for i, s in code.items() if re.search(rf"\b{word}\b", s))
    begins = (i for i, line in enumerate(lines) if line.lstrip().startswith("def "))
    return function.__code__.co_filename, first + next(found, next(begins, 0))


def _remedy(text: str, cause: str, function: Any, of_cuda: bool) -> str:
    if "which is a JAX array" in cause:
        return "Pass it as an input, or convert it to a NumPy array, which becomes a constant."
    if untyped := re.search(r"Untyped global name '(\w+)'", cause):
        return _remedy_for_untyped(untyped[1], cause, function, of_cuda)
    known = (*_REMEDIES_OF_CUDA, *_REMEDIES) if of_cuda else _REMEDIES
    default = f"{_ARGUMENTS}." if cause.startswith(_SURPRISED) else ""
    return next((f"{remedy}." for sign, remedy in known if re.search(sign, text)), default)


def _remedy_for_untyped(name: str, cause: str, function: Any, of_cuda: bool) -> str:
    value = _values(function).get(name)
    if "<class 'kernbridge." in cause:
        text = f"{name!r} is a JAX operation: give its function, {name}.__wrapped__ (numba.njit of "
        return text + "it, if it is one of Python), another name, and call that"
    if inspect.isclass(value):
        return f"{name!r} is a Python class: pass its fields as arrays and scalars"
    if value is None:  # a name of Numba's own sources, which are for CPUs
        return f"{_ONLY_ON_CPUS}." if of_cuda else ""
    if callable(value):
        modules = type(value).__module__, getattr(value, "__module__", None) or ""
        if any(m.startswith("jax") for m in modules):
            return f"{name!r} is a function of JAX: call kernbridge.inline({name}) instead"
        return f"{name!r} is a Python function: decorate it with @numba.njit"
    return (
        f"{name!r} is of type {type(value).__name__}, which Numba does not support: pass an array"
    )


def _values(function: Any) -> dict[str, Any]:
    try:
        found = inspect.getclosurevars(function)
    except (TypeError, ValueError):
        return {}
    return {**found.globals, **found.nonlocals}
