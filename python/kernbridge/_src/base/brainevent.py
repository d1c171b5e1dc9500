"""Exceptions that BrainEvent defines and kernbridge never raises, for programs that catch them."""

from __future__ import annotations

from kernbridge._src.base.errors import (
    BrainEventError,
    KernbridgeError,
    KernelError,
    KernelToolchainError,
)

__all__ = [
    "BrainEventError",
    "CUDANotInstalledError",
    "GpuArchDetectionError",
    "KernelExecutionError",
    "MathError",
    "UnsupportedOperationError",
]


class MathError(KernbridgeError):
    """A mathematical operation got operands that it has no meaning for."""


class UnsupportedOperationError(KernbridgeError):
    """An operation is not supported for these operands."""


class KernelExecutionError(KernelError):
    """A kernel failed while it ran."""


class CUDANotInstalledError(KernelError):
    """Something needs CUDA, and there is none."""


class GpuArchDetectionError(KernelToolchainError):
    """The GPUs to compile for could not be found out."""


for _class in __all__:
    globals()[_class].__module__ = "kernbridge"
