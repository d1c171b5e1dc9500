"""Computes the size and the strides of an array from its extents, where LLVM can see this.

Numba passes the number of elements, their size and the strides of an array as separate words. LLVM
cannot know that these agree with the extents, and would therefore keep checks of
`cuda_on_cpu.bounds` that a kernel's own comparison with the number of elements makes unnecessary.
"""

from __future__ import annotations

from typing import Any

from kernbridge._src.numba_common.private_llvmlite import ir

_I64 = ir.IntType(64)


def relate(function: Any, word: int, layout: str, n_dims: int, item_size: int) -> None:
    """Compute the words of an array, the first of which is parameter `word` of an entry."""
    count_word, size_word = function.args[word + 2 : word + 4]
    extents = function.args[word + 5 : word + 5 + n_dims]
    strides = function.args[word + 5 + n_dims : word + 5 + 2 * n_dims]
    builder = ir.IRBuilder()
    builder.position_at_start(function.entry_basic_block)
    size = ir.Constant(_I64, item_size)
    known = {id(size_word): size}
    axes = range(n_dims) if layout == "F" else reversed(range(n_dims))
    count: Any = ir.Constant(_I64, 1)
    for axis in axes:
        if layout in "CF":
            known[id(strides[axis])] = builder.mul(count, size, flags=["nsw"])
        count = builder.mul(count, extents[axis], flags=["nsw"])
    known[id(count_word)] = count
    for block in function.blocks:
        for instruction in block.instructions:  # those that put the array together
            if isinstance(instruction, ir.instructions.InsertValue):
                instruction.value = known.get(id(instruction.value), instruction.value)
                instruction._clear_string_cache()
