"""Makes kernels of Numba-CUDA from kernels of numba-cuda-mlir, to run in their place on CPUs.

The Python function of a kernel is copied. In the copy, every name of numba-cuda-mlir means what
Numba-CUDA has under the same name, and device functions are replaced in the same way.
"""

from __future__ import annotations

import contextlib
import pkgutil
import re
import sys
from types import CellType, FunctionType, ModuleType
from typing import Any

from kernbridge._src.base.errors import KernelCompilationError
from kernbridge._src.keys import extensions, fingerprint

_ROOT = re.compile(r"numba_cuda_mlir(?P<cuda>\.numba_cuda|\.cuda)?(?=\.|$)")
_OPTIONS = ("debug", "fastmath", "forceinline", "launch_bounds", "lineinfo", "max_registers", "opt")
_LISTS = ("extensions", "link")


def counterpart(label: str, kernel: Any, declared: tuple[Any, ...] = ()) -> Any:
    """A dispatcher of Numba-CUDA for a kernel of numba-cuda-mlir, as it reads now.

    It is compiled for signatures of numba-cuda-mlir's types where these are `declared`.
    """
    copies = _Copies(label)
    made = copies.dispatcher(kernel)
    for arguments in declared:
        made.compile(copies.of(arguments))
    if declared:
        made.disable_compile()
    return made


class _Copies:
    def __init__(self, label: str) -> None:
        self._label = label
        self._made: dict[int, tuple[Any, Any]] = {}  # by id: an original and its counterpart

    def dispatcher(self, kernel: Any) -> Any:
        from kernbridge._src.numba_common.private_numba_cuda import cuda

        function, given = kernel.py_func, kernel.targetoptions
        options = {name: given[name] for name in _OPTIONS if given.get(name) is not None}
        options |= {name: list(given[name]) for name in _LISTS if given.get(name)}
        if given.get("device"):
            options["device"] = True
            if isinstance(given.get("inline"), str):
                options["inline"] = given["inline"]
        cells = tuple(CellType() for _ in function.__closure__ or ())
        copy = FunctionType(function.__code__, {}, function.__name__, None, cells)
        copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
        copy.__annotations__ = dict(function.__annotations__)
        made = cuda.jit(**options)(copy)
        self._made[id(kernel)] = kernel, made  # before what it reads, since it may call itself
        copy.__defaults__ = self.of(function.__defaults__)
        for cell, original in zip(cells, function.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # an empty cell
                cell.cell_contents = self.of(original.cell_contents)
        for chain, _, modules in extensions.loads(function):
            for module, name in zip(modules, chain[2:], strict=False):
                if hasattr(module, name) and not hasattr(self.of(module), name):
                    raise self._refusal(f"`{name}`")
        chains, around = extensions.reads(function.__code__).chains, function.__globals__
        names = around.keys() & {chain[1] for chain in chains if chain[0] == "global"}
        copy.__globals__.update(around | {name: self.of(around[name]) for name in names})
        if given.get("device") and not kernel._can_compile:
            self._declare(kernel, made)
        return made

    def _declare(self, kernel: Any, made: Any) -> None:
        from kernbridge._src.numba_common import numba_cuda_patches as patches

        with patches.compiling_for((9, 0)), patches.without_nvvm():
            for arguments, compiled in kernel.overloads.items():
                made.compile_device(self.of(arguments), self.of(compiled.signature.return_type))
        made.disable_compile()

    def of(self, value: Any) -> Any:
        """The counterpart of what a function reads; most values are their own."""
        if id(value) not in self._made:
            self._made[id(value)] = value, self._find(value)
        return self._made[id(value)][1]

    def _find(self, value: Any) -> Any:
        if isinstance(value, ModuleType):
            found = _ROOT.match(value.__name__)
            if found and found["cuda"]:
                return self._named(value, value.__name__, "")
            if extensions.is_library(value.__name__) and not found:
                return value
            made = ModuleType(value.__name__)
            vars(made)["__getattr__"] = lambda name: self.of(getattr(value, name))
            return made
        if type(value) is tuple:
            return tuple(map(self.of, value))
        is_kernel = fingerprint.is_dispatcher(value) and fingerprint.is_mlir(value)
        defined = value.py_func if is_kernel else value
        if _ROOT.match(type(value).__module__) and hasattr(value, "key"):
            return self._type(value)
        module = str(getattr(defined, "__module__", None) or type(defined).__module__)
        if _ROOT.match(module):
            name = getattr(defined, "__qualname__", None) or getattr(defined, "__name__", "")
            return self._named(value, module, name or repr(value))
        return self.dispatcher(value) if is_kernel else value

    def _type(self, kind: Any) -> Any:
        from kernbridge._src.numba_common.private_numba import types

        if hasattr(kind, "layout") and hasattr(kind, "dtype"):
            return types.Array(self.of(kind.dtype), kind.ndim, kind.layout, not kind.mutable)
        if hasattr(kind, "types"):
            members = [self.of(member) for member in kind.types]
            return types.BaseTuple.from_types(members, getattr(kind, "instance_class", None))
        name = {"bool": "boolean"}.get(str(kind), str(kind))
        return self._first([f"numba.types.{name}", f"numba.cuda.{name}"], f"the type {kind}")

    def _named(self, value: Any, module: str, name: str) -> Any:
        """What Numba-CUDA has under the name of a module, or of something that it defines."""
        path = _ROOT.sub("", f"{module}.{name}".rstrip(".")).lstrip(".")
        names = [f"numba.cuda.{path}".rstrip(".")]
        for public in ("numba_cuda_mlir", "numba_cuda_mlir.cuda"):
            if name and getattr(sys.modules.get(public), name, None) is value:
                names += [f"numba.cuda.{name}", f"numba.{name}"]
        return self._first(names, f"`{path}`")

    def _first(self, names: list[str], what: str) -> Any:
        for name in names:
            with contextlib.suppress(ImportError, AttributeError, ValueError):
                return pkgutil.resolve_name(name)
        raise self._refusal(what)

    def _refusal(self, what: str) -> KernelCompilationError:
        return KernelCompilationError(
            f"{self._label}: the kernel uses {what} of numba-cuda-mlir, and Numba-CUDA, which "
            "compiles it for CPUs, has no such name; run it on a GPU [KB4005]"
        )
