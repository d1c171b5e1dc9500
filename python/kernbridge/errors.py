"""The exceptions and the warning that kernbridge raises.

Every exception derives from `KernbridgeError`. Those about kernels derive from `KernelError`:
`KernelToolchainError` where a tool is missing, `KernelCompilationError` where a compiler refuses a
kernel, `KernelLoadError`, `KernelRegistrationError` and `KernelNotAvailableError` where a compiled
kernel cannot be used. What a kernel does wrong while it runs is reported by JAX, as
`jax.errors.JaxRuntimeError`.

Examples
--------
>>> import kernbridge
>>> issubclass(kernbridge.errors.NvccNotFoundError, kernbridge.errors.KernelToolchainError)
True
"""

from kernbridge._src.base.errors import *  # noqa: F403
from kernbridge._src.base.errors import __all__ as __all__
