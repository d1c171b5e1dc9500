"""Writes out of bounds of CUDA kernels that run on the CPU without the checked mode.

They are left out and reported, and nothing beside the array changes. Each test is a program of its
own, since this process has a fake driver that takes GPU calls.
"""

import pytest

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")

pytestmark = pytest.mark.once

HEAD = r"""
import jax, jax.numpy as jnp, numba, numpy as np
from kernbridge import numba_cuda_callable, numba_cuda_kernel
from numba import cuda
S = jax.ShapeDtypeStruct
F = lambda *shape: S(shape, jnp.float32)

def refused(op, *args, words=()):
    try:
        jax.block_until_ready(op(*args))
    except (jax.errors.JaxRuntimeError, ValueError) as e:  # JAX's fast path raises the latter
        for word in ("INTERNAL: ", "out of bounds", "check=True", *words):
            assert word in str(e), (word, str(e))
    else:
        raise SystemExit(f"no error with {words}")
"""


@pytest.mark.exhaustive
def test_neighbours_and_the_heap_stay_whole(run):
    """A kernel writes where the allocator has its marks, into the other array, and far away."""
    run("""
@cuda.jit
def kernel(by, first, second):
    i = cuda.grid(1)
    if i < first.size:
        first[i] = 1
        second[i] = 2
        first[i + by[0]] = 7

op = numba_cuda_kernel(kernel, (F(24), F(24)), launch_dims=24)
with jax.enable_x64(True):
    for by in (1, 24, 1000, 10**6, 2**40, -25, -(10**6), -(2**40)):
        refused(op, jnp.asarray([by]), words=("_kernel 'kernel': launch", "'first' (f32[1d])"))
first, second = op(jnp.asarray([0]))
np.testing.assert_array_equal(first, 7)
np.testing.assert_array_equal(second, 2)
first, second = op(jnp.asarray([-24]))  # Python's negative indices
np.testing.assert_array_equal(first, 7)

@cuda.jit
def unguarded(x, out):
    i = cuda.grid(1)
    out[i] = x[0] + i

exact = numba_cuda_kernel(unguarded, F(256), launch_dims=256)
np.testing.assert_array_equal(exact(jnp.ones(1)), np.arange(256) + 1)
refused(numba_cuda_kernel(unguarded, F(255), launch_dims=256), jnp.ones(1), words=("'out'",))

@cuda.jit
def both(x, none, out):
    i = cuda.grid(1)
    out[i] = x[0]
    none[i] = 1

refused(numba_cuda_kernel(both, (F(0), F(3)), launch_dims=3), jnp.ones(1), words=("'none'",))
large = numba_cuda_kernel(unguarded, F(999_999), launch_dims=1_000_000)  # threads of XLA's pool
refused(large, jnp.ones(1), words=("'out'",))
zeroed = numba_cuda_kernel(unguarded, F(255), launch_dims=256, zero_outputs=True)
refused(zeroed, jnp.ones(1))
refused(jax.jit(jax.vmap(numba_cuda_kernel(unguarded, F(255), launch_dims=256))), jnp.ones((3, 1)))
batched = jax.jit(jax.vmap(exact))(jnp.ones((3, 1)))
np.testing.assert_array_equal(batched, np.broadcast_to(np.arange(256) + 1, (3, 256)))
""")


@pytest.mark.exhaustive
def test_all_sorts_of_writes(run):
    run("""
def launched(kernel, out, at, **how):
    return numba_cuda_kernel(kernel, out, launch_dims=1, **how)(jnp.asarray(at, jnp.int32))

def check(kernel, out, inside, outside, *words, **how):
    kernel = cuda.jit(kernel)
    jax.block_until_ready(launched(kernel, out, inside, zero_outputs=True, **how))
    for at in outside:
        refused(lambda: launched(kernel, out, at, zero_outputs=True, **how), words=words)

def matrix(at, out):
    out[at[0], at[1]] = 1
check(matrix, F(3, 4), (2, 3), ((3, 0), (2, 4), (-4, 0), (0, 12)), "'out' (f32[2d])")
for at in ((2, -5), (0, 11), (1, 5)):  # leaves its axis, not the array: as on a GPU
    flat = np.ravel(launched(cuda.jit(matrix), F(3, 4), at, zero_outputs=True))
    assert flat[at[0] * 4 + at[1] + 4 * (at[1] < 0)] == 1, at

def row(at, out):
    view = out[at[0]]
    view[at[1]] = 1
check(row, F(3, 4), (2, 3), ((3, 0), (2, 4), (2, -5)), "'view' (f32[1d])")

def column(at, out):
    view = out[:, at[0]]
    view[at[1]] = 1
check(column, F(3, 4), (3, 2), ((0, 3), (4, 0)), "'view' (f32[1d])")

def part(at, out):
    view = out[at[0] :]
    view[at[1]] = 1
check(part, F(8), (7, 0), ((7, 1), (8, 0), (20, 0)))

def whole(at, out):
    out[at[0]] = at[1]
    out[at[0] :] = 3
    out[1:5] = at[1]
check(whole, F(8), (7, 0), ((8, 0),))

def flat(at, out):
    out.flat[at[0]] = 1
check(flat, F(3, 4), (11,), ((12,), (-1,)))

def added(at, out):
    cuda.atomic.add(out, at[0], 1)
check(added, F(8), (7,), ((8,), (-9,), (2**31 - 1,)), "'out' (f32[1d])")

def swapped(at, out):
    cuda.atomic.cas(out, at[0], 0, 1)
check(swapped, S((8,), jnp.int32), (7,), ((8,), (2**31 - 1,)), "'out' (i32[1d])")

def largest(at, out):
    cuda.atomic.max(out, (at[0], at[1]), 1)
check(largest, F(3, 4), (2, 3), ((3, 0),), "'out' (f32[2d])")

def hinted(at, out):
    cuda.stcs(out, at[0], np.float32(1))
check(hinted, F(8), (7,), ((8,), (2**31 - 1,)), "an array (f32[1d])")

def shared(at, out):
    memory = cuda.shared.array(4, numba.float32)
    memory[at[0]] = 1
    cuda.syncthreads()
    out[0] = memory[0]
check(shared, F(1), (3,), ((4,), (2**20,)), "block (0, 0, 0), thread (0, 0, 0)", "'memory'")

def dynamic(at, out):
    memory = cuda.shared.array(0, numba.float32)
    memory[at[0]] = 1
    cuda.syncthreads()
    out[0] = memory[0]
check(dynamic, F(1), (3,), ((4,),), "'memory'", shared_mem=16)

def local(at, out):
    memory = cuda.local.array(4, numba.float32)
    memory[at[0]] = 1
    out[0] = memory[0]
check(local, F(1), (3,), ((4,), (2**20,)), "'memory'")

record = np.dtype([("v", np.float32), ("n", np.int32)])
def records(at, out):
    out[at[0]].v = 1
    out[at[0]]["n"] = 2
check(records, S((4, 2), jnp.uint32), (3,), ((4,),), "'out'", view={"out": record})

@cuda.jit(device=True)
def put(where, at):
    where[at] = 1

def inner(at, out):
    put(out, at[0])
check(inner, F(8), (7,), ((8,),), "'where' (f32[1d])")
assert not put.overloads, "what is compiled for the CPU is found by kernels for GPUs"
""")


@pytest.mark.exhaustive
def test_launches_that_share_arrays(run):
    run("""
@cuda.jit
def aliased(x, at, y):
    i = cuda.grid(1)
    y[i + at[0]] = x[i] * 2

op = numba_cuda_kernel(aliased, F(8), launch_dims=8, input_output_aliases={0: 0})
np.testing.assert_array_equal(jax.jit(op)(jnp.arange(8.0), jnp.asarray([0])), 2 * np.arange(8.0))
x = jnp.arange(8.0)
refused(jax.jit(op), x, jnp.asarray([1]), words=("'y' (f32[1d])",))
np.testing.assert_array_equal(x, np.arange(8.0))

@cuda.jit
def filled(out):
    out[cuda.grid(1)] = 1

@cuda.jit
def moved(x, by, out):
    i = cuda.grid(1)
    out[i + by] = x[i]

def steps(by):
    def run(x, out, stream):
        inner = cuda.device_array(x.size, x.dtype)
        filled[1, 8, stream](out)
        moved[1, 8, stream](x, 0, inner)
        moved[1, 8, stream](inner, by, out)
    return run

np.testing.assert_array_equal(numba_cuda_callable(steps(0), F(8))(x), x)
refused(numba_cuda_callable(steps(1), F(8)), x, words=("launch of moved", "'out'"))
rolled = numba_cuda_callable(steps(-1), F(8))  # a negative index, as in Python
np.testing.assert_array_equal(rolled(x), np.roll(x, -1))

@cuda.jit
def grids(at, out):
    grid = cuda.cg.this_grid()
    out[cuda.grid(1)] = 1
    grid.sync()
    out[cuda.grid(1) + at[0]] = 2

op = numba_cuda_kernel(grids, F(16), grid=2, block=8)
np.testing.assert_array_equal(op(jnp.asarray([0])), 2)
refused(op, jnp.asarray([1]), words=("block (1, 0, 0), thread (7, 0, 0): writes to 'out'",))
""")


@pytest.mark.exhaustive
def test_in_other_modes(run):
    """Over two fill patterns, and in the checked mode, which has messages of its own."""
    program = """
@cuda.jit
def unguarded(x, out):
    out[cuda.grid(1)] = x[0]

numba_cuda_kernel(unguarded, F(256), launch_dims=256)(jnp.ones(1)).block_until_ready()
try:
    jax.block_until_ready(numba_cuda_kernel(unguarded, F(255), launch_dims=256)(jnp.ones(1)))
except (jax.errors.JaxRuntimeError, ValueError) as e:
    print(e)
"""
    assert "a thread writes to 'out' (f32[1d]) out" in run(program, KERNBRIDGE_DEBUG="poison")
    checked = run(program, KERNBRIDGE_DEBUG="check")
    assert "index 255 of axis 0" in checked
    assert "left out" not in checked
