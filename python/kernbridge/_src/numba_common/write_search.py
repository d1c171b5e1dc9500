"""Searches the typed code of kernels for stores that Numba does not refuse.

`WriteSearch` finds writes to read-only arrays, and `lost_fractions` finds floats that are stored
into arrays of integers, where they lose their fractions: Numba converts them without a word, as
NumPy does.

Numba refuses `x[i] = v`, `x.fill(v)` and most others while it infers types. These it lets through
(0.62 to 0.68): assignment through `x.flat`, `np.ascontiguousarray(x)` (which returns x itself,
typed writable), `np.fill_diagonal(x, v)`, an `out` argument of `np.dot`, C pointers, intrinsics,
generalised ufuncs, and all of these in what a kernel calls. Numba-CUDA lets all of `cuda.atomic`
through besides.

The types of records and of what `np.nditer` yields do not say whether the array is read-only. A
variable that may refer to a read-only array without such a type is called an alias: variables are
followed through assignments, containers, iterators and views. It may only be copied, read, and
passed to jitted functions, which are searched for what they do with it.

The typed code of a kernel is searched, and the code of every function that it hands a read-only
array to: jitted functions, and overloads that users wrote. What has no code to search, an intrinsic
for example, may write; what Numba itself implements may not, unless it is named here, or what it is
given is an alias.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from types import FunctionType
from typing import Any

import numpy as np

from kernbridge._src.numba_common.private_numba import GUFunc, types

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
# Expressions whose result holds what its operands hold, of the same types
_GATHERS = frozenset(("build_tuple", "build_list", "build_set", "build_map", "phi", "cast"))

# Functions whose results are whole, operators that keep numbers whole, and functions that store
_ROUND = frozenset(("around", "ceil", "fix", "floor", "rint", "round", "round_", "sign", "trunc"))
_KEEP_WHOLE = (
    *(operator.add, operator.iadd, operator.sub, operator.isub, operator.mul, operator.imul),
    *(operator.neg, operator.pos, operator.mod, operator.imod),
)
_DIVIDE = (operator.floordiv, operator.ifloordiv)
_STORE = ("fill", "fill_diagonal")


Compiled = tuple[Any, Any, Any]
"""A jitted function, the types of its arguments, and Numba's compile result."""
_CompileAgain = Callable[[Any, Any], Any] | None


class TypedCode:
    """The typed code of a jitted function.

    `aliases` are the variables that may refer to the arguments `given`, by position, or
    to read-only arrays without a type that says so.
    """

    def __init__(self, kernel: Any, typed: Any, given: Set[int]) -> None:
        self.kernel, self.types, self.calls = kernel, typed.typemap, typed.calltypes
        self.statements = list(_statements(typed.blocks.values()))
        self.values: dict[str, list[Any]] = {}  # what is assigned to each variable
        for s in self.statements:
            if _is(s, "Assign"):
                self.values.setdefault(s.target.name, []).append(s.value)
        self.aliases: set[str] = set()
        before = -1 if given or any(map(_is_silent, set(self.types.values()))) else 0
        while len(self.aliases) > before:  # loops hand values back
            before = len(self.aliases)
            self.aliases |= {
                name
                for name, values in self.values.items()
                if any(self._is_alias(value, self.types.get(name), given) for value in values)
            }

    @classmethod
    def of(cls, found: Compiled, given: Set[int], compile_again: _CompileAgain) -> TypedCode | None:
        """The code that was compiled; None if it is not to be found.

        `compile_again` is given a function and types whose code Numba found in its cache on disk,
        which keeps no types.
        """
        kernel, arguments, compiled = found
        typed = getattr(compiled, "type_annotation", None)
        if not hasattr(typed, "calltypes"):
            if compile_again is None:
                return None
            typed = compile_again(kernel, arguments).type_annotation
        return cls(kernel, typed, given)

    def type_of(self, variable: Any) -> Any:
        return self.types.get(variable.name)

    def has_alias(self, variables: Iterable[Any]) -> bool:
        return not self.aliases.isdisjoint([v.name for v in variables])

    def function_of(self, call: Any) -> Any:
        function = self.type_of(call.func)
        if function is None:  # a global name in a parallel loop
            for value in self.values.get(call.func.name, ()):
                if _is(value, "Global", "FreeVar"):
                    function = self.kernel.typingctx.resolve_value_type(value.value)
        return function.dispatcher_type if isinstance(function, types.RecursiveCall) else function

    def callee(self, call: Any, dispatcher: Any, types_given: Any) -> tuple[Compiled, Set[int]]:
        """The jitted function that is called, and the positions of parameters that take aliases."""
        taken = {i for i, v in enumerate(call.args) if v.name in self.aliases}
        if self.has_alias(v for v in call.list_vars() if v not in call.args):
            taken = set(range(len(types_given)))  # by name, or in a tuple
        compiled = dispatcher, types_given, dispatcher.overloads.get(types_given)
        return compiled, frozenset(min(i, len(types_given) - 1) for i in taken)

    def _is_alias(self, value: Any, t: Any, given: Set[int]) -> bool:
        """Whether a variable of the type `t` to which a value is assigned is an alias."""
        if _is(value, "Arg"):
            return value.index in given
        if _is(value, "Var"):
            return value.name in self.aliases
        is_array = isinstance(t, types.Array)
        if not _is(value, "Expr") or not _refers(t) or (is_array and not t.mutable):
            return False
        operands = value.list_vars()
        if self.has_alias(operands):
            is_new = value.op in ("arrayexpr", "binop", "unary")
            if value.op == "call":
                called = self.type_of(value.func)
                is_new = not isinstance(called, _JITTED) and _name_of(called) not in _VIEWS
            return not (is_array and is_new)
        if value.op in _GATHERS or (is_array and t.ndim > 0) or not _is_silent(t):
            return False
        held = map(self.type_of, operands)
        return any(not isinstance(h, types.BaseTuple) and _holds_read_only(h) for h in held)


class WriteSearch:
    """A search for writes to read-only arguments, through a compiled kernel and what it calls.

    Without `compile_again` (see `TypedCode.of`), functions of Numba's cache on disk may write.
    """

    def __init__(self, compile_again: _CompileAgain) -> None:
        self._compile_again = compile_again
        self._seen: set[Any] = set()

    def may_write(self, found: Compiled, given: Set[int] = frozenset()) -> bool:
        """Whether a jitted function may write to what its arguments hold.

        The arguments `given`, by position, are aliases.
        """
        key = (*found[:2], frozenset(given))
        if key in self._seen or not (given or any(map(_holds_read_only, found[1]))):
            return False
        self._seen.add(key)
        code = TypedCode.of(found, given, self._compile_again)
        if code is None or any(isinstance(t, types.ArrayCTypes) for t in code.types.values()):
            return True
        return any(
            _assigns_through(code, s) or _gives_away(code, s) or self._attribute_writes(code, s)
            for s in code.statements
        ) or any(
            self._call_writes(code, expr, signature)
            for expr, signature in code.calls.items()
            if _is(expr, "Expr") and signature is not None
        )

    def _call_writes(self, code: TypedCode, expr: Any, signature: Any) -> bool:
        arguments = signature.args
        receiver = () if signature.recvr is None else (signature.recvr,)
        given = (*receiver, *arguments)
        takes_alias = code.has_alias(expr.list_vars())
        if not takes_alias and not any(map(_holds_read_only, given)):
            return False
        if expr.op in ("binop", "inplace_binop", "unary"):  # which users may overload
            if expr.op == "inplace_binop" and expr.lhs.name in code.aliases:
                return True
            resolved = code.kernel.typingctx.resolve_value_type(expr.fn)
            return self._overload_writes(resolved, arguments, takes_alias)
        if expr.op != "call":
            return False
        function = code.function_of(expr)
        if function is None:
            return True
        if isinstance(function, types.Dispatcher):
            if takes_alias and isinstance(function, types.ObjModeDispatcher):
                return True
            return self.may_write(*code.callee(expr, function.dispatcher, arguments))
        if takes_alias and not _only_reads(code, function, expr):
            return True
        if any(isinstance(a, _FUNCTIONS) for a in arguments):
            return True  # it may hand the array to a function
        if isinstance(function, types.BoundFunction):
            of_user = isinstance(function.this, types.ClassInstanceType)
            return of_user or self._member_writes(code, function.template, given, takes_alias)
        if isinstance(function, types.Function):
            return self._function_writes(function, arguments, takes_alias)
        return isinstance(
            function, (types.FunctionType, types.ExternalFunctionPointer, types.ClassType)
        )

    def _function_writes(self, function: Any, arguments: Any, takes_alias: bool) -> bool:
        key = getattr(function, "typing_key", None)
        is_writer = any(key is writer for writer in _WRITERS)
        if is_writer or _is_atomic(key) or getattr(key, "__name__", "") == "from_buffer":
            return True
        if key is np.dot:
            return any(map(_holds_read_only, arguments[2:]))
        if isinstance(key, GUFunc):  # its inputs are writable to it
            return True
        if _is_users(key):
            return any(self._template_writes(t, arguments, False) for t in function.templates)
        return self._overload_writes(function, arguments, takes_alias)

    def _overload_writes(self, function: Any, arguments: Any, takes_alias: bool) -> bool:
        """Whether what users made of a function or an operator of Numba's writes."""
        return any(
            self._template_writes(t, arguments, takes_alias)
            for t in function.templates
            if not _is_trusted(_module_of(t))
            and tuple(arguments) in getattr(t, "_compiled_overloads", ())
        )

    def _member_writes(self, code: TypedCode, template: Any, given: Any, takes_alias: bool) -> bool:
        """Whether a method or an attribute that users added to a type writes."""
        overloaded = getattr(template, "_overload_func", None)
        if overloaded is None or _is_trusted(overloaded.__module__):
            return False
        resolved = code.kernel.typingctx.resolve_value_type(overloaded)
        return any(self._template_writes(t, given, takes_alias) for t in resolved.templates)

    def _attribute_writes(self, code: TypedCode, statement: Any) -> bool:
        """Whether a statement reads an attribute that users added to arrays, and that writes."""
        expr: Any = statement.value if _is(statement, "Assign") else None
        if getattr(expr, "op", "") != "getattr":
            return False
        owner, is_alias = code.type_of(expr.value), expr.value.name in code.aliases
        if owner is None or not (is_alias or _holds_read_only(owner)):
            return False
        return any(
            getattr(template, "_attr", None) == expr.attr
            and not template.is_method
            and self._member_writes(code, template, (owner,), is_alias)
            for template in code.kernel.typingctx._get_attribute_templates(owner)
        )

    def _template_writes(self, template: Any, arguments: Any, takes_alias: bool) -> bool:
        """Whether an overload that users registered with `numba.extending` writes."""
        given = tuple(arguments)
        found = getattr(template, "_impl_cache", {}).values()
        dispatchers = [entry[0] for entry in found if isinstance(entry, tuple)]
        implementations = [d for d in dispatchers if given in getattr(d, "overloads", ())]
        if not implementations:  # an intrinsic, or one whose code is not to be found
            return True
        aliases = frozenset(range(len(given)) if takes_alias else ())
        return any(self.may_write((d, given, d.overloads[given]), aliases) for d in implementations)


def _module_of(template: Any) -> str:
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


def _only_reads(code: TypedCode, function: Any, expr: Any) -> bool:
    """Whether a function that Numba implements only reads aliases."""
    key = getattr(function, "typing_key", None)
    if isinstance(key, np.ufunc):
        return not code.has_alias((*expr.args[key.nin :], *dict(expr.kws).values()))
    if isinstance(function, types.NumberClass):
        return True
    if _name_of(function) not in _READERS:
        return False
    if isinstance(function, types.BoundFunction):
        return isinstance(key, str) or _is_trusted(_module_of(function.template))
    return (getattr(key, "__module__", None) or "").split(".")[0] in ("builtins", "numpy")


def _assigns_through(code: TypedCode, statement: Any) -> bool:
    """Whether a statement assigns to an alias, or to a read-only array's `flat`."""
    if not _is(statement, "SetItem", "StaticSetItem", "SetAttr", "DelItem"):
        return False
    target = code.type_of(statement.target)
    is_flat = isinstance(target, types.NumpyFlatType) and _holds_read_only(target)
    return is_flat or statement.target.name in code.aliases


def _gives_away(code: TypedCode, statement: Any) -> bool:
    """Whether a statement puts an alias where it is not followed."""
    if _is(statement, "SetItem", "StaticSetItem", "SetAttr"):
        copies = types.Array, types.Record
        is_alias = statement.value.name in code.aliases
        return is_alias and not isinstance(code.type_of(statement.target), copies)
    if _is(statement, "Assign"):
        statement = statement.value
    is_alias = _is(statement, "Return", "Yield") and statement.value.name in code.aliases
    return is_alias and not _is_silent(code.type_of(statement.value))


def _holds_read_only(t: Any) -> bool:
    """Whether a value of this type is a read-only array, or holds or points to one."""
    return any(_is(part, "Array") and not part.mutable for part in _parts(t))


def _is_silent(t: Any) -> bool:
    """Whether a value of this type may be in a read-only array without saying so."""
    return any(
        _is(part, "Record") or (_is(part, "Array") and part.mutable and part.ndim == 0)
        for part in _parts(t)
    )


def _parts(t: Any) -> Iterator[Any]:
    """A type, and all types that it is made of."""
    seen, left = set[Any](), [t]
    while left:
        part = left.pop()
        if isinstance(part, Mapping):
            left += part.values()
        elif isinstance(part, (tuple, list, set, frozenset)):
            left += part
        elif _is(part, "Type") and part not in seen:
            seen.add(part)
            yield part
            left += getattr(part, "__dict__", {}).values()


def _is(value: Any, *names: str) -> bool:
    """Whether it is of a class of these names, of Numba or of Numba-CUDA."""
    return any(kind.__name__ in names for kind in type(value).__mro__)


def _refers(t: Any) -> bool:
    if isinstance(t, types.BaseTuple):
        return any(map(_refers, t.types))
    if isinstance(t, types.Pair):
        return _refers(t.first_type) or _refers(t.second_type)
    return _refers(t.type) if isinstance(t, types.Optional) else not isinstance(t, _VALUES)


def _name_of(function: Any) -> str:
    """The name of a function or method that Numba implements; empty if it has none."""
    key = getattr(function, "typing_key", None)
    if isinstance(key, str):  # "array.sum"
        return key.split(".")[-1]
    if isinstance(key, tuple):  # a method of an overload: type and name
        return str(key[-1])
    return str(getattr(key, "__name__", ""))


def _is_atomic(key: Any) -> bool:
    module, name = getattr(key, "__module__", ""), getattr(key, "__qualname__", "")
    return module == "numba.cuda.stubs" and name.startswith("atomic")


def _statements(blocks: Iterable[Any]) -> Iterator[Any]:
    """All statements, those inside parallel loops included."""
    for block in blocks:
        for statement in block.body:
            yield statement
            if hasattr(statement, "loop_body"):
                yield from _statements((statement.init_block, *statement.loop_body.values()))


def lost_fractions(
    compiled: Compiled, outputs: Mapping[int, str], compile_again: _CompileAgain
) -> tuple[str, ...]:
    """A sentence for each of the arguments `outputs`, given by position and name, that takes floats
    as integers. For `compile_again`, see `TypedCode.of`."""
    found = []
    for position, name in outputs.items():
        array = compiled[1][position]
        if not isinstance(array, types.Array) or isinstance(array.dtype, types.Float):
            continue
        store = _first_store(compiled, frozenset((position,)), compile_again, set())
        if store is not None:
            place, value, kept = store
            remedy = "`value != 0`" if isinstance(kept, types.Boolean) else f"`np.{kept}(...)`"
            found.append(
                f"{place.filename}:{place.line} stores {value} into {name!r}, which is {kept}, so "
                f"that its fraction is lost. If that is intended, convert the value, {remedy}; "
                "otherwise, give the array a floating-point dtype [KB4018]"
            )
    return tuple(found)


def _first_store(
    compiled: Compiled, given: Set[int], compile_again: _CompileAgain, seen: set[Any]
) -> tuple[Any, Any, Any] | None:
    """The first store of a float into whole numbers that the arguments `given`, by position, hold:
    its place, and the types of the value and of the elements.

    `seen` are the functions that were searched before, with types and arguments.
    """
    key = (*compiled[:2], given)
    code = None if key in seen else TypedCode.of(compiled, given, compile_again)
    seen.add(key)
    if code is None:
        return None
    for statement in code.statements:
        kept = _kept(code, statement)
        if kept is not None and _is_lost(code, statement.value, kept):
            return statement.loc, _element(code.type_of(statement.value)), kept
    for expr, signature in code.calls.items():
        if getattr(expr, "op", "") != "call" or not code.has_alias(expr.list_vars()):
            continue
        function = code.function_of(expr)
        if isinstance(function, types.Dispatcher):
            called = code.callee(expr, function.dispatcher, signature.args)
            if store := _first_store(*called, compile_again, seen):
                return store
        elif _name_of(function) in _STORE or _is_atomic(getattr(function, "typing_key", None)):
            array = getattr(function, "this", None) or code.type_of(expr.args[0])
            kept = getattr(array, "dtype", None)
            for value in expr.args:
                if _is_lost(code, value, kept):
                    return expr.loc, _element(code.type_of(value)), kept
    return None


def _kept(code: TypedCode, statement: Any) -> Any:
    """The type of the elements into which a statement stores; None if it stores nothing there."""
    stores = _is(statement, "SetItem", "StaticSetItem", "SetAttr")
    if not stores or statement.target.name not in code.aliases:
        return None
    target = code.type_of(statement.target)
    if isinstance(target, types.Record):
        field = getattr(statement, "attr", getattr(statement, "index", None))
        return target.typeof(field) if field in target.fields else None
    return getattr(target, "dtype", None)


def _element(t: Any) -> Any:
    if isinstance(t, types.Optional):
        t = t.type
    if isinstance(t, types.BaseTuple):
        return next((e for e in t.types if isinstance(e, types.Float)), t)
    return getattr(t, "dtype", t)


def _is_lost(code: TypedCode, variable: Any, kept: Any) -> bool:
    """Whether elements of the type `kept` may lose fractions of a variable's value."""
    if not isinstance(kept, (types.Integer, types.Boolean)):
        return False
    is_float = isinstance(_element(code.type_of(variable)), types.Float)
    return is_float and not _is_whole(code, variable, set())


def _is_whole(code: TypedCode, value: Any, seen: set[str]) -> bool:
    """Whether a value certainly has no fraction: a constant, or what is rounded."""
    if _is(value, "Var"):
        if isinstance(_element(code.type_of(value)), types.Integer | types.Boolean):
            return True
        if value.name in seen:
            return True  # a loop hands it back
        seen.add(value.name)
        made = code.values.get(value.name, ())
        return bool(made) and all(_is_whole(code, m, seen) for m in made)
    if _is(value, "Const", "Global", "FreeVar"):
        number = value.value
        return isinstance(number, (int, float)) and float(number).is_integer()
    if isinstance(value, tuple):  # a part of an expression of whole arrays
        function, operands = value
    elif not _is(value, "Expr"):
        return False
    elif value.op == "call":
        return _name_of(code.type_of(value.func)) in _ROUND
    elif value.op == "arrayexpr":
        return _is_whole(code, value.expr, seen)
    elif value.op in ("binop", "inplace_binop", "unary"):
        function, operands = value.fn, value.list_vars()
    else:
        holds = value.op in ("build_list", "build_tuple", "cast", "phi")
        return holds and all(_is_whole(code, v, seen) for v in value.list_vars())
    if function in _DIVIDE or getattr(function, "__name__", "") in _ROUND:
        return True
    return function in _KEEP_WHOLE and all(_is_whole(code, v, seen) for v in operands)
