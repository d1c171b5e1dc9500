"""The names of Numba-CUDA's code generation that checks of indices replace, looked up once.

Imported only when a kernel is compiled: these modules register functions for a tenth of a second,
which a kernel from the cache does not need.
"""

from __future__ import annotations

from kernbridge._src.base import versions
from kernbridge._src.numba_common.private_numba_cuda import cuda

NAMES = (
    "numba.cuda.cudaimpl._generic_array",
    "numba.cuda.cudaimpl.cgutils",
    "numba.cuda.cudaimpl.lower",
    "numba.cuda.cudaimpl.normalize_indices",
    "numba.cuda.cudaimpl.registry",
    "numba.cuda.core.imputils.Registry.lower_cast",
)

versions.look_up("Numba-CUDA", NAMES)

from numba.cuda import cudaimpl

__all__ = ["cuda", "cudaimpl"]
