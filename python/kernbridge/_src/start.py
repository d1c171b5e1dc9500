"""Executes all side effects of `import kernbridge`, once per process.

Registers the handlers of calls with JAX, and passes two functions to the core: one finds the kernel
of a program from another process, and one runs a Python function of the user at each call of an
operation that cannot be recorded.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
from typing import Any

import jax

from kernbridge import _core
from kernbridge._src.base import debug, extensions, private_jax, reports, settings
from kernbridge._src.operation import embed_once, missing_platform, operation, origin
from kernbridge._src.sharding.partition import SPLIT, TOGETHER, parts_of, sharding_of_results


def _call(*arguments: Any) -> Any:
    """Run a Python function of the user, by a module that few programs need."""
    from kernbridge._src.numba_cuda import callback

    return callback.call(*arguments)


def _register_targets() -> None:
    on_cpu, on_gpu = _core.targets(False), _core.targets(True)
    nowhere = {missing_platform.TARGET: on_cpu[missing_platform.TARGET]}
    whole = {missing_platform.TARGET, TOGETHER, embed_once.GPU, *embed_once.ON_CPU.values()}
    # A second name for each target whose calls XLA may split among devices.
    split = {name + SPLIT: name for name in sorted({*on_cpu, *on_gpu} - whole)}
    for targets in (on_cpu, on_gpu):
        targets.update({new: targets[name] for new, name in split.items() if name in targets})
    for platform, targets in (("cpu", on_cpu), ("CUDA", on_gpu), ("ROCM", nowhere)):
        for name, handlers in targets.items():
            jax.ffi.register_ffi_target(name, handlers, platform=platform)
    private_jax.allow_in_exports({*on_cpu, *on_gpu})
    if private_jax.HAS_PARTITIONING:
        carriers = {name: name for name in (embed_once.GPU, *embed_once.ON_CPU.values())}
        for asked, name in (split | carriers).items():
            shardings = functools.partial(sharding_of_results, name)
            private_jax.register_partitioner(asked, shardings, functools.partial(parts_of, name))


def _end_entries() -> None:
    """Wait for threads that are in Python; after Ctrl-C, interrupt what they do.

    XLA waits for its threads at the end of the process. Those that compile a kernel of a loaded
    program, or call a function of the user, must leave Python before it ends, since they could not
    do so afterwards.
    """
    kind = getattr(sys, "last_type", None)
    _core.end_entries(kind is not None and issubclass(kind, KeyboardInterrupt))


private_jax.hide_frames_of(reports.OURS)
_register_targets()
_core.set_caller(_call)
_core.set_resolver(origin.resolve)
atexit.register(_end_entries)  # JAX's own handlers were registered before, and are called after it
os.register_at_fork(after_in_child=operation.after_fork)
_variable = settings.EXPORTED_CODE
settings.set_exported_code(os.environ.get(_variable) or "run", _variable)
debug.switch_on()
if os.environ.get("KERNBRIDGE_CUDA_ON_CPU"):
    extensions.load("switch", "KERNBRIDGE_CUDA_ON_CPU").install_from_environment()
