"""Draws the picture of docs/story.md from the variables of its code, or measures its times.

python docs/story.py PNG      # docs/pictures.py stdp.png calls this
python docs/story.py --times
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import re
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

DOCS = Path(__file__).resolve().parent
sys.path.append(str(DOCS.parent / "examples"))
import drawing  # noqa: E402

SIZES = ("n, steps = 100, 300", "n, steps = 2000, 200")
SHOWN = 6  # weights


def run(until: str, size: str = SIZES[0]) -> Any:
    """Run the page's code up to a heading, with these sizes, and return its variables."""
    text = (DOCS / "story.md").read_text().partition(f"\n## {until}\n")[0]
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S))
    variables: dict[str, Any] = {}
    exec(code.replace(SIZES[0], size), variables)
    return variables


@drawing.in_our_look
def draw(page, path: Path) -> list[Path]:
    """Draw some weights in the course of time, and the rule before and after the fit.

    The figure is small, so that its texts can be read on a phone.
    """
    drawn = drawing.figure(4.5, 2.3)
    weights, pairs = drawn.subplots(1, 2)
    synapses, spikes, truth = page["synapses"], page["spikes"], page["truth"]
    w, x, y = page["before"].copy(), np.zeros(page["n"]), np.zeros(page["n"])
    course = [w.copy()]
    for fired in spikes:
        page["stdp"](w, *synapses, fired, x, fired, y, *truth[:2])
        x, y = (a * np.exp(-1 / tau) + fired for a, tau in zip((x, y), truth[2:], strict=True))
        course.append(w.copy())
    order = np.argsort(w - page["before"])
    moved = [*order[: SHOWN // 2], *order[-SHOWN // 2 :]]
    colors = (drawing.BLUE, drawing.ORANGE, drawing.GREEN, drawing.PURPLE, drawing.YELLOW, "0.4")
    for k, color in zip(moved, colors, strict=True):
        weights.plot([a[k] for a in course], color=color, lw=1)
        weights.plot(len(spikes), page["recorded"][k], "o", color=color, ms=4)
    weights.set(xlabel="time (ms)", ylim=(0, 1))
    drawing.title(weights, "A", "Weights (dots: recorded)")

    fitted = [np.exp(np.asarray(logs)) for logs in page["fitted"]]
    times = np.linspace(0.1, 80, 200)
    for label, style, (plus, minus, tau_plus, tau_minus) in (
        ("first guess", {"color": drawing.ORANGE}, fitted[0]),
        ("fitted", {"color": drawing.BLUE, "lw": 2.5}, fitted[-1]),
        ("true", {"color": drawing.BLACK, "ls": "--"}, truth),
    ):
        pairs.plot(times, 0.5 * plus * np.exp(-times / tau_plus), label=label, **style)
        pairs.plot(-times, -0.5 * minus * np.exp(-times / tau_minus), **style)
    pairs.axhline(0, color="0.7", lw=0.7)
    pairs.set(xlabel="target after source (ms)")
    pairs.legend(loc="upper left", borderaxespad=0, handlelength=1, handletextpad=0.4)
    drawing.title(pairs, "B", "Change of a weight of 0.5")

    return drawing.save(drawn, path)


def times(page, rounds: int) -> dict[str, float]:
    """The medians of the times of a step in microseconds, by program."""
    jax, before, truth = page["jax"], page["before"], page["truth"]
    learn = jax.jit(page["learn"], static_argnames="update")
    programs = {
        "NumPy": lambda: page["learn_in_numpy"](before, *truth),
        "jax.numpy": lambda: learn(before, truth, update=page["update_in_jax"]),
        "kernel": lambda: learn(before, truth, update=page["update"]),
    }
    found: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(rounds + 1):  # the first one compiles
        for name, program in programs.items():
            begin = time.perf_counter()
            jax.block_until_ready(program())
            found[name].append((time.perf_counter() - begin) / page["steps"] * 1e6)
    return {name: statistics.median(us[1:]) for name, us in found.items()}


def measure() -> None:
    for size in SIZES:
        page = run("The gradient", size)
        said = [f"{name} {us:,.1f}" for name, us in times(page, rounds=5).items()]
        print(f"{page['n']:,} neurons, us a step: {', '.join(said)}")


if __name__ == "__main__":
    if sys.argv[1] == "--times":
        measure()
    else:
        draw(run("On four devices"), Path(sys.argv[1]))
