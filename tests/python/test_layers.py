"""What import-linter cannot see: imports from the package itself, and who reaches into it."""

import ast
from pathlib import Path

import pytest

pytestmark = pytest.mark.once
ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "python" / "kernbridge"


def imported(path):
    """The dotted names that a file imports from kernbridge, those in functions included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.split(".")[0] == "kernbridge")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "kernbridge":
            yield from (f"{node.module}.{a.name}" for a in node.names)


PRIVATE = ("kernbridge._core", "kernbridge._src.", "kernbridge._ext.")
FILES = sorted(path for folder in ("_src", "_ext") for path in (PACKAGE / folder).rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_the_implementation_imports_nothing_of_the_face(path):
    assert [n for n in imported(path) if not n.startswith(PRIVATE)] == []


def test_nothing_outside_imports_a_private_module_of_the_face():
    folders = ("python", "tests", "benchmarks", "examples", "studies")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    assert len(files) > 200
    for path in files:
        wrong = [n for n in imported(path) if n.startswith("kernbridge._")]
        assert [n for n in wrong if not f"{n}.".startswith(PRIVATE)] == [], path


def test_every_room_is_in_the_contract():
    contract = (ROOT / "pyproject.toml").read_text()
    rooms = {p.name for p in (PACKAGE / "_src").iterdir() if p.is_dir() and p.name[0] != "_"}
    assert {r for r in rooms if f"kernbridge._src.{r}" not in contract} == set()
