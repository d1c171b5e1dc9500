"""The line on stderr about a compilation that takes long: when it is written, and what it says."""

import io
import threading
from types import SimpleNamespace

import pytest
from kernbridge._src.base import progress

pytestmark = pytest.mark.once


class Terminal(io.StringIO):
    """What a terminal was given; `seen` waits until a text has been written."""

    is_terminal = True

    def __init__(self):
        super().__init__()
        self._written = threading.Condition()

    def isatty(self):
        return self.is_terminal

    def write(self, text):
        with self._written:
            super().write(text)
            self._written.notify_all()

    def seen(self, text):
        with self._written:
            return self._written.wait_for(lambda: text in self.getvalue(), timeout=30)


class File(Terminal):
    is_terminal = False


@pytest.fixture
def stderr(request, monkeypatch):
    made = request.param()
    ours = SimpleNamespace(stderr=made, modules={})  # pytest sets sys.stderr
    monkeypatch.setattr(progress, "sys", ours)
    monkeypatch.delenv(progress.VARIABLE, raising=False)
    monkeypatch.setattr(progress, "QUIET", 0.0)
    monkeypatch.setattr(progress, "_line", progress._Line())
    return made


@pytest.mark.parametrize("stderr", [Terminal], indirect=True)
def test_a_line_on_a_terminal_is_removed(stderr):
    with progress.shown("compiling numba_kernel 'f' with Numba"):
        assert stderr.seen("\r\x1b[Kkernbridge: compiling numba_kernel 'f' with Numba ... 0 s")
    assert stderr.getvalue().endswith("\r\x1b[K")
    assert "\n" not in stderr.getvalue()


@pytest.mark.parametrize("stderr", [File], indirect=True)
def test_a_file_gets_lines_if_it_is_asked_for(stderr, monkeypatch):
    monkeypatch.setenv(progress.VARIABLE, "1")
    with progress.shown("building m with nvcc"):
        assert stderr.seen("kernbridge: building m with nvcc ...")
    with progress.shown("waiting for m, which is being built elsewhere"):
        assert stderr.seen("kernbridge: waiting for m, which is being built elsewhere ...")
    lines = stderr.getvalue().splitlines()
    assert [line.split(" ... ")[0] for line in lines] == [
        "kernbridge: building m with nvcc",
        "kernbridge: waiting for m, which is being built elsewhere",
    ]
    assert all(line.endswith(" s") for line in lines)


@pytest.mark.parametrize("stderr", [File], indirect=True)
def test_a_notebook_gets_lines(stderr):
    with progress.shown("compiling nothing with Numba"):
        pass
    progress.sys.modules["ipykernel"] = None
    with progress.shown("compiling op with Numba"):
        assert stderr.seen("kernbridge: compiling op with Numba ...")
    assert stderr.getvalue().endswith(" s\n")
    assert "nothing" not in stderr.getvalue()


@pytest.mark.parametrize("stderr", [File], indirect=True)
def test_an_inner_compilation_is_shown_while_it_lasts(stderr, monkeypatch):
    monkeypatch.setenv(progress.VARIABLE, "1")
    with progress.shown("compiling outer with Numba"):
        assert stderr.seen("compiling outer with Numba ...")
        with progress.shown("compiling inner with NVRTC"):
            assert stderr.seen("\nkernbridge: compiling inner with NVRTC ...")


@pytest.mark.parametrize(
    ("stderr", "value"), [(File, ""), (File, "0"), (Terminal, "0")], indirect=["stderr"]
)
def test_nothing_is_written_and_no_thread_started(stderr, value, monkeypatch):
    monkeypatch.setenv(progress.VARIABLE, value)
    with progress.shown("compiling f with Numba"):
        assert progress._line._thread is None
    assert stderr.getvalue() == ""


@pytest.mark.parametrize("stderr", [Terminal], indirect=True)
def test_what_is_short_is_not_shown_and_what_follows_counts_together(stderr, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(progress, "QUIET", 2.0)
    for i in range(2):
        with progress.shown(f"compiling f{i} with Numba"):
            now[0] += 0.9
        assert stderr.getvalue() == ""
        now[0] += 0.05
    with progress.shown("compiling last with Numba"):
        now[0] += 1.1
        assert stderr.seen("compiling last with Numba ... 1 s")  # of its own
    now[0] += 5
    written = stderr.getvalue()
    with progress.shown("compiling later with Numba"):
        now[0] += 1
        threading.Event().wait(3 * progress._TICK)
    assert stderr.getvalue() == written


PROGRAM = """
import os, sys
if {shown}:
    sys.stderr = sys.stdout
import jax, jax.numpy as jnp, kernbridge, numba
from kernbridge._src.base import progress
progress.QUIET = 0.0
new = os.getpid()  # no cache has such a kernel

def kernel(x, out):
    for i in range(x.size):
        out[i] = x[i] * new

shape = jax.ShapeDtypeStruct((4,), jnp.float32)
{call}(jnp.ones(4))
print("done")
"""
NUMBA = "kernbridge.numba_kernel(numba.njit(kernel), shape)"
NUMBA_CUDA = (
    "from numba import cuda\nkernbridge.numba_cuda_kernel(cuda.jit(kernel), shape, launch_dims=1)"
)


@pytest.mark.exhaustive
def test_a_compilation_by_numba_is_named(run_python):
    program = PROGRAM.format(shown=False, call=NUMBA)
    assert run_python(program, KERNBRIDGE_PROGRESS="") == "done\n"
    said = run_python(PROGRAM.format(shown=True, call=NUMBA), KERNBRIDGE_PROGRESS="1")
    assert "kernbridge: compiling numba_kernel 'kernel' with Numba ..." in said


@pytest.mark.exhaustive
def test_a_compilation_by_numba_cuda_is_named(run_python):
    pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
    said = run_python(PROGRAM.format(shown=True, call=NUMBA_CUDA), KERNBRIDGE_PROGRESS="1")
    assert "kernbridge: compiling numba_cuda_kernel 'kernel' with Numba-CUDA ..." in said
