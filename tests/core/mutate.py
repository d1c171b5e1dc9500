"""Draws mutants of the C core, and reports those that no C test notices.

    python3 tests/core/mutate.py [-n 200] [--seed SEED] [--only TEXT] [--build build/mutants]

A mutant is one small change of a source file: another comparison, operator or number, a negated
condition, a statement or an early return that is left out. It is compiled as the tests are. One
that does not compile, or whose object code is the same, is drawn again. A test that fails, crashes
or takes longer than its limit kills the mutant. What survives as released runs under
AddressSanitizer and UBSan, too. Exits with 1 if 5 % or more survive.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
TREE = ("CMakeLists.txt", "include", "src", "tests/core", "tests/fake_cuda")
OPTIONS = ("-DKB_BUILD_TESTS=ON", "-DKB_BUILD_PYTHON=OFF", "-DKB_BUILD_HOST=OFF")
SECONDS = 30  # that a test may take; each takes less than three
SURVIVORS_MAX = 0.05

# What is replaced, within a line of code, and by what.
_SWAPS = (
    (r" == ", " != "),
    (r" != ", " == "),
    (r" < ", " <= "),
    (r" > ", " >= "),
    (r" <= ", " < "),
    (r" >= ", " > "),
    (r" && ", " || "),
    (r" \|\| ", " && "),
    (r" \+ ", " - "),
    (r" - ", " + "),
    (r" \* ", " + "),
    (r" / ", " * "),
    (r" % ", " / "),
    (r" & ", " | "),
    (r" \| ", " & "),
    (r" << ", " >> "),
    (r" >> ", " << "),
    (r"\+\+", "--"),
    (r" \+= ", " -= "),
    (r" -= ", " += "),
    (r"\btrue\b", "false"),
    (r"\bfalse\b", "true"),
)
_NUMBER = re.compile(r"(?<![\w.])(\d{1,6})(?![\w.])")
_CONDITION = re.compile(r"^(\s*(?:\} else )?(?:if|while) \()(.*)(\)(?: \{)?)$")
_STATEMENT = re.compile(r"^\s+(?:\(void\))?[\w>.\[\]*()&-]+(?:\(.*\)| [-+|&]?= .*|\+\+|--);$")
_LEAVING = re.compile(r"^\s+(?:return\b.*|break|continue);$")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|/\*.*?\*/|/\*.*$|//.*$')


class Mutant(NamedTuple):
    """A line of a source file and what it becomes."""

    path: str  # from the root
    line: int  # from 1
    text: str


def _code_lines(text: str) -> Iterator[tuple[int, str, str]]:
    """Yields the number and text of each line of code, and the text with blanks for quotes."""
    in_comment = False
    for number, line in enumerate(text.split("\n"), 1):
        ends = "*/" in line
        if in_comment:
            in_comment = not ends
            continue
        blanked = _QUOTED.sub(lambda m: "~" * len(m[0]), line)
        in_comment = "/*" in line and not ends
        if blanked.strip() and not blanked.lstrip().startswith(("#", "_Static_assert")):
            yield number, line, blanked


def mutants_of(path: str, text: str) -> Iterator[Mutant]:
    """Yields every mutant of a file."""
    for number, line, code in _code_lines(text):
        for pattern, other in _SWAPS:
            for m in re.finditer(pattern, code):
                yield Mutant(path, number, line[: m.start()] + other + line[m.end() :])
        for m in _NUMBER.finditer(code):
            for step in (1, -1):
                number_text = str(int(m[1]) + step)
                yield Mutant(path, number, line[: m.start()] + number_text + line[m.end() :])
        if m := _CONDITION.match(code):
            inner = line[m.start(2) : m.end(2)]
            yield Mutant(path, number, f"{m[1]}!({inner}){m[3]}")
        if _STATEMENT.match(code) or _LEAVING.match(code):
            yield Mutant(path, number, "    ;")


def _run(*command: str, cwd: Path, seconds: float | None = None) -> int:
    """Returns the exit status; that of a program that takes too long is 124."""
    quiet = subprocess.DEVNULL
    try:
        return subprocess.run(
            command, cwd=cwd, stdout=quiet, stderr=quiet, timeout=seconds, check=False
        ).returncode
    except subprocess.TimeoutExpired:
        return 124


class Build:
    """A copy of the sources, and its build."""

    def __init__(self, folder: Path, *options: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.tree = folder / "tree"
        self.objects = folder / "objects"
        for name in TREE:
            source, target = ROOT / name, self.tree / name
            if source.is_dir():
                shutil.rmtree(target, ignore_errors=True)
                shutil.copytree(source, target)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
        # A build by make looks at every file of each target; ninja's first look takes 10 ms.
        generator = ("-G", "Ninja") if shutil.which("ninja") else ()
        configure = ("cmake", "-S", str(self.tree), "-B", str(self.objects), *generator)
        release = ("-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
        if _run(*configure, *release, *OPTIONS, *options, cwd=folder) or self.build():
            sys.exit(f"the tests cannot be built in {folder}")
        commands = json.loads((self.objects / "compile_commands.json").read_text())
        self.commands = {c["file"]: shlex.split(c["command"]) for c in commands}
        names = re.findall(r"add_test\(\W*(\w+)", self._test_file())
        self.tests = [name for name in names if name.startswith("test_")]
        if not self.tests:
            sys.exit("CMake lists no tests")

    def _test_file(self) -> str:
        return (self.objects / "tests/core/CTestTestfile.cmake").read_text()

    def build(self, *targets: str) -> int:
        """Builds targets, or all of them."""
        chosen = [part for target in targets for part in ("--target", target)]
        return _run("cmake", "--build", str(self.objects), "-j1", *chosen, cwd=self.tree)

    def sources(self) -> list[str]:
        """Returns the files of src/ that tests are linked with."""
        inside = f"{self.tree}/src/"
        return sorted(f[len(str(self.tree)) + 1 :] for f in self.commands if f.startswith(inside))

    def is_new(self, path: str) -> bool:
        """Returns whether the file compiles to other object code than the original's."""
        codes = []
        for root in (ROOT, self.tree):
            target = self.objects / f"mutant_{root == ROOT}.o"
            command = [*self.commands[str(self.tree / path)]]
            command[command.index("-o") + 1] = str(target)
            command[command.index("-c") + 1] = str(root / path)
            if _run(*command, cwd=self.objects):
                return False
            _run("strip", "--strip-debug", "-R", ".comment", str(target), cwd=self.objects)
            codes.append(_without_file_name(target))
        return codes[0] != codes[1]

    def survives(self, mutant: Mutant) -> bool:
        """Returns whether all tests pass, those of the file's own subject first."""
        stem = Path(mutant.path).stem.removeprefix("kb_").split("_")[0]
        for test in sorted(self.tests, key=lambda name: (stem not in name, "torture" in name)):
            if self.build(test):
                return False  # a program that cannot be linked
            program = self.objects / "tests/core" / test
            if _run(str(program), cwd=self.objects, seconds=SECONDS) not in (0, 77):
                return False
        return True


def _without_file_name(target: Path) -> bytes:
    """Returns an object's code and data, in words."""
    return subprocess.run(
        ["objdump", "-d", "-r", "-s", "--section=.text", "--section=.text.unlikely"]
        + [
            f"--section={name}"
            for name in (".rodata", ".data", ".data.rel.ro.local", ".text.startup")
        ]
        + [str(target)],
        capture_output=True,
        check=False,
    ).stdout.split(b"\n", 2)[-1]


def _change(build: Build, mutant: Mutant, new: bool) -> bool | None:
    """Returns whether a mutant survives; None if it is none. `new`: it is known to be one."""
    at = build.tree / mutant.path
    original = at.read_text()
    lines = original.split("\n")
    lines[mutant.line - 1] = mutant.text
    at.write_text("\n".join(lines))
    try:
        return build.survives(mutant) if new or build.is_new(mutant.path) else None
    finally:
        at.write_text(original)


def _test(release: Build, sanitized: Build, mutant: Mutant) -> bool | None:
    """Returns whether a mutant survives as released and with sanitizers; None if it is none."""
    survived = _change(release, mutant, new=False)
    return survived and _change(sanitized, mutant, new=True)


def main() -> int:
    """Draws and tests mutants."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-n", type=int, default=200, help="how many mutants (200)")
    parser.add_argument("--seed", type=int, help="of the draw (a new one)")
    parser.add_argument("--only", default="", help="mutants whose FILE:LINE contains this")
    parser.add_argument("--build", type=Path, default=ROOT / "build/mutants", help="where to build")
    args = parser.parse_args()
    seed = random.randrange(1 << 32) if args.seed is None else args.seed
    build = Build(args.build.resolve() / "release")
    sanitized = Build(args.build.resolve() / "address", "-DKB_SANITIZE=address,undefined")
    drawn = [m for path in build.sources() for m in mutants_of(path, (ROOT / path).read_text())]
    drawn = [m for m in drawn if args.only in f"{m.path}:{m.line}:"]
    print(f"mutate: seed {seed}, {len(drawn)} mutants to draw from", flush=True)
    random.Random(seed).shuffle(drawn)
    n, survivors, begun = 0, 0, time.monotonic()
    for mutant in drawn:
        if n == args.n:
            break
        survived = _test(build, sanitized, mutant)
        if survived is None:
            continue
        n += 1
        if survived:
            survivors += 1
            was = (ROOT / mutant.path).read_text().split("\n")[mutant.line - 1].strip()
            print(f"{mutant.path}:{mutant.line}: {was}  ->  {mutant.text.strip()}", flush=True)
    share = survivors / n if n else 0
    print(f"mutate: {survivors} of {n} survive, {share:.1%}, in {time.monotonic() - begun:.0f} s")
    return share >= SURVIVORS_MAX


if __name__ == "__main__":
    sys.exit(main())
