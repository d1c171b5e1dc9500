"""Failed assertions of kernbridge's own kernels on GPUs.

CUDA writes the text of a failed assertion to the standard error of the process, and the operation
ends with a CUDA error, as does every later operation. Assertions cost nothing unless they fail,
and need no answer from the host, so that such a kernel can be part of a CUDA graph. Imported only
when a kernel is compiled, since it imports Numba.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kernbridge._src.base.patched import patched
from kernbridge._src.cuda_on_cpu.objects import called
from kernbridge._src.numba_common.llvmlite_inside import ir
from kernbridge._src.numba_common.numba_cuda_inside import MinimalCallConv


@contextmanager
def compiling_assertions() -> Iterator[None]:
    """Let Numba-CUDA make failed assertions of exceptions. Under Numba's lock."""
    return_exception = MinimalCallConv.return_user_exc

    def failing(
        self: Any, builder: Any, exc: Any, exc_args: Any = None, *more: Any, **how: Any
    ) -> Any:
        def text(string: str) -> Any:
            return self.context.insert_string_const_addrspace(builder, string)

        what = text(f"{exc.__name__}: {exc_args[0]}" if exc_args else exc.__name__)
        line, size_of_character = ir.IntType(32)(0), ir.IntType(64)(1)
        place = text("kernbridge"), line, text("deterministic=")
        called(builder, "__assertfail", [what, *place, size_of_character])
        return return_exception(self, builder, exc, exc_args, *more, **how)

    with patched((MinimalCallConv, "return_user_exc", failing)):
        yield
