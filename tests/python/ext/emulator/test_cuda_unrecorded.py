"""Functions that cannot be recorded: on the CPU they run as Python, and so do their launches.

Each test is a program of its own, since this process has a fake driver that takes GPU calls.
"""

import pytest

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")

pytestmark = pytest.mark.once

PROGRAM = """
import enum, warnings
import jax, jax.numpy as jnp, numpy as np
import kernbridge
from kernbridge import numba_cuda_callable
from numba import cuda
from numba.cuda import device_array_like
S = jax.ShapeDtypeStruct
x = jnp.asarray([16, 81, 2, 9], jnp.float32)

def fails(op, *words, given=(x,), kind=(jax.errors.JaxRuntimeError, ValueError)):
    try:
        jax.block_until_ready(op(*given))
    except kind as e:
        assert all(w in str(e) for w in words), e
    else:
        raise SystemExit(f"{op} did not fail")

@cuda.jit
def step(x, root, moved):
    i = cuda.grid(1)
    if i < x.size:
        new = (root[i] + x[i] / root[i]) / 2
        cuda.atomic.max(moved, 0, abs(new - root[i]))
        root[i] = new

def roots(x, out, steps, stream):
    # By Newton's method, until nothing moves much: how many launches that takes depends on x.
    root = device_array_like(x)
    root[:] = x
    moved = cuda.to_device(np.ones(1, np.float32), stream)
    n = 0
    while moved.copy_to_host(stream=stream)[0] > 1e-3:
        moved[:] = 0
        step[(x.size + 31) // 32, 32, stream](x, root, moved)
        stream.synchronize()
        n += 1
    out.copy_to_device(root)
    steps[0] = n

outs = [S((4,), jnp.float32), S((1,), jnp.int32)]
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    op = numba_cuda_callable(roots, outs)
    found, steps = jax.jit(op)(x)
    found, steps = jax.jit(lambda x: op(x))(x)
ours = [str(w.message) for w in told if "cannot be recorded, and runs as Python" in str(w.message)]
assert len(ours) == 1 and "cuda.to_device at" in ours[0], told
np.testing.assert_allclose(found, np.sqrt(x), rtol=1e-5)
assert 3 < steps[0] < 20, steps
many, counts = jax.vmap(op)(jnp.stack([x, x[::-1] ** 2, jnp.ones(4)]))
np.testing.assert_allclose(many[1], x[::-1], rtol=1e-5)
assert len(set(np.asarray(counts)[:, 0].tolist())) == 3, counts
fails(numba_cuda_callable(roots, outs, record="always"), "cannot be recorded", "to_device",
      kind=kernbridge.KernelError)
try:
    jax.export.export(jax.jit(op))(S((4,), jnp.float32))
except ValueError as e:
    assert "cannot be exported: it runs as Python" in str(e), e
else:
    raise SystemExit("exported")

def never(function, outs, **options):
    return numba_cuda_callable(function, outs, record="never", **options)

class Mode(enum.Enum):
    HALF = 2

@cuda.jit
def divide(arrays, mode, factor):
    i = cuda.grid(1)
    if i < arrays[1].size and mode == Mode.HALF:
        arrays[1][i] = arrays[0][i] / 2 * factor

def every_name(x, factor, out, stream):
    begin, end = cuda.event(), cuda.event()
    begin.record(stream)
    with cuda.pinned(np.zeros(3)), stream.auto_synchronize():
        staged = cuda.pinned_array(x.shape, x.dtype)
        staged[:] = np.asarray(x) + 1
        x[:] = 0
    copy = cuda.to_device(staged)
    divide.forall(x.size, stream=stream)((copy, out), Mode.HALF, factor)
    divide[1, 4, stream](factor=np.float32(2), mode=Mode.HALF, arrays=(out, out))
    end.record(cuda.stream())
    end.synchronize()
    cuda.synchronize()
    cuda.current_context().synchronize()
    assert cuda.event_elapsed_time(begin, end) >= 0 and end.query()
    assert cuda.as_cuda_array(out).is_c_contiguous()
    assert out[1:].copy_to_host().tolist() == out.ravel()[1:].copy_to_host().tolist()

op = never(every_name, S((4,), jnp.float32))
np.testing.assert_array_equal(op(x, factor=4.0), 2 * (x + 1))
np.testing.assert_array_equal(x, [16, 81, 2, 9])  # the function wrote to a copy

def in_place(x, out, stream):
    if out[0] == 16:
        out[0] = 5

np.testing.assert_array_equal(
    never(in_place, S((4,), jnp.float32), input_output_aliases={0: 0})(x), [5, 81, 2, 9])

def wrong(x, out, stream):
    if x[0] > 0:
        raise KeyError("mine")

fails(never(wrong, S((4,), jnp.float32)), "'wrong': KeyError: 'mine' at", "program.py")

@cuda.jit
def beyond(x, out):
    out[cuda.grid(1)] = x[0]

@cuda.jit(debug=True, opt=False)
def divided(x, out):
    out[0] = x[0] / (x[1] - 81)

def launches(kernel, block, dtype=jnp.float32):
    def function(x, out, stream):
        kernel[1, block, stream](x, out)
    return never(function, S((4,), dtype))

fails(launches(beyond, 32), "kernel 'beyond': launch with grid (1, 1, 1), block (32, 1, 1)",
      "a thread writes to 'out' (f32[1d]) out of bounds", "pass check=True")
fails(launches(divided, 1), "ZeroDivisionError: ")
fails(launches(beyond, 2000), "block")
np.testing.assert_array_equal(launches(beyond, 4)(x), 16)
for half in jnp.bfloat16, jnp.float16:
    np.testing.assert_array_equal(launches(beyond, 4, half)(x.astype(half)), 16)
print("held")
"""


@pytest.mark.exhaustive
def test_they_run_as_python_and_launch_on_the_cpu(run_python):
    assert "held" in run_python(PROGRAM, KERNBRIDGE_LIBCUDA="/nowhere/libcuda.so")


def test_the_checked_mode_sees_their_launches(run_python):
    printed = run_python(
        """
import jax, jax.numpy as jnp
from kernbridge import numba_cuda_callable
from numba import cuda

@cuda.jit
def racing(x, out):
    out[0] = x[cuda.grid(1)]

def function(x, out, stream):
    if x[0] >= 0:
        racing[1, 4, stream](x, out)

x = jnp.arange(4.0)
op = numba_cuda_callable(function, jax.ShapeDtypeStruct((1,), x.dtype), record="never")
try:
    jax.block_until_ready(op(x))
except (jax.errors.JaxRuntimeError, ValueError) as e:
    assert "kernel 'racing': launch with" in str(e) and "a data race" in str(e), e
    print("held")
""",
        KERNBRIDGE_LIBCUDA="/nowhere/libcuda.so",
        KERNBRIDGE_DEBUG="check",
    )
    assert "held" in printed
