"""CUDA kernels of Numba on the CPU, without a GPU, a driver, or a fake of one.

Each test is a program of its own, since this process has a fake driver that takes GPU calls.
"""

import pytest

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")

pytestmark = pytest.mark.once

HEAD = """
import math, warnings
import jax, jax.numpy as jnp, numba, numpy as np
import kernbridge
from kernbridge import config, numba_cuda_callable, numba_cuda_kernel
from numba import cuda
S = jax.ShapeDtypeStruct
rng = np.random.default_rng(0)
"""


@pytest.mark.exhaustive
def test_elementwise_transformed_and_said_once(run):
    printed = run("""
@cuda.jit(device=True)
def shifted(a, b):
    return a * b + 1

OFFSET = np.float32(0.25)

@cuda.jit
def kernel(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = shifted(max(x[i], np.float32(0)), y[i]) + OFFSET

def pure(x, y):
    return jnp.maximum(x, 0) * y + 1.25

with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    for n in (1, 31, 32, 257, 1000, 70_001):
        x = jnp.asarray(rng.normal(size=n), jnp.float32)
        op = numba_cuda_kernel(kernel, S((n,), jnp.float32), launch_dims=n)
        np.testing.assert_allclose(op(x, x), pure(x, x), rtol=1e-6)
assert [str(w.message).count("runs on the CPU") for w in told] == [1], told
X = jnp.stack([x, -x, 2 * x])
np.testing.assert_allclose(jax.vmap(op, (0, None))(X, x), pure(X, x), rtol=1e-6)
nested = jax.jit(jax.vmap(jax.vmap(op)))
np.testing.assert_allclose(nested(X[None], X[None])[0], pure(X, X), rtol=1e-6)
steps = lambda f: jax.lax.scan(lambda c, _: (f(c, x) / 2, c[0]), x, None, length=5)
for a, b in zip(steps(op), steps(pure)):
    np.testing.assert_allclose(a, b, rtol=1e-5)
def jvp(inputs, outputs, tangents):
    (x, y), (dx, dy) = inputs, tangents
    return jnp.where(x > 0, dx * y, 0) + jnp.maximum(x, 0) * dy

ruled = numba_cuda_kernel(kernel, S((n,), jnp.float32), launch_dims=n, jvp=jvp)
gradient = lambda f: jax.grad(lambda x: f(x, x + 2).sum())(x)
np.testing.assert_allclose(gradient(ruled), gradient(pure), rtol=1e-5)
from jax.sharding import Mesh, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()[:2]), ("i",))
half = numba_cuda_kernel(kernel, lambda x, y: S(x.shape, x.dtype), launch_dims=lambda x, y: x.size)
sharded = jax.shard_map(half, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
np.testing.assert_allclose(jax.jit(sharded)(x[:64], x[:64]), pure(x[:64], x[:64]), rtol=1e-6)
print("held")
""")
    assert "held" in printed


def test_grids_blocks_and_indices(run):
    run("""
@cuda.jit
def where(out):
    x, y, z = cuda.grid(3)
    gx, gy, gz = cuda.gridsize(3)
    if x < out.shape[0] and y < out.shape[1] and z < out.shape[2]:
        out[x, y, z] = ((x * 100 + y) * 100 + z) * 1000 + gx + 10 * gy + 100 * gz

shape = (5, 7, 9)
op = numba_cuda_kernel(where, S(shape, jnp.int32), grid=(2, 3, 5), block=(4, 3, 2))
i, j, k = np.indices(shape)
np.testing.assert_array_equal(op(), ((i * 100 + j) * 100 + k) * 1000 + 8 + 90 + 1000)

@cuda.jit
def raw(out):
    b = cuda.blockIdx.x + cuda.gridDim.x * (cuda.blockIdx.y + cuda.gridDim.y * cuda.blockIdx.z)
    t = cuda.threadIdx.x + cuda.blockDim.x * (cuda.threadIdx.y + cuda.blockDim.y * cuda.threadIdx.z)
    n = cuda.blockDim.x * cuda.blockDim.y * cuda.blockDim.z
    out[b * n + t] = b * 1000 + t

op = numba_cuda_kernel(raw, S((720,), jnp.int32), grid=(2, 3, 4), block=(5, 3, 2))
np.testing.assert_array_equal(op(), [b * 1000 + t for b in range(24) for t in range(30)])

@cuda.jit
def strided(x, out):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        out[i] = -x[i]

x = jnp.arange(1000.0)
op = numba_cuda_kernel(strided, S((1000,), jnp.float32), grid=3, block=32)
np.testing.assert_array_equal(op(x), -x)
empty = numba_cuda_kernel(strided, S((4,), jnp.float32), grid=lambda x: x.shape[0], block=32)
np.testing.assert_array_equal(empty(x[:0]), np.zeros(4))
""")


def test_atomics_local_arrays_constants_scalars_and_math(run):
    run("""
@cuda.jit
def histogram(x, w, count, total, largest):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(count, x[i], 1)
        cuda.atomic.add(total, x[i], w[i])
        cuda.atomic.max(largest, 0, x[i])

x = rng.integers(0, 7, 100_000).astype(np.int32)
op = numba_cuda_kernel(histogram, [S((7,), jnp.int32), S((7,), jnp.float32), S((1,), jnp.int32)],
                       launch_dims=x.size, zero_outputs=True)
count, total, largest = jax.jit(op)(x, np.ones(x.size, np.float32))
np.testing.assert_array_equal(count, np.bincount(x, minlength=7))
np.testing.assert_array_equal(total, np.bincount(x, minlength=7))
assert largest[0] == x.max()

TABLE = np.arange(8, dtype=np.float32) ** 2

@cuda.jit
def mixed(x, scale, bias, out):
    table = cuda.const.array_like(TABLE)
    own = cuda.local.array(4, numba.float32)
    i = cuda.grid(1)
    if i < out.size:
        for k in range(4):
            own[k] = x[i] * k
        total = numba.float32(0)
        for k in range(4):
            total += own[3 - k] * (k + 1)
        out[i] = total * scale + bias[()] + table[i % 8]

x = jnp.asarray(rng.normal(size=100), jnp.float32)
op = numba_cuda_kernel(mixed, S((100,), jnp.float32), launch_dims=100)
got = op(x, jnp.float32(3), scale=jnp.float32(2))
weights = sum((3 - k) * (k + 1) for k in range(4))
want = x * weights * 2 + 3 + TABLE[np.arange(100) % 8]
np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)

@cuda.jit
def functions(x, out):
    i = cuda.grid(1)
    if i < x.size:
        v = x[i]
        out[i, 0] = math.sin(v)
        out[i, 1] = math.exp(-v * v)
        out[i, 2] = math.sqrt(abs(v))
        out[i, 3] = math.tanh(v)
        out[i, 4] = math.log1p(abs(v))
        out[i, 5] = math.floor(v)
        out[i, 6] = math.atan2(v, 2.0)
        out[i, 7] = math.pow(abs(v), 1.5)
        out[i, 8] = math.erf(v)
        out[i, 9] = min(v, 0.25)

for dtype, rtol in ((np.float32, 2e-6), (np.float64, 1e-12)):
    jax.config.update("jax_enable_x64", dtype == np.float64)
    v = rng.normal(size=200).astype(dtype)
    op = numba_cuda_kernel(functions, S((200, 10), dtype), launch_dims=200)
    erf = np.array([math.erf(t) for t in v])
    want = [np.sin(v), np.exp(-v * v), np.sqrt(abs(v)), np.tanh(v), np.log1p(abs(v)), np.floor(v)]
    want += [np.arctan2(v, dtype(2)), abs(v) ** 1.5, erf, np.minimum(v, 0.25)]
    np.testing.assert_allclose(op(v), np.stack(want, 1), rtol=rtol, atol=rtol)
""")


@pytest.mark.exhaustive
def test_recorded_callables(run):
    run("""
@cuda.jit
def square(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] * x[i]

@cuda.jit
def root(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = math.sqrt(x[i])

def absolute(x, out, stream):
    squared = cuda.device_array(x.shape, x.dtype)
    squared[:] = 0
    blocks = (x.size + 63) // 64
    square[blocks, 64, stream](x, squared)
    root[blocks, 64, stream](squared, out)

x = jnp.linspace(-5, 5, 512, dtype=jnp.float32)
op = numba_cuda_callable(absolute, S(x.shape, x.dtype))
np.testing.assert_allclose(op(x), abs(x), rtol=1e-6)
X = jnp.stack([x, 2 * x, x - 1])
np.testing.assert_allclose(jax.jit(jax.vmap(op))(X), abs(X), rtol=1e-6)

def reads(x, out, stream):
    if x[0] > 0:
        square[1, 64, stream](x, out)

try:
    numba_cuda_callable(reads, S(x.shape, x.dtype), record="always")(x)
except kernbridge.KernelError as e:
    assert "cannot be recorded: reading element [0] on the host" in str(e), e
else:
    raise SystemExit("not refused")
""")


def test_what_cannot_run_is_named(run):
    run("""
def refused(kernel, *words, block=32):
    op = numba_cuda_kernel(kernel, S((32,), jnp.float32), grid=1, block=block)
    try:
        op(jnp.ones(32))
    except kernbridge.KernelCompilationError as e:
        assert all(w in str(e) for w in (*words, kernel.py_func.__name__, "run it on a GPU")), e
    else:
        raise SystemExit(f"{kernel} is not refused")

from llvmlite import ir
from numba.cuda.extending import intrinsic

@intrinsic
def clock(typing_context):
    def codegen(context, builder, signature, args):
        assembly = ir.InlineAsm(ir.FunctionType(ir.IntType(32), []), "mov.u32 $0, %clock;", "=r")
        return builder.call(assembly, [])
    return numba.types.int32(), codegen

@cuda.jit
def exotic(x, out):
    out[cuda.threadIdx.x] = clock()

@cuda.jit
def plain(x, out):
    out[cuda.threadIdx.x] = cuda.laneid

refused(exotic, "inline PTX (mov.u32 $0, %clock;)")
class Extension:
    def prepare_args(self, kind, value, **_):
        return kind, value

@cuda.jit(extensions=[Extension()])
def extended(x, out):
    out[cuda.threadIdx.x] = x[cuda.threadIdx.x]

try:
    numba_cuda_kernel(extended, S((32,), jnp.float32), grid=1, block=32)(jnp.ones(32))
except kernbridge.KernelNotAvailableError as e:
    assert "extended" in str(e) and "extensions=" in str(e) and "check=True" in str(e), e
else:
    raise SystemExit("not refused")
try:
    config.set_cuda_on_cpu("sometimes")
except ValueError as e:
    assert "expected 'compile' or 'error'" in str(e)
compiled = numba_cuda_kernel(plain, S((32,), jnp.float32), grid=1, block=32)
before = compiled(jnp.ones(32))
config.set_cuda_on_cpu("error")
assert (compiled(jnp.ones(32)) == before).all()  # it was lowered before
jax.clear_caches()
try:
    compiled(jnp.ones(32))
except kernbridge.KernelNotAvailableError as e:
    assert "forbids that" in str(e)
else:
    raise SystemExit("not refused")
""")


def test_a_gpu_kernel_of_an_operation_serves_the_cpu(run):
    run("""
@cuda.jit
def twice(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 2 * x[i]

op = kernbridge.XLACustomKernel("only_on_gpus")
op.def_numba_cuda_kernel(lambda outs: numba_cuda_kernel(twice, outs, launch_dims=outs[0].size))
op.def_vjp_rule(lambda i, o, ct, **_: 2 * ct[0])
x = jnp.arange(5.0)
f = lambda x: op(x, outs=S(x.shape, x.dtype))
np.testing.assert_array_equal(f(x), 2 * x)
np.testing.assert_array_equal(jax.vmap(f)(jnp.stack([x, -x])), 2 * jnp.stack([x, -x]))
np.testing.assert_array_equal(jax.grad(lambda x: (f(x) ** 2).sum())(x), 8 * x)
op.def_kernel("jnp", "cpu", lambda outs: lambda x: x + 100)
np.testing.assert_array_equal(f(x), x + 100)
np.testing.assert_array_equal(op(x, outs=S(x.shape, x.dtype), backend="numba_cuda"), 2 * x)
""")


@pytest.mark.exhaustive
def test_what_runs_is_inspected(run):
    run("""
@cuda.jit
def reverse(x, out):
    part = cuda.shared.array(64, numba.float32)
    i = cuda.threadIdx.x
    part[i] = x[i]
    cuda.syncthreads()
    out[i] = part[63 - i]

def twice(x, out, stream):
    reverse[1, 64, stream](x, out)
    reverse[1, 64, stream](x, out)

like = S((64,), jnp.float32)
op = numba_cuda_kernel(reverse, like, grid=1, block=64, shared_mem=8)
(found,) = op.inspect(like)
assert found.platform == "cpu" and not found.architecture.startswith("sm_"), found
assert (found.shared_memory, found.block) == (256 + 8, (64, 1, 1))
assert found.registers is found.occupancy is found.sass is None
assert "define void @kb_fibre" in found.llvm_ir and "kb_fibre:" in found.assembly
assert "264 B shared, block (64, 1, 1)" in str(found)
assert [i.platform for i in numba_cuda_callable(twice, like).inspect(like)] == ["cpu", "cpu"]

config.set_cuda_architectures("9.0")
(found,) = op.inspect(like)
assert (found.platform, found.architecture) == ("cuda", "sm_90")
""")


@pytest.mark.exhaustive
def test_exported_programs_run_without_numba(run, run_python, tmp_path):
    run("""
from jax import export
@cuda.jit
def twice(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 2 * x[i]
op = numba_cuda_kernel(twice, lambda x: S(x.shape, x.dtype), launch_dims=lambda x: x.size)
check = [export.DisabledSafetyCheck.custom_call("kernbridge.cuda.host")]
n, = export.symbolic_shape("n")
exported = export.export(jax.jit(op), disabled_checks=check)(S((n,), jnp.float32))
open("program", "wb").write(exported.serialize())
""")
    run_python(
        """
import sys, jax.numpy as jnp, kernbridge
from jax import export
f = export.deserialize(open("program", "rb").read())
assert f.call(jnp.arange(70.0)).tolist() == [2.0 * i for i in range(70)]
assert "numba" not in sys.modules
""",
        KERNBRIDGE_LIBCUDA="/nowhere/libcuda.so",
    )


@pytest.mark.exhaustive
def test_subnormal_numbers_stay(run):
    """XLA takes them for 0, and CUDA does not; afterwards XLA computes as before."""
    run("""
@cuda.jit
def tenth(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] / np.float32(10)

@cuda.jit
def tenth_in_turns(x, out):
    i = cuda.grid(1)
    cuda.syncthreads()
    if i < out.size:
        out[i] = x[i] / np.float32(10)

for n in (64, 100_000):
    x = np.full(n, 1e-37, np.float32) * np.float32(0.01)
    want = x / np.float32(10)
    assert want[0] != 0
    for kernel in (tenth, tenth_in_turns):
        op = numba_cuda_kernel(kernel, S((n,), jnp.float32), launch_dims=n)
        flushed = jax.jit(lambda x: (op(x), x * np.float32(0.1)))
        got, of_xla = flushed(x)
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(of_xla, jax.jit(lambda x: x * np.float32(0.1))(x))
""")


@pytest.mark.exhaustive
def test_what_no_other_kernel_can_use_goes_with_its_kernel(run):
    printed = run("""
import gc
from collections import Counter

x = jnp.arange(4, dtype=jnp.float32)

def call(inner):
    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = inner(x[i])

    return float(numba_cuda_kernel(kernel, S((4,), jnp.float32), launch_dims=4)(x)[1])

def use():
    factor = 2.0

    @cuda.jit(device=True)
    def inner(v):
        return v * factor

    first = call(inner)
    factor = 3.0  # Numba may mix both, so that the kernels that follow have no lasting identity
    return first, call(inner)

def count():
    jax.clear_caches()
    gc.collect()
    return Counter(type(o).__name__ for o in gc.get_objects())["NumbaCudaFunction"]

results, counts = [], []
for _ in range(4):
    results.append(use())
    counts.append(count())
print(*results, *counts)
""")
    values = printed.split()
    assert values[-4:] == ["1"] * 4
