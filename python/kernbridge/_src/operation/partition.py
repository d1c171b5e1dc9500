"""Answers XLA's queries about calls that may be split: the parts, and the program of each device.

There is one partitioner for each target in the process. It is called while XLA compiles a program
for several devices, and knows a call by its attributes alone. A split call is the same call on
smaller arrays, of the plain target.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from kernbridge._src.base.private_jax import tuple_sharding
from kernbridge._src.base.reports import warn
from kernbridge._src.operation.sharding import Description, lowered_calls
from kernbridge._src.operation.sharding_rule import WHOLE
from kernbridge._src.operation.spec import ArrayType
from kernbridge._src.operation.split_choice import Choice, Placed, divides
from kernbridge._src.operation.split_module import DeviceCall, attribute_of_bytes

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
    """The module that runs on each device, and the shardings of its operands and results."""
    text, description = _read(attributes)
    terms = description.possible
    results, n = _parts(result), len(terms.outs)
    wanted = result_sharding.tuple_elements() if result.is_tuple() else [result_sharding]
    ins = _placed(operands, terms.ins, operand_shardings)
    outs = _placed(results[:n], terms.outs, wanted[:n])
    hidden = _placed(results[n:], terms.hidden, wanted[n : len(results)])
    choice = Choice.make(terms, [*outs, *ins], description.any_extents)
    for i, array in enumerate([] if description.once else ins):
        _warn_if_gathered(description, choice, i, array, [*outs, *ins])
    call = DeviceCall(
        target=target,
        attributes=text,
        operands=choice.local(ins),
        outs=choice.local(outs),
        hidden=choice.local(hidden),
        aliases=description.aliases,
        has_side_effect=bool(description.once),
    )
    if any(not name.startswith("*") for name in choice.factors) and description.token:
        call = _lowered_again(call, description)
    sums = [choice.groups_to_sum(term) for term in terms.outs]
    waits = any(sums) or (description.once and n > 0)  # for other devices, after the call
    if waits and target in _ON_CPU and jax.process_count() == 1:
        call = replace(call, together=next(_numbers))
    unseen = [a.type for a in hidden]
    module = (
        call.module_once(description.once, unseen)
        if description.once
        else call.module(sums, unseen)
    )
    return (
        module.encode(),
        [choice.sharding(term) for term in terms.ins],
        _packed(result, choice),
    )


def parts_of_carrier(
    target: str,
    operands: Sequence[Any],
    operand_shardings: Sequence[Any],
    result: Any,
    result_sharding: Any,
    attributes: bytes | str,
) -> tuple[bytes, list[Any], Any]:
    """The same for a call that carries a kernel: each device makes it."""
    text = attributes.decode() if isinstance(attributes, bytes) else attributes
    call = DeviceCall(
        target, text, operands=[], outs=[], hidden=[], aliases=[], has_side_effect=True
    )
    return call.module([], []).encode(), [], tuple_sharding(result, [])


def sharding_of_results(
    operands: Sequence[Any],
    operand_shardings: Sequence[Any],
    result: Any,
    attributes: bytes | str,
) -> Any:
    """The shardings of results that follow from those of the operands, where Shardy is off."""
    _, description = _read(attributes)
    ins = _placed(operands, description.terms.ins, operand_shardings)
    return _packed(result, Choice.make(description.possible, ins, description.any_extents))


def _read(attributes: bytes | str) -> tuple[str, Description]:
    """The attributes of the plain call, and the description in the other one."""
    text = attributes.decode() if isinstance(attributes, bytes) else attributes
    found = _ATTRIBUTE.search(text)
    assert found is not None
    return text[: found.start()] + text[found.end() :], Description.read(found.group(1))


def _parts(shape: Any) -> list[Any]:
    return list(shape.tuple_shapes()) if shape.is_tuple() else [shape]


def _placed(shapes: Sequence[Any], terms: Sequence[Any], shardings: Sequence[Any]) -> list[Placed]:
    types = [ArrayType(tuple(s.dimensions()), np.dtype(s.numpy_dtype())) for s in shapes]
    return [Placed(*each) for each in zip(types, terms, shardings, strict=True)]


def _packed(result: Any, choice: Choice) -> Any:
    """The sharding of all results; hidden ones are whole, since nobody reads them."""
    shardings = [choice.sharding(term) for term in choice.terms.outs]
    shardings += [choice.sharding(())] * len(choice.terms.hidden)
    return tuple_sharding(result, shardings)


def _lowered_again(call: DeviceCall, description: Description) -> DeviceCall:
    """The call of a kernel that depends on the extents of its arrays, for those of one device."""
    lowered = lowered_calls[description.token]
    native, masks = lowered.again(call.operands, call.outs)
    n, batch = len(call.outs), call.outs[0].shape[: len(lowered.call.levels.sizes)]
    hidden = [call.operands[i] for i in native.copied]
    hidden += [ArrayType((*batch, *t.shape), t.dtype) for t in native.temporaries]
    aliases = dict(lowered.call.aliases) | {i: n + k for k, i in enumerate(native.copied)}
    words = [native.key, *lowered.call.batch_words, *(masks if batch else [])]
    attributes = {
        "call": f"array<i64: {', '.join(map(str, words))}>",
        "digest": attribute_of_bytes(native.digest),
    }
    if native.program:
        attributes["program"] = attribute_of_bytes(native.program)
    return replace(
        call,
        target=native.target,
        attributes=f"{{{', '.join(f'{name} = {value}' for name, value in attributes.items())}}}",
        hidden=hidden,
        aliases=tuple(aliases.items()),
    )


def _warn_if_gathered(
    description: Description, choice: Choice, index: int, array: Placed, arrays: Sequence[Placed]
) -> None:
    """Warn once where an operand is gathered on every device, as no rule splits it."""
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
        elif not divides(name, count, arrays):
            why = f"dimension cannot be split into {count} equal parts"
            remedy = f"Pad it to a multiple of {count}"
        elif not description.any_extents:
            why = "program was loaded from a file, and its launches are those for whole arrays"
            remedy = "Shard a batch axis, or call the operation inside jax.shard_map"
        else:  # devices are taken by another dimension
            continue
        if (description.label, why) in _warned:
            return
        _warned.add((description.label, why))
        warn(
            f"{description.label}: dimension {d} of input {index}, {array.type}, is sharded over "
            f"{count} devices, and is gathered on each of them before the call, since the {why}. "
            f"{remedy}."
            " [KB6002]"
        )
        return
