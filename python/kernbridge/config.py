"""Settings of the process.

Examples
--------
>>> from kernbridge import config
>>> config.set_numba_num_threads(1)
>>> config.get_numba_num_threads()
1
>>> config.set_numba_num_threads(None)
"""

from __future__ import annotations

from kernbridge import _core


def set_numba_num_threads(n: int | None) -> None:
    """Choose how many threads every `parallel=True` kernel uses, from its next call on.

    Numba's own `numba.set_num_threads` is per thread, and XLA calls kernels from threads of its
    own. Without this setting a kernel uses the number that Numba had when it was compiled.

    Parameters
    ----------
    n : int or None
        1 to `numba.config.NUMBA_NUM_THREADS`; None returns to each kernel's own number.

    Raises
    ------
    TypeError, ValueError
        If `n` is not such a number.
    """
    import numba

    if n is None:
        _core.set_num_threads(0)
        return
    if isinstance(n, bool) or not isinstance(n, int):
        raise TypeError(f"set_numba_num_threads: n is {n!r}, expected a whole number or None")
    most = numba.config.NUMBA_NUM_THREADS
    if not 1 <= n <= most:
        raise ValueError(
            f"set_numba_num_threads: n is {n}, expected 1 to {most} (the environment variable "
            "NUMBA_NUM_THREADS raises that limit)"
        )
    _core.set_num_threads(n)


def get_numba_num_threads() -> int | None:
    """What `set_numba_num_threads` chose, or None."""
    return _core.get_num_threads() or None


_architectures: tuple[tuple[int, int], ...] | None = None


def set_cuda_architectures(architectures: str | None) -> None:
    """Choose the GPUs that kernels are compiled for from now on.

    By default these are the GPUs of this machine, or, where it has none, one of each generation
    that CUDA 13 compiles for. The environment variable KERNBRIDGE_CUDA_ARCHS does the same.

    Parameters
    ----------
    architectures : str or None
        Compute capabilities, as in "8.0, 9.0" or "sm_90"; None returns to the default.

    Raises
    ------
    ValueError
        If `architectures` names none.
    """
    from kernbridge import _cuda_toolchain

    global _architectures
    _architectures = (
        None if architectures is None else _cuda_toolchain.read_architectures(architectures)
    )


def get_cuda_architectures() -> tuple[tuple[int, int], ...] | None:
    """What `set_cuda_architectures` chose, as (major, minor), or None."""
    return _architectures
