"""The exceptions and the warning that kernbridge raises.

Every exception derives from `KernbridgeError`. Exceptions about kernels derive from `KernelError`:
`KernelToolchainError` if a tool is missing, `KernelCompilationError` if a compiler refuses a
kernel, and `KernelLoadError`, `KernelRegistrationError` and `KernelNotAvailableError` if a compiled
kernel cannot be used. JAX reports the errors of a running kernel as `jax.errors.JaxRuntimeError`
or, from version 0.12 on, as `ValueError`: catch both.

Examples
--------
>>> import kernbridge
>>> issubclass(kernbridge.errors.NvccNotFoundError, kernbridge.errors.KernelToolchainError)
True
"""

from kernbridge._src.base.errors import *  # noqa: F403
from kernbridge._src.base.errors import __all__ as __all__
