#!/usr/bin/env python3
"""Runs every line `pip install ...` of the README and the documents, as it is printed.

    install_lines.py FOLDER              runs each in an empty environment (make test-dist)
    install_lines.py --resolve WHEEL     only asks what each would install, with uv (make check)
    install_lines.py                     prints them

FOLDER holds the built wheel. A line such as `pip install ".[numba]"`, which is for a clone, takes
the wheel from there; that of the README also runs in a copy of the tree. Lines that install the
CUDA toolkit, several GB, are only resolved.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import tempfile
import time
from pathlib import Path

from environments import ROOT, UV, Environment, Failed, clone, run

# In a block, to the end of the line or a comment; in a sentence, to the closing backquote.
_LINE = re.compile(r"(?:^(?: {4}|[ -]+run: )|`)pip install ([^`\n]+?)(?= *(?:`|$|#|&&))", re.M)
_CLONE = re.compile(r"^\.(?:/kernbridge)?(\[[\w,-]+\])?$")
LARGE = re.compile(r"\[(cuda12|cuda13|cu12|cu13)\]|nvidia-(?!cuda-runtime)")


def in_text(text: str) -> list[str]:
    """Return the arguments of each line of a document."""
    return [found for found in _LINE.findall(text) if found != "..."]


def lines() -> dict[str, str]:
    """Return the arguments of each line, and the first document that has it."""
    found: dict[str, str] = {}
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for arguments in in_text(page.read_text()):
            found.setdefault(arguments, page.name)
            if "cuda13" in arguments:  # the documents say "or cuda12"
                found.setdefault(arguments.replace("cuda13", "cuda12"), page.name)
    return found


def of_wheel(arguments: str, wheel: Path) -> list[str]:
    """Return the requirements of a line, with a wheel in the place of a clone."""
    return [
        f"kernbridge{found[1] or ''} @ file://{wheel}" if (found := _CLONE.match(part)) else part
        for part in shlex.split(arguments)
    ]


def resolve(wheel: Path) -> None:
    """Ask what each line would install on this Python."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["--quiet", "--dry-run", "--target", folder, "--find-links", str(wheel.parent)]
        for arguments in lines():
            command = [UV, "pip", "install", "--python", sys.executable, *options]
            run([*command, *of_wheel(arguments, wheel)])


def install(arguments: str, wheel: Path, cwd: Path | None = None) -> None:
    """Run a line with pip, and import kernbridge if it was installed."""
    with tempfile.TemporaryDirectory() as folder:
        environment = Environment(Path(folder, "empty"), sys.executable)
        printed = f"pip install {arguments}"
        if cwd is None:
            printed = shlex.join(["pip", "install", *of_wheel(arguments, wheel)])
        dry = bool(LARGE.search(arguments))
        local = {"PIP_FIND_LINKS": f"{wheel.parent} {os.environ.get('PIP_FIND_LINKS', '')}"}
        command = f"{printed} --quiet" + " --dry-run" * dry
        environment.shell(["bash", "-c", command], cwd=cwd, **local)
        environment.check()
        if "kernbridge" in printed and not dry:
            environment.python("-m", "kernbridge", "doctor")


def run_lines(wheel: Path) -> int:
    """Run each line, and return how many failed."""
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = clone(Path(folder, "kernbridge"))
        found = lines()
        in_clone = next(arguments for arguments, page in found.items() if page == "README.md")
        for arguments, cwd in [(in_clone, tree), *((arguments, None) for arguments in found)]:
            what = f"{found[arguments]}: pip install {arguments}" + " (in a clone)" * bool(cwd)
            start = time.monotonic()
            try:
                install(arguments, wheel, cwd)
            except Failed as error:
                failed += 1
                print(f"FAILED: {what}\n{error}", flush=True)
            else:
                how = "resolved" if LARGE.search(arguments) else "passed"
                print(f"{how}: {what} ({time.monotonic() - start:.0f} s)", flush=True)
    return failed


def main() -> None:
    """Do what the first argument asks."""
    match sys.argv[1:]:
        case []:
            for arguments, page in lines().items():
                print(f"{page}: pip install {arguments}")
        case ["--resolve", _] if shutil.which(UV) is None:
            print("skipped: what the documents install is not resolved, because uv is missing")
        case ["--resolve", wheel]:
            try:
                resolve(Path(wheel).resolve())
            except Failed as error:
                sys.exit(str(error))
        case [folder]:
            (wheel,) = Path(folder).resolve().glob("*.whl")
            failed = run_lines(wheel)
            sys.exit(f"{failed} failed" if failed else 0)


if __name__ == "__main__":
    main()
