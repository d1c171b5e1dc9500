"""kernbridge: kernels that you wrote, as JAX operations.

The kernel works on XLA's buffers in place. Nothing is copied, and no Python runs when the operation
runs.
"""

from kernbridge._errors import (
    KernbridgeError,
    KernbridgeWarning,
    KernelCompilationError,
    KernelError,
    KernelNotAvailableError,
)
from kernbridge._numba_cpu import numba_kernel
from kernbridge._numba_cuda import numba_cuda_kernel
from kernbridge._numba_cuda_callable import numba_cuda_callable
from kernbridge._operation import Operation

__version__ = "0.1.0.dev0"

__all__ = [
    "KernbridgeError",
    "KernbridgeWarning",
    "KernelCompilationError",
    "KernelError",
    "KernelNotAvailableError",
    "Operation",
    "__version__",
    "numba_cuda_callable",
    "numba_cuda_kernel",
    "numba_kernel",
]
