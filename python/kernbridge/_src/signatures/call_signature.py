"""`signature=`: what a call takes and returns, written once, such as "x: f32[n], k: f32 -> f32[n]".

`array_types.py` reads the types of arrays. From a signature follow the checks of a
call, its outputs, the parameters of the kernel that they fill, and numbers of a launch.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kernbridge._src.base.errors import counted, short, unknown_name
from kernbridge._src.base.private_jax import Tracer
from kernbridge._src.base.struct import Struct
from kernbridge._src.calls.batch_axes import Arrays
from kernbridge._src.calls.call import ArrayType, Fields, NamedTypes, Types, has_type
from kernbridge._src.signatures import array_types
from kernbridge._src.signatures.array_types import ANY, DTYPE_NAMES, LEADING, is_variable, place_of

_EXAMPLE = 'such as "x: f32[n], k: f32 -> f32[n]"'
_LONGER = re.compile(r"([A-Za-z]\w*) \+ \d+")  # an array that has a few elements more
_ITEM = re.compile(r"\s*(?:([A-Za-z_]\w*)\s*([:=]))?\s*(.*?)\s*", re.DOTALL)
_FIELD = re.compile(r"(?<![.\w])([A-Za-z_]\w*)\.(\w+)(?=\s*[:=])")  # such as M.data
RETURN = "return"  # the output that a function of C returns


class Parameter(Struct):
    """One input or output: the kernel's parameter for it, and its type.

    A number has no brackets in its type, and is passed to the kernel as a number instead of an
    array. An input without a type may be either, and an output without one is an input that the
    kernel changes. A field, such as `M.data`, has a parameter of its own, `M_data`.
    """

    name: str
    type: array_types.DeclaredType | None = None
    is_number: bool = False
    extent: str = ""  # that a function of C receives as a number, and that no call passes
    field: tuple[str, ...] = ()  # of which argument it is which field

    def __str__(self) -> str:
        if self.extent:
            return f"{self.name} = {self.extent}"
        return f"{self.shown}: {self.annotation}" if self.annotation else self.shown

    @property
    def shown(self) -> str:
        return ".".join(self.field or (self.name,))

    @property
    def annotation(self) -> str:
        if self.type is None:
            return ""
        return short(self.type.dtype) if self.is_number else str(self.type)


class CallSignature(Struct):
    """The inputs and outputs of an operation. An output with the name of an input replaces it."""

    label: str
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    extents: tuple[Parameter, ...] = ()

    @staticmethod
    def read(
        label: str, text: Any, inplace: Any, names: Sequence[str], optional: Collection[str]
    ) -> CallSignature | None:
        """The signature of a kernel with these parameters, of which some have defaults.

        `text` and `inplace` are the arguments of the user, each of which may be None.
        """
        for what, given in (("signature", text), ("inplace", inplace)):
            if given is not None and not isinstance(given, str):
                raise TypeError(
                    f"{label}: {what} is {given!r} of type {type(given).__name__}, expected a "
                    f"text {_EXAMPLE if given is text else 'with names of parameters'} [KB1010]"
                )
        changed = [name.strip() for name in inplace.split(",")] if inplace else []
        for name in changed:
            if changed.count(name) > 1:
                raise ValueError(f"{label}: inplace names {name!r} twice; write it once [KB1010]")
            if name not in names:
                raise ValueError(
                    f"{label}: inplace names {name!r}, but the kernel's parameters are "
                    f"{', '.join(names)} [KB1010]"
                )
        if text is None:
            inputs, outputs = tuple(map(Parameter, names)), tuple(map(Parameter, changed))
            return CallSignature(label, inputs, outputs) if changed else None
        try:
            return CallSignature.parse(label, text, changed, names, optional)
        except ValueError as e:
            raise ValueError(f"{label}: the signature {text!r}: {e} [KB1010]") from None

    @staticmethod
    def parse(
        label: str,
        text: str,
        changed: Sequence[str],
        names: Sequence[str],
        optional: Collection[str],
        unclear: Collection[str] | None = None,
    ) -> CallSignature:
        """As `read`; ValueError says only what is wrong with the text.

        A function of C has parameters of which it is `unclear` whether they are outputs (perhaps
        none). On the left side, an extent without a type, such as `n`, `rows + 1`, `-1` or `'T'`,
        is a number that C receives; `lda = n` names its parameter. On the right side,
        `return: f64` is what the function returns.
        """
        text, fields, names = _flat(text, names)
        sides = text.split("->")
        if len(sides) != 2:
            raise ValueError(f'write "->" once, between inputs and outputs, {_EXAMPLE}')
        right = _items(sides[1], names)
        if unclear is None:
            left = _items(sides[0], ())
        else:
            left = _items(sides[0], names, re.findall(r"\w+(?=[^\[]*\])", sides[0]))
        left, right = ([p._replace(field=fields.get(p.name, ())) for p in s] for s in (left, right))
        begin = [p.field[:1] or (i,) for i, p in enumerate(left)]  # fields follow each other
        left = [left[i] for i in sorted(range(len(left)), key=lambda i: begin.index(begin[i]))]
        inputs, outputs, extents = _named(left, right, names, optional, unclear)
        have = [p.name for p in outputs]
        outputs += tuple(Parameter(name, None) for name in changed if name not in have)
        result = CallSignature(label, inputs, outputs, extents)
        result._check()
        return result

    def _check(self) -> None:
        by_name = {p.name: p for p in (*self.inputs, *self.extents)}
        known = {name for p in self.inputs if p.type for name in p.type.names}
        for p in self.outputs:
            same = by_name.get(p.name)
            if same is not None and same.is_number:
                raise ValueError(f"{p.name!r} is a number, which no call can change")
            if same is not None and p.type not in (None, same.type):
                raise ValueError(
                    f"{p.name!r} is {same.type} before and {p.type} after the call; an array that "
                    "the kernel changes keeps its type"
                )
            if p.is_number:
                raise ValueError(f"the output {p.annotation} has no shape; write {p.annotation}[]")
            if same is None and p.type is not None and not p.type.dtype:
                raise ValueError("the output any has no dtype; write one, or a name such as T")
            unknown = [name for name in (p.type.names if p.type else ()) if name not in known]
            if same is None and unknown:
                raise ValueError(
                    f"no input has the dimension or dtype {unknown[0]!r} of the output "
                    f"{p.annotation!r}; name a dimension of an input, or write a number"
                )
        for p in self.extents:
            if unknown := [name for name in array_types.names_in(p.extent) if name not in known]:
                raise ValueError(
                    f"no input has the dimension {unknown[0]!r}, which the parameter {p.name!r} "
                    "receives; name a dimension of an input, or write a number or a dtype"
                )

    def __str__(self) -> str:
        left, right = (", ".join(map(str, side)) for side in (self.inputs, self.outputs))
        return f"{left} -> {right}"

    @property
    def dimensions(self) -> set[str]:
        dims = {str(d) for p in self.inputs if p.type for d in p.type.dims}
        return {name for d in dims for name in array_types.names_in(d)}

    @property
    def with_arrays(self) -> CallSignature:
        """This signature for a function whose numbers are arrays without dimensions."""
        return self._replace(inputs=tuple(p._replace(is_number=False) for p in self.inputs))

    @property
    def of_arrays(self) -> CallSignature:
        """This signature for a function that takes the arrays alone, and fields one by one."""
        inputs = (p._replace(field=()) for p in self.inputs if not p.is_number)
        return self._replace(inputs=tuple(inputs))

    @functools.cached_property
    def arguments(self) -> dict[str, list[Parameter]]:
        """The inputs that each argument of a call has: itself, or its fields."""
        found: dict[str, list[Parameter]] = {}
        for p in self.inputs:
            found.setdefault(p.field[0] if p.field else p.name, []).append(p)
        return found

    @functools.cached_property
    def fields(self) -> dict[str, Fields]:
        held = {name: ps for name, ps in self.arguments.items() if ps[0].field}
        return {name: Fields(tuple(p.field[1] for p in ps)) for name, ps in held.items()}

    @property
    def python(self) -> inspect.Signature:
        kind, empty = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.empty
        texts = {n: ", ".join(p.annotation for p in ps) for n, ps in self.arguments.items()}
        parameters = [inspect.Parameter(n, kind, annotation=t or empty) for n, t in texts.items()]
        returned = ", ".join(p.annotation or p.shown for p in self.outputs)
        return inspect.Signature(parameters, return_annotation=returned)

    @property
    def bound(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The kernel's parameters for inputs and for outputs, in the order of a call."""
        inputs = tuple(p.name for p in self.inputs if not p.is_number)
        return inputs, tuple(p.name for p in self.outputs)

    def aliases(self, scalars: Collection[str] = ()) -> tuple[tuple[int, int], ...]:
        """The inputs that outputs replace, of a call with these scalars."""
        inputs, outputs = self.bound
        arrays = [name for name in inputs if name not in scalars]
        return tuple((arrays.index(name), o) for o, name in enumerate(outputs) if name in arrays)

    def places(self, scalars: Sequence[str]) -> tuple[int, ...]:
        """Where the inputs of a call are among its arrays and then these scalars."""
        arrays = [p.name for p in self.inputs if p.name not in scalars]
        return tuple([*arrays, *scalars].index(p.name) for p in self.inputs)

    @property
    def sharding_rule(self) -> str:
        """The dimensions of its arrays as a rule.

        A name that occurs in a product or a sum, except in those such as `rows + 1` of an input, or
        twice in one array, does not split it.
        """
        types = {p.name: p.type for p in (*self.inputs, *self.outputs) if p.type is not None}
        dims = {name: list(map(str, t.dims)) for name, t in types.items()}
        inputs = [dims.get(p.name, []) for p in self.inputs if not p.is_number]
        outputs = [dims.get(p.name, []) for p in self.outputs]
        unsplit = _unsplit(inputs, may_be_longer=True) | _unsplit(outputs, may_be_longer=False)
        n = itertools.count()

        def term(dims: Sequence[str]) -> str:
            return " ".join(
                d if d == LEADING or _split_along(d) not in {"", *unsplit} else f"whole{next(n)}"
                for d in dims
            )

        return f"{', '.join(map(term, inputs))} -> {', '.join(map(term, outputs))}"

    def split(
        self, args: Arrays, keywords: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The arguments of a call by name, in their order, and the keywords that name none."""
        rest = {name: x for name, x in keywords.items() if name not in self.arguments}
        return self._bound(args, {n: x for n, x in keywords.items() if n not in rest}), rest

    def _bound(self, args: Arrays, keywords: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self.python.bind(*args, **keywords).arguments
        except TypeError as e:
            why = unknown_name(keywords, list(self.arguments)) or e
            raise TypeError(
                f"{self.label}: {why}; the call has {counted(len(args), 'argument')}"
                + "".join(f", {name}=" for name in keywords)
                + f", expected ({', '.join(map(str, self.inputs))}) [KB2001]"
            ) from None

    def bind(self, args: Arrays, keywords: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arrays and the keyword scalars of a call, whose arguments may be given by name."""
        arrays, scalars = [], {}
        changed = self.bound[1]
        for p, value in zip(self.inputs, self.converted(args, keywords).values(), strict=True):
            may_be_number = p.type is None and p.name not in changed and not np.ndim(value)
            if p.is_number or may_be_number:
                scalars[p.name] = value
            else:
                arrays.append(value)
        return arrays, scalars

    def converted(self, args: Arrays, keywords: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name, in their order, weak values in their declared dtypes."""
        given = self.by_input(self._bound(args, keywords))
        return {p.name: _converted(given[p.name], self._dtype_of(p, given)) for p in self.inputs}

    def by_input(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The values of inputs, of which arguments may be fields; TypeError if they have others."""
        found = dict(given)
        for name in self.fields.keys() & found.keys():
            value, inputs = found.pop(name), self.arguments[name]
            held = Fields.of(value) or Fields(())
            if {*held.names} != {*self.fields[name].names}:
                is_array = has_type(value) and not held.names
                kind = ArrayType.of(value) if is_array else f"of type {type(value).__name__}"
                raise TypeError(
                    f"{self.label}: argument {name!r} is {kind} and has the fields "
                    f"{', '.join(held.names) or '(none)'}, but the signature has "
                    f"{', '.join(p.shown for p in inputs)}; pass a named tuple, a registered "
                    "dataclass or a sparse matrix of JAX with these arrays alone [KB2007]"
                )
            for own, (_, field) in ((p.name, p.field) for p in inputs):
                found[own] = value[int(field)] if held.is_plain else getattr(value, field)
        return found

    def _dtype_of(self, p: Parameter, given: Mapping[str, Any]) -> str:
        """The dtype of an input; for a variable, the dtype of an array of this call that has it."""
        if p.type is None or not is_variable(p.type.dtype):
            return p.type.dtype if p.type else ""
        same = (given.get(q.name) for q in self.inputs if q.type and q.type.dtype == p.type.dtype)
        dtypes = [ArrayType.of(x).dtype for x in same if has_type(x) and not is_weak(x)]
        return jax.dtypes.canonicalize_dtype(dtypes[0]).name if dtypes else ""

    @functools.cached_property
    def _may_wrap(self) -> list[tuple[int, Parameter, str]]:
        """The inputs without dimensions that may be integers: place, and dtype if it is known."""
        return [
            (i, p, "" if is_variable(p.type.dtype) else p.type.dtype)
            for i, p in enumerate(self.inputs)
            if p.type and not p.type.dims
            if "int" in p.type.dtype or is_variable(p.type.dtype)
        ]

    def check_numbers(self, args: Arrays, keywords: Mapping[str, Any]) -> None:
        """Refuse numbers of Python that would wrap around, before JAX traces a call."""
        if not self._may_wrap:
            return
        given = self.by_input({**dict(zip(self.arguments, args, strict=False)), **keywords})
        for i, p, dtype in self._may_wrap:
            value = given.get(p.name)
            if is_weak(value) and (dtype or not isinstance(value, Tracer)):
                place = place_of(i, len(self.inputs), p.shown)
                check_number(f"{self.label}: {place}", value, dtype or self._dtype_of(p, given))

    def match(self, inputs: Types, scalars: NamedTypes, outs: Types = ()) -> dict[str, Any]:
        """What names mean in a call; TypeError if an array is not of its type."""
        left = iter(inputs)
        given = [scalars.get(p.name) or next(left) for p in self.inputs]
        declared = [(p.shown, p.type) for p in (*self.inputs, *self.outputs)]
        found = array_types.Extents(
            f"{self.label}: ", len(given), declared, (*given, *outs), ties_leading=True
        )
        return found.values

    def outs(self, inputs: Types, scalars: NamedTypes) -> Any:
        """The output or the outputs of a call, whose arguments are checked."""
        values = self.match(inputs, scalars)
        replaced = {o: inputs[i] for i, o in self.aliases(scalars)}
        outs = tuple(
            replaced.get(o) or _type_of(self.label, p.type, values)
            for o, p in enumerate(self.outputs)
        )
        return outs[0] if len(outs) == 1 else outs

    def check_outs(self, inputs: Types, scalars: NamedTypes, outs: Types) -> None:
        """Check the arguments of a call, and outputs that the user describes in another way."""
        if len(outs) != len(self.outputs):
            raise ValueError(
                f"{self.label}: `outs` has {counted(len(outs), 'output')}, but the signature "
                f"'{self}' has {len(self.outputs)}; leave out one of the two [KB1010]"
            )
        self.match(inputs, scalars, outs)

    def numbers(self, what: str, given: Any) -> Any:
        """Numbers, or a tuple of them, that name dimensions, as a function of the inputs."""
        parts = given if isinstance(given, (tuple, list)) else (given,)
        if not any(isinstance(part, str) for part in parts):
            return given
        known = self.dimensions
        texts = []
        for part in parts:
            try:
                dim = str(array_types.read_dim(str(part), ""))
                if any(n not in known for n in array_types.names_in(dim)):
                    raise ValueError
            except ValueError:
                raise ValueError(
                    f"{self.label}: {what} is {given!r}, expected numbers, or sums and products of "
                    f"dimensions of the signature, which are {', '.join(sorted(known))} [KB1102]"
                ) from None
            texts.append(dim)
        return DimensionsOf(self, texts[0] if given is parts[0] else tuple(texts))


@dataclass(frozen=True)
class ResultsOf:
    """The types of what a function returns, as a function of the arrays of a call."""

    signature: CallSignature
    names: tuple[str, ...]  # of the function's parameters that get the arrays

    @staticmethod
    def read(
        label: str, text: Any, names: Sequence[str], optional: Collection[str] = ()
    ) -> ResultsOf | None:
        """The results that a signature describes; None if some parameters are for outputs.

        Of the last parameters, those that are `optional` may be left out.
        """
        given, results = text, []
        names = _flat(text, names)[2] if isinstance(text, str) else names
        n_required = sum(name not in optional for name in names)
        if isinstance(text, str) and len(split_items(text.partition("->")[0])) < n_required:
            return None
        if isinstance(text, str) and text.count("->") == 1:
            left, right = text.split("->")
            for i, item in enumerate(split_items(right)):
                item = item.strip() + ("" if "[" in item else "[]")  # numbers are 0-d arrays
                results.append(f"result{i}: {item}")
            text = f"{left.strip()} -> {', '.join(results)}"
        results = [item.partition(":")[0] for item in results]
        declared = CallSignature.read(label, text, None, [*names, *results], optional)
        assert declared is not None
        described = {p.name for p in declared.inputs}
        taken = tuple(names[: len(described)])
        if missing := [name for name in taken if name not in described]:
            raise ValueError(
                f"{label}: the signature {given!r}: it does not describe the parameter "
                f"{missing[0]!r}, after which it describes others; describe it, too [KB1010]"
            )
        return ResultsOf(declared, taken)

    def __call__(self, /, *arrays: Any) -> Any:
        given = dict(zip(self.names, map(ArrayType.of, arrays), strict=True))
        signature = self.signature.with_arrays
        return signature.outs([given[p.name] for p in signature.inputs], {})


@dataclass(frozen=True)
class DimensionsOf:
    """A function of a call's arrays and scalars that returns one or some of its dimensions."""

    signature: CallSignature
    dims: str | tuple[str, ...]

    def __call__(self, /, *inputs: Any, **scalars: Any) -> Any:
        named = {n: ArrayType.of(t) for n, t in scalars.items()}
        values = self.signature.match([ArrayType.of(t) for t in inputs], named)
        if isinstance(self.dims, str):
            return array_types.evaluate(self.dims, values)
        return tuple(array_types.evaluate(dim, values) for dim in self.dims)


def own_names(text: Any) -> list[str]:
    """Names for the inputs and outputs of a signature, as far as it has none."""
    names: dict[str, None] = {}
    text = _flat(text, ())[0] if isinstance(text, str) else ""
    for item in split_items(text.replace("->", ",")):
        name, _, what = _ITEM.fullmatch(item).groups()  # type: ignore[union-attr]
        if what and what not in names:
            names[name or f"array{len(names)}"] = None
    return list(names)


def _flat(text: str, names: Sequence[str]) -> tuple[str, dict[str, Any], list[str]]:
    """A text with names for fields, such as `M_data`, what they are, and names with these."""
    fields = {"_".join(m): m for m in _FIELD.findall(text.partition("->")[0])}
    for name, field in fields.items():  # of which outputs may have the name alone
        text = re.sub(rf"(?<![.\w])\b{re.escape('.'.join(field))}\b", name, text)
    parts = ([n for n, (argument, _) in fields.items() if argument == name] for name in names)
    flat = [part for name, own in zip(names, parts, strict=True) for part in own or [name]]
    return text, fields, flat


def split_items(side: str) -> list[str]:
    """The items of one side, which commas separate, except in brackets."""
    return re.split(r",(?![^\[]*\])", side) if side.strip() else []


def _items(side: str, names: Sequence[str], dims: Collection[str] | None = None) -> list[Parameter]:
    """The items of one side, which are extents, too, if `dims` are given.

    The dimensions `dims` and the parameters `names` are no dtypes.
    """
    items = []
    for item in split_items(side):
        name, mark, text = _ITEM.fullmatch(item).groups("")  # type: ignore[union-attr]
        is_word, is_dtype = text.isidentifier() and text != ANY, text in DTYPE_NAMES
        is_type = mark == ":" or "[" in text or (is_dtype and text not in (dims or ()))
        if dims is not None and (mark == "=" or not is_type):
            name = name or text * (text in names)
            items.append(Parameter(name, None, True, _extent(text, item)))
        elif mark == "=":
            raise ValueError(f"{item.strip()!r} is no type; write {name}: and its type")
        elif is_word and not mark and (text in names or not (is_dtype or is_variable(text))):
            items.append(Parameter(text))  # the name of an input
        elif is_word:
            dtype = text if is_variable(text) else array_types.named_dtype(text)
            items.append(Parameter(name, array_types.DeclaredType(dtype, ()), True))
        else:
            items.append(Parameter(name, array_types.DeclaredType.parse(text)))
    return items


def _extent(text: str, item: str) -> str:
    if re.fullmatch(r"[+-]?\d+|'[^'\\]'", text):
        return str(ord(text[1]) if text[0] == "'" else int(text))
    try:
        return str(array_types.read_dim(text, item))
    except ValueError:
        raise ValueError(
            f"{item.strip()!r} is neither an array such as x: f64[n], nor a number such as k: f64, "
            "nor an extent such as n"
        ) from None


def _named(
    left: Sequence[Parameter],
    right: Sequence[Parameter],
    names: Sequence[str],
    optional: Collection[str],
    unclear: Collection[str] | None,
) -> tuple[tuple[Parameter, ...], ...]:
    """Inputs, outputs, and extents, with the parameters' names; ValueError if they do not fit."""
    written = {item.name for item in left} | {item.name for item in right if item.type}
    is_c = unclear is not None
    what = "function" if is_c else "kernel"
    parameters = f"the {what}'s parameters are {', '.join(names) or 'none'}"
    free = [name for name in names if name not in written]
    inputs: dict[str, Parameter] = {}
    outputs: dict[str, Parameter] = {}
    for found, side in ((inputs, left), (outputs, right)):
        returned = (RETURN,) if is_c and side is right else ()
        for item in side:
            if not (item.name or free or returned):
                raise ValueError(f"it has more inputs and outputs than parameters; {parameters}")
            name = item.name or (free.pop(0) if free else RETURN)
            if name not in (*names, *returned):
                raise ValueError(
                    f"{parameters}, and none is {item.shown!r}; use their names, or leave out"
                )
            if name in found:
                shown = item.shown or name
                raise ValueError(f"{shown!r} stands twice on one side; write it once")
            found[name] = item._replace(name=name, is_number=item.is_number and name != RETURN)
            if not item.name and side is left and name in (unclear or ()):
                raise ValueError(
                    f"the parameter {name!r} can be an input or an output; name it, as in "
                    f"{found[name]}"
                )
    if missing := [name for name in free if name not in optional]:
        remedy = f"{parameters}; if it takes a function or a constant, give it a default"
        if is_c:
            remedy = "add what it receives: an array, a number such as f64, an extent such as n, "
            remedy += "or a constant"
        raise ValueError(f"it does not describe the parameter {missing[0]!r}; {remedy}")
    for p in (*inputs.values(), *(p for p in outputs.values() if p.name not in inputs)):
        if p.type is None and not p.extent:
            hint = ", or leave it out, if it is a dimension" if p.name in optional else ""
            raise ValueError(f"{p.shown!r} has no type; write {p.shown}: and its type{hint}")
    extents = tuple(p for p in inputs.values() if p.extent)
    return tuple(p for p in inputs.values() if not p.extent), tuple(outputs.values()), extents


def _split_along(dim: str, may_be_longer: bool = True) -> str:
    """The name along which a dimension is split: n of `n`, or of `n + 1` if that is possible."""
    longer = _LONGER.fullmatch(dim) if may_be_longer else None
    name = longer[1] if longer else dim
    return name if name.isidentifier() else ""


def _unsplit(terms: Sequence[list[str]], may_be_longer: bool) -> set[str]:
    """The names in dimensions that cannot be split, or that one array has twice."""
    return {
        name
        for dims in terms
        for d in dims
        if not _split_along(d, may_be_longer) or dims.count(d) > 1
        for name in array_types.names_in(d)
    }


def _type_of(
    label: str, declared: array_types.DeclaredType | None, values: Mapping[str, Any]
) -> ArrayType:
    assert declared is not None
    shape: list[Any] = []
    for dim in declared.dims:
        if dim == LEADING:
            shape += values[LEADING]
        else:
            extent = array_types.evaluate(dim, values) if isinstance(dim, str) else dim
            if isinstance(extent, int) and extent < 0:
                raise ValueError(
                    f"{label}: the extent {dim} of the output {declared} is {extent}; pass larger "
                    "inputs [KB2007]"
                )
            shape.append(extent)
    return ArrayType(tuple(shape), np.dtype(values.get(declared.dtype, declared.dtype)))


def is_weak(value: Any) -> bool:
    """Whether a value is a number of Python, or one that JAX has made of it."""
    kind = jax.typeof(value) if isinstance(value, jax.Array) else None
    return isinstance(value, (int, float, complex)) or getattr(kind, "weak_type", False)


def check_number(place: str, value: Any, dtype: str) -> None:
    """Refuse a weak integer that would wrap around in a dtype, and a traced one that may.

    A traced one takes every dtype of 32 or 64 bits, as everywhere in JAX.
    """
    kind = np.dtype(getattr(value, "dtype", type(value))).kind if is_weak(value) else ""
    if kind != "i" or "int" not in dtype or np.ndim(value):
        return
    info = np.iinfo(dtype)
    is_traced = isinstance(value, Tracer)
    if info.bits < 32 if is_traced else not info.min <= int(value) <= info.max:
        what = "traced, and may be" if is_traced else f"{value}, which is"
        remedy = f"convert it to {dtype}" if is_traced else "pass such a number"
        raise TypeError(
            f"{place} is {what} out of range for {dtype} ({info.min} to {info.max}); {remedy}, or "
            "declare another type [KB2007]"
        )


def _converted(value: Any, declared: str) -> Any:
    """A weak value in the dtype that is declared for it, if JAX would convert it."""
    if not declared or not is_weak(value):
        return value
    dtype = jnp.dtype(declared)
    may_wrap = dtype.kind in "iu" and dtype.itemsize < 4 and np.ndim(value)
    fits = jnp.result_type(value, dtype) == dtype and not may_wrap
    return jnp.asarray(value, dtype) if fits else value
