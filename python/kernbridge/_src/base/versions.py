"""Knows the versions of other packages that kernbridge is tested with, and the names that it uses.

kernbridge uses names of JAX, Numba, Numba-CUDA, its successor numba-cuda-mlir and llvmlite that
these packages do not promise to keep. Each package has one module that looks them all up
(`base/private_jax.py`, `mlir/private_mlir.py`, and `private_numba.py`, `private_numba_cuda.py` and
`private_llvmlite.py` in `numba_common`), with the functions of this one. A name that is missing is
an `UnknownVersionError`, which names the package and the version, and does not blame the kernel.
"""

from __future__ import annotations

import importlib
import operator
import re
import warnings
from collections.abc import Iterable
from types import ModuleType

from kernbridge._src.base.errors import KernbridgeWarning, UnknownVersionError

TESTED = {  # the first and the last minor version; pyproject.toml repeats them as `tested`
    "JAX": ((0, 8), (0, 12)),
    "Numba": ((0, 62), (0, 68)),
    "Numba-CUDA": ((0, 30), (0, 30)),
    "llvmlite": ((0, 45), (0, 50)),
    "numba-cuda-mlir": ((0, 6), (0, 6)),
}
_MODULES = {
    "JAX": "jax",
    "Numba": "numba",
    "Numba-CUDA": "numba_cuda",
    "llvmlite": "llvmlite",
    "numba-cuda-mlir": "numba_cuda_mlir",
}
_EXTRAS = {"Numba-CUDA": "tested-cuda", "numba-cuda-mlir": "tested-mlir"}
_MOST_NAMED = 8


def look_up(package: str, names: Iterable[str]) -> None:
    """Raise UnknownVersionError if a package of `TESTED` lacks one of these dotted names.

    They include attributes of classes; "a or b" stands for one of two that is enough. Modules that
    have not been imported yet are imported.
    """
    missing = [name for name in names if not any(map(_exists, name.split(" or ")))]
    if missing:
        raise unknown(package, missing)


def warn_of_untested(package: str) -> None:
    """Warn if the version of a package is not one of those that kernbridge is tested with."""
    version = _version(package)
    first, last = TESTED[package]
    if not first <= minor(version) <= last:
        warnings.warn(
            f"{package} {version} is not among the versions that kernbridge is tested with, "
            f"{_tested(package)}. `{_install(package)}` installs a tested one."
            " [KB8004]",
            KernbridgeWarning,
            stacklevel=3,
        )


def look_up_attributes(package: str, owner: object, names: Iterable[str]) -> None:
    """Raise UnknownVersionError if an object of a package lacks one of these dotted attributes."""
    missing = []
    for name in names:
        try:
            operator.attrgetter(name)(owner)
        except AttributeError:
            missing.append(f"{type(owner).__module__}.{type(owner).__qualname__}.{name}")
    if missing:
        raise unknown(package, missing)


def unknown(package: str, missing: Iterable[str]) -> UnknownVersionError:
    """Return the error for a package that lacks these names."""
    names = [f"`{name}`" for name in missing]
    shown = ", ".join(names[:_MOST_NAMED])
    if len(names) > _MOST_NAMED:
        shown += f" and {len(names) - _MOST_NAMED} more"
    return UnknownVersionError(
        f"kernbridge does not support {package} {_version(package)}: {shown} "
        f"{'is' if len(names) == 1 else 'are'} missing. It is tested with {_tested(package)}. "
        f"Install one of these versions ({_install(package)}), or look for a newer kernbridge. "
        "[KB8003]"
    )


def _exists(name: str) -> bool:
    """Return whether a dotted name leads somewhere; its package is imported."""
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
        else:  # fields of a dataclass without default values are not attributes of the class
            return part in getattr(found, "__dataclass_fields__", ())
    return True


def _version(package: str) -> str:
    module = importlib.import_module(_MODULES[package])
    return str(getattr(module, "__version__", "of unknown version"))


def minor(version: str) -> tuple[int, ...]:
    """Return the first two numbers of a version."""
    return tuple(int(n) for n in re.findall(r"\d+", version)[:2])


def _tested(package: str) -> str:
    first, last = (".".join(map(str, v)) for v in TESTED[package])
    return f"versions {first} to {last}"


def _install(package: str) -> str:
    """The command that installs a tested version of a package."""
    return f"pip install 'kernbridge[{_EXTRAS.get(package, 'tested')}]'"
