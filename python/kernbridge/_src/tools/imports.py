"""Imports the modules and files that are arguments of a command."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType


class NothingThere(ValueError):
    """There is no module or file of a name."""


def load(name: str) -> ModuleType:
    """Import a module, or the file of a path that ends in .py; what either raises is raised.

    NothingThere is raised if there is none.
    """
    path = Path(name)
    if path.suffix != ".py":
        sys.path.insert(0, "")
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as e:
            if e.name is None or not f"{name}.".startswith(f"{e.name}."):
                raise
            message = f"there is no module {name!r} (a file's name ends in .py)"
            raise NothingThere(message) from None
        finally:
            sys.path.remove("")
    if not path.is_file():
        raise NothingThere(f"there is no file {name!r}")
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)
    return module
