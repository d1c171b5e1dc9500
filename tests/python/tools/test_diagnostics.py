"""`kernbridge doctor`: what it tells, and when it fails."""

import importlib.util
import io
import os
import sys

import numpy as np
import pytest
from kernbridge import cli
from kernbridge._src.base.errors import KernelToolchainError
from kernbridge._src.cuda_kernel import nvrtc
from kernbridge._src.source import targets
from kernbridge._src.store import artefacts
from kernbridge._src.tools import doctor, front_ends

pytestmark = pytest.mark.once


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNBRIDGE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def told():
    text = io.StringIO()
    works = doctor.print_diagnostics(text)
    return works, text.getvalue()


def without_compilers(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("CC", "CXX", "CONDA_PREFIX", "CUDA_PATH", "KERNBRIDGE_NVCC_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))


def test_what_is_told(root, monkeypatch):
    monkeypatch.setenv("KERNBRIDGE_COMPILE_TIMEOUT", "60 s")
    monkeypatch.setattr(targets, "list_registered_targets", lambda: ["a.one", "b.two"])
    artefacts.store("cubin", bytes(32), artefacts.Artefact({}, ()))
    works, text = told()
    assert works
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[0] == "kernels"
    python = next(line for line in lines if line.startswith("Python "))
    assert python.startswith(f"Python {sys.version.split()[0]} on ")
    for expected in (
        *(f"folder {root}", "limit 2000 MB", "targets a.one", "b.two"),
        "KERNBRIDGE_COMPILE_TIMEOUT '60 s'",
    ):
        assert expected in lines
    assert any(line.startswith("holds 1 entries, 0.0 MB") for line in lines)


def test_values_are_aligned(monkeypatch):
    monkeypatch.setenv("KERNBRIDGE_A_LONG_NAME_OF_SOMETHING", "value")
    body = told()[1].split("what to do")[0].splitlines()
    rows = [line for line in body if line.startswith("  ")]
    column = next(line for line in rows if "A_LONG_NAME" in line).index("value")
    assert all(line[column - 1] == " " != line[column] for line in rows)


def test_missing_compilers(monkeypatch, tmp_path):
    without_compilers(monkeypatch, tmp_path)
    works, text = told()
    for language in ("C", "C++", "CUDA"):
        assert f"no {language} compiler" in text
    assert "apt-get install g++" in text
    assert "g++ on PATH: no such program" in text
    assert works == (importlib.util.find_spec("numba") is not None)


def not_found():
    raise KernelToolchainError("no NVRTC")


def test_nothing_works(monkeypatch, tmp_path, capsys):
    without_compilers(monkeypatch, tmp_path)
    real = importlib.util.find_spec
    without = ("numba", "numba_cuda_mlir")
    monkeypatch.setattr(importlib.util, "find_spec", lambda n: None if n in without else real(n))
    monkeypatch.setattr(nvrtc, "library", not_found)
    assert cli.main(["doctor"]) == 1
    printed = capsys.readouterr().out
    assert "Numba is not installed" in printed
    assert "pip install 'kernbridge[numba]'" in printed
    assert printed.count("not ready") == 6
    assert printed.endswith("self-test\n  no kind of kernel is ready\n")


def test_known_trouble(monkeypatch):
    versions = {"numpy": "2.5.0rc1", "numba-cuda": "0.30.4"}
    real = importlib.util.find_spec
    there = ("numba", "numba_cuda")
    monkeypatch.setattr(importlib.util, "find_spec", lambda n: n in there or real(n))
    monkeypatch.setattr(front_ends, "version", versions.get)
    with monkeypatch.context() as removed:
        removed.delattr(np, "row_stack", raising=False)
        assert "pip install 'numpy<2.5'" in told()[1]
        removed.setattr(np, "row_stack", np.vstack, raising=False)  # a program may add it
        assert "numpy<2.5" not in told()[1]
    versions["numpy"] = "2.4.6"
    assert "numpy<2.5" not in told()[1]
    versions |= {"numpy": "2.6.0", "numba-cuda": "0.31.0"}
    assert "numpy<2.5" not in told()[1]
    assert "CUDASIM" not in told()[1]
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")
    assert "NUMBA_ENABLE_CUDASIM is set" in told()[1]
    monkeypatch.setenv("KERNBRIDGE_CACHE_SIZE", "plenty")
    assert "KERNBRIDGE_CACHE_SIZE is 'plenty'" in told()[1]


def test_gpus(monkeypatch):
    import kernbridge._core as _core

    monkeypatch.setattr(_core, "device_count", lambda: (0, "no driver, they say"))
    text = told()[1]
    assert "none: no driver, they say" in text
    assert "min_graph_size" not in text
    monkeypatch.setattr(_core, "device_count", lambda: (2, ""))
    monkeypatch.setattr(_core, "compute_capability", lambda i: (9, i))
    text = told()[1]
    assert "2, compute capability 9.0, 9.1" in text
    assert "XLA_FLAGS=--xla_gpu_graph_min_graph_size=1" in text
    flags = os.environ.get("XLA_FLAGS", "")
    monkeypatch.setenv("XLA_FLAGS", f"{flags} --xla_gpu_graph_min_graph_size=2")
    assert "=1 lets XLA" not in told()[1]


def test_the_command(run_python, root, capsys):
    run = """import sys, runpy
sys.argv[1:] = ["doctor", "--no-self-test"]
runpy.run_module("kernbridge", run_name="__main__")"""
    assert "versions" in run_python(run, KERNBRIDGE_CACHE_DIR=str(root))
    artefacts.store("cubin", bytes(32), artefacts.Artefact({}, (bytes(10**6),)))
    for arguments, expected in (
        (["cache"], f"{root}: 1 entries, 1.0 MB\n"),
        (["clear", "m"], "0 removed\n"),
        (["clear"], "1 removed\n"),
        (["cache"], f"{root}: 0 entries, 0.0 MB\n"),
    ):
        assert cli.main(arguments) == 0
        assert capsys.readouterr().out == expected
    assert cli.main([]) == 0
    assert "usage: kernbridge" in capsys.readouterr().out


def test_jax_is_not_started(run_python):
    program = """
import jax, io
from kernbridge._src.tools.doctor import print_diagnostics
text = io.StringIO()
print_diagnostics(text)
from jax._src import xla_bridge
assert not xla_bridge.backends_are_initialized()
assert "not started" in text.getvalue()
jax.devices()
print_diagnostics(text)
assert "cpu: 4 devices" in text.getvalue()
"""
    run_python(program, JAX_PLATFORMS="", CUDA_VISIBLE_DEVICES="")
