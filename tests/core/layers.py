"""Checks which folders of src/ include which: a folder includes only those that it may stand on.

The core includes no extension (src/ext, include/ext), and no extension includes another one.

    python3 tests/core/layers.py [ROOT]

Within a folder, no file and its header may include each other by way of others. A C file without a
header of its own belongs to the header that it includes first.

Prints every include that breaks the order, with its file and line, and exits with 1.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# The folders of src/ from the lowest to the highest, and what each may include besides its own
# files and the public headers of include/. Each name stands above all that it may include, so that
# there can be no cycle.
LAYERS = {
    "abi": (),
    "supervisor": (),
    "core": ("abi",),
    "cuda": ("abi", "core"),
    "module": ("abi", "core", "cuda"),
    "object": ("abi", "core"),
    "targets": ("abi", "core", "cuda", "module", "object"),
    "python": ("abi", "core", "cuda", "module", "object", "targets"),
}
EXTENSION = ("abi", "core", "cuda", "module", "object", "targets")


def lower_of(folder: str) -> tuple[str, ...]:
    """The folders that a folder may include, besides its own."""
    if folder.startswith("include"):
        return ("include",)
    if folder.endswith("/python"):
        return (*EXTENSION, "python", "include", folder.removesuffix("/python"))
    if folder.startswith("ext/"):
        return (*EXTENSION, "include", f"include/{folder}")
    return (*LAYERS.get(folder, ()), "include")


_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">\n]+)', re.M)


class Include(NamedTuple):
    """An include of a file of this repository."""

    place: str  # file and line
    text: str  # as it is written
    folder: str  # of the file that includes: "core", "ext/embed", "include", "include/ext/embed"
    unit: str  # the name of that file without its ending
    included: str | None  # folder of the file that is included; None if there is no such file


def includes(root: Path) -> Iterator[Include]:
    """Every include under src/ and include/ but those of the system's headers."""
    for top in ("src", "include"):
        for path in sorted((root / top).rglob("*.[ch]*")):
            if path.suffix not in (".c", ".h", ".hpp"):
                continue
            text = path.read_text()
            for found in _INCLUDE.finditer(text):
                included = _target(root, path, found[2])
                if included is None and found[1] == "<":
                    continue
                place = f"{path.relative_to(root)}:{text.count(chr(10), 0, found.start()) + 1}"
                yield Include(place, found[2], _folder(root, path), _unit(path, text), included)


def _folder(root: Path, path: Path) -> str:
    parts = path.resolve().relative_to(root.resolve()).parts
    if parts[:2] == ("src", "ext") and parts[3] == "python":
        return "/".join(parts[1:4])
    inside = (
        "/".join(parts[1:3]) if parts[1] == "ext" else "" if parts[0] == "include" else parts[1]
    )
    return f"include/{inside}".rstrip("/") if parts[0] == "include" else inside


def _unit(path: Path, text: str) -> str:
    first = next(_INCLUDE.finditer(text), None)
    if path.suffix == ".h" or path.with_suffix(".h").exists() or first is None:
        return path.stem
    of_header = path.parent / Path(first[2]).name
    return of_header.stem if of_header.is_file() else path.stem


def _circles(found: list[Include]) -> Iterator[str]:
    """A line for each include by which files of one folder include each other."""
    inside = [i for i in found if i.folder == i.included and i.unit != Path(i.text).stem]
    below: dict[tuple[str, str], set[str]] = {}
    for i in inside:
        below.setdefault((i.folder, i.unit), set()).add(Path(i.text).stem)
    for i in inside:
        reached, rest = set(), [Path(i.text).stem]
        while rest:
            unit = rest.pop()
            if unit not in reached:
                reached.add(unit)
                rest += below.get((i.folder, unit), ())
        if i.unit in reached:
            yield (
                f'{i.place}: "{i.text}" includes {i.unit} in turn, by way of '
                f"{', '.join(sorted(reached - {i.unit}))}, which makes a circle; let the lower "
                "file call the higher one through a table of functions that it is given"
            )


def _target(root: Path, path: Path, text: str) -> str | None:
    extensions = sorted((root / "include" / "ext").glob("*"))
    for base in (path.parent, root / "src", root / "include", *extensions):
        if (base / text).is_file():
            return _folder(root, base / text)
    return None


def problems(root: Path) -> Iterator[str]:
    """A line for each include that breaks the order, and for each folder without a place in it."""
    assert all(low in list(LAYERS)[:i] for i, lows in enumerate(LAYERS.values()) for low in lows)
    folders = {p.name for p in (root / "src").iterdir() if p.is_dir()}
    for folder in sorted(folders - {*LAYERS, "ext"}):
        yield f"src/{folder} has no place in the order of tests/core/layers.py"
    found = list(includes(root))
    yield from _circles(found)
    edges = {(i.folder, i.included): i.place for i in reversed(found)}
    for i in found:
        if i.included is None:
            yield f'{i.place}: "{i.text}" is not in the same folder, in src or in include'
            continue
        if i.included in (*lower_of(i.folder), i.folder):
            continue
        if i.folder.startswith("include"):
            yield f'{i.place}: a public header includes "{i.text}", which is not installed with it'
            continue
        lows = " and ".join(LAYERS.get(i.folder, EXTENSION)) or "its own files"
        back = edges.get((i.included, i.folder))
        cycle = f"; {back} includes {i.folder} in turn, which makes a cycle" if back else ""
        yield (
            f'{i.place}: src/{i.folder} includes "{i.text}", but may include only {lows}{cycle}; '
            "move what needs it to a higher folder, or let that folder pass a function down"
        )


def main() -> int:
    """Print the problems, or that there are none."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2]
    found = list(problems(root))
    for line in found:
        print(line, file=sys.stderr)
    if not found:
        print(f"lint: layers: {', '.join(LAYERS)}: no include goes up")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
