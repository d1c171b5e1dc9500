"""Which variables of typed code may refer to the memory of certain arguments.

Numba's types tell most of that: a view of a read-only array is read-only. The types of records and
of what `np.nditer` yields do not say so, nor does any type which of the writable arrays is meant.
Variables are followed through assignments, containers, iterators and views; what a jitted function
returns may refer to all that it is given. Imported only when a kernel is compiled, since it imports
Numba.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Any

from kernbridge._src.numba_common.private_numba import ir, types

_JITTED = (types.Dispatcher, types.RecursiveCall)
_VALUES = (
    *(types.Boolean, types.DType, types.Literal, types.NoneType, types.Number, types.UnicodeType),
)
_VIEWS = frozenset(("ravel", "reshape", "transpose", "view"))
# In names of types: what says that an array is read-only, and what does not say it
_READ_ONLY = re.compile(r"readonly array|Array\([^()]*, \d+, '\w', True,")
_SILENT = re.compile(r"Record\(|array\([^()]*, 0d, ")
# Expressions whose result holds what its operands hold, of the same types
_GATHERS = frozenset(("build_tuple", "build_list", "build_set", "build_map", "phi", "cast"))


def holds_read_only(t: Any) -> bool:
    """Whether a value of this type is a read-only array, or has one in it or behind it."""
    return _READ_ONLY.search(str(t)) is not None


def is_silent(t: Any) -> bool:
    """Whether a value of this type may be in a read-only array without saying so."""
    return _SILENT.search(str(t)) is not None


def _refers(t: Any) -> bool:
    """Whether a value of this type may refer to memory."""
    if isinstance(t, types.BaseTuple):
        return any(map(_refers, t.types))
    if isinstance(t, types.Pair):
        return _refers(t.first_type) or _refers(t.second_type)
    if isinstance(t, types.Optional):
        return _refers(t.type)
    return not isinstance(t, _VALUES)


def is_any(loose: Set[str], variables: Iterable[Any]) -> bool:
    """Whether one of the variables is loose."""
    return not loose.isdisjoint([v.name for v in variables])


def loose_names(code: Iterable[Any], typemap: Any, given: Set[int]) -> set[str]:
    """The names of variables that are loose: they may refer to the arguments `given`, or to
    read-only arrays without a type that says so."""
    assignments = [s for s in code if isinstance(s, classes("Assign"))]
    loose: set[str] = set()
    before = -1 if given or any(is_silent(t) for t in set(typemap.values())) else 0
    while len(loose) > before:  # loops hand values back
        before = len(loose)
        loose |= {s.target.name for s in assignments if _becomes_loose(s, typemap, loose, given)}
    return loose


def name_of(function: Any) -> str:
    """The name of a function or method that Numba implements; empty if it has none."""
    key = getattr(function, "typing_key", None)
    if isinstance(key, str):  # "array.sum"
        return key.split(".")[-1]
    if isinstance(key, tuple):  # a method of an overload: type and name
        return str(key[-1])
    return str(getattr(key, "__name__", ""))


def _is_new(function: Any) -> bool:
    """Whether an array that a function returns is one of its own."""
    return not isinstance(function, _JITTED) and name_of(function) not in _VIEWS


def _becomes_loose(assignment: Any, typemap: Any, loose: Set[str], given: Set[int]) -> bool:
    value, t = assignment.value, typemap.get(assignment.target.name)
    if isinstance(value, classes("Arg")):
        return value.index in given
    if isinstance(value, classes("Var")):
        return value.name in loose
    is_array = isinstance(t, types.Array)
    if not isinstance(value, classes("Expr")) or not _refers(t) or (is_array and not t.mutable):
        return False
    operands = value.list_vars()
    if is_any(loose, operands):
        is_new = value.op in ("arrayexpr", "binop", "unary") or (
            value.op == "call" and _is_new(typemap.get(value.func.name))
        )
        return not (is_array and is_new)
    if value.op in _GATHERS or (is_array and t.ndim > 0) or not is_silent(t):
        return False
    held = (typemap.get(v.name) for v in operands)
    return any(not isinstance(h, types.BaseTuple) and holds_read_only(h) for h in held)


def positions(expr: Any, loose: Set[str], n_parameters: int) -> set[int]:
    """The parameters of a jitted function that take what is loose."""
    positional, every = set(expr.args), range(n_parameters)
    if is_any(loose, [v for v in expr.list_vars() if v not in positional]):
        return set(every)  # by name, or in a tuple
    return {min(i, n_parameters - 1) for i, v in enumerate(expr.args) if v.name in loose}


def typed_code(
    kernel: Any, arguments: Any, compiled: Any, compile_again: Callable[[Any, Any], Any] | None
) -> Any:
    """The typed code of a jitted function; None if it is not to be found."""
    annotation = getattr(compiled, "type_annotation", None)
    if not hasattr(annotation, "calltypes"):
        if compile_again is None:
            return None
        annotation = compile_again(kernel, arguments).type_annotation
    return annotation


def global_values(code: Iterable[Any]) -> dict[str, Any]:
    """The values of names from outside of a function."""
    assignments = (s for s in code if isinstance(s, classes("Assign")))
    return {
        s.target.name: s.value.value
        for s in assignments
        if isinstance(s.value, classes("Global", "FreeVar"))
    }


def function_of(kernel: Any, call: Any, typemap: Any, values: Mapping[str, Any]) -> Any:
    """The type of the function that a call is of; `values` are those of global names."""
    function = typemap.get(call.func.name)
    if function is None and call.func.name in values:  # in a parallel loop
        function = kernel.typingctx.resolve_value_type(values[call.func.name])
    return function.dispatcher_type if isinstance(function, types.RecursiveCall) else function


def is_atomic(key: Any) -> bool:
    """Whether a function is one of `cuda.atomic`."""
    module, name = getattr(key, "__module__", ""), getattr(key, "__qualname__", "")
    return module == "numba.cuda.stubs" and name.startswith("atomic")


def classes(*names: str) -> Any:
    """Classes of Numba's IR, and of Numba-CUDA's if it is imported, which takes 0.1 s."""
    modules = (ir, sys.modules.get("numba.cuda.core.ir"))
    return tuple(getattr(m, name) for m in modules if m is not None for name in names)


def statements(blocks: Iterable[Any]) -> Iterator[Any]:
    """All statements, those inside parallel loops included."""
    for block in blocks:
        for statement in block.body:
            yield statement
            if hasattr(statement, "loop_body"):
                yield from statements((statement.init_block, *statement.loop_body.values()))
