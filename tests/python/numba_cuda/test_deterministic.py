"""`deterministic=`: sums of floats that have the same bits in every order of the additions.

Kernels run on the CPU here, in processes of their own. tests/gpu/test_deterministic_gpu.py has
those on a GPU.
"""

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest

cuda = pytest.importorskip("numba.cuda")
pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")

pytestmark = pytest.mark.once
CPU = {"KERNBRIDGE_LIBCUDA": "/nowhere/libcuda.so"}
S = jax.ShapeDtypeStruct

HEAD = r'''
import warnings
warnings.simplefilter("ignore")
import jax, jax.numpy as jnp, numpy as np
from kernbridge import numba_cuda_callable, numba_cuda_kernel
from kernbridge.errors import KernelCompilationError
from numba import cuda
S = jax.ShapeDtypeStruct

def as_sums(values, dtype, exponent=-40, start=0.0):
    """What documentation promises of the sum of values."""
    whole = sum(int(round(float(v) * 2.0**-exponent)) for v in np.asarray(values).ravel())
    return dtype(np.float64(whole) * 2.0**exponent + np.float64(start))

def histogram(values, places, n, dtype, exponent=-40):
    return np.array([as_sums(values[places == i], dtype, exponent) for i in range(n)])

def refused(call, *words):
    try:
        jax.block_until_ready(call())
    except (jax.errors.JaxRuntimeError, ValueError, KernelCompilationError) as e:
        assert all(w in str(e) for w in words), (words, str(e))
    else:
        raise SystemExit(f"no error with {words}")

rng = np.random.default_rng(0)
N, BINS = 3000, 7
values = rng.normal(size=N) * 10.0 ** rng.integers(-6, 5, N)
places = rng.integers(0, BINS, N).astype(np.int32)

@cuda.jit(device=True)
def put(out, i, v):
    cuda.atomic.add(out, i, v)

@cuda.jit
def scatter(x, at, out):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        put(out, at[i], x[i])
'''


@pytest.fixture
def run(run_python):
    return lambda program: run_python(HEAD + program, **CPU)


def test_sums_have_the_same_bits_in_every_order(run):
    run(
        """
def results(**how):
    made = set()
    for grid, block in ((1, 1), (3, 32), (64, 64)):
        op = numba_cuda_kernel(
            scatter, S((BINS,), x.dtype), grid=grid, block=block, zero_outputs=True, **how)
        made.add(np.asarray(op(x, places)).tobytes())
    return made

x = values.astype(np.float32)
assert len(results()) > 1  # which is what the option is for
for dtype in (np.float32, np.float64):
    jax.config.update("jax_enable_x64", dtype is np.float64)
    x = values.astype(dtype)
    how, exponent = (True, -40) if dtype is np.float32 else (2.0**-44, -44)
    (found,) = results(deterministic=how)
    expected = histogram(x, places, BINS, dtype, exponent)
    assert found == expected.tobytes(), (found, expected)
"""
    )


def test_arrays_of_every_form_receive_additions(run):
    run(
        """
@cuda.jit
def forms(x, a, b):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(a, (i % 2, -1), x[i])
        cuda.atomic.sub(a.reshape(6)[1::2], -3, x[i])
        put(b[i % 3], 1, x[i])
        cuda.atomic.add(b.T[::2], (1, np.int64(2)), x[i])

x = values.astype(np.float32)
op = numba_cuda_kernel(
    forms, [S((2, 3), "float32"), S((3, 4), "float32")], launch_dims=N, deterministic=True)
a, b = map(np.asarray, jax.jit(op)(x))
i, f = np.arange(N), np.float32
expected = np.zeros((2, 3), f)
expected[:, 2] = histogram(x, i % 2, 2, f)
expected[0, 1] = as_sums(-x, f)
np.testing.assert_array_equal(a, expected)
expected = np.zeros((3, 4), f)
expected[:, 1] = histogram(x, i % 3, 3, f)
expected[2, 2] = as_sums(x, f)
np.testing.assert_array_equal(b, expected)
"""
    )


def test_an_aliased_output_keeps_what_it_holds(run):
    run(
        """
x = values.astype(np.float32)
start = rng.normal(size=BINS).astype(np.float32)
start[2:4] = np.inf, -0.0
at = np.where(places == 3, 4, places)

@cuda.jit
def aliased(begin, x, at, out):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(out, at[i], x[i])

op = numba_cuda_kernel(aliased, S((BINS,), "float32"), launch_dims=N, deterministic=True,
                       input_output_aliases={0: 0})
found = np.asarray(op(start, x, at))
expected = [as_sums(x[at == i], np.float32, start=start[i]) for i in range(BINS)]
expected[3] = -0.0  # nothing is added to it
assert found.tobytes() == np.array(expected, np.float32).tobytes(), (found, expected)

def step(i, y):
    return op(y, x, at)

many = jax.jit(lambda y: jax.lax.fori_loop(0, 3, step, y))(start)
np.testing.assert_array_equal(many, step(0, step(0, step(0, start))))
"""
    )


def test_ranges(run):
    run(
        """
@cuda.jit
def total(x, out):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(out, 0, x[i])

def summed(*x, dtype="float32", **how):
    how = {"deterministic": True, **how}
    kind = total_fast if how.pop("fast", False) else total
    op = numba_cuda_kernel(kind, S((1,), dtype), launch_dims=len(x), **how)
    return np.asarray(op(np.array(x, dtype)))[0]

total_fast = cuda.jit(fastmath=True)(total.py_func)
nan, inf = np.nan, np.inf
most = 2.0**22
assert summed(*[most] * 40, *[-most] * 40, 0.25) == 0.25  # the sums on the way go round
assert summed(*[-most] * 40, *[most] * 41) == most
assert summed(2.0**-41, 2.0**-41) == 0.0  # to the nearest, ties to even
assert summed(1.5 * 2.0**-40, 2.0**-42) == 2.0**-39
outside = "OverflowError: a sum in 'out', or a number that is added to it, leaves the range of " \\
    "deterministic=2.0**-40, which ends at 2.0**23"
for x in ([most, most], [2.0**23], [-(2.0**23), -1.0], [1e38], [-3e38, 3e38]):
    refused(lambda: summed(*x), "numba_cuda_kernel 'total'", "launch of sums_of_out", outside)
refused(lambda: summed(*[most] * 4 * 2**10), outside)  # the sum itself is 0 again
assert summed(-(2.0**23)) == -(2.0**23)
assert summed(1e30, deterministic=2.0**60) == np.float32(np.float64(np.rint(1e30 / 2**60)) * 2**60)
for fast in (False, True):
    assert np.float32(summed(nan, 1.0, 1e38, fast=fast)).tobytes() == np.float32(nan).tobytes()
    assert summed(inf, 1.0, 1e38, inf, fast=fast) == inf
    assert summed(-inf, 1.0, fast=fast) == -inf
    assert np.isnan(summed(inf, -inf, fast=fast))
    refused(lambda: summed(1e30, fast=fast), outside)
"""
    )


def test_batches_derivatives_and_exports(run):
    run(
        """
x = jnp.asarray(values[:60].astype(np.float32).reshape(3, 4, 5))
at = jnp.asarray(places[:5] % 4)

@cuda.jit
def deep(x, at, out):
    i, _, z = cuda.grid(3)
    if i < x.size and z == 0:
        cuda.atomic.add(out, at[i], x[i])

for kernel in (scatter, deep):  # the latter uses the z axis
    op = numba_cuda_kernel(
        kernel, S((4,), "float32"), launch_dims=(5, 1, 1), deterministic=True,
        vjp=lambda inputs, outputs, cotangents: (cotangents[inputs[1]], None))
    each = np.array([[op(v, at) for v in w] for w in x])
    batched = jax.jit(jax.vmap(jax.vmap(op, (0, None)), (0, None)))
    np.testing.assert_array_equal(batched(x, at), each)
    gradient = jax.grad(lambda v: jnp.sum(op(v, at) * jnp.arange(4.0)))(x[0, 0])
    np.testing.assert_array_equal(gradient, np.asarray(at, np.float32))

exported = jax.export.export(jax.jit(op))(S((5,), "float32"), S((5,), "int32"))
again = jax.export.deserialize(exported.serialize())
np.testing.assert_array_equal(again.call(x[0, 0], at), op(x[0, 0], at))

n = jax.export.symbolic_shape("n")[0]
scattered = numba_cuda_kernel(scatter, lambda x, at: S((x.size,), x.dtype), deterministic=True,
                              launch_dims=lambda x, at: x.size)
exported = jax.export.export(jax.jit(scattered))(S((n,), "float32"), S((n,), "int32"))
np.testing.assert_array_equal(exported.call(x[0, 0], at), scattered(x[0, 0], at))
assert numba_cuda_kernel(scatter, lambda x, at: S((0,), "float32"), deterministic=True,
    launch_dims=0)(jnp.zeros(0), jnp.zeros(0, "int32")).shape == (0,)
"""
    )


def test_the_checked_mode(run):
    run(
        """
x = values[:100].astype(np.float32)
op = numba_cuda_kernel(scatter, S((BINS,), "float32"), launch_dims=100, deterministic=True,
                       check=True)
np.testing.assert_array_equal(op(x, places[:100]), histogram(x, places[:100], BINS, np.float32))
refused(lambda: op(x, places[:100] + 1), "out of bounds", "'out'")
unchecked = numba_cuda_kernel(scatter, S((BINS,), "float32"), launch_dims=100, deterministic=True)
refused(lambda: unchecked(x, places[:100] + 1), "out of bounds", "'out'")
"""
    )


def test_what_depends_on_the_order_is_refused(run):
    run(
        """
OUT = S((4,), "float32")

def refuses(kernel, *words, outs=OUT, inputs=()):
    op = numba_cuda_kernel(cuda.jit(kernel), outs, launch_dims=4, deterministic=True)
    refused(lambda: op(*inputs), f"numba_cuda_kernel {kernel.__name__!r}: deterministic= refuses",
            "KB4017", *words)

def used(out, other):
    old = cuda.atomic.add(out, 0, 1.0)
    other[0] = old
refuses(used, "uses the value that cuda.atomic.add returns", "'out'", outs=[OUT, OUT])

@cuda.jit(device=True)
def returning(out):
    return cuda.atomic.sub(out, 0, 1.0)
def returned(out):
    returning(out)
refuses(returned, "uses the value that cuda.atomic.sub returns", "'out'")

def reads(out, other):
    cuda.atomic.add(out, 0, 1.0)
    other[0] = out[1]
refuses(reads, "reads elements of 'out'", "in another kernel", outs=[OUT, OUT])

def writes(out):
    cuda.atomic.add(out, 0, 1.0)
    out[1] = 2.0
refuses(writes, "writes to elements of 'out'", ".py:")

def largest(out):
    cuda.atomic.add(out, 0, 1.0)
    cuda.atomic.max(out, 0, 2.0)
refuses(largest, "uses 'out'")

def iterated(out):
    cuda.atomic.add(out, 0, 1.0)
    for v in out:
        cuda.atomic.add(out, 0, 1.0)
refuses(iterated, "uses 'out'")

def viewed(out):
    cuda.atomic.add(out, 0, 1.0)
    out.view(np.int32)[0] = 1
refuses(viewed, "reads the attribute 'view' of 'out'")

def shared(out):
    s = cuda.shared.array(4, "float32")
    cuda.atomic.add(s, 0, 1.0)
refuses(shared, "cuda.atomic.add on 's'", "float32", "use integers")

def choice(out, other):
    target = out if cuda.grid(1) else other
    cuda.atomic.add(target, 0, 1.0)
refuses(choice, "'target'", "one of several", outs=[OUT, OUT])

def to_input(x, out):
    cuda.atomic.add(x, 0, 1.0)
refuses(to_input, "adds to an input", "input_output_aliases", inputs=[np.ones(4, np.float32)])

# What is exact, or does not depend on the order, stays, and so does what has nothing to do with it.
@cuda.jit
def exact(out, counts, most, plain):
    i = cuda.grid(1)
    local = cuda.local.array(1, "float32")
    local[0] = 1.0
    cuda.atomic.add(counts, 0, 1)
    cuda.atomic.max(most, 0, local[0])
    unused = cuda.atomic.add(out, 0, local[0])
    where = plain if i < 4 else most
    where[i] = local[0]
    where[i] += cuda.atomic.add(counts, 1, 0) + len(out) - out.size

outs = [S((1,), "float32"), S((2,), "int32"), S((1,), "float32"), OUT]
op = numba_cuda_kernel(exact, outs, launch_dims=4, zero_outputs=True, deterministic=True)
found = [np.asarray(o).tolist() for o in op()]
assert found == [[4.0], [4, 0], [1.0], [1.0] * 4], found
"""
    )


@cuda.jit
def kernel(x, out):
    cuda.atomic.add(out, 0, x[0])


@pytest.mark.parametrize("given", [0.3, 0, 1, -1.0, 2.0**-101, 2.0**101, "yes", float("inf"), None])
def test_the_option_is_a_power_of_two(given):
    with pytest.raises(ValueError, match=r"'kernel': deterministic is .*a power of two.*KB1005"):
        kernbridge.numba_cuda_kernel(
            kernel, S((1,), jnp.float32), launch_dims=1, deterministic=given
        )


def test_operations_are_told_apart_by_the_option():
    def made(**how):
        return kernbridge.numba_cuda_kernel(kernel, S((1,), jnp.float32), launch_dims=1, **how)

    assert made() is made(deterministic=False)
    assert made(deterministic=True) is made(deterministic=2.0**-40)
    assert len({made(), made(deterministic=True), made(deterministic=2.0**-41)}) == 3


@pytest.mark.usefixtures("gpu")
def test_the_plan_on_a_gpu_has_a_fill_and_a_last_launch():
    x = np.ones(1, np.float32)

    def plan_of(**how):
        op = kernbridge.numba_cuda_kernel(kernel, S((1,), jnp.float32), launch_dims=1, **how)
        return str(op.plan(x)).splitlines()[3:]

    assert len(plan_of()) == 1
    hidden, fill, launch, last = plan_of(deterministic=True)
    assert "hidden temporary 0, int64[2d]" in hidden
    assert "fill b2+0: b2.size x 8 B of 0x0" in fill
    assert "(&b0, b0.shape[0], &b1, b1.shape[0], &b2, b1.size)" in launch
    assert "launch sums_of_out[(ceil(b1.size / 256), 1, 1)" in last


def test_callables(run):
    run(
        """
x = values.astype(np.float32)

def function(x, at, out, more, stream):
    whole = cuda.device_array((BINS, 4), "float32")
    whole[:] = 1.0
    scatter[3, 32, stream](x, at, whole[:, 1])
    scatter[1, 100, stream](x, at, out)
    scatter.forall(x.size)(x, at, whole[:, 2])
    scatter[1, 1](x[:8], at[:8], out)
    scatter[1, 1](x[:0], at[:0], out[:0])
    more.copy_to_device(whole)

outs = [S((BINS,), "float32"), S((BINS, 4), "float32")]
def zeroed(x, at, out, more, stream):
    out[:] = 0.0
    function(x, at, out, more, stream)

op = numba_cuda_callable(zeroed, outs, deterministic=True)
out, more = map(np.asarray, jax.jit(op)(x, places))
f = np.float32
all_of = histogram(x, places, BINS, f)
first = [as_sums(x[:8][places[:8] == i], f, start=all_of[i]) for i in range(BINS)]
np.testing.assert_array_equal(out, first)
onto = [as_sums(x[places == i], f, start=1.0) for i in range(BINS)]
np.testing.assert_array_equal(more, np.transpose([[1.0] * BINS, onto, onto, [1.0] * BINS]))

both = jax.vmap(op, (0, None))(np.stack([x, -x]), places)
np.testing.assert_array_equal(both[0][0], out)
np.testing.assert_array_equal(both[0][1], op(-x, places)[0])
assert numba_cuda_callable(zeroed, outs) is not op
refused(lambda: op(np.full(N, 1e30, f), places), "sums_of_out", "OverflowError")

@cuda.jit
def twice(a, b):
    cuda.atomic.add(a, 0, 1.0)
def overlapping(out, stream):
    twice[1, 1](out[:3], out[2:])
op = numba_cuda_callable(overlapping, S((4,), "float32"), deterministic=True)
refused(op, "launch of 'twice'", "passes memory of 'a'", "KB4017")

def unrecordable(x, out, stream):
    out[:] = x.copy_to_host()
op = numba_cuda_callable(unrecordable, S((4,), "float32"), deterministic=True)
try:
    op(jnp.ones(4))
except Exception as e:
    assert "cannot be recorded" in str(e) and "leave deterministic= out" in str(e), str(e)
refused(lambda: numba_cuda_callable(zeroed, outs, deterministic=True, record="never"), "recorded")
"""
    )


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_subtractions_compile_for_a_gpu(dtype, monkeypatch):
    """LLVM's `fneg` is not part of the IR that NVVM takes."""
    monkeypatch.setenv("KERNBRIDGE_CUDA_ARCHS", "9.0")

    @cuda.jit
    def subtract(x, out):
        cuda.atomic.sub(out, 0, x[0])

    op = kernbridge.numba_cuda_kernel(subtract, S((1,), dtype), launch_dims=1, deterministic=True)
    traced = jax.jit(op).trace(S((1,), dtype))
    assert "custom_call" in traced.lower(lowering_platforms=("cuda",)).as_text()


def test_only_outputs_with_sums_of_floats_begin_with_zeros(gpu):
    @cuda.jit
    def sum_and_count(x, total, n):
        i = cuda.grid(1)
        if i < x.size:
            cuda.atomic.add(total, 0, x[i])
            cuda.atomic.add(n, 0, 1)

    outs = (S((1,), jnp.float32), S((1,), jnp.int32))
    op = kernbridge.numba_cuda_kernel(sum_and_count, outs, launch_dims=3, deterministic=True)
    plan = str(op.plan(jnp.arange(3.0)))
    assert "b2: output n, int32" in plan
    assert "fill b2" not in plan
    assert op(jnp.arange(3.0))[0] == 3  # whatever was in its memory
