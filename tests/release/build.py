#!/usr/bin/env python3
"""Builds the sdist, and from it the manylinux wheel, without network.

    build.py FOLDER    removes what is in FOLDER, and puts both files there

ARCHITECTURE=aarch64 builds the wheel of that processor with AARCH64_CC (aarch64-linux-gnu-gcc).
Runs in an environment that has tests/release/requirements.txt. The wheel is linked for the glibc
of PLATFORM (cmake/older_glibc.cmake); auditwheel checks that it needs no newer one, and names it.
Files are dated by the commit, or by SOURCE_DATE_EPOCH: the same commit gives the same bytes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ARCHITECTURE = os.environ.get("ARCHITECTURE") or "x86_64"
PLATFORM = f"manylinux_2_27_{ARCHITECTURE}"  # of jaxlib's wheels: a lower one would serve nobody


def output_of(*command: object, cwd: Path = ROOT) -> str:
    """Run a command and return what it prints; if it fails, print that and exit."""
    tools = str(Path(sys.executable).parent)
    environment = {
        "SOURCE_DATE_EPOCH": "315532800",  # 1980, the first year that a zip file knows
        **os.environ,
        "PATH": os.pathsep.join((tools, os.environ["PATH"])),
    }
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, cwd=cwd, env=environment
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def build(kind: str, source: Path, folder: Path, **settings: str) -> Path:
    """One file, built by the backend itself: no frontend, nothing is downloaded."""
    call = f"build_{kind}({str(folder)!r}, {settings!r})"
    output_of(
        sys.executable, "-c", f"from scikit_build_core import build; build.{call}", cwd=source
    )
    (made,) = folder.glob("*.tar.gz" if kind == "sdist" else "*.whl")
    return made


def main() -> None:
    """Build both files."""
    folder = Path(sys.argv[1]).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if "SOURCE_DATE_EPOCH" not in os.environ and (ROOT / ".git").exists():
        os.environ["SOURCE_DATE_EPOCH"] = output_of("git", "log", "-1", "--format=%ct").strip()
    sdist = build("sdist", ROOT, folder)
    with tempfile.TemporaryDirectory() as temporary:
        with tarfile.open(sdist) as archive:
            archive.extractall(temporary, filter="data")
        source = Path(temporary, sdist.name.removesuffix(".tar.gz"))
        built = Path(temporary, "built")
        defined = {"KB_OLDER_GLIBC": "ON"}
        if ARCHITECTURE != "x86_64":
            os.environ["_PYTHON_HOST_PLATFORM"] = f"linux-{ARCHITECTURE}"
            defined["CMAKE_SYSTEM_NAME"] = "Linux"
            defined["CMAKE_SYSTEM_PROCESSOR"] = ARCHITECTURE
            defined["CMAKE_C_COMPILER"] = os.environ.get("AARCH64_CC", "aarch64-linux-gnu-gcc")
        settings = {f"cmake.define.{name}": value for name, value in defined.items()}
        wheel = build("wheel", source, built, **settings)
        # "auto", since auditwheel takes the names of its own processor only.
        repair = ("repair", "--only-plat", "--plat", "auto", "--wheel-dir", folder, wheel)
        said = output_of(sys.executable, "-m", "auditwheel", *repair)
    if not list(folder.glob(f"*-{PLATFORM}.whl")):
        sys.exit(f"the wheel is not for {PLATFORM}: {said}")
    for file in sorted(folder.iterdir()):
        print(f"{file}: {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
