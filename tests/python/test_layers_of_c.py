"""The order of the folders of src/: tests/core/layers.py fails where an include breaks it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]


def layers(root: Path) -> tuple[int, str]:
    ran = subprocess.run(
        [sys.executable, ROOT / "tests/core/layers.py", root], capture_output=True, text=True
    )
    return ran.returncode, ran.stdout + ran.stderr


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for top in ("src", "include"):
        shutil.copytree(ROOT / top, tmp_path / top)
    return tmp_path


def plant(path: Path, line: str) -> int:
    """Put the line behind the first include of a file; its number."""
    lines = path.read_text().split("\n")
    at = next(i for i, text in enumerate(lines) if text.startswith("#include")) + 1
    lines.insert(at, line)
    path.write_text("\n".join(lines))
    return at + 1


def test_the_tree_is_in_order():
    assert layers(ROOT) == (
        0,
        "lint: layers: abi, supervisor, core, cuda, hostcuda, module, object, embed, "
        "python: no include goes up\n",
    )


def test_an_include_upwards_is_refused(tree: Path):
    number = plant(tree / "src/cuda/kb_target.c", '#  include "hostcuda/kb_hostcuda.h" // new')
    assert layers(tree) == (
        1,
        f"src/cuda/kb_target.c:{number}: "
        'src/cuda includes "hostcuda/kb_hostcuda.h", but may include only abi and core; '
        "src/hostcuda/kb_hostcuda.c:10 includes cuda in turn, which makes a cycle; "
        "move what needs it to a higher folder, or let that folder pass a function down\n",
    )


def test_an_include_of_a_neighbour_is_refused(tree: Path):
    number = plant(tree / "src/module/kb_slot.h", "#include <object/kb_object.h>")
    assert layers(tree) == (
        1,
        f"src/module/kb_slot.h:{number}: "
        'src/module includes "object/kb_object.h", but may include only abi and core and cuda '
        "and hostcuda; "
        "move what needs it to a higher folder, or let that folder pass a function down\n",
    )


def test_a_public_header_does_not_include_the_core(tree: Path):
    number = plant(tree / "include/kernbridge/module.h", '#include "core/kb_error.h"')
    assert layers(tree) == (
        1,
        f"include/kernbridge/module.h:{number}: "
        'a public header includes "core/kb_error.h", which is not installed with it\n',
    )


def test_a_folder_without_a_place_is_refused(tree: Path):
    (tree / "src/rocm").mkdir()
    number = plant(tree / "src/abi/kb_xla.h", '#include "rocm/kb_rocm.h"')
    assert layers(tree) == (
        1,
        "src/rocm has no place in the order of tests/core/layers.py\n"
        f"src/abi/kb_xla.h:{number}: "
        '"rocm/kb_rocm.h" is not in the same folder, in src or in include\n',
    )


def test_a_circle_within_a_folder_is_refused(tree: Path):
    number = plant(tree / "src/hostcuda/kb_fibre.c", '#include "hostcuda/kb_warp.h"')
    code, said = layers(tree)
    assert code == 1
    assert (
        f'src/hostcuda/kb_fibre.c:{number}: "hostcuda/kb_warp.h" includes kb_fibre in turn, by way '
        "of kb_thread, kb_warp, which makes a circle; "
    ) in said
