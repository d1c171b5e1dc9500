"""Says what belongs to Python or to a library, and which of it always gives the same.

`keys/host_state.py` asks, for what functions of users read. Holds no state; any thread may enter.
"""

from __future__ import annotations

import dis
import functools
import sys
import sysconfig
import types
from typing import Any

import numpy as np

from kernbridge._src.keys.encode import is_library

OTHERS = frozenset(("jax", "jaxlib", "kernbridge", "ml_dtypes"))
_STDLIB = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})
# Modules of Python whose functions depend on their arguments alone, without leading underscores.
_PURE = frozenset(
    (
        *("abc", "array", "ast", "bisect", "builtins", "cmath", "codecs", "collections"),
        *("collections_abc", "configparser", "contextlib", "copy", "copyreg", "dataclasses"),
        *("difflib", "enum", "errno", "fractions", "functools", "graphlib", "hashlib", "heapq"),
        *("itertools", "json", "keyword", "logging", "math", "numbers", "operator", "pprint"),
        *("random", "re", "reprlib", "statistics", "string", "struct", "textwrap", "threading"),
        *("types", "typing", "warnings", "weakref", "zlib"),
    )
)
_NUMPY_READERS = frozenset(("fromfile", "genfromtxt", "load", "loadtxt", "memmap", "default_rng"))


def is_foreign(value: Any) -> bool:
    """Whether this is a function, a class or a module of a library, or of Python."""
    if isinstance(value, types.ModuleType):
        return is_foreign_name(value.__name__)
    if isinstance(value, types.FunctionType):  # `functools.wraps` copies the name of the module
        names = value.__module__, value.__globals__.get("__name__")
        return all(map(is_foreign_name, names))
    if isinstance(value, types.MethodType):
        return is_foreign(value.__func__)
    return is_foreign_name(getattr(value, "__module__", None) or type(value).__module__)


def is_foreign_name(name: object) -> bool:
    """Whether a module of this name belongs to Python or to a library, and is not walked."""
    if not isinstance(name, str):
        return False
    top = name.partition(".")[0]
    return top in OTHERS or is_library(name) or (top in sys.stdlib_module_names and _is_stdlib(top))


def _is_stdlib(name: str) -> bool:
    """Whether a module of such a name is Python's: users may have a ``test.py`` of their own."""
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is None or (file.startswith(_STDLIB) and "site-packages" not in file)


def depends_on_arguments_alone(code: Any) -> bool:
    """Whether a function, class or module of a library reads nothing else that can change."""
    if isinstance(code, types.ModuleType):
        name = code.__name__
        return name not in ("random", "numpy.random") and _is_pure(name)
    if isinstance(code, np.ufunc):
        return not code.__name__.endswith(" (vectorized)")  # of `numpy.frompyfunc`
    owner = getattr(code, "__self__", None)
    if isinstance(owner, type):  # a class method
        return depends_on_arguments_alone(owner)
    name = getattr(code, "__module__", None) or "builtins"
    if name.startswith("numpy") and getattr(code, "__name__", "") in _NUMPY_READERS:
        return False
    return _is_pure(name)


def _is_pure(module: str) -> bool:
    top = module.partition(".")[0].lstrip("_")
    return top in _PURE or top not in sys.stdlib_module_names


@functools.lru_cache(maxsize=4096)
def imports_of(code: types.CodeType) -> tuple[str, ...]:
    """The modules that a code object and those within it import, as `resolve_name` takes them."""
    found, steps = set(), list(dis.get_instructions(code))
    for i, step in enumerate(steps):
        if step.opname == "IMPORT_NAME":
            level = next(s.argval for s in reversed(steps[:i]) if isinstance(s.argval, int))
            found.add("." * level + step.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found.update(imports_of(constant))
    return tuple(sorted(found))
