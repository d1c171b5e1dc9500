"""Encodes plain values as bytes, and objects by name, for the digests of `keys/fingerprint.py`.

Every value is written with its type and length, so that no two different ones are written alike.
Holds no state; any thread may enter. Imports neither Numba nor JAX.
"""

from __future__ import annotations

import builtins
import dis
import functools
import itertools
import os
import re
import struct
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernbridge._src.base.errors import defect
from kernbridge._src.keys.extensions import MISSING, cells_of, is_library

# Where a library object without a name of its own, such as `random.random`, is looked for.
_NAMESPACES = (
    *("numpy", "random", "numpy.random", "scipy.special"),
    *("numba", "numba.cuda", "numba.extending"),
)
# Known by their contents, wherever they are.
_CONTAINERS = frozenset((dict, frozenset, list, set, types.MappingProxyType))
_MLIR = "numba_cuda_mlir"  # the successor of Numba-CUDA
BUILTIN: Any = object()  # and for a name of Python's own
_SHORT = 4096  # bytes that are copied sooner than a second update is made
_FLAGS = 0x2AC  # *args, **kwargs, generators, coroutines; not docstring, nesting, __future__
_HAS_CONST, _HAS_NAME, _HAS_FREE = map(frozenset, (dis.hasconst, dis.hasname, dis.hasfree))


def reference(
    value: object, callback: Callable[[object], Any] | None = None
) -> Callable[[], object]:
    """Return a weak reference; where there can be none, one that keeps the value alive.

    So no other object takes the place of one that still counts.
    """
    try:
        return weakref.ref(value, callback)
    except TypeError:
        return lambda: value


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


def is_dispatcher(value: Any) -> bool:
    made_by = {c.__module__.partition(".")[0] for c in type(value).__mro__}
    return not made_by.isdisjoint(("numba", "numba_cuda", _MLIR)) and (
        hasattr(value, "py_func") and hasattr(value, "targetoptions")
    )


def is_mlir(dispatcher: Any) -> bool:
    """Whether numba-cuda-mlir made a dispatcher."""
    return _has_mlir(type(dispatcher).__mro__)


@functools.lru_cache(maxsize=64)
def _has_mlir(kinds: tuple[type, ...]) -> bool:
    return any(kind.__module__.partition(".")[0] == _MLIR for kind in kinds)


def mlir_environment() -> tuple[str, ...]:
    """The variables that numba-cuda-mlir reads as it compiles."""
    return tuple(f"{n}={v}" for n, v in sorted(os.environ.items()) if n.startswith("NUMBA_CUDA_"))


def mlir_rewriters(dispatcher: Any) -> list[Any]:
    """What rewrites a kernel of numba-cuda-mlir as it is compiled, by rules that are not known."""
    planners = getattr(sys.modules.get(f"{_MLIR}._whole_function_planners"), "_planner_registry", 0)
    found = list(getattr(planners, "_planners", ()))
    if dispatcher.targetoptions.get("experimental_ast_transforms"):
        found.append(dispatcher.py_func)
    return found


def name_of(value: Any, owner: types.ModuleType | None) -> str | None:
    """Return `module:qualname` if that is this very object, and identifies what it does."""
    if type(value) in _CONTAINERS:
        return None
    anywhere = isinstance(value, type | types.BuiltinFunctionType)
    if not (anywhere or is_library(type(value).__module__) or hasattr(value, "__code__")):
        return None
    module = getattr(value, "__module__", None)
    if hasattr(value, "class_type") or not (anywhere or module is None or is_library(module)):
        return None  # a jitclass, or what a user wrote
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    try:
        if functools.reduce(getattr, str(name).split("."), sys.modules[str(module)]) is value:
            return f"{module}:{name}"
    except (AttributeError, KeyError):
        pass
    spaces = [sys.modules[n] for n in _NAMESPACES if n in sys.modules]
    for space in [owner, *spaces] if owner and is_library(owner.__name__) else spaces:
        for name, other in list(vars(space).items()):
            if other is value:
                return f"{space.__name__}:{name}"
    return None


def has_safe_key(value: Any) -> bool:
    """Whether a Numba type's key describes the type, given its class, without an address."""
    kind = type(value)
    if re.match("Deferred|Class", kind.__name__):
        return False
    return not (kind.__module__.endswith(".functions") or re.search("#|0x", str(value.key)))


def link(item: Any) -> Any:
    """Return a file that CUDA links by its contents, anything else as it is."""
    if not (isinstance(item, str | os.PathLike) and os.path.isfile(item)):
        return item
    with open(item, "rb") as file:
        return (os.path.splitext(item)[1], file.read())


@functools.lru_cache(maxsize=4096)
def reads(code: types.CodeType) -> tuple[tuple[tuple[str, ...], ...], frozenset[str]]:
    """Return what a code object and those within it load, and all names of attributes in it.

    What is loaded are chains, sorted, such as ``("global", "np", "linalg", "norm")`` or
    ``("cell", "x")``, as far as attributes follow directly. Names that nobody can write, such as
    the ``@pytest_ar`` that pytest puts into an ``assert``, are not part of them: they lead into the
    tool that rewrote the code.
    """
    steps = list(dis.get_instructions(code))
    chains, names = set(), set(code.co_names)
    for i, step in enumerate(steps):
        if not step.opname.startswith("LOAD_") or step.opname == "LOAD_CLOSURE":
            continue
        if step.opcode in _HAS_NAME and ("GLOBAL" in step.opname or step.opname == "LOAD_NAME"):
            if step.argval.startswith("@"):
                continue
            chain = ["global", step.argval]
        elif step.opcode in _HAS_FREE:
            chain = ["cell", step.argval]
        else:
            continue
        for after in itertools.islice(steps, i + 1, None):
            if after.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                chain.append(after.argval)
            elif after.opname != "EXTENDED_ARG":
                break
        chains.add(tuple(chain))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner, more = reads(constant)
            chains.update(inner)
            names |= more
        elif isinstance(constant, str) and constant.isidentifier():
            names.add(constant)  # for getattr
    return tuple(sorted(chains)), frozenset(names)


def loads(function: types.FunctionType) -> Iterator[tuple[tuple[str, ...], Any, tuple[Any, ...]]]:
    """Yield each chain that code loads, what is found there, and the modules that lead there.

    An attribute of anything but a module is not followed.
    """
    cells = cells_of(function)
    for chain in reads(function.__code__)[0]:
        kind, root, *attributes = chain
        if kind == "cell" and root not in cells:  # a variable of its own
            continue
        found = (cells if kind == "cell" else function.__globals__).get(root, MISSING)
        if found is MISSING and kind == "global" and hasattr(builtins, root):
            yield chain, BUILTIN, ()
            continue
        modules = []
        for name in attributes:
            if not isinstance(found, types.ModuleType):
                break
            modules.append(found)
            found = getattr(found, name, MISSING)
        yield chain, found, tuple(modules)


@functools.lru_cache(maxsize=256)
def steps_of(code: types.CodeType) -> tuple[str, tuple[Any, ...]]:
    """Return the instructions of a code object, and the constants that they load.

    Constants are known by value, not by index: a docstring shifts the indices. Programs that make
    a kernel for every size make it of equal code objects.
    """
    steps = list(dis.get_instructions(code))
    text = "\n".join(f"{s.opname} {'' if s.opcode in _HAS_CONST else s.arg}" for s in steps)
    loading = (s for s in steps if s.opcode in _HAS_CONST)
    # The names of keywords, of which `dis` does not say the value before Python 3.13.
    return text, tuple(
        code.co_consts[s.arg] if s.opname == "KW_NAMES" and s.arg is not None else s.argval
        for s in loading
    )


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
            put_parts(self, ("items", len(value)))
            return all(map(self.constant, value))
        if type(value) is str and value.isidentifier():
            self.names.add(value)
        return put_plain(self, value)


@dataclass(frozen=True, slots=True)
class Code:
    """What a walk adds for a code object and those within it, none of which depends on a value."""

    text: bytes
    lines: bytes
    names: frozenset[str]

    @staticmethod
    @functools.lru_cache(maxsize=256)
    def of(code: types.CodeType, file: str) -> Code | None:
        """Return None if a constant has parts. Equal code objects may come from different files,
        so `file` is passed as well."""
        steps, constants = steps_of(code)
        text = _Text()
        text.names.update(code.co_names)
        put_head(text, code, steps)
        lines = [place_of(code, file)]
        for constant in constants:
            if isinstance(constant, types.CodeType):
                inner = Code.of(constant, constant.co_filename)
                if inner is None:
                    return None
                text.update(inner.text)
                text.names |= inner.names
                lines.append(inner.lines)
            elif not text.constant(constant):
                return None
        return Code(b"".join(text.parts), b"".join(lines), frozenset(text.names))


def put_head(h: Any, code: types.CodeType, steps: str) -> None:
    """Add a code object but its constants."""
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
    names = (code.co_varnames, code.co_cellvars, code.co_freevars, code.co_names)
    flags = code.co_flags & _FLAGS
    put_parts(h, ("code", counts, flags, code.co_exceptiontable, names, steps))


def place_of(code: types.CodeType, file: str) -> bytes:
    """Where each instruction stands."""
    return repr((file, list(code.co_lines()))).encode("utf-8", "backslashreplace")
