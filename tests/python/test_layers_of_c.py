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
        "lint: layers: abi, supervisor, core, cuda, module, object, targets, python: "
        "no include goes up\n",
    )


def test_an_include_upwards_is_refused(tree: Path):
    number = plant(tree / "src/cuda/kb_target.c", '#  include "module/kb_slot.h" // new')
    code, said = layers(tree)
    assert code == 1
    assert (
        f"src/cuda/kb_target.c:{number}: "
        'src/cuda includes "module/kb_slot.h", but may include only abi and core; src/module/'
    ) in said
    assert said.endswith(
        " includes cuda in turn, which makes a cycle; "
        "move what needs it to a higher folder, or let that folder pass a function down\n"
    )


def test_an_include_of_an_extension_is_refused(tree: Path):
    for place in ("src/ext/new", "src/ext/other", "include/ext/new"):
        (tree / place).mkdir(parents=True)
    (tree / "src/ext/new/kb_new.h").touch()
    (tree / "include/ext/new/new.h").touch()
    own = '#include "ext/new/kb_new.h"\n#include "core/kb_error.h"\n#include <new.h>\n'
    (tree / "src/ext/new/kb_new.c").write_text(own)
    assert layers(tree)[0] == 0
    plant(tree / "src/object/kb_provided.c", '#include "ext/new/kb_new.h"')
    plant(tree / "include/kernbridge/module.h", '#include "new.h"')
    (tree / "src/ext/other/kb_other.c").write_text('#include "ext/new/kb_new.h"')
    code, said = layers(tree)
    assert code == 1
    assert 'src/object includes "ext/new/kb_new.h", but may include only abi and core; ' in said
    assert 'a public header includes "new.h", which is not installed with it' in said
    assert 'src/ext/other includes "ext/new/kb_new.h", but may include only abi and ' in said


def test_an_include_of_a_neighbour_is_refused(tree: Path):
    number = plant(tree / "src/module/kb_slot.h", "#include <object/kb_object.h>")
    assert layers(tree) == (
        1,
        f"src/module/kb_slot.h:{number}: "
        'src/module includes "object/kb_object.h", but may include only abi and core and cuda; '
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
    number = plant(tree / "src/object/kb_relocate.h", '#include "object/kb_object.h"')
    code, said = layers(tree)
    assert code == 1
    assert (
        f'src/object/kb_relocate.h:{number}: "object/kb_object.h" includes kb_relocate in turn, '
        "by way of kb_cpu, kb_object, which makes a circle; "
    ) in said
