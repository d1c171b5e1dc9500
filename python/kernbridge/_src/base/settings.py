"""What `kernbridge.config` holds for the process, where every package can read it."""

from __future__ import annotations

import os

Architecture = tuple[int, int, str]  # major, minor, suffix

ALLOW_IMPORTS = "KERNBRIDGE_ALLOW_IMPORTS"

architectures: tuple[Architecture, ...] | None = None  # to compile for; None: those of the machine
prefer_system_nvcc: bool | None = None  # None: the choice of the environment
cuda_on_cpu = "compile"  # or "error"
allowed_imports: tuple[str, ...] = ()


def may_import(module: str) -> bool:
    """Return whether a loaded program may import a module; see `config.allow_imports`."""
    named = (name.strip() for name in os.environ.get(ALLOW_IMPORTS, "").split(","))
    return any(
        name in ("*", module) or module.startswith(f"{name}.")
        for name in (*allowed_imports, *named)
        if name
    )
