"""Generates the program of one device for a call that XLA splits, as StableHLO text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernbridge._src.operation.spec import ArrayType, dtype_name

TOGETHER = "kernbridge.together"  # see src/core/kb_together.h
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
    return dtype_name(dtype) in _ELEMENTS


@dataclass(frozen=True)
class DeviceCall:
    """The call on one device. Results are outputs, and behind them those that the kernel sees."""

    target: str
    attributes: str
    operands: Sequence[ArrayType]
    outs: Sequence[ArrayType]
    hidden: Sequence[ArrayType]
    aliases: Sequence[tuple[int, int]]
    has_side_effect: bool = False
    together: int | None = None  # a number for a call whose failure concerns other devices, too

    def module(self, sums: Sequence[Sequence[Sequence[int]]], unseen: Sequence[ArrayType]) -> str:
        """A function that makes the call and returns its outputs.

        `sums` are for each output the groups of devices that add theirs up. In place of hidden
        results, whose extents may differ from those of the whole call, it returns `unseen`
        constants, which nobody reads.
        """
        results, names = self._results("%r")
        lines = [self._call(results)]
        returned = []
        for o, (array, groups) in enumerate(zip(self.outs, sums, strict=True)):
            returned.append(f"%s{o}" if groups else names[o])
            if groups:
                lines.append(f"%s{o} = {_sum(names[o], array, groups, o + 1)}")
        return self._main(lines, returned, unseen)

    def module_once(self, n_devices: int, unseen: Sequence[ArrayType]) -> str:
        """A function that makes the call on the first device, and returns its outputs on all."""
        results, names = self._results("%r")
        types = ", ".join(map(tensor, results))
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
        _, given = self._results("%q")
        for o, array in enumerate(self.outs):
            lines += _from_first(f"%s{o}", given[o], array, n_devices, o + 1)
        return self._main(lines, [f"%s{o}" for o in range(len(self.outs))], unseen)

    def _results(self, value: str) -> tuple[list[ArrayType], list[str]]:
        """The results of the call, and how they are called if it has this name."""
        results = [*self.outs, *self.hidden]
        many = len(results) > 1
        return results, [f"{value}#{i}" if many else value for i in range(len(results))]

    def _main(self, lines: list[str], returned: list[str], unseen: Sequence[ArrayType]) -> str:
        """The module of a function with these lines."""
        if self.together is not None:
            outs, in_place = self.outs, [(o, o) for o in range(len(self.outs))]
            end = DeviceCall(TOGETHER, "{}", outs, outs, (), in_place, together=self.together)
            lines = [*lines, end._call(self.outs, "%t", returned)]
            returned = end._results("%t")[1]
        lines = [*lines, *(f"%u{k} = {_constant(array)}" for k, array in enumerate(unseen))]
        returned = [*returned, *(f"%u{k}" for k in range(len(unseen)))]
        types = ", ".join(map(tensor, [*self.outs, *unseen]))
        arguments = ", ".join(f"%a{i}: {tensor(t)}" for i, t in enumerate(self.operands))
        given = f" {', '.join(returned)} : {types}" if returned else ""
        body = "\n    ".join([*lines, f"return{given}"])
        return (
            f"module {{\n  func.func public @main({arguments}) -> ({types}) {{\n"
            f"    {body}\n  }}\n}}\n"
        )

    def _call(
        self,
        results: Sequence[ArrayType],
        name: str = "%r",
        operands: Sequence[str] | None = None,
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
        effect = ["has_side_effect = true"] if self.has_side_effect else []
        options = ", ".join(
            [
                "api_version = 4 : i32",
                *effect,
                f"backend_config = {attributes}",
                f"operand_layouts = [{', '.join(map(_layout, self.operands))}]",
                f"output_operand_aliases = [{aliases}]",
                f"result_layouts = [{', '.join(map(_layout, results))}]",
            ]
        )
        given_names = ", ".join(operands or [f"%a{i}" for i in range(len(self.operands))])
        types = ", ".join(map(tensor, results))
        given = ", ".join(map(tensor, self.operands))
        return (
            f"{_bound(name, len(results))}stablehlo.custom_call @{self.target}({given_names}) "
            f"{{{options}}} : ({given}) -> {types if len(results) == 1 else f'({types})'}"
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


def _bound(name: str, n: int) -> str:
    """The left side of an operation with so many results."""
    return "" if n == 0 else f"{name} = " if n == 1 else f"{name}:{n} = "


def _return(names: Sequence[str], types: str) -> str:
    return f"stablehlo.return {', '.join(names)} : {types}" if names else "stablehlo.return"


def _constant(array: ArrayType) -> str:
    kind = array.dtype.kind
    zero = {"b": "false", "c": "(0.0, 0.0)", "i": "0", "u": "0"}.get(kind, "0.0")
    return f"stablehlo.constant dense<{zero}> : {tensor(array)}"


def _from_first(name: str, value: str, array: ArrayType, n_devices: int, channel: int) -> list[str]:
    """Lines that make this the value that the first device has."""
    one = ArrayType((1, *array.shape), array.dtype)
    every = ArrayType((n_devices, *array.shape), array.dtype)
    limits = ", ".join(["0:1", *(f"0:{d}" for d in array.shape)])
    return [
        f"{name}w = stablehlo.reshape {value} : ({tensor(array)}) -> {tensor(one)}",
        f'{name}g = "stablehlo.all_gather"({name}w) <{{all_gather_dim = 0 : i64, channel_handle = '
        f"#stablehlo.channel_handle<handle = {channel}, type = 1>, replica_groups = "
        f"dense<[{list(range(n_devices))}]> : tensor<1x{n_devices}xi64>, use_global_device_ids}}> "
        f": ({tensor(one)}) -> {tensor(every)}",
        f"{name}f = stablehlo.slice {name}g [{limits}] : ({tensor(every)}) -> {tensor(one)}",
        f"{name} = stablehlo.reshape {name}f : ({tensor(one)}) -> {tensor(array)}",
    ]


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
