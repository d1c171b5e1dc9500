"""Translates the failures of compilers to errors for the user."""

from __future__ import annotations

import re
from typing import NoReturn

from kernbridge._src.base.errors import (
    CompilationError,
    HostCompilerIncompatibleError,
    UnsupportedArchError,
)
from kernbridge._src.toolchain.programs import Ended

_INCOMPATIBLE = re.compile(
    r"host_config\.h\b.*#\s*error\b.*-- unsupported \w+"
    r"|^nvcc fatal\s*: (?:Failed to preprocess host compiler properties"
    r"|Host compiler targets unsupported OS|Cannot find compiler)",
    re.MULTILINE,
)
_UNSUPPORTED_ARCH = re.compile(
    r"^(?:nvcc fatal\s*: (?:Unsupported gpu architecture|Unsupported NVVM architecture"
    r"|Value '[^']*' is not defined for option 'gpu-(?:architecture|code)')"
    r"|ptxas fatal\s*: Value '[^']*' is not defined for option 'gpu-name').*",
    re.MULTILINE,
)


def fail(what: str, tool: str, ended: Ended, output: str, command: str, source: str) -> NoReturn:
    """Raise what a failed run of a tool means; `output` is what people read of its output."""
    if ended.limit:
        raise CompilationError(
            f"{what}: compilation failed: {tool} {ended.limit}, or compile less at once: "
            "fewer templates and macros, fewer GPU architectures [KB4006]",
            output,
            command,
            "timeout",
        )
    if unsupported := _UNSUPPORTED_ARCH.search(output):
        raise UnsupportedArchError(
            f"{what}: this nvcc does not compile for a requested GPU architecture "
            f"({unsupported[0].strip()}); choose others with compute_capability=, "
            "kernbridge.config.set_compute_capability or KERNBRIDGE_COMPUTE_CAPABILITIES, or "
            "install another CUDA toolkit [KB4009]",
            compiler_output=output,
            command=command,
            stage="compile",
        )
    if _INCOMPATIBLE.search(output):
        raise HostCompilerIncompatibleError(
            f"{what}: compilation failed: nvcc does not work with this C++ compiler; choose "
            "another one with CXX, install a newer CUDA toolkit, or try "
            "KERNBRIDGE_ALLOW_UNSUPPORTED_COMPILER=1 [KB4010]",
            output,
            command,
            "host compiler",
        )
    status = ended.status
    how = f"killed by signal {-status}" if status < 0 else f"exit status {status}"
    raise CompilationError(
        f"{what}: compilation failed: {tool} ({how}) [KB4006]", output, command, source=source
    )
