"""Kernels of Numba-CUDA by value on the fake driver: what a launch, a plan and a graph execute."""

import ctypes
import os

import fake_gpu
import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest

cuda = pytest.importorskip("numba.cuda")

import numba  # noqa: E402
from llvmlite import ir  # noqa: E402
from numba.cuda.extending import intrinsic  # noqa: E402

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("gpu")]
S = jax.ShapeDtypeStruct
F32, I32 = jnp.float32, jnp.int32
N = 128
ALL = 0xFFFFFFFF
Error = (jax.errors.JaxRuntimeError, ValueError)  # which of them depends on how JAX dispatches


@cuda.jit
def block_sums(x, out):
    shared = cuda.shared.array(128, numba.float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    shared[t] = x[i] if i < x.size else 0
    cuda.syncthreads()
    half = 64
    while half:
        if t < half:
            shared[t] += shared[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        out[cuda.blockIdx.x] = shared[0]


@cuda.jit
def reversed_blocks(x, out):
    shared = cuda.shared.array(0, numba.int32)
    t, n, i = cuda.threadIdx.x, cuda.blockDim.x, cuda.grid(1)
    shared[n - 1 - t] = x[i]
    cuda.syncthreads()
    out[i] = shared[t]


@cuda.jit
def divided(x, by, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] / by[0]


@cuda.jit
def lanes_apart(x, out):
    t = cuda.threadIdx.x
    if t < 16:
        out[t] = cuda.shfl_sync(ALL, x[t], 0)
    else:
        out[t] = cuda.ballot_sync(ALL, x[t] > 0)


@intrinsic
def clock(typing_context):
    def codegen(context, builder, signature, args):
        assembly = ir.InlineAsm(ir.FunctionType(ir.IntType(32), []), "mov.u32 $0, %clock;", "=r")
        return builder.call(assembly, [])

    return numba.types.int32(), codegen


@cuda.jit
def time(out):
    out[0] = clock()


def small(shape, seed=0):
    """Whole numbers, whose sums are exact in float32."""
    return np.random.default_rng(seed).integers(-99, 99, shape).astype(np.float32)


def does(gpu):
    return [launch.does for launch in gpu.launches]


@pytest.mark.parametrize("n", [1, N, 5 * N, 5 * N + 17])
def test_shared_memory_and_barriers(gpu, n):
    n_blocks = -(-n // N)
    op = kernbridge.numba_cuda_kernel(block_sums, S((n_blocks,), F32), grid=n_blocks, block=N)
    x = small(n)
    expected = np.pad(x, (0, n_blocks * N - n)).reshape(n_blocks, N).sum(1)
    np.testing.assert_array_equal(op(x), expected)
    assert does(gpu) == [fake_gpu.CODE]


def test_dynamic_shared_memory(gpu):
    x = np.arange(6 * 96, dtype=np.int32)
    op = kernbridge.numba_cuda_kernel(
        reversed_blocks, S(x.shape, I32), grid=6, block=96, shared_mem=4 * 96
    )
    np.testing.assert_array_equal(op(x), x.reshape(6, 96)[:, ::-1].ravel())
    assert [launch.shared for launch in gpu.launches] == [4 * 96]


def test_a_batch_in_z_has_shared_memory_for_every_block(gpu):
    op = kernbridge.numba_cuda_kernel(block_sums, S((3,), F32), grid=3, block=N)
    x = small((7, 3 * N))
    np.testing.assert_array_equal(jax.vmap(op)(x), x.reshape(7, 3, N).sum(2))
    assert [tuple(launch.grid) for launch in gpu.launches] == [(3, 1, 7)]
    assert does(gpu) == [fake_gpu.CODE]


def normalise(x, out, total, before, stream):
    partial = cuda.device_array(4, x.dtype)
    partial[:] = -1.0
    before.copy_to_device(x, stream=stream)
    block_sums[4, N, stream](x, partial)
    total[:] = 0.0
    block_sums[1, N, stream](partial, total[:1])
    divided[4, N, stream](x, total, out)
    before[3:7] = 2.5
    out[N : 2 * N] = x[:N]


def normalised(x):
    out, total, before = x / x.sum(), np.array([x.sum(), 0, 0], np.float32), x.copy()
    out[N : 2 * N], before[3:7] = x[:N], 2.5
    return out, total, before


OUTS = [S((4 * N,), F32), S((3,), F32), S((4 * N,), F32)]


def check(found, expected):
    """Sums are exact; the rounding of a quotient is that of CUDA, 1 ulp of float32 at most."""
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1.2e-7, atol=0)


def test_a_recorded_callable_with_fills_copies_and_shared_memory(gpu):
    op = kernbridge.numba_cuda_callable(normalise, OUTS, record="always")
    x = small((3, 4 * N))
    check(jax.jit(op)(x[0]), normalised(x[0]))
    assert does(gpu) == [fake_gpu.CODE] * 3
    for one, found in zip(x, zip(*jax.vmap(op)(x), strict=True), strict=True):
        check(found, normalised(one))
    assert [launch.grid[2] for launch in gpu.launches[3:]] == [3] * 3


def test_a_replayed_graph_executes_on_what_is_there_then(gpu):
    def steps(x, sums, before, again, stream):
        sums[:] = -1.0
        block_sums[4, N, stream](x, sums)
        before.copy_to_device(x, stream=stream)
        divided[4, N, stream](before, sums, again)

    outs = [S((5,), F32), OUTS[0], OUTS[0]]
    op = jax.jit(kernbridge.numba_cuda_callable(steps, outs, record="always"))
    x = jnp.asarray(small(4 * N, 1))
    jax.block_until_ready(op(x))  # loads the kernels
    with gpu.capture() as replay:
        found = jax.block_until_ready(op(x))
    assert [launch.captured for launch in gpu.launches] == [0, 0, 1, 1]
    values = (ctypes.c_float * (4 * N)).from_address(x.unsafe_buffer_pointer())
    for seed in (1, 2, 3):
        now = small(4 * N, seed)
        values[:] = now
        replay()
        sums = np.append(now.reshape(4, N).sum(1), np.float32(-1))
        given = [
            np.array((ctypes.c_float * a.size).from_address(a.unsafe_buffer_pointer()))
            for a in found
        ]
        check(given, (sums, now, now / sums[0]))
    assert len(gpu.launches) == 4


def test_a_fault_of_a_kernel_is_told_by_the_next_call_as_on_a_gpu(gpu):
    op = kernbridge.numba_cuda_kernel(lanes_apart, S((32,), F32), grid=1, block=32)
    jax.block_until_ready(op(small(32)))  # it was launched
    assert "block (0, 0, 0), thread (" in gpu.fault_text
    assert "neither can continue" in gpu.fault_text
    with pytest.raises(
        Error,
        match=r"'lanes_apart': .*CUDA_ERROR_LAUNCH_FAILED.*possibly an earlier one.*\[KB3004\]",
    ):
        op(small(32))
    other = kernbridge.numba_cuda_kernel(block_sums, S((1,), F32), grid=1, block=N)
    with pytest.raises(Error, match=r"'block_sums': .*CUDA_ERROR_LAUNCH_FAILED.*\[KB3004\]"):
        other(small(N))


def test_a_fault_ends_the_replay_of_a_graph(gpu):
    def steps(x, out, copied, stream):
        lanes_apart[1, 32, stream](x, out)
        copied.copy_to_device(x, stream=stream)

    outs = [S((32,), F32)] * 2
    op = jax.jit(kernbridge.numba_cuda_callable(steps, outs, record="always"))
    x = jnp.asarray(small(32))
    with pytest.raises(
        Error, match=r"'steps': cuMemcpyDtoDAsync failed: CUDA_ERROR_LAUNCH_FAIL.*\[KB3004\]"
    ):
        jax.block_until_ready(op(x))
    gpu.library.fake_cuda_reset()
    with gpu.capture() as replay:
        _, copied = jax.block_until_ready(op(x))
    address, size = copied.unsafe_buffer_pointer(), copied.nbytes
    ctypes.memset(address, 0x55, size)
    with pytest.raises(AssertionError, match="719"):
        replay()
    assert ctypes.string_at(address, size) == b"\x55" * size


def test_a_kernel_that_cpus_do_not_run_does_nothing_and_says_why(gpu):
    op = kernbridge.numba_cuda_kernel(time, S((1,), I32), grid=1, block=1)
    jax.block_until_ready(op())
    (launch,) = gpu.launches
    assert launch.does == fake_gpu.NOTHING
    assert "inline PTX (mov.u32 $0, %clock;)" in fake_gpu.REFUSED[launch.entry.decode()]


PROGRAM = """
import jax, jax.numpy as jnp, kernbridge, fake_gpu, numpy as np
from numba import cuda
from kernbridge._src.forge import artefacts
driver = fake_gpu.FakeDriver()
store, n = artefacts.store, 0
def counted(kind, *given):
    global n
    n += kind == "numba_cuda"
    return store(kind, *given)
artefacts.store = counted

@cuda.jit
def counts(x, out):
    cuda.atomic.add(x, 0, 1)
    out[cuda.grid(1)] = x[0] + 40

op = kernbridge.numba_cuda_kernel(counts, jax.ShapeDtypeStruct((2,), jnp.float32), grid=2, block=1)
print(n, op(jnp.ones(3)), n, driver.launches[0].does)
driver.close()
"""


@pytest.mark.once
@pytest.mark.exhaustive
def test_a_kernel_from_the_cache_is_executed_too(run_python, tmp_path):
    environment = {n: os.environ[n] for n in ("KERNBRIDGE_LIBCUDA", "KERNBRIDGE_TEST_CUDA")}
    environment["KERNBRIDGE_CACHE_DIR"] = str(tmp_path / "cache")
    for n in (1, 0):
        assert run_python(PROGRAM, **environment).splitlines()[-1] == f"0 [42. 43.] {n} 2"
