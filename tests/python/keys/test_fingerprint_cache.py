"""Kernels that a program makes again: when their fingerprint is looked up, and when not."""

import math
from collections import namedtuple

import numba
import numpy as np
import pytest
from kernbridge._src.base.lru import LRUCache
from kernbridge._src.keys import fingerprint
from numba import njit

pytestmark = pytest.mark.once


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch):
    monkeypatch.setattr(fingerprint, "_taken", LRUCache(256))


@pytest.fixture
def walks(monkeypatch):
    """What is walked, in a list."""
    walked, take = [], fingerprint.take
    monkeypatch.setattr(fingerprint, "take", lambda kernel: walked.append(kernel) or take(kernel))
    return walked


def make(n, of=np, **options):
    @njit(**options)
    def kernel(x, out):
        for i in numba.prange(len(x)):
            out[i] = of.sqrt(x[i]) * n

    return kernel


def test_a_kernel_that_is_made_again_is_not_walked_again(walks):
    first, second = make(2), make(2)
    assert fingerprint.recall(first) == fingerprint.recall(second)
    assert walks == [first]


@pytest.mark.parametrize("other", [3, 2.0, True, -2, "2", None])
def test_another_value_is_another_kernel(walks, other):
    kernels = [make(2), make(other), make(2)]
    assert len({fingerprint.recall(kernel).digest for kernel in kernels}) == 2
    assert walks == kernels[:2]


def test_zeros_of_both_signs_differ(walks):
    assert fingerprint.recall(make(0.0)) != fingerprint.recall(make(-0.0))


def test_modules_and_options_count(walks):
    kernels = [make(2), make(2, math), make(2, fastmath=True), make(2, parallel=True)]
    assert len({fingerprint.recall(kernel).digest for kernel in kernels}) == 4
    assert walks == kernels


def test_numbas_own_setting_counts(walks, monkeypatch):
    plain = fingerprint.recall(make(2))
    monkeypatch.setattr("numba.core.config.BOUNDSCHECK", 1)
    assert fingerprint.recall(make(2)) != plain


Point = namedtuple("Point", "x y")


def helper(x):
    return x


def with_a_default():
    @njit
    def kernel(x, out, n=2):
        out[0] = x[0] * n

    return kernel


def with_signatures():
    kernel = make(2)
    kernel.compile("void(float64[:], float64[:])")
    kernel.disable_compile()
    return kernel


UNLIKE = {
    "a function of the user": lambda: make(helper),
    "a kernel": lambda: make(njit(helper)),
    "an array": lambda: make(np.ones(2)),
    "a tuple": lambda: make((1, 2)),
    "a type without a name": lambda: make(type("Local", (), {})),
    "a named tuple": lambda: make(Point),
    "a default": with_a_default,
    "signatures": with_signatures,
}


@pytest.mark.parametrize("make_it", UNLIKE.values(), ids=UNLIKE)
def test_what_has_parts_is_walked_each_time(walks, make_it):
    kernels = [make_it(), make_it()]
    for kernel in kernels:
        fingerprint.recall(kernel)
    assert walks == kernels


def test_a_value_that_changes_while_it_is_walked_is_not_remembered(monkeypatch):
    names = {"n": 2}
    exec("def f(x, out): out[0] = x[0] * n", names)
    kernel, take = njit(names["f"]), fingerprint.take

    def changing(dispatcher):
        names["n"] = 3
        return take(dispatcher)

    monkeypatch.setattr(fingerprint, "take", changing)
    fingerprint.recall(kernel)
    monkeypatch.undo()
    names["n"] = 2
    assert fingerprint.recall(kernel) == fingerprint.take(kernel)


def test_a_library_that_is_patched_counts(walks, monkeypatch):
    before = fingerprint.recall(make(2, math))
    monkeypatch.setattr(math, "sqrt", helper)
    after = fingerprint.recall(make(2, math))
    assert after == fingerprint.take(make(2, math)) != before
