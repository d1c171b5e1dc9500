"""Draws mutants of the C core, and reports those that no C test notices.

    python3 tests/core/mutate.py [-n 200] [--seed SEED] [-j JOBS] [--only TEXT] [--build FOLDER]

A mutant is one small change of a source file that the C tests are linked with (see mutants.py).
One that does not compile without a warning, which tests/core/run refuses, or whose object code is
the same is drawn again. So is a survivor whose function and operator equivalent_mutants.txt lists,
as often as the list says. A test that fails, crashes or takes too long kills a mutant. The tests
run as released, then under AddressSanitizer and UBSan with the fuzzers, then under ThreadSanitizer,
as in `make test-core`; a mutant meets the next of these if it survives the one before. Exits with 1
if more than 2 % survive.

It needs Python 3.11, CMake, a C compiler with binutils, and ninja or make, and nothing else: copy
the repository to a machine with many cores, and run it there with -j. The sources are copied and
built once per configuration; each job then has a copy of the objects, compiles one file into it and
links the programs that contain the file. The outcome for a seed does not depend on the jobs.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from mutants import Kind, Mutant, check_equivalents, kind_of, mutants_of, read_equivalents

ROOT = Path(__file__).resolve().parents[2]
TREE = ("CMakeLists.txt", "include", "src", "tests/core", "tests/fake_cuda")
OPTIONS = ("-DKB_BUILD_TESTS=ON", "-DKB_BUILD_PYTHON=OFF", "-DKB_BUILD_HOST=OFF")
ARCHIVES = ("libkb_core.a", "tests/core/libkb_testing_host.a")
SURVIVORS_MAX = 0.02
FUZZ_SECONDS = "1"


class Stage(NamedTuple):
    """A configuration in which the tests run."""

    name: str
    options: tuple[str, ...]
    programs: str  # a pattern for their names


STAGES = (
    Stage("release", (), r"test_"),
    Stage("address", ("-DKB_SANITIZE=address,undefined",), r"test_|fuzz_"),
    Stage("thread", ("-DKB_SANITIZE=thread",), r"test_(?!torture)"),
)


running: set[int] = set()  # programs, each with a session of its own


def end(*_: object) -> None:
    """Ends the programs that run, which a mutant may have made endless, and this one."""
    for process in [*running]:
        os.killpg(process, signal.SIGKILL)
    os._exit(1)


def run(command: list[str], cwd: Path, seconds: float | None = None) -> int:
    """Returns the exit status; that of a program that takes too long is 124."""
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(
        command, cwd=cwd, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
    )
    running.add(process.pid)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return 124
    finally:
        running.discard(process.pid)


def symbols(file: Path, *options: str) -> set[str]:
    """Returns the names that an object or a program defines."""
    command = ["nm", "--defined-only", "--format=posix", *options, str(file)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {line.split()[0] for line in text.splitlines() if len(line.split()) > 1}


class Compilation(NamedTuple):
    """How a source becomes an object."""

    command: list[str]
    object: str  # from the build folder

    def of(self, source: Path, target: Path) -> list[str]:
        """Returns the command for another source and another object."""
        command = [*self.command]
        command[command.index("-o") + 1] = str(target)
        command[command.index("-c") + 1] = str(source)
        return command


class Built:
    """A copy of the sources, built once in a configuration, and what is to know about it."""

    def __init__(self, folder: Path, stage: Stage, jobs: int) -> None:
        self.stage = stage
        self.tree = folder / "tree"
        self.objects = folder / stage.name
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        configure = ["cmake", "-S", str(self.tree), "-B", str(self.objects), *generator]
        configure += ["-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"]
        build = ["cmake", "--build", str(self.objects), "--parallel", str(jobs)]
        if run([*configure, *OPTIONS, *stage.options], folder) or run(build, folder):
            sys.exit(f"the tests cannot be built in {self.objects}")
        self.compilations = self._read_compilations()
        files = sorted((self.objects / "tests/core").iterdir())
        names = [f.name for f in files if re.match(stage.programs, f.name) and f.is_file()]
        self.prefix: list[str] = []
        self.links = {name: self._link_command(name) for name in names}
        self.limits = self._measure()
        # The link editor takes from an archive what a program needs: the rest cannot change it.
        defined = {name: symbols(self.objects / "tests/core" / name) for name in self.limits}
        self.programs: dict[str, list[str]] = {}
        for path, compilations in self.compilations.items():
            names = symbols(self.objects / compilations[0].object, "--extern-only")
            self.programs[path] = [name for name, others in defined.items() if names & others]

    def _read_compilations(self) -> dict[str, list[Compilation]]:
        found: dict[str, list[Compilation]] = {}
        inside = f"{self.tree}/"
        for c in json.loads((self.objects / "compile_commands.json").read_text()):
            path = c["file"].removeprefix(inside)
            if not path.startswith("src/"):
                continue
            command = shlex.split(c["command"])
            target = Path(c["directory"]) / command[command.index("-o") + 1]
            name = str(target.resolve().relative_to(self.objects.resolve()))
            found.setdefault(path, []).append(Compilation(command, name))
        return found

    def _link_command(self, name: str) -> tuple[str, str]:
        """Returns the command and the folder, from the build folder, in which it runs."""
        script = self.objects / f"tests/core/CMakeFiles/{name}.dir/link.txt"
        if script.exists():
            return script.read_text(), "tests/core"
        command = ["ninja", "-t", "commands", "-s", f"tests/core/{name}"]
        said = subprocess.run(command, cwd=self.objects, capture_output=True, text=True, check=True)
        return said.stdout, "."

    def _measure(self) -> dict[str, float]:
        """Returns the programs that pass, the quickest first, and how long each may take."""
        probe = "tests/core/test_error"
        if self.stage.name == "thread" and run([f"./{probe}"], self.objects):
            self.prefix = ["setarch", "-R"]  # see tests/core/run
            if not shutil.which("setarch") or run([*self.prefix, f"./{probe}"], self.objects):
                print("mutate: skipped: thread, since ThreadSanitizer cannot run here", flush=True)
                return {}
        took = {}
        for name in self.links:
            begun = time.monotonic()
            status = self.execute(name, self.objects, None)
            if status not in (0, 77):
                sys.exit(f"{self.objects}/tests/core/{name} fails with the sources as they are")
            if status == 0:
                took[name] = time.monotonic() - begun
        return {
            name: 10 + 10 * seconds for name, seconds in sorted(took.items(), key=itemgetter(1))
        }

    def execute(self, name: str, objects: Path, seconds: float | None) -> int:
        """Runs a program."""
        settings = ["env", f"KB_FUZZ_SECONDS={FUZZ_SECONDS}", "KB_FUZZ_START=21"]
        settings.append(f"KB_FUZZ_SEEDS={self.tree}/tests/core/fuzz_seeds.txt")
        given = settings if name.startswith("fuzz_") else []
        return run([*given, *self.prefix, f"{objects}/tests/core/{name}"], objects, seconds)


class Worker:
    """A copy of the objects of a configuration, in which one source is another."""

    def __init__(self, built: Built, folder: Path, kills: Counter[tuple[str, str]]) -> None:
        self.built = built
        self.kills = kills  # by file and program
        self.objects = folder / built.stage.name
        self.originals: dict[str, bytes] = {}
        self.compiled = self.objects / "whole.o"  # what is_new has compiled last, if it is there
        shutil.rmtree(folder / built.stage.name, ignore_errors=True)
        programs = [*built.links, "*.d", "*.json"]
        shutil.copytree(built.objects, self.objects, ignore=shutil.ignore_patterns(*programs))
        archives = [name for name in ARCHIVES if (self.objects / name).exists()]
        self.members = {name: self._members(name) for name in archives}

    def _members(self, archive: str) -> set[str]:
        command = ["ar", "t", str(self.objects / archive)]
        said = subprocess.run(command, capture_output=True, text=True, check=True)
        return set(said.stdout.split())

    def is_new(self, path: str, source: Path) -> bool:
        """Returns whether a changed file compiles, to other object code than the original's."""
        if path not in self.originals:
            self.originals[path] = self._code(path, self.built.tree / path) or b""
        code = self._code(path, source)
        return code is not None and code != self.originals[path]

    def _code(self, path: str, source: Path) -> bytes | None:
        """Returns an object's code and data, in words."""
        target = self.objects / "mutant.o"
        command = [*self.built.compilations[path][0].of(source, target), "-Werror"]
        if run(command, self.objects):
            return None
        shutil.copy2(target, self.compiled)
        run(["strip", "--strip-debug", "-R", ".comment", str(target)], self.objects)
        sections = (".text", ".text.unlikely", ".rodata", ".data", ".data.rel.ro.local")
        wanted = [f"--section={name}" for name in (*sections, ".text.startup")]
        dump = ["objdump", "-d", "-r", "-s", *wanted, str(target)]
        text = subprocess.run(dump, capture_output=True, check=False).stdout
        return text.split(b"\n", 2)[-1]

    def killed_by(self, path: str, source: Path) -> str | None:
        """Returns the program that notices a changed file."""
        changed = [self.objects / c.object for c in self.built.compilations[path]]
        changed += [self.objects / name for name in self.members]
        kept = [(file, file.with_suffix(".kept")) for file in changed]
        for file, copy in kept:
            shutil.copy2(file, copy)
        try:
            self._compile(path, source)
            return self._first_failure(path)
        finally:
            for file, copy in kept:
                copy.replace(file)

    def _compile(self, path: str, source: Path) -> None:
        for i, compilation in enumerate(self.built.compilations[path]):
            target = self.objects / compilation.object
            if i == 0 and self.compiled.exists():
                self.compiled.replace(target)
            else:
                run(compilation.of(source, target), self.objects)
            for archive, members in self.members.items():
                if target.name in members:
                    self._put(archive, target)

    def _put(self, archive: str, file: Path) -> None:
        """Replaces a member of an archive, whose calls of the system go to the torture tests."""
        member = self.objects / "member" / file.name
        member.parent.mkdir(exist_ok=True)
        calls = self.built.tree / "tests/core/torture_calls.txt"
        run(["objcopy", f"--redefine-syms={calls}", str(file), str(member)], self.objects)
        run(["ar", "r", str(self.objects / archive), str(member)], self.objects)

    def _first_failure(self, path: str) -> str | None:
        """Runs the programs, those of the file's own subject first, then the quickest."""
        stem = Path(path).stem.removeprefix("kb_").split("_")[0]

        def rank(name: str) -> tuple[bool, int, bool]:
            return (name.startswith("fuzz_"), -self.kills[path, name], stem not in name)

        for name in sorted(self.built.programs.get(path, ()), key=rank):
            command, folder = self.built.links[name]
            failed = run(["sh", "-c", command], self.objects / folder)
            failed = failed or self.built.execute(name, self.objects, self.built.limits[name])
            if failed not in (0, 77):
                self.kills[path, name] += 1
                return f"{self.built.stage.name}/{name}{' (too slow)' if failed == 124 else ''}"
        return None


class Job:
    """The workers of one thread, one for each configuration."""

    def __init__(self, builds: list[Built], folder: Path, kills: Counter[tuple[str, str]]) -> None:
        self.folder = folder
        self.workers = [Worker(built, folder, kills) for built in builds]

    def test(self, mutant: Mutant) -> str | None:
        """Returns who noticed a mutant: "" if nobody did, None if it is none."""
        text = (self.workers[0].built.tree / mutant.path).read_text()
        lines = text.split("\n")
        lines[mutant.line - 1] = mutant.text
        source = self.folder / Path(mutant.path).name
        source.write_text("\n".join(lines))
        try:
            if not self.workers[0].is_new(mutant.path, source):
                return None
            for worker in self.workers:
                killer = worker.killed_by(mutant.path, source)
                if killer:
                    return killer
            return ""
        finally:
            source.unlink()


def copy_sources(tree: Path) -> None:
    """Copies what is built, so that it may change meanwhile."""
    shutil.rmtree(tree, ignore_errors=True)
    for name in TREE:
        source, target = ROOT / name, tree / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copy2(source, target)


def draw(built: Built, only: str) -> tuple[list[Mutant], Counter[Kind]]:
    """Returns the mutants of the sources, and how many of each kind may survive.

    Where all mutants of a kind are listed as equivalent, none of them is drawn.
    """
    drawn = []
    for path in sorted(path for path, programs in built.programs.items() if programs):
        drawn += mutants_of(path, (built.tree / path).read_text())
    listed = read_equivalents(built.tree / "tests/core/equivalent_mutants.txt")
    there = Counter(map(kind_of, drawn))
    wrong = check_equivalents(listed, there)
    if wrong:
        sys.exit("tests/core/equivalent_mutants.txt: " + "\n".join(wrong))
    drawn = [m for m in drawn if listed[kind_of(m)] < there[kind_of(m)]]
    n = sum(there.values()) - listed.total()
    print(f"mutate: {n} mutants; {listed.total()} more are known to change nothing")
    return [m for m in drawn if only in f"{m.path}:{m.line}:"], listed


def test_all(jobs: list[Job], drawn: Iterable[Mutant]) -> Iterator[tuple[Mutant, str]]:
    """Yields each of the mutants that is one, in their order, and who noticed it."""
    free: queue.SimpleQueue[Job] = queue.SimpleQueue()
    for job in jobs:
        free.put(job)

    def test(mutant: Mutant) -> str | None:
        job = free.get()
        try:
            return job.test(mutant)
        finally:
            free.put(job)

    with ThreadPoolExecutor(len(jobs)) as pool:
        rest = iter(drawn)
        begun: list[tuple[Mutant, Future[str | None]]] = []
        try:
            while True:
                for mutant in islice(rest, 2 * len(jobs) - len(begun)):
                    begun.append((mutant, pool.submit(test, mutant)))
                if not begun:
                    return
                mutant, future = begun.pop(0)
                killer = future.result()
                if killer is not None:
                    yield mutant, killer
        finally:
            pool.shutdown(cancel_futures=True)


def main() -> int:
    """Draws and tests mutants."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-n", type=int, default=200, help="how many mutants (200)")
    parser.add_argument("--seed", type=int, help="of the draw (a new one)")
    parser.add_argument("--only", default="", help="mutants whose FILE:LINE contains this")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="how many at a time (1)")
    parser.add_argument("--build", type=Path, default=ROOT / "build/mutants", help="where to build")
    names = [stage.name for stage in STAGES]
    parser.add_argument("--stages", nargs="+", choices=names, default=names, help="of the tests")
    parser.add_argument("--verbose", action="store_true", help="show who noticed each mutant")
    args = parser.parse_args()
    for interruption in (signal.SIGINT, signal.SIGTERM):
        signal.signal(interruption, end)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    folder = args.build.resolve()
    copy_sources(folder / "tree")
    shutil.rmtree(folder / "tmp", ignore_errors=True)  # what killed tests left
    (folder / "tmp").mkdir()
    os.environ["TMPDIR"] = str(folder / "tmp")
    builds = [Built(folder, stage, args.jobs) for stage in STAGES if stage.name in args.stages]
    drawn, equivalent = draw(builds[0], args.only)
    seed = random.randrange(1 << 32) if args.seed is None else args.seed
    print(f"mutate: seed {seed}, {args.jobs} at a time", flush=True)
    random.Random(seed).shuffle(drawn)
    kills: Counter[tuple[str, str]] = Counter()
    jobs = [Job(builds, folder / f"job-{i}", kills) for i in range(args.jobs)]
    n, survivors, begun = 0, 0, time.monotonic()
    stages: Counter[str] = Counter()
    for mutant, killer in islice(test_all(jobs, drawn), args.n):
        if not killer and equivalent[kind_of(mutant)] > 0:
            equivalent[kind_of(mutant)] -= 1
            continue
        n += 1
        survivors += not killer
        stages[killer.split("/")[0] + (" too slow" if "too slow" in killer else "")] += 1
        if args.verbose or not killer:
            print(f"{killer or 'SURVIVES'}: {mutant}", flush=True)
    share = survivors / n if n else 0
    print(f"mutate: {survivors} of {n} survive, {share:.1%}, in {time.monotonic() - begun:.0f} s")
    print("mutate: noticed " + ", ".join(f"{name}: {k}" for name, k in stages.items() if name))
    return share > SURVIVORS_MAX


if __name__ == "__main__":
    sys.exit(main())
