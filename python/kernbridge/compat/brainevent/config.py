"""Settings, as programs that were written for BrainEvent know them."""

from kernbridge.config import add_include_path as add_include_path
from kernbridge.config import clear_backends as clear_backends
from kernbridge.config import get_backend as get_backend
from kernbridge.config import get_compute_capability as get_compute_capability
from kernbridge.config import get_include_paths as get_include_paths
from kernbridge.config import get_numba_num_threads as get_numba_num_threads
from kernbridge.config import prefer_system_nvcc as prefer_system_nvcc
from kernbridge.config import set_backend as set_backend
from kernbridge.config import set_compute_capability as set_compute_capability
from kernbridge.config import set_numba_num_threads as _set_numba_num_threads

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

        _set_numba_num_threads(num_threads)
        numba.set_num_threads(num_threads)
    _parallel = bool(parallel)


def get_numba_parallel() -> bool:
    """Return what `set_numba_parallel` chose; False by default."""
    return _parallel


__all__ = [name for name in dir() if name[0] != "_"]
