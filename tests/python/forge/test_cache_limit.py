"""How large the cache may be, what goes first, and clearing it."""

import json
import os
import shutil
import time

import jax
import kernbridge
import pytest
from kernbridge import cache
from kernbridge._src.forge import artefacts
from kernbridge._src.toolchain.build import Request, build

NO_COMPILER = (shutil.which("gcc") or shutil.which("cc")) is None
pytestmark = [pytest.mark.once, pytest.mark.skipif(NO_COMPILER, reason="no C compiler here")]


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNBRIDGE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def request_():
    return Request("m", "c", "int answer(void) { return 42; }", "spec")


def module(request, used):
    """Build, and let it be used last so many hours ago."""
    path = build(request).path
    then = time.time() - used * 3600
    os.utime(path, (then, then))
    return path


@pytest.fixture
def shrink(request_, monkeypatch):
    """Let the cache have at most so many bytes, which the next build sees to."""

    def shrink(most):
        monkeypatch.setenv("KERNBRIDGE_CACHE_SIZE", str(most))
        build(request_._replace(spec="recent", force_rebuild=True))
        return cache.stats().disk_bytes

    return shrink


def test_the_least_recently_used_goes_first(request_, root, shrink):
    paths = {i: module(request_._replace(spec=str(i)), used=i) for i in (3, 1, 4, 2)}
    artefact = key_of(5)
    artefacts.store("cubin", artefact, artefacts.Artefact({}, (b"x" * 1000,)))
    (old,) = root.rglob("*.bin")
    os.utime(old, (1, 1))
    recent = build(request_._replace(spec="recent")).path
    shrink(cache.stats().disk_bytes + 10**6)
    assert all(p.exists() for p in (*paths.values(), old, recent))
    for keep in (4, 3, 2, 1, 0):
        one_less = cache.stats().disk_bytes - 1
        assert shrink(one_less) <= one_less
        assert [i for i in (1, 2, 3, 4) if paths[i].exists()] == list(range(1, keep + 1))
        assert not old.exists()
    assert [paths[i].parent.exists() for i in paths] == [False] * 4
    shrink(1)
    assert recent.exists()  # somebody may be about to load it


def key_of(n):
    return bytes([n]) * 32


def test_a_hit_keeps_a_library(request_, shrink):
    one, two = request_._replace(spec="one"), request_._replace(spec="two")
    used, unused = module(one, used=9), module(two, used=8)
    build(one)
    shrink(10**9)
    shrink(cache.stats().disk_bytes - 1)
    assert (used.exists(), unused.exists()) == (True, False)
    assert not build(one).built
    assert build(two).built


def test_an_artefact_that_is_read_stays(root, shrink):
    for n in (1, 2):
        artefacts.store("cubin", key_of(n), artefacts.Artefact({"n": n}, ()))
    for path in root.rglob("*.bin"):
        os.utime(path, (1, 1))
    artefacts.load("cubin", key_of(1))
    shrink(1)
    assert artefacts.load("cubin", key_of(1)) is not None
    assert artefacts.load("cubin", key_of(2)) is None


def test_a_build_keeps_the_limit(request_, monkeypatch):
    old = module(request_, used=9)
    monkeypatch.setenv("KERNBRIDGE_CACHE_SIZE", "0")
    build(request_._replace(spec="1"))
    monkeypatch.setenv("KERNBRIDGE_CACHE_SIZE", "1 GB")
    build(request_._replace(spec="2"))
    assert old.exists()
    monkeypatch.setenv("KERNBRIDGE_CACHE_SIZE", "1kB")
    build(request_._replace(spec="3"))
    assert not old.exists()


def test_limits(monkeypatch, request_, capfd):
    from kernbridge import cli

    for text, expected in (
        *(("", 2 * 10**9), ("0", 0), ("500MB", 500 * 10**6), ("1.5 GiB", 3 << 29), ("7", 7)),
        *(("10k", 10_000), ("1tb", 10**12)),
    ):
        monkeypatch.setenv("KERNBRIDGE_CACHE_SIZE", text)
        capfd.readouterr()
        assert cli.main(["cache", "--json"]) == 0
        assert (json.loads(capfd.readouterr().out)["limit_bytes"] or 0) == expected
    for text in ("much", "-1", "1 XB", "GB"):
        monkeypatch.setenv("KERNBRIDGE_CACHE_SIZE", text)
        with pytest.raises(ValueError, match=r"\[KB8002\]"):
            build(request_)
        with pytest.raises(ValueError, match=r"\[KB8002\]"):
            jax.eval_shape(kernbridge.elementwise(lambda x: x - 42.5), 1.0)
    assert cache.stats().disk_entries == 0  # it is told before the work


def test_clearing(request_, root):
    requests = [request_._replace(name=n) for n in ("add", "add_more", "add_0123456789abcdef")]
    for request in requests:
        build(request)
    build(requests[0]._replace(spec="other"))
    artefacts.store("cubin", key_of(1), artefacts.Artefact({}, ()))
    foreign = [root / "notes.txt", root / "v1" / "notes.txt", root / "v1" / "modules" / "mine"]
    for path in foreign:
        path.write_text("keep me")
    assert cache.stats().disk_entries == 5
    assert cache.clear_cache("ad") == 0
    assert cache.clear_cache("add") == 2
    assert [build(r).built for r in requests] == [True, False, False]
    assert cache.clear_cache() == 4
    assert (cache.stats().disk_entries, cache.stats().disk_bytes) == (0, 0)
    assert all(path.exists() for path in foreign)
    assert [build(r).built for r in requests] == [True] * 3
