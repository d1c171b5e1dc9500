"""`numba_cuda_kernel` end to end under JAX, on the fake driver: values and launches."""

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest

cuda = pytest.importorskip("numba.cuda")

from cuda_kernels import add, elementwise, hadamard, increment, plus_z, plus_zero_d, scale, volume  # noqa: E402

pytestmark = pytest.mark.usefixtures("gpu")
S = jax.ShapeDtypeStruct
F32 = jnp.float32


def grids(gpu):
    return [(tuple(launch.grid), tuple(launch.block)) for launch in gpu.launches]


@pytest.mark.parametrize("n", [0, 1, 31, 256, 257])
def test_values_and_launch(gpu, n):
    x = jnp.arange(n, dtype=F32)
    np.testing.assert_array_equal(elementwise(add)(x, x), 2 * np.arange(n))
    block = min(256, n)
    assert grids(gpu) == ([((-(-n // block), 1, 1), (block, 1, 1))] if n else [])


def test_launch_rule_of_two_and_three_dimensions(gpu):
    a = jnp.arange(33 * 5, dtype=F32).reshape(33, 5)
    np.testing.assert_array_equal(elementwise(hadamard)(a, a), np.asarray(a) ** 2)
    v = jnp.arange(9 * 3 * 5, dtype=F32).reshape(9, 3, 5)
    np.testing.assert_array_equal(elementwise(volume)(v), 2 * np.asarray(v))
    assert grids(gpu) == [((3, 1, 1), (16, 5, 1)), ((2, 1, 2), (8, 3, 4))]


def test_explicit_launch_and_its_extras(gpu):
    op = kernbridge.numba_cuda_kernel(
        add, S((8,), F32), grid=(4, 1), block=2, shared_mem=60_000, cooperative=True, cluster=2
    )
    np.testing.assert_array_equal(op(jnp.ones(8), jnp.ones(8)), np.full(8, 2))
    (launch,) = gpu.launches
    assert (launch.shared, launch.cooperative, tuple(launch.cluster)) == (60_000, 1, (2, 1, 1))
    assert gpu.calls("cuKernelSetAttribute") == 1
    op = kernbridge.numba_cuda_kernel(add, S((8,), F32), grid=8, block=1, pdl=True)
    op(jnp.ones(8), jnp.ones(8))
    assert gpu.launches[-1].overlaps == 1


@pytest.mark.parametrize(("grid", "block"), [(0, 256), (1, 0), ((1, 0), 4)])
def test_a_launch_of_nothing_is_refused_unless_an_array_is_empty(gpu, grid, block):
    op = kernbridge.numba_cuda_kernel(add, lambda x, y: x, grid=grid, block=block)
    with pytest.raises(ValueError, match=r"launches no thread.*\[KB1102\]"):
        op(jnp.ones(5), jnp.ones(5))
    assert op(jnp.ones(0), jnp.ones(0)).shape == (0,)
    assert gpu.launches == []


def test_auto_block_asks_for_the_occupancy(gpu):
    op = kernbridge.numba_cuda_kernel(
        add, S((600,), F32), launch_dims=600, threads_per_block="auto"
    )
    np.testing.assert_array_equal(op(jnp.ones(600), jnp.ones(600)), np.full(600, 2))
    assert grids(gpu) == [((3, 1, 1), (256, 1, 1))]


def test_zero_outputs(gpu):
    op = kernbridge.numba_cuda_kernel(add, S((5,), F32), launch_dims=2, zero_outputs=True)
    np.testing.assert_array_equal(op(jnp.ones(5), jnp.ones(5)), [2, 2, 0, 0, 0])


def test_one_operation_serves_two_dtypes(x64):
    op = elementwise(add)
    for dtype in (np.float32, np.float64):
        x = jnp.arange(3, dtype=dtype)
        assert op(x, x).dtype == dtype
        np.testing.assert_array_equal(op(x, x), 2 * np.arange(3))


def test_scalars_by_keyword_and_arrays_of_rank_0():
    x = jnp.arange(5, dtype=F32)
    for factor in (2.0, 3.5):
        np.testing.assert_array_equal(elementwise(scale)(x, factor=F32(factor)), x * factor)
    scaled = jax.vmap(lambda f: elementwise(scale)(x, factor=f))(jnp.arange(3, dtype=F32))
    np.testing.assert_array_equal(scaled, np.arange(3)[:, None] * np.arange(5))
    np.testing.assert_array_equal(elementwise(plus_zero_d)(x, F32(3)), np.arange(5) + 3)


def test_alias_and_donation():
    op = elementwise(increment, input_output_aliases={0: 0})
    x = jnp.arange(50, dtype=F32)
    np.testing.assert_array_equal(op(x), np.arange(50) + 1)
    np.testing.assert_array_equal(x, np.arange(50))
    np.testing.assert_array_equal(jax.vmap(op)(x.reshape(5, 10)).ravel(), np.arange(50) + 1)


def test_inputs_are_protected_from_atomics():
    @cuda.jit
    def count(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = cuda.atomic.add(x, 0, 1.0)

    x = jnp.zeros(4, F32)
    with pytest.warns(kernbridge.KernbridgeWarning, match=r"\[KB4003\]"):
        result = elementwise(count)(x)
    np.testing.assert_array_equal(result, np.arange(4))
    np.testing.assert_array_equal(x, np.zeros(4))


@pytest.mark.parametrize("n", [0, 1, 7])
@pytest.mark.parametrize("kernel", [increment, plus_z], ids=["z free", "z used"])
def test_vmap_is_one_launch_where_z_is_free(gpu, kernel, n):
    x = jnp.arange(n * 3, dtype=F32).reshape(n, 3)
    np.testing.assert_array_equal(
        jax.vmap(elementwise(kernel))(x), np.asarray(x) + (kernel is increment)
    )
    one = [((1, 1, n), (3, 1, 1))] if n else []
    assert grids(gpu) == (one if kernel is increment else n * [((1, 1, 1), (3, 1, 1))])


def test_vmap_beyond_the_grid_is_two_launches(gpu):
    x = jnp.arange(65_536, dtype=jnp.int32).reshape(65_536, 1)
    np.testing.assert_array_equal(jax.vmap(elementwise(increment))(x), np.asarray(x) + 1)
    assert [g[2] for g, _ in grids(gpu)] == [65_535, 1]


def test_nested_and_unmapped_vmap(gpu):
    op = elementwise(add)
    x = jnp.arange(2 * 3 * 4, dtype=F32).reshape(2, 3, 4)
    y = jnp.arange(3 * 4, dtype=F32).reshape(3, 4)
    np.testing.assert_array_equal(jax.vmap(jax.vmap(op))(x, x), 2 * np.asarray(x))
    assert [g for g, _ in grids(gpu)] == [(1, 1, 6)]
    both = jax.vmap(jax.vmap(op), in_axes=(0, None))(x, y)
    np.testing.assert_array_equal(both, np.asarray(x) + np.asarray(y))
    z = jnp.arange(2 * 4, dtype=F32).reshape(2, 4)
    crossed = jax.vmap(jax.vmap(op, in_axes=(0, None)), in_axes=(None, 0))(y, z)
    np.testing.assert_array_equal(crossed, np.asarray(y)[None] + np.asarray(z)[:, None])
    assert [g for g, _ in grids(gpu)][1:] == [(1, 1, 3)] * 4


def test_scan_cond_and_grad_errors():
    op = elementwise(add)
    ones = jnp.ones(3, F32)
    total, _ = jax.lax.scan(lambda c, _: (op(c, ones), None), jnp.zeros(3, F32), None, 10)
    np.testing.assert_array_equal(total, np.full(3, 10))
    chosen = jax.jit(lambda p, x: jax.lax.cond(p, lambda: op(x, x), lambda: x))
    np.testing.assert_array_equal(chosen(True, ones), np.full(3, 2))
    with pytest.raises(NotImplementedError, match=r"numba_cuda_kernel.*'add'.*\[KB2101\]"):
        jax.grad(lambda x: op(x, x).sum())(ones)


def test_records_are_taken_as_their_words():
    record = np.dtype([("key", np.int64), ("value", np.float64)], align=True)

    @cuda.jit
    def values(records, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = records[i]["value"] * 2

    host = np.zeros(3, record)
    host["value"] = [1, 2, 3]
    words = host.view(np.uint32).reshape(3, 4)
    op = kernbridge.numba_cuda_kernel(values, S((3,), F32), launch_dims=3, view={"records": record})
    np.testing.assert_array_equal(op(words), [2, 4, 6])
    with pytest.raises(ValueError, match=r"'records'.*of 16 bytes.*\[KB1103\]"):
        op(words[:, :2])
    with pytest.raises(TypeError, match=r"\[KB2002\]"):
        op(host)


def test_program_runs_in_a_process_without_numba(tmp_path, run_python):
    target = "kernbridge.cuda.graph"
    check = jax.export.DisabledSafetyCheck.custom_call(target)
    x = S((4,), F32)
    exported = jax.export.export(jax.jit(elementwise(add)), disabled_checks=[check])(x, x)
    path = tmp_path / "exported"
    path.write_bytes(exported.serialize())
    import os

    printed = run_python(
        f"""
import sys, ctypes, os
import jax, jax.numpy as jnp, kernbridge
from jax import export
blob = open({str(path)!r}, "rb").read()
export.deserialize(blob).call(jnp.ones(4), jnp.ones(4)).block_until_ready()
fake = ctypes.CDLL(os.environ["KERNBRIDGE_LIBCUDA"])
print(fake.fake_cuda_n_launches(), "numba" in sys.modules)
""",
        KERNBRIDGE_LIBCUDA=os.environ["KERNBRIDGE_LIBCUDA"],
        KERNBRIDGE_TEST_CUDA="1",
    )
    assert printed.split() == ["1", "False"]


def test_symbolic_shapes(gpu):
    (n,) = jax.export.symbolic_shape("n")
    check = jax.export.DisabledSafetyCheck.custom_call("kernbridge.cuda.graph")
    exported = jax.export.export(jax.jit(elementwise(add)), disabled_checks=[check])(
        S((n,), F32), S((n,), F32)
    )
    for size in (1, 255, 300):
        x = jnp.arange(size, dtype=F32)
        np.testing.assert_array_equal(exported.call(x, x), 2 * np.arange(size))
    assert [g for g, _ in grids(gpu)] == [(1, 1, 1), (1, 1, 1), (2, 1, 1)]


def test_shard_map():
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:4]), ("d",))
    spec = jax.sharding.PartitionSpec("d")
    op = elementwise(add)
    x = jnp.arange(16, dtype=F32)
    sharded = jax.jit(jax.shard_map(lambda x: op(x, x), mesh=mesh, in_specs=spec, out_specs=spec))
    np.testing.assert_array_equal(sharded(x), 2 * np.arange(16))


def test_plan_and_inspect():
    op = elementwise(add)
    x = S((4,), F32)
    assert "launch add[(1, 1, 1), (4, 1, 1)]" in str(op.plan(x, x))
    (found,) = op.inspect(x, x)
    assert "define void" in found.llvm_ir
    assert ".entry" in found.assembly
    assert 4 <= found.registers <= 64
    assert found.block == (4, 1, 1)
