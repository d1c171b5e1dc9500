"""The commands of `kernbridge`, but for `doctor`: their parsers, and what they do."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import importlib.util
import json
import os
import re
import runpy
import shlex
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kernbridge._ext.benchmark.measure import measure, record_of
from kernbridge._ext.benchmark.result import BenchmarkResult, aligned, encoded
from kernbridge._ext.emulator.device.switch import VARIABLE, cuda_on_cpu
from kernbridge._ext.tools import doctor
from kernbridge._ext.tools.printing import CommandError, Output, Pairs, age, size
from kernbridge._src.custom.kernel import PLATFORMS, get_primitives_by_tags
from kernbridge._src.forge import artefacts, limit
from kernbridge._src.signatures.array_types import DeclaredType
from kernbridge._src.signatures.call_signature import split_items
from kernbridge._src.toolchain.library import folder_with


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add a parser for each command. Its default `run` runs the command and returns the status."""

    def command(
        name: str, run: Callable[[argparse.Namespace, Output], int], **texts: Any
    ) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = commands.add_parser(name, parents=[common], **texts)
        parser.set_defaults(run=run, parser=parser)
        return parser

    what = "report what works on this machine and what to install, and call a kernel of each"
    parser = command("doctor", doctor.run, help=what)
    parser.add_argument("--no-self-test", action="store_true", help="call no kernel")

    what = "report the location and the size of the cache, list its entries, or clear it"
    more = "Without a subcommand, prints the folder, the number of its entries and their size."
    parser = command("cache", _summary, help=what, description=more)
    actions = parser.add_subparsers(dest="action", metavar="{list,size,clear}")
    for name, run, what in (
        ("list", _list, "list the entries, the last used first"),
        ("size", _summary, "the same as without a subcommand"),
        ("clear", _clear, "remove entries, after asking for confirmation"),
    ):
        action = actions.add_parser(name, parents=[common], help=what)
        action.set_defaults(run=run)
    action.add_argument("name", nargs="?", help="only entries of one module")
    action.add_argument("--yes", action="store_true", help="do not ask for confirmation")

    what = "time every backend of operations, and compare their results"
    more = (
        "Benchmarks the operations (XLACustomKernel) with benchmark data that modules and files "
        "define. Fails if nothing matches, or a record failed."
    )
    parser = command("benchmark", _benchmark, help=what, description=more)
    parser.add_argument(
        "module",
        nargs="*",
        help="a module, or the path of a .py file; or module:operation data=f32[1000],i32[5],0.5 "
        "for one call of any operation, with random numbers, integers that are 0, and numbers",
    )
    parser.add_argument("--platform", choices=PLATFORMS, help="by default, JAX's")
    parser.add_argument("--data", metavar="TAGS", default="", help="only those with all of: a,b")
    parser.add_argument("--n-warmup", type=int, default=5, metavar="N")
    parser.add_argument("--n-runs", type=int, default=20, metavar="N")
    parser.add_argument("--n-batch", type=int, default=1, metavar="N", help="calls per run")
    parser.add_argument("--output", type=Path, metavar="PATH", help="save results as JSON")

    parser = command("explain", _explain, help="explain the code of a message, such as KB2001")
    parser.add_argument("code", help="as printed in the message")

    # stdout belongs to the script, so there is no JSON
    what = "run a script with its CUDA kernels on the CPU"
    parser = commands.add_parser("cuda-on-cpu", help=what)
    parser.add_argument("--check", action="store_true", help="check every access of the kernels")
    parser.add_argument("script", help="its file")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the arguments of the script")
    parser.set_defaults(run=_run_on_cpu, parser=parser)

    what = "print the compiler's options for a program that includes kernbridge/host.h"
    command("c-flags", _c_flags, help=what)
    what = "print the folder with kernbridgeConfig.cmake and kernbridge.pc"
    command("cmake-dir", _cmake_dir, help=what)


def _held(output: Output) -> tuple[str, int, int]:
    """Return the folder of the cache and what it holds, which become part of the answer."""
    folder, (n_entries, n_bytes) = artefacts.get_cache_dir(), limit.cache_stats()
    output.answer["folder"] = str(folder) if folder else None
    output.answer |= {"entries": n_entries, "bytes": n_bytes}
    return str(folder or "off"), n_entries, n_bytes


def _summary(chosen: argparse.Namespace, output: Output) -> int:
    folder, n_entries, n_bytes = _held(output)
    output.answer["limit_bytes"] = None
    with contextlib.suppress(ValueError):  # `kernbridge doctor` reports what the variable holds
        output.answer["limit_bytes"] = limit.limit() or None
    output.show(f"{folder}: {n_entries} entries, {n_bytes / 1e6:.1f} MB")
    return 0


def _list(chosen: argparse.Namespace, output: Output) -> int:
    found, now = limit.entries(), time.time()
    folder, n_entries, n_bytes = _held(output)
    output.answer["list"] = [
        {"kind": e.kind, "name": e.name, "bytes": e.bytes, "unused_seconds": round(now - e.used)}
        for e in found
    ]
    rows = [(e.kind, e.name or "-", size(e.bytes), age(now - e.used)) for e in found]
    if rows:
        head, *lines = aligned([("kind", "name", "size", "last used"), *rows], 2)
        output.show(Pairs(head, ()), *lines)
    output.show(f"{folder}: {n_entries} entries, {size(n_bytes)}")
    return 0


def _clear(chosen: argparse.Namespace, output: Output) -> int:
    modules = sorted({e.name for e in limit.entries() if e.kind == "module"})
    if chosen.name is not None and chosen.name not in modules:
        raise CommandError(
            f"the cache has no module {chosen.name!r}; it has {', '.join(modules) or 'none'}"
        )
    if not chosen.yes:
        if not sys.stdin.isatty():
            raise CommandError("there is no terminal on which to confirm the removal; pass --yes")
        what = f"the libraries of the module {chosen.name!r}" if chosen.name else "everything"
        folder, (n_entries, n_bytes) = artefacts.get_cache_dir(), limit.cache_stats()
        held = f"{folder or 'off'} holds {n_entries} entries, {size(n_bytes)}"
        print(f"{held}. Remove {what}? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            output.answer["removed"] = 0
            output.show("nothing was removed")
            return 1
    output.answer["removed"] = limit.clear_cache(chosen.name)
    output.show(f"{output.answer['removed']} removed")
    return 0


def _benchmark(chosen: argparse.Namespace, output: Output) -> int:
    if chosen.output is not None and chosen.output.suffix.lower() != ".json":
        chosen.parser.error(f"--output: {str(chosen.output)!r} is not the name of a .json file")
    chosen.platform = chosen.platform or jax.default_backend()
    counts = {"n_warmup": chosen.n_warmup, "n_runs": chosen.n_runs}
    counts["n_batch_per_run"] = chosen.n_batch
    if any(":" in name for name in chosen.module):
        return _benchmark_one(chosen, counts, output)
    for name in chosen.module:
        _load(name, chosen.parser)
    tags = {tag.strip() for tag in chosen.data.split(",")} - {""}
    found = get_primitives_by_tags(tags).values()
    operations = [operation for operation in found if operation.benchmark_data is not None]
    if not operations:
        which = f"with the tags {', '.join(sorted(tags))} and" if tags else "with"
        where = ", ".join(chosen.module) or "no module was named"
        raise CommandError(
            f"no operation {which} benchmark data ({where}): define it with "
            "op.def_benchmark_data, or name an operation and its data: file.py:op data=f32[1000]"
        )
    results = []
    for operation in operations:
        try:
            results.append(operation.benchmark(platform=chosen.platform, **counts))
        except (RuntimeError, ValueError) as e:
            raise CommandError(str(e)) from e
        output.show(str(results[-1]))
    return _report(chosen, output, results)


def _benchmark_one(chosen: argparse.Namespace, counts: dict[str, int], output: Output) -> int:
    """Time one call of an operation, whose arguments are given by their types."""
    if len(chosen.module) != 2 or not chosen.module[1].startswith("data="):
        chosen.parser.error("after module:operation, write data= and the types of the arguments")
    (name, _, path), data = chosen.module[0].partition(":"), chosen.module[1][len("data=") :]
    operation = _load(name, chosen.parser)
    for part in path.split("."):
        if not hasattr(operation, part):
            chosen.parser.error(f"{name!r} has no {path!r}")
        operation = getattr(operation, part)
    key, arguments = jax.random.key(0), list[Any]()
    for item in filter(None, split_items(data)):
        with contextlib.suppress(ValueError):
            arguments.append(json.loads(item))
            continue
        try:
            declared = DeclaredType.parse(item)
            if any(isinstance(d, str) for d in declared.dims):
                raise ValueError(f"'{item}' has a dimension that is no number")
        except ValueError as e:
            chosen.parser.error(f"data=: {e}")
        shape, dtype = declared.dims, jax.dtypes.canonicalize_dtype(declared.dtype)
        is_inexact = jax.dtypes.issubdtype(dtype, np.inexact)
        key, own = jax.random.split(key)
        made: Any = jax.random.uniform(own, shape) if is_inexact else jnp.zeros(shape)
        arguments.append(made.astype(dtype))
    try:
        with jax.default_device(jax.devices(chosen.platform)[0]):
            timed = measure(operation, **counts, data=arguments)
    except (RuntimeError, TypeError, ValueError) as e:
        raise CommandError(str(e)) from e
    output.show(f"{path}({data}) on {chosen.platform}: {timed}")
    record = record_of(timed, platform=chosen.platform, backend="", label=data)
    return _report(chosen, output, [BenchmarkResult([record], path)])


def _report(chosen: argparse.Namespace, output: Output, results: list[BenchmarkResult]) -> int:
    failed, defaults = list[str](), {}
    for result in results:
        name, records = result.primitive_name, result.records
        labels = dict.fromkeys(record.label for record in records)
        fastest = [r.backend for label in labels if (r := result.fastest(label)) and r.backend]
        for backend, _ in Counter(fastest).most_common(1):
            defaults[name] = backend
        failed += [f"{name}, {r.label}, {r.backend}: {r.error}" for r in records if not r.success]
    document = {"platform": chosen.platform, "results": [*map(encoded, results)]}
    document["optimal_defaults"] = defaults
    if chosen.output is not None:
        chosen.output.parent.mkdir(parents=True, exist_ok=True)
        chosen.output.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n")
    output.answer = {**document, "failed": failed}
    if failed:
        output.warn("\n  ".join((f"{len(failed)} failed:", *failed)))
    return 1 if failed else 0


def _load(name: str, parser: argparse.ArgumentParser) -> Any:
    """Import and return a module, or the file of a path that ends in .py, or exit if there is none.

    What the module itself raises is raised.
    """
    path = Path(name)
    if path.suffix != ".py":
        sys.path.insert(0, "")
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as e:
            if e.name is None or not f"{name}.".startswith(f"{e.name}."):
                raise
            parser.error(f"there is no module {name!r} (a file's name ends in .py)")
        finally:
            sys.path.remove("")
    if not path.is_file():
        parser.error(f"there is no file {name!r}")
    sys.path.insert(0, str(path.resolve().parent))
    spec: Any = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)
    return module


def _explain(chosen: argparse.Namespace, output: Output) -> int:
    """Print the page of a code: also in brackets, in small letters, or only its number."""
    file = resources.files("kernbridge._src.base").joinpath("codes.toml")
    known, code = tomllib.loads(file.read_text(encoding="utf-8")), chosen.code
    if found := re.fullmatch(r"\[?(?:KB)?(\d{4})\]?", code.strip(), re.IGNORECASE):
        code = f"KB{found[1]}"
    if code not in known:
        close = difflib.get_close_matches(code, known, n=4, cutoff=0.6)
        listed = "".join(f"\n  {other}: {known[other]['title']}" for other in close)
        like = f"; codes that are like it:{listed}" if close else ""
        text = f"there is no code {chosen.code!r}, expected one such as KB2001{like}"
        chosen.parser.error(f"argument code: {text}")
    output.answer |= {"code": code, **known[code]}
    text = "{title}\n\nCause: {cause}\n\nRemedy: {remedy}".format_map(known[code])
    output.show(f"{code}: {text}")
    return 0


def _run_on_cpu(chosen: argparse.Namespace, output: Output) -> int:
    if output.as_json:
        chosen.parser.error("--json: only the script prints to stdout")
    if not Path(chosen.script).exists():
        chosen.parser.error(f"there is no file {chosen.script!r}")
    os.environ[VARIABLE] = "check" if chosen.check else "1"  # for processes that the script starts
    cuda_on_cpu(check=chosen.check).install()
    sys.argv = [chosen.script, *chosen.arguments]
    sys.path[0] = str(Path(chosen.script).resolve().parent)
    runpy.run_path(chosen.script, run_name="__main__")
    return 0


def _c_flags(chosen: argparse.Namespace, output: Output) -> int:
    include = folder_with("include", "kernbridge/host.h")
    library = folder_with("lib", "libkernbridge.so")
    options = [f"-I{include}", f"-L{library}", f"-Wl,-rpath,{library}", "-lkernbridge"]
    output.answer["flags"] = options
    output.show(shlex.join(options))
    return 0


def _cmake_dir(chosen: argparse.Namespace, output: Output) -> int:
    folder = folder_with("lib/cmake/kernbridge", "kernbridgeConfig.cmake")
    output.answer["folder"] = folder
    output.show(folder)
    return 0
