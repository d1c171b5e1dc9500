"""Stores the kernels of an operation and its default backends."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from kernbridge._src.base.reports import hides_frames, warn
from kernbridge._src.custom import selection
from kernbridge._src.custom.choice import Choice, KernelEntry, check_backend, choose, listed
from kernbridge._src.custom.rule_table import RuleTable
from kernbridge._src.operation.operation import Operation
from kernbridge._src.operation.spec import check_rule
from kernbridge._src.operation.watched import Functions

_serials = itertools.count()


class KernelTable(RuleTable):
    """The kernels of an operation by platform and backend, with its rules."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._kernels: dict[str, dict[str, KernelEntry]] = {}
        self._defaults: dict[str, str] = {}
        self._serial = next(_serials)
        self._at_first_use: Any = None
        self._choices: dict[str | None, Choice] = {}
        self._choices_version = -1
        self._told: set[tuple[str, str]] = set()
        self._checked: set[tuple[int, tuple[str, ...]]] = set()  # calls that rules can take

    def choice(self, backend: str | None) -> Choice:
        """Return the kernels that a call uses; the same object while nothing changes."""
        known = self._choices.get(backend)
        if known is not None and self._choices_version == selection.version():
            return known
        with self._lock:
            if self._choices_version != selection.version():
                self._choices.clear()
                self._choices_version = selection.version()
            if backend not in self._choices:
                self._choices[backend] = choose(self.name, self._kernels, self._defaults, backend)
            if self._at_first_use is None:
                self._at_first_use = self._state()
            return self._choices[backend]

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
        if self._at_first_use is not None:
            state = self._state()
            selection.changed(self._serial, None if state == self._at_first_use else state)

    def tell_ignored(self, choice: Choice, platform: str) -> None:
        """Warn, once, of a global choice that this operation cannot follow."""
        for where, backend in choice.ignored:
            if where == platform and (where, backend) not in self._told:
                self._told.add((where, backend))
                used = choice.of(platform)
                warn(
                    f"{self.name!r}: ignoring the backend {backend!r} that config.set_backend "
                    f"chose for {platform}, which this operation does not have; it uses "
                    f"{used.backend if used else None!r}"
                    " [KB7007]"
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
        check_backend(self.name, backend)
        platform = selection.platform_of(repr(self.name), platform)
        if not callable(kg):
            raise TypeError(
                f"{self.name!r}: the generator of backend {backend!r} is {kg!r}, expected a "
                "function"
                " [KB8006]"
            )
        if isinstance(kg, Operation):
            raise TypeError(
                f"{self.name!r}: the generator of backend {backend!r} is {kg!r}, an operation, "
                "expected a function of `outs` and the keywords that returns one: lambda outs: "
                "numba_kernel(kernel, outs)"
                " [KB8006]"
            )
        with self._lock:
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
        if selection.platform_of(repr(self.name), platform) == "cpu":
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
        where = selection.platform_of(repr(self.name), platform)
        with self._lock:
            if backend not in self._kernels.get(where, {}):
                raise ValueError(
                    f"{self.name!r} has no backend {backend!r} on {where}; it has "
                    f"{listed(self._kernels)}"
                    " [KB7006]"
                )
            self._defaults[where] = backend
            self._change()

    def get_default(self, platform: str) -> str | None:
        """Return the default backend of a platform, or None."""
        return self._defaults.get(selection.name_of(platform))

    @property
    def defaults(self) -> dict[str, str]:
        return dict(self._defaults)

    def available_backends(self, platform: str) -> list[str]:
        """Return the backends of a platform, in the order of their definition; [] if none."""
        return list(self._kernels.get(selection.name_of(platform), {}))
