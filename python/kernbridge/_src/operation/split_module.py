"""The program of one device, for a call that XLA splits: StableHLO, as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernbridge._src.operation.spec import ArrayType

_ELEMENTS = {
    "bool": "i1",
    "complex64": "complex<f32>",
    "complex128": "complex<f64>",
    "bfloat16": "bf16",
    **{f"float{bits}": f"f{bits}" for bits in (16, 32, 64)},
    **{f"int{bits}": f"i{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    **{f"uint{bits}": f"ui{bits}" for bits in (2, 4, 8, 16, 32, 64)},
}


def has_element(dtype: np.dtype) -> bool:
    """Whether there is a name for elements of this type."""
    return dtype.name in _ELEMENTS


@dataclass(frozen=True)
class DeviceCall:
    """The call on one device. Results are outputs, and behind them those that the kernel sees."""

    target: str
    attributes: str
    operands: Sequence[ArrayType]
    outs: Sequence[ArrayType]
    hidden: Sequence[ArrayType]
    aliases: Sequence[tuple[int, int]]

    def module(self, sums: Sequence[Sequence[Sequence[int]]], unseen: Sequence[ArrayType]) -> str:
        """A function that makes the call and returns its outputs.

        `sums` are for each output the groups of devices that add theirs up. In place of hidden
        results, whose extents may differ from those of the whole call, it returns `unseen`
        constants, which nobody reads.
        """
        results = [*self.outs, *self.hidden]
        names = [f"%r#{i}" for i in range(len(results))] if len(results) > 1 else ["%r"]
        lines = [f"%r{f':{len(results)}' if len(results) > 1 else ''} = {self._call(results)}"]
        returned = []
        for o, (array, groups) in enumerate(zip(self.outs, sums, strict=True)):
            returned.append(f"%s{o}" if groups else names[o])
            if groups:
                lines.append(f"%s{o} = {_sum(names[o], array, groups, o + 1)}")
        for k, array in enumerate(unseen):
            returned.append(f"%u{k}")
            lines.append(f"%u{k} = stablehlo.constant dense<{_zero(array)}> : {tensor(array)}")
        types = ", ".join(map(tensor, [*self.outs, *unseen]))
        arguments = ", ".join(f"%a{i}: {tensor(t)}" for i, t in enumerate(self.operands))
        body = "\n    ".join([*lines, f"return {', '.join(returned)} : {types}"])
        return (
            f"module {{\n  func.func public @main({arguments}) -> ({types}) {{\n"
            f"    {body}\n  }}\n}}\n"
        )

    def _call(self, results: Sequence[ArrayType]) -> str:
        many = len(results) > 1
        aliases = ", ".join(
            f"#stablehlo.output_operand_alias<output_tuple_indices = [{o if many else ''}], "
            f"operand_index = {i}, operand_tuple_indices = []>"
            for i, o in self.aliases
        )
        options = ", ".join(
            [
                "api_version = 4 : i32",
                f"backend_config = {self.attributes}",
                f"operand_layouts = [{', '.join(map(_layout, self.operands))}]",
                f"output_operand_aliases = [{aliases}]",
                f"result_layouts = [{', '.join(map(_layout, results))}]",
            ]
        )
        operands = ", ".join(f"%a{i}" for i in range(len(self.operands)))
        types = ", ".join(map(tensor, results))
        return (
            f"stablehlo.custom_call @{self.target}({operands}) {{{options}}} : "
            f"({', '.join(map(tensor, self.operands))}) -> {f'({types})' if many else types}"
        )


def tensor(array: ArrayType) -> str:
    """The type of an array."""
    shape = "".join(f"{d}x" for d in array.shape)
    return f"tensor<{shape}{_ELEMENTS[array.dtype.name]}>"


def attribute_of_bytes(data: bytes) -> str:
    """Bytes as an attribute that handlers read as an array."""
    return f"dense<[{', '.join(map(str, data))}]> : tensor<{len(data)}xui8>"


def _layout(array: ArrayType) -> str:
    rank = len(array.shape)
    order = f"[{', '.join(map(str, reversed(range(rank))))}]" if rank else ""
    return f"dense<{order}> : tensor<{rank}xindex>"


def _zero(array: ArrayType) -> str:
    kind = array.dtype.kind
    return {"b": "false", "c": "(0.0, 0.0)", "i": "0", "u": "0"}.get(kind, "0.0")


def _sum(value: str, array: ArrayType, groups: Sequence[Sequence[int]], channel: int) -> str:
    element = tensor(ArrayType((), array.dtype))
    shape = f"{len(groups)}x{len(groups[0])}"
    return (
        f'"stablehlo.all_reduce"({value}) <{{channel_handle = #stablehlo.channel_handle<handle = '
        f"{channel}, type = 1>, replica_groups = dense<{[list(g) for g in groups]}> : "
        f"tensor<{shape}xi64>, use_global_device_ids}}> ({{\n"
        f"    ^bb0(%x: {element}, %y: {element}):\n"
        f"      %z = stablehlo.add %x, %y : {element}\n"
        f"      stablehlo.return %z : {element}\n"
        f"    }}) : ({tensor(array)}) -> {tensor(array)}"
    )
