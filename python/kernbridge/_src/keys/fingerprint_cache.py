"""Finds the fingerprint of a kernel that a program makes again, such as one for every size.

Most of such kernels differ in nothing: their code and options are the same, and they read plain
values and objects of libraries. Any thread may enter. Imports neither Numba nor JAX.
"""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np

from kernbridge._src.base.exact import exact
from kernbridge._src.base.lru import LRUCache
from kernbridge._src.keys import encode, extensions, fingerprint
from kernbridge._src.keys.fingerprint import Fingerprint

_PLAIN = frozenset((bool, int, float, complex, str, bytes, type(None)))
_Named = tuple[Any, types.ModuleType | None]  # an object, and the module whose attribute it is
_NAMED_KINDS = (types.FunctionType, types.BuiltinFunctionType, np.ufunc)

# By key: the fingerprint, and the objects whose identities are in the key, so that they last.
_taken: LRUCache[tuple[Fingerprint, list[_Named]]] = LRUCache(256)


def take(dispatcher: Any) -> Fingerprint:
    """Return `fingerprint.take` of a dispatcher of Numba, looked up if there is an equal one."""
    key, named = _key(dispatcher)
    if key is None:
        return fingerprint.take(dispatcher)
    known = _taken.find(key)
    if known is not None:
        return known[0]
    taken = fingerprint.take(dispatcher)
    if all(_has_name(*n) for n in named) and _key(dispatcher)[0] == key:  # nothing has changed
        _taken.put(key, (taken, named))
    return taken


def _key(dispatcher: Any) -> tuple[Any, list[_Named]]:
    """Return everything that the walk from a dispatcher would visit, if that is only little.

    None if there is more than plain values and what may be objects of libraries. These are listed,
    and take part by their identities.
    """
    function, options = dispatcher.py_func, dispatcher.targetoptions
    named: list[_Named] = []
    texts = encode.plain_text(options), encode.plain_text(getattr(dispatcher, "locals", None))
    pipeline = getattr(getattr(dispatcher, "_compiler", None), "pipeline_class", None)
    if (
        None in texts
        or pipeline is None
        or "link" in options
        or function.__defaults__
        or function.__kwdefaults__
        or not dispatcher._can_compile
        or encode.is_mlir(dispatcher)
    ):
        return None, named
    read = []
    words = set(extensions.operators(function.__code__))
    for chain, found, modules in encode.loads(function):
        if found is encode.BUILTIN or found is extensions.MISSING:
            content: Any = id(found)
        elif type(found) in _PLAIN:
            content = exact(found)
        elif isinstance(found, _NAMED_KINDS) or (
            type(found) is type and not extensions.is_users(found)
        ):
            content = id(found)
            words.add(found.__name__)
            named.append((found, modules[-1] if modules else None))
        else:
            return None, named
        read.append((chain, content, *[m.__name__ for m in modules]))
    words |= encode.reads(function.__code__)[1]
    if extensions.matching(lambda: words, lambda owner: False):
        return None, named
    named.append((pipeline, None))
    checks = getattr(sys.modules.get("numba.core.config"), "BOUNDSCHECK", None)
    code = function.__code__
    about = (type(dispatcher), id(pipeline), checks, *texts)
    return (code, code.co_filename, about, *read), named


def _has_name(value: Any, owner: types.ModuleType | None) -> bool:
    """Whether the walk writes an object by its name, whatever it contains."""
    kinds = isinstance(value, _NAMED_KINDS) or (
        type(value) is type and not issubclass(value, tuple)
    )
    return kinds and encode.name_of(value, owner) is not None
