"""Compiles Numba-CUDA kernels with debug=True for the CPU, so that exceptions end the launch.

Numba-CUDA returns the number of an exception, which is known only in the process that compiled the
kernel. Here, the thread reports the type, the message and the line immediately. Imported only when
a kernel is compiled, since it imports Numba.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kernbridge._src.base.patched import patched
from kernbridge._src.cuda_on_cpu.isolated_compile import compiled_in_isolation
from kernbridge._src.cuda_on_cpu.objects import called
from kernbridge._src.numba_common.private_numba_cuda import MinimalCallConv, lowering

_NOT_OF_USERS = ("numba.", "kernbridge")  # how the names of modules begin


@contextmanager
def compiling_raising() -> Iterator[None]:
    """Let Numba-CUDA report exceptions and places. Under Numba's lock."""
    return_exception, lower = MinimalCallConv.return_user_exc, lowering.CUDALower.lower_inst
    last: list[Any] = [None, ""]  # the block that was added to last, and the place there

    def reporting(
        self: Any, builder: Any, exc: Any, exc_args: Any = None, *more: Any, **how: Any
    ) -> Any:
        _told(self.context, builder, "kb.raise", _described(exc, exc_args))
        return return_exception(self, builder, exc, exc_args, *more, **how)

    def placed(self: Any, instruction: Any) -> None:
        if not self.fndesc.modname.startswith(_NOT_OF_USERS):
            place = f"{self.loc.filename}:{self.loc.line} in {self.func_ir.func_id.func_name!r}"
            if last != [self.builder.block, place]:
                last[:] = self.builder.block, place
                _told(self.context, self.builder, "kb.place", place)
        lower(self, instruction)

    patches = patched(
        (MinimalCallConv, "return_user_exc", reporting),
        (lowering.CUDALower, "lower_inst", placed),
    )
    with compiled_in_isolation("raising"), patches:
        yield


def _told(context: Any, builder: Any, name: str, text: str) -> None:
    """Append a call of a function that takes a text."""
    called(builder, name, [context.insert_string_const_addrspace(builder, text)])


def _described(exc: Any, exc_args: Any) -> str:
    """An exception as Python prints it."""
    try:
        lines = traceback.format_exception_only(exc(*(exc_args or ())))
    except Exception:  # the exception's own
        lines = [f"{exc.__name__}{exc_args or ''}"]
    text = "".join(lines).strip()
    qualified = f"{exc.__module__}.{exc.__qualname__}"
    return exc.__qualname__ + text.removeprefix(qualified) if text.startswith(qualified) else text
