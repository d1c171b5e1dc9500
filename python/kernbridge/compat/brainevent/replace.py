"""The modules of BrainEvent's bridge, replaced when they are imported."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

import jax

import kernbridge
from kernbridge._src.base import settings
from kernbridge.compat.brainevent import config

SUPPORTED = ("0.2", "0.3")
FACE = "kernbridge.compat.brainevent"
_PACKAGE = "brainevent._op"
_WHOLE = (_PACKAGE, "brainevent._error", "brainevent._registry")
_SETTINGS = "brainevent.config"
# Of the bridge's modules this one alone also has what belongs to the operators, such as what counts
# as an event. Its own file runs, and the names of the bridge in it are kernbridge's. The files of
# the other modules never run: they would compile and register beside kernbridge.
_SHARED = "brainevent._op.util"


class _Loader(Loader):
    """Makes a module with the names of kernbridge, after BrainEvent's own file where that runs."""

    def __init__(self, own: Loader | None = None) -> None:
        self._own = own

    def exec_module(self, module: ModuleType) -> None:
        if self._own is not None:
            self._own.exec_module(module)
        names: ModuleType = config
        if module.__name__ != _SETTINGS:
            names = importlib.import_module(FACE)
            own = getattr(module, "__all__", ())
            module.__all__ = sorted({*own, *names.__all__})  # type: ignore[attr-defined]

            def refuse(attribute: str) -> object:
                raise AttributeError(
                    f"kernbridge takes the place of {module.__name__}, but has no {attribute!r}; "
                    f"the public names are those of {FACE}"
                )

            vars(module)["__getattr__"] = refuse
        for name in names.__all__:
            setattr(module, name, getattr(names, name))


class _Finder(MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name in (_SETTINGS, _SHARED):
            spec = PathFinder.find_spec(name, path)
            if spec is not None and spec.loader is not None:
                spec.loader = _Loader(spec.loader)
                return spec
        if name in _WHOLE or name.startswith(f"{_PACKAGE}."):
            spec = ModuleSpec(name, _Loader(), is_package=name == _PACKAGE)
            if name == _PACKAGE:
                spec.submodule_search_locations = [os.path.join(p, "_op") for p in path or ()]
            return spec
        return None


def header_folders() -> list[str]:
    """Return the folders of BrainEvent's own headers and of XLA's, which its sources include."""
    found = importlib.util.find_spec("brainevent")
    places = list(found.submodule_search_locations or ()) if found else []
    folders = [os.path.join(place, "include") for place in places]
    return [folder for folder in (*folders, jax.ffi.include_dir()) if os.path.isdir(folder)]


def install() -> None:
    """Put kernbridge under BrainEvent's operators.

    Call it before `brainevent` is imported. Its modules `brainevent._op`, `brainevent._error` and
    `brainevent._registry`, and the settings of `brainevent.config` that concern kernels, are then
    kernbridge's; a line on stderr says so. Sources find the headers of BrainEvent and of XLA
    (`kernbridge.config.add_include_path`). 64-bit outputs keep their dtype even if 64-bit types
    are disabled in JAX, as with BrainEvent's own bridge. Nothing on disk is changed. A second
    call does nothing.

    Raises
    ------
    ModuleNotFoundError
        If BrainEvent is not installed.
    RuntimeError
        If BrainEvent is imported already, or is of a version that kernbridge was not tried with.

    Examples
    --------
    >>> from kernbridge.compat import brainevent
    >>> brainevent.install()  # doctest: +SKIP
    kernbridge 0.1.0 takes the place of brainevent._op, ... (BrainEvent 0.2.1)
    >>> import brainevent  # doctest: +SKIP
    """
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    try:
        version = importlib.metadata.version("brainevent")
    except importlib.metadata.PackageNotFoundError as e:
        raise ModuleNotFoundError(
            "BrainEvent is not installed, so kernbridge cannot take the place of its bridge: "
            "pip install brainevent [KB4016]",
            name="brainevent",
        ) from e
    if not version.startswith(tuple(f"{known}." for known in SUPPORTED)):
        raise RuntimeError(
            f"kernbridge can take the place of the bridge of BrainEvent {' and '.join(SUPPORTED)}, "
            f"and BrainEvent {version} is installed; install one of these, or a newer kernbridge"
            " [KB8010]"
        )
    if "brainevent" in sys.modules:
        raise RuntimeError(
            "BrainEvent is imported already, with its own bridge; call "
            f"{FACE}.install() before the first `import brainevent` [KB8010]"
        )
    for folder in header_folders():
        config.add_include_path(folder)
    settings.keeps_64_bits = True
    sys.meta_path.insert(0, _Finder())
    print(
        f"kernbridge {kernbridge.__version__} takes the place of {', '.join(_WHOLE)} and of the "
        f"settings for kernels in {_SETTINGS} (BrainEvent {version})",
        file=sys.stderr,
    )
