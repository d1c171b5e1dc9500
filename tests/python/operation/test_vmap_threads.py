"""The slices of a batch on many threads: when they run at once, and what comes out.

A slice of `meet` says that it runs, in memory whose address is an input, and waits a while for
another one.
"""

import ctypes
import math
import re

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from kernbridge import load_cpp_inline, numba_kernel
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

SPINS = 500_000  # some milliseconds
SLICES = 12


@intrinsic
def add_at(typing, address, value):
    """Atomically add to the number at an address; what was there before."""

    def code(context, builder, signature, arguments):
        pointer = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        return builder.atomic_rmw("add", pointer, arguments[1], "seq_cst")

    return types.int64(types.int64, types.int64), code


@intrinsic
def count_up(typing):
    """A variable that calls of a kernel share."""

    def code(context, builder, signature, arguments):
        word = ir.IntType(64)
        hidden = ir.GlobalVariable(builder.module, word, "hidden")
        hidden.linkage = "internal"
        hidden.initializer = word(0)
        count = builder.add(builder.load(hidden), word(1))
        builder.store(count, hidden)
        return count

    return types.int64(), code


@numba.njit
def meets(words):
    """Whether another slice runs too."""
    address = np.int64(words[1]) << 32 | np.int64(words[0])
    add_at(address, 1)
    met = False
    for _ in range(SPINS):
        if add_at(address, 0) > 1:
            met = True
            break
    for _ in range(SPINS // 100):  # so that the other one sees this one
        add_at(address, 0)
    add_at(address, -1)
    return met


@numba.njit
def meet(x, address, out):
    out[0] = meets(address)


@numba.njit
def meet_at_random(x, address, out):
    out[0] = meets(address) + 0 * np.random.random()


@numba.njit
def meet_and_print(x, address, out):
    out[0] = meets(address)
    if x[0] < 0:
        print(out[0])


@numba.njit
def meet_with_python(x, address, out):
    out[0] = meets(address)
    if x[0] < 0:
        with numba.objmode():
            x.sum()


@numba.njit
def meet_and_count(x, address, out):
    out[0] = meets(address) + 0 * count_up()


absolute = ctypes.CDLL(None).labs
absolute.argtypes, absolute.restype = [ctypes.c_long], ctypes.c_long


@numba.njit
def meet_elsewhere(x, address, out):
    out[0] = absolute(meets(address))


@numba.njit(parallel=True)
def meet_in_parallel(x, address, out):
    for _ in numba.prange(1):
        out[0] = meets(address)


class RefusedError(Exception):
    def __str__(self):
        return "refused"


@numba.njit
def meet_or_raise(x, address, out):
    if x[0] < 0:
        raise RefusedError(1)
    out[0] = meets(address)


OUT = jax.ShapeDtypeStruct((1,), jnp.float32)


@pytest.fixture
def address():
    counter = np.zeros(1, np.int64)
    yield jnp.asarray(np.array([counter.ctypes.data]).view(np.uint32))
    assert counter[0] == 0


def any_met(op, address, times=1):
    """Whether slices ran at once; a machine that has no time for it may be asked again."""
    x = jnp.arange(float(SLICES)).reshape(-1, 1)
    run = jax.jit(jax.vmap(op, in_axes=(0, None)))
    return any(np.asarray(run(x, address)).any() for _ in range(times))


def test_slices_run_at_once(address):
    assert any_met(numba_kernel(meet, OUT), address, times=50)


def test_code_of_user_classes_does_not_keep_slices_in_order(address):
    assert any_met(numba_kernel(meet_or_raise, OUT), address, times=50)


def test_true_lets_any_kernel_run_at_once(address):
    assert any_met(numba_kernel(meet_at_random, OUT, vmap_threads=True), address, times=50)


@pytest.mark.brief
@pytest.mark.parametrize(
    ("kernel", "options"),
    [
        (meet, {"vmap_threads": False}),
        (meet, {"has_side_effect": True}),
        (meet_at_random, {}),
        (meet_and_print, {}),
        (meet_with_python, {}),
        (meet_and_count, {}),
        (meet_elsewhere, {}),
        (meet_in_parallel, {}),
        (meet_in_parallel, {"vmap_threads": True}),
    ],
    ids=lambda value: getattr(value, "__name__", None) or "-".join(value) or "auto",
)
def test_slices_stay_in_order(kernel, options, address):
    assert not any_met(numba_kernel(kernel, OUT, **options), address)


@pytest.mark.once
@pytest.mark.parametrize("value", ["yes", 1, 0.0])
def test_unknown_values_are_refused(value):
    with pytest.raises(TypeError, match=r"numba_kernel.*'meet'.*vmap_threads.*\[KB1005\]"):
        numba_kernel(meet, OUT, vmap_threads=value)


@numba.njit
def series(x, out):
    s = 0.0
    for i in range(5_000):
        s += math.sin(x[0] * i) / (i + 1)
    out[0] = s


def test_the_results_are_those_of_a_loop():
    op = numba_kernel(series, OUT)
    x = jnp.linspace(0, 3, 60).reshape(3, 20, 1)
    shared = jax.vmap(jax.vmap(op))(x)
    ordered = jax.vmap(jax.vmap(numba_kernel(series, OUT, vmap_threads=False)))(x)
    run = jax.jit(op)
    one_by_one = [float(run(v)[0]) for v in x.reshape(-1, 1)]
    np.testing.assert_array_equal(shared, ordered)
    np.testing.assert_array_equal(np.ravel(shared), one_by_one)


@numba.njit
def series_or_raise(x, out):
    s = 0.0
    for i in range(200_000 if x[0] == 17 else 20_000):
        s += math.sin(x[0] * i) / (i + 1)
    if x[0] >= 17:
        raise ValueError("too large", x[0], s > 1e9)
    out[0] = s


@pytest.mark.parametrize("vmap_threads", [None, False])
def test_the_first_slice_that_fails_is_the_error(vmap_threads):
    op = jax.jit(jax.vmap(numba_kernel(series_or_raise, OUT, vmap_threads=vmap_threads)))
    x = jnp.arange(64.0).reshape(-1, 1)
    for _ in range(5):
        with pytest.raises(
            jax.errors.JaxRuntimeError,
            match=r"\('too large', 17\.0, False\) .*\[slice 17 of a batch of 64\].*\[KB3001\]",
        ):
            op(x).block_until_ready()


@pytest.mark.parametrize(("vmap_threads", "word"), [(None, 1), (False, 257), (True, 513)])
def test_the_option_is_in_exported_programs(vmap_threads, word):
    x = jnp.arange(4.0).reshape(-1, 1)
    op = numba_kernel(series, OUT, vmap_threads=vmap_threads)
    program = jax.export.export(jax.jit(jax.vmap(op)))(x)
    assert re.search(rf"call = dense<\[-?\d+, {word}, 1\]> : tensor<3xi64>", program.mlir_module())
    loaded = jax.export.deserialize(program.serialize())
    np.testing.assert_array_equal(loaded.call(x), jax.vmap(op)(x))


@numba.njit
def add_series(x, y, out):
    for i in range(5_000):
        out[0] += math.sin(y[0] * i) / (i + 1)


@numba.njit
def series_or_refuse(x, out):
    s = 0.0
    for i in range(20_000):
        s += math.sin(x[0] * i) / (i + 1)
    if x[0] >= 17:
        raise RefusedError(s)
    out[0] = s


def test_exceptions_that_python_describes():
    """The threads that run slices enter Python, while the one that called waits."""
    op = jax.jit(jax.vmap(numba_kernel(series_or_refuse, OUT)))
    x = jnp.arange(64.0).reshape(-1, 1)
    for _ in range(5):
        with pytest.raises(
            jax.errors.JaxRuntimeError,
            match=r"RefusedError: refused .*\[slice 17 of a batch of 64\].*\[KB3001\]",
        ):
            op(x).block_until_ready()


def test_an_input_may_be_the_memory_of_the_output():
    x, y = jnp.zeros((40, 1)), jnp.linspace(0, 3, 40).reshape(-1, 1)
    shared, ordered = (
        numba_kernel(add_series, OUT, input_output_aliases={0: 0}, vmap_threads=threads)
        for threads in (None, False)
    )
    np.testing.assert_array_equal(jax.vmap(shared)(x, y), jax.vmap(ordered)(x, y))


MEET_CPP = r"""
#include "kernbridge/kernbridge.hpp"
#include <atomic>

// @BE meet arg arg ret
void meet(const kernbridge::Tensor x, const kernbridge::Tensor words, kernbridge::Tensor out) {
    auto *there = *static_cast<std::atomic<int64_t> *const *>(words.data_ptr());
    there->fetch_add(1);
    bool met = false;
    for (int i = 0; !met && i < 2000000; i++)
        met = there->load() > 1;
    for (int i = 0; i < 20000; i++)
        there->load();
    there->fetch_sub(1);
    out.data_ptr<float>()[0] = met;
}
"""


def test_functions_of_modules_run_at_once_if_told(address):
    meet = load_cpp_inline("test_meet", MEET_CPP).meet
    assert any_met(meet.operation(OUT, vmap_threads=True), address, times=50)
    for options in ({}, {"vmap_threads": False}):
        assert not any_met(meet.operation(OUT, **options), address)
