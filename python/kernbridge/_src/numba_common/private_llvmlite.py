"""What only this module imports: names of llvmlite that llvmlite does not promise to keep."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import __version__ as version
from llvmlite import binding, ir
from llvmlite.ir import _utils as utils
from llvmlite.ir import types

from kernbridge._src.base import versions
from kernbridge._src.base.patched import patched

versions.warn_of_untested("llvmlite")

_managers = binding.newpassmanagers
TABLE = "kb_table_"  # and a digest of the content: the name of a large constant array


@contextmanager
def opaque_pointers() -> Iterator[None]:
    """Let this thread print IR with opaque pointers of one address space.

    The caller holds Numba's compiler lock. Other threads print as before, and what this thread
    prints is not cached in the IR's objects.
    """
    thread, cached = threading.get_ident(), utils._StrCaching.__str__
    of_types: dict[int, tuple[Any, str]] = {}  # by identity, with the type, which keeps it alive

    def printed(self: Any) -> str:
        if threading.get_ident() != thread:
            return cached(self)
        if isinstance(self, types.PointerType):
            return "ptr"
        if not isinstance(self, types.Type):
            return self._to_string()
        if id(self) not in of_types:
            of_types[id(self)] = self, self._to_string()
        return of_types[id(self)][1]

    with patched((utils._StrCaching, "__str__", printed)):
        yield


def run_once(manager: Any, code: Any, builder: Any) -> None:
    """Run a pass manager on a module or a function, and free it.

    llvmlite's pass managers inherit the `_dispose` of `ObjectRef`, which does nothing, before their
    own, so that closing one frees nothing: 32 KiB and more for each.
    """
    manager.run(code, builder)
    if type(manager)._dispose is not binding.ffi.ObjectRef._dispose:
        manager.close()
    elif not manager.closed:
        _managers.NewPassManager._dispose(manager)
        manager.detach()  # if another thread is freeing pass managers, close() would free it twice


# Changes, for `patched`, that free the pass managers which Numba makes and drops meanwhile, about
# 220 KiB a kernel. The caller holds Numba's compiler lock.
DISPOSE_CHANGES: tuple[tuple[Any, str, Any], ...] = tuple(
    (kind, "_dispose", _managers.NewPassManager._dispose)
    for kind in (_managers.ModulePassManager, _managers.FunctionPassManager)
    if kind._dispose is binding.ffi.ObjectRef._dispose
)
