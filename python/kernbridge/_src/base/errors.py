"""Exceptions and warnings of kernbridge; `kernbridge.errors` is their public name."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from typing import Any

from kernbridge._src.base import debug
from kernbridge._src.base.compiler_text import shorten

MOST_LINES = 24  # of a refused source's message, so that it fits on a screen with its traceback
_CODE = re.compile(r" \[(KB\d{4})\]")
_COLOUR = re.compile(r"\x1b\[[\d;]*m")  # of Numba's messages where colorama is installed
_WAY = "`kernbridge explain KB"
_cause: Any = BaseException.__cause__  # a descriptor


def coded(text: str, code: str) -> str:
    """Return a message with the code of its page at the end of the first line.

    A message that says what another one said, which has a code, keeps that one's.
    """
    first, separator, rest = text.partition("\n")
    return text if "[KB" in first else f"{first} [{code}]{separator}{rest}"


def way_to(text: str) -> str:
    """The line that says where the code of a message is explained, unless the message has it."""
    found = _CODE.search(text)
    return f"`kernbridge explain {found[1]}` says more." if found and _WAY not in text else ""


def show_way(error: BaseException) -> None:
    """Let the traceback of an error end with the way to what explains its code."""
    add_notes(error, way_to(str(*error.args[:1])))


def add_notes(error: BaseException, *lines: str) -> None:
    """Let the traceback of an error end with these lines, each of them once."""
    for line in lines:
        if line and line not in getattr(error, "__notes__", ()):
            error.add_note(line)


def without_code(text: str) -> str:
    """Return a message that another one with a code quotes, without colours."""
    return _CODE.sub("", _COLOUR.sub("", text))


def counted(n: int, name: str) -> str:
    """Return "1 input" or "2 inputs" for the name "input"."""
    return f"{n} {name}" if n == 1 else f"{n} {name}s"


_SHORT = {"bfloat": "bf", "float": "f", "uint": "u", "int": "i", "complex": "c"}


def short(dtype: str) -> str:
    """A dtype's name as jaxprs print it, such as "f32" for "float32"."""
    for name, letters in _SHORT.items():
        if dtype.startswith(name):
            return letters + dtype[len(name) :]
    return dtype


def typed(dtype: Any, dims: Iterable[Any]) -> str:
    """The type of an array as jaxprs print it, such as "f32[3]"."""
    return f"{short(getattr(dtype, 'name', str(dtype)))}[{','.join(map(str, dims))}]"


def quoted(error: BaseException) -> str:
    """Return an error's type and text, as another message quotes them.

    A message of kernbridge's own is quoted by its first sentence, without its code and remedy.
    """
    first = str(error).partition("\n")[0]
    if _CODE.search(first):
        return without_code(first).partition(". ")[0]
    return f"{type(error).__name__}: {error}"


def unknown_name(given: Iterable[str], known: Container[str]) -> str:
    """What is wrong with the first of these keywords that is not known; empty if all are."""
    unknown = next((name for name in given if name not in known), None)
    return f"it has no input {unknown!r}" if unknown else ""


def defect(text: str) -> str:
    """Return a message about what no mistake of a user's leads to."""
    return (
        f"{text}. This is a bug in kernbridge: please report it with a program that reproduces it"
    )


class BrainEventError(Exception):
    """The base of `KernbridgeError`, for programs that catch BrainEvent's exceptions."""


class KernbridgeError(BrainEventError):
    """The base of every exception that kernbridge defines.

    When JAX compiles a function, it chains another exception in front of the operation's error,
    which shows where the operation was called and repeats the error's text. Here, the text is shown
    only once.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        show_way(self)

    @property
    def __cause__(self) -> BaseException | None:
        return _cause.__get__(self)

    @__cause__.setter
    def __cause__(self, cause: BaseException | None) -> None:
        if cause is not None and type(cause).__name__ == "JaxStackTraceBeforeTransformation":
            cause.args = ("The operation that failed was called at this line.",)
        _cause.__set__(self, cause)


class UnknownVersionError(KernbridgeError):
    """A package that kernbridge builds on lacks a name that it needs."""


class BenchmarkDataFnNotProvidedError(KernbridgeError):
    """An operation without a function that makes its data cannot be benchmarked."""


class NoDerivativeError(KernbridgeError, NotImplementedError):
    """An operation has no derivative, or none in the mode that was asked for."""


class DerivativeRuleError(KernbridgeError, TypeError, ValueError):
    """A derivative rule returned something that is no derivative."""


class ExportError(KernbridgeError, ValueError):
    """A program cannot run where it was to be exported to."""


class KernelError(KernbridgeError):
    """A kernel could not be used."""


class KernelNotAvailableError(KernelError, NotImplementedError):
    """An operation has no kernel for the platform that it was lowered for."""


class KernelFallbackExhaustedError(KernelError):
    """Every kernel that could have served an operation failed."""


class KernelFaultError(KernelError, RuntimeError):
    """A CUDA kernel that was launched on the CPU made a fault, such as a write out of bounds."""


class KernelLoadError(KernelError):
    """A compiled library could not be loaded, or lacks a function."""


class KernelRegistrationError(KernelError):
    """A name is taken by a kernel of another content."""


class KernelCompilationError(KernelError):
    """A kernel's compiler refused it. What the compiler raised is `__context__`."""


class _CompilerReport(Exception):
    """What a compiler wrote, which the exceptions that carry it print in part."""

    def __init__(
        self,
        message: str,
        compiler_output: str = "",
        command: str = "",
        stage: str = "compile",
        source: str = "",
    ) -> None:
        super().__init__(message)
        self.compiler_output = compiler_output
        self.command = command
        self.stage = stage
        self._source = source

    def __str__(self) -> str:
        text = str(self.args[0])
        if self.command:
            text += f"\n\nCommand:\n  {self.command}"
        if not self.compiler_output.strip():
            return text
        text += "\n\nCompiler output:"
        if debug.is_full():
            return "\n".join([text, self.compiler_output.strip("\n")])
        room = max(MOST_LINES - len(text.splitlines()), 4)
        return "\n".join([text, *shorten(self.compiler_output, room, self._source)])


class CompilationError(_CompilerReport, KernelCompilationError):
    """A C, C++ or CUDA compiler refused a source, or a limit stopped it.

    `compiler_output` is all that the compiler wrote, and `command` its command line. `stage` is
    "compile", or "timeout" if a limit of time, memory or output stopped the compiler. The lines of
    errors are shown out of `source`, the text that was compiled.

    Examples
    --------
    >>> from kernbridge.errors import CompilationError
    >>> print(CompilationError("f: refused", "f.c:1: error: no", "cc f.c"))
    f: refused
    <BLANKLINE>
    Command:
      cc f.c
    <BLANKLINE>
    Compiler output:
    f.c:1: error: no
    """


class HostCompilerIncompatibleError(CompilationError):
    """nvcc does not work with this C++ compiler."""


class KernelToolchainError(KernelError):
    """A tool that a build needs is missing or does not fit."""


class NvccNotFoundError(KernelToolchainError):
    """No CUDA compiler was found."""


class HostCompilerNotFoundError(KernelToolchainError):
    """No C or C++ compiler was found."""


class HeaderNotFoundError(KernelToolchainError):
    """Headers that a build needs were not found."""


class UnsupportedArchError(_CompilerReport, KernelToolchainError):
    """A GPU architecture that the CUDA compiler cannot compile for.

    Its text is the message alone; `compiler_output` has what the compiler wrote, if one was run.
    """

    def __init__(
        self, message: str, compiler_output: str = "", command: str = "", stage: str = ""
    ) -> None:
        super().__init__(message, compiler_output, command, stage)

    def __str__(self) -> str:
        return str(self.args[0])


class KernbridgeWarning(UserWarning):
    """Code that works, but perhaps not as its author expects."""


_OF_OURS = (KernbridgeError, KernbridgeWarning)
__all__ = [n for n, c in vars().items() if isinstance(c, type) and issubclass(c, _OF_OURS)]

# BrainEvent's exceptions that kernbridge never raises, for programs that catch them.


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


for _class in [c for c in vars().values() if isinstance(c, type)]:  # as users import them
    if _class.__module__ == __name__:  # imported classes keep their module
        _class.__module__ = "kernbridge"

__test__ = {"CompilationError": CompilationError}  # whose __module__ is `kernbridge`
