"""The corpus of callables: recorded equals unrecorded, Python is not entered, planted bugs show."""

import inspect
import types
import warnings

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest

cuda = pytest.importorskip("numba.cuda")
import fake_gpu  # noqa: E402
from callables import CASES, F32, S, add  # noqa: E402
from gil import Gate  # noqa: E402
from kernbridge._src.record import record as record_record  # noqa: E402

NAMED = {"argnames": "case", "argvalues": CASES, "ids": [c.name for c in CASES]}


def inputs_of(case, seed=0):
    return tuple(jnp.asarray(x) for x in case.inputs(np.random.default_rng(seed)))


def wrap(case, record, function=None):
    return kernbridge.numba_cuda_callable(
        function or case.function, case.outs, input_output_aliases=case.aliases, record=record
    )


def leaves(result):
    return [np.asarray(x) for x in jax.tree.leaves(result)]


def scribble():
    """Leave numbers of no use in the memory that the next operation gets."""
    made = [jnp.full(1 << k, jnp.nan) for k in range(4, 16) for _ in range(8)]
    jax.block_until_ready(made)


def expected_of(case, seed=0):
    return case.reference(*case.inputs(np.random.default_rng(seed)))


def test_the_corpus_is_large_and_every_case_has_bugs():
    assert len(CASES) >= 25
    assert len({c.covers for c in CASES}) == len({c.name for c in CASES}) == len(CASES)
    assert all(c.bugs for c in CASES)


@pytest.fixture(scope="module")
def gate(tmp_path_factory):
    return Gate(fake_gpu.compiler(), tmp_path_factory.mktemp("gate"))


@pytest.mark.parametrize(**NAMED)
def test_recorded_equals_unrecorded_and_reference(case, on_cpu):
    inputs = inputs_of(case)
    recorded = jax.jit(wrap(case, "always"))
    found = leaves(recorded(*inputs))
    if not on_cpu:  # what is not recorded is launched by Numba
        for a, b in zip(found, leaves(wrap(case, "never")(*inputs)), strict=True):
            assert a.tobytes() == b.tobytes()
    for a, b in zip(found, expected_of(case), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)
    for a, b in zip(found, leaves(recorded(*inputs)), strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize(**NAMED)
def test_runs_while_another_thread_holds_the_gil(case, gate, on_cpu):
    inputs = inputs_of(case)
    if on_cpu and not (inputs and inputs[0].size):
        pytest.skip("the gate is before what reads the first input, and nothing does")
    op = wrap(case, "always")
    expected = leaves(op(*inputs))
    if inputs:
        compiled, args = gate.compile(op, *inputs), inputs
    else:
        args = (jnp.zeros(3),)
        compiled = gate.compile(
            lambda x: jax.tree.leaves(jax.lax.optimization_barrier((op(), x))), *args
        )
    before = kernbridge._core.python_entries()
    outs, reached = gate.run(compiled, *args)
    assert reached
    assert kernbridge._core.python_entries() == before
    for a, b in zip(leaves(outs), expected, strict=bool(inputs)):
        assert a.tobytes() == b.tobytes()


@pytest.mark.gpu_only("a bug may reach beyond an array: what a GPU tells would be a crash here")
@pytest.mark.parametrize(
    ("case", "number"),
    [(c, i) for c in CASES for i in range(len(c.bugs))],
    ids=[f"{c.name}-{i}" for c in CASES for i in range(len(c.bugs))],
)
def test_a_planted_bug_shows(case, number, monkeypatch):
    original = case.function
    function = types.FunctionType(
        original.__code__, original.__globals__, original.__name__, None, original.__closure__
    )
    seed = 1 + number  # what an earlier run left in memory must not help

    def plant(*args):
        recording = record(*args)
        before = list(recording.steps)
        case.bugs[number](recording.steps)
        assert recording.steps != before
        return recording

    record = record_record.record
    monkeypatch.setattr(record_record, "record", plant)
    scribble()
    try:
        found = leaves(wrap(case, "always", function)(*inputs_of(case, seed)))
    except (jax.errors.JaxRuntimeError, kernbridge.KernelError) as e:
        refusals = ("the plan reaches bytes", "so the output is never written")
        if not any(refusal in str(e) for refusal in refusals):
            raise
        return
    assert any(
        not np.allclose(a, b, rtol=2e-5, atol=1e-5)
        for a, b in zip(found, expected_of(case, seed), strict=True)
    )


def host_read(x, out, stream):
    values = x.copy_to_host()
    add[1, 64, stream](x, x, out if values.size else x)


def host_element(x, out, stream):
    if x[0] > -1e9:
        add[1, 64, stream](x, x, out)


def as_numpy(x, out, stream):
    if np.asarray(x.copy_to_host()).size:
        add[1, 64, stream](x, x, out)


def array_as_numpy(x, out, stream):
    add[1, 64, stream](x, x, out if np.asarray(x).size else x)


def element_as_float(x, out, stream):
    add[1, 64, stream](x, x, out if float(x[0]) > -1e9 else x)


def from_host(x, out, stream):
    other = cuda.to_device(np.zeros(x.size, F32), stream=stream)
    add[1, 64, stream](x, x, out)
    add[1, 64, stream](out, other, out)


def with_event(x, out, stream):
    event = cuda.event()
    add[1, 64, stream](x, x, out)
    event.record(stream)


def interface(x, out, stream):
    assert x.__cuda_array_interface__["shape"] == x.shape
    add[1, 64, stream](x, x, out)


def unknown_attribute(x, out, stream):
    x.gpu_data  # noqa: B018
    add[1, 64, stream](x, x, out)


@pytest.mark.parametrize(
    "function",
    [
        host_read,
        host_element,
        as_numpy,
        array_as_numpy,
        element_as_float,
        from_host,
        with_event,
        interface,
        unknown_attribute,
    ],
    ids=lambda f: f.__name__,
)
def test_what_cannot_be_recorded_says_so_and_runs_as_python(function):
    x = jnp.arange(50, dtype=F32)
    make = kernbridge.numba_cuda_callable
    line = inspect.getsourcelines(function)[1] + 1
    with pytest.raises(kernbridge.KernelError, match=rf"test_callables.py:{line} "):
        make(function, S(50), record="always")(x)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        op = make(function, S(50))
        for _ in range(2):
            np.testing.assert_array_equal(jax.jit(lambda x: op(x))(x), 2 * np.arange(50))
    ours = [w for w in caught if issubclass(w.category, kernbridge.KernbridgeWarning)]
    assert len(ours) == 1
    assert f"test_callables.py:{line} " in str(ours[0].message)
    np.testing.assert_array_equal(make(function, S(50), record="never")(x), 2 * np.arange(50))
    np.testing.assert_array_equal(x, np.arange(50))


def test_an_exception_of_a_function_that_runs_as_python_is_a_jax_error():
    def wrong(x, out, stream):
        raise ZeroDivisionError("mine")

    op = kernbridge.numba_cuda_callable(wrong, S(50), record="never")
    line = inspect.getsourcelines(wrong)[1] + 1
    with pytest.raises(
        jax.errors.JaxRuntimeError, match=rf"'wrong': ZeroDivisionError: mine at .*:{line}"
    ):
        op(jnp.ones(50)).block_until_ready()


def test_vmap_of_recorded_and_unrecorded():
    (case,) = [c for c in CASES if c.name == "lif_step"]
    v, threshold, rest = inputs_of(case)
    batch = jnp.stack([v, v + 1, v - 1])
    recorded = jax.vmap(wrap(case, "always"), (0, None, None))(batch, threshold, rest)
    unrecorded = jax.vmap(wrap(case, "never"), (0, None, None))(batch, threshold, rest)
    for a, b in zip(leaves(recorded), leaves(unrecorded), strict=True):
        np.testing.assert_array_equal(a, b)
