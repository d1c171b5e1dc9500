"""Each request to the system fails in turn while a library is built and found again.

A build returns a library that is right, or an error that names the cause; nothing that is
unfinished stays, no descriptor leaks, and the next build is right.
"""

import contextlib
import ctypes
import errno
import os
import re
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

import fake_gpu
import pytest
from conftest import write_compiler
from kernbridge import KernbridgeWarning
from kernbridge._src.forge import artefacts
from kernbridge._src.toolchain.build import Request, build
from kernbridge.errors import CompilationError, KernelToolchainError

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(fake_gpu.compiler() is None, reason="no C compiler here"),
    pytest.mark.usefixtures("root"),
]

REQUEST = Request(
    "m", "c", '__attribute__((visibility("default"))) int answer(void) { return 2; }', "spec"
)
CALLS = ("open", "fstat", "stat", "mkdir", "replace", "fchmod", "chmod", "listdir", "utime")
NUMBERS = (errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO, errno.EMFILE)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """A library that the quick compiler "makes"."""
    folder = tmp_path_factory.mktemp("library")
    (folder / "m.c").write_text(REQUEST.source)
    made = folder / "m.so"
    cc = fake_gpu.compiler()
    subprocess.run([cc, "-shared", "-fPIC", folder / "m.c", "-o", made], check=True)
    return made


@pytest.fixture
def quick(library, tmp_path, monkeypatch):
    """A compiler that copies a library, so that a build takes milliseconds."""
    script = tmp_path / "quick-cc"
    script.write_text(
        "#!/bin/sh\n"
        "while [ $# -gt 0 ]; do\n"
        "  case $1 in -o) out=$2;; -MF) deps=$2;; esac; shift\n"
        "done\n"
        f'echo "m.so:" >"$deps"; exec cp {library} "$out"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))


def answer(built):
    return ctypes.CDLL(str(built.path)).answer()


def unfinished(root):
    """What a build makes and has to remove."""
    left = [p for p in root.rglob("*") if p.name.endswith(".tmp")]
    return left + [p for s in root.glob("v*/staging") for p in s.iterdir()]


def descriptors():
    return len(os.listdir("/proc/self/fd"))


@contextlib.contextmanager
def failing(nth, number, lasting, inside):
    """Let the nth of `CALLS` below a folder fail, with `lasting` all that follow it."""
    failed = []
    count = 0

    def wrap(name, real):
        def call(path, *args, **kwargs):
            nonlocal count
            if not str(path).startswith(str(inside)):
                return real(path, *args, **kwargs)
            count += 1
            if count == nth or (lasting and count > nth):
                failed.append(name)
                raise OSError(number, os.strerror(number), str(path))
            return real(path, *args, **kwargs)

        return call

    with pytest.MonkeyPatch.context() as m:
        for name in CALLS:
            m.setattr(os, name, wrap(name, getattr(os, name)))
        yield failed


@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize(
    "number", [NUMBERS[0], *(pytest.param(n, marks=pytest.mark.exhaustive) for n in NUMBERS[1:])]
)
def test_each_request_for_the_cache_fails(quick, tmp_path, monkeypatch, number, lasting):
    build(REQUEST)  # what is imported and found once
    before = descriptors()
    for nth in range(1, 200):
        root = tmp_path / f"cache{nth}"
        monkeypatch.setenv("KERNBRIDGE_CACHE_DIR", str(root))
        monkeypatch.setattr(artefacts, "_warned", False)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            with failing(nth, number, lasting, root) as failed:
                built = build(REQUEST)
        assert answer(built) == 2
        assert all(w.category is KernbridgeWarning for w in told)
        if root not in built.path.parents:  # it went elsewhere, and said why
            assert any(os.strerror(number) in str(w.message) for w in told), failed
        if not failed:
            break
        assert answer(build(REQUEST)) == 2
        again = build(REQUEST)
        assert root in again.path.parents
        assert not again.built
        if unfinished(root):  # its removal was refused: the next build removes it
            build(REQUEST._replace(spec="another"))
        assert not unfinished(root)
        assert descriptors() <= before
    assert nth > 20


def test_no_room_anywhere(quick, root, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "mkdtemp", lambda **_: full(tmp_path))
    artefacts.private.cache_clear()
    with (
        pytest.warns(KernbridgeWarning, match=r"No space left.*\[KB5001\]"),
        pytest.raises(
            KernelToolchainError,
            match=r"(?s)m: the library cannot be written.*No space left.*TMPDIR.*\[KB4008\]",
        ),
    ):
        build(REQUEST)
    monkeypatch.undo()
    monkeypatch.setenv("KERNBRIDGE_CACHE_DIR", str(root))
    assert answer(build(REQUEST)) == 2
    assert not unfinished(root)


def full(folder):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("ulimit -f 0; trap '' XFSZ", "File too large|No space left|final link failed"),
        ("kill -9 $$", "killed by signal 9"),
        ("echo 'ld: final link failed: No space left on device' >&2; exit 1", "No space left"),
    ],
    ids=["a limit", "killed", "full"],
)
def test_a_compiler_that_fails_in_its_midst(root, tmp_path, monkeypatch, fault, said):
    write_compiler(tmp_path / "cc", f"[ -e {tmp_path}/mended ] || {{ {fault}; }}")
    monkeypatch.setenv("CC", str(tmp_path / "cc"))
    before = descriptors()
    with pytest.raises(
        CompilationError, match=r"^m: compilation failed: cc.*\[KB4006\]"
    ) as failure:
        build(REQUEST)
    assert re.search(said, str(failure.value))
    assert not unfinished(root)
    assert not list(root.rglob("*.so"))
    (tmp_path / "mended").touch()
    assert answer(build(REQUEST)) == 2
    assert not build(REQUEST).built
    assert descriptors() <= before


def test_no_home_folder(quick, monkeypatch):
    """A user without a home, in a container: the library is of this process."""
    monkeypatch.delenv("KERNBRIDGE_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    def expanduser(path):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", expanduser)
    with pytest.warns(KernbridgeWarning, match=r"Could not determine home directory.*\[KB5001\]"):
        built = build(REQUEST)
    assert answer(built) == 2
    assert not build(REQUEST).built


@pytest.mark.parametrize("years", [-20, 20])
def test_a_clock_that_moved(quick, monkeypatch, years):
    """What was built before is found after it, and what is built meanwhile is right."""
    now, now_ns, moved = time.time, time.time_ns, years * 365 * 86400
    before = build(REQUEST)
    monkeypatch.setattr(time, "time", lambda: now() + moved)
    monkeypatch.setattr(time, "time_ns", lambda: now_ns() + moved * 10**9)
    assert build(REQUEST) == before._replace(built=False)
    other = REQUEST._replace(spec="meanwhile")
    assert answer(build(other)) == 2
    monkeypatch.setattr(time, "time", now)
    monkeypatch.setattr(time, "time_ns", now_ns)
    assert answer(build(other)) == 2
    assert not build(other).built
