"""benchmarks/plots.py: the captions of the pages are those of the results, and what is drawn."""

import json
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.once
ROOT = Path(__file__).parents[2]
pytest.importorskip("matplotlib")
sys.path.insert(0, str(ROOT / "benchmarks"))

import plot_parts  # noqa: E402
import plots  # noqa: E402

ROW = {"name": "kernbridge", "median": 2.0, "ratio": 1.02, "unit": "ns"}
QUARTILES = {"quartiles": [1.5, 3.0], "ratio_quartiles": [1.01, 1.04]}
MACHINE = {
    "processor": "X", "cores": 2, "load": 0.1, "date": "2026-01-02", "jax": "0.10.2",
    "command": "python benchmarks/chain.py",
}  # fmt: skip


@pytest.mark.parametrize("page", plots.PAGES)
def test_captions_of_pages_are_those_of_the_results(page):
    text = (ROOT / "docs" / page).read_text()
    assert plots.with_blocks(text) == text, "run python benchmarks/plots.py"


def test_each_figure_is_on_a_page_and_is_drawn():
    text = "".join((ROOT / "docs" / page).read_text() for page in plots.PAGES)
    for name, drawing in plots.DRAWINGS.items():
        assert f"<!-- figure {name} -->\n" in text
        has_results = plots.load(drawing.files[0]) is not None
        assert (ROOT / "docs" / plots.FOLDER / f"{name}.svg").exists() == has_results


def test_a_caption_names_the_machine_and_a_figure_without_results_has_none(tmp_path):
    page = "a\n<!-- figure call-gpu -->\nold\n<!-- end of figure -->\nb\n"
    empty = "a\n<!-- figure call-gpu -->\n<!-- end of figure -->\nb\n"
    assert plots.with_blocks(page, tmp_path) == empty
    (tmp_path / "chain.json").write_text(json.dumps({"machine": MACHINE, "results": {}}))
    anew = plots.with_blocks(page, tmp_path)
    assert "(performance/call-gpu.svg)" in anew
    flat = " ".join(anew.split())
    assert "`python benchmarks/chain.py`: 2 cores of X, load average 0.1, 2026-01-02" in flat
    assert plots.with_blocks(anew, tmp_path) == anew
    old = {"machine": {"card": "NVIDIA H200", "jax": "0.11.2"}}  # before files had day and command
    assert plots.caption(old) == "NVIDIA H200"


def test_bars_are_drawn_only_where_quartiles_are_known():
    known, unknown = plot_parts.points([ROW | QUARTILES, ROW])
    assert (known.value, known.low, known.high) == pytest.approx((2e-9, 1.5e-9, 3e-9))
    assert (unknown.low, unknown.high) == (None, None)
    assert (known.text(), known.bar(), unknown.bar()) == ("2 ns", "1.5 ns to 3 ns", "")
    old = {"name": "a", "median": 1234.5, "ratio": 1.0}  # microseconds, without more
    assert plot_parts.Point.of_row(old).text() == "1.23 ms"
    figure = plots.drawing.figure(3, 2)
    axes = figure.subplots()
    plot_parts.show(axes, "", "", [known, unknown])
    (bar,) = axes.collections
    assert bar.get_segments()[0][:, 0].tolist() == pytest.approx([1.5, 3.0])
    assert axes.get_xlabel() == "time (ns)"


def test_a_run_on_a_gpu_is_drawn():
    chain = {
        f"{key} a title": [ROW | QUARTILES | {"unit": "µs"}, {"name": "x", "failure": "E: no"}]
        for key in plots.CHAIN
    }
    times, ratios = plots.a_gpu_call({"results": chain}).axes
    assert len(times.collections) == len(ratios.collections) == len(plots.CHAIN)
    ours = {"device": "H200", "graph": {"us": [5.0, 6.0, 7.0]}, "persistent": {"us": [3.0]}}
    published = {"published": [{"simulator": "S", "hardware": "H", "real_time_factor": 0.5}]}
    (axes,) = plots.microcircuit(published, ours).axes
    assert list(axes.lines[0].get_xdata()) == [0.03, 0.06, 0.5]
