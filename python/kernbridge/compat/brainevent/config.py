"""Settings, as programs that were written for BrainEvent know them."""

from __future__ import annotations

from kernbridge.config import (
    add_include_path,
    clear_backends,
    get_backend,
    get_compute_capability,
    get_include_paths,
    get_numba_num_threads,
    prefer_system_nvcc,
    set_backend,
    set_compute_capability,
    set_numba_num_threads,
)

__all__ = [
    "add_include_path",
    "clear_backends",
    "get_backend",
    "get_compute_capability",
    "get_include_paths",
    "get_numba_num_threads",
    "get_numba_parallel",
    "prefer_system_nvcc",
    "set_backend",
    "set_compute_capability",
    "set_numba_parallel",
]

_parallel = False


def set_numba_parallel(parallel: bool = True, num_threads: int | None = None) -> None:
    """Choose whether the operators of BrainEvent compile their Numba kernels with `parallel=True`.

    Kernels that are compiled already stay what they are. `num_threads` is how many threads each
    parallel kernel uses from its next call on (`kernbridge.config.set_numba_num_threads`), and
    functions of Numba that this thread calls itself (`numba.set_num_threads`). If Numba does not
    have so many, it is a TypeError or ValueError, and nothing is changed.
    """
    global _parallel
    if num_threads is not None:
        import numba

        set_numba_num_threads(num_threads)
        numba.set_num_threads(num_threads)
    _parallel = bool(parallel)


def get_numba_parallel() -> bool:
    """Return what `set_numba_parallel` chose; False by default."""
    return _parallel
