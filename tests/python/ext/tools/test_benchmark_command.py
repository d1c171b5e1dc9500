"""`python -m kernbridge benchmark`: what it selects, prints and writes, and its exit status."""

import json
import os
import re
import sys

import forks
import kernbridge
import pytest
from kernbridge import cli
from kernbridge.benchmark import BenchmarkRecord, BenchmarkResult

pytestmark = pytest.mark.once

OPERATIONS = """
import numba, numpy as np, kernbridge
from kernbridge.benchmark import BenchmarkConfig

@numba.njit
def double(x, out):
    for i in range(x.size):
        out[i] = 2 * x[i]

def define(name, *tags, **backends):
    op = kernbridge.XLACustomKernel(name)
    for backend, function in backends.items():
        op.def_kernel(backend, "cpu", function)
    op.def_call(lambda x, backend=None: op(x, outs=x, backend=backend))
    op.def_benchmark_data(
        lambda platform: [
            BenchmarkConfig(f"n{n}", (np.ones(n, np.float32),), data_kwargs={"n": n, "shape": (n,)})
            for n in (8, 512)
        ]
    )
    op.def_tags(*tags)
    return op

good = define(
    "good_double",
    "dense",
    "fine",
    jnp=lambda outs: lambda x: 2 * x,
    numba=lambda outs: lambda x: kernbridge.numba_kernel(double, outs)(x),
)
define(
    "bad_double",
    "dense",
    jnp=lambda outs: lambda x: 2 * x,
    wrong=lambda outs: lambda x: 3 * x,
)
kernbridge.XLACustomKernel("without_data").def_tags("dense", "fine", "other")
"""


@pytest.fixture
def command(tmp_path):
    """Run the command beside a module of operations; gives the process."""
    (tmp_path / "some_ops.py").write_text(OPERATIONS)

    script = tmp_path / "command.py"
    environment = {**os.environ, "KERNBRIDGE_LIBCUDA": "", "KERNBRIDGE_TEST_CUDA": ""}

    def run(*arguments, platform="cpu"):
        words = ["benchmark", "--platform", platform, *arguments]
        script.write_text(f"from kernbridge import cli\nraise SystemExit(cli.main({words!r}))\n")
        return forks.run(script, environment, timeout=180)

    return run


QUICK = ("--n-warmup", "0", "--n-runs", "2", "--n-batch", "3")


def test_a_benchmark(command, tmp_path):
    file = ("--output", "out/results.json")
    done = command("some_ops.py", "--data", "dense, fine", *QUICK, *file)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "good_double" in done.stdout
    assert "bad_double" not in done.stdout
    for shown in ("n8", "n512", "jnp", "numba", "median"):
        assert shown in done.stdout
    document = json.loads((tmp_path / "out/results.json").read_text())
    assert list(document) == ["platform", "results", "optimal_defaults"]
    assert document["platform"] == "cpu"
    (result,) = document["results"]
    assert result["primitive_name"] == "good_double"
    got = [(r["label"], r["backend"], r["n_runs"], r["n_batch_per_run"]) for r in result["records"]]
    assert got == [(f"n{n}", b, 2, 3) for n in (8, 512) for b in ("jnp", "numba")]
    assert result["records"][0]["data_kwargs"] == {"n": 8, "shape": [8]}
    assert document["optimal_defaults"]["good_double"] in ("jnp", "numba")


@pytest.mark.exhaustive
def test_a_module_and_a_failure(command, tmp_path):
    done = command("some_ops", *QUICK, "--output", "results.json")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "good_double" in done.stdout
    assert "kernbridge benchmark: 2 failed:" in done.stderr
    for n in (8, 512):
        assert f"\n  bad_double, n{n}, wrong: Mismatch: backend 'wrong': the output" in done.stderr
    document = json.loads((tmp_path / "results.json").read_text())  # written all the same
    assert document["optimal_defaults"]["bad_double"] == "jnp"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--data", "other"), "no operation with the tags other and benchmark data (some_ops.py)"),
        (("--data", "dense,sparse"), "the tags dense, sparse and benchmark data"),
    ],
)
def test_nothing_matches(command, arguments, text):
    done = command("some_ops.py", *arguments)
    assert done.returncode == 1
    assert text in done.stderr
    assert "def_benchmark_data" in done.stderr


@pytest.mark.exhaustive
def test_what_cannot_run(command):
    done = command("some_ops.py", "--n-runs", "0")
    assert done.returncode == 1
    assert "`n_runs` must be at least 1, got 0" in done.stderr
    done = command("some_ops.py", platform="tpu")
    assert done.returncode == 1
    assert "'good_double' has no backend for 'tpu'; it has some for cpu" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.exhaustive
def test_a_module_that_fails(command, tmp_path):
    (tmp_path / "broken.py").write_text("import no_such_thing")
    for name in ("broken", "broken.py"):
        done = command(name)
        assert done.returncode == 1
        assert "ModuleNotFoundError: No module named 'no_such_thing'" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--platform", "abacus"], "invalid choice: 'abacus'"),
        (["--platform", "cpu", "--n-warmup", "few"], "--n-warmup: invalid int value: 'few'"),
        (["--platform", "cpu", "no_such_module"], "there is no module 'no_such_module'"),
        (["--platform", "cpu", "json.nothing"], "there is no module 'json.nothing'"),
        (["--platform", "cpu", "no/such.py"], "there is no file 'no/such.py'"),
        (["--platform", "cpu", "--output", "r.pkl"], "'r.pkl' is not the name of a .json file"),
    ],
)
def test_bad_arguments(arguments, text, capsys):
    with pytest.raises(SystemExit) as left:
        cli.main(["benchmark", *arguments])
    assert left.value.code == 2
    assert text in capsys.readouterr().err


def test_no_command_prints_help(capsys):
    assert cli.main([]) == 0
    text = capsys.readouterr().out
    assert text.startswith("usage: kernbridge")
    for name in ("doctor", "cache", "benchmark"):
        assert name in text


def test_the_default_is_the_backend_that_is_the_fastest_most_often(capsys):
    operation = kernbridge.XLACustomKernel("votes")
    operation.def_tags("votes")
    operation.def_benchmark_data(list)
    for medians, chosen in (
        ({"a": (1, 1, 900), "b": (2, 2, 1)}, {"votes": "a"}),
        ({"a": (3, 9, 2), "b": (4, 3, 1)}, {"votes": "b"}),
        ({"a": (None, None), "b": (4, 3)}, {"votes": "b"}),
        ({"a": (None,)}, {}),
    ):
        records = [
            BenchmarkRecord("cpu", backend, f"{i}", success=ms is not None, median_ms=ms or 0.0)
            for backend, times in medians.items()
            for i, ms in enumerate(times)
        ]
        result = BenchmarkResult(records, "votes")
        operation.benchmark = lambda result=result, **_: result
        cli.main(["benchmark", "--platform", "cpu", "--data", "votes", "--json"])
        assert json.loads(capsys.readouterr().out)["optimal_defaults"] == chosen


ONE = """
import kernbridge, numba
@kernbridge.kernel("x: f32[n], at: i32[m], k: f32 -> f32[n]")
@numba.njit
def scaled(x, at, k, out):
    for i in range(x.size):
        out[i] = x[i] * k + at[0]
"""


def test_one_operation(tmp_path, monkeypatch, capsys):
    (tmp_path / "one_op.py").write_text(ONE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    named = ["one_op.py:scaled", "data=f32[10], i32[5],0.5"]
    assert cli.main(["benchmark", *QUICK, "--output", "found.json", *named]) == 0
    assert re.match(r"scaled\(.*\) on cpu: \d.* [mun]?s \+- \d", capsys.readouterr().out)
    (result,) = json.loads((tmp_path / "found.json").read_text())["results"]
    assert result["primitive_name"] == "scaled"
    for wrong, said in (
        (["one_op.py:scaled"], "write data= and the types"),
        (["one_op.py:other", "data="], "has no 'other'"),
        (["one_op.py:scaled", "data=f32[n],i32[5],0.5"], "a dimension that is no number"),
        (["one_op.py:scaled", "data=f33[1]"], "'f33' is no dtype"),
    ):
        with pytest.raises(SystemExit):
            cli.main(["benchmark", *wrong])
        assert said in capsys.readouterr().err
    assert cli.main(["benchmark", "one_op.py:scaled", "data=f32[1]"]) == 1
    assert capsys.readouterr().err.startswith("kernbridge benchmark: numba_kernel 'scaled': ")
