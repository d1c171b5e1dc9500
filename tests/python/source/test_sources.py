"""The corpus of annotated sources: those for the CPU run, those for GPUs are built."""

import functools
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "sources"))

import corpus

ALL = corpus.all_cases()
CPU = [c for c in ALL if c.language != "cuda"]
CUDA = [c for c in ALL if c.language == "cuda"]
NAMED = {"argnames": "case", "argvalues": CPU, "ids": [c.name for c in CPU]}


def one_of(n):
    """Every n-th case; the others run in `make test-all`."""
    rare = pytest.mark.exhaustive
    params = [pytest.param(c, id=c.name, marks=[rare] * (i % n > 0)) for i, c in enumerate(CPU)]
    return {"argnames": "case", "argvalues": params}


Error = (jax.errors.JaxRuntimeError, ValueError)  # which of them depends on how JAX dispatches

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("x64")]


@functools.cache
def load(case):
    return case.load()


def test_the_corpus_is_large_and_every_file_has_a_case():
    assert len(CUDA) >= 20
    assert len(CPU) >= 14
    assert len({c.name for c in ALL}) == len({c.features for c in ALL}) == len(ALL)
    for folder in ("cuda", "cpp", "c"):
        files = {p.relative_to(corpus.HERE).as_posix() for p in (corpus.HERE / folder).iterdir()}
        assert files == {c.file for c in ALL if c.path.parent.name == folder}


@pytest.mark.parametrize("case", ALL, ids=[c.name for c in ALL])
def test_every_bug_is_an_edit_of_its_own(case):
    assert len(case.bugs) >= 2
    assert len({what for _, _, what in case.bugs}) == len(case.bugs)
    for number in range(len(case.bugs)):
        case.text_with(*case.bugs[number][:2])


@pytest.mark.brief
@pytest.mark.parametrize(**one_of(3))
def test_numbers_are_those_of_the_reference(case):
    module = load(case)
    assert set(module.function_names) == {c.function for c in case.calls}
    for seed in (0, 1):
        assert case.wrong(module, seed) == ""


@pytest.mark.brief
@pytest.mark.parametrize(**one_of(4))
def test_a_planted_bug_shows(case):
    """One bug of each case, which differs from case to case."""
    show_bugs(case, [zlib.crc32(case.name.encode()) % len(case.bugs)])


@pytest.mark.exhaustive
@pytest.mark.parametrize(**NAMED)
def test_every_planted_bug_shows(case):
    show_bugs(case, range(len(case.bugs)))


def show_bugs(case, numbers):
    with ThreadPoolExecutor(2) as pool:
        modules = list(pool.map(case.load_with, numbers))
    for module, number in zip(modules, numbers, strict=True):
        corpus.scribble()
        what = case.bugs[number][2]
        assert case.wrong(module, 2), f"{case.file} is right in spite of a bug: {what}"


def sliced(call):
    """Inputs of three slices, if they are of one shape."""
    each = [call.inputs(np.random.default_rng(seed)) for seed in range(3)]
    return [np.stack(arrays) for arrays in zip(*each, strict=True)]


@pytest.mark.brief
@pytest.mark.parametrize(**one_of(4))
def test_vmap_equals_slices(case):
    module = load(case)
    for call in case.calls:
        stacked = sliced(call)
        first = call.expected(tuple(a[0] for a in stacked))
        operation = call.bound(module, first)
        found = jax.tree.leaves(jax.jit(jax.vmap(operation))(*map(jnp.asarray, stacked)))
        for i in range(3):
            one = operation(*(jnp.asarray(a[i]) for a in stacked))
            for together, alone, e in zip(found, jax.tree.leaves(one), first, strict=True):
                if not isinstance(e, jax.ShapeDtypeStruct):
                    assert np.asarray(together[i]).tobytes() == np.asarray(alone).tobytes()


def test_vmap_over_some_inputs_takes_the_others_whole():
    module = load(named("interpolation"))
    xs, ys = jnp.arange(5.0), jnp.asarray([0.0, 1.0, 4.0, 9.0, 16.0])
    at = jnp.linspace(0, 4, 12).reshape(3, 4)
    operation = module.interp.operation(jax.ShapeDtypeStruct((4,), at.dtype))
    found = jax.vmap(operation, in_axes=(None, None, 0))(xs, ys, at)
    np.testing.assert_allclose(found, np.interp(at, xs, ys), rtol=1e-12)


def named(name):
    return next(c for c in ALL if c.name == name)


def S(*shape, dtype=np.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


I32 = np.int32
# Case, function, inputs, outputs, attributes, words of the message.
REFUSED = {
    "BE_CHECK": (
        "union_find", "components", [np.zeros(3, I32), np.zeros(2, I32)],
        (S(4, dtype=I32), S(1, dtype=I32)), {},
        r"union_find.cpp:\d+: check failed: \(from.numel.* to.numel\(\)\) 3 sources, 2 targets",
    ),
    "BE_CHECK of data": (
        "union_find", "components", [np.array([0, 9], I32), np.array([1, 2], I32)],
        (S(4, dtype=I32), S(1, dtype=I32)), {}, "edge 1 leaves the graph",
    ),
    "data_ptr": (
        "kdtree", "nearest", [np.zeros((3, 2), I32), np.zeros((3, 2), I32)],
        (S(3, 1), S(3, 1, dtype=I32)), {}, "a tensor of int32, expected one of float32, float64",
    ),
    "wrong dtype of an output": (
        "kdtree", "nearest", [np.zeros((3, 2), np.float32), np.zeros((3, 2), np.float32)],
        (S(3, 1), S(3, 1)), {}, "data_ptr<int32> of a tensor of float32",
    ),
    "std::invalid_argument": (
        "quantiles", "quantile", [np.zeros((2, 3))], S(2, dtype=np.float64), {"q": 1.5},
        "q is 1.5.*expected one from 0 to 1",
    ),
    "an int": (
        "quantiles", "quantile", [np.full((2, 3), np.nan)], S(2, dtype=np.float64), {"q": 0.5},
        "an exception that is no std::exception",
    ),
    "std::out_of_range": (
        "quantiles", "pick", [np.zeros(3, np.float32)], S(1), {"index": 3}, "_M_range_check",
    ),
    "std::domain_error of a thread": (
        "logsumexp_parallel", "roots", [-np.ones(1000, np.float32)], S(1000), {},
        "a negative number has no root",
    ),
    "no such axis": (
        "quicksort", "argsort", [np.zeros((), np.float32)], S(dtype=I32), {"descending": False},
        "axis -1 of a tensor of 0 axes",
    ),
    "kb_fail": (
        "concatenate", "concatenate", [np.zeros((2, 3)), np.zeros((2, 4))],
        S(4, 3, dtype=np.float64), {}, "input 1: axis 1 is 4, not 3",
    ),
    "kb_fail of another code": (
        "concatenate", "concatenate", [np.zeros((2, 3))], S(4, 3, dtype=np.float64), {},
        "2 rows for an output of 4",
    ),
    "a status without words": (
        "tridiagonal", "tridiagonal", [np.zeros(3)] * 4, (S(3, dtype=np.float64),) * 2, {},
        "tridiagonal",
    ),
    "a check in C++ without BE": (
        "viterbi", "viterbi", [np.zeros(2), np.zeros((3, 3)), np.zeros((4, 2))],
        (S(4, dtype=I32), S(1, dtype=np.float64), S(4, 2, dtype=I32)), {},
        "transitions among 3 states, emissions of 2",
    ),
    "BE_CHECK_CSR_INDICES_INT32": (
        "csr_products", "csr_transposed_events",
        [np.ones(1, np.float32), np.zeros(2, np.int64), np.array([0, 2]), np.ones(1, bool)], S(4),
        {}, "CSR indices must be int32, and are int64",
    ),
}  # fmt: skip


@pytest.mark.brief
@pytest.mark.parametrize("what", REFUSED)
def test_what_a_source_refuses_is_an_error_of_jax(what):
    case, function, inputs, outs, attributes, message = REFUSED[what]
    operation = load(named(case))[function].operation(outs, attrs=attributes)
    with pytest.raises(Error, match=rf"{message}.*\[KB3005\]"):
        jax.block_until_ready(jax.jit(operation)(*map(jnp.asarray, inputs)))


ALWAYS = "event_product"


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(c, id=c.name, marks=[] if c.name == ALWAYS else [pytest.mark.exhaustive])
        for c in CUDA
    ],
)
def test_cuda_sources_are_built(case):
    try:
        module = case.load(compute_capability="9.0", auto_register=False)
    except kernbridge.NvccNotFoundError as e:
        pytest.skip(f"no nvcc: {str(e).splitlines()[0]}")
    assert set(module.function_names) == {c.function for c in case.calls}
