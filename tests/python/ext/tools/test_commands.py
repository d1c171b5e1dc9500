"""The commands of `kernbridge`: what they print as text, in colour, and as JSON."""

import contextlib
import io
import json
import os
import re
import sys
import time
from importlib import metadata
from pathlib import Path

import kernbridge
import pytest
from kernbridge import cli
from kernbridge._ext.tools import doctor
from kernbridge._src.forge import artefacts

pytestmark = pytest.mark.once


def answer(capfd, *arguments, status=0):
    """What a command answers with --json: all that is on stdout, not only what Python prints."""
    assert cli.main([*arguments, "--json"]) == status
    return json.loads(capfd.readouterr().out)


def words(text):
    return re.sub(r"\x1b\[[\d;]*m", "", text).split()


def become_terminal(monkeypatch):
    """Let the captured stdout be a terminal."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.fixture(params=[["cache", "list"], ["doctor"]], ids=" ".join)
def command(request, filled, monkeypatch):
    """A command that prints a table, and one that prints lists of names and values."""
    monkeypatch.setattr(doctor, "self_test", lambda todo: [""] * len(todo))
    artefacts.store("nvrtc", bytes([1] * 32), artefacts.Artefact({}, ()), "a [bold] name")
    return request.param


def printed(capfd, command):
    cli.main(command)
    return capfd.readouterr().out


def test_a_terminal_shows_the_same_words(command, capfd, monkeypatch):
    plain = printed(capfd, command)
    assert "\x1b[" not in plain
    become_terminal(monkeypatch)
    shown = printed(capfd, command)
    assert "\x1b[" in shown
    assert words(shown) == words(plain)


def test_a_terminal_without_colours(command, capfd, monkeypatch):
    plain = printed(capfd, command)
    become_terminal(monkeypatch)
    monkeypatch.setenv("NO_COLOR", "1")
    assert printed(capfd, command) == plain


def test_the_version(capfd):
    assert cli.main(["--version"]) == 0
    assert capfd.readouterr().out == f"kernbridge {kernbridge.__version__}\n"
    found = answer(capfd, "--version")
    assert found["command"] == "version"
    assert found["versions"]["kernbridge"] == metadata.version("kernbridge")
    assert found["versions"]["jax"] == metadata.version("jax")
    assert {"Python", "jaxlib", "numba", "numba-cuda"} <= set(found["versions"])


NOISY = """
import ctypes, subprocess
print("from Python")
ctypes.CDLL(None).printf(b"from C\\n")
subprocess.run(["echo", "from another process"], check=True)
"""


@pytest.fixture
def benchmark(tmp_path):
    """The arguments of a command that runs a program."""

    def arguments(program):
        (tmp_path / "benchmarked.py").write_text(program + BENCHMARKED)
        file = str(tmp_path / "benchmarked.py")
        return ["benchmark", file, "--platform", "cpu", "--n-runs", "1", "--data", "only for_json"]

    return arguments


def test_nothing_but_json_is_on_stdout(capfd, benchmark):
    assert cli.main([*benchmark(NOISY), "--json"]) == 0
    printed = capfd.readouterr()
    assert json.loads(printed.out)["command"] == "benchmark"
    for line in ("from Python", "from C", "from another process"):
        assert line in printed.err


@pytest.mark.parametrize("arguments", [["--version"], ["c-flags", "--json"]])
def test_a_reader_may_leave(monkeypatch, arguments):
    """As `head` does; what is still buffered is not written when the process ends."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        assert cli.main(arguments) == 1
        stdout.write("what is left")


def test_a_broken_pipe_of_a_module_is_its_own(benchmark):
    with pytest.raises(BrokenPipeError, match="a socket"):
        cli.main(benchmark("raise BrokenPipeError('a socket')"))


def test_an_error_is_an_answer_too(filled, capfd):
    arguments = ["cache", "clear", "nothing", "--yes"]
    found = answer(capfd, *arguments, status=1)
    wrong = "the cache has no module 'nothing'; it has stencil"
    assert found == {"command": found["command"], "error": wrong}
    assert cli.main(arguments) == 1
    assert capfd.readouterr().err == f"kernbridge {found['command']}: {wrong}\n"


def test_an_exception_is_an_answer_too(capfd, benchmark):
    arguments = benchmark("raise RuntimeError('it is wrong')")
    found = answer(capfd, *arguments, status=1)
    assert found == {"command": "benchmark", "error": "RuntimeError: it is wrong"}
    with pytest.raises(RuntimeError, match="it is wrong"):
        cli.main(arguments)


def test_json_may_stand_before_the_command(capfd):
    assert cli.main(["--json", "c-flags"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert any(flag.startswith("-I") for flag in found["flags"])


def test_wrong_arguments_are_no_answer(capsys):
    with pytest.raises(SystemExit) as left:
        cli.main(["c-flags", "--json", "--no-such-option"])
    assert left.value.code == 2
    assert capsys.readouterr().out == ""


def test_a_script_keeps_its_stdout(capsys):
    with pytest.raises(SystemExit) as left:
        cli.main(["--json", "cuda-on-cpu", "script.py"])
    assert left.value.code == 2
    assert "--json: only the script prints to stdout" in capsys.readouterr().err


@pytest.fixture
def filled(root):
    """A cache with two artefacts and a module."""
    artefacts.store("nvrtc", bytes(32), artefacts.Artefact({}, (bytes(2000),)), "scale<float>")
    artefacts.store("expanded", bytes(32), artefacts.Artefact({"a": 1}, ()))
    folder = root / artefacts.VERSION / "modules" / f"stencil_{0:016x}"
    folder.mkdir(parents=True)
    (folder / f"stencil-{1:016x}.so").write_bytes(bytes(500))
    return root


def test_entries_have_kind_name_size_and_age(filled, capfd):
    found = {e["kind"]: e for e in answer(capfd, "cache", "list")["list"]}
    names = {kind: e["name"] for kind, e in found.items()}
    assert names == {"nvrtc": "scale<float>", "expanded": "", "module": "stencil"}
    assert found["module"]["bytes"] == 500
    assert 2000 < found["nvrtc"]["bytes"] < 2300
    stats = kernbridge.cache.stats()
    total = sum(e["bytes"] for e in found.values())
    assert (stats.disk_entries, stats.disk_bytes) == (3, total)


def test_damaged_entries_are_listed_without_a_name(filled, capfd):
    for path in filled.rglob("nvrtc/*/*.bin"):
        path.write_bytes(b'{"name": "\\u001b[31mred"}\n')
    for path in filled.rglob("expanded/*/*.bin"):
        path.write_bytes(b"[" * 10**6)
    found = answer(capfd, "cache", "list")["list"]
    assert [e["name"] for e in found if e["kind"] != "module"] == ["", ""]


def test_the_cache_is_listed(filled, capfd):
    assert cli.main(["cache", "list"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0].split() == ["kind", "name", "size", "last", "used"]
    assert sorted(line.split()[:2] for line in lines[1:4]) == [
        ["expanded", "-"],
        ["module", "stencil"],
        ["nvrtc", "scale<float>"],
    ]
    assert lines[4].startswith(f"{filled}: 3 entries, ")
    found = answer(capfd, "cache", "list")
    assert found["folder"] == str(filled)
    assert {e["kind"]: e["name"] for e in found["list"]}["module"] == "stencil"
    assert all(0 <= e["unused_seconds"] < 600 and e["bytes"] for e in found["list"])


def test_the_size_of_the_cache(filled, capfd, monkeypatch):
    found = answer(capfd, "cache", "size")
    assert found == answer(capfd, "cache")
    assert list(found) == ["command", "folder", "entries", "bytes", "limit_bytes"]
    assert (found["entries"], found["limit_bytes"]) == (3, 2 * 10**9)
    monkeypatch.setenv("KERNBRIDGE_CACHE_DIR", "0")
    monkeypatch.setenv("KERNBRIDGE_CACHE_SIZE", "plenty")
    assert answer(capfd, "cache") == {
        "command": "cache",
        "folder": None,
        "entries": 0,
        "bytes": 0,
        "limit_bytes": None,
    }


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("reply", "removed"), [("y\n", 3), ("n\n", 0), ("", 0)])
def test_the_cache_is_cleared_after_a_question(filled, capsys, monkeypatch, reply, removed):
    monkeypatch.setattr(sys, "stdin", Terminal(reply))
    assert cli.main(["cache", "clear"]) == (0 if removed else 1)
    printed = capsys.readouterr()
    assert f"{filled} holds 3 entries, " in printed.err
    assert printed.err.endswith("Remove everything? [y/N] ")
    assert printed.out == (f"{removed} removed\n" if removed else "nothing was removed\n")
    assert kernbridge.cache.stats().disk_entries == 3 - removed


def test_without_a_terminal_nobody_is_asked(filled, capfd, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert cli.main(["cache", "clear"]) == 1
    assert "there is no terminal on which" in capfd.readouterr().err
    assert kernbridge.cache.stats().disk_entries == 3
    assert answer(capfd, "cache", "clear", "stencil", "--yes")["removed"] == 1
    assert answer(capfd, "cache", "clear", "--yes")["removed"] == 2


def test_an_unknown_module_is_not_cleared(filled, capfd):
    assert cli.main(["cache", "clear", "stensil", "--yes"]) == 1
    assert "the cache has no module 'stensil'; it has stencil" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (2.5e9, "2.5 GB")]
)
def test_sizes(filled, capfd, size, text):
    (library,) = filled.rglob("*.so")
    os.truncate(library, int(size))
    assert f" {text} " in line_of("stencil", capfd)


@pytest.mark.parametrize(
    ("seconds", "text"), [(-9, "0 s"), (57, "5. s"), (61, "1 min"), (7201, "2 h"), (2e5, "2 d")]
)
def test_ages(filled, capfd, seconds, text):
    (library,) = filled.rglob("*.so")
    os.utime(library, (time.time() - seconds,) * 2)
    assert re.search(f" {text}$", line_of("stencil", capfd))


def line_of(module, capfd):
    assert cli.main(["cache", "list"]) == 0
    (line,) = (s for s in capfd.readouterr().out.splitlines() if f" {module} " in s)
    return line


def documented_keys():
    """Of each command: its keys, and those in the lists that it answers, from the document."""
    page = (Path(__file__).parents[4] / "docs" / "command-line.md").read_text()
    found = {}
    for command, text in re.findall(
        r"^\| `([a-z -]+)` \| (`.*) \|$", page.partition("\n## JSON")[2], re.M
    ):
        keys, inner = set(), {}
        for part in text.split("; "):
            outer, _, of_list = part.partition("with the keys ")
            names = re.findall(r"`(\w+)`", outer)
            keys |= set(names)
            if of_list:
                inner[names[-1]] = set(re.findall(r"`(\w+)`", of_list))
        found[command] = keys, inner
    return found


BENCHMARKED = """
import numpy as np
import kernbridge
from kernbridge.benchmark import BenchmarkConfig

op = kernbridge.XLACustomKernel("for_json")
op.def_kernel("jnp", "cpu", lambda outs: lambda x: 2 * x)
op.def_call(lambda x, backend=None: op(x, outs=x, backend=backend))
op.def_benchmark_data(lambda platform: [BenchmarkConfig("n8", (np.ones(8, np.float32),))])
op.def_tags("only for_json")
"""


def test_json_has_the_documented_keys(filled, capfd, monkeypatch, benchmark):
    monkeypatch.setattr(doctor, "self_test", lambda todo: [""] * len(todo))
    options = {
        "doctor": [],
        "cache clear": ["stencil", "--yes"],
        "benchmark": benchmark("")[1:],
        "explain": ["KB1008"],
    }
    documented = documented_keys()
    assert {c.split()[0] for c in documented} == {"--version", *commands()} - {"cuda-on-cpu"}
    for command, (keys, inner) in documented.items():
        found = answer(capfd, *command.split(), *options.get(command, []))
        assert set(found) == {"command", *keys}, command
        for name, of_list in inner.items():
            assert found[name], (command, name)
            assert all(set(item) == of_list for item in found[name]), (command, name)


def commands():
    return re.search(r"\{([a-z,-]+)\}", help_text())[1].split(",")


def help_text():
    with pytest.raises(SystemExit), contextlib.redirect_stdout(io.StringIO()) as text:
        cli.main(["--help"])
    return text.getvalue()


@pytest.mark.parametrize("command", commands())
def test_every_command_has_an_option_for_json(command, capsys):
    with pytest.raises(SystemExit):
        cli.main([command, "--help"])
    assert ("--json" in capsys.readouterr().out) == (command != "cuda-on-cpu")
