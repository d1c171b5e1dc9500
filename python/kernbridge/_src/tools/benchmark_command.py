"""`python -m kernbridge benchmark`: benchmarks the operations of modules and files."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from kernbridge._src.benchmark.measure import PLATFORMS
from kernbridge._src.benchmark.result import encoded
from kernbridge._src.custom.kernel import get_primitives_by_tags
from kernbridge._src.tools.printing import CommandError, Lines, Output


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    command = commands.add_parser(
        "benchmark",
        parents=[common],
        help="time every backend of operations, and compare their results",
        description="Benchmarks the operations (XLACustomKernel) with benchmark data that modules "
        "and files define. Fails if nothing matches, or a record failed.",
    )
    command.add_argument("module", nargs="*", help="a module, or the path of a .py file")
    command.add_argument("--platform", required=True, choices=PLATFORMS)
    command.add_argument("--data", metavar="TAGS", default="", help="only those with all of: a,b")
    command.add_argument("--n-warmup", type=int, default=5, metavar="N")
    command.add_argument("--n-runs", type=int, default=20, metavar="N")
    command.add_argument("--n-batch", type=int, default=1, metavar="N", help="calls per run")
    command.add_argument("--output", type=Path, metavar="PATH", help="save results as JSON")
    command.set_defaults(run=run, parser=command)


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Benchmark what was asked for, and return the exit status."""
    if chosen.output is not None and chosen.output.suffix.lower() != ".json":
        chosen.parser.error(f"--output: {str(chosen.output)!r} is not the name of a .json file")
    for name in chosen.module:
        _load(name, chosen.parser)
    tags = {tag.strip() for tag in chosen.data.split(",")} - {""}
    found = get_primitives_by_tags(tags).values()
    operations = [operation for operation in found if operation.benchmark_data is not None]
    if not operations:
        which = f"with the tags {', '.join(sorted(tags))} and" if tags else "with"
        where = ", ".join(chosen.module) or "no module was named"
        raise CommandError(
            f"no operation {which} benchmark data ({where}): define it with op.def_benchmark_data"
        )
    counts = {
        "n_warmup": chosen.n_warmup,
        "n_runs": chosen.n_runs,
        "n_batch_per_run": chosen.n_batch,
    }
    results, failed, defaults = [], [], {}
    for operation in operations:
        try:
            result = operation.benchmark(platform=chosen.platform, **counts)
        except (RuntimeError, ValueError) as e:
            raise CommandError(str(e)) from e
        output.show(Lines([str(result)]))
        results.append(encoded(result))
        labels = dict.fromkeys(record.label for record in result.records)
        fastest = [record.backend for label in labels if (record := result.fastest(label))]
        for backend, _ in Counter(fastest).most_common(1):
            defaults[operation.name] = backend
        failures = (record for record in result.records if not record.success)
        failed += [f"{operation.name}, {r.label}, {r.backend}: {r.error}" for r in failures]
    document = {"platform": chosen.platform, "results": results, "optimal_defaults": defaults}
    if chosen.output is not None:
        chosen.output.parent.mkdir(parents=True, exist_ok=True)
        chosen.output.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n")
    output.answer = {**document, "failed": failed}
    if failed:
        output.warn("\n  ".join((f"{len(failed)} failed:", *failed)))
    return 1 if failed else 0


def _load(name: str, parser: argparse.ArgumentParser) -> None:
    """Import a module, or the file of a path that ends in .py, or exit if there is none.

    What the module itself raises is raised.
    """
    path = Path(name)
    if path.suffix != ".py":
        sys.path.insert(0, "")
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as e:
            if e.name is None or not f"{name}.".startswith(f"{e.name}."):
                raise
            parser.error(f"there is no module {name!r} (a file's name ends in .py)")
        finally:
            sys.path.remove("")
        return
    if not path.is_file():
        parser.error(f"there is no file {name!r}")
    sys.path.insert(0, str(path.resolve().parent))
    spec: Any = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)
