"""CUDA kernels on several CPU devices: launches of a split call are those for its parts."""

import jax
import kernbridge
import numpy as np
import pytest
from jax.experimental import serialize_executable
from jax.sharding import PartitionSpec as P
from kernbridge import ShardingRule
from sharded import check, collectives, put

numba_cuda = pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
from cuda_kernels import square  # noqa: E402
from numba import cuda  # noqa: E402

pytestmark = pytest.mark.usefixtures("gpu")
S = jax.ShapeDtypeStruct
X = np.arange(16, dtype=np.float32)
A = np.arange(4 * 16, dtype=np.float32).reshape(4, 16)


@cuda.jit
def unguarded(x, out):
    i = cuda.grid(1)  # as many threads as elements, so that a launch for the whole array faults
    out[i] = x[i] * cuda.gridsize(1)


def same(x, *_):
    return S(x.shape, x.dtype)


def test_the_grid_of_a_part_is_launched_for_the_part():
    op = kernbridge.numba_cuda_kernel(
        unguarded, same, launch_dims=lambda x: x.shape, threads_per_block=2, sharding_rule="i -> i"
    )
    found = jax.jit(op)(put(X, "x"))
    assert found.sharding.spec == P("x")
    np.testing.assert_array_equal(found, X * 4)  # the size of the grid of a part
    check(jax.vmap(op), put(A, "x"))


def test_a_batch_is_split_without_a_rule():
    op = kernbridge.numba_cuda_kernel(unguarded, same, launch_dims=lambda x: x.shape)
    check(jax.vmap(op), put(A, "x"))
    check(jax.vmap(jax.vmap(op)), put(A.reshape(2, 4, 8), None, "x"))


@cuda.jit
def total(x, out):
    if cuda.grid(1) == 0:
        out[0] = 0
        for i in range(x.size):
            out[0] += x[i]


def fourth_power(x, out, stream):
    squared = cuda.device_array(x.shape, x.dtype)
    n = x.size
    square[(n + 3) // 4, 4, stream](x, squared)
    square[(n + 3) // 4, 4, stream](squared, out)


@pytest.mark.exhaustive
def test_a_function_with_temporaries():
    plain = kernbridge.numba_cuda_callable(fourth_power, same)
    check(jax.vmap(plain), put(A, "x"))
    op = kernbridge.numba_cuda_callable(fourth_power, same, sharding_rule="i -> i")
    found = check(op, put(X, "x"))
    assert found.sharding.spec == P("x")
    check(jax.vmap(op), put(A, None, "x"))
    with pytest.warns(kernbridge.KernbridgeWarning, match=r"\[KB6002\]"):
        check(plain, put(X, "x"), moved=["all-gather"])


def sum_of_squares(x, out, stream):
    squared = cuda.device_array(x.shape, x.dtype)
    square[(x.size + 3) // 4, 4, stream](x, squared)
    total[1, 1, stream](squared, out)


def test_a_sum_over_temporaries():
    op = kernbridge.numba_cuda_callable(
        sum_of_squares, S((1,), np.float32), sharding_rule=ShardingRule("i -> one", reduce="sum")
    )
    check(op, put(X, "x"), moved=["all-reduce"])


@cuda.jit
def accumulate(x, bins):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(x, i, 1.0)
        bins[i] = x[i]


@pytest.mark.filterwarnings("ignore:.*the kernel may write to")
def test_an_input_that_is_copied():
    op = kernbridge.numba_cuda_kernel(
        accumulate, same, launch_dims=lambda x: x.shape, sharding_rule="i -> i"
    )
    x = put(X, "x")
    check(op, x)
    np.testing.assert_array_equal(x, X)
    check(jax.vmap(op), put(A, "x"))


def test_an_exported_program_launches_for_whole_arrays():
    op = kernbridge.numba_cuda_kernel(
        unguarded, same, launch_dims=lambda x: x.shape, sharding_rule="i -> i"
    )
    targets = ("kernbridge.cuda.graph", "kernbridge.cuda.graph.split")
    checks = [jax.export.DisabledSafetyCheck.custom_call(name) for name in targets]
    x = put(X, "x")
    program = jax.export.export(jax.jit(op), disabled_checks=checks)(x)
    batch = put(A, "x")
    batched = jax.export.export(jax.jit(jax.vmap(op)), disabled_checks=checks)(batch)
    with pytest.warns(kernbridge.KernbridgeWarning, match=r"\[KB6002\]"):
        found = jax.jit(jax.export.deserialize(program.serialize()).call)(x)
    np.testing.assert_array_equal(found, X * 16)
    call = jax.export.deserialize(batched.serialize()).call
    np.testing.assert_array_equal(jax.jit(call)(batch), A * 16)
    assert not collectives(call, batch)


def test_a_serialized_executable():
    op = kernbridge.numba_cuda_kernel(
        square, same, launch_dims=lambda x: x.shape, sharding_rule="i -> i"
    )
    x = put(X, "x")
    compiled = jax.jit(op).lower(x).compile()
    parts = serialize_executable.serialize(compiled)
    loaded = serialize_executable.deserialize_and_load(*parts, execution_devices=jax.devices()[:4])
    np.testing.assert_array_equal(loaded(x), X * X)
