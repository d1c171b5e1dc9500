"""`deterministic=` on a GPU: the same bits in every run, for every block, and as on a CPU."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest

cuda = pytest.importorskip("numba.cuda")

S = jax.ShapeDtypeStruct
N, BINS, RUNS = 200_000, 37, 100

HEAD = """
import warnings
warnings.simplefilter("ignore")
import numpy as np
if not hasattr(np, "row_stack"):
    np.row_stack = np.vstack
import jax, jax.numpy as jnp, kernbridge
from test_deterministic_gpu import BINS, N, made
"""


@cuda.jit
def scatter(x, at, out):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        cuda.atomic.add(out, at[i], x[i])


@cuda.jit
def onto(begin, x, at, out):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.sub(out, at[i], x[i])


def made(dtype):
    """Numbers of very different magnitudes, and where they go."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=N) * 10.0 ** rng.integers(-6, 5, N)
    return jnp.asarray(x.astype(dtype)), jnp.asarray(rng.integers(0, BINS, N).astype(np.int32))


def expected(x, at):
    whole = [
        sum(int(v) for v in np.rint(np.asarray(x, np.float64)[at == i] * 2.0**40))
        for i in range(BINS)
    ]
    return (np.array([np.float64(w) for w in whole]) * 2.0**-40).astype(x.dtype)


def run_apart(program, **environment):
    return subprocess.run(
        [sys.executable, "-c", HEAD + program],
        env={**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false", **environment},
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_same_bits_in_every_run_and_for_every_block(dtype):
    x, at = made(dtype)
    bits = set()
    for grid, block in ((1, 32), (7, 96), (64, 256), (500, 1024)):
        op = kernbridge.numba_cuda_kernel(
            scatter, S((BINS,), dtype), grid=grid, block=block, deterministic=True
        )
        call = jax.jit(op)
        bits |= {np.asarray(call(x, at)).tobytes() for _ in range(RUNS)}
    assert bits == {expected(np.asarray(x), np.asarray(at)).tobytes()}


@pytest.mark.gpu_only("compares the bits of a GPU with those of a CPU")
def test_the_same_bits_as_on_a_cpu(tmp_path):
    x, at = made(np.float32)
    op = kernbridge.numba_cuda_kernel(
        scatter, S((BINS,), jnp.float32), grid=64, block=256, deterministic=True
    )
    file = tmp_path / "cpu.npy"
    program = f"""
from test_deterministic_gpu import scatter
op = kernbridge.numba_cuda_kernel(
    scatter, jax.ShapeDtypeStruct((BINS,), jnp.float32), grid=3, block=32, deterministic=True)
np.save({str(file)!r}, np.asarray(op(*made(np.float32))))
"""
    done = run_apart(program, JAX_PLATFORMS="cpu")
    assert done.returncode == 0, done.stderr
    assert np.load(file).tobytes() == np.asarray(op(x, at)).tobytes()


def test_inside_a_loop_and_a_batch():
    x, at = made(np.float32)
    op = kernbridge.numba_cuda_kernel(
        onto,
        S((BINS,), jnp.float32),
        launch_dims=N,
        deterministic=True,
        input_output_aliases={0: 0},
    )
    begin = jnp.arange(BINS, dtype=jnp.float32)
    looped = jax.jit(lambda y: jax.lax.fori_loop(0, 8, lambda _, y: op(y, x, at), y))
    results = [np.asarray(looped(begin)) for _ in range(10)]
    step = begin
    for _ in range(8):
        step = op(step, x, at)
    assert {r.tobytes() for r in results} == {np.asarray(step).tobytes()}
    batched = jax.jit(jax.vmap(op, (0, 0, None)))(
        jnp.stack([begin, -begin]), jnp.stack([x, -x]), at
    )
    np.testing.assert_array_equal(batched[0], op(begin, x, at))
    np.testing.assert_array_equal(batched[1], op(-begin, -x, at))


def test_a_callable():
    x, at = made(np.float32)

    def function(x, at, out, stream):
        whole = cuda.device_array((BINS, 3), np.float32)
        whole[:] = 0
        scatter[20, 128, stream](x, at, whole[:, 1])
        out.copy_to_device(whole)

    op = kernbridge.numba_cuda_callable(function, S((BINS, 3), jnp.float32), deterministic=True)
    call = jax.jit(op)
    results = [np.asarray(call(x, at)) for _ in range(20)]
    assert len({r.tobytes() for r in results}) == 1
    np.testing.assert_array_equal(results[0][:, 1], expected(np.asarray(x), np.asarray(at)))
    assert not results[0][:, [0, 2]].any()


def test_nan_and_infinity_are_results():
    op = kernbridge.numba_cuda_kernel(
        scatter, S((4,), jnp.float32), grid=1, block=32, deterministic=True
    )
    x = jnp.array([np.nan, 1.0, np.inf, -np.inf, np.inf, -np.inf, 2.0**22, 2.0**22, -(2.0**22)])
    at = jnp.array([0, 0, 1, 2, 3, 3, 1, 1, 1], jnp.int32)
    found = np.asarray(op(x, at))
    assert found.tobytes() == np.array([np.nan, np.inf, -np.inf, np.nan], np.float32).tobytes()


@pytest.mark.gpu_only("a CPU reports the error of the call, and the process goes on")
@pytest.mark.parametrize("where", ["call", "loop"])
def test_an_overflow_is_an_error(where):
    program = f"""
from test_deterministic_gpu import onto
op = kernbridge.numba_cuda_kernel(
    onto, jax.ShapeDtypeStruct((4,), jnp.float32), launch_dims=4, deterministic=True,
    input_output_aliases={{0: 0}})
at = jnp.zeros(4, jnp.int32)
if {where!r} == "call":
    call = jax.jit(op)
else:
    call = jax.jit(lambda y, x, at: jax.lax.fori_loop(0, 6, lambda _, y: op(y, x, at), y))
print(np.asarray(call(jnp.zeros(4), jnp.ones(4), at)), flush=True)
print(np.asarray(call(jnp.zeros(4), jnp.full(4, 2.0**22), at)), flush=True)
print("no error")
"""
    done = run_apart(program)
    assert done.returncode != 0
    assert len(done.stdout.splitlines()) == 1, done.stdout  # the first call, and nothing wrong
    assert "OverflowError: a sum in 'out'" in done.stderr, done.stderr
    assert "assert" in done.stderr.lower()
