"""Finds the ways in which Numba lets code write through a read-only array.

Numba refuses `x[i] = v`, `x.fill(v)` and most others while it infers types. These it lets through
(0.60 to 0.68): assignment through `x.flat` and `np.nditer`, `np.ascontiguousarray(x)` (which
returns x itself, typed writable), `np.fill_diagonal(x, v)`, an `out` argument of `np.dot`, and C
pointers. Numba-CUDA lets all of `cuda.atomic` through besides. Imported only when a kernel is
compiled, since it imports Numba.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from kernbridge._numba_inside import ir, types

_ALIASING = (np.ascontiguousarray, np.asfortranarray, np.fill_diagonal)
_SUSPECT_NAMES = frozenset(
    ("flat", "nditer", "ascontiguousarray", "asfortranarray", "fill_diagonal", "ctypes", "dot")
)


def may_write(overload: Any) -> bool:
    """Whether this compiled kernel, or one that it calls, may write to a read-only argument."""
    return _may_write(overload.kernel, overload.arguments, overload.compiled, set())


def may_write_on_gpu(device: Any, overload: Any) -> bool:
    """The same of a compiled device function."""
    return _may_write(device, overload.signature.args, overload, set())


def _may_write(kernel: Any, arguments: Any, compiled: Any, seen: set[Any]) -> bool:
    if (kernel, arguments) in seen or not any(_is_read_only(a) for a in arguments):
        return False
    seen.add((kernel, arguments))
    annotation = compiled.type_annotation
    if not hasattr(annotation, "calltypes"):  # from Numba's cache on disk: names are all we have
        return not _SUSPECT_NAMES.isdisjoint(_names(kernel.py_func.__code__))
    typemap = annotation.typemap
    if any(isinstance(t, types.ArrayCTypes) for t in typemap.values()):
        return True
    iterates = any(
        isinstance(t, types.NumpyNdIterType) and any(map(_is_read_only, t.arrays))
        for t in typemap.values()
    )
    if any(_assigns_through(s, typemap, iterates) for s in _statements(annotation.blocks.values())):
        return True
    return any(
        _call_may_write(typemap.get(expr.func.name), signature, seen)
        for expr, signature in annotation.calltypes.items()
        if isinstance(expr, _classes("Expr")) and expr.op == "call" and signature is not None
    )


def _is_read_only(t: Any) -> bool:
    if isinstance(t, types.BaseTuple):
        return any(_is_read_only(member) for member in t)
    return isinstance(t, types.Array) and not t.mutable


def _assigns_through(statement: Any, typemap: Any, iterates: bool) -> bool:
    if not isinstance(statement, _classes("SetItem", "StaticSetItem")):
        return False
    target = typemap.get(statement.target.name)
    if isinstance(target, types.NumpyFlatType):
        return _is_read_only(target.array_type)
    return iterates and isinstance(target, types.Array) and target.ndim == 0


def _call_may_write(function: Any, signature: Any, seen: set[Any]) -> bool:
    if isinstance(function, types.Dispatcher):
        callee = function.dispatcher
        return _may_write(callee, signature.args, callee.overloads[signature.args], seen)
    key = getattr(function, "typing_key", None)
    if key is np.dot:
        return len(signature.args) > 2 and _is_read_only(signature.args[2])
    if _is_atomic(key) or getattr(key, "__name__", "") == "from_buffer":
        return any(_is_read_only(a) for a in signature.args)
    return key in _ALIASING and any(_is_read_only(a) for a in signature.args)


def _is_atomic(key: Any) -> bool:
    module, name = getattr(key, "__module__", ""), getattr(key, "__qualname__", "")
    return module == "numba.cuda.stubs" and name.startswith("atomic")


def _classes(*names: str) -> Any:
    """Of Numba's IR, and of Numba-CUDA's own where it is in use: importing it takes 0.1 s."""
    modules = (ir, sys.modules.get("numba.cuda.core.ir"))
    return tuple(getattr(m, name) for m in modules if m is not None for name in names)


def _statements(blocks: Iterable[Any]) -> Iterator[Any]:
    """All statements, those inside parallel loops included."""
    for block in blocks:
        for statement in block.body:
            yield statement
            if hasattr(statement, "loop_body"):
                yield from _statements((statement.init_block, *statement.loop_body.values()))


def _names(code: Any) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            names |= _names(constant)
    return names
