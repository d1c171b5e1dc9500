"""The specification of an operation: outputs, aliases, batching and effects.

This code runs when a kernel is wrapped or traced, and never when the operation runs. JAX orders the
values of a dict by its sorted keys, which is seldom the order in which a kernel takes its outputs,
so `Outputs` matches the leaves of `outs` with the outputs of the kernel, by name or by place.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, fields, replace
from types import FunctionType
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
from jax.tree_util import DictKey, GetAttrKey

from kernbridge._src.base import private_jax, settings
from kernbridge._src.base.errors import counted
from kernbridge._src.base.options import read_flag
from kernbridge._src.base.reports import beginning_of, warn
from kernbridge._src.calls.batch_axes import Arrays
from kernbridge._src.calls.call import ArrayType, Call, NamedTypes, Types, has_type, is_inexact
from kernbridge._src.sharding.rule import ShardingRule

# Methods that pass the batch to the kernel as an extra array axis.
RANK_METHODS = ("expand_dims", "broadcast_all", "legacy_vectorized")
VMAP_METHODS = (None, "sequential", "sequential_unrolled", *RANK_METHODS)

Functions = list[tuple[str, Callable[..., Any]]]
"""Functions of the user that run while a call is traced or lowered, by the names of arguments."""


FROM_SIGNATURE: Any = ...
"""The outputs of an operation whose signature describes them."""
ENZYME = "enzyme"
"""The rule, in the place of a function, for derivatives that Enzyme makes."""
OUTPUTS = "outputs"
"""What rules that take inputs by name call all results, in the form of `outs`."""
Rule = Callable[..., Any] | str | None
Mode = Literal["jvp", "vjp"]


class Step(NamedTuple):
    """One differentiation of a kernel, with respect to the operands of these indices."""

    mode: Mode
    active: tuple[int, ...]
    with_values: bool = False  # whether the kernel's results come before their tangents


@dataclass(frozen=True, slots=True)
class Outputs:
    """The outputs of one call: the pytree that they form, and their types in the kernel's order."""

    types: tuple[ArrayType, ...]
    tree: Any  # of JAX
    names: tuple[str, ...]  # the key or field that holds each leaf; empty for items of sequences
    written: tuple[int, ...]  # the indices of the leaves, in the order in which the user wrote them
    order: tuple[int, ...]  # the kernel's output j is leaf order[j] of the tree

    @staticmethod
    def of(label: str, outs: Any) -> Outputs:
        """Read `outs`, a pytree of objects with a shape and a dtype, in JAX's order."""
        found, tree = jax.tree_util.tree_flatten_with_path(outs, is_leaf=has_type)
        leaves, order = [leaf for _, leaf in found], tuple(range(len(found)))
        names = tuple(_name(path) for path, _ in found)
        written = tuple(_as_written(outs, tree.unflatten(order)))
        types = tuple(_read_type(label, i, leaf) for i, leaf in enumerate(leaves))
        return Outputs(types, tree, names, written, order)

    def __str__(self) -> str:
        named = zip((self.names[i] for i in self.order), self.types, strict=True)
        return ", ".join(f"{name}: {t}" if name else str(t) for name, t in named) or "none"

    def unflatten(self, outputs: Arrays) -> Any:
        leaves = dict(zip(self.order, outputs, strict=True))
        return self.tree.unflatten([leaves[i] for i in range(len(leaves))])

    def flatten_up_to(self, value: Any) -> list[Any]:
        """The parts of a pytree of the same form, one for each output."""
        leaves = self.tree.flatten_up_to(value)
        return [leaves[i] for i in self.order]

    def in_order(self, label: str, parameters: Sequence[str]) -> Outputs:
        """Return these outputs, as just read, in the order of the kernel's output parameters.

        ValueError is raised if the keys neither are the names of the parameters nor are sorted.
        """
        if len({*self.names}) == len(self.names) and {*self.names} == {*parameters}:
            order = tuple(map(self.names.index, parameters))
            return replace(self, types=tuple(self.types[i] for i in order), order=order)
        self.refuse_reordered(label, parameters)
        for name, parameter in zip(self.names, parameters, strict=False):
            if name != parameter and name in parameters:
                raise ValueError(
                    f"{label}: `outs` has the keys {_listed(self.names)}, but the kernel's "
                    f"outputs are {_listed(parameters)}: {name!r} would be filled by the "
                    f"parameter {parameter!r}. Name every output like its parameter, or pass a "
                    "tuple in the order of the parameters [KB1003]"
                )
        return self

    def canonical(self, label: str) -> Outputs:
        """Return these outputs with dtypes that JAX can hold now; warn of each that changes."""
        types = list(self.types)
        for i, t in enumerate(types):
            dtype = np.dtype(jax.dtypes.canonicalize_dtype(t.dtype))
            if dtype == t.dtype or settings.keeps_64_bits:
                continue
            types[i] = ArrayType(t.shape, dtype)
            warn(
                f"{label}: output {i} has dtype {t.dtype.name}, but 64-bit types are disabled in "
                f"JAX, so the kernel writes {dtype.name} instead. Enable them with "
                "jax.config.update('jax_enable_x64', True) or with the environment variable "
                "JAX_ENABLE_X64=1. [KB1009]"
            )
        return replace(self, types=tuple(types))

    def refuse_reordered(self, label: str, parameters: Sequence[str]) -> None:
        if self.written == tuple(range(len(self.written))):
            return
        named = [name for name in parameters if name]
        remedy = "name the keys like the kernel's parameters, " if named else ""
        of = f", which are none of its outputs ({_listed(named)})" if named else ""
        raise ValueError(
            f"{label}: the keys of `outs` are written in the order "
            f"{_listed([self.names[i] for i in self.written])}{of}, but JAX orders the outputs of "
            f"a dict by their sorted keys, {_listed(self.names)}, so the kernel would fill them "
            f"in a different order. To make the order clear, {remedy}write the keys in sorted "
            "order, or pass a tuple or a named tuple in the order of the kernel's outputs [KB1003]"
        )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) if name else "(no name)" for name in names)


def _name(path: Sequence[Any]) -> str:
    last = path[-1] if path else None
    if isinstance(last, DictKey):
        return last.key if isinstance(last.key, str) else repr(last.key)
    return last.name if isinstance(last, GetAttrKey) else ""


def _as_written(node: Any, numbered: Any) -> Iterator[int]:
    """Yield the numbers of the leaves of a node in JAX's order, but dicts in their own."""
    if isinstance(numbered, int):
        yield numbered
    elif isinstance(node, dict):
        for key in node:
            yield from _as_written(node[key], numbered[key])
    else:
        flatten = jax.tree_util.default_registry.flatten_one_level
        for parts in zip(flatten(node)[0], flatten(numbered)[0], strict=True):
            yield from _as_written(*parts)


def _read_type(label: str, index: int, leaf: Any) -> ArrayType:
    if not has_type(leaf):
        raise TypeError(
            f"{label}: output {index} in `outs` is {leaf!r} of type {type(leaf).__name__}, "
            "expected an object with a shape and a dtype; use jax.ShapeDtypeStruct(shape, dtype) "
            "[KB1002]"
        )
    for d in leaf.shape:
        if has_type(d) or (isinstance(d, (int, np.integer)) and d < 0):
            what = f"the extent {d}; use its shape" if has_type(d) else f"the negative extent {d}"
            raise ValueError(f"{label}: output {index} in `outs` has {what} [KB1002]")
    where = leaf.sharding if isinstance(leaf, jax.ShapeDtypeStruct) else None
    if any(spec := getattr(where, "spec", ())):
        raise ValueError(
            f"{label}: output {index} in `outs` has the sharding {spec}, but an operation takes "
            "the sharding of its outputs from sharding_rule=; leave it out here, and pass a rule, "
            "or call jax.reshard on the result [KB1002]"
        )
    return ArrayType.of(leaf)


@dataclass(frozen=True, repr=False)
class OperationSpec:
    """The arguments of `numba_kernel` and its siblings except the kernel; hashable if `outs` is."""

    label: str
    outs: Any  # `Outputs`, a function that returns what they are read from, or FROM_SIGNATURE
    vmap_method: str | None = None
    aliases: Any = None  # given as a dict; pairs of an input and an output
    has_side_effect: bool = False
    jvp: Rule = None
    vjp: Rule = None
    linear: Any = ()  # names of inputs, given as a sequence or separated by commas
    attributes: InitVar[Sequence[str]] = ()  # which derivative rules get as keywords
    sharding_rule: Any = None  # given as a `ShardingRule` or its text
    vmap_threads: bool | None = None
    signature: Any = None  # a `CallSignature`

    @staticmethod
    def of(
        given: Mapping[str, Any],
        label: str,
        outs: Any,
        attributes: Sequence[str] = (),
        signature: Any = None,
    ) -> OperationSpec:
        """The specification by the options `given` to a public function, perhaps its `locals()`."""
        automatic = given.get("derivatives")
        if automatic not in (None, ENZYME):
            raise ValueError(
                f"{label}: derivatives is {automatic!r}, expected {ENZYME!r} or None; pass "
                "a rule of your own as vjp= or jvp= [KB1007]"
            )
        names = ("vmap_method", "has_side_effect", "linear", "sharding_rule", "vmap_threads")
        options = {name: given[name] for name in names if name in given}
        for mode in ("jvp", "vjp"):
            options[mode] = automatic if given.get(mode) is None else given[mode]
        options.update(aliases=given.get("input_output_aliases"), attributes=attributes)
        return OperationSpec(label, outs, signature=signature, **options)

    def __post_init__(self, attributes: Sequence[str]) -> None:
        """Check everything that does not depend on inputs."""
        label, outs = self.label, self.outs
        if self.vmap_method not in VMAP_METHODS:
            raise ValueError(
                f"{label}: vmap_method is {self.vmap_method!r}, expected one of {VMAP_METHODS} "
                "[KB1005]"
            )
        effect = read_flag(label, "has_side_effect", self.has_side_effect)
        threads = self.vmap_threads
        if threads is not None:
            threads = read_flag(label, "vmap_threads", threads)
        if isinstance(outs, type) or type(outs).__name__ == "_ScalarMeta":  # a dtype, or a class
            raise TypeError(
                f"{label}: `outs` is {outs!r}, expected the shape and dtype of each output; use "
                f"jax.ShapeDtypeStruct(shape, {getattr(outs, '__name__', 'dtype')}) [KB1002]"
            )
        if outs is FROM_SIGNATURE:
            if self.signature is None:
                raise TypeError(
                    f"{label}: neither `outs` nor a signature describes the outputs; pass "
                    'signature="x: f32[n] -> f32[n]", or outs= with their shapes and dtypes '
                    "[KB1002]"
                )
        elif (s := self.signature) and not any(p.type for p in (*s.inputs, *s.outputs)):
            raise TypeError(
                f"{label}: inplace= without signature= names all outputs, but `outs` is given, "
                'too; leave it out, or write signature="x: f32[n] -> x, out: f32[n]" [KB1010]'
            )
        elif not callable(outs) or has_type(outs):
            outs = Outputs.of(label, outs)
        aliases = _read_aliases(label, self.aliases) if self.aliases else ()
        if isinstance(outs, Outputs):
            _check_output_indices(label, aliases, len(outs.types))
        if effect:
            private_jax.require_insides(f"{label} has has_side_effect=True")
        for name, rule in (("jvp", self.jvp), ("vjp", self.vjp)):
            if rule is not None and rule != ENZYME and not names_taken(rule):
                keywords = "".join(f", {a}=..." for a in attributes)
                expected = f"(inputs, outputs, {'co' * (name == 'vjp')}tangents{keywords})"
                check_rule(label, name, rule, expected, 3, attributes)
        sharding = self.sharding_rule
        if sharding is True:
            if self.signature is None:
                remedy = 'pass signature=, or a rule such as "i j, j -> i"'
                if label.startswith("load_"):
                    remedy = "write the annotation of the function as one, or pass a rule"
                elif label.startswith("elementwise"):
                    remedy = "leave it out: without a rule, every axis can be split"
                raise ValueError(
                    f"{label}: sharding_rule=True stands for the dimensions of the signature, and "
                    f"there is none; {remedy} [KB6001]"
                )
            sharding = self.signature.sharding_rule
        sharding = ShardingRule.of(label, sharding, aliases)
        linear = self.linear.split(",") if isinstance(self.linear, str) else self.linear
        vars(self).update(
            linear=tuple(name.strip().replace(".", "_") for name in linear),
            outs=outs,
            aliases=aliases,
            has_side_effect=effect,
            sharding_rule=sharding,
            vmap_threads=threads,
        )

    def __repr__(self) -> str:
        """What a call takes and returns, and the options that were chosen, each in a line."""
        lines = [self.label]
        for field in sorted(fields(self)[1:], key=lambda field: field.name != "signature"):
            value = getattr(self, field.name)
            if all(value is not unsaid for unsaid in (field.default, FROM_SIGNATURE, ())):
                if isinstance(value, FunctionType):
                    value = f"{value.__name__} at {beginning_of(value)}"
                lines.append(f"  {field.name}: {value}")
        return "\n".join(lines)

    @property
    def is_differentiable(self) -> bool:
        return self.jvp is not None or self.vjp is not None or bool(self.linear)

    def check_names(self, parameters: Sequence[str], attributes: Sequence[str] = ()) -> None:
        """Check the keys of `outs` and what rules take by name."""
        outs = self.outs
        if isinstance(outs, Outputs) and len({*outs.names} & {*parameters}) < len(outs.names):
            outs.refuse_reordered(self.label, parameters)
        known = {name: None for name in (*parameters, *attributes, OUTPUTS) if name}
        for mode, rule in (("jvp", self.jvp), ("vjp", self.vjp)):
            if unknown := [name for name in names_taken(rule) if name not in {*known, "**"}]:
                raise TypeError(
                    f"{self.label}: {mode} takes {unknown[0]!r} by name, but the names are "
                    f"{', '.join(known)}; use these, or write "
                    f"{mode}(inputs, outputs, {'co' * (mode == 'vjp')}tangents) [KB1007]"
                )

    def linear_operands(self, call: Call, operands: Types, names: Sequence[str]) -> tuple[int, ...]:
        """The operands in which a call is linear; `names` are the kernel's, of all operands."""
        label, inputs = self.label, dict(zip(names, operands, strict=False))
        for name in self.linear:
            if name not in inputs:
                raise ValueError(
                    f"{label}: linear names {name!r}, but the inputs of the call are "
                    f"{', '.join(filter(None, inputs)) or 'without names'} [KB1005]"
                )
        mapped = [(repr(name), inputs[name]) for name in self.linear]
        mapped += [(f"output {i}", t) for i, t in enumerate(call.outs) if self.linear]
        for what, t in mapped:
            if not is_inexact(t.dtype):
                raise ValueError(
                    f"{label}: linear is {', '.join(self.linear)!r}, but {what} is {t}; a linear "
                    "kernel maps real or complex numbers to real or complex numbers [KB1005]"
                )
        return tuple(i for i, name in enumerate(names[: len(operands)]) if name in self.linear)

    def outputs_for(self, inputs: Types, scalars: NamedTypes, parameters: Any = None) -> Outputs:
        """The outputs of a call with these inputs, in JAX's order.

        If `outs` is a function, it is called. Messages show the kernel's `parameters`.
        """
        outs = self.outs
        if outs is FROM_SIGNATURE:
            outs = Outputs.of(self.label, self.signature.outs(inputs, scalars))
        elif not isinstance(outs, Outputs):
            if parameters is not None:
                parameters.check_keywords(scalars)
            outs = call_with_shapes(self.label, "outs", outs, inputs, scalars, parameters)
            outs = Outputs.of(self.label, outs)
        else:
            _warn_of_whole(self.label, inputs, outs.types)
        outputs: Outputs = outs.canonical(self.label)
        _check_output_indices(self.label, self.aliases, len(outputs.types))
        if self.signature is not None and self.outs is not FROM_SIGNATURE:
            self.signature.check_outs(inputs, scalars, outputs.types)
        return outputs

    def check_aliases(self, inputs: Types, outputs: Types) -> None:
        for i, o in self.aliases:
            if i >= len(inputs):
                raise ValueError(
                    f"{self.label}: input_output_aliases names input {i}, "
                    f"but the call has {counted(len(inputs), 'input')} [KB1006]"
                )
            if inputs[i] != outputs[o]:
                raise ValueError(
                    f"{self.label}: input_output_aliases maps input {i}, {inputs[i]}, to output "
                    f"{o}, {outputs[o]}; both must have the same shape and dtype [KB1006]"
                )


def call_with_shapes(
    label: str, name: str, function: Any, inputs: Types, scalars: NamedTypes, parameters: Any = None
) -> Any:
    """Call a function of the shapes of a call, which the user passed as the argument `name`."""
    given = [jax.ShapeDtypeStruct(t.shape, t.dtype) for t in inputs]
    named = {n: jax.ShapeDtypeStruct(t.shape, t.dtype) for n, t in scalars.items()}
    signature = _signature(function)
    try:
        if signature is not None:
            signature.bind(*given, **named)
    except TypeError as e:
        keywords = f" and the keywords {', '.join(named)}" if named else ""
        kernel = f"the kernel takes {parameters}, and " if parameters else ""
        raise TypeError(
            f"{label}: the call has {counted(len(given), 'input')}{keywords}, but {kernel}`{name}` "
            f"is a function of {signature}: {e}. `{name}` is called with one ShapeDtypeStruct for "
            "each input, and one by keyword for each keyword scalar [KB2004]"
        ) from None
    return function(*given, **named)


def _warn_of_whole(label: str, inputs: Types, outs: Types) -> None:
    """Warn of outputs inside shard_map that have the extents of whole arrays."""
    mesh = jax.sharding.get_abstract_mesh()
    sizes = [mesh.shape[axis] for axis in mesh.manual_axes]
    parts = {d for t in inputs for d in t.shape}
    wholes = {n * d for n in {*sizes, math.prod(sizes)} for d in parts} - parts
    if any(not wholes.isdisjoint(t.shape) for t in outs):
        warn(
            f"{label}: inside shard_map, each device calls the kernel with its part, "
            f"{', '.join(map(str, inputs))}, but `outs` has the shape of whole arrays, "
            f"{', '.join(map(str, outs))}; pass a function, such as outs=lambda x: x [KB1002]"
        )


def _signature(function: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def names_taken(rule: Any) -> tuple[str, ...]:
    """What a rule takes by name, after the (co)tangents; "**" if it takes everything.

    It is empty for rules that take inputs, outputs and (co)tangents in order.
    """
    signature = _signature(rule) if callable(rule) else None
    first, rest = list[inspect.Parameter](), list[inspect.Parameter]()
    for p in signature.parameters.values() if signature else ():
        (rest if p.kind in (p.KEYWORD_ONLY, p.VAR_KEYWORD) else first).append(p)
    if len(first) != 1 or first[0].kind is inspect.Parameter.VAR_POSITIONAL:
        return ()
    return tuple("**" if p.kind is p.VAR_KEYWORD else p.name for p in rest)


def check_rule(
    label: str, name: str, rule: Any, expected: str, n: int, keywords: Sequence[str] | None = ()
) -> None:
    """Refuse a rule that cannot be called with `n` arguments and these keywords.

    If the keywords are not known yet, they are None.
    """
    if not callable(rule):
        raise TypeError(f"{label}: {name} is {rule!r}, expected a function {expected} [KB1007]")
    signature = _signature(rule)
    if signature is None:
        return
    bind = signature.bind_partial if keywords is None else signature.bind
    try:
        bind(*[None] * n, **dict.fromkeys(keywords or ()))
    except TypeError as e:
        raise TypeError(
            f"{label}: {name} is a function of {signature}, but is called as {expected}: {e} "
            "[KB1007]"
        ) from None


def _read_aliases(label: str, aliases: Mapping[int, int]) -> tuple[tuple[int, int], ...]:
    if not isinstance(aliases, Mapping):
        raise TypeError(
            f"{label}: input_output_aliases is {aliases!r} of type {type(aliases).__name__}, "
            "expected a dict from the index of an input to that of an output, such as {0: 0} "
            "[KB1006]"
        )
    for index in (*aliases.keys(), *aliases.values()):
        if isinstance(index, bool) or not isinstance(index, (int, np.integer)):
            raise TypeError(
                f"{label}: input_output_aliases contains {index!r}, expected the index of an input "
                "or output [KB1006]"
            )
        if index < 0:
            raise ValueError(
                f"{label}: input_output_aliases contains the negative index {index} [KB1006]"
            )
    pairs = tuple(sorted((int(i), int(o)) for i, o in aliases.items()))
    outputs = [o for _, o in pairs]
    for o in set(outputs):
        if outputs.count(o) > 1:
            raise ValueError(
                f"{label}: input_output_aliases maps several inputs to output {o}; an output can "
                "use the memory of only one input [KB1006]"
            )
    return pairs


def _check_output_indices(label: str, aliases: Iterable[tuple[int, int]], n_outputs: int) -> None:
    for i, o in aliases:
        if o >= n_outputs:
            raise ValueError(
                f"{label}: input_output_aliases maps input {i} to output {o}, "
                f"but the call has {counted(n_outputs, 'output')} [KB1006]"
            )
