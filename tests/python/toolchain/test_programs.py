"""Compilers end with the process that started them, whatever ends it, and have limits."""

import os
import re
import signal
import time
from pathlib import Path

import kernbridge
import pytest
from kernbridge import config
from kernbridge._src.toolchain import programs

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("root")]
ROOT = Path(__file__).parents[3]
C = """
#include "kernbridge/kernbridge.h"
// @BE one arg:f32[n] ret:f32[n]
void one(const kb_tensor *x, kb_tensor *out) {}
"""
MADE = """
#include "kernbridge/kernbridge.hpp"
#define MAKE(NAME) void NAME(const kernbridge::Tensor x, kernbridge::Tensor out) {}
// @BE one
MAKE(one)
"""
LOADS = {
    "a build": ("CC", lambda: kernbridge.load_c_inline("m", C)),
    "the preprocessor": ("CXX", lambda: kernbridge.load_cpp_inline("m", MADE)),
}


def write_program(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pids):
    """Whether these programs end within a while."""
    for _ in range(500):
        if not any(map(alive, pids)):
            return True
        time.sleep(0.02)
    return False


# What the compiler starts is in its group, in a session of its own, and without a parent.
STUCK = """
sleep 98 & a=$!
setsid sleep 98 & b=$!
(sleep 98 & echo $! > {folder}/c)
echo $$ $a $b $(cat {folder}/c) > {folder}/pids.new
mv {folder}/pids.new {folder}/pids
sleep 98
"""
LOAD = """
import os, threading, time
import kernbridge, test_programs

def end():
    while not os.path.exists({pids!r}):
        time.sleep(0.001)
    os.kill(os.getpid(), {number})

threading.Thread(target=end, daemon=True).start()
test_programs.LOADS[{load!r}][1]()
"""


@pytest.mark.parametrize(
    ("load", "number"),
    [
        ("a build", signal.SIGKILL),
        ("a build", signal.SIGTERM),
        ("the preprocessor", signal.SIGKILL),
        pytest.param("the preprocessor", signal.SIGTERM, marks=pytest.mark.exhaustive),
        pytest.param("a build", signal.SIGHUP, marks=pytest.mark.exhaustive),
    ],
)
def test_a_compiler_ends_with_python(run_python, tmp_path, load, number):
    pids = tmp_path / "pids"
    stuck = write_program(tmp_path / "stuck", STUCK.format(folder=tmp_path))
    program = LOAD.format(pids=str(pids), number=int(number), load=load)
    run_python(program, check=False, **{LOADS[load][0]: stuck})
    assert gone(map(int, pids.read_text().split()))


def test_a_supervisor_that_is_killed(tmp_path):
    killing = "sleep 98 & echo $!\nkill -9 $PPID\nwait"
    ended = programs.run([write_program(tmp_path / "killing", killing)])
    assert ended.status == -signal.SIGKILL
    assert gone([int(ended.output)])


def test_what_a_program_leaves(tmp_path):
    """Its children end with it, a daemon stays, and nobody waits for what it writes."""
    leaves = """
sleep 98 & echo $!
setsid sleep 97 & echo $!
until [ "$(cut -d" " -f6 /proc/$!/stat)" = $! ]; do :; done  # its session is its own
exit 3
"""
    left = write_program(tmp_path / "left", leaves)
    ended = programs.run([left])
    assert ended.status == 3
    child, daemon = map(int, ended.output.split())
    assert gone([child])
    assert alive(daemon)
    os.kill(daemon, signal.SIGKILL)


def test_how_programs_end():
    assert programs.run(["cat"], input=b"x" * 100_000).output == b"x" * 100_000
    assert programs.run(["sh", "-c", "echo a; echo b >&2; exit 7"]) == (7, b"a\n", "")
    assert programs.run(["sh", "-c", "echo b >&2"], errors=True).text == "b\n"
    assert programs.run(["sh", "-c", "kill -SEGV $$"]).status == -signal.SIGSEGV
    assert programs.run(["sh", "-c", "kill -ALRM $$"]) == (128 + signal.SIGALRM, b"", "")
    with pytest.raises(FileNotFoundError, match="no_such_program"):
        programs.run(["no_such_program"])


@pytest.fixture
def limits():
    yield config.set_compiler_limits
    config.set_compiler_limits()


@pytest.mark.parametrize("load", LOADS)
def test_limits_are_named(limits, tmp_path, monkeypatch, load):
    variable, function = LOADS[load]
    monkeypatch.setenv(variable, write_program(tmp_path / "stuck", "sleep 98"))
    limits(seconds=0.2)
    with pytest.raises(kernbridge.CompilationError, match=r"0\.2 s.*KB4006") as caught:
        function()
    assert "set_compiler_limits(seconds=" in str(caught.value)
    assert caught.value.stage == "timeout"
    limits()
    monkeypatch.setattr(
        programs.run, "__kwdefaults__", programs.run.__kwdefaults__ | {"written": 1 << 20}
    )
    monkeypatch.setenv(variable, write_program(tmp_path / "bomb", "exec yes"))
    with pytest.raises(kernbridge.CompilationError, match=r"it wrote 1 MB.*macros.*KB4006"):
        function()


def test_the_limit_of_memory(limits):
    bomb = "#define A0 1+1\n" + "".join(f"#define A{i} A{i - 1}+A{i - 1}\n" for i in range(1, 25))
    limits(memory="60MB")
    with pytest.raises(kernbridge.CompilationError, match=r"memory, .* 0\.06 GB.*KB4006") as caught:
        kernbridge.load_c_inline("m", bomb + C.replace("{}", "{ (void)(A24); }"))
    assert "set_compiler_limits(memory=" in str(caught.value)
    limits()
    assert config.get_compiler_limits().memory > 10**8


def test_an_error_about_memory_is_no_limit(limits):
    limits(memory="8GB")
    with pytest.raises(kernbridge.CompilationError, match=r"\[KB4006\]"):
        kernbridge.load_c_inline("m", '#error "out of memory"\n' + C)


def test_nothing_else_starts_programs():
    starts = (
        r"import (?:subprocess|multiprocessing)\b|\bos\.(?:fork|popen|system|spawn|posix_s|exec)"
    )
    found = {p.name for p in (ROOT / "python").rglob("*.py") if re.search(starts, p.read_text())}
    assert found == {"programs.py", "results.py"}
