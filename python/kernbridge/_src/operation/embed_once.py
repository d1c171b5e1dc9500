"""Stores each kernel once in a program of XLA, whatever the number of its calls.

JAX repeats what a lowering rule returns at each call of equal arguments, and XLA keeps all of it,
so that a kernel of 25 KB made an executable of 96 MB out of 1,000 calls. Such a kernel is embedded
in a call at the beginning of the main function, the carrier, which has neither operands nor results
and runs nothing. It is declared to have a side effect, since XLA would remove it otherwise. The
calls of the kernel have the attribute `elsewhere`, see src/core/kb_handler.h.

If XLA partitions a program among devices, it asks `sharding/partition.py` about a carrier, and each
device gets one. In a program for several platforms, every call embeds its kernel; the file of an
exported program contains equal attributes once.
"""

from __future__ import annotations

import itertools
from typing import Any

import jax
import numpy as np

from kernbridge._src.base import private_jax

GPU = "kernbridge.cuda.carrier"
ON_CPU = {  # of the calls' targets
    "kernbridge.host": "kernbridge.host.carrier",
    "kernbridge.cuda.host": "kernbridge.cuda.host.carrier",
}

# Smaller programs are embedded in each call. On a GPU, a carrier is a step between two graphs, and
# if an exported program is called in a loop, its carriers are executed each time.
_SMALL_ON_CPU = 256
_SMALL_IN_EXPORTS = 4 * 1024
_SMALL_ON_GPU = 64 * 1024


def embed(ctx: Any, target: str, attributes: dict[str, Any], program: bytes) -> dict[str, Any]:
    """Return the attributes of a call of `target` whose kernel is made from a program.

    The given `attributes` name the kernel.
    """
    small = _SMALL_ON_GPU
    if target in ON_CPU:
        small = _SMALL_IN_EXPORTS if private_jax.is_for_export(ctx) else _SMALL_ON_CPU
    main = private_jax.main_of_one_platform(ctx) if len(program) > small else None
    carried = {**attributes, "program": np.frombuffer(program, np.uint8)}
    if main is None:
        return carried
    carried["call"] = attributes["call"][:1]
    rule = jax.ffi.ffi_lowering(ON_CPU.get(target, GPU), has_side_effect=True)
    with private_jax.mlir.ir.InsertionPoint.at_block_begin(main):
        rule(ctx.replace(avals_in=[], avals_out=[]), **carried)
    carriers = [*itertools.takewhile(_is_carrier, main.operations)]
    contents = [_attributes(c, "backend_config", "mhlo.backend_config") for c in carriers]
    if contents[0] in contents[1:]:
        carriers[0].operation.erase()
    return {"call": attributes["call"], "elsewhere": True}


def _is_carrier(operation: Any) -> bool:
    names = _attributes(operation, "call_target_name")
    return any(name.value in (GPU, *ON_CPU.values()) for name in names)


def _attributes(operation: Any, *names: str) -> list[Any]:
    return [operation.attributes[name] for name in names if name in operation.attributes]
