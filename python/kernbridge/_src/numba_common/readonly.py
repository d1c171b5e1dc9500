"""Finds code that writes to a read-only array in ways that Numba does not refuse.

Numba refuses `x[i] = v`, `x.fill(v)` and most others while it infers types. These it lets through
(0.62 to 0.68): assignment through `x.flat` and `np.nditer`, `np.ascontiguousarray(x)` (which
returns x itself, typed writable), `np.fill_diagonal(x, v)`, an `out` argument of `np.dot`, C
pointers, intrinsics, generalised ufuncs, and all of these in what a kernel calls. Numba-CUDA lets
all of `cuda.atomic` through besides.

The typed code of a kernel is searched, and that of every function that it hands a read-only array
to: jitted functions, and overloads that users wrote. What has no code to search, an intrinsic for
example, may write; what Numba itself implements may not, unless it is named here. Imported only
when a kernel is compiled, since it imports Numba.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType
from typing import Any

import numpy as np

from kernbridge._src.numba_common.numba_inside import GUFunc, ir, types

_WRITERS = (np.ascontiguousarray, np.asfortranarray, np.fill_diagonal)
_READS_OF_ITEMS = frozenset(("array.item", "array.copy", "array.astype", "array.sum"))
_IMPLEMENTED_BY_NUMBA = frozenset(("numba", "numpy"))

_FUNCTIONS = (types.Dispatcher, types.FunctionType, types.MakeFunctionLiteral)
_READ_ONLY = re.compile(r"readonly array|Array\([^()]*, \d+, '\w', True,")  # in names of types


class WriteSearch:
    """A search for writes to read-only arguments, through a compiled kernel and what it calls.

    `compile_again` is given a function and types whose code Numba found in its cache on disk, which
    keeps no types; without it, such a function may write.
    """

    def __init__(self, compile_again: Callable[[Any, Any], Any] | None) -> None:
        self._compile_again = compile_again
        self._seen: set[Any] = set()

    def may_write(self, kernel: Any, arguments: Any, compiled: Any) -> bool:
        """Whether a jitted function may write to what its arguments hold."""
        if (kernel, arguments) in self._seen or not any(map(_holds_read_only, arguments)):
            return False
        self._seen.add((kernel, arguments))
        annotation = getattr(compiled, "type_annotation", None)
        if not hasattr(annotation, "calltypes"):
            if self._compile_again is None:
                return True
            annotation = self._compile_again(kernel, arguments).type_annotation
        typed: Any = annotation
        typemap = typed.typemap
        if any(isinstance(t, types.ArrayCTypes) for t in typemap.values()):
            return True
        iterates = any(
            isinstance(t, types.NumpyNdIterType) and any(map(_holds_read_only, t.arrays))
            for t in typemap.values()
        )
        values: dict[str, Any] = {}  # of global names
        for statement in _statements(typed.blocks.values()):
            if _assigns_through(statement, typemap, iterates):
                return True
            value = statement.value if isinstance(statement, _classes("Assign")) else None
            if isinstance(value, _classes("Global", "FreeVar")):
                values[statement.target.name] = value.value
            if isinstance(value, _classes("Expr")) and (
                (iterates and _takes_item_away(value, typemap))
                or (value.op == "getattr" and self._attribute_writes(kernel, value, typemap))
            ):
                return True
        return any(
            self._call_writes(kernel, expr, signature, typemap, values, iterates)
            for expr, signature in typed.calltypes.items()
            if isinstance(expr, _classes("Expr")) and signature is not None
        )

    def _call_writes(
        self,
        kernel: Any,
        expr: Any,
        signature: Any,
        typemap: Any,
        values: dict[str, Any],
        iterates: bool,
    ) -> bool:
        arguments = signature.args
        receiver = () if signature.recvr is None else (signature.recvr,)
        given = (*receiver, *arguments)
        if expr.op in ("binop", "inplace_binop", "unary"):  # which users may overload
            if not any(map(_holds_read_only, given)):
                return False
            operator = kernel.typingctx.resolve_value_type(expr.fn)
            return self._overload_writes(operator, arguments)
        if expr.op != "call":
            return False
        function = typemap.get(expr.func.name)
        if function is None and expr.func.name in values:  # in a parallel loop
            function = kernel.typingctx.resolve_value_type(values[expr.func.name])
        if function is None:
            return any(map(_holds_read_only, given))
        if iterates and any(map(_is_item, given)) and not _only_reads_items(function):
            return True
        if not any(map(_holds_read_only, given)):
            return False
        if isinstance(function, types.RecursiveCall):
            function = function.dispatcher_type
        if isinstance(function, types.Dispatcher):
            return self._dispatcher_writes(function.dispatcher, arguments)
        if any(isinstance(a, _FUNCTIONS) for a in arguments):
            return True  # it may hand the array to a function
        if isinstance(function, types.BoundFunction):
            is_method_of_user = isinstance(function.this, types.ClassInstanceType)
            return is_method_of_user or self._member_writes(kernel, function.template, given)
        if isinstance(function, types.Function):
            return self._function_writes(function, arguments)
        return isinstance(
            function, (types.FunctionType, types.ExternalFunctionPointer, types.ClassType)
        )

    def _dispatcher_writes(self, dispatcher: Any, arguments: Any) -> bool:
        found = dispatcher.overloads.get(arguments)
        return self.may_write(dispatcher, arguments, found)

    def _function_writes(self, function: Any, arguments: Any) -> bool:
        key = getattr(function, "typing_key", None)
        if _is_atomic(key) or getattr(key, "__name__", "") == "from_buffer":
            return True
        if any(key is writer for writer in _WRITERS):
            return True
        if key is np.dot:
            return any(map(_holds_read_only, arguments[2:]))
        if isinstance(key, GUFunc):  # its inputs are writable to it
            return True
        if _is_users(key):
            return any(self._template_writes(t, arguments) for t in function.templates)
        return self._overload_writes(function, arguments)

    def _overload_writes(self, function: Any, arguments: Any) -> bool:
        """Whether what users made of a function or an operator of Numba's writes."""
        return any(
            self._template_writes(t, arguments)
            for t in function.templates
            if not _is_trusted(_module_of(t))
            and tuple(arguments) in getattr(t, "_compiled_overloads", ())
        )

    def _member_writes(self, kernel: Any, template: Any, given: Any) -> bool:
        """Whether a method or an attribute that users added to a type writes."""
        overloaded = getattr(template, "_overload_func", None)
        if overloaded is None or _is_trusted(overloaded.__module__):
            return False
        resolved = kernel.typingctx.resolve_value_type(overloaded)
        return any(self._template_writes(t, given) for t in resolved.templates)

    def _attribute_writes(self, kernel: Any, expr: Any, typemap: Any) -> bool:
        """Whether an attribute that users added to arrays writes when it is read."""
        owner = typemap.get(expr.value.name)
        if owner is None or not _holds_read_only(owner):
            return False
        return any(
            getattr(template, "_attr", None) == expr.attr
            and not template.is_method
            and self._member_writes(kernel, template, (owner,))
            for template in kernel.typingctx._get_attribute_templates(owner)
        )

    def _template_writes(self, template: Any, arguments: Any) -> bool:
        """Whether an overload that users registered with `numba.extending` writes."""
        types_given = tuple(arguments)
        found = getattr(template, "_impl_cache", {}).values()
        dispatchers = [entry[0] for entry in found if isinstance(entry, tuple)]
        implementations = [d for d in dispatchers if types_given in getattr(d, "overloads", ())]
        if not implementations:  # an intrinsic, or one whose code is not to be found
            return True
        return any(self._dispatcher_writes(d, types_given) for d in implementations)


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


def _holds_read_only(t: Any) -> bool:
    """Whether a value of this type is a read-only array, or has one in it or behind it."""
    return _READ_ONLY.search(str(t)) is not None


def _is_item(t: Any) -> bool:
    """Whether this is the type of what `np.nditer` yields, writable whatever its array is."""
    return isinstance(t, types.Array) and t.ndim == 0 and t.mutable


def _only_reads_items(function: Any) -> bool:
    key = getattr(function, "typing_key", None)
    return isinstance(key, np.ufunc) or (isinstance(key, str) and key in _READS_OF_ITEMS)


def _takes_item_away(expr: Any, typemap: Any) -> bool:
    """Whether an expression puts what `np.nditer` yields into a container."""
    if expr.op not in ("build_tuple", "build_list", "build_set", "build_map"):
        return False
    return any(_is_item(typemap.get(v.name)) for v in expr.list_vars())


def _assigns_through(statement: Any, typemap: Any, iterates: bool) -> bool:
    if not isinstance(statement, _classes("SetItem", "StaticSetItem")):
        return False
    target = typemap.get(statement.target.name)
    if isinstance(target, types.NumpyFlatType):
        return _holds_read_only(target)
    return iterates and _is_item(target)


def _is_atomic(key: Any) -> bool:
    module, name = getattr(key, "__module__", ""), getattr(key, "__qualname__", "")
    return module == "numba.cuda.stubs" and name.startswith("atomic")


def _classes(*names: str) -> Any:
    """Classes of Numba's IR, and of Numba-CUDA's if it is imported, which takes 0.1 s."""
    modules = (ir, sys.modules.get("numba.cuda.core.ir"))
    return tuple(getattr(m, name) for m in modules if m is not None for name in names)


def _statements(blocks: Iterable[Any]) -> Iterator[Any]:
    """All statements, those inside parallel loops included."""
    for block in blocks:
        for statement in block.body:
            yield statement
            if hasattr(statement, "loop_body"):
                yield from _statements((statement.init_block, *statement.loop_body.values()))
