"""One property, over dtypes, ranks 0 to 8 and sizes: however JAX runs the operation, it gives
what NumPy gives. eager == jit == scan == vmap of slices (nested) == shard_map on virtual devices ==
export in one process and run in another == NumPy.
"""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P
from kernbridge import numba_kernel
from kernels import combine, differ

DTYPES = [
    "bool",
    *("int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64"),
    *("float32", "float64", "complex64", "complex128"),
]
NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)  # each example compiles for seconds
EXTENTS = (0, 1, 2, 3, 5, 7)

pytestmark = [
    pytest.mark.usefixtures("x64"),
    pytest.mark.filterwarnings("ignore:overflow encountered"),  # NumPy, of 0-d integers
]


def mesh_of_two():
    return jax.make_mesh((2,), ("d",), axis_types=(AxisType.Auto,), devices=jax.devices()[:2])


def operation(dtype):
    kernel = differ if dtype == "bool" else combine
    return numba_kernel(kernel, lambda x, y: jax.ShapeDtypeStruct(x.shape, x.dtype))


def reference(x, y):
    return x != y if x.dtype == bool else np.add(x, y)


def draw_array(rng, dtype, shape):
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    real = rng.standard_normal(shape)
    return (real + 1j * rng.standard_normal(shape) if dtype.kind == "c" else real).astype(dtype)


def shape_of(rng, rank):
    """Extents of at most 3,000 elements in all."""
    shape = [int(n) for n in rng.choice(EXTENTS, rank)]
    while np.prod(shape, dtype=int) > 3000:
        shape[int(np.argmax(shape))] = 1
    return tuple(shape)


def check_everywhere(dtype, shape, rng):
    op = operation(dtype)
    x, y = draw_array(rng, dtype, shape), draw_array(rng, dtype, shape)
    want = reference(x, y)

    def same(got, want):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(np.asarray(got), want)

    same(op(x, y), want)
    same(jax.jit(op)(x, y), want)
    _, ys = jax.lax.scan(lambda c, a: (c, op(a, y)), 0, jnp.stack([x, y, x]))
    same(ys, np.stack([want, reference(y, y), want]))

    xs = np.stack([x, y])
    same(jax.jit(jax.vmap(op, (0, None)))(xs, y), np.stack([reference(a, y) for a in xs]))
    ys = np.stack([y, x, x])
    outer = np.stack([[reference(a, b) for b in ys] for a in xs])
    same(jax.vmap(jax.vmap(op, (None, 0)), (0, None))(xs, ys), outer)
    same(jax.vmap(jax.vmap(op, (0, None)), (None, 0))(xs, ys), outer.swapaxes(0, 1))

    mesh = mesh_of_two()
    spec = P("d")
    sharded = jax.shard_map(lambda a: op(a[0], y)[None], mesh=mesh, in_specs=spec, out_specs=spec)
    same(jax.jit(sharded)(xs), np.stack([reference(a, y) for a in xs]))


@pytest.mark.exhaustive
@pytest.mark.once
@settings(
    deadline=None, max_examples=6, suppress_health_check=list(HealthCheck), phases=NO_SHRINKING
)
@given(st.sampled_from(DTYPES), st.integers(0, 8), st.integers(0, 2**32 - 1))
def test_any_dtype_rank_and_shape(dtype, rank, seed):
    rng = np.random.default_rng(seed)
    check_everywhere(dtype, shape_of(rng, rank), rng)


@pytest.mark.brief
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(dtype):
    check_everywhere(dtype, (3, 5), np.random.default_rng(1))


@pytest.mark.brief
@pytest.mark.once
@pytest.mark.parametrize(
    "rank", [0, 1, 3, 8, *(pytest.param(r, marks=pytest.mark.exhaustive) for r in (2, 4, 5, 6, 7))]
)
def test_every_rank(rank):
    check_everywhere("float32", (2, 3, 1, 2, 1, 5, 1, 2)[:rank], np.random.default_rng(2))


@pytest.mark.brief
@pytest.mark.once
@pytest.mark.parametrize("shape", [(0,), (1,), (7,), (4099,), (0, 3), (3, 0, 2), (13, 17)], ids=str)
def test_sizes(shape):
    check_everywhere("float32", shape, np.random.default_rng(3))


CASES = [(dtype, rank) for dtype in DTYPES for rank in (0, 2)] + [("float32", r) for r in range(9)]

TRUSTED = {"KERNBRIDGE_ALLOW_IMPORTS": "*"}
RUN_EXPORTED = """
import pickle, sys
import jax, numpy as np
jax.config.update("jax_enable_x64", True)
import kernbridge
from jax import export

for blob, args, want in pickle.load(open(sys.argv[1] if len(sys.argv) > 1 else {path!r}, "rb")):
    got = export.deserialize(blob).call(*args)
    assert got.dtype == want.dtype, (got.dtype, want.dtype)
    np.testing.assert_array_equal(np.asarray(got), want)
print("ran", kernbridge._core.registry_stats()[0])
"""


def exported(f, *args):
    check = jax.export.DisabledSafetyCheck.custom_call("kernbridge.host")
    return jax.export.export(jax.jit(f), disabled_checks=[check])(*args).serialize()


@pytest.mark.once
@pytest.mark.exhaustive
def test_export_in_one_process_and_run_in_another(tmp_path, run_python):
    import pickle

    rng = np.random.default_rng(4)
    programs = []
    for dtype, rank in CASES:
        shape = (2, 3, 1, 2, 1, 2, 1, 2)[:rank]
        x, y = draw_array(rng, dtype, shape), draw_array(rng, dtype, shape)
        programs.append((exported(operation(dtype), x, y), (x, y), reference(x, y)))
    op = operation("float32")
    xs, y = draw_array(rng, "float32", (3, 4)), draw_array(rng, "float32", (4,))
    programs.append((exported(jax.vmap(op, (0, None)), xs, y), (xs, y), xs + y))
    path = tmp_path / "programs.pickle"
    path.write_bytes(pickle.dumps(programs))
    assert run_python(RUN_EXPORTED.format(path=str(path)), **TRUSTED).startswith("ran ")


@pytest.mark.exhaustive
def test_export_with_a_symbolic_shape(tmp_path, run_python):
    import pickle

    n, m = jax.export.symbolic_shape("n, m")
    args = [jax.ShapeDtypeStruct((n, m), np.float32)] * 2
    blob = exported(operation("float32"), *args)
    mapped = exported(jax.vmap(operation("float32")), *args)
    rng = np.random.default_rng(5)
    programs = []
    for shape in ((3, 4), (1, 7), (5, 2)):
        x, y = draw_array(rng, "float32", shape), draw_array(rng, "float32", shape)
        programs += [(blob, (x, y), x + y), (mapped, (x, y), x + y)]
    path = tmp_path / "programs.pickle"
    path.write_bytes(pickle.dumps(programs))
    assert run_python(RUN_EXPORTED.format(path=str(path)), **TRUSTED).startswith("ran 2")


@pytest.mark.parametrize("replicated", [False, True])
def test_shard_map_checks_varying_axes(replicated):
    op = operation("float32")
    mesh = mesh_of_two()
    x = jnp.arange(8, dtype=jnp.float32)

    def wrong(a):  # says that the result is the same on every device, and it is not
        return op(a, a)

    with pytest.raises(ValueError, match=r"out_specs|varying|replicat"):
        jax.jit(jax.shard_map(wrong, mesh=mesh, in_specs=P("d"), out_specs=P()))(x)
    f = jax.shard_map((lambda a, b: op(a, b)), mesh=mesh, in_specs=(P("d"), P()), out_specs=P("d"))
    if replicated:  # one operand varies over devices and the other does not
        np.testing.assert_array_equal(jax.jit(f)(x, jnp.ones(4)), np.arange(8) + 1)


def test_warnings_of_the_property_are_errors():
    """The kernels above copy nothing, or the property would hold for the wrong reason."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        operation("int16")(np.ones(3, np.int16), np.ones(3, np.int16))
