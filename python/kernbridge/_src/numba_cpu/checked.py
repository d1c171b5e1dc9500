"""Compiles Numba kernels with checks of every index, and errors that name the array and the line.

The kernel and its callees are compiled apart.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kernbridge._src.base.patched import patched
from kernbridge._src.numba_common.private_numba import cgutils, config, lowering, types
from kernbridge._src.numba_common.private_numba import ir as numba_ir
from kernbridge._src.numba_cpu.entry import compiling_apart, is_users
from kernbridge._src.numba_cpu.errors import CHANGES, OutOfBounds, lowering_into

_READS = ("getitem", "static_getitem", "typed_getitem")
_INTP = cgutils.intp_t


@contextmanager
def compiling_checked(kernel: Any) -> Iterator[None]:
    """Let Numba check the indices of this kernel and of what it calls. Holds Numba's lock."""
    checking = patched(
        *CHANGES,
        (lowering.Lower, "lower_inst", _remember_statement),
        (cgutils, "do_boundscheck", _check_index),
        (config, "BOUNDSCHECK", None),
    )
    apart = compiling_apart("checked", is_users, boundscheck=True)
    with checking, apart as set_apart:
        set_apart(kernel)
        yield


_numba_lower_inst = lowering.Lower.lower_inst


def _remember_statement(self: Any, statement: Any) -> None:
    self.kernbridge_statement = statement
    access = _Access.of(self.builder)
    if access is not None and access.is_flat:  # which Numba does not check
        size = functools.reduce(self.builder.mul, access.shape(), _INTP(1))
        index = access.index(0, None)
        if index is not None:
            _check_index(self.context, self.builder, index, size, 0)
    _numba_lower_inst(self, statement)


def _check_index(context: Any, builder: Any, index: Any, extent: Any, axis: Any = None) -> None:
    """Replace Numba's check by one that names the array, its shape and the index."""
    access = _Access.of(builder)
    outside = builder.or_(
        builder.icmp_signed(">=", index, extent), builder.icmp_signed("<", index, index.type(0))
    )
    with cgutils.if_unlikely(builder, outside):
        axis = axis if isinstance(axis, int) else 0
        name, given, shape = "", index, [extent]
        if access is not None:
            name, given, shape = access.name, access.index(axis, index), access.shape()
        values = [builder.sext(v, _INTP) if v.type != _INTP else v for v in (given, *shape)]
        context.call_conv.return_dynamic_user_exc(
            builder,
            OutOfBounds,
            (name, axis if access else -1, *values),
            [None, None, *[types.intp] * len(values)],
        )


class _Access:
    """An indexing expression of the user's that is being lowered."""

    def __init__(self, lowerer: Any, array: Any, index: Any) -> None:
        self._lowerer = lowerer
        self._array = array
        self._index = index  # a variable, or a constant of Numba

    @staticmethod
    def of(builder: Any) -> _Access | None:
        """What the builder's instructions belong to; None if that is no indexing of an array."""
        lowerer = lowering_into(builder)
        statement = getattr(lowerer, "kernbridge_statement", None)
        value = getattr(statement, "value", None)
        if isinstance(statement, (numba_ir.SetItem, numba_ir.StaticSetItem)):
            array, index = statement.target, statement.index
        elif isinstance(value, numba_ir.Expr) and value.op in _READS:
            array, index = value.value, value.index
        else:
            return None
        if not isinstance(lowerer.typeof(array.name), (types.Array, types.NumpyFlatType)):
            return None
        return _Access(lowerer, array, index)

    @property
    def is_flat(self) -> bool:
        return isinstance(self._lowerer.typeof(self._array.name), types.NumpyFlatType)

    @property
    def name(self) -> str:
        """The array as the user wrote it, as far as that is a name."""
        variable = self._array
        for _ in range(8):  # x.field.field, at most
            if not variable.is_temp:
                name, code = str(variable.unversioned_name), self._lowerer.func_ir.func_id.code
                # Numba puts more before the names of a function that it inlines.
                return name if name in code.co_varnames else re.sub(r"^\w+_v\d+_", "", name)
            try:
                made = self._lowerer.func_ir.get_definition(variable)
            except KeyError:
                return ""
            if isinstance(made, numba_ir.Expr) and made.op == "getattr" and made.attr == "flat":
                variable = made.value
            elif isinstance(made, numba_ir.Var):
                variable = made
            elif isinstance(made, (numba_ir.Global, numba_ir.FreeVar, numba_ir.Arg)):
                return str(made.name)
            else:
                return ""
        return ""

    def shape(self) -> list[Any]:
        context, builder = self._lowerer.context, self._lowerer.builder
        kind = self._lowerer.typeof(self._array.name)
        value = self._lowerer.loadvar(self._array.name)
        if self.is_flat:
            value = context.make_helper(builder, kind, value=value).array
            kind = kind.array_type
        array = context.make_array(kind)(context, builder, value)
        return list(cgutils.unpack_tuple(builder, array.shape, kind.ndim))

    def index(self, axis: int, wrapped: Any) -> Any:
        """The index along an axis as the user wrote it: `wrapped` if that cannot be found."""
        given = self._index
        if not isinstance(given, numba_ir.Var):
            each = given if isinstance(given, tuple) else (given,)
            constant = each[axis] if axis < len(each) else None
            return _INTP(constant) if isinstance(constant, int) else wrapped
        kind = self._lowerer.typeof(given.name)
        value = self._lowerer.loadvar(given.name)
        if isinstance(kind, types.BaseTuple):
            if not all(isinstance(k, types.Integer) for k in kind) or axis >= len(kind):
                return wrapped
            kind, value = kind[axis], self._lowerer.builder.extract_value(value, axis)
        if not isinstance(kind, types.Integer):
            return wrapped
        return self._lowerer.context.cast(self._lowerer.builder, value, kind, types.intp)
