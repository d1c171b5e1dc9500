"""Finds code that writes to a read-only array in ways that Numba does not refuse.

Numba refuses `x[i] = v`, `x.fill(v)` and most others while it infers types. These it lets through
(0.62 to 0.68): assignment through `x.flat`, `np.ascontiguousarray(x)` (which returns x itself,
typed writable), `np.fill_diagonal(x, v)`, an `out` argument of `np.dot`, C pointers, intrinsics,
generalised ufuncs, and all of these in what a kernel calls. Numba-CUDA lets all of `cuda.atomic`
through besides.

The types of records and of what `np.nditer` yields do not say whether the array is read-only. A
variable that may refer to a read-only array without such a type is called loose: variables are
followed through assignments, containers, iterators and views. It may only be copied, read, and
passed to jitted functions, which are searched for what they do with it.

The typed code of a kernel is searched, and that of every function that it hands a read-only array
to: jitted functions, and overloads that users wrote. What has no code to search, an intrinsic for
example, may write; what Numba itself implements may not, unless it is named here, or what it is
given is loose. Imported only when a kernel is compiled, since it imports Numba.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from types import FunctionType
from typing import Any

import numpy as np

from kernbridge._src.numba_common.private_numba import GUFunc, ir, types

_WRITERS = (np.ascontiguousarray, np.asfortranarray, np.fill_diagonal)
_READERS = (  # functions and methods of Numba's that do not write to what they are given
    *("abs", "all", "any", "argmax", "argmin", "astype", "bool", "copy", "enumerate", "float"),
    *("int", "item", "len", "max", "mean", "min", "prod", "range", "sum", "zip"),
)
_IMPLEMENTED_BY_NUMBA = frozenset(("numba", "numpy"))

_FUNCTIONS = (types.Dispatcher, types.FunctionType, types.MakeFunctionLiteral)
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


class WriteSearch:
    """A search for writes to read-only arguments, through a compiled kernel and what it calls.

    `compile_again` is given a function and types whose code Numba found in its cache on disk, which
    keeps no types; without it, such a function may write.
    """

    def __init__(self, compile_again: Callable[[Any, Any], Any] | None) -> None:
        self._compile_again = compile_again
        self._seen: set[Any] = set()

    def may_write(
        self, kernel: Any, arguments: Any, compiled: Any, given: Set[int] = frozenset()
    ) -> bool:
        """Whether a jitted function may write to what its arguments hold.

        The arguments `given`, by position, are loose.
        """
        key = (kernel, arguments, frozenset(given))
        if key in self._seen or not (given or any(map(holds_read_only, arguments))):
            return False
        self._seen.add(key)
        typed = typed_code(kernel, arguments, compiled, self._compile_again)
        if typed is None:
            return True
        typemap = typed.typemap
        if any(isinstance(t, types.ArrayCTypes) for t in typemap.values()):
            return True
        code = list(statements(typed.blocks.values()))
        loose = loose_names(code, typemap, given)
        for statement in code:
            if _assigns_through(statement, typemap, loose):
                return True
            if _gives_away(statement, typemap, loose):
                return True
            value = statement.value if isinstance(statement, classes("Assign")) else None
            if getattr(value, "op", "") == "getattr" and self._attribute_writes(
                kernel, value, typemap, loose
            ):
                return True
        values = global_values(code)
        return any(
            self._call_writes(kernel, expr, signature, typemap, values, loose)
            for expr, signature in typed.calltypes.items()
            if isinstance(expr, classes("Expr")) and signature is not None
        )

    def _call_writes(
        self,
        kernel: Any,
        expr: Any,
        signature: Any,
        typemap: Any,
        values: dict[str, Any],
        loose: Set[str],
    ) -> bool:
        arguments = signature.args
        receiver = () if signature.recvr is None else (signature.recvr,)
        given = (*receiver, *arguments)
        takes_loose = is_any(loose, expr.list_vars())
        if not takes_loose and not any(map(holds_read_only, given)):
            return False
        if expr.op in ("binop", "inplace_binop", "unary"):  # which users may overload
            if expr.op == "inplace_binop" and expr.lhs.name in loose:
                return True
            operator = kernel.typingctx.resolve_value_type(expr.fn)
            return self._overload_writes(operator, arguments, takes_loose)
        if expr.op != "call":
            return False
        function = function_of(kernel, expr, typemap, values)
        if function is None:
            return True
        if isinstance(function, types.Dispatcher):
            if takes_loose and isinstance(function, types.ObjModeDispatcher):
                return True
            taken = positions(expr, loose, len(arguments))
            return self._dispatcher_writes(function.dispatcher, arguments, taken)
        if takes_loose and not _only_reads(function, expr, loose):
            return True
        if any(isinstance(a, _FUNCTIONS) for a in arguments):
            return True  # it may hand the array to a function
        if isinstance(function, types.BoundFunction):
            is_method_of_user = isinstance(function.this, types.ClassInstanceType)
            return is_method_of_user or self._member_writes(
                kernel, function.template, given, takes_loose
            )
        if isinstance(function, types.Function):
            return self._function_writes(function, arguments, takes_loose)
        return isinstance(
            function, (types.FunctionType, types.ExternalFunctionPointer, types.ClassType)
        )

    def _dispatcher_writes(
        self, dispatcher: Any, arguments: Any, given: Set[int] = frozenset()
    ) -> bool:
        found = dispatcher.overloads.get(arguments)
        return self.may_write(dispatcher, arguments, found, given)

    def _function_writes(self, function: Any, arguments: Any, takes_loose: bool) -> bool:
        key = getattr(function, "typing_key", None)
        if is_atomic(key) or getattr(key, "__name__", "") == "from_buffer":
            return True
        if any(key is writer for writer in _WRITERS):
            return True
        if key is np.dot:
            return any(map(holds_read_only, arguments[2:]))
        if isinstance(key, GUFunc):  # its inputs are writable to it
            return True
        if _is_users(key):
            return any(self._template_writes(t, arguments, False) for t in function.templates)
        return self._overload_writes(function, arguments, takes_loose)

    def _overload_writes(self, function: Any, arguments: Any, takes_loose: bool) -> bool:
        """Whether what users made of a function or an operator of Numba's writes."""
        return any(
            self._template_writes(t, arguments, takes_loose)
            for t in function.templates
            if not _is_trusted(_module_of(t))
            and tuple(arguments) in getattr(t, "_compiled_overloads", ())
        )

    def _member_writes(self, kernel: Any, template: Any, given: Any, takes_loose: bool) -> bool:
        """Whether a method or an attribute that users added to a type writes."""
        overloaded = getattr(template, "_overload_func", None)
        if overloaded is None or _is_trusted(overloaded.__module__):
            return False
        resolved = kernel.typingctx.resolve_value_type(overloaded)
        return any(self._template_writes(t, given, takes_loose) for t in resolved.templates)

    def _attribute_writes(self, kernel: Any, expr: Any, typemap: Any, loose: Set[str]) -> bool:
        """Whether an attribute that users added to arrays writes when it is read."""
        owner, is_loose = typemap.get(expr.value.name), expr.value.name in loose
        if owner is None or not (is_loose or holds_read_only(owner)):
            return False
        return any(
            getattr(template, "_attr", None) == expr.attr
            and not template.is_method
            and self._member_writes(kernel, template, (owner,), is_loose)
            for template in kernel.typingctx._get_attribute_templates(owner)
        )

    def _template_writes(self, template: Any, arguments: Any, takes_loose: bool) -> bool:
        """Whether an overload that users registered with `numba.extending` writes."""
        types_given = tuple(arguments)
        found = getattr(template, "_impl_cache", {}).values()
        dispatchers = [entry[0] for entry in found if isinstance(entry, tuple)]
        implementations = [d for d in dispatchers if types_given in getattr(d, "overloads", ())]
        if not implementations:  # an intrinsic, or one whose code is not to be found
            return True
        loose = frozenset(range(len(types_given)) if takes_loose else ())
        return any(self._dispatcher_writes(d, types_given, loose) for d in implementations)


def _module_of(template: Any) -> str:
    """Where the implementation of a function was defined."""
    for name in ("_overload_func", "_definition_func"):
        if hasattr(template, name):
            return str(getattr(template, name).__module__)
    return str(template.__module__)


def _is_users(key: Any) -> bool:
    """Whether a function is written in Python, and not by Numba or NumPy."""
    if isinstance(key, FunctionType):
        return not _is_trusted(key.__module__ or "")
    module = getattr(key, "__module__", None) or type(key).__module__
    return not _is_trusted(module) and module.split(".")[0] not in sys.stdlib_module_names


def _is_trusted(module: str) -> bool:
    return module.split(".")[0] in _IMPLEMENTED_BY_NUMBA


def _only_reads(function: Any, expr: Any, loose: Set[str]) -> bool:
    """Whether a function that Numba implements only reads what is loose."""
    key = getattr(function, "typing_key", None)
    if isinstance(key, np.ufunc):
        return not is_any(loose, (*expr.args[key.nin :], *dict(expr.kws).values()))
    if isinstance(function, types.NumberClass):
        return True
    if name_of(function) not in _READERS:
        return False
    if isinstance(function, types.BoundFunction):
        return isinstance(key, str) or _is_trusted(_module_of(function.template))
    return (getattr(key, "__module__", None) or "").split(".")[0] in ("builtins", "numpy")


def _assigns_through(statement: Any, typemap: Any, loose: Set[str]) -> bool:
    """Whether a statement assigns to what is loose, or to a read-only array's `flat`."""
    if not isinstance(statement, classes("SetItem", "StaticSetItem", "SetAttr", "DelItem")):
        return False
    target = typemap.get(statement.target.name)
    if isinstance(target, types.NumpyFlatType) and holds_read_only(target):
        return True
    return statement.target.name in loose


def _gives_away(statement: Any, typemap: Any, loose: Set[str]) -> bool:
    """Whether a statement puts what is loose where it is not followed."""
    if isinstance(statement, classes("SetItem", "StaticSetItem", "SetAttr")):
        target = typemap.get(statement.target.name)  # arrays and records take a copy
        return statement.value.name in loose and not isinstance(target, (types.Array, types.Record))
    if isinstance(statement, classes("Assign")):
        statement = statement.value
    if not isinstance(statement, classes("Return", "Yield")) or statement.value.name not in loose:
        return False
    return not is_silent(typemap.get(statement.value.name))


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
        is_new = value.op in ("arrayexpr", "binop", "unary")
        if value.op == "call":
            called = typemap.get(value.func.name)
            is_new = not isinstance(called, _JITTED) and name_of(called) not in _VIEWS
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
    if hasattr(annotation, "calltypes"):
        return annotation
    return None if compile_again is None else compile_again(kernel, arguments).type_annotation


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
