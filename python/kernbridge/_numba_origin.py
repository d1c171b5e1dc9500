"""Where a fresh process finds a Numba kernel: what a program carries in place of machine code.

A call carries the kernel's module and qualified name, and its signature.
"""

from __future__ import annotations

import importlib
import threading
import weakref
from typing import Any

from kernbridge import _origin
from kernbridge._errors import KernelError

ORIGIN = "numba"  # kind of an origin, see _origin.py

_wrapped: dict[tuple[str, str], weakref.WeakSet[Any]] = {}
_lock = threading.Lock()


def remember(kernel: Any) -> tuple[str, str]:
    """Note that this process wrapped the kernel; gives its module and qualified name."""
    name = (kernel.py_func.__module__, kernel.py_func.__qualname__)
    with _lock:
        _wrapped.setdefault(name, weakref.WeakSet()).add(kernel)
    return name


def write(name: tuple[str, str], half_as_bits: bool, signature: Any) -> str:
    """The text that a call carries."""
    return _origin.write(
        ORIGIN,
        module=name[0],
        qualname=name[1],
        half_as_bits=half_as_bits,
        inputs=signature.inputs,
        scalars=signature.scalars,
        outputs=signature.outputs,
        aliased=signature.aliased,
    )


def _resolve(digest: bytes, origin: dict[str, Any]) -> None:
    """Find, compile and register the kernel of this digest."""
    name = (str(origin["module"]), str(origin["qualname"]))
    _register(digest, name, bool(origin["half_as_bits"]), _read_signature(origin))


def _read_signature(origin: Any) -> Any:
    from kernbridge._numba_compile import Signature

    return Signature(
        inputs=tuple((str(d), int(r)) for d, r in origin["inputs"]),
        scalars=tuple((str(n), str(d)) for n, d in origin["scalars"]),
        outputs=tuple((str(d), int(r)) for d, r in origin["outputs"]),
        aliased=tuple(int(i) for i in origin["aliased"]),
    )


def _register(digest: bytes, name: tuple[str, str], half_as_bits: bool, signature: Any) -> None:
    from kernbridge._numba_cpu import NumbaCpu

    place = f"{name[0]}:{name[1]}"
    found, failure = _candidates(name)
    for kernel in found:
        compiler = NumbaCpu.of(kernel, half_as_bits).compiler
        if compiler.digest(signature) == digest:
            compiler.native(signature)
            return
    if found:
        raise KernelError(
            f"the kernel {place} in this process is not the one that the program was made with: "
            "its code, a value that it captures, or an option of numba.njit differs; make the "
            "program anew"
        )
    raise KernelError(
        f"the program needs the kernel {place}, which is not to be found here: {failure}. A kernel "
        "travels by name: define it at the top level of a module that this process can import, or "
        "wrap it with numba_kernel here before the program is loaded"
    )


def _candidates(name: tuple[str, str]) -> tuple[list[Any], str]:
    """Dispatchers of that name: those wrapped here, and the one that an import gives."""
    with _lock:
        found = list(_wrapped.get(name, ()))
    module, qualname = name
    try:
        value: Any = importlib.import_module(module)
        for part in qualname.split("."):
            value = getattr(value, part)
    except (ImportError, AttributeError) as e:
        return found, f"{type(e).__name__}: {e}"
    if hasattr(value, "py_func") and value not in found:
        found.append(value)
    return found, f"{module}.{qualname} is a {type(value).__name__}, expected a numba.njit function"


_origin.register(ORIGIN, _resolve)
