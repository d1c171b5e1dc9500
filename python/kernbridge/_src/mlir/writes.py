"""Finds the pointers through which a kernel of numba-cuda-mlir may write."""

from __future__ import annotations

from typing import Any

_READS = {"llvm.load", "llvm.icmp", "llvm.intr.lifetime.start", "llvm.intr.lifetime.end"}
_SAME = {  # whose results are pointers into the same memory, or have one in them
    *("llvm.addrspacecast", "llvm.bitcast", "llvm.freeze", "llvm.getelementptr", "llvm.select"),
    *("llvm.extractvalue", "llvm.insertvalue"),
}
_BRANCHES = {"llvm.br", "llvm.cond_br", "llvm.switch"}


def written(kernel: Any, functions: dict[str, Any]) -> set[int]:
    """The numbers of the arguments through which a function may write.

    `functions` are those that it may call, by name. What is not known to read only counts as
    writing: a pointer that is stored, turned into a number, or passed to an instruction of its own.
    """
    arguments = kernel.regions[0].blocks[0].arguments
    return {i for i, argument in enumerate(arguments) if _may_write([argument], functions)}


def _may_write(pointers: list[Any], functions: dict[str, Any]) -> bool:
    if not str(pointers[0].type).startswith("!llvm.ptr"):
        return False
    seen = set(pointers)
    while pointers:
        for use in pointers.pop().uses:
            operation = use.owner.operation
            more: list[Any] = []
            if operation.name in _SAME:
                more = list(operation.results)
            elif operation.name in _BRANCHES:
                blocks = [block.arguments for block in operation.successors]
                more = [a for block in blocks for a in block if str(a.type).startswith("!llvm.")]
            elif operation.name == "llvm.call":
                attributes = operation.attributes  # none of it where a pointer is called
                callee = str(attributes["callee"]) if "callee" in attributes else ""
                called = functions.get(callee.removeprefix("@"))
                if called is None or not len(called.regions[0].blocks):
                    return True
                more = [called.regions[0].blocks[0].arguments[use.operand_number]]
            elif operation.name not in _READS and not (
                operation.name == "llvm.intr.memcpy" and use.operand_number == 1
            ):
                return True
            pointers += [value for value in more if value not in seen]
            seen.update(more)
    return False
