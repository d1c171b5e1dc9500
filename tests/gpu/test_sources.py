"""The corpus of CUDA sources on a GPU: the numbers of the references, and every planted bug shows.

Sources and their variants with bugs are built at once, by as many threads as there are cores.
"""

import os
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "sources"))

import corpus

CUDA = [c for c in corpus.all_cases() if c.language == "cuda"]
BUGS = [(c, i) for c in CUDA for i in range(len(c.bugs))]
NAMED = {"argnames": "case", "argvalues": CUDA, "ids": [c.name for c in CUDA]}
# Some insist on an alias, which a slice of a vmap's loop may not have.
VMAPPED = [c for c in CUDA if not any(k.aliases for k in c.calls)]

Error = (jax.errors.JaxRuntimeError, ValueError)  # which of them depends on how JAX dispatches

pytestmark = pytest.mark.usefixtures("x64")


@pytest.fixture(scope="module")
def builds(request):
    """A future for each build that the chosen tests need."""
    wanted: dict[tuple[str, int], Future] = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for item in request.session.items:
            parameters = getattr(item, "callspec", None) and item.callspec.params
            if item.module is not request.module or not parameters:
                continue
            case, number = parameters["case"], parameters.get("number", -1)
            if (case.name, number) not in wanted:
                build = (case.load,) if number < 0 else (case.load_with, number)
                wanted[case.name, number] = pool.submit(*build)
        yield wanted
        for future in wanted.values():
            future.cancel()


@pytest.mark.parametrize(**NAMED)
def test_numbers_are_those_of_the_reference(case, builds):
    module = builds[case.name, -1].result()
    assert set(module.function_names) == {c.function for c in case.calls}
    for seed in (0, 1):
        corpus.scribble()
        assert case.wrong(module, seed) == ""


@pytest.mark.parametrize(("case", "number"), BUGS, ids=[f"{c.name}-{i}" for c, i in BUGS])
def test_every_planted_bug_shows(case, number, builds):
    module = builds[case.name, number].result()
    corpus.scribble()
    what = case.bugs[number][2]
    assert case.wrong(module, 2 + number), f"{case.file} is right in spite of a bug: {what}"


@pytest.mark.parametrize("case", VMAPPED, ids=[c.name for c in VMAPPED])
def test_vmap_equals_slices(case, builds):
    module = builds[case.name, -1].result()
    for call in case.calls:
        each = [call.inputs(np.random.default_rng(seed)) for seed in range(3)]
        if not each[0]:
            continue
        stacked = [jnp.stack(list(map(jnp.asarray, arrays))) for arrays in zip(*each, strict=True)]
        expected = [call.expected(arrays) for arrays in each]
        operation = call.bound(module, expected[0])
        found = jax.tree.leaves(jax.jit(jax.vmap(operation))(*stacked))
        for i, e in enumerate(expected):
            assert call.wrong([f[i] for f in found], e) == ""


def test_a_loop_on_the_gpu_advances_the_state():
    """A scan of the ring of delays, in place, step by step."""
    case = next(c for c in CUDA if c.name == "delay_ring")
    call = case.calls[0]
    arrays = call.inputs(np.random.default_rng(0))
    expected = call.expected(arrays)
    operation = call.bound(case.load(), expected)
    ring, *rest = map(jnp.asarray, arrays)

    @jax.jit
    def steps(ring):
        return jax.lax.scan(lambda r, _: tuple(operation(r, *rest)), ring, length=4)

    now, seen = arrays[0], []
    for _ in range(4):
        now, out = call.expected((now, *arrays[1:]))
        seen.append(out)
    last, found = steps(ring)
    np.testing.assert_array_equal(last, now)
    np.testing.assert_array_equal(found, np.stack(seen))


def test_a_check_on_the_host_is_an_error_of_jax():
    case = next(c for c in CUDA if c.name == "softmax_rows")
    x = jnp.ones((2, 3), jnp.float32)
    operation = case.load().softmax.operation(
        jax.ShapeDtypeStruct(x.shape, x.dtype), attrs={"temperature": -1.0}
    )
    with pytest.raises(Error, match=r"check failed: \(temperature > 0\) temperature -1"):
        jax.block_until_ready(operation(x))


def test_a_launch_that_cannot_be_is_an_error_of_jax():
    """More shared memory than a block may have; the next call works."""
    case = next(c for c in CUDA if c.name == "softmax_rows")
    module = case.load()
    x = jnp.ones((2, 1 << 17), jnp.float32)
    operation = module.softmax.operation(
        jax.ShapeDtypeStruct(x.shape, x.dtype), attrs={"temperature": 1.0}
    )
    with pytest.raises(Error, match=r"invalid argument|invalid configuration"):
        jax.block_until_ready(operation(x))
    assert case.wrong(module, 0) == ""


def test_every_source_has_its_place_in_the_cache():
    case = CUDA[0]
    assert case.load().path == case.load().path
    assert kernbridge.load_cuda_file(case.path, **case.all_options).function_names
