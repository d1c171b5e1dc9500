"""The checked mode: races between blocks, cooperative grids, reads of unwritten memory."""

from __future__ import annotations

import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")

from kernbridge import numba_cuda_callable, numba_cuda_kernel
from numba import cuda

pytestmark = pytest.mark.once

I32 = jax.ShapeDtypeStruct((64,), jnp.int32)
ONE = jax.ShapeDtypeStruct((1,), jnp.int32)
X = np.arange(64, dtype=np.int32)


@cuda.jit
def counted(x, out):
    cuda.atomic.add(out, x[cuda.grid(1)] % 4, 1)


@cuda.jit
def counted_plainly(x, out):
    if cuda.threadIdx.x == 0:
        out[0] += x[cuda.grid(1)]


@cuda.jit
def shifted(x, out):
    i = cuda.grid(1)
    out[i] = x[i]
    if i % 16 == 15 and i < 63:
        out[i + 1] = -1  # of the next block


@cuda.jit
def smoothed(x, out):
    i = cuda.grid(1)
    if 0 < i < 63:
        out[i] = out[i - 1] + out[i + 1]


@cuda.jit
def marked(x, out):
    if x[cuda.grid(1)] % 2:
        out[3] = 7  # the same by all


@cuda.jit
def two_steps(x, out):
    i = cuda.grid(1)
    out[i] = x[i]
    cuda.cg.this_grid().sync()
    other = out[63 - i]
    cuda.cg.this_grid().sync()
    out[i] = other


@cuda.jit
def one_step(x, out):
    i = cuda.grid(1)
    out[i] = x[i]
    out[i] = out[63 - i]
    cuda.cg.this_grid().sync()


@cuda.jit
def last_block(x, total, part, done):
    i = cuda.threadIdx.x
    last = cuda.shared.array(1, np.int32)
    part[cuda.grid(1)] = x[cuda.grid(1)]
    cuda.threadfence()
    cuda.syncthreads()
    if i == 0:
        last[0] = cuda.atomic.add(done, 0, 1) == cuda.gridDim.x - 1
    cuda.syncthreads()
    if last[0] and i < 4:
        own = 0
        for k in range(i, part.size, 4):
            own += part[k]
        cuda.atomic.add(total, 0, own)


@cuda.jit
def last_block_unfenced(x, total, part, done):
    i = cuda.threadIdx.x
    last = cuda.shared.array(1, np.int32)
    part[cuda.grid(1)] = x[cuda.grid(1)]
    cuda.syncthreads()
    if i == 0:
        last[0] = cuda.atomic.add(done, 0, 1) == cuda.gridDim.x - 1
    cuda.syncthreads()
    if last[0] and i == 0:
        total[0] = part[0]


@cuda.jit
def locked(x, total, lock):
    if cuda.threadIdx.x % 4 == 0:
        while cuda.atomic.cas(lock, 0, 0, 1) != 0:
            cuda.nanosleep(10)
        cuda.threadfence()
        total[0] += x[cuda.grid(1)]
        cuda.threadfence()
        cuda.atomic.exch(lock, 0, 0)


@cuda.jit
def shuffled(x, out):
    out[cuda.grid(1)] = cuda.shfl_sync(0xFFFF, x[cuda.grid(1)], 15)


@cuda.jit
def shuffled_from_beyond(x, out):
    out[cuda.grid(1)] = cuda.shfl_down_sync(0xFFFFFFFF, x[cuda.grid(1)], 8)


@cuda.jit
def shuffled_from_outside(x, out):
    out[cuda.grid(1)] = 0
    if cuda.threadIdx.x < 8:
        out[cuda.grid(1)] = cuda.shfl_sync(0xFF, x[cuda.grid(1)], 8)


@cuda.jit
def shuffled_from_the_dead(x, out):
    out[cuda.grid(1)] = 0
    if cuda.threadIdx.x != 3:
        out[cuda.grid(1)] = cuda.shfl_sync(0xFFFFFFFF, x[cuda.grid(1)], 3)


@cuda.jit
def shuffled_both_ways(x, out):
    if cuda.threadIdx.x < 8:
        out[cuda.grid(1)] = cuda.shfl_up_sync(0xFFFF, x[cuda.grid(1)], 1)
    else:
        out[cuda.grid(1)] = cuda.shfl_down_sync(0xFFFF, x[cuda.grid(1)], 1)


@cuda.jit
def added(x, out):
    out[cuda.grid(1)] += x[cuda.grid(1)]


@cuda.jit
def halved(x, out):
    i = cuda.grid(1)
    if i < 32:
        out[i] = x[i]


@cuda.jit
def moved(x, out):
    out[cuda.grid(1)] = x[cuda.grid(1)]


def _through_temporary(fill, n):
    """A function that reads a temporary, of which `n` elements were written after `fill`."""

    def function(x, out, stream):
        a = cuda.device_array(64, np.int32)
        b = cuda.device_array(64, np.int32)
        if fill:
            a[:] = 5
        halved[4, 16, stream](x, a)
        b[:] = a
        moved[n // 16, 16, stream](b, out[:n])
        out[n:] = 0

    return function


def _operation(kernel, outs=I32, zero=False, **how):
    how.setdefault("grid", 4)
    how.setdefault("block", 16)
    return numba_cuda_kernel(kernel, outs, zero_outputs=zero, check=True, **how)


def _outcomes():
    yield "counted", _operation(counted, zero=True), [X]
    yield "counted_plainly", _operation(counted_plainly, zero=True), [X]
    yield "shifted", _operation(shifted), [X]
    yield "smoothed", _operation(smoothed, input_output_aliases={0: 0}), [X]
    yield "marked", _operation(marked, zero=True), [X]
    yield "two_steps", _operation(two_steps, cooperative=True), [X]
    yield "one_step", _operation(one_step, zero=True, cooperative=True), [X]
    outs = [ONE, I32, ONE]
    yield "last_block", _operation(last_block, outs, True), [X]
    yield "last_block_unfenced", _operation(last_block_unfenced, outs, True), [X]
    yield "locked", _operation(locked, [ONE, ONE], True), [X]
    yield "shuffled", _operation(shuffled), [X]
    yield "shuffled_from_beyond", _operation(shuffled_from_beyond), [X]
    yield "shuffled_from_outside", _operation(shuffled_from_outside), [X]
    yield "shuffled_from_the_dead", _operation(shuffled_from_the_dead), [X]
    yield "shuffled_both_ways", _operation(shuffled_both_ways), [X]
    yield "added", _operation(added), [X]
    yield "added to zeros", _operation(added, zero=True), [X]
    yield "added to an input", _operation(_add_to, input_output_aliases={1: 0}), [X, X]
    yield "batched", jax.vmap(_operation(added)), [X.reshape(1, 64)]
    yield "batched zeros", jax.vmap(_operation(added, zero=True)), [np.stack([X, X])]
    for name, fill, n in (("filled", True, 64), ("half", False, 32), ("unwritten", False, 64)):
        yield name, numba_cuda_callable(_through_temporary(fill, n), I32), [X]


@cuda.jit
def _add_to(x, y, out):
    out[cuda.grid(1)] += x[cuda.grid(1)]


def report():
    """Print what the operations give, or the text of their errors, as JSON."""
    found = {}
    for name, operation, inputs in _outcomes():
        try:
            out = jax.tree.leaves(jax.jit(operation)(*inputs))[0]
            found[name] = np.asarray(out).ravel().tolist()
        except jax.errors.JaxRuntimeError as e:
            found[name] = str(e)
    print(json.dumps(found))


@pytest.fixture
def outcomes(run_python, tmp_path):
    printed = run_python(
        "import test_check_blocks; test_check_blocks.report()",
        KERNBRIDGE_LIBCUDA="/nowhere/libcuda.so",
        KERNBRIDGE_CACHE_DIR=str(tmp_path / "cache"),
        KERNBRIDGE_DEBUG="check",
    )
    return json.loads(printed.splitlines()[-1])


@pytest.mark.exhaustive
def test_what_is_reported_and_what_is_not(outcomes):
    assert outcomes["counted"][:5] == [16, 16, 16, 16, 0]
    assert outcomes["marked"][:5] == [0, 0, 0, 7, 0]
    assert outcomes["two_steps"] == X[::-1].tolist()
    assert outcomes["last_block"] == [X.sum()]
    assert outcomes["locked"] == [X[::4].sum()]
    assert outcomes["shuffled"] == np.repeat(X[15::16], 16).tolist()
    assert outcomes["added to zeros"] == X.tolist()
    assert outcomes["added to an input"] == (2 * X).tolist()
    assert outcomes["batched zeros"] == [*X.tolist(), *X.tolist()]
    assert outcomes["filled"] == [*range(32), *[5] * 32]
    assert outcomes["half"] == [*range(32), *[0] * 32]
    for name, *words in (
        (
            "counted_plainly",
            "launch of counted_plainly, grid (4, 1, 1)",
            "block (1, 0, 0), thread (0, 0, 0): a data race between blocks: it reads element [0] "
            "of 'out' (i32[1d]) (at test_check_blocks.py:",
            "which thread (0, 0, 0) of block (0, 0, 0) writes (at test_check_blocks.py:",
            "with no barrier of the grid between [KB3004]\n    test_check_blocks.py:",
            ": out[0] += x[cuda.grid(1)]",
        ),
        ("shifted", "a data race between blocks: it writes element [16] of 'out'"),
        ("smoothed", "a data race", "of 'out'"),
        ("one_step", "a data race", "element ["),
        ("last_block_unfenced", "a data race between blocks: it reads element [0] of 'part'"),
        (
            "shuffled_from_beyond",
            "thread (8, 0, 0): reads lane 16 in a warp shuffle with the mask 0xffffffff (at test_",
            "and this lane is beyond the threads of the block: the value is undefined on a GPU",
            ": out[cuda.grid(1)] = cuda.shfl_down_sync(0xFFFFFFFF",
        ),
        ("shuffled_from_outside", "reads lane 8 in a warp shuffle", "lane is not in its mask"),
        ("shuffled_from_the_dead", "reads lane 3 in a warp shuffle", "this lane has ended"),
        ("shuffled_both_ways", "stands in a warp shuffle with another mask or mode: neither"),
        ("added", "reads element [0] of 'out' (i32[1d]), which nothing has written (at test_"),
        ("batched", "reads element [0] of 'out' (i32[1d]), which nothing has written (at test_"),
        ("unwritten", "launch of moved", "reads element [32] of 'x' (i32[1d]), which nothing"),
    ):
        said = outcomes[name]
        assert isinstance(said, str), (name, said)
        assert all(w in said for w in words), (name, said)
        assert not re.search(r"_ZN|cuLaunchKernelEx|9001|CUDA_ERROR", said)
