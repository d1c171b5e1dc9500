"""The names of the compiler of numba-cuda-mlir, the successor of Numba-CUDA, that kernbridge uses.

No other module imports them. Imported only when one of its kernels is compiled, since the package
loads MLIR.
"""

from numba_cuda_mlir import descriptor, mlir_compiler, mlir_optimization, optimization, tools, types
from numba_cuda_mlir._mlir.passmanager import PassManager
from numba_cuda_mlir.lowering_utilities.context import get_context
from numba_cuda_mlir.numba_cuda import types as numba_types
from numba_cuda_mlir.numba_cuda.core.compiler_lock import global_compiler_lock
from numba_cuda_mlir.numba_cuda.np import numpy_support
from numba_cuda_mlir.numba_cuda.typing.typeof import typeof

from kernbridge._src.base import versions

versions.warn_of_untested("numba-cuda-mlir")

Omitted = numba_types.Omitted
