"""Many builders at once, and builders that die."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import kernbridge
import pytest
from conftest import write_compiler
from kernbridge._src.forge import obtain
from kernbridge._src.toolchain.build import Request, build

CC = shutil.which("gcc") or shutil.which("cc")
pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(CC is None, reason="no C compiler here"),
    pytest.mark.usefixtures("root"),
]


@pytest.fixture
def request_():
    return Request(
        "m", "c", '__attribute__((visibility("default"))) int answer(void) { return 2; }', "spec"
    )


QUICK = f"""
import sys, types
# The builder without JAX, for many processes.
sys.modules["kernbridge"] = package = types.ModuleType("kernbridge")
package.__path__ = {list(kernbridge.__path__)!r}
"""

CONCURRENT = (
    QUICK
    + """
import time
from kernbridge._src.toolchain.build import Request, build
from pathlib import Path
while not Path("go").exists():
    time.sleep(0.005)
built = build(%r)
print(built.path, built.built)
import ctypes
assert ctypes.CDLL(str(built.path)).answer() == 2
"""
)


@pytest.mark.exhaustive
@pytest.mark.parametrize("n", [4, 8])
def test_processes_at_once(n, request_, tmp_path, root):
    log = tmp_path / "log"
    write_compiler(tmp_path / "cc", f"sleep 0.3; echo x >> {log}")
    each = [
        subprocess.Popen(
            [sys.executable, "-c", CONCURRENT % (request_,)],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            env={**os.environ, "CC": str(tmp_path / "cc")},
        )
        for _ in range(n)
    ]
    (tmp_path / "go").touch()
    said = [p.communicate()[0].decode().split() for p in each]
    assert [p.returncode for p in each] == [0] * n
    assert log.read_text().count("x") == 1
    assert len({path for path, _ in said}) == 1
    assert sorted(built for _, built in said) == ["False"] * (n - 1) + ["True"]
    assert not list((root / "v1" / "staging").iterdir())


def test_eight_threads(request_, compiler):
    barrier, found = threading.Barrier(8), []

    def run():
        barrier.wait()
        found.append(build(request_))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert compiler() == 1
    assert [b.built for b in found].count(True) == 1
    assert len({b.path for b in found}) == 1


@pytest.mark.exhaustive
def test_a_builder_that_is_killed(request_, tmp_path, root):
    """The next one builds at once, and nothing is left behind."""
    pids = tmp_path / "pids"
    write_compiler(tmp_path / "cc", f"echo $$ >> {pids}; exec sleep 99")
    made = "from kernbridge._src.toolchain.build import Request, build"
    program = f"{QUICK}\n{made}\nbuild({request_!r})"
    builder = subprocess.Popen(
        [sys.executable, "-c", program], env={**os.environ, "CC": str(tmp_path / "cc")}
    )
    wait_for(lambda: pids.exists() and pids.read_text().endswith("\n"))
    os.kill(builder.pid, signal.SIGKILL)
    builder.wait()
    staging = root / "v1" / "staging"
    assert len(list(staging.iterdir())) == 1
    compiler = int(pids.read_text())
    wait_for(lambda: not is_running(compiler))
    # Another key first: it clears up as well.
    other = build(request_._replace(spec="another"))
    assert other.built
    assert list(staging.iterdir()) == []
    assert build(request_).built
    assert not build(request_).built
    assert list(staging.iterdir()) == []


def wait_for(condition):
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("it did not happen in 20 s")


def is_running(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_staging_of_a_living_builder_stays(request_, root, tmp_path, monkeypatch):
    running, go = tmp_path / "running", tmp_path / "go"
    wait = f"touch {running}; until [ -e {go} ]; do sleep 0.01; done"
    write_compiler(tmp_path / "slow", wait)
    monkeypatch.setenv("CC", str(tmp_path / "slow"))
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(build, request_)
        wait_for(running.exists)
        monkeypatch.setenv("CC", CC)
        assert build(request_).built
        go.touch()
        assert slow.result().path.is_file()
    assert not any(root.rglob("*.o"))


def test_lock_files_are_bounded(request_, root):
    for i in range(5):
        build(request_._replace(spec=str(i)))
    names = [p.name for p in (root / "v1" / "locks").iterdir()]
    assert all(len(n) == len("abc.lock") for n in names)
    before = len(names)
    for i in range(5):
        build(request_._replace(spec=str(i), force_rebuild=True))
    assert len(list((root / "v1" / "locks").iterdir())) == before


def test_a_file_system_without_locks(request_, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(obtain.fcntl, "flock", refuse)
    assert build(request_).built
    assert not build(request_).built
