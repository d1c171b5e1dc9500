"""Compiles functions of Numba for one purpose, separately from what their dispatchers hold.

Numba keeps the code of a function with its dispatcher, and on disk if it has `cache=True`. Code
from there may be that of an older source, and has no types, which show what it writes to. What
kernels call is therefore compiled again if Numba may take it from there. Code with checks is kept
apart, since a kernel without them would find it. Imported only when a kernel is compiled, since it
imports Numba.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from typing import Any

from kernbridge._src.base.patched import patched
from kernbridge._src.numba_common.private_numba import (
    CPUContext,
    CPUDispatcher,
    NullCache,
    dispatcher,
    global_compiler_lock,
)

_Kept = weakref.WeakKeyDictionary[Any, dict[Any, Any]]
_overloads: dict[str, _Kept] = {}  # of each purpose
# Of functions that are passed to functions: their addresses are in the code, which never uses them.
addresses_of_dispatchers: set[int] = set()
_of_cache: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()  # finished libraries


@contextmanager
def compiling_apart(
    purpose: str, belongs: Callable[[Any], bool], **options: Any
) -> Iterator[Callable[[Any], None]]:
    """Compile the functions that belong to a purpose for it alone, with more target options.

    Yields what sets a function apart before Numba meets it. Holds Numba's lock.
    """
    of_dispatchers = dispatcher.Dispatcher
    template_of, add_overload = of_dispatchers.get_call_template, of_dispatchers.add_overload
    address_of, dispatcher_name = CPUContext.add_dynamic_addr, CPUDispatcher.__name__
    seen: set[Any] = set()
    apart: set[Any] = set()
    kept = _overloads.setdefault(purpose, weakref.WeakKeyDictionary())

    def set_apart(function: Any) -> None:
        if function not in seen:
            seen.add(function)
            if belongs(function):
                apart.add(function)
                stack.enter_context(_apart(function, kept.setdefault(function, {}), options))

    def template_apart(self: Any, args: Any, kws: Any) -> Any:
        set_apart(self)
        return template_of(self, args, kws)

    def add_address(self: Any, builder: Any, address: int, info: str) -> Any:
        if info == dispatcher_name:
            addresses_of_dispatchers.add(address)
        return address_of(self, builder, address, info)

    def add_apart(self: Any, compiled: Any) -> None:
        if self in apart:
            self.overloads[tuple(compiled.signature.args)] = compiled
        else:
            add_overload(self, compiled)

    compiling = patched(
        (of_dispatchers, "get_call_template", template_apart),
        (of_dispatchers, "add_overload", add_apart),
        (CPUContext, "add_dynamic_addr", add_address),
    )
    with global_compiler_lock, compiling, ExitStack() as stack:
        yield set_apart


def is_of_disk(function: Any) -> bool:
    """Whether Numba takes code of a function, or of what it calls, from its cache on disk."""
    own = function.overloads.values()
    return not isinstance(function._cache, NullCache) or any(is_of_cache(o.library) for o in own)


def is_of_cache(library: Any) -> bool:
    """Whether Numba took a library, or one that is linked into it, from its cache on disk."""
    known = _of_cache.get(library)
    if known is None:
        known = library._disable_inspection or any(map(is_of_cache, library._linking_libraries))
        _of_cache[library] = known
    return known


class _Overloads(MutableMapping[Any, Any]):
    """What stands for a function's overloads meanwhile: those for the purpose in the thread that
    compiles, and the function's own for others, which may read them without Numba's lock."""

    def __init__(self, apart: dict[Any, Any], own: Any) -> None:
        self._apart = apart
        self._own = own
        self._thread = threading.get_ident()

    @property
    def _seen(self) -> Any:
        return self._apart if threading.get_ident() == self._thread else self._own

    def __getitem__(self, arguments: Any) -> Any:
        return self._seen[arguments]

    def __setitem__(self, arguments: Any, compiled: Any) -> None:
        self._seen[arguments] = compiled

    def __delitem__(self, arguments: Any) -> None:
        del self._seen[arguments]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._seen)

    def __len__(self) -> int:
        return len(self._seen)


@contextmanager
def _apart(function: Any, kept: dict[Any, Any], options: dict[str, Any]) -> Iterator[None]:
    """Let a function be compiled apart; what it has otherwise comes back."""
    front = function._compiler
    overloads = _Overloads(kept, function.overloads)
    declared = () if function._can_compile else [o.signature for o in function.overloads.values()]
    with patched(
        (function, "overloads", overloads),
        (function, "_cache", NullCache()),
        (front, "targetoptions", {**front.targetoptions, **options}),
        (front, "_failed_cache", {}),
    ):
        with patched((function, "_can_compile", True)):
            for signature in declared:
                function.compile(signature)
        yield
