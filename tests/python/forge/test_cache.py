"""The cache on disk: what is kept, what is not trusted, and where nothing can be kept."""

import hashlib
import os
import random
import stat
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest
from kernbridge import KernbridgeWarning
from kernbridge._src.forge import artefacts
from kernbridge._src.forge.artefacts import Artefact

pytestmark = pytest.mark.once

KEY = hashlib.sha256(b"a key").digest()
ARTEFACT = Artefact(
    {"entry": "f", "n": 3, "x": 1.5, "deep": [{"a": None}], "é": True}, (b"\0code", b"", b"x" * 999)
)


@pytest.fixture
def path(root):
    """Where the artefact lies, once it is stored."""
    artefacts.store("cubin", KEY, ARTEFACT)
    name = KEY.hex()
    return root / "v1" / "cubin" / name[:2] / f"{name[2:]}.bin"


def test_round_trip(root):
    assert artefacts.load("cubin", KEY) is None
    assert not root.exists()  # looking makes no folder
    artefacts.store("cubin", KEY, ARTEFACT)
    assert artefacts.load("cubin", KEY) == ARTEFACT
    assert artefacts.load("object", KEY) is None
    assert artefacts.load("cubin", KEY[::-1]) is None
    artefacts.store("cubin", KEY, Artefact({}, ()))
    assert artefacts.load("cubin", KEY) == Artefact({}, ())


def test_where(path, root):
    assert path.is_file()
    assert [p for p in root.rglob("*") if p.is_file()] == [path]


def test_meta_that_json_changes(root):
    for meta in ({"a": (1, 2)}, {1: 2}, {"a": b""}, {"a": float("nan")}):
        with pytest.raises(TypeError):
            artefacts.store("cubin", KEY, Artefact(meta, ()))
    assert artefacts.load("cubin", KEY) is None


@pytest.mark.parametrize("kind", ["", "../up", "a/b", "a.b", "ü"])
def test_kinds_that_name_no_folder(root, kind):
    with pytest.raises(ValueError, match="no place in the cache"):
        artefacts.store(kind, KEY, ARTEFACT)
    with pytest.raises(ValueError, match="no place in the cache"):
        artefacts.load(kind, KEY)


def test_cut_short_and_replaced(path):
    data = path.read_bytes()
    for n in range(len(data)):
        path.write_bytes(data[:n])
        assert artefacts.load("cubin", KEY) is None, n
    path.write_bytes(data + b"\0")
    assert artefacts.load("cubin", KEY) is None
    artefacts.store("cubin", KEY, ARTEFACT)
    assert artefacts.load("cubin", KEY) == ARTEFACT


def test_any_changed_bit(path):
    data = path.read_bytes()
    r = random.Random(3)
    for at in {*range(200), *(r.randrange(len(data)) for _ in range(200))}:
        damaged = bytearray(data)
        damaged[at] ^= 1 << r.randrange(8)
        path.write_bytes(damaged)
        assert artefacts.load("cubin", KEY) is None, at


def signed(body):
    return body + hashlib.sha256(body).digest()


def test_files_of_others_with_a_right_digest(path):
    """The header is checked too: the digest alone says only that the file is whole."""
    data = path.read_bytes()[:-32]
    path.write_bytes(signed(data))
    assert artefacts.load("cubin", KEY) == ARTEFACT
    meta = data.index(b'"meta"')  # that of another artefact is as good
    r = random.Random(4)
    bodies = [data[:n] for n in range(data.index(b"\n") + 60)] + [data + b"\0", b"", data[1:]]
    for _ in range(500):
        damaged = bytearray(data)
        for _ in range(r.choice((1, 4))):
            damaged[r.randrange(meta)] = r.choice((0, 1, 255, r.randrange(256)))
        bodies.append(bytes(damaged))
    for body in bodies:
        path.write_bytes(signed(body))
        assert body == data or artefacts.load("cubin", KEY) is None, body


def test_headers_that_say_nothing(path):
    for meta in (b"[1]", b"", b"\xff", b"{", b"[" * 100_000, b"null", b"3"):
        header = b'{"kind":"cubin","key":"%s","sizes":[],"meta":%s}' % (KEY.hex().encode(), meta)
        path.write_bytes(signed(header + b"\n"))
        assert artefacts.load("cubin", KEY) is None
    for sizes in (b"[-1,1]", b"[1]", b"[0.5]", b'"1"', b"3"):
        header = b'{"kind":"cubin","key":"%s","sizes":%s,"meta":{}}' % (KEY.hex().encode(), sizes)
        path.write_bytes(signed(header + b"\n"))
        assert artefacts.load("cubin", KEY) is None


def test_a_file_under_the_name_of_another(path, root):
    other = bytes([KEY[0]]) + KEY[1:][::-1]
    os.link(path, path.with_name(f"{other.hex()[2:]}.bin"))
    assert artefacts.load("cubin", other) is None
    (root / "v1" / "cubin").rename(root / "v1" / "object")
    assert artefacts.load("object", KEY) is None


def test_permissions(path, root):
    before = os.umask(0)
    try:
        artefacts.store("object", KEY, ARTEFACT)
    finally:
        os.umask(before)
    everything = [root, *root.rglob("*")]
    assert {stat.S_IMODE(p.stat().st_mode) for p in everything if p.is_dir()} == {0o700}
    assert {stat.S_IMODE(p.stat().st_mode) for p in everything if p.is_file()} == {0o600}
    assert len([p for p in everything if p.is_file()]) == 2


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write(path, mode):
    path.chmod(mode)
    assert artefacts.load("cubin", KEY) is None
    path.chmod(0o644)
    assert artefacts.load("cubin", KEY) == ARTEFACT


def test_a_file_of_another_user(path, monkeypatch):
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    assert artefacts.load("cubin", KEY) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_given_away(path):
    os.chown(path, 12345, -1)
    assert artefacts.load("cubin", KEY) is None
    artefacts.store("cubin", KEY, ARTEFACT)
    assert artefacts.load("cubin", KEY) == ARTEFACT


def test_what_is_no_plain_file(path):
    target = path.with_name("elsewhere")
    path.rename(target)
    path.symlink_to(target)
    assert artefacts.load("cubin", KEY) is None
    path.unlink()
    os.mkfifo(path, 0o600)
    writer = threading.Timer(20, lambda: os.open(path, os.O_RDWR | os.O_NONBLOCK))
    writer.start()
    assert artefacts.load("cubin", KEY) is None
    assert writer.is_alive()  # it did not wait for one
    writer.cancel()
    path.unlink()
    path.mkdir()
    assert artefacts.load("cubin", KEY) is None


@pytest.mark.parametrize("value", ["", "0"])
def test_off(monkeypatch, tmp_path, value):
    monkeypatch.setenv("KERNBRIDGE_CACHE_DIR", value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert artefacts.get_cache_dir() is None
    artefacts.store("cubin", KEY, ARTEFACT)
    assert artefacts.load("cubin", KEY) is None
    assert list(tmp_path.iterdir()) == []


def test_where_by_default(monkeypatch, tmp_path):
    monkeypatch.delenv("KERNBRIDGE_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert artefacts.get_cache_dir() == tmp_path / "xdg" / "kernbridge"
    artefacts.store("cubin", KEY, ARTEFACT)
    assert artefacts.load("cubin", KEY) == ARTEFACT
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for ignored in ("", "here"):  # the specification has a relative path ignored
        monkeypatch.setenv("XDG_CACHE_HOME", ignored)
        assert artefacts.get_cache_dir() == tmp_path / "home" / ".cache" / "kernbridge"


def test_chosen_in_the_process(root, tmp_path, monkeypatch):
    """It is stronger than the environment, also where that switches the cache off."""
    try:
        for value in (str(root), "0"):
            monkeypatch.setenv("KERNBRIDGE_CACHE_DIR", value)
            artefacts.set_cache_dir(str(tmp_path / "chosen"))
            assert artefacts.get_cache_dir() == artefacts.get_cache_dir() == tmp_path / "chosen"
            artefacts.store("cubin", KEY, ARTEFACT)
            assert artefacts.load("cubin", KEY) == ARTEFACT
            artefacts.set_cache_dir(None)
            assert artefacts.load("cubin", KEY) is None
    finally:
        artefacts.set_cache_dir(None)
    assert artefacts.get_cache_dir() is None


def test_a_use_is_noted_now_and_then(path):
    """So that the least recently used goes first, and a hit usually writes nothing."""
    written = path.stat().st_mtime_ns
    artefacts.load("cubin", KEY)
    assert path.stat().st_mtime_ns == written
    os.utime(path, (1, 1))
    artefacts.load("cubin", KEY)
    assert path.stat().st_mtime_ns >= written


def test_relative_and_home(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KERNBRIDGE_CACHE_DIR", "here")
    assert artefacts.get_cache_dir() == tmp_path / "here"
    monkeypatch.setenv("KERNBRIDGE_CACHE_DIR", "~/there")
    assert artefacts.get_cache_dir() == tmp_path / "home" / "there"


def test_no_home(monkeypatch, tmp_path):
    monkeypatch.setattr(artefacts, "_warned", False)
    monkeypatch.chdir(tmp_path)
    for name in ("KERNBRIDGE_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    with pytest.warns(KernbridgeWarning, match=r"home.*\[KB5001\]"):
        assert artefacts.get_cache_dir() is None
    assert artefacts.load("cubin", KEY) is None
    assert list(tmp_path.iterdir()) == []


def warned(caught):
    return [w for w in caught if w.category is KernbridgeWarning]


@pytest.mark.parametrize("blocked", [".", "v1", "v1/cubin", f"v1/cubin/{KEY.hex()[:2]}"])
def test_a_file_in_place_of_a_folder(root, blocked):
    """Also what root meets; one warning a process."""
    (root / blocked).parent.mkdir(parents=True, exist_ok=True)
    (root / blocked).write_text("here first")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            artefacts.store("cubin", KEY, ARTEFACT)
            assert artefacts.load("cubin", KEY) is None
    (only,) = warned(caught)
    text = str(only.message)
    assert str(root) in text
    assert "Not a directory" in text
    assert "KERNBRIDGE_CACHE_DIR" in text


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_write_permission(root):
    root.mkdir(mode=0o500)
    with pytest.warns(KernbridgeWarning, match="Permission denied"):
        artefacts.store("cubin", KEY, ARTEFACT)
    assert artefacts.load("cubin", KEY) is None


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk(path, root, monkeypatch):
    """Nothing is left behind, and what was there stays."""
    monkeypatch.setattr(
        "builtins.open", lambda fd, mode, open=open: (os.close(fd), open("/dev/full", mode))[1]
    )
    with pytest.warns(KernbridgeWarning, match="No space left"):
        artefacts.store("cubin", KEY, Artefact({"new": 1}, (b"x" * 100_000,)))
    monkeypatch.undo()
    monkeypatch.setenv("KERNBRIDGE_CACHE_DIR", str(root))
    assert artefacts.load("cubin", KEY) == ARTEFACT
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.exhaustive
def test_many_processes(root):
    """Everyone sees nothing or a whole artefact, whoever wrote it."""
    program = """
import sys
from kernbridge._src.forge.artefacts import Artefact, load, store
me = int(sys.argv[1])
for i in range(150):
    key = bytes([i % 3]) * 32
    store("cubin", key, Artefact({"from": me}, (bytes([me]) * 200_000,)))
    found = load("cubin", key)
    assert found is not None
    assert found.blobs == (bytes([found.meta["from"]]) * 200_000,)
"""
    each = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", program, str(i)], stdout=subprocess.PIPE
        )
        for i in range(3)
    ]
    seen = [p.communicate()[0] for p in each]
    assert [p.returncode for p in each] == [0] * len(each), seen
    assert len([p for p in root.rglob("*") if p.is_file()]) == 3  # no temporary file is left
