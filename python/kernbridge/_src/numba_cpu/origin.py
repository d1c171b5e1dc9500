"""Describes how a new process finds a Numba kernel that a program refers to by name.

A call contains the kernel's module, its qualified name and its signature.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kernbridge._src.base import settings
from kernbridge._src.base.errors import KernelError
from kernbridge._src.operation import origin as operation_origin

ORIGIN = "numba"  # kind of an origin, see operation/origin.py
RANK_MAX = 64  # KB_RANK_MAX of src/core/kb_kernel.h
WRAPPERS_MAX = 8  # of one kernel

_wrapped: dict[tuple[str, str], weakref.WeakSet[Any]] = {}
_lock = threading.Lock()


def remember(kernel: Any) -> tuple[str, str]:
    """Note that this process wrapped the kernel; return its module and qualified name."""
    name = (kernel.py_func.__module__, kernel.py_func.__qualname__)
    with _lock:
        known = _wrapped.get(name)
        if known is None:
            known = _wrapped[name] = weakref.WeakSet()
        known.add(kernel)
    return name


def write(
    name: tuple[str, str], half_as_bits: bool, options: Any, signature: Any, why_by_name: str
) -> str:
    """The text that a call carries; `why_by_name`: why it has no machine code, or empty."""
    return operation_origin.write(
        ORIGIN,
        module=name[0],
        qualname=name[1],
        half_as_bits=half_as_bits,
        options={k: v for k, v in dataclasses.asdict(options).items() if v is not None},
        **dataclasses.asdict(signature),
        **({"why_by_name": why_by_name} if why_by_name else {}),
    )


def resolve(frontend_of: Callable[..., Any], digest: bytes, origin: dict[str, Any]) -> Any:
    """Find the kernel of this digest; return the compilation that registers it.

    `frontend_of` returns the front end of a dispatcher, given ``half_as_bits`` and the options.
    """
    from kernbridge._src.numba_cpu.signature import Signature

    module, qualname = name = str(origin["module"]), str(origin["qualname"])
    half_as_bits = bool(origin["half_as_bits"])
    options = {str(k): bool(v) for k, v in origin.get("options", {}).items()}
    signature = Signature(
        inputs=_arrays(origin["inputs"]),
        scalars=tuple((str(n), str(d)) for n, d in origin["scalars"]),
        outputs=_arrays(origin["outputs"]),
        aliased=tuple(int(i) for i in origin["aliased"]),
    )
    found, failure = _candidates(name)
    for kernel in found:
        job = frontend_of(kernel, half_as_bits, options).new_job(signature)
        if job.identity == digest:
            return job
    place = f"{module}:{qualname}"
    why = origin.get("why_by_name")
    by_name = f" It does not contain the machine code of the kernel, because {why}." if why else ""
    if found:
        raise KernelError(
            f"the kernel {place} in this process differs from the one that the program was "
            "exported with: in its code, a value that it captures, or an option of numba.njit. "
            f"Export the program again.{by_name} [KB5107]"
        )
    if module not in sys.modules and not settings.may_import(module):
        raise KernelError(
            f"the program needs the kernel {place}, and the module {module!r} is not imported "
            "here. Importing a module runs its code, so a program may not name one by itself: "
            f"import {module} before the program is run; or, if you trust who made the program, "
            f"let programs import it with kernbridge.config.allow_imports({module!r}) or "
            f"{settings.ALLOW_IMPORTS}={module}.{by_name}"
            " [KB5107]"
        )
    raise KernelError(
        f"the program needs the kernel {place}, which was not found in this process: {failure}. "
        "The program refers to the kernel by name: define it at the top level of a module that "
        "this process can import, or wrap it with numba_kernel before the program is "
        f"loaded.{by_name} [KB5107]"
    )


def _arrays(described: Any) -> tuple[tuple[str, int], ...]:
    """Return the dtypes and ranks of arrays; a rank that no array has takes Numba without end."""
    arrays = tuple((str(dtype), int(rank)) for dtype, rank in described)
    for _, rank in arrays:
        if not 0 <= rank <= RANK_MAX:
            raise ValueError(f"an array of rank {rank}")
    return arrays


def _candidates(name: tuple[str, str]) -> tuple[list[Any], str]:
    """Dispatchers of that name: those wrapped here, and the one in its module.

    A module that is not imported yet is imported only if the user allows it, as that runs its code.
    What a module makes on demand, by its function ``__getattr__``, is not looked for: the program
    would choose what the module runs, or imports, by the name.
    """
    with _lock:
        found = list(_wrapped.get(name, ()))
    module, qualname = name
    if module not in sys.modules and not settings.may_import(module):
        return found, f"{module} is not imported"
    try:
        value: Any = importlib.import_module(module)
    except (ImportError, AttributeError) as e:
        return found, f"{type(e).__name__}: {e}"
    try:
        for part in qualname.split("."):
            value = _attribute(value, part)
    except AttributeError:
        return found, f"module {module!r} has no attribute {qualname!r}"
    # The name of a decorated kernel is that of its operation, or of what jax.jit made of that.
    with suppress(AttributeError):
        for _ in range(WRAPPERS_MAX):
            if _has_function(value):
                break
            value = _attribute(value, "__wrapped__")
    if _has_function(value) and all(value is not kernel for kernel in found):
        found.append(value)
    return found, f"{module}.{qualname} is a {type(value).__name__}, expected a numba.njit function"


def _attribute(value: Any, name: str) -> Any:
    """Return an attribute that is there, without running code that would make it."""
    found = inspect.getattr_static(value, name)
    return found.__func__ if isinstance(found, staticmethod) else found


def _has_function(value: Any) -> bool:
    """Whether this is a dispatcher of Numba."""
    return inspect.getattr_static(value, "py_func", None) is not None
