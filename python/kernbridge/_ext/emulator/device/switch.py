"""Switches launches of CUDA kernels to the CPU: for a block of code, or for the process."""

from __future__ import annotations

import os
from contextlib import ContextDecorator
from typing import Any

from kernbridge._ext.emulator.device import mode
from kernbridge._src.base import debug, settings
from kernbridge._src.base.errors import KernelNotAvailableError, KernelToolchainError
from kernbridge._src.base.reports import hide_frames, hides_frames

VARIABLE = "KERNBRIDGE_CUDA_ON_CPU"


class cuda_on_cpu(ContextDecorator):  # users call it as a function
    """Run CUDA kernels that Numba launches on the CPU (a context manager and decorator).

    In this context, `numba.cuda` has one device, the processor, whose memory is that of the
    process. `kernel[grid, block](...)`, `cuda.to_device`, streams, events and the rest of Numba's
    host API work without a GPU, a driver or a CUDA library. The context applies only to the thread
    that enters it. Other threads, and this thread afterwards, use the GPU if there is one. Kernels
    may be decorated before the context is entered; their code for GPUs and for the CPU is kept
    separately.

    Use arrays, streams and events only in the context in which they were created.

    Parameters
    ----------
    check : bool
        Run kernels in the checked mode, which finds accesses out of bounds, data races and other
        faults (`docs/checks.md`). KERNBRIDGE_DEBUG=check enables it everywhere.

    Raises
    ------
    KernelNotAvailableError
        When the context is entered, if `kernbridge.config.set_cuda_on_cpu("error")` forbids it; in
        the context, if the program uses a feature that only GPUs have.
    KernelCompilationError
        When a kernel is compiled that cannot run on CPUs.
    KernelFaultError
        When a launch finds a fault, such as a write out of bounds.

    Examples
    --------
    >>> import kernbridge, numpy as np
    >>> from numba import cuda
    >>> @cuda.jit
    ... def double(x):
    ...     i = cuda.grid(1)
    ...     if i < x.size:
    ...         x[i] *= 2
    >>> x = np.arange(3.0)
    >>> with kernbridge.cuda_on_cpu():
    ...     double[1, 32](cuda.to_device(x))
    ...     double[1, 32](x)
    >>> x
    array([0., 2., 4.])
    """

    @hides_frames
    def __init__(self, check: bool = False) -> None:
        self._mode = mode.CHECK if check or debug.checks() else mode.RUN
        self._before: list[str | None] = []

    def __enter__(self) -> cuda_on_cpu:
        _install_hooks().use_twins()
        self._before.append(getattr(mode.thread, "mode", None))
        mode.thread.mode = self._mode
        return self

    def __exit__(self, kind: Any = None, error: Any = None, trace: Any = None) -> None:
        if isinstance(error, Exception):
            hide_frames(error)
        mode.thread.mode = self._before.pop()

    def _recreate_cm(self) -> cuda_on_cpu:
        """A new one for each call of a decorated function, which several threads may call."""
        return cuda_on_cpu(check=self._mode == mode.CHECK)

    def install(self) -> None:
        """Switch all threads to the CPU until the process ends.

        Call this function before kernels are decorated. KERNBRIDGE_CUDA_ON_CPU=1 or =check has the
        same effect when kernbridge is imported. With ``check=True``, it also has the effect of
        KERNBRIDGE_DEBUG=check: operations of JAX that are first called afterwards are checked, too.
        """
        _install_hooks().adopt_dispatchers(self._mode)
        mode.of_process, settings.told_of_cpu = self._mode, True
        if self._mode == mode.CHECK:
            debug.switch_on("check")


cuda_on_cpu.__module__ = "kernbridge"
__test__ = {"cuda_on_cpu": cuda_on_cpu}  # doctest takes it for one of `kernbridge`


def _install_hooks() -> Any:
    if settings.cuda_on_cpu == "error":
        raise KernelNotAvailableError(
            "cuda_on_cpu: kernbridge.config.set_cuda_on_cpu('error') refuses kernels on the CPU"
            " [KB7003]"
        )
    if os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0"):
        raise KernelToolchainError(
            "kernbridge cannot run CUDA kernels on the CPU while Numba's simulator is enabled: "
            "unset NUMBA_ENABLE_CUDASIM [KB7005]"
        )
    from kernbridge._ext.emulator.device import hooks

    hooks.install()
    return hooks


def install_from_environment() -> None:
    chosen = os.environ.get(VARIABLE, "")
    if chosen in ("", "0"):
        return
    if chosen not in ("1", "check"):
        raise ValueError(f"{VARIABLE} is {chosen!r}, expected 1, check or 0 [KB8002]")
    cuda_on_cpu(check=chosen == "check").install()
