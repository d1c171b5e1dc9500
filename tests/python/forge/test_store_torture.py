"""Each request to the system fails in turn while artefacts are kept and looked up.

Nothing but a warning may come of it: what is found is right or is not there, no unfinished file
stays, and the next call is right.
"""

import contextlib
import errno
import hashlib
import os
import resource
import stat
import time
import warnings

import pytest
from kernbridge import KernbridgeWarning
from kernbridge._src.forge import artefacts
from kernbridge._src.forge.artefacts import Artefact

pytestmark = pytest.mark.once

KEY = hashlib.sha256(b"torture").digest()
OLD = Artefact({"n": 1}, (b"old" * 100,))
NEW = Artefact({"n": 2}, (b"new" * 100,))
OTHERS = (errno.EACCES, errno.EIO, errno.EMFILE)
CALLS = ("open", "fstat", "stat", "lstat", "mkdir", "replace", "fchmod", "utime", "unlink", "close")


@contextlib.contextmanager
def failing(nth, number, lasting):
    """Let the nth of `CALLS` from now fail, with `lasting` all that follow; yields their names."""
    failed = []
    count = 0

    def wrap(name, real):
        def call(*args, **kwargs):
            nonlocal count
            count += 1
            if count == nth or (lasting and count > nth):
                failed.append(name)
                if name == "close":
                    real(*args, **kwargs)  # as Linux does
                raise OSError(number, os.strerror(number))
            return real(*args, **kwargs)

        return call

    with pytest.MonkeyPatch.context() as m:
        for name in CALLS:
            m.setattr(os, name, wrap(name, getattr(os, name)))
        yield failed


def files(root):
    return sorted(p.name for p in root.rglob("*") if p.is_file())


@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize(
    "number", [errno.ENOSPC, *(pytest.param(n, marks=pytest.mark.exhaustive) for n in OTHERS)]
)
@pytest.mark.parametrize("before", [None, OLD], ids=["empty", "replaced"])
def test_each_request_fails(tmp_path, monkeypatch, before, number, lasting):
    for nth in range(1, 200):
        folder = tmp_path / f"cache{nth}"
        monkeypatch.setenv("KERNBRIDGE_CACHE_DIR", str(folder))
        monkeypatch.setattr(artefacts, "_warned", False)
        if before is not None:
            artefacts.store("cubin", KEY, before)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            with failing(nth, number, lasting) as failed:
                artefacts.store("cubin", KEY, NEW)
                found = artefacts.load("cubin", KEY)
        assert found in (None, before, NEW)
        assert all(w.category is KernbridgeWarning for w in told)
        if not failed:
            assert found == NEW
            assert not told
            break
        if "unlink" not in failed:  # which removes unfinished files
            assert not [name for name in files(folder) if name.endswith(".tmp")]
        assert artefacts.load("cubin", KEY) in (None, before, NEW)
        artefacts.store("cubin", KEY, NEW)
        assert artefacts.load("cubin", KEY) == NEW
    assert nth > 5


def test_a_folder_that_cannot_be_examined_is_not_trusted(root):
    """A system that does not answer must not make code of others look like ours."""
    artefacts.store("cubin", KEY, OLD)
    for nth in (1, 3):
        real, count = os.lstat, 0

        def call(*args, real=real, nth=nth, **kwargs):
            nonlocal count
            count += 1
            if count == nth:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return real(*args, **kwargs)

        with pytest.MonkeyPatch.context() as m:
            m.setattr(os, "lstat", call)
            why = artefacts.why_not(root)
        assert "cannot be examined (Too many open files): others may be able" in why
    assert artefacts.why_not(root) is None


def test_a_limit_of_the_size_of_files(root):
    """A real limit of the system, which stops a write in its midst."""
    artefacts.store("cubin", KEY, OLD)
    large = Artefact({}, (b"l" * 100_000,))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.warns(KernbridgeWarning, match="File too large"):
            artefacts.store("cubin", KEY, large)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert artefacts.load("cubin", KEY) == OLD
    artefacts.store("cubin", KEY, large)
    assert artefacts.load("cubin", KEY) == large
    assert len(files(root)) == 1


@pytest.mark.parametrize("years", [-20, 20])
def test_a_clock_that_moved(root, monkeypatch, years):
    """Times decide what is removed first, and nothing else."""
    artefacts.store("cubin", KEY, OLD)
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + years * 365 * 86400)
    assert artefacts.load("cubin", KEY) == OLD
    artefacts.store("cubin", KEY, NEW)
    assert artefacts.load("cubin", KEY) == NEW
    monkeypatch.undo()
    monkeypatch.setenv("KERNBRIDGE_CACHE_DIR", str(root))
    assert artefacts.load("cubin", KEY) == NEW


def test_an_entry_that_is_replaced_between_check_and_use(root, monkeypatch):
    """What was checked is what is read, whatever lies under the name by then."""
    artefacts.store("cubin", KEY, OLD)
    (path,) = (p for p in root.rglob("*.bin"))
    fstat = os.fstat

    def replaced(fd):
        about = fstat(fd)
        if not stat.S_ISREG(about.st_mode):
            return about
        other = path.with_suffix(".other")
        other.write_bytes(b"code of somebody else")
        other.chmod(0o666)
        os.replace(other, path)
        return about

    monkeypatch.setattr(os, "fstat", replaced)
    assert artefacts.load("cubin", KEY) == OLD
    monkeypatch.setattr(os, "fstat", fstat)
    assert artefacts.load("cubin", KEY) is None
    artefacts.store("cubin", KEY, NEW)
    assert artefacts.load("cubin", KEY) == NEW
