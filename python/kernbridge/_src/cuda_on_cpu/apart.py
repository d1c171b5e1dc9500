"""Device functions that are compiled for one purpose, apart from those that GPUs run.

Numba-CUDA keeps the machine code of a device function with its dispatcher. What the CPU's modes add
to it must not be found by a kernel that is compiled for a GPU, nor by another mode. Imported only
when a kernel is compiled, since it imports Numba.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kernbridge._src.numba_common.numba_cuda_inside import dispatcher

_Kept = weakref.WeakKeyDictionary[Any, dict[Any, Any]]

_overloads: dict[str, _Kept] = {}  # of each purpose
_internal: dict[str, _Kept] = {}


@contextmanager
def compiled_apart(purpose: str, **options: Any) -> Iterator[None]:
    """Compile device functions for `purpose`, with more target options. Under Numba's lock."""
    overloads = _overloads.setdefault(purpose, weakref.WeakKeyDictionary())
    internal = _internal.setdefault(purpose, weakref.WeakKeyDictionary())
    dispatcher_class = dispatcher.CUDADispatcher
    template_of = dispatcher_class.get_call_template
    context = dispatcher.cuda_target.target_context
    cached = context.cached_internal_func
    apart: list[tuple[Any, Any, Any]] = []  # dispatchers, and what they had

    def template_apart(self: Any, *args: Any, **kwargs: Any) -> Any:
        if all(kept is not self for kept, *_ in apart):
            apart.append((self, self.overloads, self.targetoptions))
            self.overloads = overloads.setdefault(self, {})
            self.targetoptions = {**self.targetoptions, **options}
        return template_of(self, *args, **kwargs)

    dispatcher_class.get_call_template = template_apart
    context.cached_internal_func = internal.setdefault(context, {})
    try:
        yield
    finally:
        for kept, had, had_options in apart:
            kept.overloads, kept.targetoptions = had, had_options
        dispatcher_class.get_call_template = template_of
        context.cached_internal_func = cached
