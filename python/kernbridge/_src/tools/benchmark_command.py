"""`python -m kernbridge benchmark`: benchmarks the operations of modules and files."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernbridge._src.benchmark import table
from kernbridge._src.benchmark.files import encoded
from kernbridge._src.benchmark.result import BenchmarkResult
from kernbridge._src.benchmark.run import PLATFORMS
from kernbridge._src.custom.kernel import get_primitives_by_tags
from kernbridge._src.tools import imports
from kernbridge._src.tools.printing import CommandError, Lines, Output


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command to those of `kernbridge`."""
    command = commands.add_parser(
        "benchmark",
        parents=[common],
        help="time every backend of operations, and compare their results",
        description="Imports modules and files that define operations (XLACustomKernel), and "
        "benchmarks those that have benchmark data. Fails if nothing matches, or a record failed.",
    )
    command.add_argument("module", nargs="*", help="a module, or the path of a .py file")
    command.add_argument("--platform", required=True, choices=PLATFORMS)
    command.add_argument("--data", metavar="TAGS", help="only operations with all of these: a,b")
    command.add_argument("--n-warmup", type=_count(0), default=5, metavar="N")
    command.add_argument("--n-runs", type=_count(1), default=20, metavar="N")
    command.add_argument("--n-batch", type=_count(1), default=1, metavar="N", help="calls per run")
    command.add_argument("--output", type=Path, metavar="PATH", help="save results as JSON")
    command.add_argument("--plot", type=Path, metavar="PATH", help="save a plot, such as a .png")
    command.set_defaults(run=run, parser=command)


def _count(least: int) -> Any:
    def count(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"at least {least}, got {value}")
        return value

    return count


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Benchmark what was asked for, and return the exit status."""
    parser = chosen.parser
    if chosen.output is not None and chosen.output.suffix.lower() != ".json":
        parser.error(f"--output: {str(chosen.output)!r} is not the name of a .json file")
    if chosen.plot is not None:
        _check_plot(parser, chosen.plot)
    for name in chosen.module:
        try:
            imports.load(name)
        except imports.NothingThere as e:
            parser.error(str(e))
    tags = {tag.strip() for tag in (chosen.data or "").split(",")} - {""}
    found = get_primitives_by_tags(tags).values()
    operations = [operation for operation in found if operation.benchmark_data is not None]
    if not operations:
        which = f"with the tags {', '.join(sorted(tags))} and" if tags else "with"
        where = ", ".join(chosen.module) or "no module was named"
        raise CommandError(
            f"no operation {which} benchmark data ({where}): define it with op.def_benchmark_data"
        )
    results = []
    for operation in operations:
        try:
            result = operation.benchmark(
                platform=chosen.platform,
                n_warmup=chosen.n_warmup,
                n_runs=chosen.n_runs,
                n_batch_per_run=chosen.n_batch,
            )
        except (RuntimeError, ValueError) as e:
            raise CommandError(str(e)) from e
        output.show(Lines(table.lines(result.primitive_name, result.records)))
        results.append(result)
    document = {
        "platform": chosen.platform,
        "results": [encoded(result.primitive_name, result.records) for result in results],
        "optimal_defaults": optimal_defaults(results),
    }
    if chosen.output is not None:
        chosen.output.parent.mkdir(parents=True, exist_ok=True)
        chosen.output.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n")
    if chosen.plot is not None:
        _plot(chosen.plot, results)
    failed = [
        f"{result.primitive_name}, {record.label}, {record.backend}: {record.error}"
        for result in results
        for record in result.records
        if not record.success
    ]
    output.answer = {**document, "failed": failed}
    if failed:
        output.warn("\n  ".join((f"{len(failed)} failed:", *failed)))
    return 1 if failed else 0


def _check_plot(parser: argparse.ArgumentParser, path: Path) -> None:
    try:
        import matplotlib
    except ImportError:
        parser.error("--plot: plots need matplotlib: pip install matplotlib")
    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    known = sorted(Figure().canvas.get_supported_filetypes())
    if path.suffix.lstrip(".").lower() not in known:
        parser.error(f"--plot: {str(path)!r} should end in one of .{', .'.join(known)}")


def optimal_defaults(results: Sequence[BenchmarkResult]) -> dict[str, str]:
    """Return the backend of each operation that is the fastest success in most configs."""
    chosen = {}
    for result in results:
        labels = dict.fromkeys(record.label for record in result.records)
        fastest = [record for label in labels if (record := result.fastest(label)) is not None]
        for backend, _ in Counter(record.backend for record in fastest).most_common(1):
            chosen[result.primitive_name] = backend
    return chosen


def _plot(path: Path, results: Sequence[BenchmarkResult]) -> None:
    """Save one figure, with axes for each operation that has successes."""
    from matplotlib import pyplot

    drawn = [r for r in results if r.fastest() is not None]
    if not drawn:
        print("kernbridge benchmark: no plot, as nothing succeeded", file=sys.stderr)
        return
    figure, axes = pyplot.subplots(
        1, len(drawn), squeeze=False, layout="constrained", figsize=(6.4 * len(drawn), 4.8)
    )
    for ax, result in zip(axes[0], drawn, strict=True):
        result.plot(ax=ax)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    pyplot.close(figure)
