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
from kernbridge._src.numba_common.readonly import (
    classes,
    function_of,
    global_values,
    is_any,
    is_atomic,
    loose_names,
    name_of,
    positions,
    statements,
    typed_code,
)

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
        typed = typed_code(kernel, arguments, compiled, self._compile_again)
        if typed is None:
            return None
        code, typemap = list(statements(typed.blocks.values())), typed.typemap
        loose = loose_names(code, typemap, given)
        values = _Values(code, typemap)
        for statement in code:
            kept = _kept(statement, typemap, loose)
            if kept is not None and values.is_lost(statement.value, kept):
                given_type = _element(typemap.get(statement.value.name))
                return _Store(statement.loc, given_type, kept)
        known = global_values(code)
        for expr, signature in typed.calltypes.items():
            if getattr(expr, "op", "") != "call" or not is_any(loose, expr.list_vars()):
                continue
            function = function_of(kernel, expr, typemap, known)
            if isinstance(function, types.Dispatcher):
                called, taken = function.dispatcher, positions(expr, loose, len(signature.args))
                compiled = called.overloads.get(signature.args)
                store = self.first(called, signature.args, compiled, frozenset(taken))
                if store is not None:
                    return store
            elif name_of(function) in _STORE or is_atomic(getattr(function, "typing_key", None)):
                array = getattr(function, "this", None) or typemap.get(expr.args[0].name)
                kept = getattr(array, "dtype", None)
                lost = next((v for v in expr.args if values.is_lost(v, kept)), None)
                if lost is not None:
                    return _Store(expr.loc, _element(typemap.get(lost.name)), kept)
        return None


def _kept(statement: Any, typemap: Any, loose: Set[str]) -> Any:
    """The type of the elements into which a statement stores; None if it stores nothing there."""
    if not isinstance(statement, classes("SetItem", "StaticSetItem", "SetAttr")):
        return None
    target = typemap.get(statement.target.name)
    if statement.target.name not in loose:
        return None
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


class _Values:
    """What is known of the values of variables."""

    def __init__(self, code: Any, typemap: Any) -> None:
        self._typemap = typemap
        self._made: dict[str, list[Any]] = {}
        for statement in code:
            if isinstance(statement, classes("Assign")):
                self._made.setdefault(statement.target.name, []).append(statement.value)

    def is_lost(self, variable: Any, kept: Any) -> bool:
        """Whether elements of the type `kept` may lose fractions of a variable's value."""
        if not isinstance(kept, (types.Integer, types.Boolean)):
            return False
        t = _element(self._typemap.get(variable.name))
        return isinstance(t, types.Float) and not self._is_whole(variable, set())

    def _is_whole(self, value: Any, seen: set[str]) -> bool:
        """Whether a value certainly has no fraction: a constant, or what is rounded."""
        if isinstance(value, classes("Var")):
            if isinstance(_element(self._typemap.get(value.name)), types.Integer | types.Boolean):
                return True
            made = self._made.get(value.name, ())
            if value.name in seen:
                return True  # a loop hands it back
            seen.add(value.name)
            return bool(made) and all(self._is_whole(m, seen) for m in made)
        if isinstance(value, classes("Const", "Global", "FreeVar")):
            number = value.value
            return isinstance(number, (int, float)) and float(number).is_integer()
        if isinstance(value, tuple):  # a part of an expression of whole arrays
            function, operands = value
            return self._gives_whole(function, operands, seen)
        if not isinstance(value, classes("Expr")):
            return False
        if value.op == "call":
            return name_of(self._typemap.get(value.func.name)) in _ROUND
        if value.op == "arrayexpr":
            return self._is_whole(value.expr, seen)
        if value.op in ("binop", "inplace_binop", "unary"):
            return self._gives_whole(value.fn, value.list_vars(), seen)
        holds = value.op in ("build_list", "build_tuple", "cast", "phi")
        return holds and all(self._is_whole(v, seen) for v in value.list_vars())

    def _gives_whole(self, function: Any, operands: Any, seen: set[str]) -> bool:
        if function in _DIVIDE or getattr(function, "__name__", "") in _ROUND:
            return True
        return function in _KEEP_WHOLE and all(self._is_whole(v, seen) for v in operands)
