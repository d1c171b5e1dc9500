"""Finds floats that a kernel stores into arrays of integers, where they lose their fractions.

Numba converts the value without a word, as NumPy does. The statements that store into the given
arguments are searched, and those of the jitted functions that the kernel passes them to. Imported
only when a kernel is compiled, since it imports Numba.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Set
from typing import Any, NamedTuple

from kernbridge._src.numba_common.private_numba import types
from kernbridge._src.numba_common.readonly import TypedCode, classes, is_atomic, name_of

_ROUND = frozenset(("around", "ceil", "fix", "floor", "rint", "round", "round_", "sign", "trunc"))
_KEEP_WHOLE = (
    *(operator.add, operator.iadd, operator.sub, operator.isub, operator.mul, operator.imul),
    *(operator.neg, operator.pos, operator.mod, operator.imod),
)
_DIVIDE = (operator.floordiv, operator.ifloordiv)
_STORE = ("fill", "fill_diagonal")


class _Store(NamedTuple):
    loc: Any
    value: Any
    kept: Any


def lost_fractions(
    kernel: Any,
    arguments: Any,
    compiled: Any,
    outputs: Mapping[int, str],
    compile_again: Callable[[Any, Any], Any] | None,
) -> tuple[str, ...]:
    """A sentence for each of the arguments `outputs`, given by position and name, that takes floats
    as integers. `compile_again` is as for `readonly.WriteSearch`."""
    found = []
    for position, name in outputs.items():
        if not isinstance(arguments[position], types.Array):
            continue
        if isinstance(arguments[position].dtype, types.Float):
            continue
        search = _Search(compile_again)
        store = search.first(kernel, arguments, compiled, frozenset((position,)))
        if store is not None:
            is_bool = isinstance(store.kept, types.Boolean)
            remedy = "`value != 0`" if is_bool else f"`np.{store.kept}(...)`"
            found.append(
                f"{store.loc.filename}:{store.loc.line} stores {store.value} into {name!r}, which "
                f"is {store.kept}, so that its fraction is lost. If that is intended, convert the "
                f"value, {remedy}; otherwise, give the array a floating-point dtype [KB4018]"
            )
    return tuple(found)


class _Search:
    """A search for the first store of a float into whole numbers."""

    def __init__(self, compile_again: Callable[[Any, Any], Any] | None) -> None:
        self._compile_again = compile_again
        self._seen: set[Any] = set()

    def first(self, kernel: Any, arguments: Any, compiled: Any, given: Set[int]) -> _Store | None:
        """The first store into what the arguments `given`, by position, hold."""
        if (kernel, arguments, given) in self._seen:
            return None
        self._seen.add((kernel, arguments, given))
        code = TypedCode.of(kernel, arguments, compiled, given, self._compile_again)
        if code is None:
            return None
        for statement in code.statements:
            kept = _kept(code, statement)
            if kept is not None and _is_lost(code, statement.value, kept):
                return _Store(statement.loc, _element(code.type_of(statement.value)), kept)
        for expr, signature in code.calls.items():
            if getattr(expr, "op", "") != "call" or not code.has_loose(expr.list_vars()):
                continue
            function = code.function_of(expr)
            if isinstance(function, types.Dispatcher):
                called, taken = function.dispatcher, code.positions(expr, len(signature.args))
                overload = called.overloads.get(signature.args)
                if store := self.first(called, signature.args, overload, taken):
                    return store
            elif name_of(function) in _STORE or is_atomic(getattr(function, "typing_key", None)):
                array = getattr(function, "this", None) or code.type_of(expr.args[0])
                kept = getattr(array, "dtype", None)
                for value in expr.args:
                    if _is_lost(code, value, kept):
                        return _Store(expr.loc, _element(code.type_of(value)), kept)
        return None


def _kept(code: TypedCode, statement: Any) -> Any:
    """The type of the elements into which a statement stores; None if it stores nothing there."""
    if not isinstance(statement, classes("SetItem", "StaticSetItem", "SetAttr")):
        return None
    if statement.target.name not in code.loose:
        return None
    target = code.type_of(statement.target)
    if isinstance(target, types.Record):
        field = getattr(statement, "attr", getattr(statement, "index", None))
        return target.typeof(field) if field in target.fields else None
    return getattr(target, "dtype", None)


def _element(t: Any) -> Any:
    """The type of the numbers in a value."""
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
    if isinstance(value, classes("Var")):
        if isinstance(_element(code.type_of(value)), types.Integer | types.Boolean):
            return True
        if value.name in seen:
            return True  # a loop hands it back
        seen.add(value.name)
        made = code.values.get(value.name, ())
        return bool(made) and all(_is_whole(code, m, seen) for m in made)
    if isinstance(value, classes("Const", "Global", "FreeVar")):
        number = value.value
        return isinstance(number, (int, float)) and float(number).is_integer()
    if isinstance(value, tuple):  # a part of an expression of whole arrays
        function, operands = value
    elif not isinstance(value, classes("Expr")):
        return False
    elif value.op == "call":
        return name_of(code.type_of(value.func)) in _ROUND
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
