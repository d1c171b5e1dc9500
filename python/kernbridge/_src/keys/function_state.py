"""Takes a snapshot of what a Python function of the user reads, for comparison with a later one.

Kernels are compiled, and `keys/fingerprint.py` takes their identity. Functions that launch kernels,
that describe outputs or launches, and derivative rules are Python, which reads lists, attributes
and globals each time that it runs. A snapshot holds what such a function, and the functions of
the user that it calls, would read now: values by type and bits, arrays by content, attributes of
objects, and objects of libraries by the parts that pickle takes.

What cannot be read, such as a clock, a file or a generator, is `Unread`. A snapshot with such a
part equals no other one, so that nothing is kept for it. Objects of JAX and of Numba, and functions
of NumPy and SciPy, count as unchanging.
"""

from __future__ import annotations

import builtins
import contextvars
import copyreg
import functools
import hashlib
import importlib.util
import marshal
import operator
import os
import pickle
import random
import re
import sys
import threading
import types
import weakref
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from kernbridge._src.base.exact import exact, exact_items
from kernbridge._src.base.lru import LRUCache
from kernbridge._src.base.private_jax import Tracer
from kernbridge._src.keys import extensions
from kernbridge._src.keys.extensions import BUILTIN, OTHERS, is_foreign, is_foreign_name, reads
from kernbridge._src.keys.fingerprint import is_dispatcher

T = TypeVar("T")

_COMPILERS = frozenset(("llvmlite", "numba", "numba_cuda", "numba_cuda_mlir"))
_READERS = frozenset(("__import__", "eval", "exec", "globals", "input", "open", "vars"))
_BY_NAME = frozenset(("attrgetter", "getattr", "import_module", "methodcaller"))
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...), np.generic, np.dtype)
_CODE: tuple[type, ...] = (types.ModuleType, type, types.FunctionType, types.BuiltinFunctionType)
_CODE += (types.MethodDescriptorType, types.WrapperDescriptorType, np.ufunc)
_CODE += (types.GetSetDescriptorType, types.MemberDescriptorType)
_BOUND = (types.BuiltinMethodType, types.MethodWrapperType)
_VIEWS = tuple(type(getattr(vars(object), name)()) for name in ("keys", "values", "items"))
_KNOWN = (list, tuple, set, frozenset, dict, functools.partial)
_LOCKS = (type(threading.Lock()), type(threading.RLock()))
_PROXIES = (weakref.ProxyType, weakref.CallableProxyType)
_CACHED = type(functools.lru_cache(abs))
_PLAIN_SIZE = object.__basicsize__
_QUICK = frozenset((bool, int, float, complex, str, bytes, type(None)))
# Names the library's function that a function of kernbridge replaces.
STANDS_FOR = "_kernbridge_stands_for"
RUNS = "_kernbridge_runs"  # an object's method, which names the functions of the user that it runs
_MAKERS = {"__init__", "__new__"}  # which run where code holds the class
_LONG = 64  # containers of more plain values than these are taken as a whole


class Same:
    """A key that equals another one only if both stand for the same living object."""

    __slots__ = ("_hash", "_ref")

    def __init__(self, value: object) -> None:
        self._hash = hash((type(value), id(value)))
        self._ref = extensions.reference(value)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Same):
            return NotImplemented
        value = self._ref()
        return self is other or (value is not None and value is other._ref())


class Unread:
    """Stands for what cannot be read. Equals nothing but itself."""


def identity_of(function: Any) -> Hashable:
    """Return a key for what is called: methods by function and object, anything else by itself."""
    if isinstance(function, types.MethodType):
        return (types.MethodType, identity_of(function.__func__), Same(function.__self__))
    return Same(function)


def random_state(value: Any) -> Hashable | None:
    """Return a key for the state of a generator of random numbers; None if the value is none."""
    generator = value.bit_generator if isinstance(value, np.random.Generator) else value
    state: Any
    if isinstance(value, random.SystemRandom):
        return Unread()
    if isinstance(value, random.Random):
        state = value.getstate()
    elif isinstance(value, np.random.RandomState):
        state = value.get_state(legacy=False)
    elif isinstance(generator, np.random.BitGenerator):
        state = generator.state
    else:
        return None
    return hashlib.sha256(pickle.dumps(state)).digest()


class FunctionState:
    """A snapshot: of each path that was read, what was there. Hashable, compared by content.

    It is `incomparable` if it cannot equal a later one, because of something that cannot be read or
    that exists only while JAX traces. `traced` are values of the latter kind.
    """

    __slots__ = ("_hash", "incomparable", "parts", "traced")

    def __init__(self, parts: dict[str, Hashable], traced: list[Any]) -> None:
        self.parts = parts
        self.traced = traced
        self.incomparable = bool(traced) or any(type(part) is Unread for part in parts.values())
        self._hash = hash(frozenset(parts.items()))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FunctionState) and self.parts == other.parts

    def changes(self, later: FunctionState) -> list[str]:
        """Return the paths at which a later snapshot of the same functions differs."""
        missing = object()
        paths = {**self.parts, **later.parts}
        both = ((p, self.parts.get(p, missing), later.parts.get(p, missing)) for p in paths)
        return [p for p, a, b in both if a != b and not type(a) is type(b) is Unread]


def take(functions: Iterable[tuple[str, Any]]) -> FunctionState:
    """Take the snapshot of some functions, each with the name that paths begin with."""
    walk = _Walk()
    for name, function in functions:
        walk.feed(function, name)
    walk.follow()
    return FunctionState(walk.parts, walk.traced)


def key_of(values: Mapping[str, Any]) -> Hashable:
    """A key of values that a kernel is made for: also of what the functions among them read.

    TypeError is raised if one of them cannot be hashed.
    """
    state = take(_members(values.items()))
    return exact_items(values), None if state.incomparable else state


def _members(values: Iterable[tuple[str, Any]]) -> Iterable[tuple[str, Any]]:
    """Yield values, and in place of tuples, whose identity does not count, what they hold."""
    for name, value in values:
        if isinstance(value, tuple):
            yield from _members((f"{name}[{i}]", member) for i, member in enumerate(value))
        else:
            yield name, value


def find_or_make(kept: LRUCache[T], values: Mapping[str, Any], make: Callable[[], T]) -> T:
    """Return what is kept for values; it is made each time if one of them cannot be hashed."""
    try:
        key = key_of(values)
    except TypeError:
        return make()
    return kept.find_or_make(key, make)


class _Walk:
    """The walk from functions to what they read. Objects that are met again are named by path."""

    def __init__(self) -> None:
        self.parts: dict[str, Hashable] = {}
        self.traced: list[Any] = []
        self.visited: dict[int, tuple[str, Any]] = {}
        self.names: set[str] = set()
        self.holders: dict[int, tuple[str, Any]] = {}  # modules and classes, read by name

    def feed(self, value: Any, path: str) -> None:
        kind = type(value)
        if kind in _PROXIES:  # all else about them is what they stand for
            self.put(path, Unread())
        elif isinstance(value, _PLAIN):
            self.put(path, exact(value))
        elif value is vars(builtins):  # as `exec` leaves it in the globals that it is given
            self.put(path, "builtins")
        elif kind in _BOUND and not isinstance(value.__self__, types.ModuleType | type | None):
            self.put(f"{path}.{value.__name__}", "method")
            self.feed(value.__self__, path)
        elif kind.__module__.partition(".")[0] in OTHERS and not isinstance(value, _KNOWN):
            self.constant(value, path)
        elif isinstance(value, _CODE) and is_foreign(value):
            self.library_code(value, path)
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

    def library_code(self, value: Any, path: str) -> None:
        """Add a function, class or module of a library, and the functions that one wraps."""
        if isinstance(value, types.FunctionType):
            value = vars(value).get(STANDS_FOR, value)
            self.wrapped(value, path)
        self.put(path, Same(value) if extensions.depends_on_arguments_alone(value) else Unread())

    def constant(self, value: Any, path: str) -> None:
        """Add an object of JAX or of kernbridge, which does not change."""
        self.put(path, Same(value))
        if isinstance(value, Tracer):
            self.traced.append(value)
        elif id(value) not in self.visited:
            self.visited[id(value)] = (path, value)
            self.wrapped(value, path)

    def wrapped(self, value: Any, path: str) -> None:
        """Add the functions of the user that an object of a library holds."""
        for name, item in list(getattr(value, "__dict__", {}).items()):
            if isinstance(item, types.FunctionType) and not is_foreign(item):
                self.feed(item, f"{path}.{name}")
        runs = getattr(type(value), RUNS, None)
        for name, item in runs(value) if runs else ():
            self.feed(item, f"{path}.{name}")

    def parts_of(self, value: Any, path: str) -> None:
        kind = type(value)
        if isinstance(value, np.ndarray):
            self.array(value, path)
        elif isinstance(value, (list, tuple, set, frozenset, dict)) and value is not sys.modules:
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
            for owner in self.hold(value, path):
                for name in _MAKERS & vars(owner).keys():
                    self.feed(vars(owner)[name], f"{path}.{name}")
        elif not self.of_python(value, path):
            self.instance(value, path)

    def hold(self, value: Any, path: str) -> list[type]:
        """Add what code reads by name of a module or class; return the user's classes in it."""
        self.holders[id(value)] = (path, value)
        classes = value.__mro__ if isinstance(value, type) else ()
        own = [owner for owner in classes if not is_foreign(owner)]
        for owner in own:  # operators call these, which code does not name
            self.names.update(n for n in vars(owner) if n.startswith("__") and n not in _MAKERS)
        return own

    def of_python(self, value: Any, path: str) -> bool:
        """Add an object whose parts pickle does not take; False if it is none."""
        kind = type(value)
        read_once = hasattr(kind, "__next__") and is_foreign_name(kind.__module__)
        if value is sys.modules or read_once:
            self.put(path, Unread())
        elif isinstance(value, weakref.ref):
            self.feed(value(), f"{path}()")
        elif isinstance(value, contextvars.ContextVar):
            self.feed(value.get(None), f"{path}.get()")
        elif isinstance(value, types.MappingProxyType) or value is os.environ:
            self.feed(dict(value), path)
        elif isinstance(value, _VIEWS):
            self.feed(dict(value.mapping), path)
        elif isinstance(value, memoryview):
            self.put(path, (value.format, value.shape, value.tobytes()))
        elif isinstance(value, _CACHED):  # what it keeps may be older than what it would read now
            known = len(self.parts), len(self.holders)
            self.feed(value.__wrapped__, f"{path}.__wrapped__")
            kinds = set(map(type, list(self.parts.values())[known[0] :]))
            if len(self.holders) > known[1] or not kinds <= {Same, types.CodeType}:
                self.put(path, Unread())
        elif isinstance(value, threading.local):
            self.feed(vars(value), path)
        elif isinstance(value, _LOCKS):
            self.put(path, Same(value))
        else:
            if isinstance(value, (operator.attrgetter, operator.methodcaller)):
                self.names.update(re.findall(r"\w+", repr(value)))
            state = random_state(value)
            if state is None:
                return False
            self.put(f"{path} (random state)", state)
        return True

    def array(self, value: Any, path: str) -> None:
        if value.dtype.hasobject:
            self.put(path, (value.dtype, value.shape))
            self.feed(value.tolist(), path)
        else:
            content = hashlib.sha256(np.ascontiguousarray(value).view(np.uint8).data).digest()
            self.put(path, ("array", value.dtype, value.shape, value.strides, content))
        if type(value) is not np.ndarray:
            self.instance(value, path)

    def container(self, value: Any, path: str) -> None:
        kind = type(value)
        if (
            len(value) > _LONG
            and isinstance(value, (list, tuple))
            and _QUICK.issuperset(map(type, value))
        ):
            content = marshal.dumps(tuple(value), 2)
            self.put(path, (kind, len(value), hashlib.sha256(content).digest()))
            return
        if isinstance(value, dict):
            items = list(value.items())
            self.put(path, (kind, *(key for key, _ in items if type(key) is str)))
            for i, (key, item) in enumerate(items):
                name = f"{path}[{key!r}]" if type(key) in (str, int) else f"{path}[key {i}]"
                if type(key) is not str:
                    self.feed(key, f"{path} key {i}")
                self.feed(item, name)
        elif isinstance(value, (set, frozenset)):
            self.put(path, (kind, frozenset(exact(v) for v in list(value))))
        else:
            self.put(path, (kind, len(value)))
            for i, item in enumerate(list(value)):
                self.feed(item, f"{path}[{i}]")
        if kind not in (list, tuple, set, frozenset, dict):
            self.instance(value, path)

    def function(self, value: types.FunctionType, path: str) -> None:
        read = reads(value.__code__)
        self.names |= read.names
        self.put(path, value.__code__)
        for i, default in enumerate(value.__defaults__ or ()):
            self.feed(default, f"{path}.__defaults__[{i}]")
        for name, default in (value.__kwdefaults__ or {}).items():
            self.feed(default, f"{path}.__kwdefaults__[{name!r}]")
        for name, item in vars(value).items():
            if not name.startswith("_kernbridge"):
                self.feed(item, f"{path}.{name}")
        self.imports(value, read)
        for (_, root, *attributes), found, modules in extensions.loads(value):
            if found is extensions.MISSING and modules:  # a module lacks it, but it may come
                found, *modules = reversed(modules)
            if found is BUILTIN and root in _READERS:
                self.put(root, Unread())
            elif found is not BUILTIN and found is not extensions.MISSING:
                self.feed(found, ".".join((root, *attributes[: len(modules)])))

    def imports(self, value: types.FunctionType, read: extensions.Reads) -> None:
        """Add what a function might read of the modules that it imports as it runs."""
        for name in read.imports:
            package = value.__globals__.get("__package__") or ""
            try:
                name = importlib.util.resolve_name(name, package)
            except ImportError:
                continue
            module = sys.modules.get(name)
            if module is None or not is_foreign(module):
                self.feed(module, name)
                continue
            for each in sorted(read.names & vars(module).keys()):
                self.feed(vars(module)[each], f"{name}.{each}")

    def instance(self, value: Any, path: str) -> None:
        """Add an object: which one it is, its attributes, and what its class has by name."""
        kind = type(value)
        self.put(path, Same(value))
        if is_foreign_name(kind.__module__):
            if kind.__module__.partition(".")[0] not in _COMPILERS:
                self.pickled(value, path)
            elif "numba.typed" in kind.__module__ or hasattr(kind, "_numba_type_"):
                self.put(path, Unread())  # a typed container, or an object of a jitclass
            return
        self.hold(kind, kind.__qualname__)
        attributes = dict(getattr(value, "__dict__", {}))
        n_slots = 0
        for owner in kind.__mro__:
            slots = vars(owner).get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                n_slots += 1
                if name.startswith("__") and not name.endswith("__"):
                    name = f"_{owner.__name__.lstrip('_')}{name}"
                if not name.startswith("__") and hasattr(value, name):
                    attributes[name] = getattr(value, name)
        for name, item in attributes.items():
            if isinstance(name, str):
                self.feed(item, f"{path}.{name}")
        n_own = n_slots + bool(kind.__dictoffset__) + bool(kind.__weakrefoffset__)
        held = (list, tuple, set, frozenset, dict, np.ndarray)
        if kind.__basicsize__ > _PLAIN_SIZE + 8 * n_own and not isinstance(value, held):
            self.pickled(value, path)  # it holds what is written in C

    def pickled(self, value: Any, path: str) -> None:
        """Add the parts of an object that pickle would take."""
        try:
            reduce = copyreg.dispatch_table.get(type(value))
            found = reduce(value) if reduce else value.__reduce_ex__(4)
        except Exception:
            self.put(path, Unread())
            return
        for i, part in enumerate([] if isinstance(found, str) else found):
            if i == 1:
                part = [item for item in part if item is not type(value)]
            if part is not None and not (i == 0 and isinstance(part, _CODE)):
                self.feed(list(part) if i in (3, 4) else part, f"{path} part {i}")

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
        modules = any(isinstance(holder, types.ModuleType) for _, holder in self.holders.values())
        if "import_module" in self.names or (modules and not _BY_NAME.isdisjoint(self.names)):
            self.put("names that are computed", Unread())
