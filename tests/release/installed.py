#!/usr/bin/env python3
"""Installs the built wheel in empty environments, and runs what a new user would run there.

    installed.py FOLDER [PYTHON...]    the folder that has wheel and sdist; which Pythons to use

Each extra but those with the CUDA toolkit is installed in an environment of its own, on each
CPython from 3.11 on that is found. The code of the documents runs there, without other environment
variables and with an empty home, and its output is compared with what they show. The sdist is
installed once, and so is each pytest, without its plugins. `make demo` runs in a copy of the tree.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from environments import ROOT, Environment, Failed, clone, pythons

# What is installed, and the documents whose code needs no more than that.
PAGES = {
    "": ("source-kernels.md",),
    "[numba]": ("../README.md", "index.md", "start.md", "numba-kernels.md", "custom-kernels.md"),
    "[cuda]": ("start.md", "cuda-on-cpu.md", "numba-cuda-kernels.md"),
    "[bench]": ("benchmarking.md",),
}
ENDS = {("[numba]", "start.md"): "## The same in CUDA"}  # where a page asks for another extra
NEWEST = 14  # the newest minor version of CPython for which jaxlib has wheels
PYTESTS = ("7", "8", "9")
SUITE = """
from kernbridge.errors import KernelFaultError
from numba import cuda
import numpy as np
import pytest


@cuda.jit
def shifted(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i + 1] = x[i]


def test_shifted():
    x = np.arange(8.0)
    shifted[1, 8](x, np.zeros(9))
    with pytest.raises(KernelFaultError, match="thread"):
        shifted[1, 8](x, np.zeros_like(x))
"""
failures = 0


def attempt(what: str, action: Callable[[Environment], None], python: str) -> None:
    """Do something in a new environment, and print how that went."""
    global failures
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        try:
            action(Environment(Path(folder, "empty"), python))
        except Failed as error:
            failures += 1
            print(f"FAILED: {what}\n{error}", flush=True)
        else:
            print(f"passed: {what} ({time.monotonic() - start:.0f} s)", flush=True)


def check_wheel(wheel: Path, extra: str) -> Callable[[Environment], None]:
    """Install the wheel with an extra, and run documents."""

    def action(environment: Environment) -> None:
        environment.install(f"kernbridge{extra} @ file://{wheel}")
        environment.python("-m", "kernbridge", "doctor")
        for page in PAGES[extra]:
            environment.page(ROOT / "docs" / page, ENDS.get((extra, page), ""))

    return action


def check_demo(wheel: Path) -> Callable[[Environment], None]:
    """Install the wheel with its examples' packages, and run two of these."""

    def action(environment: Environment) -> None:
        environment.install(f"kernbridge[demo] @ file://{wheel}")
        examples = ROOT / "examples"
        environment.python(str(examples / "first_kernel.py"))
        environment.python(str(examples / "coba.py"), "--seconds", "0.1", "--no-compare")

    return action


def check_sdist(sdist: Path) -> Callable[[Environment], None]:
    """Install the sdist, whose build requirements pip installs, and run the README."""

    def action(environment: Environment) -> None:
        pip = [str(environment.bin / "python"), "-m", "pip", "install", "--quiet"]
        environment.shell([*pip, f"kernbridge[numba] @ file://{sdist}"])
        environment.check()
        environment.page(ROOT / "README.md")

    return action


def check_pytest(wheel: Path, version: str) -> Callable[[Environment], None]:
    """Install the wheel beside pytest alone, and run a suite of CUDA tests on the CPU."""

    def action(environment: Environment) -> None:
        environment.install(f"kernbridge[cuda] @ file://{wheel}", f"pytest=={version}.*")
        (environment.home / "test_suite.py").write_text(SUITE)
        said = environment.python("-m", "pytest", "--cuda-on-cpu=check", "test_suite.py")
        expected = "CUDA kernels on the CPU: 1 ran (checked, 2 launches), 1 with a fault, 0 refused"
        if expected not in said:
            raise Failed(f"the summary is missing or wrong:\n{said}")

    return action


def make_demo(environment: Environment) -> None:
    """Run the README's first command in a copy of the tree."""
    tree = clone(environment.home / "kernbridge")
    environment.shell(["make", "demo", f"PYTHON={environment.bin / 'python'}"], cwd=tree)
    if not (tree / "coba_raster.png").is_file():
        raise Failed("make demo wrote no coba_raster.png")


def main() -> None:
    """Check the files of a folder."""
    folder = Path(sys.argv[1]).resolve()
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    used = {p: p for p in sys.argv[2:]} or pythons()
    for version, python in used.items():
        for extra in PAGES:
            attempt(f"{version}: kernbridge{extra}", check_wheel(wheel, extra), python)
        attempt(f"{version}: kernbridge[demo]", check_demo(wheel), python)
    version, python = min(used.items())
    for pytest in PYTESTS:
        attempt(f"{version}: pytest {pytest}", check_pytest(wheel, pytest), python)
    attempt(f"{version}: the sdist", check_sdist(sdist), python)
    attempt(f"{version}: make demo", make_demo, python)
    for minor in range(11, NEWEST + 1):
        if not sys.argv[2:] and f"3.{minor}" not in used:
            print(f"skipped: no CPython 3.{minor} was found")
    sys.exit(f"{failures} failed" if failures else 0)


if __name__ == "__main__":
    main()
