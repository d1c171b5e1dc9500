"""In the place of packages that Numba-CUDA's tests import, for what is none of kernels on CPUs."""

from __future__ import annotations

import importlib.util
import sys
import types
import unittest
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

OUT_OF_SCOPE = "on a GPU: "
"""How the reason begins for which a test ends here that is none of kernels on CPUs."""


def reads(construct: str) -> Any:
    """A function that ends the test that calls it."""

    def end(*_: Any, **__: Any) -> Any:
        raise unittest.SkipTest(OUT_OF_SCOPE + construct)

    return end


def install() -> None:
    """For the life of the process."""
    sys.modules["cupy"] = None  # its arrays are a GPU's: tests go without, as where it is missing
    if importlib.util.find_spec("filecheck") is None:
        _add("filecheck")
        _add("filecheck.finput", FInput=reads("compiled text"))
        _add("filecheck.matcher", Matcher=reads("compiled text"))
        _add("filecheck.options", Options=reads("compiled text"))
        _add(
            "filecheck.parser",
            Parser=reads("compiled text"),
            pattern_for_opts=reads("compiled text"),
        )


@contextmanager
def for_imports() -> Iterator[None]:
    """While a module of tests is imported: some make an FFI of cffi at once, for one test."""
    import numba.core.typing.cffi_utils  # which look for it once
    import numba.cuda.typing.cffi_utils  # noqa: F401

    missing = importlib.util.find_spec("cffi") is None
    if missing:
        _add("cffi", FFI=_ForeignFunctions)
    try:
        yield
    finally:
        if missing:  # which Numba must not find
            del sys.modules["cffi"]


class _ForeignFunctions:
    """cffi's FFI, used by tests that link CUDA C++."""

    cdef = from_buffer = reads("CUDA C++ by cffi")


def _add(name: str, **attributes: Any) -> None:
    module = types.ModuleType(name)
    vars(module).update(attributes)
    sys.modules[name] = module
