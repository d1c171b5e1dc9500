"""Reads exported programs as MLIR: the arguments of the main function and its custom calls.

Uses the MLIR bindings of JAX, which are imported on demand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernbridge._src.base import private_jax
from kernbridge._src.base.private_jax import mlir


@dataclass(frozen=True, slots=True)
class CustomCall:
    """A call of a handler.

    Attributes
    ----------
    target : str
    texts, arrays : dict
        The attributes that are strings, and those that are arrays.
    flags : frozenset of str
        The names of those that are true.
    """

    target: str
    texts: dict[str, str]
    arrays: dict[str, np.ndarray]
    flags: frozenset[str]


@dataclass(frozen=True, slots=True)
class Program:
    """What is read of an exported program.

    Attributes
    ----------
    code : bytes
        The program itself, for one platform and fixed shapes.
    donated : tuple of bool
        Whether an execution takes the memory of each argument of the main function.
    calls : tuple of CustomCall
        Every call in the text, in any function.
    """

    code: bytes
    donated: tuple[bool, ...]
    calls: tuple[CustomCall, ...]


def read(exported: Any, version: str | None) -> Program:
    """Read an exported program, a `jax.export.Exported` of fixed shapes.

    The code is written for a version of StableHLO, by default that of JAX's exports. ValueError is
    raised if the program cannot be written for it.
    """
    code = bytes(exported.mlir_module_serialized)
    with mlir.make_ir_context():
        module = mlir.ir.Module.parse(exported.mlir_module())
    if exported.uses_global_constants:
        module, code = private_jax.fix_shapes(module)
    with module.context:
        functions = {
            op.attributes["sym_name"].value: op.operation
            for op in module.body.operations
            if op.operation.name == "func.func"
        }
        donated, calls = _donated(functions["main"]), tuple(_calls(module.operation))
        return Program(code if version is None else _written(module, version), donated, calls)


def _written(module: Any, version: str) -> bytes:
    """The bytes for a version of StableHLO; the module is of no use afterwards."""
    from jax.extend.mlir.dialects import stablehlo as dialect

    try:
        return bytes(dialect.serialize_portable_artifact(module, version))
    except ValueError as e:
        raise ValueError(
            f"the program cannot be converted to StableHLO {version}: {e} [KB6104]"
        ) from e


def _donated(main: Any) -> tuple[bool, ...]:
    n = len(main.regions[0].blocks[0].arguments)
    if "arg_attrs" not in main.attributes:
        return (False,) * n
    marks = ("tf.aliasing_output", "jax.buffer_donor")
    return tuple(
        any(mark in attributes for mark in marks) for attributes in main.attributes["arg_attrs"]
    )


def _calls(operation: Any) -> Iterator[CustomCall]:
    for region in operation.regions:
        for block in region.blocks:
            for inner in block.operations:
                if inner.operation.name == "stablehlo.custom_call":
                    yield _call(inner.operation.attributes)
                yield from _calls(inner.operation)


def _call(attributes: Any) -> CustomCall:
    texts, arrays, flags = {}, {}, set()
    for name in ("backend_config", "mhlo.backend_config"):
        if name not in attributes or not isinstance(attributes[name], mlir.ir.DictAttr):
            continue
        for item in attributes[name]:
            if isinstance(item.attr, mlir.ir.StringAttr):
                texts[item.name] = item.attr.value
            elif isinstance(item.attr, mlir.ir.DenseElementsAttr):
                arrays[item.name] = np.array(item.attr)
            elif isinstance(item.attr, mlir.ir.BoolAttr) and item.attr.value:
                flags.add(item.name)
    return CustomCall(attributes["call_target_name"].value, texts, arrays, frozenset(flags))
