"""The `.ll` files of kernbridge: shipped, valid, and what their generator writes."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")

import llvmlite.binding as llvm  # noqa: E402
from kernbridge._src.cuda_on_cpu import library  # noqa: E402

FOLDER = Path(library.__file__).parent / "ll"
SOURCE = Path(__file__).parents[2] / "python/kernbridge/_src/cuda_on_cpu/ll"
GENERATOR = Path(__file__).parents[1] / "ll"
TOGETHER = [["frame", "loops"], ["frame", "fibres"]]  # which are parsed as one
ALONE = [[name] for name in library._FILES]


def test_all_are_shipped():
    assert {p.name for p in FOLDER.iterdir()} == {p.name for p in SOURCE.iterdir()}
    names = {name for names in (*TOGETHER, *ALONE) for name in names}
    assert {p.stem for p in FOLDER.iterdir()} == names


@pytest.mark.parametrize("names", [*TOGETHER, *ALONE], ids="+".join)
def test_each_is_valid(names):
    """LLVM takes it, and links of it only what is referenced."""
    module = llvm.parse_assembly("".join((FOLDER / f"{n}.ll").read_text() for n in names))
    module.verify()
    defined = [f for f in module.functions if not f.is_declaration]
    assert {f.name for f in defined if f.linkage is not llvm.Linkage.linkonce_odr} == set()
    assert {f.name for f in defined} == library.names(*names)


def test_each_function_is_defined_once():
    """And what one file declares of kernbridge is defined by another, or known to be made later."""
    later = {"kb.frame", "kb.run", "kb.site"}
    texts = {p.stem: p.read_text() for p in FOLDER.iterdir()}
    defined = [(re.findall(r"^define [^@]*@([\w.]+)", text, flags=re.M)) for text in texts.values()]
    names = [name for found in defined for name in found]
    forms = library.names("loops") & library.names("fibres")
    assert sorted(names) == sorted([*set(names), *forms])
    declared = {
        name
        for text in texts.values()
        for name in re.findall(r"^declare [^@]*@(kb\.[\w.]+|__nv_\w+)", text, flags=re.M)
    }
    assert declared - set(names) == later


def test_the_generator_writes_them(tmp_path):
    """If this fails, run `python tests/ll/generate.py`."""
    subprocess.run([sys.executable, GENERATOR / "generate.py", tmp_path], check=True)
    written = {p.name: p.read_text() for p in tmp_path.iterdir()}
    assert written == {name: (SOURCE / name).read_text() for name in written}
    noted = {p.name for p in SOURCE.iterdir() if "tests/ll/generate.py" in p.read_text()}
    assert written.keys() == noted


def test_no_structure_has_a_name():
    """LLVM would rename it in a process that has it, and a kernel would have several texts."""
    assert not [p.name for p in SOURCE.iterdir() if re.search(r"= type\b", p.read_text())]
