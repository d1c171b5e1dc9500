"""Keeps what dispatchers compile for GPUs and for the CPU apart.

A dispatcher belongs to the mode in which it was created. In another mode, it is replaced by a twin:
a separate dispatcher of the same Python function. A kernel may therefore be decorated before
launches are switched to the CPU, and be launched on a GPU afterwards.
"""

from __future__ import annotations

import gc
import threading
from types import FunctionType
from typing import Any

from kernbridge._src.cuda_device import mode
from kernbridge._src.numba_common.numba_cuda_device_inside import dispatcher, typeinfer

_Dispatcher = dispatcher.CUDADispatcher
_HOME, _TWINS = "_kernbridge_home", "_kernbridge_twins"
COUNTERPART_OF = "_kernbridge_original"  # of one for a kernel of numba-cuda-mlir: label and kernel
_lock = threading.RLock()
_home_of_others: str | None = None  # of dispatchers made before Numba was patched

# What depends on what was compiled. Twins have everything else in common.
_STATE = {"overloads", "specializations", "_can_compile", "_specialized", "_cache", "_numba_type_"}
_STATE |= {
    name
    for owner in _Dispatcher.__mro__
    if owner.__module__ == dispatcher.__name__
    for name, value in vars(owner).items()
    if isinstance(value, (FunctionType, property)) and not name.startswith("__")
} | {"configure"}
_STATE -= {"_reduce_states", "_uuid", "_set_uuid"}


def tag(made: Any) -> None:
    """A dispatcher has been made: it belongs to the mode of this thread."""
    vars(made)[_HOME] = mode.current()


def adopt(wanted: str) -> None:
    """Let all dispatchers that exist belong to a mode, unless one has compiled for a GPU."""
    global _home_of_others
    existing = [found for found in gc.get_objects() if type(found) is _Dispatcher]
    if any(vars(found).get("overloads") or _HOME in vars(found) for found in existing):
        choose()
    else:
        _home_of_others = wanted


def choose() -> None:
    """Let dispatchers be represented by their twins, from now on."""
    if "__getattribute__" not in vars(_Dispatcher):
        _Dispatcher.__getattribute__ = _attribute


def _attribute(self: Any, name: str) -> Any:
    if name in _STATE:
        own = object.__getattribute__(self, "__dict__")
        wanted = mode.current()
        if own.get(_HOME, _home_of_others) != wanted:
            self = _twin(self, own, wanted)
    return object.__getattribute__(self, name)


def _twin(original: Any, own: dict[str, Any], wanted: str | None) -> Any:
    twins = own.get(_TWINS)
    if twins is not None and wanted in twins:
        return twins[wanted]
    with dispatcher.global_compiler_lock, _lock:
        twins = own.setdefault(_TWINS, {own.get(_HOME, _home_of_others): original})
        if wanted not in twins:
            made = _Dispatcher(
                original.py_func,
                targetoptions=original.targetoptions,
                pipeline_class=original._compiler.pipeline_class,
            )
            vars(made)[_TWINS] = twins
            twins[wanted] = made
            try:
                _compile_declared(original, own, made)
            except BaseException:
                del twins[wanted]
                raise
        return twins[wanted]


def _compile_declared(original: Any, own: dict[str, Any], made: Any) -> None:
    """Compile for the signatures that the decorator was given, if it was given any."""
    if isinstance(own["_cache"], dispatcher.CUDACache):
        made.enable_caching()
    if object.__getattribute__(original, "_can_compile"):
        return
    for argument_types, compiled in own["overloads"].items():
        if made.targetoptions.get("device"):
            with typeinfer.register_dispatcher(made):
                made.compile_device(argument_types, compiled.signature.return_type)
        else:
            made.compile(argument_types)
    made._specialized = own["_specialized"]
    made.disable_compile()
