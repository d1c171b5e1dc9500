"""Operations in programs for two GPUs: the values of one GPU, and no gather where none is needed.

With --on-cpu two of the CPU's virtual devices take the place of the GPUs.
"""

import os
import pickle
import re
import subprocess
import sys
import warnings

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest
from jax.experimental import serialize_executable
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from kernbridge import KernbridgeWarning, ShardingRule

cuda = pytest.importorskip("numba.cuda")
S = jax.ShapeDtypeStruct
COLLECTIVE = re.compile(r" (all-gather|all-reduce|all-to-all|collective-permute)(?:-start)?\(")

pytestmark = pytest.mark.skipif(len(jax.devices()) < 2, reason="needs two devices")


def mesh(*shape, kind=AxisType.Auto):
    names = ("x", "y")[: len(shape)]
    devices = np.array(jax.devices()[:2]).reshape(shape)
    return jax.sharding.Mesh(devices, names, axis_types=(kind,) * len(shape))


def put(array, *spec, on=(2,), kind=AxisType.Auto):
    return jax.device_put(array, NamedSharding(mesh(*on, kind=kind), P(*spec)))


def check(function, *operands, moved=()):
    """Compare with the call on one device, and the collectives of the compiled program."""
    one = jax.devices()[0]
    expected = function(*(jax.device_put(np.asarray(x), one) for x in operands))
    compiled = jax.jit(function).lower(*operands).compile()
    for found in (compiled(*operands), jax.jit(function)(*operands)):
        assert len(found.devices()) == 2
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    if moved is not None:
        assert COLLECTIVE.findall(compiled.as_text()) == list(moved)
    return found


# Three front ends with the same three operations.


@cuda.jit
def scaled_sum(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 2 * x[i] + y[i]


@cuda.jit
def softmax_rows(x, out):
    i = cuda.grid(1)
    if i < x.shape[0]:
        largest = x[i, 0]
        for j in range(x.shape[1]):
            largest = max(largest, x[i, j])
        total = x[i, 0] * 0
        for j in range(x.shape[1]):
            out[i, j] = 2 ** (x[i, j] - largest)
            total += out[i, j]
        for j in range(x.shape[1]):
            out[i, j] /= total


@cuda.jit
def matvec(a, x, out):
    i = cuda.grid(1)
    if i < a.shape[0]:
        total = a[i, 0] * 0
        for j in range(a.shape[1]):
            total += a[i, j] * x[j]
        out[i] = total


def launch_and_copy(x, y, out, stream):
    blocks = (x.size + 127) // 128
    temporary = cuda.device_array(x.shape, x.dtype)
    scaled_sum[blocks, 128, stream](x, y, temporary)
    out.copy_to_device(temporary, stream=stream)


def softmax_launch(x, out, stream):
    softmax_rows[(x.shape[0] + 127) // 128, 128, stream](x, out)


def matvec_launch(a, x, out, stream):
    temporary = cuda.device_array(out.shape, out.dtype)
    matvec[(a.shape[0] + 127) // 128, 128, stream](a, x, temporary)
    out.copy_to_device(temporary, stream=stream)


SOURCE = r"""
__global__ void scaled_sum(const float *x, const float *y, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2 * x[i] + y[i];
}
__global__ void softmax_rows(const float *x, float *out, int n, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float largest = x[i * columns], total = 0;
    for (int j = 0; j < columns; j++) largest = fmaxf(largest, x[i * columns + j]);
    for (int j = 0; j < columns; j++)
        total += out[i * columns + j] = exp2f(x[i * columns + j] - largest);
    for (int j = 0; j < columns; j++) out[i * columns + j] /= total;
}
__global__ void matvec(const float *a, const float *x, float *out, int n, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float total = 0;
    for (int j = 0; j < columns; j++) total += a[i * columns + j] * x[j];
    out[i] = total;
}"""

ELEMENTWISE, PRODUCT = "i, i -> i", "i j, j -> i"
SUM = ShardingRule(PRODUCT, reduce="sum")


def same(x, *_):
    return S(x.shape, x.dtype)


def rows(a, *_):
    return S(a.shape[:1], a.dtype)


def first_extent(x, *_):
    return x.shape[0]


def by_kernel(name, outs, rule):
    kernel = {"scaled_sum": scaled_sum, "softmax_rows": softmax_rows, "matvec": matvec}[name]
    return kernbridge.numba_cuda_kernel(kernel, outs, launch_dims=first_extent, sharding_rule=rule)


def by_callable(name, outs, rule):
    functions = {
        "scaled_sum": launch_and_copy,
        "softmax_rows": softmax_launch,
        "matvec": matvec_launch,
    }
    return kernbridge.numba_cuda_callable(
        functions[name], outs, record="always", sharding_rule=rule
    )


def by_source(name, outs, rule):
    extents = {"n": first_extent, "columns": lambda x, *_: x.shape[1]}
    return kernbridge.cuda_kernel(
        SOURCE,
        name,
        outs,
        launch_dims=first_extent,
        attrs={"n": first_extent} if name == "scaled_sum" else extents,
        sharding_rule=rule,
    )


NO_SOURCE = pytest.mark.gpu_only("CUDA C++ has no code for CPUs")
every_front_end = pytest.mark.parametrize(
    "make", [by_kernel, by_callable, pytest.param(by_source, marks=NO_SOURCE)]
)

X = np.arange(512, dtype=np.float32) % 7
A = np.arange(512 * 512, dtype=np.float32).reshape(512, 512) % 11
B = np.arange(4 * 64 * 32, dtype=np.float32).reshape(4, 64, 32) % 5


@every_front_end
def test_elementwise(make):
    op = make("scaled_sum", same, ELEMENTWISE)
    found = check(op, put(X, "x"), put(X + 1, "x"))
    assert found.sharding.spec == P("x")
    found = check(jax.vmap(op), put(A, "x"), put(A + 1, "x"))
    assert found.sharding.spec[0] == "x"
    check(jax.vmap(op, (0, None)), put(A, "x"), put(X))
    check(jax.vmap(op), put(A, None, "x"), put(A + 1, None, "x"))


@every_front_end
def test_rows(make):
    op = make("softmax_rows", same, "i j -> i k")
    found = check(op, put(A, "x"))
    assert found.sharding.spec[0] == "x"
    check(jax.vmap(op), put(B, "x"))
    check(jax.vmap(op), put(B, None, "x"))


@every_front_end
def test_a_product_by_rows(make):
    op = make("matvec", rows, PRODUCT)
    found = check(op, put(A, "x"), put(X))
    assert found.sharding.spec == P("x")
    check(jax.vmap(op, (0, None)), put(B, "x"), put(X[:32]))
    check(jax.vmap(op, (None, 0)), put(A), put(A, "x"))
    with pytest.warns(KernbridgeWarning, match="is gathered on each"):
        check(op, put(A, None, "x"), put(X, "x"), moved=None)


@every_front_end
def test_a_product_that_is_summed(make):
    op = make("matvec", rows, SUM)
    check(op, put(A, None, "x"), put(X, "x"), moved=["all-reduce"])
    check(op, put(A, "x"), put(X))
    check(jax.vmap(op, (0, None)), put(B, None, None, "x"), put(X[:32], "x"), moved=["all-reduce"])
    check(jax.vmap(op), put(B, "x"), put(A[:4, :32], "x"))


@every_front_end
def test_batches_are_split_without_a_rule(make):
    with warnings.catch_warnings():
        warnings.simplefilter("error", KernbridgeWarning)
        for name, outs, operands in (
            ("scaled_sum", same, (put(A, "x"), put(A, "x"))),
            ("softmax_rows", same, (put(B, "x"),)),
            ("matvec", rows, (put(B, "x"), put(B[:, 0], "x"))),
        ):
            found = check(jax.vmap(make(name, outs, None)), *operands)
            assert found.sharding.spec[0] == "x"


@every_front_end
def test_nested_batches_with_unmapped_operands(make):
    op = make("matvec", rows, None)
    f = jax.vmap(jax.vmap(op, (0, None)), (None, 0))
    check(f, put(B, "x"), put(A[:6, :32]))
    check(f, put(B), put(A[:6, :32], "x"))


@every_front_end
def test_without_a_rule_the_values_are_right(make):
    with pytest.warns(KernbridgeWarning, match="is gathered on each"):
        check(make("matvec", rows, None), put(A, "x"), put(X), moved=None)


@every_front_end
def test_uneven_parts(make):
    op = make("scaled_sum", same, ELEMENTWISE)
    where = NamedSharding(mesh(2), P("x"))

    def f(x):
        return op(jax.lax.with_sharding_constraint(x, where), x)

    with pytest.warns(KernbridgeWarning, match="the dimension cannot be split into 2 equal parts"):
        np.testing.assert_array_equal(jax.jit(f)(X[:511]), 3 * X[:511])


# Ways to a call.


def shard_map(function, shape, in_specs, out_specs, names):
    return jax.jit(
        jax.shard_map(
            function,
            mesh=mesh(*shape),
            in_specs=in_specs,
            out_specs=out_specs,
            axis_names=names,
            check_vma=False,
        )
    )


@every_front_end
@pytest.mark.parametrize("shape", [(1, 2), (2, 1)])
def test_shard_map_with_automatic_axes(make, shape):
    by_parts = make("matvec", rows, PRODUCT)
    f = shard_map(by_parts, shape, (P("x"), P()), P("x"), {"x"})
    np.testing.assert_allclose(f(put(A, "x", None, on=shape), put(X, on=shape)), A @ X, rtol=1e-5)
    batched = shard_map(jax.vmap(by_parts, (0, None)), shape, (P("x"), P()), P("x"), {"x"})
    found = batched(put(B, "x", "y", on=shape), put(X[:32], on=shape))
    np.testing.assert_allclose(found, B @ X[:32], rtol=1e-5)
    if shape == (1, 2):
        text = batched.lower(put(B, "x", "y", on=shape), put(X[:32], on=shape)).compile().as_text()
        assert not COLLECTIVE.findall(text)


@every_front_end
@pytest.mark.parametrize("shape", [(1, 2), (2, 1)])
def test_a_sum_beside_manual_axes_is_gathered(make, shape):
    f = shard_map(make("matvec", rows, SUM), shape, (P("x"), P()), P("x"), {"x"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernbridgeWarning)
        found = f(put(A, "x", "y", on=shape), put(X, on=shape))
    np.testing.assert_allclose(found, A @ X, rtol=1e-5)


@every_front_end
def test_explicit_meshes(make):
    op = make("scaled_sum", same, ELEMENTWISE)
    with jax.set_mesh(mesh(2, kind=AxisType.Explicit)):
        x = put(X, "x", kind=AxisType.Explicit)
        found = jax.jit(op)(x, x)
        assert jax.typeof(found).sharding.spec == P("x")
        np.testing.assert_array_equal(found, 3 * X)


@every_front_end
def test_a_loop(make):
    summed = make("matvec", rows, SUM)
    a, x = put(A / 1000, None, "x"), put(X, "x")

    def f(a, x):
        step = lambda x, _: (summed(a, x), x.sum())  # noqa: E731
        return jax.lax.scan(step, x, None, length=5)[0]

    check(f, a, x, moved=None)


def test_gradients():
    def vjp(inputs, outputs, ct):
        a, x = inputs
        return jnp.outer(ct, x), a.T @ ct

    op = kernbridge.numba_cuda_kernel(
        matvec, rows, launch_dims=first_extent, sharding_rule=SUM, vjp=vjp
    )
    f = jax.grad(lambda a, x: jnp.sum(op(a, x) ** 2), 1)
    check(f, put(A / 100, None, "x"), put(X, "x"), moved=["all-reduce"])


def test_aliases():
    @cuda.jit
    def decay(state, x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = state[i] / 2 + x[i]

    op = kernbridge.numba_cuda_kernel(
        decay,
        same,
        launch_dims=first_extent,
        input_output_aliases={0: 0},
        sharding_rule=ELEMENTWISE,
    )
    state = put(X, "x")
    check(op, state, put(X + 1, "x"))
    np.testing.assert_array_equal(state, X)
    check(jax.vmap(op, (None, 0)), put(X), put(A, "x"))
    found = jax.jit(op, donate_argnums=0)(put(X, "x"), put(X + 1, "x"))
    np.testing.assert_array_equal(found, X / 2 + X + 1)


@pytest.mark.gpu_only("CUDA C++ has no code for CPUs")
def test_a_side_effect_happens_once(x64):
    op = kernbridge.cuda_kernel(
        """
        __global__ void count(const float *x, const long long *where, float *out, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i == 0) atomicAdd_system((int *)where[0], 1);
            if (i < n) out[i] = 2 * x[i];
        }""",
        "count",
        same,
        launch_dims=first_extent,
        attrs={"n": first_extent},
        has_side_effect=True,
        sharding_rule="i, j -> i",
    )
    counts = cuda.mapped_array(2, np.int32, portable=True)  # memory that every GPU can reach
    counts[:] = 0
    where = counts.ctypes.data + 4 * np.arange(2)  # a counter for each, as no atomics join GPUs
    found = jax.block_until_ready(jax.jit(op)(put(X, "x"), put(where)))
    assert counts.tolist() == [1, 0]
    assert found.sharding.is_fully_replicated
    for part in found.addressable_shards:
        np.testing.assert_array_equal(part.data, 2 * X)
    on_each = shard_map(op, (2,), (P("x"), P("x")), P("x"), {"x"})
    np.testing.assert_array_equal(on_each(put(X, "x"), put(where, "x")), 2 * X)
    jax.effects_barrier()
    assert counts.tolist() == [2, 1]


# Programs in other processes.

TABLE = np.random.default_rng(0).normal(size=14 * 1024).astype(np.float32)


def large_kernel():
    """A kernel whose program has more than 64 KiB."""
    drawn = np.random.default_rng(1).random((60, 32), np.float32) + 1_000
    lines = "\n".join(
        f"        if x[i] == {a}: v = {' + v * '.join(map(str, others))}" for a, *others in drawn
    )
    source = f"""def large(x, out):
    i = cuda.grid(1)
    constants = cuda.const.array_like(table)
    if i < out.size:
        v = x[i]
{lines}
        out[i] = constants[int(v) % {TABLE.size}] - v
"""
    space = {"cuda": cuda, "table": TABLE}
    exec(source, space)
    return kernbridge.numba_cuda_kernel(
        cuda.jit(space["large"]), same, launch_dims=first_extent, sharding_rule="i -> i"
    )


LOAD = """
import pickle, sys
import jax, numpy as np
from jax.experimental import serialize_executable
parts, operand, expected, n = pickle.load(open(sys.argv[1], "rb"))
devices = jax.devices()[:n]
run = serialize_executable.deserialize_and_load(*parts, execution_devices=devices)
mesh = jax.sharding.Mesh(np.array(devices), ("x",))
where = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
np.testing.assert_array_equal(run(jax.device_put(operand, where)), expected)
print("right", "numba" in sys.modules)
"""


def run_program(folder, source, *arguments, **environment):
    """Run a program beside this one; returns what it printed."""
    (folder / "program.py").write_text(source)
    done = subprocess.run(
        [sys.executable, "program.py", *arguments],
        env={**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false", **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def reload(folder, f, x, expected):
    """Compile for devices, and run the serialized executable in a process without Numba."""
    for n in (1, 2):
        where = jax.sharding.Mesh(np.array(jax.devices()[:n]), ("x",))
        operand = jax.device_put(x, NamedSharding(where, P("x")))
        compiled = jax.jit(f).lower(operand).compile()
        assert not COLLECTIVE.findall(compiled.as_text())
        np.testing.assert_array_equal(compiled(operand), expected)
        saved = pickle.dumps((serialize_executable.serialize(compiled), x, expected, n))
        (folder / "saved").write_bytes(saved)
        assert run_program(folder, LOAD, "saved") == ["right", "False"]


@every_front_end
def test_a_serialized_executable(tmp_path, make):
    op = make("scaled_sum", same, ELEMENTWISE)
    reload(tmp_path, lambda x: op(op(x, x), x), X, 7 * X)


def test_a_serialized_executable_with_a_large_program(tmp_path):
    op, x = large_kernel(), X + np.float32(0.5)
    text = jax.jit(op).lower(x).as_text()
    assert len(text) > 2 * 64 * 1024
    reload(tmp_path, lambda x: op(0 * op(x) + x), x, TABLE[x.astype(int)] - x)


CACHED = """
import numpy
if not hasattr(numpy, "row_stack"):
    numpy.row_stack = numpy.vstack
import jax, kernbridge, numpy as np
from numba import cuda
jax.config.update("jax_compilation_cache_dir", "cache")
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
hits = []
jax.monitoring.register_event_listener(lambda name, **_: hits.append("cache_hits" in name))

@cuda.jit
def triple(x, out):
    i = cuda.grid(1)
    out[i] = 3 * x[i]

op = kernbridge.numba_cuda_kernel(
    triple, lambda x: x, launch_dims=lambda x: x.size, sharding_rule="i -> i"
)
mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("x",))
where = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
x = jax.device_put(np.arange(512, dtype=np.float32), where)
hits.clear()
found = jax.jit(op)(x)
np.testing.assert_array_equal(found, 3 * np.arange(512))
print(any(hits))
"""


def test_a_program_in_the_compilation_cache(tmp_path):
    """XLA does not ask the second process how to partition it."""
    assert run_program(tmp_path, CACHED) == ["False"]
    assert run_program(tmp_path, CACHED) == ["True"]
