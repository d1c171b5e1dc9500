"""Lists the kernels of an operation by platform and backend, and chooses the one for a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from kernbridge._src.base.errors import KernelFallbackExhaustedError
from kernbridge._src.base.exact import exact
from kernbridge._src.base.private_jax import Tracer
from kernbridge._src.custom import selection
from kernbridge._src.operation.levels import NONE, Levels


@dataclass(frozen=True, eq=False)
class KernelEntry:
    """One kernel of an operation. Two entries are equal only if they are the same object.

    Attributes
    ----------
    backend : str
        Such as "numba".
    platform : str
        "cpu", "gpu" or "tpu".
    kernel_generator : callable
        A function that is called with the static keywords of a call and `outs`, and returns a
        function of the inputs.
    """

    __module__ = "kernbridge"

    backend: str
    platform: str
    kernel_generator: Callable[..., Any]


Kernels = Mapping[str, Mapping[str, KernelEntry]]


@dataclass(frozen=True)
class Choice:
    """The kernel of each platform that a call uses; part of what JAX caches."""

    entries: tuple[tuple[str, KernelEntry], ...]
    explicit: str | None = None
    ignored: tuple[tuple[str, str], ...] = ()

    def of(self, platform: str) -> KernelEntry | None:
        return dict(self.entries).get(platform)

    def __repr__(self) -> str:
        return " ".join(f"{p}:{e.backend}" for p, e in self.entries) or "none"


def choose(name: str, kernels: Kernels, defaults: Mapping[str, str], explicit: Any) -> Choice:
    """Return what a call with ``backend=explicit`` uses: it, the global choice, or the default."""
    if explicit is not None:
        check_backend(name, explicit)
        entries = [(p, by[explicit]) for p, by in kernels.items() if explicit in by]
        if not entries:
            raise KernelFallbackExhaustedError(
                f"{name!r} has no backend {explicit!r}; it has {listed(kernels)}. Define it with "
                "def_kernel, or omit backend= [KB7006]"
            )
        return Choice(tuple(entries), explicit)
    entries, ignored = [], []
    for platform, by in kernels.items():
        chosen = selection.get_backend(platform)
        if chosen is not None and chosen not in by:
            ignored.append((platform, chosen))
        entries.append((platform, by.get(chosen or "", by[defaults[platform]])))
    return Choice(tuple(entries), None, tuple(ignored))


def check_backend(name: str, backend: Any) -> None:
    """Refuse what is not the name of a backend."""
    if not isinstance(backend, str):
        raise TypeError(f"{name!r}: backend is {backend!r}, expected a string [KB7006]")
    if not backend:
        raise ValueError(f"{name!r}: backend is an empty string, expected a name or None [KB7006]")


def listed(kernels: Kernels) -> str:
    """Return platforms and backends as messages list them."""
    parts = [f"{', '.join(map(repr, by))} on {platform}" for platform, by in kernels.items()]
    return "; ".join(parts) or "no kernels at all"


@dataclass(frozen=True)
class Bound:
    """What a call carries besides its keywords. `exact` holds these with their types.

    `outlives` says that it is part of a program, and may outlive traced values that its rules read.
    """

    choice: Choice
    exact: tuple[Any, ...]
    levels: Levels = NONE
    outlives: bool = False

    def __repr__(self) -> str:
        return f"<{self.choice}{f' vmap{list(self.levels.shape)}' if self.levels else ''}>"


TAKEN = frozenset(("ctx", "dims", "kernbridge", "primitive"))
"""Names under which JAX's functions, which call those of primitives by name, pass arguments."""


def exact_keywords(name: str, keywords: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return keywords with their types, to be compared; refuse what is not static."""
    if not keywords:
        return ()
    if not TAKEN.isdisjoint(keywords):
        taken = min(TAKEN & keywords.keys())
        raise TypeError(
            f"{name!r}: a keyword cannot be called {taken!r}, a name that JAX or kernbridge "
            "uses for another argument; choose another name [KB8008]"
        )
    return tuple((k, _exact(name, k, keywords[k])) for k in sorted(keywords))


def _exact(name: str, keyword: str, value: Any) -> Any:
    if isinstance(value, Tracer):
        raise TypeError(
            f"{name!r}: keyword {keyword!r} is traced, {value.aval}, but must be known while "
            "tracing, since kernels are generated for its value. Make it static with jax.jit(f, "
            f"static_argnames={keyword!r}), close over a number, or pass it as an input array and "
            "read it in the kernel [KB8008]"
        )
    try:
        return exact(value)
    except TypeError:
        if isinstance(value, tuple):  # name the part that is wrong
            for part in value:
                _exact(name, keyword, part)
        remedy = "a tuple" if isinstance(value, (list, set, dict)) else "a number or a tuple"
        if isinstance(value, (jax.Array, np.ndarray)):
            remedy = f"a number, {keyword}.item(), or pass it as an input"
        raise TypeError(
            f"{name!r}: keyword {keyword!r} is {value!r} of type {type(value).__name__}, which is "
            f"not hashable, but keywords are part of JAX's cache keys; pass {remedy} [KB8008]"
        ) from None
