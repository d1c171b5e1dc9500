"""Manages public targets: the names for `jax.ffi.ffi_call`, and the functions that they refer to.

XLA keeps the handler of a name until the process ends, and compiled code calls it. If a target is
replaced, its handler therefore remains, and calls the new function. Libraries are never closed.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import jax

from kernbridge import _core
from kernbridge._src.base.errors import KernelRegistrationError, coded
from kernbridge._src.base.reports import hides_frames

if TYPE_CHECKING:
    from kernbridge._src.source.module import CompiledModule


# By name and platform: the slot behind the handler that XLA has, and the content of the target.
_targets: dict[tuple[str, str], tuple[int, tuple[object, ...]]] = {}
_lock = threading.Lock()


@hides_frames
def register_ffi_target(
    target_name: str,
    module: CompiledModule,
    func_name: str,
    *,
    platform: str = "CUDA",
    replace: bool = False,
    content_id: str | None = None,
) -> None:
    """Register a function of a module under a name for `jax.ffi.ffi_call`.

    Registering the same content under the same name again has no effect.

    Parameters
    ----------
    target_name : str
        The name.
    module : CompiledModule
        What a ``load_*`` function returned.
    func_name : str
        The function.
    platform : str, default "CUDA"
        "CUDA" or "cpu".
    replace : bool, default False
        Replace a target of the same name that has other content. JAX's caches are cleared
        (`jax.clear_caches`), and programs that were compiled before call the new function from then
        on.
    content_id : str, optional
        An identifier of the content, instead of the module's hash.

    Raises
    ------
    KernelRegistrationError
        If a target of this name has other content and `replace` is false, or if a target that XLA
        may record into CUDA graphs would be replaced by one that must not be recorded.
    KeyError
        If the module has no such function.
    """
    export = module.export(func_name)
    content = (content_id or module.content_hash, func_name, export.graph)
    key = (target_name, platform)
    with _lock:
        slot, before = _targets.get(key, (export.slot, None))
        if before == content:
            return
        if before is not None and not replace:
            raise KernelRegistrationError(
                f"the target {target_name!r} on {platform} is already registered with other code: "
                "load with replace=True to replace that code, or choose another name (name= or "
                "target_prefix=) [KB5101]"
            )
        try:
            export.bind(slot, target_name)
        except ValueError as e:
            raise KernelRegistrationError(coded(str(e), "KB5101")) from e
        if before is None:
            capsule = _core.handler_capsule(export.handler)
            jax.ffi.register_ffi_target(target_name, capsule, platform=platform)
        _targets[key] = (slot, content)
    if before is not None:
        jax.clear_caches()


def list_registered_targets() -> list[str]:
    """Return the names of the public targets, sorted."""
    with _lock:
        return sorted({name for name, _ in _targets})
