"""The `.ll` files of kernbridge: shipped, and valid."""

import re
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")

import llvmlite.binding as llvm  # noqa: E402
from kernbridge._ext.emulator.compiler import library  # noqa: E402

FOLDERS = [Path(p) / "_ext/emulator/compiler/ll" for p in sys.modules["kernbridge"].__path__]
TEXTS = {p.stem: p.read_text() for folder in FOLDERS for p in folder.glob("*")}
FILES = ["loops", "fibres", *library._FILES]


def test_all_are_shipped():
    assert TEXTS.keys() == set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_each_is_valid(name):
    """LLVM takes it, and links of it only what is referenced."""
    module = llvm.parse_assembly(TEXTS[name])
    module.verify()
    defined = [f for f in module.functions if not f.is_declaration]
    assert {f.name for f in defined if f.linkage is not llvm.Linkage.linkonce_odr} == set()
    assert {f.name for f in defined} == library.names(name)


def test_each_function_is_defined_once():
    """And what one file declares of kernbridge is defined by another, or known to be made later."""
    later = {"kb.frame", "kb.run", "kb.site"}
    defined = [(re.findall(r"^define [^@]*@([\w.]+)", text, flags=re.M)) for text in TEXTS.values()]
    names = [name for found in defined for name in found]
    forms = library.names("loops") & library.names("fibres")
    assert sorted(names) == sorted([*set(names), *forms])
    declared = {
        name
        for text in TEXTS.values()
        for name in re.findall(r"^declare [^@]*@(kb\.[\w.]+|__nv_\w+)", text, flags=re.M)
    }
    assert declared - set(names) == later


def test_no_structure_has_a_name():
    """LLVM would rename it in a process that has it, and a kernel would have several texts."""
    assert not [name for name, text in TEXTS.items() if re.search(r"= type\b", text)]
