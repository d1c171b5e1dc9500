"""A cache folder that another user could replace is not used, and the reason is named."""

import os
import shutil
import tempfile

import pytest
from kernbridge import KernbridgeWarning, cache
from kernbridge._src.forge import artefacts
from kernbridge._src.toolchain.build import Request, build

CC = shutil.which("gcc") or shutil.which("cc")
THEIRS = 54321  # a user whom this process is not
pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can make folders of other users"),
]
KEY = bytes(range(32))


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch):
    monkeypatch.setattr(artefacts, "_warned", False)


@pytest.fixture
def request_():
    return Request("m", "c", "int answer(void) { return 2; }", "spec")


def foreign_parent(path):
    (path / "theirs" / "cache").mkdir(parents=True, mode=0o700)
    os.chown(path / "theirs", THEIRS, THEIRS)
    return path / "theirs" / "cache", rf"the folder .*/theirs belongs to number {THEIRS} \(mode 0"


def foreign_folder(path):
    (path / "cache").mkdir(mode=0o755)
    os.chown(path / "cache", THEIRS, THEIRS)
    return path / "cache", rf"the folder .*/cache belongs to number {THEIRS} \(mode 0755\)"


def foreign_parent_of_nothing(path):
    (path / "theirs").mkdir(mode=0o777)
    os.chown(path / "theirs", THEIRS, THEIRS)
    return path / "theirs" / "not" / "yet", rf"the folder .*/theirs belongs to number {THEIRS}"


def open_parent(path):
    (path / "open" / "cache").mkdir(parents=True, mode=0o700)
    (path / "open").chmod(0o777)
    return path / "open" / "cache", r"everybody may write to the folder .*/open \(mode 0777\)"


def open_to_a_group(path):
    (path / "group" / "cache").mkdir(parents=True, mode=0o700)
    os.chown(path / "group", 0, THEIRS)
    (path / "group").chmod(0o775)
    return path / "group" / "cache", rf"the group number {THEIRS} may write to .*/group \(mode 0775"


def foreign_link(path):
    (path / "sticky").mkdir()
    (path / "sticky").chmod(0o1777)
    (path / "real").mkdir(mode=0o700)
    (path / "sticky" / "link").symlink_to(path / "real")
    os.chown(path / "sticky" / "link", THEIRS, THEIRS, follow_symlinks=False)
    return path / "sticky" / "link" / "cache", rf"the link .*/link belongs to number {THEIRS}"


def foreign_behind_a_link(path):
    _, message = foreign_parent(path)
    (path / "mine").symlink_to("theirs/cache")
    return path / "mine", message


def foreign_version(path):
    """Somebody was faster in a folder where everybody may make one."""
    (path / "sticky" / "v1").mkdir(parents=True)
    (path / "sticky").chmod(0o1777)
    os.chown(path / "sticky" / "v1", THEIRS, THEIRS)
    return path / "sticky", rf"the folder .*/v1 belongs to number {THEIRS}"


CASES = [
    foreign_parent,
    foreign_folder,
    foreign_parent_of_nothing,
    open_parent,
    open_to_a_group,
    foreign_link,
    foreign_behind_a_link,
    foreign_version,
]


@pytest.mark.parametrize("case", CASES)
def test_what_others_could_replace(case, tmp_path, monkeypatch, request_):
    folder, message = case(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setenv("KERNBRIDGE_CACHE_DIR", str(folder))
    with pytest.warns(KernbridgeWarning, match=rf"{message}.*\[KB5001\]") as told:
        artefacts.store("numba", KEY, artefacts.Artefact({}, (b"code",)))
    assert len(told) == 1
    assert f"the cache folder {folder} cannot be used" in str(told[0].message)
    assert "Set KERNBRIDGE_CACHE_DIR to a folder" in str(told[0].message)
    assert artefacts.load("numba", KEY) is None
    if CC is not None:
        built = build(request_)
        assert not built.path.is_relative_to(tmp_path)
    assert cache.clear_cache() == 0
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_that_is_given_away_later(tmp_path, monkeypatch, request_, run_python):
    """What was kept there is not loaded any more."""
    (tmp_path / "parent").mkdir(mode=0o755)
    monkeypatch.setenv("KERNBRIDGE_CACHE_DIR", str(tmp_path / "parent" / "cache"))
    artefact = artefacts.Artefact({}, (b"code",))
    artefacts.store("numba", KEY, artefact)
    assert artefacts.load("numba", KEY) == artefact
    os.chown(tmp_path / "parent", THEIRS, THEIRS)
    with pytest.warns(KernbridgeWarning, match=r"belongs to.*\[KB5001\]"):
        assert artefacts.load("numba", KEY) is None
    os.chown(tmp_path / "parent", 0, 0)
    assert artefacts.load("numba", KEY) == artefact


def test_what_nobody_else_can_replace(tmp_path, monkeypatch, recwarn):
    (tmp_path / "sticky").mkdir()
    (tmp_path / "sticky").chmod(0o1777)
    (tmp_path / "grouped").mkdir()
    (tmp_path / "grouped").chmod(0o775)  # of root's group
    (tmp_path / "link").symlink_to(tmp_path / "grouped")
    artefact = artefacts.Artefact({}, (b"code",))
    for place in ("sticky", "grouped/cache", "link/cache/deep", "plain/not/yet"):
        monkeypatch.setenv("KERNBRIDGE_CACHE_DIR", str(tmp_path / place))
        artefacts.store("numba", KEY, artefact)
        assert artefacts.load("numba", KEY) == artefact
    assert not [w for w in recwarn if w.category is KernbridgeWarning]


def test_many_links(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert "too many links" in artefacts.why_not(tmp_path / "a" / "cache")


def test_a_temporary_folder_of_others(tmp_path, monkeypatch, request_):
    """Without a cache a library is built where nobody else can replace it either."""
    (tmp_path / "theirs").mkdir(mode=0o777)
    os.chown(tmp_path / "theirs", THEIRS, THEIRS)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "theirs"))
    folder = artefacts.private.__wrapped__(os.getpid())
    assert not folder.is_relative_to(tmp_path)
