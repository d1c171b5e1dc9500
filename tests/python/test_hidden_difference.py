"""A seeded property: two kernels, functions or modules that differ in one hidden thing differ.

2,000 pairs are drawn; the seed is printed with every failure and may be chosen by
``KERNBRIDGE_SEED``. Which draws execute:

- numba (850): both kernels of a pair run on the CPU, through JAX, in programs of a hundred pairs,
  and are compared bit by bit with plain Python's run of the same source.
- callable (700) and cuda (250): likewise, as CUDA on the CPU, in a process without the fake driver.
- modules (180 of 200): the keys under which two builds are kept are compared; nothing is built.
- modules (20 of 200): both sources are built by the C compiler and called.

Kernels are drawn from small pools and share their machine code by identity across all draws, so
that two equal identities of different things give a wrong number.
"""

import ctypes
import os
import random

import hidden
import pytest
from kernbridge import _build_command
from kernbridge._build import Request, build

pytestmark = pytest.mark.once
SEED = int(os.environ.get("KERNBRIDGE_SEED", "20261122"))

SOURCE = """
#include "hidden.h"
#ifndef D
#define D 0
#endif
__attribute__((visibility("default"))) double answer(void) { return {value} + 10 * D + 100 * H; }
"""
NUMBERS = ("0.0", "-0.0", "1", "2", "2.5")


def header(folder, value):
    """A folder with a header of its own."""
    place = folder / f"include{value}"
    place.mkdir(exist_ok=True)
    (place / "hidden.h").write_text(f"#define H {value}\n")
    return str(place)


# How a request (its changes, the environment's) is made of a number: one line for a hidden thing.
BY_KEY = {
    "source": lambda v, folder: ({"source": SOURCE.replace("{value}", v)}, {}),
    "-D": lambda v, folder: ({"cflags": (f"-DD={v}",)}, {}),
    "order of -D": lambda v, folder: ({"cflags": tuple(f"-DD={n}" for n in ("7", v))}, {}),
    "-l": lambda v, folder: ({"ldflags": (f"-lhidden{v}",)}, {}),
    "folder of headers": lambda v, folder: ({"include_paths": (header(folder, v),)}, {}),
    "spec": lambda v, folder: ({"spec": v}, {}),
    "name": lambda v, folder: ({"name": f"hidden{v}"}, {}),
    "optimization": lambda v, folder: ({"optimization_level": NUMBERS.index(v) % 4}, {}),
    "CPATH": lambda v, folder: ({}, {"CPATH": header(folder, v)}),
    "C_INCLUDE_PATH": lambda v, folder: ({}, {"C_INCLUDE_PATH": header(folder, v)}),
    "LIBRARY_PATH": lambda v, folder: ({}, {"LIBRARY_PATH": header(folder, v)}),
}
BUILT = ("source", "-D", "folder of headers", "header")


def drawn(kind, n, run_python):
    """Draw pairs in a fresh process, and fail with what came out wrong."""
    print(f"seed {SEED}")
    program = (
        f"import hidden\nfor t in hidden.draw({kind!r}, {SEED}, {n})[:20]: print('wrong', t)\n"
    )
    printed = run_python(program + f"print('drawn', {n})\n")
    assert "wrong" not in printed, printed
    assert f"drawn {n}" in printed


def test_numba_kernels(run_python):
    drawn("numba", 850, run_python)


def test_functions_that_launch(run_python):
    pytest.importorskip("numba.cuda")
    drawn("callable", 700, run_python)


def test_cuda_kernels(run_python):
    pytest.importorskip("numba.cuda")
    drawn("cuda", 250, run_python)


def request_of(thing, value, folder):
    changes, environment = BY_KEY[thing](value, folder)
    usual = {"name": "hidden", "language": "c", "source": SOURCE.replace("{value}", "0"),
             "spec": "", "include_paths": (header(folder, "0"),)}  # fmt: skip
    return Request(**{**usual, **changes}), environment


def test_keys_of_modules(tmp_path, monkeypatch):
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    for i in range(180):
        thing = rng.choice(sorted(BY_KEY))
        values = rng.sample(NUMBERS[:4], 2)
        keys = []
        for value in values + values[:1]:
            request, environment = request_of(thing, value, tmp_path)
            with monkeypatch.context() as patch:
                for name, text in environment.items():
                    patch.setenv(name, text)
                keys.append(_build_command.plan(request).key)
        assert keys[0] != keys[1], f"seed {SEED}, draw {i}: {thing} {values}"
        assert keys[0] == keys[2], f"seed {SEED}, draw {i}: {thing} {values}"


def test_modules_that_are_built(tmp_path, root):
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    for i in range(20):
        thing = rng.choice(BUILT)
        for value in rng.sample(NUMBERS, 2):
            if thing == "header":  # the same file with other content, of another length
                request, _ = request_of("source", "0", tmp_path)
                header(tmp_path, "0")
                text = f"#define H {value}\n" + "\n" * rng.randrange(1, 1000)
                (tmp_path / "include0" / "hidden.h").write_text(text)
            else:
                header(tmp_path, "0")
                request, _ = request_of(thing, value, tmp_path)
            answer = ctypes.CDLL(str(build(request).path)).answer
            answer.restype = ctypes.c_double
            factor = {"source": 1, "-D": 10}.get(thing, 100)
            assert answer() == factor * float(value), f"seed {SEED}, draw {i}: {thing} {value}"


def test_the_draws_notice_a_collision(monkeypatch):
    """With an identity that is blind to captured values, the same draws are wrong."""
    from kernbridge import _fingerprint

    monkeypatch.setattr(_fingerprint._Walk, "feed", lambda self, value, path, owner=None: None)
    assert hidden.draw("numba", SEED, 20)
