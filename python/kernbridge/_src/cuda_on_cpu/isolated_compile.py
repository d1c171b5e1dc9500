"""Compiles device functions for one purpose, separately from those that run on GPUs.

Numba-CUDA keeps the machine code of a device function with its dispatcher. Code with the additions
of a CPU mode must not be found by a kernel that is compiled for a GPU or for another mode. Imported
only when a kernel is compiled, since it imports Numba.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from kernbridge._src.base.patched import patched
from kernbridge._src.numba_common.private_numba_cuda import dispatcher, typeinfer

_Kept = weakref.WeakKeyDictionary[Any, dict[Any, Any]]

_overloads: dict[str, _Kept] = {}  # of each purpose
_internal: dict[str, _Kept] = {}
_around: list[tuple[str, dict[str, Any], Any]] = []  # purposes for which something is compiled now


@contextmanager
def compiled_in_isolation(purpose: str, **options: Any) -> Iterator[None]:
    """Compile device functions for `purpose`, with more target options. Under Numba's lock.

    Within another one, what is compiled serves both purposes together.
    """
    dispatcher_class = dispatcher.CUDADispatcher
    template_of = dispatcher_class.get_call_template
    if _around:
        other, others, template_of = _around[-1]
        purpose, options = f"{other} {purpose}", {**others, **options}
    _around.append((purpose, options, template_of))
    try:
        with _compiled_in_isolation(purpose, options, template_of):
            yield
    finally:
        _around.pop()


@contextmanager
def _compiled_in_isolation(purpose: str, options: dict[str, Any], template_of: Any) -> Iterator[None]:
    overloads = _overloads.setdefault(purpose, weakref.WeakKeyDictionary())
    internal = _internal.setdefault(purpose, weakref.WeakKeyDictionary())
    context = dispatcher.cuda_target.target_context
    found: set[int] = set()  # the identities of dispatchers, which `apart` keeps alive

    def template_apart(self: Any, *args: Any, **kwargs: Any) -> Any:
        if id(self) not in found:
            found.add(id(self))
            declared = () if self._can_compile else tuple(self.overloads.items())
            is_new = self not in overloads
            own = patched(
                (self, "overloads", overloads.setdefault(self, {})),
                (self, "targetoptions", {**self.targetoptions, **options}),
            )
            apart.enter_context(own)
            if is_new:  # Numba's own finaliser releases what Numba compiles, and only that
                weakref.finalize(self, self._make_finalizer())
            for types, compiled in declared:  # by the decorator: nobody compiles them later
                with typeinfer.register_dispatcher(self):
                    self.compile_device(types, compiled.signature.return_type)
        return template_of(self, *args, **kwargs)

    with (
        ExitStack() as apart,
        patched(
            (dispatcher.CUDADispatcher, "get_call_template", template_apart),
            (context, "cached_internal_func", internal.setdefault(context, {})),
        ),
    ):
        yield
