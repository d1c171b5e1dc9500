"""Exceptions and warnings of kernbridge."""

from __future__ import annotations


class KernbridgeError(Exception):
    """Base of every exception that kernbridge defines."""


class KernelError(KernbridgeError):
    """A kernel could not be used."""


class KernelCompilationError(KernelError):
    """A kernel's compiler refused it; the compiler's own exception is the cause."""


class KernelNotAvailableError(KernelError, NotImplementedError):
    """An operation has no kernel for the platform that it was lowered for."""


class KernbridgeWarning(UserWarning):
    """Something works, but not as its author may expect."""
