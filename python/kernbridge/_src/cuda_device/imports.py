"""Runs a function when a program imports a module, or immediately if it has been imported."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any


def when_imported(name: str, do: Callable[[], None]) -> None:
    """Call `do` as soon as the module of this name has been executed."""
    if name in sys.modules:
        do()
    else:
        sys.meta_path.insert(0, _Finder(name, do))


class _Finder(MetaPathFinder):
    """Finds one module, as Python does, and lets its loader do more."""

    def __init__(self, name: str, do: Callable[[], None]) -> None:
        self._name = name
        self._do = do

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """The specification of the module, with a loader that calls the function afterwards."""
        if fullname != self._name:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_do(module: Any) -> None:
            execute(module)
            if self in sys.meta_path:  # else another thread was faster
                sys.meta_path.remove(self)
                self._do()

        spec.loader.exec_module = execute_and_do  # type: ignore[method-assign]
        return spec
