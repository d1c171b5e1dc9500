"""Many threads: one compile, no GIL while a kernel runs, right values."""

import threading
import time

import jax
import jax.numpy as jnp
import kernbridge._core as _core
import numba
import numpy as np
import pytest
from kernbridge import numba_kernel
from kernbridge._src.numba_cpu import entry
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

S = jax.ShapeDtypeStruct


@intrinsic
def address_as_void_pointer(typing_context, address):
    def codegen(context, builder, signature, args):
        return builder.inttoptr(args[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), codegen


@intrinsic
def atomic_load(typing_context, array, index):
    def codegen(context, builder, signature, args):
        struct = context.make_array(signature.args[0])(context, builder, args[0])
        pointer = builder.gep(struct.data, [args[1]])
        return builder.load_atomic(pointer, "acquire", 8)

    return types.int64(array, types.intp), codegen


def together(n, work):
    barrier = threading.Barrier(n)
    failures = []

    def run(i):
        barrier.wait()
        try:
            work(i)
        except BaseException as e:
            failures.append(e)

    team = [threading.Thread(target=run, args=(i,)) for i in range(n)]
    for t in team:
        t.start()
    for t in team:
        t.join()
    assert not failures, failures


def test_eight_threads_compile_a_kernel_once(monkeypatch):
    @numba.njit
    def kernel(x, out):
        for i in range(out.size):
            out[i] = x[i] * 7 + 1

    compiled = []
    original = entry.compile_kernel

    def counting(*given):
        compiled.append(given)
        time.sleep(0.05)
        return original(*given)

    monkeypatch.setattr(entry, "compile_kernel", counting)
    x = jnp.arange(5, dtype=jnp.float32)
    before = _core.registry_stats()[0]

    def work(i):
        op = numba_kernel(kernel, S((5,), jnp.float32))
        np.testing.assert_array_equal(jax.jit(lambda x: op(x) + i)(x), np.asarray(x) * 7 + 1 + i)

    together(8, work)
    assert len(compiled) == 1
    assert _core.registry_stats()[0] == before + 1


def test_two_calls_can_wait_for_each_other(x64):
    """Each kernel ends only once the other has begun: impossible if one held the GIL or a lock."""
    flags = np.zeros(2, np.int64)

    @numba.njit
    def meet(where, me, out):
        shared = numba.carray(address_as_void_pointer(where[0]), 2, np.int64)
        shared[me] = 1
        for _ in range(10_000_000_000):
            if atomic_load(shared, 1 - me) == 1:
                out[0] = 1
                return
        out[0] = 0

    op = jax.jit(lambda w, me: numba_kernel(meet, S((1,), jnp.int32))(w, me=me))
    where = jnp.array([flags.ctypes.data])
    flags[:] = 1
    op(where, 0).block_until_ready()  # compiled before the race
    flags[:] = 0
    met = {}

    def work(i):
        met[i] = int(op(where, i)[0])

    together(2, work)
    assert met == {0: 1, 1: 1}


def test_a_python_thread_runs_while_a_kernel_does():
    @numba.njit
    def long(x, out):
        s = x[0]
        for _ in range(300_000_000):
            s = s * np.float32(1.0000001) + np.float32(1e-9)
        out[0] = s

    op = jax.jit(numba_kernel(long, S((1,), jnp.float32)))
    compiled = op.lower(jnp.ones(1)).compile()
    inside = threading.Event()
    ticks = []

    def tick():
        while not inside.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    ticker = threading.Thread(target=tick)
    ticker.start()
    started = time.perf_counter()
    compiled(jnp.ones(1)).block_until_ready()
    ended = time.perf_counter()
    inside.set()
    ticker.join()
    assert sum(started < t < ended for t in ticks) >= 5


@pytest.mark.exhaustive
def test_many_threads_and_kernels_give_right_values():
    kernels = []
    for k in range(6):

        @numba.njit
        def kernel(x, out, k=k):
            for i in range(out.size):
                out[i] = x[i] * 10 + k

        kernels.append(numba_kernel(kernel, lambda x: S(x.shape, x.dtype)))

    def work(i):
        x = jnp.full((i + 1,), i, jnp.float32)
        for _ in range(30):
            for k, op in enumerate(kernels):
                np.testing.assert_array_equal(op(x), np.full(i + 1, 10 * i + k))

    together(8, work)


def test_independent_calls_of_one_program_run_side_by_side():
    @numba.njit
    def kernel(x, out):
        for _ in range(1000):
            for i in range(out.size):
                out[i] = x[i] + 1

    op = numba_kernel(kernel, S((4096,), jnp.float32))
    x = jnp.zeros(4096)
    f = jax.jit(lambda x: sum(op(x + i) for i in range(16)))
    np.testing.assert_array_equal(f(x), np.full(4096, sum(range(16)) + 16))
