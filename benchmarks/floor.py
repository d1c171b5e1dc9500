"""What nothing can be faster than: an empty handler written in C."""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

HERE = Path(__file__).parent


def register(platform: str = "cpu") -> None:
    """Compile the empty handler and register it as the target "floor"."""
    folder = tempfile.mkdtemp(prefix="kernbridge-floor-")
    library = Path(folder) / "floor.so"
    source, include = HERE / "empty_handler.c", HERE.parent / "src"
    command = [os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", f"-I{include}"]
    subprocess.run([*command, str(source), "-o", str(library)], check=True)
    handler = ctypes.CDLL(str(library)).empty_handler
    jax.ffi.register_ffi_target("floor", jax.ffi.pycapsule(handler), platform=platform)


def call(outs: Any) -> Callable[..., Any]:
    """A function of any inputs that calls the empty handler and gives unwritten `outs`."""
    return jax.ffi.ffi_call("floor", outs)
