"""`measure` and `benchmark_function`: every call is executed, and what is measured is said."""

import ctypes
import gc
import re

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from jax import lax
from kernbridge import benchmark, numba_kernel
from kernbridge._src.benchmark import measure
from kernbridge._src.benchmark.measure import prepare

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


@pytest.fixture
def op():
    return Counted()


FUNCTIONS = {  # of the operation; and how often it occurs in them
    "one operand": (lambda op: op, (x,), 1),
    "integers": (lambda op: op, (jnp.arange(3),), 1),
    "bools": (lambda op: op, (x > 1,), 1),
    "a NumPy array": (lambda op: op, (np.ones((2, 3)),), 1),
    "a NumPy scalar": (lambda op: op, (np.float32(3),), 1),
    "a pytree": (lambda op: lambda d: {"a": op(d["b"][0]), "c": d["b"][1]}, ({"b": (x, x)},), 1),
    "no operand": (lambda op: op, (), 1),
    "no operand, nested": (lambda op: lambda: op(op()), (), 2),
    "an empty operand": (lambda op: lambda e: op(op(e)), (jnp.zeros((0, 2)),), 2),
    "an empty one and another": (lambda op: lambda e, x: op(e) + op(x), (jnp.zeros(0), x), 2),
    "closed over": (lambda op: lambda: op(op(x)), (), 2),
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
def test_every_call_is_executed(op, name, n_batch):
    function, data, occurs = FUNCTIONS[name]
    n_warmup, n_runs = 1, 2
    found = benchmark.measure(
        function(op), n_warmup=n_warmup, n_runs=n_runs, n_batch_per_run=n_batch, data=data
    )
    assert op.calls == occurs * n_batch * (1 + n_warmup + n_runs)
    assert len(found.samples) == n_runs


@pytest.mark.parametrize("n_batch", [1, 2, 16])
def test_every_call_of_a_numba_kernel_is_executed(n_batch):
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
    found = benchmark.measure(operation, n_warmup=0, n_runs=2, n_batch_per_run=n_batch, data=(x,))
    assert calls == 3 * n_batch
    np.testing.assert_array_equal(found.output, 2 * np.asarray(x))


def test_a_function_without_results_is_executed(op):
    for n_batch in (1, 5):
        op.calls = 0
        done = benchmark.measure(
            lambda x: jax.debug.callback(op._run, x), n_runs=2, n_batch_per_run=n_batch, data=(x,)
        )
        assert op.calls == 8 * n_batch
        assert done.output is None


def test_a_run_without_results_gives_something_to_wait_for():
    for n_batch in (1, 2):
        (number,) = prepare(lambda x: None, (x,), n_batch)()
        assert isinstance(number, jax.Array)


def outside_and_inside(text, operation):
    """How often compiled code holds an operation outside of loops, and in their bodies."""
    bodies, entry, name = {}, None, None
    for line in text.splitlines():
        opened = re.match(r"(ENTRY )?%?([\w.-]+) \(.*\{$", line)
        if opened:
            name = opened[2]
            entry = name if opened[1] else entry
            bodies[name] = []
        elif name:
            bodies[name].append(line)

    def count(name, inside):
        here, there = 0, 0
        for line in bodies[name]:
            here += f" {operation}(" in line
            for how, called in re.findall(r"(calls|to_apply|body)=%?([\w.-]+)", line):
                found = count(called, inside or how == "body")
                here, there = here + found[0], there + found[1]
        return (0, here + there) if inside else (here, there)

    return count(entry, False)


def test_a_pure_function_stays_in_the_loop():
    matrix = jnp.ones((16, 16))

    def function(a):
        return jnp.sin(a) @ a

    prepared = prepare(function, (matrix,), 10)
    text = prepared.run.lower(*prepared.operands).compile().as_text()
    outside, inside = outside_and_inside(text, "sine")
    assert outside == 0
    assert inside >= 1

    naive = jax.jit(lambda a: lax.fori_loop(0, 10, lambda i, _: function(a), a))
    outside, inside = outside_and_inside(naive.lower(matrix).compile().as_text(), "sine")
    assert (outside, inside) == (1, 0)  # what the guard is for


def test_each_call_waits_for_the_one_before():
    """A barrier gives a call its operands, and holds a number made from the results before."""
    prepared = prepare(lax.sin, (x,), 4)
    text = str(jax.make_jaxpr(prepared.run)(*prepared.operands))
    operand, number = re.search(
        r"(\w+):f32\[3\] (\w+):i32\[\] = optimization_barrier", text
    ).groups()
    result = re.search(rf"(\w+):f32\[3\] = sin {operand}\b", text)[1]
    read = re.search(rf"(\w+):f32\[3\] = optimization_barrier {result}\b", text)[1]
    assert re.search(rf"= slice\[[^]]*\] {read}\b", text)
    following = re.search(rf"(\w+):i32\[\] = add {number} \w+", text)[1]
    assert re.search(rf"in \(\w+, {operand}, {result}, {following}\)", text)


def test_a_function_without_operands_is_held_by_a_branch():
    prepared = prepare(lambda: jnp.sort(jax.random.normal(jax.random.key(0), (8,))), (), 4)
    assert "cond" in str(jax.make_jaxpr(prepared.run)(*prepared.operands))
    with_operands = prepare(jnp.sin, (x,), 4)
    assert "cond[" not in str(jax.make_jaxpr(with_operands.run)(*with_operands.operands))


def test_arrays_that_are_closed_over_are_operands():
    def function():
        return jnp.sin(x) * np.arange(3.0, dtype=np.float32)

    prepared = prepare(function, (), 1)
    assert [operand.shape for operand in prepared.operands] == [(), (3,), (3,)]
    text = prepared.run.lower(*prepared.operands).compile().as_text()
    assert " sine(" in text  # not folded into a constant


@pytest.mark.parametrize(("n", "expected"), [(2, 2), (7, 7), (10, 5), (11, 1), (200, 8)])
def test_calls_per_iteration_divide_the_batch(n, expected):
    assert measure._calls_per_iteration(n, "gpu") == expected
    assert measure._calls_per_iteration(n, "cpu") == 1


@pytest.mark.parametrize("n_batch", [1, 6])
@pytest.mark.parametrize(
    "value",
    [
        np.float16(2),
        np.arange(4, dtype=np.int8),
        np.array([True]),
        1j * np.ones(2),
        np.zeros((2, 0)),
    ],
    ids=lambda v: f"{v.dtype}{v.shape}",
)
def test_the_output_is_that_of_a_call(value, n_batch):
    output = benchmark.measure(
        lambda v: (v, [-v if v.dtype != bool else ~v]),
        n_runs=1,
        n_batch_per_run=n_batch,
        data=(value,),
    ).output
    assert isinstance(output, tuple)
    want = jnp.asarray(value)
    for got, expected in (
        (output[0], want),
        (output[1][0], -want if want.dtype != bool else ~want),
    ):
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)


def test_the_figures_are_those_of_the_runs(monkeypatch):
    ticks = iter([0.0, 2.0, 10.0, 14.0, 20.0, 21.0, 30.0, 39.0])
    monkeypatch.setattr(measure.time, "perf_counter", lambda: next(ticks))
    found = benchmark.measure(jnp.sin, n_warmup=0, n_runs=4, n_batch_per_run=2, data=(x,))
    assert found.samples == (1.0, 2.0, 0.5, 4.5)
    assert (found.mean, found.min, found.max, found.median) == (2.0, 0.5, 4.5, 1.5)
    assert found.std == pytest.approx(np.std(found.samples, ddof=1))
    assert found.iqr == pytest.approx(1.75)
    assert found.n_batch_per_run == 2


def test_the_results_are_waited_for_and_the_first_run_is_not_timed(monkeypatch):
    events = []
    ready = jax.block_until_ready

    def wait(value):
        events.append("ready")
        return ready(value)

    def tick():
        events.append("tick")
        return 0.0

    monkeypatch.setattr(jax, "block_until_ready", wait)
    monkeypatch.setattr(measure.time, "perf_counter", tick)
    benchmark.measure(jnp.sin, n_warmup=2, n_runs=2, data=(x,))
    inputs, compiled, warm = ["ready"], ["ready"], ["ready"] * 2
    assert events == inputs + compiled + warm + ["tick", "ready", "tick"] * 2


def test_benchmark_function_gives_five_figures():
    given = benchmark.benchmark_function(jnp.sin, 1, 3, 4, (x,))
    mean, std, least, most, output = given
    assert given._fields == ("mean", "std", "min", "max", "output")
    assert 0 < least <= mean <= most
    assert std >= 0
    np.testing.assert_allclose(output, np.sin(np.asarray(x)), rtol=1e-6)
    assert benchmark.benchmark_function(jnp.sin, 0, 1, data=(x,)).std == 0


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
        ({"n_batch_per_run": 0}, ValueError, "`n_batch_per_run` must be at least 1"),
        ({"n_runs": 2.0}, TypeError, "`n_runs` must be an int, a number of runs; got 2.0"),
        ({"n_runs": True}, TypeError, "got True"),
        ({"data": x}, TypeError, r"positional arguments, such as \(x,\); got ArrayImpl"),
    ],
)
def test_wrong_arguments(options, error, text):
    with pytest.raises(error, match=text):
        benchmark.measure(lambda: x, **options)
