"""`benchmark_operation`: every backend in every config, errors and differences told in records."""

import math
import re

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest
from kernbridge.benchmark import BenchmarkConfig, BenchmarkResult, benchmark_operation

pytestmark = pytest.mark.once

NAN, INF = math.nan, math.inf


class Operation:
    """What `XLACustomKernel` has, around functions."""

    name = "op"

    def __init__(self, configs, platform="cpu", **backends):
        self.configs, self.platform, self.backends = configs, platform, backends
        self.call_function = self.call
        self.benchmark_data = self._data
        self.called = []

    def available_backends(self, platform):
        return list(self.backends) if platform == self.platform else []

    def call(self, *args, backend, **kwargs):
        self.called.append((backend, args, kwargs))
        return self.backends[backend](*args, **kwargs)

    def _data(self, *, platform):
        assert platform == self.platform
        return self.configs


def config(*args, name="case", **kwargs):
    return BenchmarkConfig(name, args, **kwargs)


def run(op, **options):
    return benchmark_operation(op, **({"platform": "cpu", "n_warmup": 0, "n_runs": 2} | options))


def compared(want, got, **options):
    """The record of a backend that gives `got`, after one that gives `want`."""
    op = Operation([config()], first=lambda: want, second=lambda: got)
    first, second = run(op, **options).records
    assert first.success
    assert first.error is None
    assert second.median_ms > 0  # its times are kept
    return second


def test_every_backend_in_every_config():
    configs = [
        config(np.ones(n), 2.5, name=f"n{n}", kernel_kwargs={"power": p}, data_kwargs={"n": n})
        for n, p in ((4, 1), (8, 2))
    ]
    op = Operation(configs, a=lambda x, s, power: s * x**power, b=lambda x, s, power: x**power * s)
    result = run(op, n_runs=3, n_batch_per_run=2)
    assert isinstance(result, BenchmarkResult)
    assert result.primitive_name == "op"
    got = [(r.label, r.backend, r.kernel_kwargs, r.data_kwargs) for r in result.records]
    assert got == [
        (f"n{n}", backend, {"power": p}, {"n": n}) for n, p in ((4, 1), (8, 2)) for backend in "ab"
    ]
    for record in result.records:
        assert (record.platform, record.success, record.error) == ("cpu", True, None)
        assert (record.n_runs, record.n_batch_per_run) == (3, 2)
        assert 0 < record.min_ms <= record.q1_ms <= record.median_ms <= record.q3_ms
        assert record.q3_ms <= record.max_ms
        assert record.throughput == pytest.approx(1e3 / record.median_ms)
    assert all(args[1] == 2.5 and type(args[1]) is float for _, args, _ in op.called)


def test_arrays_are_on_a_device_of_the_platform(monkeypatch):
    other = jax.devices("cpu")[2]
    monkeypatch.setattr(jax, "devices", lambda platform=None: [other])
    placed = config({"x": np.ones(3), "y": [jnp.ones(2), 3, "text", None]}).put_args(other).args[0]
    assert placed["x"].devices() == placed["y"][0].devices() == {other}
    assert placed["y"][1:] == [3, "text", None]
    outputs, jit = [], jax.jit

    def watched(function):
        return lambda *operands: outputs.append(jit(function)(*operands)) or outputs[-1]

    monkeypatch.setattr(jax, "jit", watched)
    elsewhere = jax.device_put(np.ones(3), jax.local_devices()[1])
    configs = [config(np.ones(3)), config(elsewhere), config()]
    run(Operation(configs, a=lambda *xs: xs[0] + 1 if xs else jnp.ones(3)))
    assert len(outputs) == 9
    assert {frozenset(output[0].devices()) for output in outputs} == {frozenset({other})}


def test_a_failure_is_a_record():
    def fails(x):
        raise KeyError("no such thing")

    def fails_while_it_runs(x):
        def callback(x):
            raise RuntimeError("from the kernel")

        return jax.pure_callback(callback, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    op = Operation(
        [config(np.ones(3, np.float32))], a=fails, b=fails_while_it_runs, c=jnp.sin, d=jnp.sin
    )
    first, second, third, fourth = run(op).records
    assert (first.success, first.error) == (False, "KeyError: 'no such thing'")
    assert math.isnan(first.median_ms)
    assert math.isnan(first.throughput)
    assert not second.success
    assert "from the kernel" in second.error
    assert third.success  # the first that ran is what others are compared with
    assert fourth.success
    with pytest.raises(KeyError, match="no such thing"):
        run(op, catch_errors=False)


def test_a_difference_is_told():
    want = np.ones((3, 4), np.float32)
    got = want.copy()
    got[1, 2], got[2, 3] = 1.5, -2
    record = compared(want, got)
    assert not record.success
    assert record.error == (
        "Mismatch: backend 'second': the output differs from 'first' in 2 of 12 elements "
        "(rtol=0.001, atol=0.001), at most by 3 at [2, 3] (-2 against 1)"
    )
    assert compared(want, got, compare_results=False).success
    assert compared(want, got, atol=10.0).success


@pytest.mark.brief
@pytest.mark.parametrize(
    ("want", "got", "same"),
    [
        ([1.0, NAN], [1.0, NAN], True),
        ([1.0, NAN], [1.0, 2.0], False),
        ([1.0, 2.0], [1.0, NAN], False),
        ([INF, -INF], [INF, -INF], True),
        ([INF], [-INF], False),
        ([INF], [1e30], False),
        ([1000.0], [1000.9], True),
        ([1000.0], [1002.1], False),
        ([0.0], [0.0009], True),
        ([0.0], [0.0011], False),
        ([1 + 1j], [1 + 1.0001j], True),
        ([1 + 1j], [1 + 1.1j], False),
        ([1000, 2000], [1000, 2001], False),
        ([True, False], [True, True], False),
        ([True, False], [True, False], True),
        ([], [], True),
        (2.0, 2.0, True),
        (2.0, 3.0, False),
        (2, 3, False),
    ],
)
def test_what_is_close(want, got, same):
    record = compared(jnp.asarray(want), jnp.asarray(got))
    assert record.success == same
    assert (record.error is None) == same


@pytest.mark.brief
@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "int8", "uint32", "int4"])
def test_dtypes_are_compared(dtype):
    want = jnp.array([1, 3], dtype)
    assert compared(want, want).success
    assert "2 against 3" in compared(want, jnp.array([1, 2], dtype)).error


@pytest.mark.usefixtures("x64")
def test_integers_do_not_overflow():
    error = compared(np.array([0], np.uint32), np.array([2**32 - 1], np.uint32)).error
    assert "at most by 4.29497e+09 at [0] (4294967295 against 0)" in error
    error = compared(jnp.array([5, 2**63 - 2]), jnp.array([5, 2**63 - 1])).error
    assert "in 1 of 2 elements, at most by 1 at [1] (9223372036854775807 against 922" in error
    assert "(3 against 0)" in compared(jnp.array(0), jnp.array(3)).error


def test_keys_are_compared():
    key = jax.random.key(1)
    assert compared(key, key).success
    assert not compared(key, jax.random.key(2)).success


@pytest.mark.parametrize(
    ("want", "got", "text"),
    [
        (np.ones(3), np.ones(4), r"is f32\[4\], but f32\[3\] for 'first'"),
        (np.ones(3), np.ones(3, np.int32), r"is i32\[3\], but f32\[3\] for 'first'"),
        ((np.ones(3),), [np.ones(3)], r"returned PyTreeDef\(\[\*\]\), 'first' returned .*\(\*,\)"),
        (
            {"a": np.ones(3), "b": (np.ones(2), np.ones(2))},
            {"a": np.ones(3), "b": (np.ones(2), np.zeros(2))},
            r"second': output \['b'\]\[1\] differs .* 2 of 2 ",
        ),
    ],
)
def test_form_and_place_of_a_difference(want, got, text):
    assert re.search(text, compared(want, got).error)


def test_chosen_backends():
    op = Operation([config(np.ones(3))], a=jnp.sin, b=jnp.cos, c=jnp.sin)
    assert [r.backend for r in run(op, backends=["c", "a", "c"]).records] == ["c", "a"]
    assert [r.backend for r in run(op, backends="b").records] == ["b"]
    for wrong in (["a", "x"], []):
        with pytest.raises(ValueError, match=r"'op'.*'cpu'.*`backends`.*\[KB8005\]"):
            run(op, backends=wrong)


def test_what_is_missing_is_said():
    op = Operation([config()], a=lambda: jnp.ones(3))
    with pytest.raises(ValueError, match=r"'gpu'.*def_kernel.*\[KB8005\]"):
        run(op, platform="gpu")
    with pytest.raises(ValueError, match=r"\[KB8005\]"):
        run(op, n_runs=0)
    op.call_function = None
    with pytest.raises(ValueError, match=r"'op'.*def_call.*\[KB8005\]"):
        run(op)
    op.call_function, op.benchmark_data = op.call, None
    with pytest.raises(
        kernbridge.BenchmarkDataFnNotProvidedError, match=r"'op'.*def_benchmark_data.*\[KB8005\]"
    ):
        run(op)
    for_tpus = Operation([config()], "tpu", a=lambda: jnp.ones(3))
    with pytest.raises(RuntimeError, match=r"'op'.*'tpu'.*JAX.*\[KB8005\]"):
        run(for_tpus, platform="tpu")
    assert not for_tpus.called


@pytest.mark.parametrize("given", [[], [1], None])
def test_wrong_data(given):
    with pytest.raises(TypeError, match=r"'cpu'.*\[KB8005\]"):
        run(Operation(given, a=jnp.sin))
    with pytest.raises(TypeError, match=r"'case'.*`args`.*\[KB8005\]"):
        BenchmarkConfig("case", np.ones(3))


def test_verbose(capsys):
    op = Operation([config(np.ones(3))], a=jnp.sin, b=lambda x: 1 / 0)
    run(op, verbose=True)
    good, bad = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"op, case, a on cpu: [\d.]+ [nmu]?s \+- [\d.]+", good)
    assert bad == "op, case, b on cpu: ZeroDivisionError: division by zero"
    run(op)
    assert capsys.readouterr() == ("", "")
