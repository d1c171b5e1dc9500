"""The names of numba-cuda-mlir's host API that kernbridge replaces.

Imported only where a program has imported numba-cuda-mlir. The package's driver, devices and arrays
are copies of Numba-CUDA's, under names of its own.
"""

from typing import Any

import numba_cuda_mlir.cuda as cuda
import numba_cuda_mlir.numba_cuda as numba_cuda
from numba_cuda_mlir import descriptor
from numba_cuda_mlir.numba_cuda import api as api_module
from numba_cuda_mlir.numba_cuda.args import In, Out
from numba_cuda_mlir.numba_cuda.core import sigutils
from numba_cuda_mlir.numba_cuda.cudadrv import devicearray, devices, driver, nvvm, runtime


def api(make: Any) -> Any:
    """The package's API, made by the class `HostApi` of numba_cuda/callback.py."""
    kernels, configured = descriptor.MLIRDispatcher, descriptor._ArgMarshaller
    modules, arrays = (cuda, numba_cuda, api_module), devicearray.DeviceNDArrayBase
    return make(modules, kernels, configured, driver, arrays)
