"""The kernels of an operation by platform and backend, and the choice of one for a call.

JAX caches traced and compiled functions. The value of a JAX user context is part of the keys of
these caches. Here, it is the difference between the selection now and when operations were first
used. A change therefore reaches functions that are already jitted, changing it back reuses their
compiled programs, and without changes there is no cost.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernbridge._src.base import private_jax
from kernbridge._src.base.errors import KernelFallbackExhaustedError
from kernbridge._src.base.reports import hides_frames, warn
from kernbridge._src.custom.rules import RuleTable, lock
from kernbridge._src.operation.operation import Operation
from kernbridge._src.operation.spec import Functions, check_rule

PLATFORMS = ("cpu", "gpu", "tpu")
_ALIASES = {"cuda": "gpu", "rocm": "gpu"}

_set_global = private_jax.new_user_context()
_selected: tuple[tuple[str, str], ...] = ()  # platforms and the backends of all operations there
_changed: dict[int, Hashable] = {}  # operations, and how they differ from when they were first used
_serials = itertools.count()


def platform_of(label: str, platform: object) -> str:
    """Return the platform's name; "cuda" and "rocm" are "gpu"."""
    if not isinstance(platform, str):
        raise TypeError(f"{label}: platform is {platform!r}, expected one of {PLATFORMS} [KB7006]")
    name = _ALIASES.get(platform, platform)
    if name not in PLATFORMS:
        raise ValueError(f"{label}: platform is {platform!r}, expected one of {PLATFORMS} [KB7006]")
    return name


def set_backend(platform: str, backend: str | None) -> None:
    """Choose the backend of all operations that have it, or leave each its own."""
    global _selected
    with lock:
        selected = dict(_selected)
        selected[platform] = backend or ""
        _selected = tuple(sorted((p, b) for p, b in selected.items() if b))
        _publish()


def clear_backends() -> None:
    """Leave every operation its own backend, on every platform."""
    global _selected
    with lock:
        _selected = ()
        _publish()


def get_backend(platform: str) -> str | None:
    """Return the backend that all operations use if they have it."""
    return dict(_selected).get(platform)


def _publish() -> None:
    """Make JAX trace functions again, unless nothing differs from before; the lock is held."""
    state = (_selected, tuple(sorted(_changed.items())))
    _set_global(state if any(state) else None)


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


@dataclass(frozen=True)
class Choice:
    """The kernel of each platform that a call uses; part of what JAX caches.

    `ignored` are the selected backends that the operation does not have, by platform.
    """

    entries: tuple[tuple[str, KernelEntry], ...]
    explicit: str | None = None
    ignored: tuple[tuple[str, str], ...] = ()

    def of(self, platform: str) -> KernelEntry | None:
        return dict(self.entries).get(platform)

    def __repr__(self) -> str:
        return " ".join(f"{p}:{e.backend}" for p, e in self.entries) or "none"


def _check_backend(name: str, backend: Any) -> None:
    if not isinstance(backend, str):
        raise TypeError(f"{name!r}: backend is {backend!r}, expected a string [KB7006]")
    if not backend:
        raise ValueError(f"{name!r}: backend is an empty string, expected a name or None [KB7006]")


def listed(kernels: Mapping[str, Mapping[str, KernelEntry]]) -> str:
    parts = [f"{', '.join(map(repr, by))} on {platform}" for platform, by in kernels.items()]
    return "; ".join(parts) or "no kernels at all"


class KernelTable(RuleTable):
    """The kernels of an operation by platform and backend, with its rules."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._kernels: dict[str, dict[str, KernelEntry]] = {}
        self._defaults: dict[str, str] = {}
        self._serial = next(_serials)
        self._at_first_use: Any = None
        self._choices: dict[tuple[str | None, tuple[tuple[str, str], ...]], Choice] = {}
        self._told: set[tuple[str, str]] = set()
        self._checked: set[tuple[int, tuple[str, ...]]] = set()  # calls that rules can take

    def choice(self, backend: str | None) -> Choice:
        """Return the kernels of a call with this ``backend=``, the same object each time.

        Without it, a call uses the selected backend, or else the default.
        """
        key = backend, _selected
        known = self._choices.get(key)
        if known is None:
            with lock:
                known = self._choices.setdefault(key, self._choose(*key))
                if self._at_first_use is None:
                    self._at_first_use = self._state()
        return known

    def _choose(self, explicit: Any, selected: tuple[tuple[str, str], ...]) -> Choice:
        kernels = self._kernels
        if explicit is not None:
            _check_backend(self.name, explicit)
            found = [(p, by[explicit]) for p, by in kernels.items() if explicit in by]
            if not found:
                raise KernelFallbackExhaustedError(
                    f"{self.name!r} has no backend {explicit!r}; it has {listed(kernels)}. Define "
                    "it with def_kernel, or omit backend= [KB7006]"
                )
            return Choice(tuple(found), explicit)
        wanted = dict(selected)
        entries, ignored = [], []
        for platform, by in kernels.items():
            backend = wanted.get(platform, self._defaults[platform])
            if backend not in by:
                ignored.append((platform, backend))
                backend = self._defaults[platform]
            entries.append((platform, by[backend]))
        return Choice(tuple(entries), None, tuple(ignored))

    def _state(self) -> Any:
        kernels = tuple(e for by in self._kernels.values() for e in by.values())
        return kernels, tuple(sorted(self._defaults.items())), self._rules_version

    def _functions(self) -> Functions:
        entries = [e for by in self._kernels.values() for e in by.values()]
        generators = [(f"{e.backend} on {e.platform}", e.kernel_generator) for e in entries]
        return self._kernbridge_runs() + generators

    def _change(self) -> None:
        self._choices.clear()
        self._checked.clear()
        state = self._state()
        if self._at_first_use is not None:
            _changed.pop(self._serial, None)
            if state != self._at_first_use:
                _changed[self._serial] = state
            _publish()

    def tell_ignored(self, choice: Choice, platform: str) -> None:
        """Warn, once, of a selected backend that this operation does not have."""
        for where, backend in choice.ignored:
            if where == platform and (where, backend) not in self._told:
                self._told.add((where, backend))
                used = choice.of(platform)
                warn(
                    f"{self.name!r}: ignoring the backend {backend!r} that config.set_backend "
                    f"chose for {platform}, which this operation does not have; it uses "
                    f"{used.backend if used else None!r} [KB7007]"
                )

    def check_known(self, n_inputs: int, keywords: Sequence[str]) -> None:
        """Check rules and generators as far as inputs and keywords allow."""
        call = n_inputs, tuple(keywords)
        if call in self._checked:
            return
        given = [k for k in keywords if k != "backend"]
        expected = f"({', '.join(f'{k}=...' for k in given)})"
        for by in self._kernels.values():
            for entry in by.values():
                what = f"the generator of backend {entry.backend!r}"
                check_rule(repr(self.name), what, entry.kernel_generator, expected, 0, given)
        self.check_rules_take(n_inputs, keywords)
        self._checked.add(call)

    @hides_frames
    def def_kernel(
        self, backend: str, platform: str, kg: Callable[..., Any], asdefault: bool = False
    ) -> None:
        """Define the kernel of a backend on a platform; the first of a platform is its default.

        Parameters
        ----------
        backend : str
            A name, such as "numba".
        platform : str
            "cpu", "gpu" or "tpu".
        kg : callable
            ``kg(outs=..., **keywords)`` returns a function of the inputs that returns the outputs.
        asdefault : bool, default False
            Make it the platform's default.

        Raises
        ------
        TypeError
            If `backend` or `platform` is no text, or `kg` cannot be called.
        ValueError
            If `backend` is empty, or `platform` is unknown.
        """
        _check_backend(self.name, backend)
        platform = platform_of(repr(self.name), platform)
        if not callable(kg):
            raise TypeError(
                f"{self.name!r}: the generator of backend {backend!r} is {kg!r}, expected a "
                "function [KB8006]"
            )
        if isinstance(kg, Operation):
            raise TypeError(
                f"{self.name!r}: the generator of backend {backend!r} is {kg!r}, an operation, "
                "expected a function of `outs` and the keywords that returns one: lambda outs: "
                "numba_kernel(kernel, outs) [KB8006]"
            )
        with lock:
            by = self._kernels.setdefault(platform, {})
            if backend not in by or by[backend].kernel_generator is not kg:
                by[backend] = KernelEntry(backend, platform, kg)
            if asdefault or platform not in self._defaults:
                self._defaults[platform] = backend
            self._change()

    @hides_frames
    def def_numba_kernel(self, kg: Callable[..., Any], asdefault: bool = False) -> None:
        """Define the kernel of backend "numba" on "cpu"; see `def_kernel`."""
        self.def_kernel("numba", "cpu", kg, asdefault)

    @hides_frames
    def def_cpp_kernel(self, kg: Callable[..., Any], asdefault: bool = False) -> None:
        """Define the kernel of backend "cpp" on "cpu", of `load_cpp_inline`; see `def_kernel`."""
        self.def_kernel("cpp", "cpu", kg, asdefault)

    @hides_frames
    def def_numba_cuda_kernel(self, kg: Callable[..., Any], asdefault: bool = False) -> None:
        """Define the kernel of backend "numba_cuda" on "gpu"; see `def_kernel`."""
        self.def_kernel("numba_cuda", "gpu", kg, asdefault)

    @hides_frames
    def def_cuda_raw_kernel(self, kg: Callable[..., Any], asdefault: bool = False) -> None:
        """Define the kernel of backend "cuda_raw" on "gpu", of CUDA source; see `def_kernel`."""
        self.def_kernel("cuda_raw", "gpu", kg, asdefault)

    @hides_frames
    def def_warp_kernel(self, kg: Callable[..., Any], asdefault: bool = False) -> None:
        """Define the kernel of backend "warp" on "gpu"; see `def_kernel`.

        The generator uses Warp's own `jax_kernel`. Under vmap it runs slice by slice.
        """
        self.def_kernel("warp", "gpu", kg, asdefault)

    @hides_frames
    def def_triton_kernel(self, kg: Callable[..., Any], asdefault: bool = False) -> None:
        """Define the kernel of backend "triton" on "gpu", of jax-triton; see `def_kernel`."""
        self.def_kernel("triton", "gpu", kg, asdefault)

    @hides_frames
    def def_pallas_kernel(
        self, platform: str, kg: Callable[..., Any], asdefault: bool = False
    ) -> None:
        """Define the kernel of backend "pallas" on "gpu" or "tpu"; see `def_kernel`."""
        if platform_of(repr(self.name), platform) == "cpu":
            raise ValueError(
                f"{self.name!r}: Pallas has kernels for 'gpu' and 'tpu', not for {platform!r}; "
                "with interpret=True, define it with def_kernel('pallas', 'cpu', ...) [KB7006]"
            )
        self.def_kernel("pallas", platform, kg, asdefault)

    @hides_frames
    def set_default(self, platform: str, backend: str) -> None:
        """Choose the backend that a platform uses if nothing else is asked for.

        Raises
        ------
        ValueError
            If the operation has no such backend there.
        """
        where = platform_of(repr(self.name), platform)
        with lock:
            if backend not in self._kernels.get(where, {}):
                raise ValueError(
                    f"{self.name!r} has no backend {backend!r} on {where}; it has "
                    f"{listed(self._kernels)} [KB7006]"
                )
            self._defaults[where] = backend
            self._change()

    def get_default(self, platform: str) -> str | None:
        """Return the default backend of a platform, or None."""
        return self._defaults.get(_ALIASES.get(platform, platform))

    @property
    def defaults(self) -> dict[str, str]:
        return dict(self._defaults)

    def available_backends(self, platform: str) -> list[str]:
        """Return the backends of a platform, in the order of their definition; [] if none."""
        return list(self._kernels.get(_ALIASES.get(platform, platform), {}))
