"""Takes a snapshot of what a Python function of the user reads, for comparison with a later one.

Kernels are compiled, and `keys/fingerprint.py` takes their identity. Functions that launch kernels,
that describe outputs or launches, and derivative rules are Python, which reads lists, attributes
and globals each time that it runs. A snapshot holds what such a function, and the functions of
the user that it calls, would read now: values by type and bits, arrays by content, attributes of
objects, and everything that cannot be looked into by the object that it is.

It does not see what a function reads by other ways: files, the environment, the state of libraries,
objects that are reached through containers of a library or through attributes that are computed.
"""

from __future__ import annotations

import functools
import hashlib
import marshal
import pickle
import random
import sys
import sysconfig
import types
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from kernbridge._src.base.exact import exact
from kernbridge._src.keys.encode import is_dispatcher, is_library, reads, reference

_OTHERS = frozenset(("jax", "jaxlib", "kernbridge", "ml_dtypes"))
_STDLIB = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...), np.generic, np.dtype)
_BOUND = (types.MethodType, types.BuiltinMethodType)
_CODE = (types.ModuleType, type, types.FunctionType, types.BuiltinFunctionType, np.ufunc)
_QUICK = frozenset((bool, int, float, complex, str, bytes, type(None)))
STANDS_FOR = (
    "_kernbridge_stands_for"  # names the library's function that a function of kernbridge replaces
)
_LONG = 64  # containers of more plain values than these are taken as a whole


class Same:
    """A key that equals another one only if both stand for the same living object."""

    __slots__ = ("_hash", "_ref")

    def __init__(self, value: object) -> None:
        self._hash = hash((type(value), id(value)))
        self._ref = reference(value)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Same):
            return NotImplemented
        value = self._ref()
        return self is other or (value is not None and value is other._ref())


class HostState:
    """A snapshot: of each path that was read, what was there. Hashable, compared by content."""

    __slots__ = ("_hash", "has_data", "parts")

    def __init__(self, parts: dict[str, Hashable], has_data: bool) -> None:
        self.parts = parts
        self.has_data = has_data  # whether it holds more than code and names
        self._hash = hash(frozenset(parts.items()))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HostState) and self.parts == other.parts

    def changes(self, later: HostState) -> list[str]:
        """Return the paths at which a later snapshot of the same functions differs."""
        missing = object()
        paths = {**self.parts, **later.parts}
        return [p for p in paths if self.parts.get(p, missing) != later.parts.get(p, missing)]


def take(functions: Iterable[tuple[str, Any]]) -> HostState:
    """Take the snapshot of some functions, each with the name that paths begin with."""
    walk = _Walk()
    for name, function in functions:
        walk.feed(function, name)
    walk.follow()
    return HostState(walk.parts, walk.has_data)


def identity_of(function: Any) -> Hashable:
    """Return a key for what is called: methods by function and object, anything else by itself."""
    if isinstance(function, types.MethodType):
        return (types.MethodType, identity_of(function.__func__), Same(function.__self__))
    return Same(function)


class _Walk:
    """The walk from functions to what they read. Objects that are met again are named by path."""

    def __init__(self) -> None:
        self.parts: dict[str, Hashable] = {}
        self.visited: dict[int, tuple[str, Any]] = {}
        self.names: set[str] = set()
        self.holders: dict[int, tuple[str, Any]] = {}  # modules and classes, read by name
        self.has_data = False

    def feed(self, value: Any, path: str) -> None:
        """Add a value that was reached by a path."""
        if isinstance(value, _PLAIN):
            self.data(path, exact(value))
        elif is_foreign(value):
            if isinstance(value, types.FunctionType):
                value = vars(value).get(STANDS_FOR, value)
            self.put(path, Same(value))
            self.has_data |= not isinstance(value, _CODE)
            self.random_state(value, path)
        elif id(value) in self.visited:
            self.put(path, ("visited", self.visited[id(value)][0]))
        else:
            self.visited[id(value)] = (path, value)
            self.parts_of(value, path)

    def put(self, path: str, token: Hashable) -> None:
        """Note what is at a path; functions of different modules may read by the same name."""
        unique, n = path, 1
        while unique in self.parts:
            n += 1
            unique = f"{path} #{n}"
        self.parts[unique] = token

    def data(self, path: str, token: Hashable) -> None:
        """Note what is at a path, and is neither code nor a name."""
        self.put(path, token)
        self.has_data = True

    def parts_of(self, value: Any, path: str) -> None:
        kind = type(value)
        if isinstance(value, np.ndarray):
            self.data(path, _array(value))
        elif isinstance(value, (list, tuple, set, frozenset, dict)):
            self.container(value, path)
        elif kind is types.FunctionType:
            self.function(value, path)
        elif kind is types.MethodType:
            self.put(path, "method")
            self.feed(value.__func__, path)
            self.feed(value.__self__, f"{path}.__self__")
        elif kind in (staticmethod, classmethod):
            self.feed(value.__func__, path)
        elif kind is property:
            self.feed((value.fget, value.fset), path)
        elif isinstance(value, functools.partial):
            self.put(path, "partial")
            for part in ("func", "args", "keywords"):
                self.feed(getattr(value, part), f"{path}.{part}")
        elif is_dispatcher(value):
            self.put(path, Same(value))  # what a kernel reads is part of its own identity
        elif isinstance(value, (types.ModuleType, type)):
            self.put(path, Same(value))
            self.holders[id(value)] = (path, value)
        elif not self.random_state(value, path):
            self.instance(value, path)

    def container(self, value: Any, path: str) -> None:
        kind = type(value)
        if (
            len(value) > _LONG
            and isinstance(value, (list, tuple))
            and _QUICK.issuperset(map(type, value))
        ):
            content = marshal.dumps(tuple(value), 2)
            self.data(path, (kind, len(value), hashlib.sha256(content).digest()))
            return
        self.data(path, (kind, len(value)))
        if isinstance(value, dict):
            for i, (key, item) in enumerate(list(value.items())):
                name = f"{path}[{key!r}]" if type(key) in (str, int) else f"{path}[key {i}]"
                if type(key) is not str:
                    self.feed(key, f"{path} key {i}")
                self.feed(item, name)
        elif isinstance(value, (set, frozenset)):
            self.data(path, (kind, frozenset(exact(v) for v in list(value))))
        else:
            for i, item in enumerate(list(value)):
                self.feed(item, f"{path}[{i}]")
        if kind not in (list, tuple, set, frozenset, dict):
            self.instance(value, path + " (attributes)")

    def function(self, value: types.FunctionType, path: str) -> None:
        """Add code, defaults, and what the code loads."""
        chains, names = reads(value.__code__)
        self.names |= names
        self.put(path, value.__code__)
        for i, default in enumerate(value.__defaults__ or ()):
            self.feed(default, f"{path}.__defaults__[{i}]")
        for name, default in (value.__kwdefaults__ or {}).items():
            self.feed(default, f"{path}.__kwdefaults__[{name!r}]")
        cells = dict(zip(value.__code__.co_freevars, value.__closure__ or (), strict=True))
        for kind, root, *attributes in chains:
            try:
                found = cells[root].cell_contents if kind == "cell" else value.__globals__[root]
            except (KeyError, ValueError):  # a builtin, a variable of its own, or not there yet
                continue
            where = root
            for name in attributes:
                if not isinstance(found, types.ModuleType) or not hasattr(found, name):
                    break
                found, where = getattr(found, name), f"{where}.{name}"
            self.feed(found, where)

    def instance(self, value: Any, path: str) -> None:
        """Add an object: which one it is, its attributes, and what its class has by name."""
        self.put(path, Same(value))
        self.holders[id(type(value))] = (type(value).__qualname__, type(value))
        attributes = dict(getattr(value, "__dict__", {}))
        for owner in type(value).__mro__:
            if not is_foreign(owner):  # operators call these, which code does not name
                self.names.update(n for n in vars(owner) if n.startswith("__"))
            slots = vars(owner).get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if not name.startswith("__") and hasattr(value, name):
                    attributes[name] = getattr(value, name)
        for name, item in attributes.items():
            if isinstance(name, str):
                self.feed(item, f"{path}.{name}")

    def random_state(self, value: Any, path: str) -> bool:
        """Add the state of a generator of random numbers; False if it is none."""
        if isinstance(value, _BOUND):
            value = value.__self__
        generator = value.bit_generator if isinstance(value, np.random.Generator) else value
        state: Any
        if isinstance(value, random.Random) and not isinstance(value, random.SystemRandom):
            state = value.getstate()
        elif isinstance(value, np.random.RandomState):
            state = value.get_state(legacy=False)
        elif isinstance(generator, np.random.BitGenerator):
            state = generator.state
        else:
            return False
        content = hashlib.sha256(pickle.dumps(state)).digest()
        self.data(f"{path} (random state)", content)
        return True

    def follow(self) -> None:
        """Add what code might read by name of the modules and classes that it holds."""
        done: dict[int, set[str]] = {}
        growing = True
        while growing:
            growing = False
            for path, holder in list(self.holders.values()):
                owners = holder.__mro__ if isinstance(holder, type) else (holder,)
                looked_up = done.setdefault(id(holder), set())
                held = set().union(*(self.names & vars(o).keys() for o in owners)) - looked_up
                looked_up |= held
                growing |= bool(held)
                for name in sorted(held):
                    found = next(vars(o)[name] for o in owners if name in vars(o))
                    if found is not None:
                        self.feed(found, f"{path}.{name}")


def is_foreign(value: Any) -> bool:
    """Whether this is a function, a class, an object or a module of a library, or of Python."""
    if isinstance(value, types.ModuleType):
        return is_foreign_name(value.__name__)
    if isinstance(value, (type, types.FunctionType, types.MethodType)):
        return is_foreign_name(getattr(value, "__module__", None))
    if is_dispatcher(value) or isinstance(value, (np.ndarray, functools.partial)):
        return False
    return is_foreign_name(type(value).__module__) and not isinstance(
        value, (list, tuple, set, frozenset, dict, staticmethod, classmethod, property)
    )


def is_foreign_name(name: object) -> bool:
    """Whether a module of this name belongs to Python or to a library, and is not walked."""
    if not isinstance(name, str):
        return False
    top = name.partition(".")[0]
    return (
        top in _OTHERS or is_library(name) or (top in sys.stdlib_module_names and _is_stdlib(top))
    )


def _is_stdlib(name: str) -> bool:
    """Whether a module of such a name is Python's: users may have a ``test.py`` of their own."""
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is None or (file.startswith(_STDLIB) and "site-packages" not in file)


def _array(value: Any) -> Hashable:
    if value.dtype.hasobject:
        return (Same(value), value.shape)
    content = hashlib.sha256(np.ascontiguousarray(value).view(np.uint8).data).digest()
    return ("array", value.dtype, value.shape, value.strides, content)
