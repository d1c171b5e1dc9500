"""Translates the jaxpr of a function of scalars into a Python function that Numba compiles.

The text uses nothing but `math`, NumPy's scalar types and Python's operators, which Numba and
Numba-CUDA both compile: one text serves CPUs and GPUs. Arrays of a few elements may occur within a
function; each of their elements becomes a variable.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from kernbridge._ext.inline import special
from kernbridge._src.base.dtypes import taken_by
from kernbridge._src.base.private_jax import Literal

ELEMENTS_MAX = 64
"""Elements of an array inside a function, and steps of a scan over arrays."""
DTYPES = taken_by("inline")
NAME = "inlined"
Value = np.ndarray[Any, np.dtype[np.object_]]  # the expressions of the elements of one array

_PACKAGES = tuple(os.path.dirname(str(m.__file__)) + os.sep for m in (jax, np))
_OWN = os.path.dirname(__file__) + os.sep
_CALLS = ("closed_call", "custom_jvp_call", "custom_vjp_call", "jit", "remat2")
_BODIES = ("jaxpr", "call_jaxpr")  # the parameters of calls
_FOLDS = {
    "reduce_sum": "add",
    "reduce_prod": "mul",
    **{f"reduce_{name}": name for name in ("max", "min", "and", "or", "xor")},
}
# Primitives that only place elements elsewhere, by NumPy's functions.
_MOVES: dict[str, Callable[..., Value]] = {
    **dict.fromkeys(
        ("expand_dims", "squeeze"), lambda eqn, x: x.reshape(eqn.outvars[0].aval.shape)
    ),
    "reshape": lambda eqn, x: x.transpose(eqn.params["dimensions"] or range(x.ndim)).reshape(
        eqn.params["new_sizes"]
    ),
    "concatenate": lambda eqn, *values: np.concatenate(values, eqn.params["dimension"]),
    "rev": lambda eqn, x: np.flip(x, eqn.params["dimensions"]),
    "stack": lambda eqn, *values: np.stack(values, eqn.params["axis"]),
    "transpose": lambda eqn, x: x.transpose(eqn.params["permutation"]),
}
# Texts for elements; T stands for the type of the operands.
_MATH = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "erfc", "exp"),
    *("expm1", "lgamma", "log", "log1p", "sin", "sinh", "sqrt", "tan", "tanh"),
)
_SYMBOLS = (
    *(("add", "+"), ("add_any", "+"), ("sub", "-"), ("mul", "*"), ("and", "&"), ("or", "|")),
    *(("xor", "^"), ("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">")),
    ("ge", ">="),
)
_EXTREME = "({0} if {0} %s {1} or {0} != {0} else {1})"  # NaN if one of the two is
_OF_ALL = {
    **{name: f"{{0}} {symbol} {{1}}" for name, symbol in _SYMBOLS},
    **dict.fromkeys(("copy", "copy_p", "optimization_barrier", "pvary", "real"), "{0}"),
    "stop_gradient": "{0}",
    "abs": "abs({0})",
    "neg": "-{0}",
    "one_minus_square": "({T}(1) + {0}) * ({T}(1) - {0})",
    "square": "{0} * {0}",
}
_OF_FLOATS = {
    **{name: f"math.{name}({{0}})" for name in _MATH},
    "atan2": "math.atan2({0}, {1})",
    # Numba's `math.floor` returns an int64; larger numbers have no fraction.
    "ceil": "(math.copysign({T}(math.ceil({0})), {0}) if abs({0}) < 9e18 else {0})",
    "div": "{0} / {1}",
    "exp2": "{T}(2) ** {0}",
    "floor": "(math.copysign({T}(math.floor({0})), {0}) if abs({0}) < 9e18 else {0})",
    "is_finite": "math.isfinite({0})",
    "log2": "math.log({0}) * {T}(1.4426950408889634)",
    "logistic": "{T}(1) / ({T}(1) + math.exp(-{0}))",
    "max": _EXTREME % ">",
    "min": _EXTREME % "<",
    "pow": "{0} ** {1}",
    "rem": "math.copysign(abs({0}) % abs({1}), {0})",
    "rsqrt": "{T}(1) / math.sqrt({0})",
    "sign": "({0} if {0} == 0 or {0} != {0} else math.copysign({T}(1), {0}))",
}
_OF_UNSIGNED = {
    "div": "({0} // {1} if {1} != 0 else ~{T}(0))",
    "max": "max({0}, {1})",
    "min": "min({0}, {1})",
    "not": "~{0}",
    "rem": "({0} % {1} if {1} != 0 else {0})",
    "shift_left": "({0} << {1} if {1} < {bits} else {T}(0))",
    "shift_right_logical": "({0} >> {1} if {1} < {bits} else {T}(0))",
    "sign": "{0} != 0",
}
_DIFFER = "(1 if {0} % {1} != 0 and ({0} < 0) != ({1} < 0) else 0)"  # `//` rounds down
_OF_SIGNED = {
    **_OF_UNSIGNED,
    "div": f"(-{{0}} if {{1}} == -1 else {{0}} // {{1}} + {_DIFFER} if {{1}} != 0 else -1)",
    "rem": f"({{0}} if {{1}} == 0 else 0 if {{1}} == -1 else {{0}} % {{1}} - {{1}} * {_DIFFER})",
    "shift_left": "({0} << {1} if 0 <= {1} < {bits} else {T}(0))",
    "shift_right_arithmetic": "{0} >> ({1} if 0 <= {1} < {bits} else {T}({bits} - 1))",
    "shift_right_logical": "(np.u{t}({0}) >> np.u{t}({1}) if 0 <= {1} < {bits} else np.u{t}(0))",
    "sign": "(1 if {0} > 0 else 0) - (1 if {0} < 0 else 0)",
}
_OF_BOOLS = {"max": "{0} or {1}", "min": "{0} and {1}", "not": "not {0}"}
_BY_KIND = {"b": _OF_BOOLS, "f": _OF_FLOATS, "i": _OF_SIGNED, "u": _OF_UNSIGNED}


class NotTranslated(Exception):
    """A function uses what kernels cannot compute; the message says what the primitive does."""

    primitive = place = ""

    def __str__(self) -> str:
        subject = f"the primitive '{self.primitive}'{self.place}" if self.primitive else "it"
        return f"{subject} {self.args[0]}"


def translate(closed: Any, is_tuple: bool) -> str:
    """Return the text of a function `NAME`, which returns a tuple or the only result."""
    translation = _Translation()
    names = [f"x{i}" for i in range(len(closed.jaxpr.invars))]
    results = translation.block(closed, [np.asarray(n, object) for n in names])
    returned = "".join(f"{value[()]}, " for value in results)
    lines = "".join(f"{line}\n" for line in translation.lines)
    returned = f"({returned})" if is_tuple else returned.removesuffix(", ")
    return f"def {NAME}({', '.join(names)}):\n{lines}    return {returned}\n"


def literal(value: Any, dtype: np.dtype[Any]) -> str:
    number = np.asarray(value).astype(dtype)[()]
    if dtype.kind == "b":
        return repr(bool(number))
    text = repr(int(number) if dtype.kind in "iu" else float(number))
    return f"np.{dtype.name}({text.replace('inf', 'math.inf').replace('nan', 'math.nan')})"


def opened(jaxpr: Any) -> tuple[Any, Sequence[Any]]:
    """A jaxpr without its constants, and these; it may be of either class."""
    return getattr(jaxpr, "jaxpr", jaxpr), getattr(jaxpr, "consts", ())


def _place(eqn: Any) -> str:
    """The line of the user's function that an equation comes from."""
    for frame in getattr(eqn.source_info.traceback, "frames", ()):
        if not frame.file_name.startswith((*_PACKAGES, _OWN)):
            return f" ({frame.file_name}:{frame.line_num} in {frame.function_name})"
    return ""


class _Translation:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self._numbers = itertools.count()
        self._margin = "    "

    def block(self, given: Any, arguments: Sequence[Value]) -> list[Value]:
        """Translate the equations of a jaxpr; return its results."""
        jaxpr, constants = opened(given)
        values: dict[Any, Value] = dict(zip(jaxpr.invars, arguments, strict=True))
        for variable, constant in zip(jaxpr.constvars, constants, strict=True):
            values[variable] = self._constant(constant, variable.aval)

        def read(variable: Any) -> Value:
            is_literal = isinstance(variable, Literal)
            return self._constant(variable.val, variable.aval) if is_literal else values[variable]

        for eqn in jaxpr.eqns:
            try:
                for variable in eqn.outvars:
                    _check(variable.aval)
                results = self._equation(eqn, [read(v) for v in eqn.invars])
            except NotTranslated as e:
                e.primitive = e.primitive or eqn.primitive.name
                e.place = e.place or _place(eqn)  # what JAX has jitted has none of the user's
                raise
            values.update(zip(eqn.outvars, results, strict=True))
        return [read(v) for v in jaxpr.outvars]

    def _constant(self, constant: Any, aval: Any) -> Value:
        array = np.asarray(constant)
        if array.size > ELEMENTS_MAX:
            raise NotTranslated(
                f"reads an array of shape {array.shape}; pass what it needs as scalars"
            )
        return self._each(lambda number: literal(number, aval.dtype), array)

    @staticmethod
    def _each(function: Callable[..., str], *operands: Any) -> Value:
        """Apply a function to the elements of operands of one shape, or scalars."""
        return np.asarray(np.frompyfunc(function, len(operands), 1)(*operands, order="C"), object)

    def _new(self, aval: Any) -> Value:
        """Names for the elements of an array."""
        return self._each(lambda _: f"t{next(self._numbers)}", np.empty(aval.shape))

    def _line(self, text: str) -> None:
        self.lines.append(self._margin + text)

    def _assigned(self, dtype: Any, text: str) -> str:
        name = f"t{next(self._numbers)}"
        kind = "bool" if str(dtype) == "bool" else f"np.{dtype}"
        self._line(f"{name} = {kind}({text})")
        return name

    def _nested(self, jaxpr: Any, arguments: Sequence[Value], targets: Sequence[Value]) -> None:
        """Translate the block of a statement, which assigns its results."""
        margin, self._margin = self._margin, self._margin + "    "
        self._assign(targets, self.block(jaxpr, arguments))
        self._margin = margin

    def _equation(self, eqn: Any, operands: list[Value]) -> Sequence[Value]:
        name, params = eqn.primitive.name, eqn.params
        if name in _CALLS:
            return self.block(next(params[p] for p in _BODIES if p in params), operands)
        if structure := getattr(self, f"_{name}", None):
            return list(structure(eqn, *operands))
        if not eqn.outvars:
            raise NotTranslated("cannot be translated")
        aval = eqn.outvars[0].aval
        if name in _MOVES:
            return [_MOVES[name](eqn, *operands)]
        if name in _FOLDS:
            return [self._folded(_FOLDS[name], operands[0], params["axes"], aval)]
        if name in special.FUNCTIONS:
            return [self._each(lambda *xs: self._special(eqn, xs), *operands)]
        source = (eqn.invars or eqn.outvars)[0].aval.dtype
        return [self._computed(name, source, aval.dtype, *operands)]

    def _computed(self, name: str, source: Any, dtype: Any, *operands: Value) -> Value:
        """Apply the text of a primitive for operands of the dtype `source`."""
        text = _BY_KIND[np.dtype(source).kind].get(name) or _OF_ALL.get(name)
        if text is None:
            raise NotTranslated("cannot be translated; compute it with JAX, outside of the kernel")
        names = {"T": f"np.{source}", "t": str(source), "bits": 8 * np.dtype(source).itemsize}
        return self._each(lambda *xs: self._assigned(dtype, text.format(*xs, **names)), *operands)

    def _special(self, eqn: Any, operands: Sequence[str]) -> str:
        """Translate the implementation of a primitive, which is a function of JAX itself."""
        scalars = [jax.ShapeDtypeStruct((), v.aval.dtype) for v in eqn.invars]
        method = {k: v for k, v in eqn.params.items() if k == "rounding_method"}
        function = functools.partial(special.FUNCTIONS[eqn.primitive.name], **method)
        with jax.enable_x64(True):
            closed = jax.make_jaxpr(function)(*scalars)
        (result,) = self.block(closed, [np.asarray(x, object) for x in operands])
        return str(result[()])

    def _folded(self, name: str, value: Value, axes: Sequence[int], aval: Any) -> Value:
        if 0 in value.shape:
            raise NotTranslated("has no elements; compute it with JAX, outside of the kernel")
        moved = np.moveaxis(value, axes, range(len(axes))).reshape(-1, *aval.shape)
        result = np.asarray(moved[0], object)  # also where no axis is left
        for other in moved[1:]:
            result = self._computed(name, aval.dtype, aval.dtype, result, other)
        return result

    def _argmax(self, eqn: Any, value: Value) -> Iterator[Value]:
        """The first of the largest, or of the smallest; of NaN, if there is one."""
        symbol = ">" if eqn.primitive.name == "argmax" else "<"
        dtype, kind = eqn.outvars[0].aval.dtype, eqn.invars[0].aval.dtype
        rows = [np.asarray(row, object) for row in np.moveaxis(value, eqn.params["axes"][0], 0)]
        best, index = rows[0], self._each(lambda _: literal(0, dtype), rows[0])
        better = f"{{0}} {symbol} {{1}} or ({{0}} != {{0}} and {{1}} == {{1}})"
        for k, row in enumerate(rows[1:], 1):
            test = self._each(lambda x, y: self._assigned("bool", better.format(x, y)), row, best)
            best = self._each(functools.partial(self._chosen, kind), test, row, best)
            number = self._constant(k, eqn.outvars[0].aval)
            index = self._each(functools.partial(self._chosen, dtype), test, number, index)
        yield index

    def _chosen(self, dtype: Any, test: str, x: str, y: str) -> str:
        return self._assigned(dtype, f"({x} if {test} else {y})")

    _argmin = _argmax

    # The primitives that need more than a text for each element.

    def _convert_element_type(self, eqn: Any, value: Value) -> Iterator[Value]:
        source, dtype = eqn.invars[0].aval.dtype, eqn.outvars[0].aval.dtype
        text = "{0}"
        if dtype.kind == "b":
            text = "{0} != 0"
        elif source.kind == "f" and dtype.kind in "iu":  # as XLA does, beyond the range and for NaN
            low, high = (int(getattr(np.iinfo(dtype), n)) for n in ("min", "max"))
            text = (
                f"{{T}}(0) if {{0}} != {{0}} else {{T}}({low}) if {{0}} <= {float(low)} else "
                f"{{T}}({high}) if {{0}} >= {float(high + 1)} else {{T}}({{0}})"
            )
        yield self._each(lambda x: self._assigned(dtype, text.format(x, T=f"np.{dtype}")), value)

    def _bitcast_convert_type(self, eqn: Any, value: Value) -> Iterator[Value]:
        source, dtype = eqn.invars[0].aval.dtype, eqn.outvars[0].aval.dtype
        if source.itemsize != dtype.itemsize:
            raise NotTranslated("between types of different sizes cannot be translated")
        text = f"np.{source}({{0}}).view(np.{dtype})" if source != dtype else "{0}"
        yield self._each(lambda x: self._assigned(dtype, text.format(x)), value)

    def _integer_pow(self, eqn: Any, value: Value) -> Iterator[Value]:
        dtype, exponent = eqn.outvars[0].aval.dtype, eqn.params["y"]

        def power(x: str) -> str:
            result, left = "", abs(exponent)
            while left:
                if left & 1:
                    result = self._assigned(dtype, f"{result} * {x}") if result else x
                left >>= 1
                x = self._assigned(dtype, f"{x} * {x}") if left else x
            result = result or literal(1, dtype)
            return self._assigned(dtype, f"1 / {result}") if exponent < 0 else result

        yield self._each(power, value)

    def _select_n(self, eqn: Any, which: Value, value: Value, *others: Value) -> Iterator[Value]:
        chosen = functools.partial(self._chosen, eqn.outvars[0].aval.dtype)
        for k, other in enumerate(others, 1):
            is_bool = eqn.invars[0].aval.dtype == bool
            test = which if is_bool else self._each(lambda i, k=k: f"{i} >= {k}", which)
            value = self._each(chosen, test, other, value)
        yield value

    def _reduce_precision(self, eqn: Any, value: Value) -> Iterator[Value]:
        info = np.finfo(eqn.outvars[0].aval.dtype)
        if (eqn.params["exponent_bits"], eqn.params["mantissa_bits"]) != (info.nexp, info.nmant):
            raise NotTranslated("to fewer bits cannot be translated")
        yield value

    def _cond(self, eqn: Any, which: Value, *operands: Value) -> list[Value]:
        results = [self._new(v.aval) for v in eqn.outvars]
        branches = eqn.params["branches"]
        for k in reversed(range(len(branches))):
            word = "if" if k == len(branches) - 1 else "elif"
            self._line(f"{word} {which[()]} >= {k}:" if k else "else:")
            self._nested(branches[k], operands, results)
        return results

    def _while(self, eqn: Any, *operands: Value) -> list[Value]:
        n_cond, n_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
        of_cond, of_body = operands[:n_cond], operands[n_cond : n_cond + n_body]
        carry = self._carry(eqn.outvars, operands[n_cond + n_body :])
        self._line("while True:")
        goes_on = f"t{next(self._numbers)}"
        self._nested(eqn.params["cond_jaxpr"], [*of_cond, *carry], [np.asarray(goes_on, object)])
        self._line(f"    if not {goes_on}:")
        self._line("        break")
        self._nested(eqn.params["body_jaxpr"], [*of_body, *carry], carry)
        return carry

    def _scan(self, eqn: Any, *operands: Value) -> list[Value]:
        p = eqn.params
        if "ft_in" in p:  # from JAX 0.12 on
            n, n_carry = map(len, p["ft_in"].unpack()[:2])
        else:
            n, n_carry = p["num_consts"], p["num_carry"]
        length, body = p["length"], p["jaxpr"]
        shared, arrays = operands[:n], operands[n + n_carry :]
        carry = list(operands[n : n + n_carry])
        if not arrays and len(eqn.outvars) == n_carry:
            carry = self._carry(eqn.outvars, carry)
            self._line(f"for _ in range({length}):")
            self._nested(body, [*shared, *carry], carry)
            return carry
        if length > ELEMENTS_MAX:
            text = f"goes over arrays of {length} rows; at most {ELEMENTS_MAX} can be translated"
            raise NotTranslated(text)
        stacked: list[Value] = [np.empty(v.aval.shape, object) for v in eqn.outvars[n_carry:]]
        for i in reversed(range(length)) if p["reverse"] else range(length):
            found = self.block(body, [*shared, *carry, *(np.asarray(a[i], object) for a in arrays)])
            carry = found[:n_carry]
            for array, row in zip(stacked, found[n_carry:], strict=True):
                array[i] = row[()] if row.ndim == 0 else row
        return [*carry, *stacked]

    def _carry(self, variables: Sequence[Any], initial: Sequence[Value]) -> list[Value]:
        carry = [self._new(v.aval) for v in variables]
        self._assign(carry, initial)
        return carry

    def _assign(self, targets: Sequence[Value], values: Sequence[Value]) -> None:
        """Assign to variables at once."""
        left, right = ([str(x) for v in side for x in v.flat] for side in (targets, values))
        self._line(f"{', '.join(left)} = {', '.join(right)}" if left else "pass")

    # Arrays inside a function.

    def _broadcast_in_dim(self, eqn: Any, value: Value) -> Iterator[Value]:
        shape, axes = eqn.params["shape"], eqn.params["broadcast_dimensions"]
        moved = value.transpose(np.argsort(axes))  # JAX takes axes in any order from 0.10 on
        added = tuple({*range(len(shape))} - {*axes})
        yield np.broadcast_to(np.expand_dims(moved, added), shape)

    def _iota(self, eqn: Any) -> Iterator[Value]:
        aval = eqn.outvars[0].aval
        yield self._constant(np.indices(aval.shape)[eqn.params["dimension"]], aval)

    def _slice(self, eqn: Any, value: Value) -> Iterator[Value]:
        p = eqn.params
        strides = p["strides"] or (1,) * value.ndim
        yield value[tuple(map(slice, p["start_indices"], p["limit_indices"], strides))]

    def _dot_general(self, eqn: Any, a: Value, b: Value) -> Iterator[Value]:
        (of_a, of_b), batch = eqn.params["dimension_numbers"]
        aval = eqn.outvars[0].aval
        if any(batch):
            raise NotTranslated("of batches cannot be translated")
        n = len(of_a)
        k = int(np.prod([a.shape[axis] for axis in of_a], dtype=int))
        a = np.moveaxis(a, of_a, range(n)).reshape(k, -1, 1)
        b = np.moveaxis(b, of_b, range(n)).reshape(k, 1, -1)
        yield self._folded("add", self._computed("mul", aval.dtype, aval.dtype, a, b), (0,), aval)

    def _split(self, eqn: Any, value: Value) -> list[Value]:
        return np.split(value, np.cumsum(eqn.params["sizes"])[:-1], eqn.params["axis"])

    def _unstack(self, eqn: Any, value: Value) -> Iterator[Value]:
        return (np.asarray(x, object) for x in np.moveaxis(value, eqn.params["axis"], 0))

    def _pad(self, eqn: Any, value: Value, filled: Value) -> Iterator[Value]:
        """Place elements at distances, then add to or cut off both ends."""
        for axis, (low, high, inside) in enumerate(eqn.params["padding_config"]):
            n, step = value.shape[axis], inside + 1
            places, rest = np.divmod(np.arange(-low, max((n - 1) * step + 1, 0) + high), step)
            places[(rest != 0) | (places < 0) | (places > n)] = n  # which is one of `filled`
            more = [(0, int(i == axis)) for i in range(value.ndim)]
            value = np.take(np.pad(value, more, constant_values=filled[()]), places, axis)
        yield value


def _check(aval: Any) -> None:
    """Refuse what no variables of the text can be."""
    if str(aval.dtype) not in DTYPES:
        raise NotTranslated(f"returns {aval.dtype}, which kernels do not compute")
    if aval.size > ELEMENTS_MAX:
        text = f"returns an array of shape {aval.shape}; kernels inline functions of scalars"
        raise NotTranslated(text)
