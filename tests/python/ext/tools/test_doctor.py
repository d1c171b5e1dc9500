"""`kernbridge doctor`: its verdicts, its self-test, and when it fails."""

import importlib.util
import io
import json
import os
import sys

import conftest
import jax
import kernbridge
import numpy as np
import pytest
from kernbridge import _core, cli
from kernbridge._ext.nvrtc import nvrtc
from kernbridge._ext.tools import doctor
from kernbridge._ext.tools.doctor import Verdict
from kernbridge._src.forge import artefacts

pytestmark = pytest.mark.once
CPU = ("numba_kernel", "numba_cuda_kernel", "load_c_inline", "load_cpp_inline")


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNBRIDGE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def told():
    text = io.StringIO()
    works = kernbridge.print_diagnostics(text)
    return works, text.getvalue()


def verdict(name):
    (found,) = (v for v in doctor.verdicts() if v.name == name)
    return found


def without_compilers(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("CC", "CXX", "CONDA_PREFIX", "CUDA_PATH", "KERNBRIDGE_NVCC_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))


def test_what_is_told(root, monkeypatch):
    monkeypatch.setenv("KERNBRIDGE_COMPILE_TIMEOUT", "60 s")
    works, text = told()
    assert works
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[0] == "kernels"
    assert any(line.startswith(f"Python {sys.version.split()[0]} on ") for line in lines)
    assert f"cache {root}" in lines
    assert "KERNBRIDGE_COMPILE_TIMEOUT '60 s'" in lines


def test_missing_compilers(monkeypatch, tmp_path):
    without_compilers(monkeypatch, tmp_path)
    works, text = told()
    assert "no C compiler was found\n" in text
    assert "apt-get install g++" in text
    assert works == (importlib.util.find_spec("numba") is not None)


def not_found():
    raise OSError("no NVRTC")


def test_nothing_works(monkeypatch, tmp_path, capsys):
    without_compilers(monkeypatch, tmp_path)
    real = importlib.util.find_spec
    without = ("numba", "numba_cuda_mlir")
    monkeypatch.setattr(importlib.util, "find_spec", lambda n: None if n in without else real(n))
    monkeypatch.setattr(nvrtc, "library", not_found)
    assert cli.main(["doctor"]) == 1
    printed = capsys.readouterr().out
    assert "numba is not installed" in printed
    assert "pip install 'numba>=" in printed
    assert "kernbridge[" not in printed
    assert printed.count("not ready") == 7


def test_known_trouble(monkeypatch):
    versions = {"numpy": "2.5.0rc1", "numba-cuda": "0.30.4"}
    real = importlib.util.find_spec
    there = ("numba", "numba_cuda")
    monkeypatch.setattr(importlib.util, "find_spec", lambda n: n in there or real(n))
    monkeypatch.setattr(doctor, "_version", versions.get)
    with monkeypatch.context() as removed:
        removed.delattr(np, "row_stack", raising=False)
        assert "pip install 'numpy<2.5'" in told()[1]
        removed.setattr(np, "row_stack", np.vstack, raising=False)  # a program may add it
        assert "numpy<2.5" not in told()[1]
    versions |= {"numpy": "2.6.0", "numba-cuda": "0.31.0"}
    assert "numpy<2.5" not in told()[1]
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    for name in ("NUMBA_ENABLE_CUDASIM", "NUMBA_DISABLE_JIT"):
        assert f"not ready: {name} is set, which switches its compiler off" in told()[1]


def test_gpus(monkeypatch):
    monkeypatch.setattr(_core, "device_count", lambda: (0, "no driver, they say"))
    assert "none: no driver, they say" in told()[1]
    monkeypatch.setattr(_core, "device_count", lambda: (2, ""))
    monkeypatch.setattr(_core, "compute_capability", lambda i: (9, i))
    assert "2, compute capability 9.0, 9.1" in told()[1]


def test_without_a_gpu(monkeypatch):
    pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
    monkeypatch.setattr(_core, "device_count", lambda: (0, "no CUDA driver: libcuda.so.1: gone"))
    found = verdict("numba_cuda_kernel")
    assert str(found) == "ready, on the CPU\nnot on a GPU: there is no GPU (no CUDA driver)"
    assert verdict("cuda_kernel").runs_on == verdict("load_cuda_inline").runs_on == ("cpu",)
    monkeypatch.setenv("KERNBRIDGE_CUDA_ARCHS", "9.0")
    assert not verdict("load_cuda_inline").runs_on


def test_a_gpu_that_jax_cannot_use(monkeypatch):
    pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
    monkeypatch.setattr(_core, "device_count", lambda: (1, ""))
    monkeypatch.setattr(doctor, "PLUGINS", ("no_such_plugin", "jax"))
    name = "numba_cuda_kernel"
    assert jax.config.jax_platforms == "cpu"
    found = verdict(name)
    assert (found.runs_on, found.why) == (("cpu",), "not on a GPU: JAX_PLATFORMS is 'cpu'")
    try:
        jax.config.update("jax_platforms", None)
        assert verdict(name) == Verdict(name, ("cpu", "gpu"))
        monkeypatch.setattr(doctor, "PLUGINS", ("no_such_plugin",))
        assert "JAX is installed without its CUDA plugin" in verdict(name).why
    finally:
        jax.config.update("jax_platforms", "cpu")


@pytest.mark.exhaustive
def test_the_self_test(monkeypatch):
    """Kernels that are ready pass; a wrong result, an exception and a crash are reported."""
    assert {v.name for v in doctor.verdicts()} <= set(doctor.CALLS)
    ready = [(name, "cpu") for name in CPU if verdict(name).runs_on]
    for name in conftest.WITHOUT_FAKE:
        monkeypatch.delenv(name, raising=False)
    calls = {"wrong": "y = 3 * x", "raises": "x.nothing", "crashes": "import os; os.abort()"}
    monkeypatch.setattr(doctor, "CALLS", doctor.CALLS | calls)
    todo = [*ready, ("wrong", "cpu"), ("wrong", "abacus"), ("raises", "cpu"), ("crashes", "cpu")]
    *passed, wrong, place, raised, crashed, last = doctor.self_test([*todo, ("wrong", "cpu")])
    assert passed == [""] * len(ready)
    assert wrong == "it returned [0. 3. 6.], expected [2, 3, 6]"
    assert "abacus" in place
    assert raised.startswith("AttributeError: ")
    assert crashed == "the process ended with status -6"
    assert last == "it was not reached"


def test_a_test_that_does_not_end():
    (error,) = doctor.self_test([("numba_kernel", "cpu")], seconds=0.05)
    assert error == "it did not end within 0.05 s"


@pytest.mark.parametrize("error", ["", "it returned nothing"])
def test_the_command(monkeypatch, capfd, error):
    monkeypatch.setattr(doctor, "verdicts", lambda: [Verdict("numba_kernel", ("cpu",))])
    monkeypatch.setattr(doctor, "self_test", lambda todo: [error])
    assert cli.main(["doctor"]) == bool(error)
    assert ("failed on the cpu: it returned nothing" in capfd.readouterr().out) == bool(error)
    assert cli.main(["doctor", "--json"]) == bool(error)
    answer = json.loads(capfd.readouterr().out)
    assert answer["works"] is True
    assert answer["kernels"] == [
        {"name": "numba_kernel", "runs_on": ["cpu"], "why": "", "remedy": "", "ready": True}
    ]
    (tested,) = answer["self_test"]
    assert (tested["passed"], tested["error"]) == (not error, error)
    monkeypatch.delattr(doctor, "self_test")
    assert cli.main(["doctor", "--no-self-test", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["self_test"] is None


def test_other_commands(root, capsys):
    artefacts.store("cubin", bytes(32), artefacts.Artefact({}, (bytes(10**6),)))
    for arguments, expected in (
        (["cache"], f"{root}: 1 entries, 1.0 MB\n"),
        (["cache", "clear", "--yes"], "1 removed\n"),
        (["cache"], f"{root}: 0 entries, 0.0 MB\n"),
    ):
        assert cli.main(arguments) == 0
        assert capsys.readouterr().out == expected
    assert cli.main([]) == 0
    assert "usage: kernbridge" in capsys.readouterr().out


def test_jax_is_not_started(run_python):
    program = """
import io, kernbridge
kernbridge.print_diagnostics(io.StringIO())
from jax._src import xla_bridge
assert not xla_bridge.backends_are_initialized()
"""
    run_python(program, JAX_PLATFORMS="", CUDA_VISIBLE_DEVICES=os.environ.get("NONE", ""))
