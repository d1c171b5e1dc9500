"""What is to be built, and what was."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from kernbridge._src.toolchain.architectures import Architecture


class Request(NamedTuple):
    """What to build.

    Attributes
    ----------
    name : str
        Of the module.
    language : str
        "c", "c++" or "cuda".
    source : str
        The whole translation unit, with #line directives of its own.
    spec : str
        Whatever else the library stands for: another text is another library.
    cflags, ldflags : tuple of str
        The user's flags of the compiler and of the linker; they come last.
    include_paths : tuple of str
        The user's, in order.
    own_include_paths : tuple of str
        Ours: what is in them counts, not where they are.
    architectures : tuple of (int, int, str)
        Of GPUs, as `cuda_architectures` returns them; empty: all that nvcc knows.
    optimization_level : int or None
        As in -O3; None leaves it to the compiler.
    fast_math : bool
        Whether arithmetic may be less exact.
    build_directory : str or None
        A folder that gets a copy of the library.
    verbose : bool
        Whether to print the command and the compiler's output.
    force_rebuild : bool
        Whether to build even what is there.
    """

    name: str
    language: str
    source: str
    spec: str
    cflags: tuple[str, ...] = ()
    ldflags: tuple[str, ...] = ()
    include_paths: tuple[str, ...] = ()
    own_include_paths: tuple[str, ...] = ()
    architectures: tuple[Architecture, ...] = ()
    optimization_level: int | None = 3
    fast_math: bool = False
    build_directory: str | None = None
    verbose: bool = False
    force_rebuild: bool = False


class Built(NamedTuple):
    """A shared library.

    Attributes
    ----------
    path : Path
        Where it is.
    digest : str
        Of all that it was built from, headers and compilers included: 64 hexadecimal digits.
    built : bool
        Whether this call built it.
    """

    path: Path
    digest: str
    built: bool
