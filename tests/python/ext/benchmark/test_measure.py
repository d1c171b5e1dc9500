"""`measure` and `benchmark_function`: every call is executed, and what is measured is said."""

import ctypes
import gc
import re
import time

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from jax import lax
from kernbridge import benchmark, numba_kernel

pytestmark = pytest.mark.once

S = jax.ShapeDtypeStruct
x = jnp.arange(3.0) + 1


class Counted:
    """A pure operation, for all that XLA knows, that counts how often it runs."""

    def __init__(self):
        self.calls = 0

    def _run(self, *operands):
        self.calls += 1
        return np.float32(self.calls)

    def __call__(self, *operands):
        return jax.pure_callback(self._run, S((), jnp.float32), *operands)


FUNCTIONS = {  # of the operation; and how often it occurs in them
    "one operand": (lambda op: op, (x,), 1),
    "bools": (lambda op: op, (x > 1,), 1),
    "a NumPy array": (lambda op: op, (np.ones((2, 3)),), 1),
    "a NumPy scalar": (lambda op: op, (np.float32(3),), 1),
    "a pytree": (lambda op: lambda d: {"a": op(d["b"][0]), "c": d["b"][1]}, ({"b": (x, x)},), 1),
    "no operand, nested": (lambda op: lambda: op(op()), (), 2),
    "an empty operand": (lambda op: lambda e: op(op(e)), (jnp.zeros((0, 2)),), 2),
    "an empty one and another": (lambda op: lambda e, x: op(e) + op(x), (jnp.zeros(0), x), 2),
    "closed over, jitted": (lambda op: jax.jit(lambda: op(op(x))), (), 2),
    "in part without operands": (lambda op: lambda x: op(op()) + x, (x,), 2),
    "static arguments": (lambda op: lambda x, n, s: op(x) + n if s == "a" else x, (x, 3, "a"), 1),
    "a Python number as result": (lambda op: lambda x: (op(x) * 0, 2.0, 3), (x,), 1),
    "an unused result": (lambda op: lambda x: (x + 1, op(x)), (x,), 1),
    "an empty result": (lambda op: lambda x: (jnp.zeros((0,)), op(x)), (x,), 1),
    "twice the same": (lambda op: lambda x, y: (op(x), op(y)), (x, x), 2),
    "keys": (
        lambda op: lambda k: (jax.random.split(k), op(jax.random.key_data(k))),
        (jax.random.key(0),),
        1,
    ),
}


@pytest.mark.parametrize(
    "n_batch", [1, 7, *(pytest.param(n, marks=pytest.mark.exhaustive) for n in (2, 16))]
)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_call_is_executed(name, n_batch):
    function, data, occurs = FUNCTIONS[name]
    op = Counted()
    found = benchmark.measure(
        function(op), n_warmup=1, n_runs=2, n_batch_per_run=n_batch, data=data
    )
    assert op.calls == occurs * n_batch * 4
    assert len(found.samples) == 2


def test_every_call_of_a_numba_kernel_is_executed():
    calls = 0

    def count():
        nonlocal calls
        calls += 1

    counter = ctypes.CFUNCTYPE(None)(count)

    @numba.njit
    def kernel(x, out):
        counter()
        for i in range(x.size):
            out[i] = 2 * x[i]

    operation = numba_kernel(kernel, lambda x: S(x.shape, x.dtype))
    for n_batch in (1, 16):
        calls = 0
        found = benchmark.measure(
            operation, n_warmup=0, n_runs=2, n_batch_per_run=n_batch, data=(x,)
        )
        assert calls == 3 * n_batch
        np.testing.assert_array_equal(found.output, 2 * np.asarray(x))


def test_a_function_without_results_is_executed():
    for n_batch in (1, 5):
        op = Counted()
        done = benchmark.measure(
            lambda x, op=op: jax.debug.callback(op._run, x),
            n_runs=2,
            n_batch_per_run=n_batch,
            data=(x,),
        )
        assert op.calls == 8 * n_batch
        assert done.output is None


@pytest.fixture
def programs(monkeypatch):
    """The runs that are measured: their jaxprs and what XLA made of them."""
    found, jit = [], jax.jit

    def watched(function):
        def run(*operands):
            text = jit(function).lower(*operands).compile().as_text()
            found.append((str(jax.make_jaxpr(function)(*operands)), text))
            return jit(function)(*operands)

        return run

    monkeypatch.setattr(jax, "jit", watched)
    return found


ONCE = {"n_warmup": 0, "n_runs": 1}


def sines(text, name=None, in_loop=False):
    """How many sines of a program run once, and how many in the bodies of loops."""
    entry, bodies = None, {}
    for line in text.splitlines():
        if opened := re.match(r"(ENTRY )?%?([\w.-]+) \(.*\{$", line):
            current = bodies.setdefault(opened[2], [])
            entry = opened[2] if opened[1] else entry
        elif bodies:
            current.append(line)
    once = looped = 0
    for line in bodies[name or entry]:
        here = " sine(" in line
        once, looped = once + (here and not in_loop), looped + (here and in_loop)
        for how, called in re.findall(r"(calls|to_apply|body)=%?([\w.-]+)", line):
            more = sines(text, called, in_loop or how == "body")
            once, looped = once + more[0], looped + more[1]
    return once, looped


def test_a_pure_function_stays_in_the_loop(programs):
    def function(a):
        return jnp.sin(a) @ a

    matrix = jnp.ones((16, 16))
    naive = jax.jit(lambda a: lax.fori_loop(0, 10, lambda i, _: function(a), a))
    naive(matrix)
    benchmark.measure(function, **ONCE, n_batch_per_run=10, data=(matrix,))
    assert sines(programs[0][1]) == (1, 0)  # what the guard is for
    once, looped = sines(programs[1][1])
    assert once == 0
    assert looped >= 1


def test_each_call_waits_for_the_one_before(programs):
    """A barrier gives a call its operands, and holds a number made from the results before."""
    benchmark.measure(lax.sin, **ONCE, n_batch_per_run=4, data=(x,))
    text = programs[0][0]
    operand, number = re.search(
        r"(\w+):f32\[3\] (\w+):i32\[\] = optimization_barrier", text
    ).groups()
    result = re.search(rf"(\w+):f32\[3\] = sin {operand}\b", text)[1]
    read = re.search(rf"(\w+):f32\[3\] = optimization_barrier {result}\b", text)[1]
    assert re.search(rf"= slice\[[^]]*\] {read}\b", text)
    following = re.search(rf"(\w+):i32\[\] = add {number} \w+", text)[1]
    assert re.search(rf"in \(\w+, {operand}, {result}, {following}\)", text)


def test_arrays_that_are_closed_over_are_operands(programs):
    benchmark.measure(lambda: jnp.sin(x) * np.arange(3.0, dtype=np.float32), **ONCE)
    assert sines(programs[0][1]) == (1, 0)  # not folded into a constant


@pytest.mark.parametrize("n_batch", [1, 6])
@pytest.mark.parametrize(
    "value",
    [np.float16(2), np.arange(4, dtype=np.int8), 1j * np.ones(2), np.zeros((2, 0))],
    ids=lambda v: f"{v.dtype}{v.shape}",
)
def test_the_output_is_that_of_a_call(value, n_batch):
    same, (negative,) = benchmark.measure(
        lambda v: (v, [-v]), **ONCE, n_batch_per_run=n_batch, data=(value,)
    ).output
    want = jnp.asarray(value)
    for got, expected in ((same, want), (negative, -want)):
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)


def test_the_figures_are_those_of_the_runs(monkeypatch):
    ticks = iter([0.0, 2.0, 10.0, 14.0, 20.0, 21.0, 30.0, 39.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(ticks))
    found = benchmark.measure(jnp.sin, n_warmup=0, n_runs=4, n_batch_per_run=2, data=(x,))
    assert found.samples == (1.0, 2.0, 0.5, 4.5)
    assert (found.mean, found.min, found.max, found.median) == (2.0, 0.5, 4.5, 1.5)
    assert found.std == pytest.approx(np.std(found.samples, ddof=1))
    assert found.quartiles == pytest.approx((0.875, 2.625))
    assert found.iqr == pytest.approx(1.75)
    assert found.n_batch_per_run == 2


def test_the_results_are_waited_for_and_the_first_run_is_not_timed(monkeypatch):
    events, ready = [], jax.block_until_ready
    monkeypatch.setattr(
        jax, "block_until_ready", lambda value: (events.append("ready"), ready(value))[1]
    )
    monkeypatch.setattr(time, "perf_counter", lambda: events.append("tick") or 0.0)
    benchmark.measure(jnp.sin, n_warmup=2, n_runs=2, data=(x,))
    inputs_compiled_and_warm = ["ready"] * 4
    assert events == inputs_compiled_and_warm + ["tick", "ready", "tick"] * 2


def test_benchmark_function_gives_five_figures():
    mean, std, least, most, output = benchmark.benchmark_function(jnp.sin, 1, 3, 4, (x,))
    assert 0 < least <= mean <= most
    assert std >= 0
    np.testing.assert_allclose(output, np.sin(np.asarray(x)), rtol=1e-6)
    assert benchmark.benchmark_function(jnp.sin, 0, 1, data=(x,))[1] == 0


def test_the_garbage_collector_is_as_it_was():
    benchmark.measure(jnp.sin, n_runs=1, data=(x,))
    assert gc.isenabled()
    gc.disable()
    try:
        benchmark.measure(jnp.sin, n_runs=1, data=(x,))
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"n_runs": 0}, ValueError, "`n_runs` must be at least 1, got 0"),
        ({"n_warmup": -1}, ValueError, "`n_warmup` must be at least 0, got -1"),
        ({"n_runs": 2.0}, TypeError, "`n_runs` must be an int, a number of runs; got 2.0"),
        ({"n_runs": True}, TypeError, "got True"),
        ({"data": x}, TypeError, r"positional arguments, such as \(x,\); got ArrayImpl"),
    ],
)
def test_wrong_arguments(options, error, text):
    with pytest.raises(error, match=rf"{text}.*\[KB8005\]"):
        benchmark.measure(lambda: x, **options)
