"""Describes a kernel's arguments for the checked mode.

Imported only when a kernel is compiled for that mode.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from kernbridge._src.cuda_on_cpu.checks import Argument, Checks, written_together
from kernbridge._src.plan.parameters import Parameter, leaves


def checks_of(label: str, kernel: Any, parameters: Sequence[Parameter], batched: bool) -> Checks:
    """What the checked mode asks about the arguments of a kernel."""
    names = list(inspect.signature(kernel.py_func).parameters)
    arguments = []
    word = 0
    for i, parameter in enumerate(parameters):
        name = parameter.keyword or (names[i] if i < len(names) else f"parameter {i}")
        for leaf in leaves([parameter]):
            if leaf.kind != "scalar":
                arguments.append(
                    Argument(
                        name=f"{name!r} ({leaf.describe()})",
                        word=word,
                        item_size=leaf.dtype.itemsize,
                        cell=written_together(leaf.dtype),
                        n_dims=leaf.ndim,
                        batched=batched,
                        strided=leaf.layout != "C",
                        constant=leaf.read_only,
                    )
                )
            word += leaf.n_words(batched)
    return Checks(label, arguments)
