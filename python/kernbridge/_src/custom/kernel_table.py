"""The kernels of an operation: how they are defined, and which one is the default."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from kernbridge._src.custom import choice, selection
from kernbridge._src.custom.choice import KernelEntry


class KernelTable:
    """Kernels by platform and backend."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._kernels: dict[str, dict[str, KernelEntry]] = {}
        self._defaults: dict[str, str] = {}
        self._lock = threading.RLock()

    def _change(self) -> None:
        """Called, with the lock held, after every change."""
        raise NotImplementedError

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
        choice.check_backend(self.name, backend)
        platform = selection.platform_of(repr(self.name), platform)
        if not callable(kg):
            raise TypeError(
                f"{self.name!r}: the generator of backend {backend!r} is {kg!r}, expected a "
                "function"
            )
        with self._lock:
            by = self._kernels.setdefault(platform, {})
            if backend not in by or by[backend].kernel_generator is not kg:
                by[backend] = KernelEntry(backend, platform, kg)
            if asdefault or platform not in self._defaults:
                self._defaults[platform] = backend
            self._change()

    def def_numba_kernel(self, kg: Callable[..., Any], asdefault: bool = False) -> None:
        """Define the kernel of backend "numba" on "cpu"; see `def_kernel`."""
        self.def_kernel("numba", "cpu", kg, asdefault)

    def def_cpp_kernel(self, kg: Callable[..., Any], asdefault: bool = False) -> None:
        """Define the kernel of backend "cpp" on "cpu", of `load_cpp_inline`; see `def_kernel`."""
        self.def_kernel("cpp", "cpu", kg, asdefault)

    def def_numba_cuda_kernel(self, kg: Callable[..., Any], asdefault: bool = False) -> None:
        """Define the kernel of backend "numba_cuda" on "gpu"; see `def_kernel`."""
        self.def_kernel("numba_cuda", "gpu", kg, asdefault)

    def def_cuda_raw_kernel(self, kg: Callable[..., Any], asdefault: bool = False) -> None:
        """Define the kernel of backend "cuda_raw" on "gpu", of CUDA source; see `def_kernel`."""
        self.def_kernel("cuda_raw", "gpu", kg, asdefault)

    def def_warp_kernel(self, kg: Callable[..., Any], asdefault: bool = False) -> None:
        """Define the kernel of backend "warp" on "gpu"; see `def_kernel`.

        The generator uses Warp's own `jax_kernel`. Under vmap it runs slice by slice.
        """
        self.def_kernel("warp", "gpu", kg, asdefault)

    def def_triton_kernel(self, kg: Callable[..., Any], asdefault: bool = False) -> None:
        """Define the kernel of backend "triton" on "gpu", of jax-triton; see `def_kernel`."""
        self.def_kernel("triton", "gpu", kg, asdefault)

    def def_pallas_kernel(
        self, platform: str, kg: Callable[..., Any], asdefault: bool = False
    ) -> None:
        """Define the kernel of backend "pallas" on "gpu" or "tpu"; see `def_kernel`."""
        if selection.platform_of(repr(self.name), platform) == "cpu":
            raise ValueError(
                f"{self.name!r}: Pallas has kernels for 'gpu' and 'tpu', not for {platform!r}; "
                "with interpret=True define it by def_kernel('pallas', 'cpu', ...)"
            )
        self.def_kernel("pallas", platform, kg, asdefault)

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
                    f"{choice.listed(self._kernels)}"
                )
            self._defaults[where] = backend
            self._change()

    def get_default(self, platform: str) -> str | None:
        """The default backend of a platform, or None."""
        return self._defaults.get(selection.platform_of(repr(self.name), platform))

    @property
    def defaults(self) -> dict[str, str]:
        return dict(self._defaults)

    def available_backends(self, platform: str) -> list[str]:
        """Backends of a platform, in the order of their definition."""
        return list(self._kernels.get(selection.platform_of(repr(self.name), platform), {}))
