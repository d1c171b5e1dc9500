"""What only this module imports: names of Numba that Numba does not promise to keep."""

from collections.abc import Iterable
from typing import Any

import numba
from numba import config, errors, types
from numba.core import callconv, cgutils, debuginfo, dispatcher, ir, lowering, serialize
from numba.core.caching import NullCache
from numba.core.compiler_lock import global_compiler_lock
from numba.core.cpu import CPUContext
from numba.core.datamodel.packer import _flatten as flattened
from numba.core.registry import CPUDispatcher
from numba.core.runtime import _nrt_python as runtime
from numba.core.target_extension import current_target
from numba.core.typing.templates import AbstractTemplate
from numba.np import arraymath, arrayobj, linalg, npyimpl
from numba.np.numpy_support import as_dtype
from numba.np.ufunc import wrappers
from numba.np.ufunc.gufunc import GUFunc
from numba.parfors import parfor_lowering

from kernbridge._src.base import versions

versions.warn_of_untested("Numba")


def linked(libraries: Iterable[Any]) -> set[Any]:
    """Code libraries, and the libraries that are linked into them."""
    found, left = set[Any](), [*libraries]
    while left:
        library = left.pop()
        if library not in found:
            found.add(library)
            left += library._linking_libraries
    return found
