"""What is loaded from the cache, what is not trusted, and where nothing can be kept."""

import os
import shutil
from pathlib import Path

import pytest
from kernbridge import KernbridgeWarning, cache
from kernbridge._src.forge import artefacts
from kernbridge._src.toolchain.build import Request, build, library

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


def test_damaged_libraries(request_, compiler):
    path = build(request_).path
    data = path.read_bytes()
    flipped = data[:5000] + bytes([data[5000] ^ 1]) + data[5001:]
    for n, damaged in enumerate((data[:-1], b"", flipped, data + b"\0"), 2):
        path.unlink()
        path.write_bytes(damaged)
        path.chmod(0o700)
        assert build(request_).built
        assert compiler() == n
    path.unlink()
    assert build(request_).built
    path.unlink()
    path.symlink_to("/etc/passwd")
    assert build(request_).built
    assert not path.is_symlink()


def test_a_large_library_is_known_by_its_size(request_, monkeypatch, compiler):
    monkeypatch.setattr(library, "HASHED_LIBRARY", 0)
    path = build(request_).path
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data[:-1])
    path.chmod(0o700)
    assert build(request_).built
    assert not build(request_).built
    assert compiler() == 2


def test_a_manifest_of_another_key(request_):
    """A folder's name has a part of the key only."""
    manifest = build(request_).path.parent / "manifest.json"
    other = manifest.read_bytes().replace(b'{"key":"', b'{"key":"0')
    manifest.write_bytes(other)
    assert build(request_).built


def test_damaged_manifests(request_, compiler):
    manifest = build(request_).path.parent / "manifest.json"
    data = manifest.read_bytes()
    lies = [b"", data[:-5], b"[]", b'{"key":1}', data.replace(b'"digest"', b'"dig"')]
    files = (b'"x",', b'["x",1,2,""],', b"[],", b"[1,2,3,4],", b'["x","1","2","3","4"],')
    for wrong in (*(b'"files":[' + file for file in files), b'"absent":[1,'):
        lies.append(data.replace(wrong[: wrong.index(b"[") + 1], wrong))
    lies.append(data.replace(b'"files":[["', b'"files":[["@7'))
    assert all(damaged != data for damaged in lies)
    for n, damaged in enumerate(lies, 2):
        manifest.write_bytes(damaged)
        assert build(request_).built, damaged
        assert compiler() == n
        assert not build(request_).built


@pytest.mark.parametrize("what", ["library", "manifest", "folder"])
def test_what_others_may_write_is_not_loaded(request_, what):
    path = build(request_).path
    target = {"library": path, "manifest": path.parent / "manifest.json", "folder": path.parent}
    target[what].chmod(0o777)
    if what == "folder":
        assert library.read(path.parent, "") == []
    assert build(request_).built


def test_a_generous_umask(request_, root):
    before = os.umask(0)
    try:
        build(request_)
    finally:
        os.umask(before)
    assert not build(request_).built
    assert [p for p in [root, *root.rglob("*")] if p.stat().st_mode & 0o022] == []


@pytest.mark.exhaustive
def test_no_cache(request_, monkeypatch, tmp_path, run_python):
    monkeypatch.setenv("KERNBRIDGE_CACHE_DIR", "0")
    built = build(request_)
    assert built.built
    assert not build(request_).built  # of this process, it is there
    assert not built.path.is_relative_to(tmp_path)
    program = f"""
from kernbridge._src.toolchain.build import Request, build
built = build({request_!r})
assert built.built and built.path.exists()
print(built.path)
"""
    other = Path(run_python(program, KERNBRIDGE_CACHE_DIR="0").strip())
    assert other != built.path
    assert not other.parents[3].exists()  # it went with its process
    assert cache.clear_cache() == 0


def test_a_cache_that_cannot_be_written(request_, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("KERNBRIDGE_CACHE_DIR", str(tmp_path / "file"))
    with pytest.warns(KernbridgeWarning, match=r"Not a directory.*\[KB5001\]"):
        assert build(request_._replace(spec="unwritable")).path.exists()


def test_setting_the_folder(request_, tmp_path, root):
    artefacts.set_cache_dir(tmp_path / "other")
    try:
        assert artefacts.get_cache_dir() == tmp_path / "other"
        assert build(request_).path.is_relative_to(tmp_path / "other")
        with pytest.raises(ValueError, match=r"\[KB8001\]"):
            artefacts.set_cache_dir("")
    finally:
        artefacts.set_cache_dir(None)
    assert artefacts.get_cache_dir() == root
    assert build(request_).path.is_relative_to(root)
