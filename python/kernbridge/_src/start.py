"""All side effects of importing kernbridge: what JAX and the core are handed, once a process.

JAX gets the handlers of calls. The core gets the functions in Python that it calls for a program of
another process: one finds a kernel by its origin, one makes machine code of a CUDA kernel for CPUs.
"""

from __future__ import annotations

import atexit
import sys

import jax

from kernbridge import _core
from kernbridge._src.base import debug, settings
from kernbridge._src.operation import origin
from kernbridge._src.toolchain.cuda import has_fake_driver


def _compile_for_host(image: bytes) -> None:
    from kernbridge._src.cuda_on_cpu import compile as cuda_on_cpu_compile  # imports llvmlite

    cuda_on_cpu_compile.compile_image(image)


def _register_targets() -> None:
    jax.ffi.register_ffi_target("kernbridge.host", _core.host_handlers(), platform="cpu")
    jax.ffi.register_ffi_target("kernbridge.cuda.host", _core.cuda_host_handlers(), platform="cpu")
    for name, handlers in _core.cuda_handlers().items():
        jax.ffi.register_ffi_target(name, handlers, platform="CUDA")
        if has_fake_driver():
            jax.ffi.register_ffi_target(name, handlers, platform="cpu")


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
settings.install()
debug.install(has_fake_driver())
