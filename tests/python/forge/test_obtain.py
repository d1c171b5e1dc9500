"""Each artefact is made once: by one thread of one process, while memory or disk has it."""

import contextlib
import gc
import os
import threading
import time
import weakref

import pytest
from kernbridge._src.forge import artefacts
from kernbridge._src.forge import obtain as forge
from kernbridge._src.forge.artefacts import Artefact

pytestmark = pytest.mark.once


class Text(str):
    """A text to which there are weak references."""


class Twice(forge.Recipe):
    kind = "twice"
    label, tool = "a test", "Python"

    def __init__(self, text, lasting=True):
        self.text, self.lasting = text, lasting
        self.identity = text.encode()
        self.made = []

    def made_of(self):
        return (self.text,)

    def make(self):
        self.made.append(self.text)
        return Artefact({"n": 2}, (self.text.encode(),))

    def use(self, made):
        return Text(made.blobs[0].decode() * made.meta["n"])


class Weak(Twice):
    kind, memory = "weak", weakref.WeakValueDictionary


@pytest.fixture(autouse=True)
def nothing_is_made(root):
    forge._made.clear()
    yield
    forge._made.clear()


def test_memory_then_disk():
    first, second = Twice("a"), Twice("a")
    assert forge.obtain(first) == "aa"
    assert forge.obtain(second) is forge.obtain(first)
    forge._made.clear()
    assert forge.obtain(second) == "aa"
    assert (first.made, second.made) == (["a"], [])
    assert list(forge.held("twice")) == [b"a"]


def test_what_does_not_last_stays_in_the_process(root):
    first, second = Twice("a", lasting=False), Twice("a", lasting=False)
    assert forge.obtain(first) is forge.obtain(second)
    forge._made.clear()
    assert forge.obtain(second) == "aa"
    assert second.made == ["a"]
    assert not list(root.rglob("*.bin"))


def test_a_recipe_may_find_as_it_is_made_that_it_does_not_last(root):
    class Late(Twice):
        def make(self):
            self.lasting = False
            return super().make()

    assert forge.obtain(Late("a")) == "aa"
    assert not list(root.rglob("*.bin"))


def test_without_a_folder(monkeypatch):
    monkeypatch.setenv("KERNBRIDGE_CACHE_DIR", "0")
    recipe = Twice("a")
    assert forge.obtain(recipe) == forge.obtain(recipe) == "aa"
    assert recipe.made == ["a"]


def test_results_that_are_used_no_more_go():
    result = forge.obtain(Weak("a"))
    assert forge.obtain(Weak("a")) is result
    del result
    gc.collect()
    assert not forge.held("weak")


def test_an_artefact_that_is_no_use_here_is_made_again():
    class Picky(Twice):
        good = False

        def use(self, made):
            if not self.good and not self.made:
                raise ValueError
            return super().use(made)

    forge.obtain(Picky("a"))
    forge._made.clear()
    again = Picky("a")
    assert forge.obtain(again) == "aa"
    assert again.made == ["a"]


def test_what_fails_is_tried_again():
    class Fails(Twice):
        def make(self):
            self.made.append(1)
            raise RuntimeError("no")

    recipe = Fails("a")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="no"):
            forge.obtain(recipe)
    assert len(recipe.made) == 2
    assert not forge._locks


class Slow(Twice):
    def make(self):
        time.sleep(0.2)
        return super().make()


def test_threads_make_it_once():
    recipe, results = Slow("a"), []
    threads = [
        threading.Thread(target=lambda: results.append(forge.obtain(recipe))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert recipe.made == ["a"]
    assert all(result is results[0] for result in results)


def test_if_making_fails_one_of_those_who_wait_is_the_next():
    making, most, failures, results = [], [], [], []

    class Fails(Twice):
        def make(self):
            making.append(1)
            time.sleep(0.05)
            most.append(len(making))
            making.pop()
            if len(failures) < 3:
                failures.append(1)
                raise RuntimeError("no")
            return super().make()

    def run():
        while True:  # each failure is one thread's, which comes anew
            with contextlib.suppress(RuntimeError):
                results.append(forge.obtain(Fails("a", lasting=False)))
                return

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 4
    assert results == ["aa"] * 6
    assert not forge._locks


@pytest.mark.parametrize("waits", [False, True])
def test_the_disk_is_read_again_only_after_another_process(waits, root, monkeypatch):
    recipe, reads = Twice("a"), []
    load = artefacts.load
    monkeypatch.setattr(artefacts, "load", lambda *a: reads.append(a) or load(*a))
    if waits:
        key = forge.disk_key(recipe)
        other = forge.locked(root, key.hex(), 0)
        assert other.__enter__() == (True, False)
        timer = threading.Timer(0.2, lambda: other.__exit__(None, None, None))
        timer.start()
    assert forge.obtain(recipe) == "aa"
    assert len(reads) == 1 + waits
    assert recipe.made == ["a"]


def test_processes_make_it_once(tmp_path):
    """Each child writes how often it made the artefact."""
    children = []
    for i in range(4):
        child = os.fork()
        if child == 0:
            recipe = Slow("a")
            done = forge.obtain(recipe) == "aa"
            (tmp_path / f"{i}").write_text(str(len(recipe.made)) if done else "wrong")
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    assert sorted((tmp_path / f"{i}").read_text() for i in range(4)) == ["0", "0", "0", "1"]


def test_a_child_does_not_wait_for_a_thread_of_its_parent():
    begun, end = threading.Event(), threading.Event()

    class Waits(Twice):
        def make(self):
            begun.set()
            end.wait(60)
            return super().make()

    thread = threading.Thread(target=forge.obtain, args=(Waits("a", lasting=False),))
    thread.start()
    begun.wait(60)
    child = os.fork()
    if child == 0:
        os._exit(0 if forge.obtain(Twice("a", lasting=False)) == "aa" else 1)
    assert os.waitpid(child, 0)[1] == 0
    end.set()
    thread.join()
