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

from kernbridge._src.base.errors import (
    BenchmarkDataFnNotProvidedError,
    CompilationError,
    HeaderNotFoundError,
    HostCompilerIncompatibleError,
    HostCompilerNotFoundError,
    KernbridgeError,
    KernbridgeWarning,
    KernelCompilationError,
    KernelError,
    KernelFallbackExhaustedError,
    KernelLoadError,
    KernelNotAvailableError,
    KernelRegistrationError,
    KernelToolchainError,
    NvccNotFoundError,
    UnknownVersionError,
    UnsupportedArchError,
)

__all__ = [
    "BenchmarkDataFnNotProvidedError",
    "CompilationError",
    "HeaderNotFoundError",
    "HostCompilerIncompatibleError",
    "HostCompilerNotFoundError",
    "KernbridgeError",
    "KernbridgeWarning",
    "KernelCompilationError",
    "KernelError",
    "KernelFallbackExhaustedError",
    "KernelLoadError",
    "KernelNotAvailableError",
    "KernelRegistrationError",
    "KernelToolchainError",
    "NvccNotFoundError",
    "UnknownVersionError",
    "UnsupportedArchError",
]
