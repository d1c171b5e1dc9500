"""Computes a digest of a Numba dispatcher that is equal in every process with the same kernel.

Visits everything that the machine code of a dispatcher depends on, and keeps tables of dispatchers
without keeping them alive. Any thread may enter. Numba is recognised by the objects that are
passed; importing this module imports neither Numba nor JAX.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import secrets
import sys
import threading
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernbridge._src.base.errors import defect
from kernbridge._src.keys import encode, extensions, package_digest


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


_RULES = tuple(f"keys/{n}.py" for n in ("fingerprint", "encode", "extensions"))


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
        self.words: set[str] = set()  # and the names of the functions of libraries that it loads
        self.codes: list[types.CodeType] = []
        self.escaped: dict[int, Any] = {}  # modules and users' classes that code holds as values
        self.followed: set[tuple[int, str]] = set()
        encode.put_parts(self.h, ("kernbridge", package_digest.digest_of(*_RULES)))
        self.feed(dispatcher, self.root)
        self.follow_escaped()
        self.follow_extensions()

    def feed(self, value: Any, path: str, owner: types.ModuleType | None = None) -> None:
        """Add a value, reached as `path`, and where that matters as an attribute of `owner`."""
        kind = type(value)
        if encode.put_plain(self.h, value):
            if kind is str and value.isidentifier():
                self.names.add(value)  # for getattr
        elif value is extensions.MISSING:
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
        elif isinstance(value, np.ndarray | np.generic) and extensions.is_library(kind.__module__):
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
            self.words.add(known.rpartition(":")[2].rpartition(".")[2])
            if isinstance(value, type) and extensions.is_users(value):
                self.escaped[id(value)] = value
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
        family = {c.__name__ for c in kind.__mro__ if extensions.is_library(c.__module__)}
        if "DUFunc" in family:
            signatures = list(value.types) if value._frozen else None
            self.items("dufunc", (value._dispatcher, value.identity, signatures), path)
        elif encode.is_dispatcher(value):
            self.dispatcher(value, path)
        elif kind is types.FunctionType:
            self.function(value, path)
            found = extensions.of(value)
            encode.put_parts(self.h, ("overloads", len(found)))
            for extension in found:
                self.extension(extension, f"{path}.overload")
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
            if extensions.is_users(kind):
                self.feed(kind, path)
        elif "Signature" in family:
            self.items("signature", (value.return_type, value.args, value.recvr), path)
        elif kind in (staticmethod, classmethod):
            self.items(kind.__name__, (value.__func__,), path)
        elif kind is property:
            self.items("property", (value.fget, value.fset), path)
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
        self.codes.append(code)
        known = encode.Code.of(code, code.co_filename)
        if known is not None:
            self.h.update(known.text)
            self.lines.update(known.lines)
            self.names |= known.names
            return
        self.names.update(code.co_names)
        self.lines.update(encode.place_of(code, code.co_filename))
        steps, constants = encode.steps_of(code)
        encode.put_head(self.h, code, steps)
        for constant in constants:
            if isinstance(constant, types.CodeType):
                self.code(constant)
            else:
                self.feed(constant, self.root)

    def follow_escaped(self) -> None:
        """Add the attributes by which code might read a module or a class that it holds."""
        while more := [
            (*_label_of(holder), name, holder, found)
            for holder in list(self.escaped.values())
            for name, found in self.attributes(holder)
            if (id(holder), name) not in self.followed
        ]:
            for module, label, name, holder, found in sorted(more, key=lambda item: item[:3]):
                self.followed.add((id(holder), name))
                encode.put_parts(self.h, ("escaped", module, *label, name))
                where = ".".join((self.root, *(label or (module,)), name))
                self.feed(found, where, None if label else holder)

    def attributes(self, holder: Any) -> Iterator[tuple[str, Any]]:
        """What code might read of a module or a class."""
        if isinstance(holder, type):
            yield from extensions.parts_of(holder, self.names).items()
        else:
            for name in self.names:
                if hasattr(holder, name):
                    yield name, getattr(holder, name, extensions.MISSING)

    def follow_extensions(self) -> None:
        """Add what Numba might find for the names and the classes that code uses."""
        done: set[tuple[int, ...]] = set()
        while more := [
            extension
            for extension in extensions.matching(self.all_words, self.is_reached)
            if extension.key not in done
        ]:
            for extension in more:
                done.add(extension.key)
                self.extension(extension, f"{self.root}.{extension.word or 'any'}.overload")
            self.follow_escaped()

    def all_words(self) -> set[str]:
        return self.names.union(self.words, *map(extensions.operators, self.codes))

    def is_reached(self, owner: Any) -> bool:
        return self.escaped.get(id(owner)) is owner

    def extension(self, extension: extensions.Extension, path: str) -> None:
        """Add what was registered with Numba."""
        encode.put_parts(self.h, ("extension", len(extension.content)))
        for part in extension.content:
            self.of_extension(part, path)

    def of_extension(self, part: Any, path: str) -> None:
        """Add a part; of a class that Numba made for it, and of its functions, what they hold."""
        is_class = isinstance(part, type)
        if (is_class or isinstance(part, types.FunctionType)) and not (
            extensions.is_users(part) or encode.name_of(part, None)
        ):
            if id(part) in self.visited:
                encode.put_parts(self.h, ("visit", self.visited[id(part)][0]))
                return
            self.visited[id(part)] = (len(self.visited), part)
            held = extensions.parts_of(part) if is_class else extensions.cells_of(part)
            encode.put_parts(self.h, ("made by Numba", part.__module__, part.__qualname__))
            for name, inner in held.items():
                encode.put_parts(self.h, (name,))
                self.of_extension(getattr(inner, "__func__", inner), path)
        elif is_class and extensions.is_users(part):
            self.escaped[id(part)] = part
            self.items("class", (part.__module__, part.__qualname__), path)
        else:
            self.feed(part, path)

    def opaque(self, value: object, path: str) -> None:
        """Add what stands for this object, in this process, while it lives."""
        encode.put(self.h, "opaque", _nonces.setdefault(value, secrets.token_bytes(32)))
        self.unnamed.add(path)


def _label_of(holder: Any) -> tuple[str, tuple[str, ...]]:
    """The module of a module or a class, and the name of the class in it."""
    if isinstance(holder, types.ModuleType):
        return holder.__name__, ()
    return holder.__module__, (holder.__qualname__,)
