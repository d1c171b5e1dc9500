"""All side effects of importing kernbridge: what JAX and the core are handed, once a process.

JAX gets the handlers of calls. The core gets the functions in Python that it calls for a program of
another process: one finds a kernel by its origin, one makes machine code of a CUDA kernel for CPUs.
"""

from __future__ import annotations

import atexit
import sys

import jax

from kernbridge import _core
from kernbridge._src.base import debug, jax_inside
from kernbridge._src.operation import absent, carrier, origin
from kernbridge._src.toolchain.cuda import has_fake_driver


def _compile_for_host(image: bytes) -> None:
    from kernbridge._src.cuda_on_cpu import compile as cuda_on_cpu_compile  # imports llvmlite

    cuda_on_cpu_compile.compile_image(image)


def _register_targets() -> None:
    on_cpu = {
        "kernbridge.host": _core.host_handlers(),
        "kernbridge.cuda.host": _core.cuda_host_handlers(),
    }
    carriers = _core.carrier_handlers()
    on_cpu |= {carrier.HOST: carriers.pop(carrier.HOST)}
    on_gpu = _core.cuda_handlers() | carriers
    if has_fake_driver():
        on_cpu |= on_gpu
    nowhere = {absent.TARGET: _core.absent_handlers()}
    on_cpu |= nowhere
    on_gpu |= nowhere
    for platform, targets in (("cpu", on_cpu), ("CUDA", on_gpu), ("ROCM", nowhere)):
        for name, handlers in targets.items():
            jax.ffi.register_ffi_target(name, handlers, platform=platform)
    jax_inside.allow_in_exports({*on_cpu, *on_gpu})


def _end_entries() -> None:
    """Wait for threads that are in Python; after Ctrl-C, interrupt what they do.

    XLA waits for its threads at the end of the process. Those that compile a kernel of a loaded
    program, or call a function of the user, must leave Python before it ends, since they could not
    do so afterwards.
    """
    kind = getattr(sys, "last_type", None)
    _core.end_entries(kind is not None and issubclass(kind, KeyboardInterrupt))


_register_targets()
_core.set_resolver(origin.resolve)
_core.set_host_compiler(_compile_for_host)
atexit.register(_end_entries)  # JAX's own handlers were registered before, and are called after it
debug.install(has_fake_driver())
