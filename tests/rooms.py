"""Compares the lines of the core and of its extensions with their ceilings; draws the packages.

It also counts the private modules of kernbridge that the programs of `tests` name. Those of
`tests/stranger` stand for packages of other people, and name documented interfaces only.

    python tests/rooms.py            # prints the table; status 1 if something does not hold
    python tests/rooms.py --write    # lowers the ceilings, and draws the packages

`[tool.kernbridge.ceilings]` in pyproject.toml has the most lines that the text files of the core
may have together, and those of the extensions. After lines were deleted, `--write` lowers them to
what is left; nobody raises them. The picture of the packages in CONTRIBUTING.md has the layers of
import-linter's contract and the first paragraph of each package's docstring.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("python/kernbridge/_src", "python/kernbridge/_ext")
FOLDERS = ("python", "src", "include")
EXTENSIONS = ("python/kernbridge/_ext/", "python/kernbridge/compat/", "src/ext/", "include/ext/")
TEXT = {".c", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".ll", ".md", ".py"}
# What a package of someone else may import: records 10, 13 and 14 of docs/design describe these
# modules, so that their names stay. The limit for tests does not count them there.
DOCUMENTED = {
    "_src.base.dtypes",
    "_src.base.packing",
    "_src.calls.call",
    "_src.forge.artefacts",
    "_src.forge.obtain",
    "_src.keys.identity",
    "_src.operation.derivatives",
    "_src.operation.origin",
    "_src.operation.primitive",
    "_src.operation.spec",
    "_src.plan.targets",
}
STRANGER = ROOT / "tests" / "stranger"
BEGIN, END = "<!-- packages, by tests/rooms.py -->\n", "<!-- end -->\n"


def lines_by_file() -> dict[str, int]:
    """The lines of each text file that git tracks."""
    command = ["git", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    names = [n for n in listed.stdout.split("\0") if Path(n).suffix in TEXT]
    return {n: (ROOT / n).read_bytes().count(b"\n") for n in names if (ROOT / n).is_file()}


def rooms(lines: dict[str, int]) -> dict[str, int]:
    """Print the lines of each room, largest first; returns those of the core and of extensions."""
    count: dict[str, int] = {}
    sums = {"core": 0, "extensions": 0}
    for name, n in lines.items():
        parts = Path(name).parts
        if parts[0] in FOLDERS:
            depth = 4 if parts[0] == "python" else 2 + name.startswith(EXTENSIONS)
            room = "/".join(parts[: min(depth, len(parts) - 1)])
            count[room] = count.get(room, 0) + n
            sums["extensions" if name.startswith(EXTENSIONS) else "core"] += n
    for room, n in sorted(count.items(), key=lambda item: -item[1]):
        print(f"{room:36} {n:8,}")
    return sums


def private_modules(files: Iterable[Path]) -> set[str]:
    """The private modules that files import, or name in programs that they run."""
    found = set()
    for file in files:
        text = file.read_text()
        for package, names in re.findall(
            r"from kernbridge\.(_(?:src|ext)[\w.]*) import "
            r"\(?\s*(\w+(?: as \w+)?(?:,\s*\w+(?: as \w+)?)*)",
            text,
        ):
            found |= {f"{package}.{name}" for name in re.findall(r"(\w+)(?: as \w+)?", names)}
            found.add(package)
        found |= set(re.findall(r"kernbridge\.(_(?:src|ext)(?:\.\w+)+)", text))
    folder = ROOT / "python" / "kernbridge"
    return {name for name in found if (folder / f"{name.replace('.', '/')}.py").is_file()}


def duty(package: Path) -> str:
    """The first paragraph of a package's docstring."""
    file = package / "__init__.py" if package.is_dir() else package.with_suffix(".py")
    paragraph = (ast.get_docstring(ast.parse(file.read_text())) or "").split("\n\n")[0]
    return " ".join(paragraph.split())


def picture(layers: list[str]) -> str:
    """The packages of the core, a layer below the other, and a line for each extension."""
    core, extensions = (ROOT / folder for folder in PACKAGES)
    shown = []
    for layer in layers:
        names = re.findall(r"kernbridge\._src\.(\w+)", layer)
        shown += [f"{name:13} {duty(core / name)}" for name in names]
        shown += ["-" * 13] * bool(names)
    lines = ["```text", *shown[:-1], "```", "", "The extensions:", ""]
    for folder in sorted(p for p in extensions.iterdir() if (p / "__init__.py").is_file()):
        others = [f"{place}/ext/{folder.name}" for place in ("src", "include")]
        there = "".join(f", `{place}`" for place in others if (ROOT / place).is_dir())
        lines.append(f"- `_ext/{folder.name}`{there}: {duty(folder)}")
    return "\n".join([*lines, ""])


def main() -> int:
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    wrong, ceilings = [], tool["kernbridge"]["ceilings"]
    count = rooms(lines_by_file())
    for part, n in count.items():
        print(f"{part}: {n:,} lines, at most {ceilings[part]:,}")
        if n > ceilings[part]:
            wrong.append(f"{part}: {n - ceilings[part]:,} lines are too many: delete some")
    strangers = set(STRANGER.rglob("*.py"))
    if unknown := private_modules(strangers) - DOCUMENTED:
        wrong.append(f"tests/stranger: no document describes {', '.join(sorted(unknown))}")
    wrong += [f"{f}: above 150 lines" for f in strangers if len(f.read_text().splitlines()) > 150]
    others = set((ROOT / "tests").rglob("*.py")) - strangers
    named, most = private_modules(others), tool["kernbridge"]["private_modules_in_tests"]
    print(f"private modules in tests: {len(named)}, at most {most}")
    if len(named) > most:
        listed = ", ".join(sorted(named))
        wrong.append(f"tests name too many private modules: test the public face. {listed}")
    page = ROOT / "CONTRIBUTING.md"
    before, _, rest = page.read_text().partition(BEGIN)
    table, _, after = rest.partition(END)
    new = picture(tool["importlinter"]["contracts"][0]["layers"])
    if "--write" in sys.argv[1:]:
        page.write_text(f"{before}{BEGIN}{new}{END}{after}")
        project = ROOT / "pyproject.toml"
        text = project.read_text()
        for part, n in count.items():
            text = re.sub(rf"^{part} = \d+", f"{part} = {min(n, ceilings[part])}", text, flags=re.M)
        project.write_text(text)
    elif table != new:
        wrong.append("CONTRIBUTING.md: run `python tests/rooms.py --write`")
    print(*wrong, sep="\n", file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
