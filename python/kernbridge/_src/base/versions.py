"""The versions of other packages that kernbridge is tested with, and what it needs of them.

kernbridge uses names of JAX, Numba, Numba-CUDA and llvmlite that these packages do not promise to
keep. Each package has one module that looks them all up (`base/jax_inside.py`, and
`numba_inside.py`, `numba_cuda_inside.py` and `llvmlite_inside.py` in `numba_common`), with the
functions of this one. A name that is missing is an `UnknownVersionError`, which names the package
and the version, and does not blame the kernel.
"""

from __future__ import annotations

import importlib
import operator
import re
import warnings
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from kernbridge._src.base.errors import KernbridgeWarning, UnknownVersionError

TESTED = {  # the first and the last minor version; pyproject.toml repeats them as `tested`
    "JAX": ((0, 8), (0, 12)),
    "Numba": ((0, 60), (0, 68)),
    "Numba-CUDA": ((0, 30), (0, 30)),
    "llvmlite": ((0, 43), (0, 50)),
}
_MODULES = {"JAX": "jax", "Numba": "numba", "Numba-CUDA": "numba_cuda", "llvmlite": "llvmlite"}
_MOST_NAMED = 8


def look_up(package: str, names: Iterable[str]) -> None:
    """Check that a package has these names.

    Parameters
    ----------
    package : str
        A key of `TESTED`.
    names : iterable of str
        Dotted names, attributes of classes included; "a or b" where one of two is enough. A module
        that was not imported yet is imported.

    Raises
    ------
    UnknownVersionError
        If names are missing.
    """
    missing = [name for name in names if not any(map(_exists, name.split(" or ")))]
    if missing:
        raise unknown(package, missing)


def warn_of_untested(package: str) -> None:
    """Warn if the version of a package is not one of those that kernbridge is tested with."""
    version = _version(package)
    first, last = TESTED[package]
    if not first <= _minor(version) <= last:
        warnings.warn(
            f"{package} {version} is not among the versions that kernbridge is tested with, "
            f"{_tested(package)}. `pip install 'kernbridge[tested]'` installs a tested one.",
            KernbridgeWarning,
            stacklevel=3,
        )


def look_up_attributes(package: str, owner: object, names: Iterable[str]) -> None:
    """Check that an object of a package has these attributes, dotted names included.

    Raises
    ------
    UnknownVersionError
        If attributes are missing.
    """
    missing = [name for name in names if not _leads_somewhere(owner, name)]
    if missing:
        kind = type(owner)
        raise unknown(package, [f"{kind.__module__}.{kind.__qualname__}.{n}" for n in missing])


def _leads_somewhere(owner: object, name: str) -> bool:
    try:
        operator.attrgetter(name)(owner)
    except AttributeError:
        return False
    return True


def unknown(package: str, missing: Iterable[str]) -> UnknownVersionError:
    """The error for a package that lacks these names."""
    names = [f"`{name}`" for name in missing]
    shown = ", ".join(names[:_MOST_NAMED])
    if len(names) > _MOST_NAMED:
        shown += f" and {len(names) - _MOST_NAMED} more"
    return UnknownVersionError(
        f"kernbridge does not know this {package} {_version(package)}: {shown} "
        f"{'is' if len(names) == 1 else 'are'} missing; {_tested(package)} are tested. Install one "
        "of these versions (pip install 'kernbridge[tested]'), or look for a newer kernbridge."
    )


def _exists(name: str) -> bool:
    """Whether a dotted name leads somewhere; the package that it begins with is imported."""
    first, *rest = name.split(".")
    path, found = first, importlib.import_module(first)
    for part in rest:
        path = f"{path}.{part}"
        if hasattr(found, part):
            found = getattr(found, part)
        elif isinstance(found, ModuleType):
            try:
                found = importlib.import_module(path)
            except ImportError:
                return False
        else:
            return part in _fields(found)
    return True


def _fields(owner: Any) -> Iterable[str]:
    """Fields of a dataclass without default values, which are not attributes of the class."""
    fields: dict[str, Any] = getattr(owner, "__dataclass_fields__", {})
    return fields


def _version(package: str) -> str:
    module = importlib.import_module(_MODULES[package])
    return str(getattr(module, "__version__", "of unknown version"))


def _minor(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", version)[:2])


def _tested(package: str) -> str:
    first, last = (".".join(map(str, v)) for v in TESTED[package])
    return f"versions {first} to {last}"
