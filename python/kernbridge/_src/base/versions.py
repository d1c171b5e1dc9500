"""Versions of other packages that kernbridge is tested with, and errors about names that they lack.

kernbridge uses names of JAX, Numba, Numba-CUDA, numba-cuda-mlir and llvmlite that these packages do
not promise to keep. The modules `private_*.py` import them plainly. `missing_name` recognises the
error of a version that lacks one, so that the kernel is not blamed.
"""

from __future__ import annotations

import importlib
import re
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from types import ModuleType

from kernbridge._src.base.errors import KernbridgeWarning, UnknownVersionError, show_way

TESTED = {  # the first and the last minor version; pyproject.toml repeats them as `tested`
    "JAX": ((0, 8), (0, 12)),
    "Numba": ((0, 62), (0, 68)),
    "Numba-CUDA": ((0, 30), (0, 30)),
    "llvmlite": ((0, 45), (0, 50)),
    "numba-cuda-mlir": ((0, 6), (0, 6)),
}
_MODULES = {package: package.lower().replace("-", "_") for package in TESTED}
_BEGINNINGS = {  # how the names of modules begin; the longest one counts
    **{module: package for package, module in _MODULES.items()},
    "jaxlib": "JAX",
    "numba.cuda": "Numba-CUDA",
}
_EXTRAS = {"Numba-CUDA": "tested-cuda", "numba-cuda-mlir": "tested-mlir"}
_OURS = "kernbridge"


def warn_of_untested(package: str) -> None:
    """Warn if the version of a package is not one that kernbridge is tested with."""
    version = _version(package)
    first, last = TESTED[package]
    if not first <= minor(version) <= last:
        warnings.warn(
            f"{package} {version} is not among the versions that kernbridge is tested with, "
            f"{_tested(package)}. `{install(_EXTRAS.get(package, 'tested'))}` installs a "
            "tested one. [KB8004]",
            KernbridgeWarning,
            stacklevel=3,
        )


@contextmanager
def explained() -> Iterator[None]:
    """Raise UnknownVersionError for a name that another package lacks; show the way to a code."""
    try:
        yield
    except Exception as e:
        missing = missing_name(e)
        if missing is None:
            show_way(e)
            raise
        raise missing from e


def missing_name(error: BaseException) -> UnknownVersionError | None:
    """Return the error to raise for a name that a package of `TESTED` lacks, or None.

    The name must have been used by kernbridge's own code: an error inside Numba is the kernel's.
    Numba replaces errors of functions that it calls, so what its errors replace is searched, too.
    """
    seen: BaseException | None = error
    for _ in range(8):
        if isinstance(seen, (AttributeError, ImportError)) and _is_from_here(seen):
            owner, name = _owner(seen)
            package = _package(owner)
            return _unknown(package, f"{owner}.{name}") if package and name else None
        if seen is None or _package(type(seen).__module__) is None:
            return None
        seen = seen.__cause__ or seen.__context__
    return None


def _is_from_here(error: BaseException) -> bool:
    frames = [f for f, _ in traceback.walk_tb(error.__traceback__)]
    while frames and frames[-1].f_code.co_name in ("__getattr__", "getattr"):
        frames.pop()  # the function by which a module of JAX refuses a name
    return bool(frames) and str(frames[-1].f_globals.get("__name__")).startswith(_OURS)


def _owner(error: AttributeError | ImportError) -> tuple[str, str]:
    """Return the module or class that lacks a name, and the name."""
    if isinstance(error, ImportError):
        found = re.match("cannot import name '(.+?)'", str(error))
        if found or not error.name:
            return error.name or "", found[1] if found else ""
        owner, _, name = error.name.rpartition(".")
        return owner, name
    if isinstance(error.obj, ModuleType):
        return error.obj.__name__, error.name or ""
    kind = error.obj if isinstance(error.obj, type) else type(error.obj)
    return f"{kind.__module__}.{kind.__qualname__}", error.name or ""


def _package(owner: str) -> str | None:
    """Return the package of `TESTED` that a module or class belongs to, if it is installed."""
    found = [b for b in _BEGINNINGS if f"{owner}.".startswith(f"{b}.")]
    package = _BEGINNINGS[max(found, key=len)] if found else None
    return package if package and _MODULES[package] in sys.modules else None


def _unknown(package: str, name: str) -> UnknownVersionError:
    return UnknownVersionError(
        f"kernbridge does not support {package} {_version(package)}: `{name}` is missing. It is "
        f"tested with {_tested(package)}. Install one of these versions "
        f"({install(_EXTRAS.get(package, 'tested'))}), or look for a newer kernbridge. [KB8003]"
    )


def _version(package: str) -> str:
    module = importlib.import_module(_MODULES[package])
    return str(getattr(module, "__version__", "of unknown version"))


def minor(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", version)[:2])


def _tested(package: str) -> str:
    first, last = (".".join(map(str, v)) for v in TESTED[package])
    return f"versions {first} to {last}"


def install(extra: str) -> str:
    """The line that installs the packages of an extra, as pyproject.toml has them.

    No index has kernbridge itself.
    """
    return "pip install " + " ".join(f"'{package}'" for package in dict.fromkeys(_packages(extra)))


def _packages(extra: str) -> Iterator[str]:
    for line in metadata.requires(_OURS) or ():
        package, _, marker = (part.strip() for part in line.partition(";"))
        if marker.replace("_", "-").replace("'", '"') == f'extra == "{extra}"':
            of_ours = re.fullmatch(rf"{_OURS}\[(.*)\]", package)
            yield from _packages(of_ours[1]) if of_ours else [package]
