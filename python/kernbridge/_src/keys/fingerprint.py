"""Computes a digest of a Numba dispatcher that is equal in every process with the same kernel.

Visits everything that the machine code of a dispatcher depends on, and keeps tables of dispatchers
without keeping them alive. Any thread may enter. Numba is recognised by the objects that are
passed; importing this module imports neither Numba nor JAX.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import os
import secrets
import struct
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernbridge._src.base.errors import defect
from kernbridge._src.keys import extensions, package_digest

_MLIR = "numba_cuda_mlir"  # the successor of Numba-CUDA
_FLAGS = 0x2AC  # *args, **kwargs, generators, coroutines; not docstring, nesting, __future__
_SHORT = 4096  # bytes that are copied sooner than a second update is made


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
    # The JAX functions that the code calls. Of each, the digest contains only that it is called:
    # what it computes depends on the types of the calls (see inline/asked.py).
    inlined: tuple[Any, ...] = field(default=(), compare=False)

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

    def setdefault(self, key: object, value: Any) -> Any:
        entries, name = self._entries, id(key)
        known = entries.get(name)
        if known is None or known[0]() is not key:
            ref = extensions.reference(key, lambda _: entries.pop(name, None))
            if known is not None:  # of an object that is gone
                entries.pop(name, None)
            known = entries.setdefault(name, (ref, value))  # which another thread may have set
        return known[1]


_first_seen, _nonces = _ById(), _ById()


def take(dispatcher: Any) -> Fingerprint:
    """Take the fingerprint of a dispatcher of Numba as it reads now; it is not kept alive.

    A dispatcher that another one calls, and that would read otherwise now than when it was first
    seen, counts as opaque: Numba may mix both.
    """
    if not is_dispatcher(dispatcher):
        raise TypeError(defect(f"expected a Numba dispatcher, got {type(dispatcher).__name__}"))
    walk = _Walk(dispatcher)
    for path, inner in walk.dispatchers:
        if inner is dispatcher:
            continue
        other = _Walk(inner)
        now = other.h.digest(), tuple(map(_nonce_of, other.inlined))
        if _first_seen.setdefault(inner, now) != now:
            walk.opaque(inner, path)
    unnamed, inlined = tuple(sorted(walk.unnamed)), tuple(walk.inlined)
    return Fingerprint(walk.h.digest(), unnamed, walk.lines.digest(), inlined)


def combine(base: Fingerprint, *parts: object) -> bytes:
    """Return the digest (32 bytes) of a fingerprint and plain values or tuples of them.

    Values of different types differ: 1, 1.0 and True give three digests.
    """
    h = hashlib.sha256()
    put_parts(h, ("combine", base.digest, parts))
    return h.digest()


class _Walk:
    """The walk from one dispatcher. Objects met again are written as the number of their visit."""

    def __init__(self, dispatcher: Any) -> None:
        self.h = hashlib.sha256()
        self.lines = hashlib.sha256()
        self.root = getattr(dispatcher.py_func, "__name__", "kernel")
        self.of_mlir = is_mlir(dispatcher)
        self.visited: dict[int, tuple[int, object]] = {}
        self.dispatchers: list[tuple[str, Any]] = []
        self.unnamed: set[str] = set()
        self.inlined: list[Any] = []
        self.names: set[str] = set()  # every name by which code could read an attribute
        self.words: set[str] = set()  # and the names of the functions of libraries that it loads
        self.codes: list[types.CodeType] = []
        self.escaped: dict[int, Any] = {}  # modules and users' classes that code holds as values
        self.followed: set[tuple[int, str]] = set()
        rules = package_digest.digest_of("keys/fingerprint.py", "keys/extensions.py")
        put_parts(self.h, ("kernbridge", rules))
        self.visited[id(dispatcher)] = (0, dispatcher)
        self.dispatcher(dispatcher, self.root)
        self.follow_escaped()
        self.follow_extensions()

    def feed(self, value: Any, path: str, owner: types.ModuleType | None = None) -> None:
        """Add a value, reached as `path`, and where that matters as an attribute of `owner`."""
        kind = type(value)
        if put_plain(self.h, value):
            if kind is str and value.isidentifier():
                self.names.add(value)  # for getattr
        elif value is extensions.MISSING:
            put(self.h, "missing", b"")
        elif kind is tuple:
            self.items("items", value, path)
        elif kind is range or kind is slice:
            self.items(kind.__name__, (value.start, value.stop, value.step), path)
        elif isinstance(value, types.ModuleType):
            put_parts(self.h, ("module", value.__name__))
            self.escaped[id(value)] = value
        elif isinstance(value, enum.Enum):
            self.items("member", (kind, value.name, value.value), path)
        elif isinstance(value, np.ndarray | np.generic) and extensions.is_library(kind.__module__):
            put_parts(self.h, (kind.__qualname__,))
            if not put_array(self.h, np.asanyarray(value)):
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
        elif (known := extensions.name_of(value, owner)) is not None:
            put_parts(self.h, ("named", known))
            self.words.add(known.rpartition(":")[2].rpartition(".")[2])
            if isinstance(value, type) and extensions.is_users(value):
                self.escaped[id(value)] = value
        elif id(value) in self.visited:
            put_parts(self.h, ("visit", self.visited[id(value)][0]))
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
        elif is_dispatcher(value):
            self.dispatcher(value, path)
        elif is_inlined(value):
            self.inlined.append(value)
            put(self.h, "inlined", b"")
        elif kind is types.FunctionType:
            self.function(value, path)
            found = extensions.of(value)
            put_parts(self.h, ("overloads", len(found)))
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
        elif "Type" in family and extensions.has_safe_key(value):
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
        items = tuple(items)
        put_parts(self.h, (tag, len(items)))
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
            put(self.h, "key", digest)
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
            options["link"] = [link(item) for item in options["link"] or ()]
        of_mlir = is_mlir(value)
        for option in ("chip", "lto") if of_mlir else ():  # of the last compilation
            options.pop(option, None)
        put_parts(self.h, ("dispatcher", type(value).__name__))
        self.function(value.py_func, path)
        for name, given in (("targetoptions", options), ("locals", getattr(value, "locals", None))):
            text = plain_text(given)
            if text is None:
                self.feed(given, f"{path}.{name}")
            else:
                put(self.h, name, text.encode())
        if of_mlir:
            variables = sorted(n for n in os.environ if n.startswith("NUMBA_CUDA_"))
            put_parts(self.h, tuple(f"{n}={os.environ[n]}" for n in variables))
            for rewriter in mlir_rewriters(value):
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
        put_parts(self.h, ("function", sys.implementation.cache_tag))
        self.code(value.__code__)
        self.feed(value.__defaults__, f"{path}.__defaults__")
        self.feed(value.__kwdefaults__, f"{path}.__kwdefaults__")
        for chain, found, modules in extensions.loads(value):
            put_parts(self.h, chain)
            if found is extensions.BUILTIN:
                put(self.h, "builtin", b"")
                continue
            for module in modules:
                put_parts(self.h, ("attribute of", module.__name__))
            where = ".".join((path, *chain[1 : 2 + len(modules)]))
            self.feed(found, where, modules[-1] if modules else None)

    def code(self, code: types.CodeType) -> None:
        self.codes.append(code)
        self.names.update(code.co_names)
        # Where each instruction stands.
        lines = repr((code.co_filename, list(code.co_lines())))
        self.lines.update(lines.encode("utf-8", "backslashreplace"))
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
        names = (code.co_varnames, code.co_cellvars, code.co_freevars, code.co_names)
        read = extensions.reads(code)
        flags = code.co_flags & _FLAGS
        put_parts(self.h, ("code", counts, flags, code.co_exceptiontable, names, read.steps))
        for constant in read.constants:
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
                put_parts(self.h, ("escaped", module, *label, name))
                where = ".".join((self.root, *(label or (module,)), name))
                self.feed(found, where, None if label else holder)

    def attributes(self, holder: Any) -> Iterator[tuple[str, Any]]:
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
        reads = map(extensions.reads, self.codes)
        return self.names.union(self.words, *(r.operators for r in reads))

    def is_reached(self, owner: Any) -> bool:
        return self.escaped.get(id(owner)) is owner

    def extension(self, extension: extensions.Extension, path: str) -> None:
        put_parts(self.h, ("extension", len(extension.content)))
        for part in extension.content:
            self.of_extension(part, path)

    def of_extension(self, part: Any, path: str) -> None:
        """Add a part; of a class that Numba made for it, and of its functions, what they hold."""
        is_class = isinstance(part, type)
        if (is_class or isinstance(part, types.FunctionType)) and not (
            extensions.is_users(part) or extensions.name_of(part, None)
        ):
            if id(part) in self.visited:
                put_parts(self.h, ("visit", self.visited[id(part)][0]))
                return
            self.visited[id(part)] = (len(self.visited), part)
            held = extensions.parts_of(part) if is_class else extensions.cells_of(part)
            put_parts(self.h, ("made by Numba", part.__module__, part.__qualname__))
            for name, inner in held.items():
                put_parts(self.h, (name,))
                self.of_extension(getattr(inner, "__func__", inner), path)
        elif is_class and extensions.is_users(part):
            self.escaped[id(part)] = part
            self.items("class", (part.__module__, part.__qualname__), path)
        else:
            self.feed(part, path)

    def opaque(self, value: object, path: str) -> None:
        """Add what stands for this object, in this process, while it lives."""
        put(self.h, "opaque", _nonce_of(value))
        self.unnamed.add(path)


def _nonce_of(value: object) -> bytes:
    """What stands for an object, in this process, while it lives."""
    return _nonces.setdefault(value, secrets.token_bytes(32))


def _label_of(holder: Any) -> tuple[str, tuple[str, ...]]:
    """The module of a module or a class, and the name of the class in it."""
    if isinstance(holder, types.ModuleType):
        return holder.__name__, ()
    return holder.__module__, (holder.__qualname__,)


def key_of(digest: bytes) -> int:
    """First 8 bytes, little-endian, as a signed integer: JAX lowers no unsigned one above 2**63."""
    return int.from_bytes(digest[:8], "little", signed=True)


def put(h: Any, tag: str, data: bytes) -> None:
    head = f"{tag}:{len(data)}:".encode()
    if len(data) <= _SHORT:
        h.update(head + data)
    else:
        h.update(head)
        h.update(data)


def put_plain(h: Any, value: Any) -> bool:
    """Add a value that has no parts; False, and nothing added, if it is not one."""
    kind = type(value)
    if value is None or value is Ellipsis or kind is bool:
        put(h, "singleton", repr(value).encode())
    elif kind is int:
        put(h, "int", hex(value).encode())
    elif kind is float:
        put(h, "float", b"nan" if value != value else struct.pack("<d", value))
    elif kind is complex:
        put_parts(h, ("complex", value.real, value.imag))
    elif kind is str:
        put(h, "str", value.encode("utf-8", "surrogatepass"))
    elif kind is bytes:
        put(h, "bytes", value)
    elif isinstance(value, np.dtype):
        scalar = f"{value.type.__module__}.{value.type.__qualname__}"
        put_parts(h, ("dtype", value.str, scalar, value.itemsize, value.isalignedstruct))
        put_parts(h, (value.names, value.subdtype))
        for name in value.names or ():
            put_parts(h, tuple(value.fields[name][:2]))  # type: ignore[index]
    else:
        return False
    return True


def put_parts(h: Any, parts: tuple[Any, ...]) -> None:
    put(h, "tuple", str(len(parts)).encode())
    for part in parts:
        if type(part) is tuple:
            put_parts(h, part)
        elif not put_plain(h, part):
            raise TypeError(defect(f"expected a plain value or a tuple, got {type(part).__name__}"))


def plain_text(value: Any) -> str | None:
    """A dict of texts and plain values as text, in an order that depends on no hash; else None.

    Two are equal only if the values and their types are. It is made in a tenth of the time that a
    walk takes.
    """
    if type(value) is not dict or not all(type(key) is str for key in value):
        return None
    items = []
    for key, item in sorted(value.items(), key=lambda pair: pair[0]):
        if type(item) in (set, frozenset) and all(type(v) is str for v in item):
            items.append(f"{key!r}: {type(item).__name__} {sorted(item)!r}")
        elif item is None or type(item) in (bool, int, str):
            items.append(f"{key!r}: {item!r}")
        else:
            return None
    return f"{{{', '.join(items)}}}"


def put_array(h: Any, array: Any) -> bool:
    """Add type, layout and contents; False if the contents have addresses or undefined bits."""
    dtype, flags = array.dtype, array.flags
    if dtype.hasobject or dtype.char in "gG":
        return False
    layout = (flags.c_contiguous, flags.f_contiguous, flags.aligned, flags.writeable)
    put_parts(h, ("array", dtype, array.shape, layout))
    if dtype.names is None:
        put(h, "contents", array.tobytes())
        return True
    return all(put_array(h, array[name]) for name in dtype.names)  # padding has no meaning


def link(item: Any) -> Any:
    """Return a file that CUDA links by its contents, anything else as it is."""
    if not (isinstance(item, str | os.PathLike) and os.path.isfile(item)):
        return item
    with open(item, "rb") as file:
        return (os.path.splitext(item)[1], file.read())


def is_dispatcher(value: Any) -> bool:
    made_by = {c.__module__.partition(".")[0] for c in type(value).__mro__}
    return not made_by.isdisjoint(("numba", "numba_cuda", _MLIR)) and (
        hasattr(value, "py_func") and hasattr(value, "targetoptions")
    )


def is_inlined(value: Any) -> bool:
    """Whether `kernbridge.inline` made an object."""
    kind = type(value)
    return kind.__module__ == "kernbridge" and kind.__name__ == "InlinedFunction"


def is_mlir(dispatcher: Any) -> bool:
    return any(kind.__module__.partition(".")[0] == _MLIR for kind in type(dispatcher).__mro__)


def mlir_rewriters(dispatcher: Any) -> list[Any]:
    """What rewrites a kernel of numba-cuda-mlir as it is compiled, by rules that are not known."""
    planners = getattr(sys.modules.get(f"{_MLIR}._whole_function_planners"), "_planner_registry", 0)
    found = list(getattr(planners, "_planners", ()))
    if dispatcher.targetoptions.get("experimental_ast_transforms"):
        found.append(dispatcher.py_func)
    return found
