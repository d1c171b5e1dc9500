"""The names of numba-cuda-mlir, the successor of Numba-CUDA, that kernbridge uses and replaces.

Only the dialect and the hooks of launches import them, and only where a program has imported
numba-cuda-mlir, which loads MLIR. Its driver, devices and arrays are copies of Numba-CUDA's, under
names of its own.
"""

from typing import Any

import numba_cuda_mlir.cuda as cuda
import numba_cuda_mlir.numba_cuda as numba_cuda
from numba_cuda_mlir import descriptor, mlir_compiler, mlir_optimization, optimization, tools, types
from numba_cuda_mlir._mlir.passmanager import PassManager
from numba_cuda_mlir.lowering_utilities.context import get_context
from numba_cuda_mlir.numba_cuda import api as api_module
from numba_cuda_mlir.numba_cuda import types as numba_types
from numba_cuda_mlir.numba_cuda.args import In, Out
from numba_cuda_mlir.numba_cuda.core import sigutils
from numba_cuda_mlir.numba_cuda.core.compiler_lock import global_compiler_lock
from numba_cuda_mlir.numba_cuda.cudadrv import devicearray, devices, driver, nvvm, runtime
from numba_cuda_mlir.numba_cuda.np import numpy_support
from numba_cuda_mlir.numba_cuda.typing.typeof import typeof

from kernbridge._src.base import versions

versions.warn_of_untested("numba-cuda-mlir")

Omitted = numba_types.Omitted


def api(make: Any) -> Any:
    """The package's API, made by the class `HostApi` of numba_cuda/callback.py."""
    kernels, configured = descriptor.MLIRDispatcher, descriptor._ArgMarshaller
    modules, arrays = (cuda, numba_cuda, api_module), devicearray.DeviceNDArrayBase
    return make(modules, kernels, configured, driver, arrays)
