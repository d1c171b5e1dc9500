"""Runs the mistakes of data/messages.md, and compares or writes what each of them prints.

    python tests/python/messages.py            # prints the entries that differ
    python tests/python/messages.py --write    # puts what is printed now into the file

It also writes docs/errors.md, the pages of the codes.

Each entry of the file is a small program with a mistake that a user might make, and all that the
program prints: warnings, the traceback, and what it prints itself. Programs run one after the other
in one process, behind the preamble at the beginning of the file. The entries whose title is
followed by an HTML comment with environment variables share another process that has these.
"""

from __future__ import annotations

import contextlib
import io
import json
import linecache
import os
import re
import sys
import tempfile
import tomllib
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

PAGE = Path(__file__).parent / "data" / "messages.md"
_ENTRY = re.compile(
    r"^### (?P<title>[^\n]+)\n+(?:<!-- (?P<environment>[^\n]+) -->\n+)?"
    r"```python\n(?P<program>.*?)```\n+```text\n(?P<printed>.*?)```\n",
    re.S | re.M,
)
_PREAMBLE = re.compile(r"```python\n(.*?)```\n", re.S)
_PLACES = (
    (r"\$phi\d+", "$phi34"),  # an offset in the bytecode, which differs from Python to Python
    (r"\S*/(?:(?:site|dist)-packages|build/site)/", "site-packages/"),
    (r"\S*/(?:python|platlib)/(?=kernbridge/)", "site-packages/"),  # of an editable install
    (r"(?<=site-packages/)(\S+), line \d+", r"\1, line N"),
    (r"(?:/[^\s/:'\"]+)+/(?:program_\d+|preamble)\.py", "program.py"),
    (r"\bprogram_\d+\b", "program"),
    (r"(?:/[^\s/:'\"]+)+/(?=mistakes/)", ""),
    (r"0x[0-9a-f]{4,}", "0x..."),
    (r"(?<!\.)\b[0-9a-f]{16,}\b", "<digest>"),
    (r"/tmp/[^\s'\"]*", "/tmp/..."),
    (r"(?m)^ *[~^]+\n", lambda found: found.group() if "^" in found.group() else ""),
)


@dataclass(frozen=True)
class Mistake:
    """An entry of the file."""

    title: str
    environment: str
    program: str
    printed: str


def mistakes(text: str | None = None) -> list[Mistake]:
    """Return the entries of the file."""
    found = _ENTRY.finditer(PAGE.read_text() if text is None else text)
    return [Mistake(m["title"], m["environment"] or "", m["program"], m["printed"]) for m in found]


def preamble(text: str) -> str:
    """Return the beginning of each program of the file."""
    return _PREAMBLE.search(text)[1]


def normalised(text: str) -> str:
    """Return what was printed without what differs from machine to machine."""
    for pattern, replacement in _PLACES:
        text = re.sub(pattern, replacement, text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines()) + "\n"


def _show_warning(message: Any, category: type, filename: str, lineno: int, *_: Any) -> None:
    if category.__name__ != "KernbridgeWarning":
        return
    print(f"{filename}:{lineno}: {category.__name__}: {message}")
    print(f"  {linecache.getline(filename, lineno).strip()}")


def _traceback(error: BaseException) -> str:
    """The traceback as Python prints it, without the frames of JAX, Numba and Python."""
    for each in _chain(error):
        kept, at = [], each.__traceback__
        while at is not None:
            if _is_shown(at.tb_frame.f_code.co_filename):
                kept.append(at)
            at = at.tb_next
        each.__traceback__ = None
        for at in reversed(kept):
            each.__traceback__ = TracebackType(
                each.__traceback__, at.tb_frame, at.tb_lasti, at.tb_lineno
            )
    text = "".join(traceback.format_exception(error))
    return re.sub(r"-{20}\nFor simplicity, JAX has removed .*\n?", "", text)


def _is_shown(file: str) -> bool:
    import kernbridge

    return "program_" in file or file.startswith(os.path.dirname(kernbridge.__file__))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def run_all(programs: list[str], beginning: str, folder: Path) -> list[str]:
    """Run programs in this process; returns what each printed."""
    import kernbridge

    names: dict[str, Any] = {}
    (folder / "preamble.py").write_text(beginning)
    exec(compile(beginning, str(folder / "preamble.py"), "exec"), names)
    names = {name: value for name, value in names.items() if not name.startswith("__")}
    warnings.simplefilter("always", kernbridge.KernbridgeWarning)
    warnings.showwarning = _show_warning
    return [_run(program, names, folder / f"program_{i}.py") for i, program in enumerate(programs)]


def _run(program: str, names: dict[str, Any], path: Path) -> str:
    path.write_text(program)
    code = compile(program, str(path), "exec")
    module = sys.modules[path.stem] = ModuleType(path.stem)  # Numba looks it up
    vars(module).update(names)
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
        try:
            exec(code, vars(module))
        except Exception as error:
            print(_explained(_traceback(error)))
    return "".join(line for line in out.getvalue().splitlines(True) if not _WAY.match(line))


def _explained(text: str) -> str:
    """Return a traceback, with a line for each code that it names no explanation of."""
    lost = dict.fromkeys(re.findall(r"\[(KB\d{4})\]", text)).keys() - _WAY.findall(text)
    return "\n".join([text.rstrip("\n"), *(f"{code} is not explained" for code in sorted(lost))])


def outputs(entries: list[Mistake], beginning: str, run: Any) -> list[str]:
    """Return what each entry prints, normalised; `run` starts a process, as `run_python` does."""
    printed: dict[int, str] = {}
    for environment in sorted({e.environment for e in entries}):
        chosen = [i for i, e in enumerate(entries) if e.environment == environment]
        variables = dict(pair.split("=", 1) for pair in environment.split())
        variables["KERNBRIDGE_LIBCUDA"] = "libcuda_that_is_not_there.so"
        with tempfile.TemporaryDirectory() as folder:
            request = Path(folder) / "request.json"
            request.write_text(json.dumps([[entries[i].program for i in chosen], beginning]))
            answer = run(f"import messages\nmessages.serve({str(request)!r})\n", **variables)
        texts = json.loads(answer.splitlines()[-1])
        printed |= dict(zip(chosen, texts, strict=True))
    return [normalised(printed[i]) for i in range(len(entries))]


def serve(request: str) -> None:
    """Run the programs of the request in a file, in its folder; prints the answer."""
    path = Path(request)
    os.chdir(path.parent)
    programs, beginning = json.loads(path.read_text())
    print(json.dumps(run_all(programs, beginning, path.parent)))


def rewritten(text: str, printed: list[str]) -> str:
    """Return the text of the file with what was printed now."""
    rest = iter(printed)
    return _ENTRY.sub(lambda m: _with_output(m, next(rest)), text)


def _with_output(entry: re.Match[str], printed: str) -> str:
    begin, end = entry.span("printed")
    text, start = entry.string, entry.start()
    return text[start:begin] + printed + text[end : entry.end()]


_WAY = re.compile(r"`kernbridge explain (KB\d{4})` says more\.")
ERRORS = Path(__file__).parents[2] / "docs" / "errors.md"
_GROUPS = {
    "1": "Wrapping a kernel",
    "2": "Calling and transforming an operation",
    "3": "Running a kernel",
    "4": "Compiling",
    "5": "Modules, the cache, programs from elsewhere",
    "6": "Sharding and export",
    "7": "Platforms",
    "8": "Settings, benchmarks, custom operations",
}
_INTRODUCTION = """# Messages and their codes

A message about a mistake ends its first line with a code, such as `[KB2001]`. Its last line names
`kernbridge explain KB2001`, which explains the code as this page does.
"""


def pages() -> dict[str, dict[str, str]]:
    """Return the title, the cause and the remedy of each code."""
    file = Path(__file__).parents[2] / "python/kernbridge/_src/base/codes.toml"
    return dict(sorted(tomllib.loads(file.read_text()).items()))


def error_pages() -> str:
    """Return the text of docs/errors.md."""
    parts, group = [_INTRODUCTION], ""
    for code, page in pages().items():
        if code[2] != group:
            group = code[2]
            parts.append(f"## {_GROUPS[group]}\n")
        parts.append(f"### {code}: {page['title']}\n")
        text = f"{page['cause']}\n\n**Remedy.** {page['remedy']}\n"
        parts.append(re.sub(r"docs/([\w-]+\.md)", r"[\1](\1)", text))
    return "\n".join(parts)


def main() -> int:
    """Compare or rewrite the file."""
    import conftest
    import forks

    def run(source: str, **environment: str) -> str:
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "run.py"
            script.write_text(conftest.MENDED + source)
            path = conftest.path_with(Path(__file__).parent)
            variables = {**os.environ, "PYTHONPATH": path, **conftest.WITHOUT_FAKE, **environment}
            done = forks.run(script, variables, timeout=300)
        if done.returncode != 0:
            raise RuntimeError(done.stdout + done.stderr)
        return done.stdout

    text = PAGE.read_text()
    entries = mistakes(text)
    printed = outputs(entries, preamble(text), run)
    for entry, now in zip(entries, printed, strict=True):
        if now != entry.printed:
            print(f"### {entry.title}\n{now}")
    if "--write" in sys.argv:
        PAGE.write_text(rewritten(text, printed))
        ERRORS.write_text(error_pages())
    return 0


if __name__ == "__main__":
    sys.exit(main())
