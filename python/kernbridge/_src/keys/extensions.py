"""What packages other than Numba's own have taught Numba, and which kernels may depend on it.

`numba.extending` adds templates of typing, lowering functions, models and more to Numba's
registries, where the typing of any kernel may find them. Which of them typing chooses is known only
after a kernel is typed, but its code is looked up before. So everything that typing could choose is
part of a kernel's identity: what is registered for a name or an operator that the code uses, or for
a function or a class of the user's that the code leads to. Any thread may enter. Imports neither
Numba nor JAX.
"""

from __future__ import annotations

import builtins
import dis
import functools
import itertools
import re
import sys
import sysconfig
import threading
import types
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from kernbridge._src.base.struct import Struct

# Functions of these are known by name; their Python source is not walked.
_LIBRARY = re.compile(
    r"(builtins|c?math|_?operator|random|time|heapq|bisect|functools|itertools|collections"
    r"|numpy|numba|numba_cuda|numba_cuda_mlir|llvmlite|scipy)(\.|$)"
)
# Where a library object without a name of its own, such as `random.random`, is looked for.
_NAMESPACES = (
    *("numpy", "random", "numpy.random", "scipy.special"),
    *("numba", "numba.cuda", "numba.extending"),
)
# Known by their contents, wherever they are.
_CONTAINERS = frozenset((dict, frozenset, list, set, types.MappingProxyType))
_HAS_CONST, _HAS_NAME, _HAS_FREE = map(frozenset, (dis.hasconst, dis.hasname, dis.hasfree))
MISSING: Any = object()  # what `loads` finds where there is nothing
BUILTIN: Any = object()  # and for a name of Python's own
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
_PACKAGES = ("numba.", "numba_cuda.", "numba_cuda_mlir.")  # packages that have registries
_REGISTRIES = ("builtin_registry", "registry", "typing_registry", "impl_registry")
_CONTEXTS = ("_toplevel_typing_context", "_toplevel_target_context", "_typingctx", "_targetctx")
_GIVEN = ("_overload_func", "_definition_func", "generic")  # functions of a template
_TYPING = ("functions", "attributes", "globals")
_LOWERING = ("functions", "getattrs", "setattrs", "casts", "constants")
# Attributes of classes that are filled as they are used, or have no meaning for compiled code.
_INERT = re.compile(
    "_impl_cache|_overload_cache|_compiled_overloads|_inline_overloads|_abc_impl|__(module|qualname"
    "|doc|slots|firstlineno|static_attributes|annotations|annotations_cache|annotate_func"
    "|abstractmethods|parameters)__"
)
_DESCRIPTORS = (types.GetSetDescriptorType, types.MemberDescriptorType)
_PLAIN = {
    "+": "add", "-": "sub", "*": "mul", "@": "matmul", "/": "truediv", "//": "floordiv", "%": "mod",
    "**": "pow", "<<": "lshift", ">>": "rshift", "&": "and_", "|": "or_", "^": "xor",
}  # fmt: skip
_IN_PLACE = {f"{symbol}=": f"i{name.strip('_')}" for symbol, name in _PLAIN.items()}
_COMPARISONS = frozenset(("lt", "le", "eq", "ne", "gt", "ge"))
_WITH_SYMBOLS = _COMPARISONS.union(_PLAIN.values(), _IN_PLACE.values())


def is_library(name: object) -> bool:
    return isinstance(name, str) and _LIBRARY.match(name) is not None


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


def cells_of(function: types.FunctionType) -> dict[str, Any]:
    """Return what a function holds, by the names of its closure."""
    cells = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            cells[name] = cell.cell_contents
        except ValueError:
            cells[name] = MISSING
    return cells


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


def name_of(value: Any, owner: types.ModuleType | None) -> str | None:
    """Return `module:qualname` if that is this very object, and identifies what it does."""
    if type(value) in _CONTAINERS:
        return None
    anywhere = isinstance(value, type | types.BuiltinFunctionType)
    try:
        if not (anywhere or is_library(type(value).__module__) or hasattr(value, "__code__")):
            return None
        module = getattr(value, "__module__", None)
        if hasattr(value, "class_type") or not (anywhere or module is None or is_library(module)):
            return None  # a jitclass, or what a user wrote
        name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    except Exception:  # of a `__getattr__`
        return None
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


class Reads(Struct):
    """What a code object is, and what it and those within it read; see `reads`."""

    chains: tuple[tuple[str, ...], ...]
    names: frozenset[str]  # of attributes
    operators: frozenset[str]  # functions of the module `operator` that it may call
    imports: tuple[str, ...]  # modules, as `resolve_name` takes them
    steps: str  # its instructions, without the indices of constants, which a docstring shifts
    constants: tuple[Any, ...]  # that these load


@functools.lru_cache(maxsize=4096)
def reads(code: types.CodeType) -> Reads:
    """Return what a code object and those within it load, call and import.

    What is loaded are chains, sorted, such as ``("global", "np", "linalg", "norm")`` or
    ``("cell", "x")``, as far as attributes follow directly. Names that cannot be written, such as
    the ``@pytest_ar`` that pytest puts into an ``assert``, are not part of them: they lead into the
    tool that rewrote the code.
    """
    steps = list(dis.get_instructions(code))
    chains, names = set(), set(code.co_names)
    operators: set[str] = set()
    imports: set[str] = set()
    for i, step in enumerate(steps):
        name = step.opname
        if name == "COMPARE_OP":
            operators |= _COMPARISONS  # one may be implemented by another
        elif name == "BINARY_OP":
            plain = _PLAIN.get(step.argrepr.removesuffix("="), "")
            operators |= {plain, _IN_PLACE.get(step.argrepr, plain)}
        elif name == "IMPORT_NAME":
            level = next(s.argval for s in reversed(steps[:i]) if isinstance(s.argval, int))
            imports.add("." * level + step.argval)
        if not name.startswith("LOAD_") or name == "LOAD_CLOSURE":
            continue
        if step.opcode in _HAS_NAME and ("GLOBAL" in name or name == "LOAD_NAME"):
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
            inner = reads(constant)
            chains.update(inner.chains)
            names |= inner.names
            operators |= inner.operators
            imports.update(inner.imports)
        elif isinstance(constant, str) and constant.isidentifier():
            names.add(constant)  # for getattr
    # The names of keywords, of which `dis` does not say the value before Python 3.13.
    constants = tuple(
        code.co_consts[s.arg] if s.opname == "KW_NAMES" and s.arg is not None else s.argval
        for s in steps
        if s.opcode in _HAS_CONST
    )
    text = "\n".join(f"{s.opname} {'' if s.opcode in _HAS_CONST else s.arg}" for s in steps)
    return Reads(
        tuple(sorted(chains)),
        frozenset(names),
        frozenset(operators),
        tuple(sorted(imports)),
        text,
        constants,
    )


def loads(function: types.FunctionType) -> list[tuple[tuple[str, ...], Any, tuple[Any, ...]]]:
    """Return each chain that code loads, what is found there, and the modules that lead there.

    An attribute of anything but a module is not followed.
    """
    cells = cells_of(function)
    result: list[tuple[tuple[str, ...], Any, tuple[Any, ...]]] = []
    for chain in reads(function.__code__).chains:
        kind, root, *attributes = chain
        if kind == "cell" and root not in cells:  # a variable of its own
            continue
        found = (cells if kind == "cell" else function.__globals__).get(root, MISSING)
        modules = []
        if found is MISSING and kind == "global" and hasattr(builtins, root):
            found, attributes = BUILTIN, []
        for name in attributes:
            if not isinstance(found, types.ModuleType):
                break
            modules.append(found)
            found = getattr(found, name, MISSING)
        result.append((chain, found, tuple(modules)))
    return result


class Extension(Struct):
    content: tuple[Any, ...]  # its kind, and everything that it consists of
    word: str | None  # the name by which code that depends on it uses it; None if any code may
    owners: tuple[Any, ...] = ()  # functions and classes of the user's that such code leads to

    @property
    def key(self) -> tuple[int, ...]:
        return tuple(map(id, self.content))


_lock = threading.Lock()
_extensions: list[Extension] = []
_by_function: dict[int, list[Extension]] = {}  # registrations for one function of the user's
_lists: dict[int, tuple[str, list[Any], int]] = {}  # by identity: kind, and how much was read
_size: tuple[int, ...] = ()  # how many modules and registries there were at the last look
_templates: set[int] = set()


def of(function: Any) -> list[Extension]:
    """What was registered for a function of the user's."""
    _refresh()
    return _by_function.get(id(function), [])


def matching(words: Callable[[], set[str]], is_reached: Callable[[Any], bool]) -> list[Extension]:
    """What code may depend on, given the names it uses, except what `of` returns."""
    _refresh()
    found = [*_extensions, *_of_tables()]
    used = words() if found else set()
    return [
        e for e in found if (e.word is None or e.word in used) and all(map(is_reached, e.owners))
    ]


def is_users(value: Any) -> bool:
    """Whether a function or a class belongs neither to Python nor to a library that is known."""
    module = _module_of(value)
    if module is not None and module.startswith("numba."):  # nearly all are
        return False
    return not (is_library(module) or is_foreign_name(module))


def _module_of(value: Any) -> str | None:
    if isinstance(value, types.FunctionType):
        return value.__globals__.get("__name__")  # a decorator may have changed `__module__`
    module = getattr(value, "__module__", None)
    return module if isinstance(module, str) else type(value).__module__


def parts_of(kind: type, names: set[str] | None = None) -> dict[str, Any]:
    """The attributes of a class, without the attributes of libraries' base classes.

    With names, only those that code with these names may read; all of a class of Numba's kind,
    whose methods Numba calls.
    """
    owners = [k for k in reversed(kind.__mro__) if k is kind or is_users(k)]
    found: dict[str, Any] = {name: value for k in owners for name, value in vars(k).items()}
    if any(is_library(k.__module__) and k.__module__ != "builtins" for k in kind.__mro__):
        names = None
    is_error = issubclass(kind, BaseException)  # of which only the text depends on its methods
    return {
        name: part
        for name, part in sorted(found.items())
        if not _INERT.fullmatch(name)
        and not isinstance(part, _DESCRIPTORS)
        and (
            names is None
            or name in names
            or (isinstance(part, types.FunctionType) and name.startswith("__") and not is_error)
        )
    }


def _refresh() -> None:
    """Read what has been registered since the last time."""
    global _size
    entrypoints = sys.modules.get("numba.core.entrypoints")
    if entrypoints is not None:
        entrypoints.init_all()  # which Numba does when it first compiles
    with _lock:
        contexts = _contexts()
        size = (len(sys.modules), *[len(c._registries) for c in contexts])
        if size != _size:
            _size = size
            for kind, items in _find_lists(contexts):
                _lists.setdefault(id(items), (kind, items, 0))
        for name, (kind, items, start) in _lists.items():
            if len(items) == start:
                continue
            _lists[name] = kind, items, len(items)
            for item in items[start : len(items)]:
                read = _of_lowering if kind.startswith("lowering") else _of_typing
                for extension in read(kind, item):
                    _keep(extension)


def _keep(extension: Extension) -> None:
    functions = [o for o in extension.owners if not isinstance(o, type)]
    for function in functions:
        _by_function.setdefault(id(function), []).append(extension)
    if not functions:
        _extensions.append(extension)


def _find_lists(contexts: Iterable[Any]) -> Iterator[tuple[str, list[Any]]]:
    """The lists of Numba's registries, and of registries that were installed in its contexts."""
    registries = [registry for context in contexts for registry in list(context._registries)]
    for name, module in list(sys.modules.items()):
        if name.startswith(_PACKAGES):
            registries += [vars(module)[n] for n in _REGISTRIES if n in vars(module)]
    for registry in registries:
        is_lowering = hasattr(registry, "casts")
        for kind in _LOWERING if is_lowering else _TYPING:
            items = getattr(registry, kind, None)
            if isinstance(items, list):
                yield f"lowering {kind}" if is_lowering else kind, items


def _contexts() -> list[Any]:
    targets = (("numba.core.registry", "cpu_target"), ("numba.cuda.descriptor", "cuda_target"))
    found = [getattr(sys.modules.get(module), target, None) for module, target in targets]
    contexts = [vars(t).get(name) for t in found if t is not None for name in _CONTEXTS]
    return [c for c in contexts if hasattr(c, "_registries")]


def _of_typing(kind: str, item: Any) -> Iterator[Extension]:
    """What is registered for typing: a template, or a value with its type."""
    if kind == "globals":
        value, given = item
        templates = getattr(given, "templates", ())
        new = [t for t in templates if id(t) not in _templates and _has_users(t)]
        if new or (not templates and is_users(type(given))):
            yield Extension((kind, value, *(new or (given,))), *_key(value))
    elif kind == "functions":
        _templates.add(id(item))
        if _has_users(item):
            yield Extension((kind, item), *_key(item.key))
    else:
        owners = _users_types((item.key,))
        if owners or _has_users(item):
            yield Extension((kind, item), getattr(item, "_attr", None), owners)


def _of_lowering(kind: str, item: Any) -> Iterator[Extension]:
    """What is registered for lowering: a function, what it implements, and for which types."""
    implementation, *about = item
    if _has_users(implementation):
        word, owners = None, _users_types(about[-1])
        if kind == "lowering functions":
            word, of_key = _key(about[0])
            owners = (*of_key, *owners)
        elif len(about) == 2:
            word = about[0]
        yield Extension((kind, implementation, *about), word, owners)


def _of_tables() -> Iterator[Extension]:
    """Types of values and models of types, of which later ones take the place of earlier ones."""
    for module, name, of_entries in _TABLES:
        owner, _, attribute = name.partition(".")
        table = getattr(getattr(sys.modules.get(module), owner, None), attribute, {})
        known = _tables.get((module, name))
        if known is None or known[0] != table:
            copied = dict(table)
            known = _tables[module, name] = copied, list(of_entries(copied))
        yield from known[1]


def _of_typeof(table: dict[Any, Any]) -> Iterator[Extension]:
    for kind, function in table.items():
        if is_users(function) and not is_users(kind):  # values of other classes are not walked
            yield Extension(("typeof", kind, function), None)


def _of_models(table: dict[Any, Any]) -> Iterator[Extension]:
    for kind, model in table.items():
        if is_users(model):
            yield Extension(("model", kind, model), None, _users_types((kind,)))


_TABLES = (
    ("numba.core.typing.typeof", "typeof_impl.registry", _of_typeof),
    ("numba.cuda.typing.typeof", "typeof_impl.registry", _of_typeof),
    ("numba.core.datamodel.registry", "default_manager._handlers", _of_models),
    ("numba.cuda.datamodel.registry", "default_manager._handlers", _of_models),
    ("numba.cuda.models", "cuda_data_manager._handlers", _of_models),
)
_tables: dict[tuple[str, str], tuple[dict[Any, Any], list[Extension]]] = {}


def _key(key: Any) -> tuple[str | None, tuple[Any, ...]]:
    """The word and the owners of what is registered for a function or another key."""
    if isinstance(key, tuple):  # a method: its type, and its name
        return key[-1] if isinstance(key[-1], str) else None, _users_types(key[:-1])
    if isinstance(key, str):  # Numba's names, such as "getitem" and "array.sum"
        return key.rpartition(".")[2] if "." in key else None, ()
    name = getattr(key, "__name__", None)
    if not callable(key) or not isinstance(name, str):
        return None, ()
    if is_users(key):
        return None, (key,)
    without_name = key.__module__ == "_operator" and name not in _WITH_SYMBOLS
    return None if without_name else name, ()


def _users_types(given: Iterable[Any]) -> tuple[Any, ...]:
    """The classes of the user's among classes and instances of Numba's types."""
    given = (getattr(t, "instance_type", t) for t in given)
    kinds = (t if isinstance(t, type) else type(t) for t in given)
    return tuple(dict.fromkeys(k for k in kinds if is_users(k)))


def _has_users(value: Any, depth: int = 3) -> bool:
    """Whether a function or a class is the user's, or a library made it for the user's function."""
    if isinstance(value, type):
        given = [vars(value)[n] for n in _GIVEN if n in vars(value)]
        inside = [getattr(v, "__func__", v) for v in given]
    elif isinstance(value, types.FunctionType):
        inside = list(cells_of(value).values()) if value.__closure__ else []
        # What a library has made of text has no module.
        inside = [v for v in inside if isinstance(v, types.FunctionType) and _module_of(v)]
    else:
        return False
    if is_users(value):
        return True
    functions = (v for v in inside if isinstance(v, types.FunctionType))
    return depth > 0 and any(_has_users(v, depth - 1) for v in functions)
