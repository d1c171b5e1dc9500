"""Draws the figures of docs/performance.md from the JSON of the last runs, in benchmarks/results.

    python benchmarks/plots.py              # draws, and writes the captions into the pages
    python benchmarks/plots.py --run cpu    # runs what needs no GPU before, about three minutes
    python benchmarks/plots.py --run gpu    # the same with a GPU
    python benchmarks/plots.py --table      # prints the figures as tables, too

A figure shows what a run gave, and nothing else: points are medians and bars are the quartiles over
rounds; where a file has none, there is no bar. Captions name machine, day, command and versions.
A figure without a file of results is left out of the page.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "examples"))

import drawing  # noqa: E402
from plot_parts import Point, points, show  # noqa: E402

RESULTS, DOCS = HERE / "results", HERE.parent / "docs"
PAGES = ("performance.md", "microcircuit.md")
FOLDER = "performance"  # of docs
CUDA_KERNELS = ("relu", "add", "stencil", "saxpy", "sigmoid")  # without barriers
# What --run runs: a program, its arguments, and the name of its results if that is another one
RUNS: dict[str, list[tuple[str, str, str]]] = {
    "cpu": [
        ("per_call.py", "--rounds 5", ""),
        ("threads.py", "", ""),
        ("source_calls.py", "--rounds 9", ""),
        ("cuda_on_cpu.py", "", ""),
        ("demo.py", "--rounds 5", ""),
        ("build.py", "--rounds 3", ""),
        ("csr.py", "--rounds 5 --hidden 200", ""),
    ],
    "gpu": [
        ("chain.py", "", ""),
        ("source_calls.py", "", "source_calls_gpu"),
        ("csr.py", "", "csr_gpu"),
        ("../studies/microcircuit_gpu.py", "", ""),
    ],
}
Results = Mapping[str, Any]  # a file of results
Rows = Sequence[Mapping[str, Any]]


class Drawing(NamedTuple):
    """A figure: its text for those who cannot see it, its files, and what draws their contents.

    A figure is drawn if its first file is there, and gets None for others that are not.
    """

    about: str
    files: tuple[str, ...]
    draw: Callable[..., Any]


def tables(results: Results, beginning: str) -> Rows:
    """The rows of the table whose title begins so, but for failures."""
    for title, rows in results["results"].items():
        if title.startswith(beginning):
            return [row for row in rows if not row.get("failure")]
    return []


@drawing.in_our_look
def a_call(per_call: Results, source: Results | None) -> Any:
    in_loop = points(tables(per_call, "One call in a jitted loop, f32[8]"))
    if source:
        built = points(tables(source, "A call in a jitted loop"))
        in_loop += [p for p in built if p.name == "load_cpp_inline, operation"]
    figure = drawing.figure(7, 1.9)
    left, right = figure.subplots(1, 2)
    show(left, "A", "One call in a jitted loop", in_loop)
    show(right, "B", "One call from Python", points(tables(per_call, "One call from Python")))
    return figure


CHAIN = {
    "chain:": "200 calls in a CUDA graph",
    "chain-plain:": "200 calls, no graph",
    "call:": "one call, waited for",
    "loop:": "a step of fori_loop",
    "two:": "two kernels, in a graph",
    "two-plain:": "two kernels, no graph",
    "vmap:": "vmap, one launch",
    "slices:": "vmap, a launch a slice",
    "slices-8:": "the same, in a graph",
}


@drawing.in_our_look
def a_gpu_call(chain: Results) -> Any:
    """Ratios to handlers written by hand, and the times of the programs that have peers."""
    ratios, times = [], []
    for key, name in CHAIN.items():
        rows = tables(chain, key)
        ours = [row for row in rows if row["name"] == "kernbridge"]
        ratios += [Point.of_ratio(row, name) for row in ours]
        times += points(ours, name)
    figure = drawing.figure(7, 2.7)
    left, right = figure.subplots(1, 2, sharey=True)
    show(left, "A", "Time of a call", times)
    show(right, "B", "Ratio to a handler written by hand", ratios, values="{:.2f}")
    right.axvline(1, color="0.6", lw=0.8, zorder=0)
    right.set_xlabel("ratio of times")
    return figure


@drawing.in_our_look
def the_demo(demo: Results, coba: Results | None) -> Any:
    figure = drawing.figure(7, 1.9)
    left, right = figure.subplots(1, 2) if coba else (figure.subplots(), None)
    show(
        left,
        "A" if coba else "",
        "A step in one jitted lax.scan",
        points(tables(demo, "A step of the COBA")),
    )
    if coba:
        runs = coba["runs"]
        alone = {name: each for name, each in runs.items() if not name.endswith("threads")}
        values = {name: [run["cpu_us"] for run in each] for name, each in alone.items()}
        found = [Point.of_values(name, each, 1e-6) for name, each in values.items()]
        show(right, "B", "CPU time, one thread", found)
    return figure


@drawing.in_our_look
def csr(results: Results) -> Any:
    products = {t: r for t, r in results["results"].items() if t.startswith("spikes @ W")}
    figure = drawing.figure(7, 2.4)
    panels = figure.subplots(1, len(products), sharey=True, squeeze=False)[0]
    for axes, letter, (name, rows) in zip(panels, "ABC", products.items(), strict=False):
        part = re.search(r"[\d.]+% of W", name)
        title = f"One product, {part[0].replace('%', ' %')}" if part else name
        show(axes, letter, title, points(rows))
    return figure


@drawing.in_our_look
def cuda_on_cpu(results: Results) -> Any:
    figure = drawing.figure(5, 1.5)
    names = [name for name in results["results"] if name in CUDA_KERNELS]
    found = [Point.of_ratio(results["results"][name][1], name) for name in names]
    axes = figure.subplots()
    title = "A CUDA kernel on one core, over an njit loop"
    show(axes, "", title, found, values="{:.2f}")
    axes.axvline(1, color="0.6", lw=0.8, zorder=0)
    axes.set_xlabel("ratio of times")
    return figure


@drawing.in_our_look
def building(results: Results) -> Any:
    found = points(next(iter(results["results"].values())))
    figure = drawing.figure(5, 0.5 + 0.17 * len(found))
    show(figure.subplots(), "", "Building a function from source", found)
    return figure


@drawing.in_our_look
def microcircuit(published: Results, ours: Results | None) -> Any:
    """Real-time factors, ours and published ones."""
    found = []
    for plan in ("persistent", "graph") if ours else ():
        name = f"kernbridge, {plan}: {ours['device']}"
        found.append(Point.of_values(name, [us / 100 for us in ours[plan]["us"]], 0))
    found += [
        Point(f"{row['simulator']}: {row['hardware']}", row["real_time_factor"])
        for row in published["published"]
    ]
    figure = drawing.figure(7, 0.5 + 0.19 * len(found))
    axes = figure.subplots()
    show(axes, "", "Real-time factor at full scale", found, values="{:.3g}")
    axes.axvline(1, color="0.6", lw=0.8, zorder=0)
    axes.set_xlabel("time of the simulation / model time")
    return figure


DRAWINGS = {
    "call-cpu": Drawing("Times of a call on a CPU", ("per_call", "source_calls"), a_call),
    "call-gpu": Drawing("Times of a call on a GPU, and ratios", ("chain",), a_gpu_call),
    "build": Drawing("Times of building from source", ("build",), building),
    "cuda-on-cpu": Drawing("Ratios of CUDA kernels to loops", ("cuda_on_cpu",), cuda_on_cpu),
    "demo": Drawing("Times of a step of the demo's network", ("demo", "coba"), the_demo),
    "csr": Drawing("Times of a sparse product on a CPU", ("csr",), csr),
    "csr-gpu": Drawing("Times of a sparse product on a GPU", ("csr_gpu",), csr),
    "microcircuit": Drawing(
        "Real-time factors of simulators", ("microcircuit_published", "microcircuit_gpu"),
        microcircuit,
    ),
}  # fmt: skip


def load(name: str, folder: Path = RESULTS) -> Results | None:
    file = folder / f"{name}.json"
    return json.loads(file.read_text()) if file.is_file() else None


def caption(results: Results) -> str:
    """Where and when a file of results was measured; the file has the versions."""
    m = results["machine"]
    if "note" in m:
        return str(m["note"])
    where = (
        m.get("gpu")
        or m.get("card")
        or f"{m['cores']} core{'s' * (m['cores'] != 1)} of {m['processor']}"
    )
    load = f"load average {m['load']}" if "load" in m else ""
    parts = [where, load, m.get("date", "")]
    return (f"`{m['command']}`: " if "command" in m else "") + ", ".join(filter(None, parts))


def block(name: str, folder: Path = RESULTS) -> str:
    """What a page shows of a figure: nothing without results."""
    about, files, _ = DRAWINGS[name]
    found = [results for file in files if (results := load(file, folder))]
    if load(files[0], folder) is None:
        return ""
    text = ". ".join(map(caption, found))
    lines = textwrap.fill(text + ".", 120, break_long_words=False, break_on_hyphens=False)
    return f"![{about}]({FOLDER}/{name}.svg)\n\n{lines}\n"


def with_blocks(page: str, folder: Path = RESULTS) -> str:
    """Return the text of a page with updated blocks of figures."""

    def anew(match: re.Match[str]) -> str:
        return f"{match[1]}\n{block(match[2], folder)}<!-- end of figure -->"

    return re.sub(r"(<!-- figure ([\w-]+) -->)\n.*?<!-- end of figure -->", anew, page, flags=re.S)


@drawing.in_our_look
def draw(name: str) -> bool:
    """Write a figure as SVG for the page; returns whether it has results."""
    _, files, make = DRAWINGS[name]
    found = [load(file) for file in files]
    if found[0] is None:
        return False
    (DOCS / FOLDER).mkdir(exist_ok=True)
    file = DOCS / FOLDER / f"{name}.svg"
    make(*found).savefig(file, metadata={"Date": None}, facecolor="white")
    lines = (line.rstrip() for line in file.read_text().splitlines())
    file.write_text("\n".join(lines) + "\n")
    return True


def print_tables() -> None:
    for file in sorted(RESULTS.glob("*.json")):
        results = json.loads(file.read_text())
        if "results" not in results:
            continue
        print(f"\n{caption(results)}\n")
        for title, rows in results["results"].items():
            print(f"| {title} | median | quartiles | ratio |\n|---|---|---|---|")
            for row in rows:
                if not row.get("failure"):
                    point = Point.of_row(row)
                    print(
                        f"| {row['name']} | {point.text()} | {point.bar()} | {row['ratio']:,.2f} |"
                    )
            print()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", choices=RUNS, help="run the benchmarks before")
    parser.add_argument("--table", action="store_true", help="print tables, too")
    options = parser.parse_args()
    failed = []
    for program, arguments, named in RUNS.get(options.run, []):
        file = RESULTS / f"{named or Path(program).stem}.json"
        command = [sys.executable, str(HERE / program), *arguments.split(), "--json", str(file)]
        print("running", program, arguments, flush=True)
        failed += [program] * bool(subprocess.run(command).returncode)
    for name in DRAWINGS:
        print(f"{name}: {'drawn' if draw(name) else 'no results'}")
    for page in PAGES:
        file = DOCS / page
        file.write_text(with_blocks(file.read_text()))
    if options.table or options.run:
        print_tables()
    if failed:
        print("failed:", ", ".join(failed))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
