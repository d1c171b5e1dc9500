"""Empty virtual environments, and what runs in them as on the machine of a new user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

import documents  # noqa: E402

# uv installs in a fifth of pip's time; lines that documents print are run with pip all the same.
UV = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}") or "uv"
# How packages are reached here; a program sees none of it.
_INDEX = ("PIP_", "UV_", "SSL_", "HTTP", "http", "NO_PROXY", "no_proxy")


class Failed(Exception):
    """A command failed, or printed what it should not."""


class Environment:
    """A virtual environment with nothing but pip, and an empty home."""

    def __init__(self, folder: Path, python: str) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self.bin = folder / "venv" / "bin"
        run([python, "-m", "venv", str(folder / "venv")])

    def install(self, *requirements: str) -> None:
        """Install with uv, and check that what is installed agrees."""
        python = ["--python", str(self.bin / "python")]
        self.shell([UV, "pip", "install", "--quiet", *python, *requirements])
        self.check()

    def check(self) -> None:
        """Raise Failed if installed packages do not agree."""
        self.shell([UV, "pip", "check", "--python", str(self.bin / "python")])

    def shell(self, command: list[str], cwd: Path | None = None, **variables: str) -> str:
        """Run a command that may use the index, and return what it prints."""
        index = {k: v for k, v in os.environ.items() if k.startswith(_INDEX)}
        cache = {"PIP_CACHE_DIR": _cache("pip"), "UV_CACHE_DIR": _cache("uv")}
        return run(command, {**self._clean(), **cache, **index, **variables}, cwd or self.home)

    def python(self, *arguments: str) -> str:
        """Run the environment's Python with an environment that has PATH and HOME alone."""
        return run([str(self.bin / "python"), *arguments], self._clean(), self.home)

    def page(self, page: Path, end: str = "") -> None:
        """Run the code of a document, up to a heading, and compare what it prints and shows."""
        text = page.read_text()
        if end not in text:
            raise Failed(f"{page}: there is no {end}")
        blocks = documents.blocks(text.partition(end)[0] if end else text)
        program = self.home / "program.py"
        program.write_text(documents.program(blocks))
        found = documents.differences(blocks, self.python(str(program)))
        if not blocks or found:
            raise Failed(f"{page}: no code" if not blocks else "\n".join(found))

    def _clean(self) -> dict[str, str]:
        return {"PATH": f"{self.bin}:/usr/local/bin:/usr/bin:/bin", "HOME": str(self.home)}


def _cache(of: str) -> str:
    return str(Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / of)


def run(command: list[str], environment: dict[str, str] | None = None, cwd: Path = ROOT) -> str:
    """Run a command and return what it prints; Failed, with what it printed, if it fails."""
    done = subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)}\n{done.stdout[-3000:]}{done.stderr[-6000:]}")
    return done.stdout


def clone(folder: Path) -> Path:
    """Copy what git tracks, or would track, as it is now: what a user gets who clones."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    for name in run(listed).splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def pythons() -> dict[str, str]:
    """Return each CPython from 3.11 on that PATH or pyenv's folder has, by its minor version."""
    found = {}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for minor in range(11, 20):
        places = [
            f"python3.{minor}",
            *sorted(map(str, pyenv.glob(f"versions/3.{minor}.*/bin/python"))),
        ]
        for place in places:
            path = shutil.which(place)
            # pyenv's shims are on PATH for versions that are not chosen, too.
            asked = "import sys, venv, ensurepip; print(sys.version_info.minor)"
            if path and _prints([path, "-c", asked]) == str(minor):
                found[f"3.{minor}"] = path
                break
    return found


def _prints(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()
