"""Compares the lines of each room with its ceiling, and writes CONTRIBUTING's table of packages.

    python tests/rooms.py            # prints the table; status 1 if something does not hold
    python tests/rooms.py --write    # writes the table of packages

An entry of `[tool.kernbridge.ceilings]` in pyproject.toml is a folder, and the most lines that the
text files below it may have together. Every folder of `src` and of `python/kernbridge/_src` needs
one. A commit that raises a ceiling says why in its message. The table of packages has the order of
import-linter's contract and the first sentence of each package's docstring.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = "python/kernbridge/_src"
TEXT = {".c", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".ll", ".md", ".py"}
BEGIN, END = "<!-- packages, by tests/rooms.py -->\n", "<!-- end -->\n"


def lines_by_file() -> dict[str, int]:
    """The lines of each text file that git tracks."""
    command = ["git", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    names = [n for n in listed.stdout.split("\0") if Path(n).suffix in TEXT]
    return {n: (ROOT / n).read_bytes().count(b"\n") for n in names if (ROOT / n).is_file()}


def above_their_ceilings(ceilings: dict[str, int]) -> list[str]:
    """Print each room with its lines; returns what does not hold."""
    lines, wrong = lines_by_file(), []
    print(f"{'room':36} {'lines':>8} {'ceiling':>8}")
    for room, ceiling in ceilings.items():
        count = sum(n for name, n in lines.items() if name.startswith(f"{room}/"))
        print(f"{room:36} {count:8,} {ceiling:8,}")
        if count > ceiling:
            wrong.append(f"{room} has {count - ceiling:,} lines too many: delete or inline some")
    for parent in ("src", PACKAGES):
        rooms = {"/".join(Path(n).parts[: parent.count("/") + 2]) for n in lines if n.startswith(f"{parent}/")}
        wrong += [
            f"{room} has no ceiling in pyproject.toml"
            for room in sorted(rooms)
            if (ROOT / room).is_dir() and room not in ceilings
        ]
    return wrong


def table_of_packages(contract: list[str]) -> str:
    """The packages of `_src` from the highest to the lowest; equals share a row of the contract."""
    rows = ["| package | duty |", "|---|---|"]
    for layer in contract:
        names = [n.strip().removeprefix("kernbridge._src.") for n in layer.split("|")]
        packages = [n for n in names if (ROOT / PACKAGES / n / "__init__.py").is_file()]
        for name in packages:
            tree = ast.parse((ROOT / PACKAGES / name / "__init__.py").read_text())
            sentence = (ast.get_docstring(tree) or "").split("\n\n")[0].replace("\n", " ")
            rows.append(f"| `{name}` | {sentence} |")
    return "\n".join(rows) + "\n"


def main() -> int:
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    wrong = above_their_ceilings(tool["kernbridge"]["ceilings"])
    page = ROOT / "CONTRIBUTING.md"
    before, _, rest = page.read_text().partition(BEGIN)
    table, _, after = rest.partition(END)
    new = table_of_packages(tool["importlinter"]["contracts"][0]["layers"])
    if "--write" in sys.argv[1:]:
        page.write_text(f"{before}{BEGIN}{new}{END}{after}")
    elif table != new:
        wrong.append("CONTRIBUTING.md: run `python tests/rooms.py --write`")
    print(*wrong, sep="\n", file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
