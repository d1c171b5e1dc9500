"""The verdicts of `kernbridge doctor`, and its self-test."""

import json
import signal

import jax
import pytest
from kernbridge import _core, cli
from kernbridge._src.tools import doctor_command, front_ends, self_test
from kernbridge._src.tools.front_ends import Verdict
from kernbridge._src.tools.self_test import Result

pytestmark = pytest.mark.once
CPU = ("numba_kernel", "numba_cuda_kernel", "load_c_inline", "load_cpp_inline")


def verdict(name):
    (found,) = (v for v in front_ends.verdicts() if v.name == name)
    return found


@pytest.mark.parametrize("name", CPU)
def test_kernels_that_are_ready_pass(name):
    if not verdict(name).is_ready:
        pytest.skip(str(verdict(name)))
    assert "cpu" in verdict(name).runs_on
    result = self_test.check(name, "cpu")
    assert (result.front_end, result.platform, result.error) == (name, "cpu", "")


def test_there_is_a_kernel_for_each_front_end():
    assert {v.name for v in front_ends.verdicts()} <= set(self_test.KERNELS)


def test_a_wrong_result_and_an_exception_are_reported(monkeypatch):
    monkeypatch.setitem(self_test.KERNELS, "wrong", lambda x: 3 * x)
    monkeypatch.setitem(self_test.KERNELS, "raises", lambda x: x.nothing)
    assert (
        self_test.check("wrong", "cpu").error == "it returned [0. 3. 6.], expected [2.0, 3.0, 6.0]"
    )
    assert self_test.check("raises", "cpu").error.startswith("AttributeError: ")
    assert "abacus" in self_test.check("wrong", "abacus").error


def without_gpu(monkeypatch):
    monkeypatch.setattr(_core, "device_count", lambda: (0, "no CUDA driver: libcuda.so.1: gone"))


def test_without_a_gpu(monkeypatch):
    pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
    without_gpu(monkeypatch)
    found = verdict("numba_cuda_kernel")
    assert str(found) == "ready, on the CPU\nnot on a GPU: there is no GPU (no CUDA driver)"
    found = verdict("cuda_kernel")
    assert not found.is_ready
    assert "KERNBRIDGE_CUDA_ARCHS" in found.remedy
    monkeypatch.setenv("KERNBRIDGE_CUDA_ARCHS", "9.0")
    assert "it compiles and exports for the GPUs that are named" in verdict("cuda_kernel").why


def test_a_gpu_that_jax_cannot_use(monkeypatch):
    pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
    monkeypatch.setattr(_core, "device_count", lambda: (1, ""))
    monkeypatch.setattr(front_ends, "PLUGINS", ("no_such_plugin", "jax"))
    name = "numba_cuda_kernel"
    assert jax.config.jax_platforms == "cpu"
    found = verdict(name)
    assert (found.runs_on, found.why) == (("cpu",), "not on a GPU: JAX_PLATFORMS is 'cpu'")
    assert verdict("cuda_kernel").remedy.startswith("unset JAX_PLATFORMS, or add cuda to it")
    try:
        jax.config.update("jax_platforms", None)
        assert verdict(name) == Verdict(name, ("cpu", "gpu"))
        monkeypatch.setattr(front_ends, "PLUGINS", ("no_such_plugin",))
        assert "JAX is installed without its CUDA plugin" in verdict(name).why
    finally:
        jax.config.update("jax_platforms", "cpu")


def test_a_switched_off_compiler(monkeypatch):
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert str(verdict("numba_kernel")) == (
        "not ready: NUMBA_DISABLE_JIT is set, which disables Numba\nunset it"
    )


def test_a_missing_compiler_names_the_first_remedy(monkeypatch, tmp_path):
    monkeypatch.setenv("CC", str(tmp_path / "gone"))
    found = verdict("load_c_inline")
    assert found.why == "no C compiler was found"
    assert found.remedy.startswith("install one: apt-get install g++")


def test_a_crash_is_a_failed_test(monkeypatch):
    """The process of the self-test ends at the second kernel."""
    crash = f"import os; os.kill(os.getpid(), {int(signal.SIGKILL)})"
    real = self_test.programs.run

    def run(command, **options):
        code = command[-1].partition("main(")[2]
        lines = "import json\ndef main(report, todo):\n"
        lines += "  name, place = todo[0]\n"
        lines += "  about = dict(front_end=name, platform=place, seconds=1.0, error='')\n"
        lines += f"  open(report, 'w').write(json.dumps(about) + '\\n')\n  {crash}\nmain({code}"
        return real([command[0], "-c", lines], **options)

    monkeypatch.setattr(self_test.programs, "run", run)
    ready = [Verdict("a", ("cpu", "gpu")), Verdict("b", ()), Verdict("c", ("cpu",))]
    assert self_test.run(ready) == [
        Result("a", "cpu", 1.0, ""),
        Result("a", "gpu", 0.0, "the process ended with signal 9"),
        Result("c", "cpu", 0.0, "it was not reached"),
    ]


def test_a_test_that_does_not_end():
    (result,) = self_test.run([Verdict("numba_kernel", ("cpu",))], seconds=0.05)
    assert result.error == "it did not end within 0.05 s"


def test_the_whole_command(monkeypatch, capfd):
    """One kernel, in a process of its own."""
    found = [v for v in front_ends.verdicts() if v.name == "numba_kernel"]
    if not found[0].is_ready:
        pytest.skip(str(found[0]))
    monkeypatch.setattr(doctor_command.doctor, "verdicts", lambda: found)
    assert cli.main(["doctor", "--json"]) == 0
    answer = json.loads(capfd.readouterr().out)
    assert answer["works"] is True
    assert answer["kernels"] == [
        {"name": "numba_kernel", "runs_on": ["cpu"], "why": "", "remedy": "", "ready": True}
    ]
    (tested,) = answer["self_test"]
    assert tested["passed"] is True
    assert tested["seconds"] > 0
    assert list(answer)[:4] == ["command", "works", "kernels", "versions"]


@pytest.mark.parametrize("error", ["", "it returned nothing"])
def test_a_failed_test_fails_the_command(monkeypatch, capfd, error):
    results = [Result("numba_kernel", "cpu", 1.25, ""), Result("cuda_kernel", "gpu", 0.5, error)]
    monkeypatch.setattr(self_test, "run", lambda ready: results)
    assert cli.main(["doctor"]) == bool(error)
    printed = capfd.readouterr().out
    assert "  numba_kernel  passed on the CPU, in 1.2 s" in printed
    assert ("failed on the GPU: it returned nothing" in printed) == bool(error)
    assert ("1 of 2 kernels failed" in printed) == bool(error)


def test_a_long_error_is_cut(monkeypatch, capfd):
    error = "\n".join(f"line {i}" for i in range(50))
    monkeypatch.setattr(self_test, "run", lambda ready: [Result("a", "cpu", 1.0, error)])
    assert cli.main(["doctor"]) == 1
    shown = capfd.readouterr().out
    assert "line 9" in shown
    assert "line 10" not in shown
    assert "40 more lines; `--json` has all of them" in shown
    assert cli.main(["doctor", "--json"]) == 1
    assert json.loads(capfd.readouterr().out)["self_test"][0]["error"] == error


def test_no_self_test(monkeypatch, capfd):
    monkeypatch.delattr(self_test, "run")
    cli.main(["doctor", "--no-self-test", "--json"])
    assert json.loads(capfd.readouterr().out)["self_test"] is None
