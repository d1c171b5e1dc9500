"""The description of a build, and its result."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from kernbridge._src.toolchain.architectures import Architecture


class Request(NamedTuple):
    """What to build."""

    name: str  # of the module
    language: str  # "c", "c++" or "cuda"
    source: str  # the whole translation unit, with #line directives of its own
    spec: str  # whatever else the library stands for: another text is another library
    cflags: tuple[str, ...] = ()  # the user's, which come last
    ldflags: tuple[str, ...] = ()
    include_paths: tuple[str, ...] = ()  # the user's, in order
    own_include_paths: tuple[str, ...] = ()  # ours: what is in them counts, not where they are
    architectures: tuple[Architecture, ...] = ()  # of GPUs; empty: all that nvcc supports
    optimization_level: int | None = 3  # as in -O3; None leaves it to the compiler
    fast_math: bool = False  # whether arithmetic may be less exact
    build_directory: str | None = None  # a folder that gets a copy of the library
    verbose: bool = False  # whether to print the command and the compiler's output
    force_rebuild: bool = False  # whether to build even what is there


class Built(NamedTuple):
    """A shared library."""

    path: Path
    digest: str  # of all that it was built from, headers and compilers included, in hexadecimal
    sha: str  # of the library itself
    command: tuple[str, ...]  # of the compiler, with the names of files for their paths
    built: bool  # whether this call built it
