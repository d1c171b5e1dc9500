"""Computes a digest of a Numba dispatcher that is equal in every process with the same kernel.

Visits everything that the machine code of a dispatcher depends on, and keeps tables of dispatchers
without keeping them alive. Any thread may enter. Numba is recognised by the objects that are
passed; importing this module imports neither Numba nor JAX.
"""

from __future__ import annotations

import dis
import enum
import functools
import hashlib
import secrets
import sys
import threading
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernbridge._src.base.errors import defect
from kernbridge._src.keys import encode, generators

_CODE_FLAGS = 0x2AC  # *args, **kwargs, generators, coroutines; not docstring, nesting, __future__


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Identity of a dispatcher's meaning.

    Values that could not be walked are `opaque`, and each added a nonce of this process: if there
    are none, the digest is the same in every process.
    """

    digest: bytes  # SHA-256
    opaque: tuple[str, ...]  # dotted names
    # Where the code stands: SHA-256 of its files and lines, no part of what the dispatcher means.
    lines: bytes = field(default=b"", compare=False)

    @property
    def why_not_portable(self) -> str:
        """Empty, or what keeps other processes from recognising the dispatcher."""
        if not self.opaque:
            return ""
        return f"it reads {', '.join(self.opaque)}, whose value has no name outside this process"


class _ById:
    """What belongs to an object, by its identity, for as long as the object lives."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[Any, Any]] = {}
        self._lock = threading.RLock()

    def get(self, key: object) -> Any:
        entry = self._entries.get(id(key))
        return entry[1] if entry is not None and entry[0]() is key else None

    def setdefault(self, key: object, value: Any) -> Any:
        entries, name = self._entries, id(key)
        ref = encode.reference(key, lambda _: entries.pop(name, None))
        with self._lock:
            if (known := self.get(key)) is None:
                entries[name] = (ref, known := value)
            return known


_first_seen, _nonces = _ById(), _ById()


def take(dispatcher: Any) -> Fingerprint:
    """Take the fingerprint of a dispatcher of Numba as it reads now; it is not kept alive.

    A dispatcher that another one calls, and that would read otherwise now than when it was first
    seen, counts as opaque: Numba may mix both.
    """
    if not encode.is_dispatcher(dispatcher):
        raise TypeError(defect(f"expected a Numba dispatcher, got {type(dispatcher).__name__}"))
    walk = _Walk(dispatcher)
    for path, inner in walk.dispatchers:
        if inner is dispatcher:
            continue
        now = _Walk(inner).h.digest()
        if _first_seen.setdefault(inner, now) != now:
            walk.opaque(inner, path)
    return Fingerprint(walk.h.digest(), tuple(sorted(walk.unnamed)), walk.lines.digest())


def combine(base: Fingerprint, *parts: object) -> bytes:
    """Return the digest (32 bytes) of a fingerprint and plain values or tuples of them.

    Values of different types differ: 1, 1.0 and True give three digests.
    """
    h = hashlib.sha256()
    encode.put_parts(h, ("combine", base.digest, parts))
    return h.digest()


@functools.lru_cache(maxsize=256)
def _steps(code: types.CodeType) -> tuple[str, tuple[Any, ...]]:
    """Return the instructions of a code object, and the constants that they load.

    Constants are known by value, not by index: a docstring shifts the indices. Programs that make
    a kernel for every size make it of equal code objects.
    """
    steps = list(dis.get_instructions(code))
    text = "\n".join(f"{s.opname} {'' if s.opcode in encode.HAS_CONST else s.arg}" for s in steps)
    return text, tuple(s.argval for s in steps if s.opcode in encode.HAS_CONST)


class _Text:
    """Takes what a hash would take."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.names: set[str] = set()

    def update(self, data: bytes) -> None:
        self.parts.append(data)

    def constant(self, value: Any) -> bool:
        """Add a constant as `_Walk.feed` does; False if it has parts that are not plain values."""
        if type(value) is tuple:
            encode.put_parts(self, ("items", len(value)))
            return all(map(self.constant, value))
        if type(value) is str and value.isidentifier():
            self.names.add(value)
        return encode.put_plain(self, value)


@dataclass(frozen=True, slots=True)
class _Code:
    """What a walk adds for a code object and those within it, none of which depends on a value."""

    text: bytes
    lines: bytes
    names: frozenset[str]

    @staticmethod
    @functools.lru_cache(maxsize=256)
    def of(code: types.CodeType, file: str) -> _Code | None:
        """None if a constant has parts. `file` is that of the code, as equal ones may differ in it.

        Programs that make a kernel for every size make it of equal code objects.
        """
        steps, constants = _steps(code)
        text = _Text()
        text.names.update(code.co_names)
        _put_head(text, code, steps)
        lines = [_place(code, file)]
        for constant in constants:
            if isinstance(constant, types.CodeType):
                inner = _Code.of(constant, constant.co_filename)
                if inner is None:
                    return None
                text.update(inner.text)
                text.names |= inner.names
                lines.append(inner.lines)
            elif not text.constant(constant):
                return None
        return _Code(b"".join(text.parts), b"".join(lines), frozenset(text.names))


def _put_head(h: Any, code: types.CodeType, steps: str) -> None:
    """Add a code object but its constants."""
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
    names = (code.co_varnames, code.co_cellvars, code.co_freevars, code.co_names)
    flags = code.co_flags & _CODE_FLAGS
    encode.put_parts(h, ("code", counts, flags, code.co_exceptiontable, names, steps))


def _place(code: types.CodeType, file: str) -> bytes:
    """Where each instruction stands."""
    return repr((file, list(code.co_lines()))).encode("utf-8", "backslashreplace")


class _Walk:
    """The walk from one dispatcher. Objects met again are written as the number of their visit."""

    def __init__(self, dispatcher: Any) -> None:
        self.h = hashlib.sha256()
        self.lines = hashlib.sha256()
        self.root = getattr(dispatcher.py_func, "__name__", "kernel")
        self.of_mlir = encode.is_mlir(dispatcher)
        self.visited: dict[int, tuple[int, object]] = {}
        self.dispatchers: list[tuple[str, Any]] = []
        self.unnamed: set[str] = set()
        self.names: set[str] = set()  # every name by which code could read an attribute
        self.escaped: dict[int, types.ModuleType] = {}  # modules that code holds as values
        rules = generators.digest_of("keys/fingerprint.py", "keys/encode.py")
        encode.put_parts(self.h, ("kernbridge", rules))
        self.feed(dispatcher, self.root)
        self.follow_escaped()

    def feed(self, value: Any, path: str, owner: types.ModuleType | None = None) -> None:
        """Add a value, reached as `path`, and where that matters as an attribute of `owner`."""
        kind = type(value)
        if encode.put_plain(self.h, value):
            if kind is str and value.isidentifier():
                self.names.add(value)  # for getattr
        elif value is encode.MISSING:
            encode.put(self.h, "missing", b"")
        elif kind is tuple:
            self.items("items", value, path)
        elif kind is range or kind is slice:
            self.items(kind.__name__, (value.start, value.stop, value.step), path)
        elif isinstance(value, types.ModuleType):
            encode.put_parts(self.h, ("module", value.__name__))
            self.escaped[id(value)] = value
        elif isinstance(value, enum.Enum):
            self.items("member", (kind, value.name, value.value), path)
        elif isinstance(value, np.ndarray | np.generic) and encode.is_library(kind.__module__):
            encode.put_parts(self.h, (kind.__qualname__,))
            if not encode.put_array(self.h, np.asanyarray(value)):
                self.opaque(value, path)
        elif isinstance(value, tuple) and hasattr(kind, "_fields"):
            self.items("namedtuple", (kind, *value), path)
        elif isinstance(value, enum.EnumMeta):
            bases = tuple(f"{b.__module__}.{b.__qualname__}" for b in value.__mro__)
            members: dict[str, Any] = dict(value.__members__)
            self.items("enum", (bases, *((n, m.value) for n, m in members.items())), path)
        elif isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields"):
            defaults = getattr(value, "_field_defaults", {})
            name = (value.__module__, value.__qualname__)
            self.items("fields", (name, tuple(value._fields), defaults), path)
        elif (known := encode.name_of(value, owner)) is not None:
            encode.put_parts(self.h, ("named", known))
        elif id(value) in self.visited:
            encode.put_parts(self.h, ("visit", self.visited[id(value)][0]))
        else:
            self.visited[id(value)] = (len(self.visited), value)
            self.parts(value, path)

    def parts(self, value: Any, path: str) -> None:
        """Add a value that may lead back to itself."""
        kind = type(value)
        if kind in (list, set, frozenset, dict, types.MappingProxyType):
            self.items(kind.__name__, value if kind is list else (), path)
            if kind is not list:
                self.unordered(value, path)
            return
        family = {c.__name__ for c in kind.__mro__ if encode.is_library(c.__module__)}
        if "DUFunc" in family:
            from kernbridge._src.numba_common import numba_inside

            numba_inside.check_ufunc(value)
            signatures = list(value.types) if value._frozen else None
            self.items("dufunc", (value._dispatcher, value.identity, signatures), path)
        elif encode.is_dispatcher(value):
            self.dispatcher(value, path)
        elif kind is types.FunctionType:
            self.function(value, path)
            self.items("overloads", encode.overloads(value), f"{path}.overload")
            if self.of_mlir:  # whose overloads are in registries that are not looked up
                self.opaque(value, path)
        elif kind is types.MethodType:
            self.items("method", (value.__func__, value.__self__), path)
        elif kind is functools.partial:
            self.items("partial", (value.func, value.args, value.keywords), path)
        elif "AbstractOptionValue" in family:
            slots = [s for c in kind.__mro__ for s in getattr(c, "__slots__", ())]
            fields = {s: getattr(value, s) for s in slots if hasattr(value, s)}
            self.items(kind.__name__, (fields, getattr(value, "__dict__", {})), path)
        elif "Type" in family and encode.has_safe_key(value):
            self.items(f"{kind.__module__}.{kind.__qualname__}", (value.key,), path)
        else:
            self.opaque(value, path)

    def items(self, tag: str, items: Iterable[Any], path: str) -> None:
        """Add values in their order."""
        items = tuple(items)
        encode.put_parts(self.h, (tag, len(items)))
        for i, item in enumerate(items):
            self.feed(item, f"{path}[{i}]" if tag in ("items", "list") else path)

    def unordered(self, value: Iterable[Any], path: str) -> None:
        """Add a set or a mapping, in an order that depends on no hash."""
        outer, visited, keys = self.h, self.visited, []
        for key in value:
            self.h, self.visited = hashlib.sha256(), dict(visited)
            self.feed(key, f"{path}[...]")
            keys.append((self.h.digest(), key))
        self.h, self.visited = outer, visited
        for digest, key in sorted(keys, key=lambda item: item[0]):
            encode.put(self.h, "key", digest)
            if isinstance(value, Mapping):
                self.feed(value[key], f"{path}.{key}" if type(key) is str else f"{path}[...]")

    def dispatcher(self, value: Any, path: str) -> None:
        """Add code, options, and, where no more can be compiled, signatures."""
        self.dispatchers.append((path, value))
        options = dict(value.targetoptions)
        overriding = getattr(sys.modules.get("numba.core.config"), "BOUNDSCHECK", None)
        if overriding is not None:
            options["boundscheck"] = overriding
        if "link" in options:
            options["link"] = [encode.link(item) for item in options["link"] or ()]
        of_mlir = encode.is_mlir(value)
        if of_mlir:
            for option in ("chip", "lto"):  # of the last compilation
                options.pop(option, None)
        encode.put_parts(self.h, ("dispatcher", type(value).__name__))
        self.function(value.py_func, path)
        for name, given in (("targetoptions", options), ("locals", getattr(value, "locals", None))):
            text = encode.plain_text(given)
            if text is None:
                self.feed(given, f"{path}.{name}")
            else:
                encode.put(self.h, name, text.encode())
        if of_mlir:
            encode.put_parts(self.h, encode.mlir_environment())
            for rewriter in encode.mlir_rewriters(value):
                self.opaque(rewriter, path)
        else:
            pipeline = getattr(getattr(value, "_compiler", None), "pipeline_class", None)
            self.feed(pipeline, f"{path}.pipeline_class")
        if not getattr(value, "_can_compile", True):
            for arguments, compiled in value.overloads.items():
                returned = getattr(getattr(compiled, "signature", None), "return_type", None)
                self.feed((arguments, returned), f"{path}.signatures")

    def function(self, value: types.FunctionType, path: str) -> None:
        """Add code, defaults, and everything that the code loads, by value."""
        encode.put_parts(self.h, ("function", sys.implementation.cache_tag))
        self.code(value.__code__)
        self.feed(value.__defaults__, f"{path}.__defaults__")
        self.feed(value.__kwdefaults__, f"{path}.__kwdefaults__")
        for chain, found, modules in encode.loads(value):
            encode.put_parts(self.h, chain)
            if found is encode.BUILTIN:
                encode.put(self.h, "builtin", b"")
                continue
            for module in modules:
                encode.put_parts(self.h, ("attribute of", module.__name__))
            where = ".".join((path, *chain[1 : 2 + len(modules)]))
            self.feed(found, where, modules[-1] if modules else None)

    def code(self, code: types.CodeType) -> None:
        """Add a code object and those within it."""
        known = _Code.of(code, code.co_filename)
        if known is not None:
            self.h.update(known.text)
            self.lines.update(known.lines)
            self.names |= known.names
            return
        self.names.update(code.co_names)
        self.lines.update(_place(code, code.co_filename))
        steps, constants = _steps(code)
        _put_head(self.h, code, steps)
        for constant in constants:
            if isinstance(constant, types.CodeType):
                self.code(constant)
            else:
                self.feed(constant, self.root)

    def follow_escaped(self) -> None:
        """Add the attributes by which code might read a module that it holds as a value."""
        done: set[tuple[int, str]] = set()
        while more := [
            (m.__name__, name, m)
            for m in self.escaped.values()
            for name in self.names
            if (id(m), name) not in done and hasattr(m, name)
        ]:
            for module, name, m in sorted(more, key=lambda item: item[:2]):
                done.add((id(m), name))
                encode.put_parts(self.h, ("escaped", module, name))
                self.feed(getattr(m, name, encode.MISSING), f"{self.root}.{module}.{name}", m)

    def opaque(self, value: object, path: str) -> None:
        """Add what stands for this object, in this process, while it lives."""
        encode.put(self.h, "opaque", _nonces.setdefault(value, secrets.token_bytes(32)))
        self.unnamed.add(path)
