"""Answers XLA's queries about calls that may be split: the parts, and the program of each device.

There is one partitioner for each target in the process. It is called while XLA compiles a program
for several devices, and knows only the attributes of a call. `Choice` selects the dimensions along
which the call is split, and `DeviceCall` writes the program of one device as StableHLO text: a call
of the plain target on smaller arrays.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np

from kernbridge._src.base.private_jax import hlo_sharding, tuple_sharding
from kernbridge._src.base.reports import warn
from kernbridge._src.operation.sharding import ELEMENTS, TOGETHER, Description, lowered_calls
from kernbridge._src.operation.sharding_rule import WHOLE, Term, Terms
from kernbridge._src.operation.spec import ArrayType

_ATTRIBUTE = re.compile(r',? ?sharding = "((?:[^"\\]|\\.)*)"')
_ON_CPU = ("kernbridge.host", "kernbridge.cuda.host")
_numbers = itertools.count()
_warned: set[tuple[str, str]] = set()


def parts_of(
    target: str,
    operands: Sequence[Any],
    operand_shardings: Sequence[Any],
    result: Any,
    result_sharding: Any,
    attributes: bytes | str,
) -> tuple[bytes, list[Any], Any]:
    """Return the module that each device runs, and the shardings of its operands and results.

    A carrier has no description, and each device calls it; see `embed_once.py`.
    """
    text = attributes.decode() if isinstance(attributes, bytes) else attributes
    if target.endswith(".carrier"):
        call = DeviceCall(target, text, (), (), (), (), has_side_effect=True)
        return call.module([], []).encode(), [], tuple_sharding(result, [])
    text, description = _read(text)
    terms = description.possible
    n = len(terms.outs)
    results, wanted = [result], [result_sharding]
    if result.is_tuple():
        results, wanted = list(result.tuple_shapes()), result_sharding.tuple_elements()
    ins = _placed(operands, terms.ins, operand_shardings)
    outs = _placed(results[:n], terms.outs, wanted[:n])
    hidden = _placed(results[n:], terms.hidden, wanted[n : len(results)])
    choice = Choice.make(terms, [*outs, *ins], description.any_extents)
    for i, array in enumerate([] if description.once else ins):
        _warn_if_gathered(description, choice, i, array, [*outs, *ins])
    operands, results, more = map(choice.local, (ins, outs, hidden))
    aliases, once = description.aliases, description.once
    call = DeviceCall(target, text, operands, results, more, aliases, bool(once))
    if any(not name.startswith("*") for name in choice.factors) and description.token:
        call = _lowered_again(call, description)
    sums = [choice.groups_to_sum(term) for term in terms.outs]
    waits = any(sums) or (once and n > 0)  # for other devices, after the call
    if waits and target in _ON_CPU and jax.process_count() == 1:
        call = replace(call, together=next(_numbers))
    unseen = [a.type for a in hidden]
    module = call.module_once(once, unseen) if once else call.module(sums, unseen)
    shardings = [choice.sharding(term) for term in terms.ins]
    return module.encode(), shardings, _packed(result, choice)


def sharding_of_results(
    target: str,
    operands: Sequence[Any],
    operand_shardings: Sequence[Any],
    result: Any,
    attributes: bytes | str,
) -> Any:
    """Return the shardings of results that follow from the operands; called if Shardy is off."""
    if target.endswith(".carrier"):
        return tuple_sharding(result, [])
    text = attributes.decode() if isinstance(attributes, bytes) else attributes
    _, description = _read(text)
    ins = _placed(operands, description.terms.ins, operand_shardings)
    return _packed(result, Choice.make(description.possible, ins, description.any_extents))


def _read(text: str) -> tuple[str, Description]:
    """Split the attributes into those of the plain call and the description."""
    found = _ATTRIBUTE.search(text)
    assert found is not None
    return text[: found.start()] + text[found.end() :], Description.read(found.group(1))


def _placed(shapes: Sequence[Any], terms: Sequence[Any], shardings: Sequence[Any]) -> list[Placed]:
    types = [ArrayType(tuple(s.dimensions()), np.dtype(s.numpy_dtype())) for s in shapes]
    return [Placed(*each) for each in zip(types, terms, shardings, strict=True)]


def _packed(result: Any, choice: Choice) -> Any:
    """The sharding of all results; hidden results, which are not read, are whole."""
    shardings = [choice.sharding(term) for term in choice.terms.outs]
    shardings += [choice.sharding(())] * len(choice.terms.hidden)
    return tuple_sharding(result, shardings)


def _lowered_again(call: DeviceCall, description: Description) -> DeviceCall:
    """Lower a call that depends on the extents of its arrays again, for those of one device."""
    lowered = lowered_calls[description.token]
    native, masks = lowered.again(call.operands, call.outs)
    n, batch = len(call.outs), call.outs[0].shape[: len(lowered.call.levels.sizes)]
    hidden = [call.operands[i] for i in native.copied]
    hidden += [ArrayType((*batch, *t.shape), t.dtype) for t in native.temporaries]
    aliases = dict(lowered.call.aliases) | {i: n + k for k, i in enumerate(native.copied)}
    words = [native.key, *lowered.call.batch_words, *(masks if batch else [])]
    text = f"call = array<i64: {', '.join(map(str, words))}>, digest = {_bytes(native.digest)}"
    if native.program:
        text += f", program = {_bytes(native.program)}"
    pairs = tuple(aliases.items())
    return replace(
        call, target=native.target, attributes=f"{{{text}}}", hidden=hidden, aliases=pairs
    )


def _warn_if_gathered(
    description: Description, choice: Choice, index: int, array: Placed, arrays: Sequence[Placed]
) -> None:
    terms = description.possible
    for d, (name, (count, _)) in enumerate(zip(array.term, array.parts(), strict=True)):
        if count == 1 or name in choice.factors:
            continue
        if name == WHOLE and not terms.declared:
            why = "kernel may read every element of its inputs for each of its outputs"
            remedy = (
                "If it does not, pass a sharding_rule= when wrapping the kernel, such as "
                'sharding_rule="i j, j -> i", or call the operation inside jax.shard_map'
            )
        elif name in description.terms.sums and name not in terms.sums:
            why = f"sum over its dimension {name!r} cannot be combined with manual axes"
            remedy = (
                "Make its mesh axis manual in shard_map as well, and add the results with "
                "jax.lax.psum"
            )
        elif not terms.can_split(name):
            why = f"sharding rule names this dimension {name!r}, which some outputs lack"
            remedy = (
                "If the outputs are sums over it, pass "
                'sharding_rule=kernbridge.ShardingRule(..., reduce="sum"), or shard another '
                "dimension"
            )
        elif not _divides(name, count, arrays):
            why = f"dimension cannot be split into {count} equal parts"
            remedy = f"Pad it to a multiple of {count}"
        elif not description.any_extents:
            why = "program was loaded from a file, and its launches are those for whole arrays"
            remedy = "Shard a batch axis, or call the operation inside jax.shard_map"
        else:  # another dimension uses the devices
            continue
        if (description.label, why) in _warned:
            return
        _warned.add((description.label, why))
        warn(
            f"{description.label}: dimension {d} of input {index}, {array.type}, is sharded over "
            f"{count} devices, and is gathered on each of them before the call, since the {why}. "
            f"{remedy}. [KB6002]"
        )
        return


@dataclass(frozen=True)
class Placed:
    """An array of a call: its type, its dimensions' names, and the sharding that XLA asks for."""

    type: ArrayType
    term: Term
    sharding: Any

    @property
    def n_devices(self) -> int:
        return len(self.sharding.tile_assignment_devices()) if self._is_tiled else 1

    @property
    def _is_tiled(self) -> bool:
        s = self.sharding
        return s is not None and not (s.is_replicated() or s.is_maximal() or s.is_manual())

    def parts(self) -> list[tuple[int, np.ndarray]]:
        """For each dimension the number of parts, and the part of each device."""
        if not self._is_tiled:
            return [(1, np.zeros(0, int))] * len(self.term)
        counts = list(self.sharding.tile_assignment_dimensions())
        devices = np.array(self.sharding.tile_assignment_devices())
        where = np.indices(counts).reshape(len(counts), -1)
        of_device = np.empty_like(where)
        of_device[:, devices] = where
        return list(zip(counts, of_device, strict=True))[: len(self.term)]


@dataclass
class Choice:
    """The names along which a call is split: for each, the number of parts, and each device's."""

    terms: Terms
    n_devices: int
    factors: dict[str, tuple[int, np.ndarray]] = field(default_factory=dict)

    @staticmethod
    def make(terms: Terms, arrays: Sequence[Placed], can_lower_again: bool) -> Choice:
        """Split what XLA asks for and can be split; larger arrays take precedence."""
        choice = Choice(terms, max((a.n_devices for a in arrays), default=1))

        def n_bytes(array: Placed) -> int:
            return int(np.prod(array.type.shape, dtype=np.int64)) * array.type.dtype.itemsize

        for array in sorted(arrays, key=n_bytes, reverse=True):
            if array.n_devices != choice.n_devices:
                continue
            for name, (count, part) in zip(array.term, array.parts(), strict=True):
                if count == 1 or name in choice.factors or not terms.can_split(name):
                    continue
                if not can_lower_again and not name.startswith("*"):
                    continue
                # Each block must still have equally many devices after one more split.
                n, cells = choice._cells(list(choice.factors))
                n *= count
                devices = np.bincount(cells * count + part, minlength=n)
                if _divides(name, count, arrays) and np.all(devices == choice.n_devices // n):
                    choice.factors[name] = count, part
        return choice

    def _cells(self, names: Sequence[str]) -> tuple[int, np.ndarray]:
        """The number of blocks along these names, and the block of each device."""
        n, cells = 1, np.zeros(self.n_devices, int)
        for name in names:
            count, part = self.factors.get(name, (1, np.zeros(self.n_devices, int)))
            n, cells = n * count, cells * count + part
        return n, cells

    def local(self, arrays: Sequence[Placed]) -> list[ArrayType]:
        """Return the types of the arrays on one device."""
        sizes = [zip(a.type.shape, self._counts(a.term), strict=True) for a in arrays]
        shapes = [tuple(size // count for size, count in each) for each in sizes]
        return [ArrayType(s, a.type.dtype) for s, a in zip(shapes, arrays, strict=True)]

    def _counts(self, term: Term) -> list[int]:
        return [self.factors[name][0] if name in self.factors else 1 for name in term]

    def sharding(self, term: Term) -> Any:
        _, cells = self._cells(term)
        devices = np.argsort(cells, kind="stable").tolist()
        return hlo_sharding(self._counts(term), devices)

    def groups_to_sum(self, term: Term) -> list[list[int]]:
        """The groups of devices whose results of these dimensions are parts of one sum."""
        added = [n for n in self.factors if n not in term and n in self.terms.sums]
        kept = [name for name in self.factors if name not in added]
        if not added:
            return []
        n_added, _ = self._cells(added)
        n, cells = self._cells([*kept, *added])
        blocks = np.argsort(cells, kind="stable").reshape(n // n_added, n_added, -1)
        return [group.tolist() for group in blocks.transpose(0, 2, 1).reshape(-1, n_added)]


def _divides(name: str, count: int, arrays: Sequence[Placed]) -> bool:
    return all(
        size % count == 0
        for array in arrays
        for size, other in zip(array.type.shape, array.term, strict=True)
        if other == name
    )


@dataclass(frozen=True)
class DeviceCall:
    """The call on one device. Its results are the outputs, then the hidden results."""

    target: str
    attributes: str
    operands: Sequence[ArrayType]
    outs: Sequence[ArrayType]
    hidden: Sequence[ArrayType]
    aliases: Sequence[tuple[int, int]]
    has_side_effect: bool = False
    together: int | None = None  # a number, if other devices must learn that the call failed

    def module(self, sums: Sequence[Sequence[Sequence[int]]], unseen: Sequence[ArrayType]) -> str:
        """Return a function that makes the call and returns its outputs.

        `sums` contains for each output the groups of devices that add their results. Hidden
        results may have other extents than in the whole call; constants, `unseen`, replace them.
        """
        names = self._names("%r")
        lines = [self._call(self._results)]
        for o, (array, groups) in enumerate(zip(self.outs, sums, strict=True)):
            if groups:
                lines.append(f"%s{o} = {_sum(names[o], array, groups, o + 1)}")
        returned = [f"%s{o}" if groups else names[o] for o, groups in enumerate(sums)]
        return self._main(lines, returned, unseen)

    def module_once(self, n_devices: int, unseen: Sequence[ArrayType]) -> str:
        """Return a function that makes the call on the first device, and its outputs on all."""
        results, names, given = self._results, self._names("%r"), self._names("%q")
        types = ", ".join(map(_tensor, results))
        zeros = [f"%n{i} = {_constant(t)}" for i, t in enumerate(results)]
        nothing = [f"%n{i}" for i in range(len(results))]
        lines = [
            "%id = stablehlo.partition_id : tensor<ui32>",
            "%first = stablehlo.constant dense<0> : tensor<ui32>",
            "%is_first = stablehlo.compare EQ, %id, %first : (tensor<ui32>, tensor<ui32>) -> "
            "tensor<i1>",
            f'{_bound("%q", len(results))}"stablehlo.if"(%is_first) ({{',
            f"  {self._call(results)}",
            f"  {_return(names, types)}",
            "}, {",
            *(f"  {zero}" for zero in zeros),
            f"  {_return(nothing, types)}",
            f"}}) : (tensor<i1>) -> ({types})",
        ]
        for o, array in enumerate(self.outs):
            lines += _from_first(f"%s{o}", given[o], array, n_devices, o + 1)
        return self._main(lines, [f"%s{o}" for o in range(len(self.outs))], unseen)

    @property
    def _results(self) -> list[ArrayType]:
        return [*self.outs, *self.hidden]

    def _names(self, call: str) -> list[str]:
        """The names of the results of a call with this name."""
        n = len(self.outs) + len(self.hidden)
        return [call] if n == 1 else [f"{call}#{i}" for i in range(n)]

    def _main(self, lines: list[str], returned: list[str], unseen: Sequence[ArrayType]) -> str:
        if self.together is not None:
            outs, in_place = self.outs, [(o, o) for o in range(len(self.outs))]
            end = DeviceCall(TOGETHER, "{}", outs, outs, (), in_place, together=self.together)
            lines = [*lines, end._call(self.outs, "%t", returned)]
            returned = end._names("%t")
        lines = [*lines, *(f"%u{k} = {_constant(array)}" for k, array in enumerate(unseen))]
        returned = [*returned, *(f"%u{k}" for k in range(len(unseen)))]
        types = ", ".join(map(_tensor, [*self.outs, *unseen]))
        arguments = ", ".join(f"%a{i}: {_tensor(t)}" for i, t in enumerate(self.operands))
        given = f" {', '.join(returned)} : {types}" if returned else ""
        body = "\n    ".join([*lines, f"return{given}"])
        return (
            f"module {{\n  func.func public @main({arguments}) -> ({types}) {{\n"
            f"    {body}\n  }}\n}}\n"
        )

    def _call(
        self, results: Sequence[ArrayType], name: str = "%r", operands: Sequence[str] = ()
    ) -> str:
        many = len(results) > 1
        attributes = self.attributes
        if self.together is not None:
            comma = ", " if len(attributes) > 2 else ""
            attributes = f"{{together = {self.together} : i64{comma}{attributes[1:]}"
        aliases = ", ".join(
            f"#stablehlo.output_operand_alias<output_tuple_indices = [{o if many else ''}], "
            f"operand_index = {i}, operand_tuple_indices = []>"
            for i, o in self.aliases
        )
        options = ", ".join(
            [
                "api_version = 4 : i32",
                *(["has_side_effect = true"] if self.has_side_effect else []),
                f"backend_config = {attributes}",
                f"operand_layouts = [{', '.join(map(_layout, self.operands))}]",
                f"output_operand_aliases = [{aliases}]",
                f"result_layouts = [{', '.join(map(_layout, results))}]",
            ]
        )
        names = ", ".join(operands or [f"%a{i}" for i in range(len(self.operands))])
        types = ", ".join(map(_tensor, results))
        given = ", ".join(map(_tensor, self.operands))
        return (
            f"{_bound(name, len(results))}stablehlo.custom_call @{self.target}({names}) "
            f"{{{options}}} : ({given}) -> {types if len(results) == 1 else f'({types})'}"
        )


def _tensor(array: ArrayType) -> str:
    shape = "".join(f"{d}x" for d in array.shape)
    return f"tensor<{shape}{ELEMENTS[array.dtype.name]}>"


def _bytes(data: bytes) -> str:
    return f"dense<[{', '.join(map(str, data))}]> : tensor<{len(data)}xui8>"


def _layout(array: ArrayType) -> str:
    rank = len(array.shape)
    order = f"[{', '.join(map(str, reversed(range(rank))))}]" if rank else ""
    return f"dense<{order}> : tensor<{rank}xindex>"


def _bound(name: str, n: int) -> str:
    """The left side of an operation with `n` results."""
    return "" if n == 0 else f"{name} = " if n == 1 else f"{name}:{n} = "


def _return(names: Sequence[str], types: str) -> str:
    return f"stablehlo.return {', '.join(names)} : {types}" if names else "stablehlo.return"


def _constant(array: ArrayType) -> str:
    kind = array.dtype.kind
    zero = {"b": "false", "c": "(0.0, 0.0)", "i": "0", "u": "0"}.get(kind, "0.0")
    return f"stablehlo.constant dense<{zero}> : {_tensor(array)}"


def _from_first(name: str, value: str, array: ArrayType, n_devices: int, channel: int) -> list[str]:
    """Lines that copy a value from the first device to all."""
    one = ArrayType((1, *array.shape), array.dtype)
    every = ArrayType((n_devices, *array.shape), array.dtype)
    limits = ", ".join(["0:1", *(f"0:{d}" for d in array.shape)])
    return [
        f"{name}w = stablehlo.reshape {value} : ({_tensor(array)}) -> {_tensor(one)}",
        f'{name}g = "stablehlo.all_gather"({name}w) <{{all_gather_dim = 0 : i64, channel_handle = '
        f"#stablehlo.channel_handle<handle = {channel}, type = 1>, replica_groups = "
        f"dense<[{list(range(n_devices))}]> : tensor<1x{n_devices}xi64>, use_global_device_ids}}> "
        f": ({_tensor(one)}) -> {_tensor(every)}",
        f"{name}f = stablehlo.slice {name}g [{limits}] : ({_tensor(every)}) -> {_tensor(one)}",
        f"{name} = stablehlo.reshape {name}f : ({_tensor(one)}) -> {_tensor(array)}",
    ]


def _sum(value: str, array: ArrayType, groups: Sequence[Sequence[int]], channel: int) -> str:
    element = _tensor(ArrayType((), array.dtype))
    shape = f"{len(groups)}x{len(groups[0])}"
    return (
        f'"stablehlo.all_reduce"({value}) <{{channel_handle = #stablehlo.channel_handle<handle = '
        f"{channel}, type = 1>, replica_groups = dense<{[list(g) for g in groups]}> : "
        f"tensor<{shape}xi64>, use_global_device_ids}}> ({{\n"
        f"    ^bb0(%x: {element}, %y: {element}):\n"
        f"      %z = stablehlo.add %x, %y : {element}\n"
        f"      stablehlo.return %z : {element}\n"
        f"    }}) : ({_tensor(array)}) -> {_tensor(array)}"
    )
