"""A seeded property: two kernels, functions or modules that differ in one hidden thing differ.

2,000 pairs are drawn; the seed is printed with every failure and may be chosen by
``KERNBRIDGE_SEED``. Which draws execute:

- numba (850): both kernels of a pair run on the CPU, through JAX, in programs of a hundred pairs,
  and are compared bit by bit with plain Python's run of the same source.
- callable (700) and cuda (250): likewise, as CUDA on the CPU, in a process without the fake driver.
- modules (180 of 200): the keys under which two builds are kept are compared; nothing is built.
- modules (20 of 200): both sources are built by the C compiler and called.
- files and variables (24 more): one request is built and called, with other contents each time.
- headers of NVRTC (12 more): one request is compiled, and the number is read from its PTX.

Kernels are drawn from small pools and share their machine code by identity across all draws, so
that two equal identities of different things give a wrong number.
"""

import ctypes
import os
import random
import re
import shutil
import subprocess

import hidden
import kernbridge
import pytest
from kernbridge._ext.nvrtc import nvrtc
from kernbridge._src.forge.obtain import held
from kernbridge._src.toolchain.build import LibraryJob, Request, build

pytestmark = pytest.mark.once
CC = shutil.which("gcc") or shutil.which("cc")
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
ANSWER = '__attribute__((visibility("default"))) double answer(void) { return A; }\n'
INCBIN = """__asm__(".pushsection .rodata\\nblob: .incbin \\"@\\"\\n.byte 0\\n.popsection");
extern const char blob[] __attribute__((visibility("hidden")));
#define A (blob[0] - '0')
"""


def define(folder, value):
    folder.mkdir(exist_ok=True)
    (folder / "a.h").write_text(f"#define A {value}\n")
    return str(folder)


def library(value, folder, patch):
    """The content of a static library."""
    (folder / "l.c").write_text(f"int l(void) {{ return {value}; }}")
    subprocess.run([CC, "-fPIC", "-c", "l.c"], cwd=folder, check=True)
    (folder / "libl.a").unlink(missing_ok=True)
    subprocess.run(["ar", "rcD", "libl.a", "l.o"], cwd=folder, check=True)
    return {"source": "int l(void);\n#define A l()\n" + ANSWER, "ldflags": (f"-L{folder}", "-ll")}


def earlier_header(value, folder, patch):
    """A header of a folder that is searched first: 1 is that of the second one."""
    early, late = define(folder / "early", value), define(folder / "late", 1)
    if value == 1:
        (folder / "early" / "a.h").unlink()
    return {"source": "#include <a.h>\n" + ANSWER, "include_paths": (early, late)}


def has_include(value, folder, patch):
    """Whether there is a header: 1 is its absence."""
    asks = "#if __has_include(<a.h>)\n#include <a.h>\n#else\n#define A 1\n#endif\n"
    define(folder, value)
    if value == 1:
        (folder / "a.h").unlink()
    return {"source": asks + ANSWER, "include_paths": (str(folder),)}


def assembler(value, folder, patch):
    """What the assembler includes, which nothing reports."""
    (folder / "blob").write_text(str(value))
    return {"source": INCBIN.replace("@", str(folder / "blob")) + ANSWER}


def wrapper(value, folder, patch):
    """A variable that a compiler script reads."""
    script = folder / "cc"
    if not script.exists():
        script.write_text(f'#!/bin/sh\nexec {CC} "$@" "-DA=${{HIDDEN_NUMBER:-0}}"\n')
        script.chmod(0o755)
    patch.setenv("CC", str(script))
    patch.setenv("HIDDEN_NUMBER", str(value))
    return {"source": ANSWER}


def relative_path(value, folder, patch):
    """The working folder, where CPATH is relative to it."""
    here = folder / str(value)
    here.mkdir(exist_ok=True)
    define(here / "inc", value)
    patch.chdir(here)
    patch.setenv("CPATH", "inc")
    return {"source": "#include <a.h>\n" + ANSWER}


FOUND = (library, earlier_header, has_include, assembler, wrapper, relative_path)


def drawn(kind, n, run_python):
    """Draw pairs in a fresh process, and fail with what came out wrong."""
    print(f"seed {SEED}")
    program = (
        f"import hidden\nfor t in hidden.draw({kind!r}, {SEED}, {n})[:20]: print('wrong', t)\n"
    )
    printed = run_python(program + f"print('drawn', {n})\n")
    assert "wrong" not in printed, printed
    assert f"drawn {n}" in printed


MANY = pytest.mark.parametrize("share", [32, pytest.param(1, marks=pytest.mark.exhaustive)])


@pytest.mark.exhaustive
@MANY
def test_numba_kernels(run_python, share):
    drawn("numba", 850 // share, run_python)


@pytest.mark.exhaustive
@MANY
def test_functions_that_launch(run_python, share):
    pytest.importorskip("numba.cuda")
    drawn("callable", 700 // share, run_python)


@pytest.mark.exhaustive
@MANY
def test_cuda_kernels(run_python, share):
    pytest.importorskip("numba.cuda")
    drawn("cuda", 250 // share, run_python)


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
                keys.append(LibraryJob(request).key)
        assert keys[0] != keys[1], f"seed {SEED}, draw {i}: {thing} {values}"
        assert keys[0] == keys[2], f"seed {SEED}, draw {i}: {thing} {values}"


@pytest.mark.exhaustive
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


@pytest.mark.exhaustive
@pytest.mark.skipif(CC is None, reason="no C compiler here")
def test_modules_of_which_a_file_or_a_variable_changes(tmp_path, root, monkeypatch):
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    for i in range(24):
        thing = FOUND[i] if i < len(FOUND) else rng.choice(FOUND)  # each at least once
        folder = tmp_path / thing.__name__
        folder.mkdir(exist_ok=True)
        for value in rng.sample(range(1, 5), 2):
            with monkeypatch.context() as patch:
                changes = thing(value, folder, patch)
                request = Request(**{"name": "hidden", "language": "c", "spec": "", **changes})
                answer = ctypes.CDLL(str(build(request).path)).answer
            answer.restype = ctypes.c_double
            assert answer() == value, f"seed {SEED}, draw {i}: {thing.__name__} {value}"


def test_headers_of_nvrtc(tmp_path, root, gpu):
    try:
        nvrtc.library()
    except kernbridge.KernelToolchainError as e:
        pytest.skip(str(e))
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    source = '#include "a.h"\nextern "C" __global__ void k(int *o) { *o = A; }\n'
    (tmp_path / "late").mkdir()
    for i in range(12):
        for value in rng.sample(range(2, 6), 2):
            early = rng.random() < 0.5  # in a folder that is searched first, or in the second one
            define(tmp_path / "late", 1 if early else value)
            define(tmp_path / "early", value)
            if not early:
                (tmp_path / "early" / "a.h").unlink()
            if rng.random() < 0.5:
                held("nvrtc").clear()  # what the process holds; what is on disk stays
            folders = (str(tmp_path / "early"), str(tmp_path / "late"))
            request = nvrtc.Compilation("k", source, "k.cu", "k", (), folders)
            stored = re.search(r"mov\.\w+\s+%\w+, ([0-9]+);", nvrtc.compile_kernel(request).ptx)
            assert stored[1] == str(value), f"seed {SEED}, draw {i}: {value}"


@pytest.mark.exhaustive
def test_the_draws_notice_a_collision(monkeypatch):
    """With an identity that is blind to captured values, the same draws are wrong."""
    from kernbridge._src.keys import fingerprint

    monkeypatch.setattr(fingerprint._Walk, "feed", lambda self, value, path, owner=None: None)
    assert hidden.draw("numba", SEED, 20)
