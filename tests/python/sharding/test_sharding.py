"""Operations in programs for several devices: the same values, and no gather where none is needed.

Every value is compared with that of the call on one device.
"""

import warnings

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from kernbridge import KernbridgeWarning, ShardingRule, config, numba_kernel
from kernels import matvec
from sharded import LINE, SQUARE, check, collectives, mesh, put, renamed

S = jax.ShapeDtypeStruct


@pytest.fixture(autouse=True)
def four_devices():
    if jax.device_count() < 4:
        pytest.skip("needs four devices")


@numba.njit
def scaled_sum(x, y, out):
    for i in range(x.size):
        out.reshape(-1)[i] = 2 * x.reshape(-1)[i] + y.reshape(-1)[i]


@numba.njit
def softmax_rows(x, out):
    for i in range(x.shape[0]):
        out[i] = np.exp(x[i] - x[i].max())
        out[i] /= out[i].sum()


@numba.njit
def outer(x, y, out):
    for i in range(x.size):
        out[i] = x[i] * y


@numba.njit
def in_place(state, x, out):
    for i in range(x.size):
        out[i] = state[i] * 0.5 + x[i]


@numba.njit
def two(x, w, doubled, total):
    total[:] = 0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            doubled[i, j] = 2 * x[i, j]
            total[i] += x[i, j] * w[0]


@numba.njit
def numbered(x, out):
    for i in range(x.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = x[i] * j


@numba.njit
def spoils(x, out):
    for i in range(x.size):
        x[i] += 1
        out[i] = x[i]


@numba.njit
def shifted(x, by, out):
    for i in range(x.size):
        out[i] = x[i] + by


def same(x, *_):
    return S(x.shape, x.dtype)


def rows(a, *_):
    return S(a.shape[:1], a.dtype)


ADD = numba_kernel(scaled_sum, same, sharding_rule="..., ... -> ...")
MATVEC = numba_kernel(matvec, rows, sharding_rule="i j, j -> i")
SUMMED = numba_kernel(matvec, rows, sharding_rule=ShardingRule("i j, j -> i", reduce="sum"))
PLAIN = numba_kernel(matvec, rows)
SOFTMAX = numba_kernel(softmax_rows, same, sharding_rule="i j -> i j")

X = np.arange(8, dtype=np.float32)
A = np.arange(64, dtype=np.float32).reshape(8, 8) / 7
B = np.arange(4 * 64, dtype=np.float32).reshape(4, 8, 8) % 11

# Values: what was silently wrong in other designs comes first.


@pytest.mark.parametrize("rule", [None, "i j, j -> i"])
@pytest.mark.parametrize(
    ("specs", "on"),
    [
        (((None, "x"), ("x",)), LINE),
        (((None, "x"), ()), LINE),
        (((), ("x",)), LINE),
        ((("x", "y"), ("y",)), SQUARE),
    ],
)
def test_a_contracted_dimension_is_whole_without_a_sum(rule, specs, on):
    op = numba_kernel(renamed(matvec), rows, sharding_rule=rule)
    with pytest.warns(KernbridgeWarning, match=r"\[KB6002\]"):
        check(op, put(A, *specs[0], on=on), put(X, *specs[1], on=on), moved=None)


@pytest.mark.parametrize(
    ("specs", "on", "spec"),
    [
        (((None, "x"), ("x",)), LINE, (None,)),
        (((None, "x"), ()), LINE, (None,)),
        (((), ("x",)), LINE, (None,)),
        ((("x", "y"), ("y",)), SQUARE, ("x",)),
        (((None, "y"), ("y",)), SQUARE, (None,)),
        (((None, ("x", "y")), ()), SQUARE, (None,)),
        (((None, ("y", "x")), ()), SQUARE, (None,)),
        ((("y", "x"), ()), SQUARE, ("y",)),
    ],
)
def test_a_contracted_dimension_that_is_summed_ends_in_one_all_reduce(specs, on, spec):
    operands = put(A, *specs[0], on=on), put(X, *specs[1], on=on)
    found = check(SUMMED, *operands, moved=["all-reduce"])
    assert found.sharding.is_equivalent_to(NamedSharding(mesh(*on), P(*spec)), 1)


def test_sums_one_after_the_other():
    both = lambda a, x: SUMMED(a, SUMMED(a, x))  # noqa: E731
    check(both, put(A, None, "x"), put(X, "x"), moved=["all-reduce"] * 2)


@pytest.mark.parametrize("rule", [None, "i, i -> i"])
@pytest.mark.parametrize("donate", [False, True])
def test_an_alias(rule, donate):
    op = numba_kernel(in_place, same, input_output_aliases={0: 0}, sharding_rule=rule)
    expected = op(jnp.asarray(X), jnp.asarray(X + 1))
    state = put(X, "x")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernbridgeWarning)
        found = jax.jit(op, donate_argnums=[0] * donate)(state, put(X + 1, "x"))
    np.testing.assert_allclose(found, expected)
    if rule:
        assert found.sharding.spec == P("x")
    if not donate:
        np.testing.assert_array_equal(state, X)


@pytest.mark.parametrize("in_axes", [(0, 0), (None, 0), (0, None)])
def test_a_batch_of_aliases(in_axes):
    op = numba_kernel(in_place, same, input_output_aliases={0: 0})
    operands = [put(A, "x") if axis == 0 else put(X) for axis in in_axes]
    check(jax.vmap(op, in_axes), *operands)


@pytest.mark.filterwarnings("ignore:.*is gathered on each")
@pytest.mark.parametrize("op", [PLAIN, MATVEC, SUMMED])
@pytest.mark.parametrize(
    ("in_axes", "operands"),
    [
        ((0, None), ((B, "x"), (X,))),
        ((None, 0), ((A,), (A, "x"))),
        ((0, 0), ((B, "x"), (A[:4], "x"))),
        ((2, 1), ((B.T, None, None, "x"), (A[:4].T, None, "x"))),
        ((0, None), ((B, "x"), (X, "x"))),
    ],
)
def test_a_batch_is_split_whatever_is_not_mapped(op, in_axes, operands):
    whole_x = len(operands[1]) == 2 and in_axes[1] is None
    found = check(
        jax.vmap(op, in_axes),
        *(put(*operand) for operand in operands),
        moved=["all-gather"] if whole_x else [],
    )
    assert found.sharding.spec[0] == "x"


@pytest.mark.parametrize("outer", ["x", None])
@pytest.mark.parametrize("inner", ["y", None])
def test_nested_batches_with_unmapped_operands(outer, inner):
    def f(a, x):
        return jax.vmap(jax.vmap(PLAIN, (0, None)), (None, 0))(a, x)

    found = check(f, put(B, inner, on=SQUARE), put(A, outer, on=SQUARE))
    assert found.sharding.is_equivalent_to(NamedSharding(mesh(*SQUARE), P(outer, inner)), 3)


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["expand_dims", "broadcast_all", "legacy_vectorized"])
def test_a_batch_that_the_kernel_sees_is_split(method):
    @numba.njit
    def halve(x, out):
        out[...] = x / 2

    op = numba_kernel(halve, same, vmap_method=method)
    check(jax.vmap(op), put(A, "x"))
    check(jax.vmap(jax.vmap(op)), put(B, "x", "y", on=SQUARE))


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["expand_dims", "broadcast_all"])
def test_a_batch_that_the_kernel_sees_with_an_unmapped_operand(method):
    @numba.njit
    def add(x, y, out):
        for i in range(out.shape[0]):
            out[i] = x[i] + y[i if y.shape[0] > 1 else 0]

    op = numba_kernel(add, same, vmap_method=method)
    check(jax.vmap(op, (0, None)), put(A, "x"), put(X))


# Every way to a sharded call.


@pytest.mark.parametrize("jit", [True, False])
def test_elementwise(jit):
    found = check(ADD, put(X, "x"), put(X + 1, "x"), jit=jit)
    assert found.sharding.spec == P("x")
    found = check(ADD, put(A, "y", "x", on=SQUARE), put(A + 1, "y", on=SQUARE), jit=jit)
    assert found.sharding.spec == P("y", "x")


def test_rows():
    found = check(SOFTMAX, put(A, "x", None))
    assert found.sharding.spec == P("x")
    found = check(MATVEC, put(A, "x"), put(X))
    assert found.sharding.spec == P("x")


def test_keyword_scalars_are_whole():
    op = numba_kernel(shifted, lambda x, by: same(x), sharding_rule="i -> i")
    check(lambda x, by: op(x, by=by), put(X, "x"), put(jnp.float32(3)))
    check(jax.vmap(lambda x, by: op(x, by=by)), put(A, "x"), put(X, "x"))


def test_several_outputs_of_which_one_is_summed():
    outs = lambda x, w: {"total": S(x.shape[:1], x.dtype), "doubled": S(x.shape, x.dtype)}  # noqa: E731
    rule = ShardingRule("i j, k -> i j, i", reduce={"j": "sum"})
    op = numba_kernel(two, outs, sharding_rule=rule)
    w = np.float32([3])
    found = check(op, put(A, "x", "y", on=SQUARE), put(w, on=SQUARE), moved=["all-reduce"])
    assert found["doubled"].sharding.spec == P("x", "y")
    check(op, put(A, "x"), put(w))
    check(jax.vmap(op, (0, None)), put(B, "x"), put(w))


def test_a_dimension_that_only_an_output_has_is_whole():
    op = numba_kernel(numbered, lambda x: S((x.size, 8), x.dtype), sharding_rule="i -> i j")
    where = NamedSharding(mesh(*LINE), P(None, "x"))
    f = lambda x: jax.lax.with_sharding_constraint(op(x), where)  # noqa: E731
    np.testing.assert_allclose(jax.jit(f)(put(X)), np.outer(X, X))
    check(op, put(X, "x"))


@pytest.mark.filterwarnings("ignore:.*the kernel may write to")
@pytest.mark.parametrize("rule", ["i -> i", None])
def test_an_input_that_is_copied(rule):
    op = numba_kernel(spoils, same, sharding_rule=rule)
    batch, x = put(A, "x"), put(X, "x" if rule else None)
    check(op, x)
    check(jax.vmap(op), batch)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(batch, A)
    spread = jax.vmap(lambda x, y: (op(x), op(y)), (None, 0))
    check(spread, put(X), put(A, "x"), moved=None)


@pytest.mark.parametrize("n", [6, 7, 9])
def test_uneven_parts_are_whole(n):
    x = np.arange(n, dtype=np.float32)

    def f(x):
        x = jax.lax.with_sharding_constraint(x, NamedSharding(mesh(*LINE), P("x")))
        return op(x, x)

    op = numba_kernel(renamed(scaled_sum), same, sharding_rule="..., ... -> ...")
    with pytest.warns(KernbridgeWarning, match=r"into 4 equal.*\[KB6002\]"):
        found = jax.jit(f)(x)
    np.testing.assert_allclose(found, 3 * x)
    found = jax.jit(lambda a: jax.vmap(PLAIN, (0, None))(a, x[:2]))(np.ones((n, 3, 2), np.float32))
    assert found.shape == (n, 3)


def test_empty_arrays():
    empty = np.zeros((0, 8), np.float32)
    check(SOFTMAX, put(empty, None, "x"), moved=None)
    check(SUMMED, put(np.zeros((8, 0), np.float32), "x"), put(np.zeros(0, np.float32)), moved=None)


@numba.extending.intrinsic
def pointer(typing, address):
    """The address as a pointer."""
    void = numba.types.voidptr
    return void(address), lambda context, builder, _, args: builder.inttoptr(
        args[0], context.get_value_type(void)
    )


@numba.njit
def counts_alone(x, where):
    numba.carray(pointer(where[0]), (1,), np.int64)[0] += 1


@numba.njit
def counts(x, where, out):
    numba.carray(pointer(where[0]), (1,), np.int64)[0] += 1
    out[:] = x * 2


def count_at(count):
    return np.array([count.ctypes.data])


def test_a_side_effect_happens_once(x64):
    count = np.zeros(1, np.int64)
    op = numba_kernel(
        counts, lambda x, where: same(x), has_side_effect=True, sharding_rule="i, j -> i"
    )
    found = jax.jit(op)(put(X, "x"), put(count_at(count)))
    np.testing.assert_array_equal(found, 2 * X)
    assert count[0] == 1
    assert found.sharding.is_fully_replicated


def test_a_side_effect_without_outputs_happens_once(x64):
    count = np.zeros(1, np.int64)
    op = numba_kernel(counts_alone, ())
    jax.block_until_ready(
        jax.jit(lambda x, w: (op(x, w), x + 1))(put(X, "x"), put(count_at(count)))
    )
    jax.effects_barrier()
    assert count[0] == 1


def test_a_side_effect_beside_automatic_axes_is_refused():
    op = numba_kernel(scaled_sum, same, has_side_effect=True)
    f = jax.shard_map(
        op, mesh=mesh(*SQUARE), in_specs=P("x"), out_specs=P("x"), axis_names={"x"}, check_vma=False
    )
    with pytest.raises(NotImplementedError, match=r"'scaled_sum'.*\[KB6003\]"):
        jax.jit(f)(X, X)


def test_one_device_has_the_plain_target():
    text = jax.jit(jax.vmap(ADD)).lower(A, A).as_text()
    assert "@kernbridge.host(" in text
    assert "sharding = " not in text


def test_scan_and_while():
    def f(a, x):
        step = lambda x, _: (SUMMED(a, x) / 50, x.sum())  # noqa: E731
        x, sums = jax.lax.scan(step, x, None, length=3)
        return jax.lax.fori_loop(0, 3, lambda _, x: ADD(x, x), x), sums

    check(f, put(A, None, "x"), put(X, "x"), moved=None)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.checkpoint])
def test_gradients(wrap):
    transposed = numba_kernel(
        lambda_of_transpose(),
        lambda a, ct: S(a.shape[1:], a.dtype),
        sharding_rule=ShardingRule("i j, i -> j", reduce="sum"),
    )

    def vjp(inputs, outputs, ct):
        a, x = inputs
        return jnp.outer(ct, x), transposed(a, ct)

    op = numba_kernel(matvec, rows, vjp=vjp, sharding_rule="i j, j -> i")
    loss = wrap(lambda a, x: jnp.sum(op(a, x) ** 2))
    check(jax.grad(loss, (0, 1)), put(A, "x"), put(X), moved=["all-reduce"])
    per_slice = lambda a, x: jax.vmap(jax.grad(loss), (0, None))(a, x)  # noqa: E731
    check(per_slice, put(B, "x"), put(X))


def lambda_of_transpose():
    @numba.njit
    def transpose(a, ct, out):
        out[:] = 0
        for i in range(a.shape[0]):
            for j in range(a.shape[1]):
                out[j] += a[i, j] * ct[i]

    return transpose


def test_spmd_axis_name():
    f = jax.vmap(PLAIN, (0, None), spmd_axis_name="x")
    with jax.set_mesh(mesh(*LINE)):
        check(f, put(B, "x"), put(X))


def test_shard_map_has_the_plain_target():
    f = jax.shard_map(ADD, mesh=mesh(*LINE), in_specs=P("x"), out_specs=P("x"))
    check(f, put(X, "x"), put(X, "x"))
    assert ".split" not in jax.jit(f).lower(put(X, "x"), put(X, "x")).as_text()


@pytest.mark.filterwarnings("ignore:.*is gathered on each")
@pytest.mark.parametrize(
    ("shape", "names"), [((4, 1), {"x"}), ((2, 2, 1), {"x", "y"}), ((2, 2, 1), {"x"})]
)
def test_shard_map_with_automatic_axes_of_one_device(shape, names):
    automatic = (jax.sharding.AxisType.Auto,) * len(shape)
    where = jax.make_mesh(shape, ("x", "y", "z")[: len(shape)], axis_types=automatic)
    f = jax.shard_map(
        MATVEC,
        mesh=where,
        in_specs=(P(tuple(sorted(names))), P()),
        out_specs=P(tuple(sorted(names))),
        axis_names=names,
        check_vma=False,
    )
    np.testing.assert_allclose(jax.jit(f)(A, X), A @ X, rtol=1e-6)


def test_shard_map_with_automatic_axes():
    def f(function, in_specs, out_specs):
        return jax.shard_map(
            function,
            mesh=mesh(*SQUARE),
            in_specs=in_specs,
            out_specs=out_specs,
            axis_names={"x"},
            check_vma=False,
        )

    add = jax.jit(f(ADD, P("x"), P("x")))
    a = put(A, "x", "y", on=SQUARE)
    np.testing.assert_allclose(add(a, a), 3 * A, rtol=1e-6)
    summed = jax.jit(f(SUMMED, (P("x"), P()), P("x")))
    np.testing.assert_allclose(summed(a, put(X, on=SQUARE)), A @ X, rtol=1e-5)
    batched = jax.jit(f(jax.vmap(PLAIN, (0, None)), (P("x"), P()), P("x")))
    found = batched(put(B, "x", "y", on=SQUARE), put(X, on=SQUARE))
    np.testing.assert_allclose(found, B @ X, rtol=1e-5)


@pytest.mark.parametrize("jit", [True, False])
def test_explicit_meshes(jit):
    placed = lambda x, *spec: put(x, *spec, on=SQUARE, kind=AxisType.Explicit)  # noqa: E731
    with jax.set_mesh(mesh(*SQUARE, kind=AxisType.Explicit)):
        found = check(ADD, placed(A, "x", "y"), placed(A + 1, "x", "y"), jit=jit)
        assert jax.typeof(found).sharding.spec == P("x", "y")
        found = check(SUMMED, placed(A, "x", "y"), placed(X, "y"), moved=["all-reduce"], jit=jit)
        assert jax.typeof(found).sharding.spec == P("x")
        found = check(jax.vmap(PLAIN, (0, None)), placed(B, "x"), placed(X), jit=jit)
        assert jax.typeof(found).sharding.spec == P("x", None)


def test_an_explicit_mesh_gathers_what_the_rule_does_not_split(gathers):
    gathers("warn")
    placed = lambda x, *spec: put(x, *spec, kind=AxisType.Explicit)  # noqa: E731
    with jax.set_mesh(mesh(*LINE, kind=AxisType.Explicit)):
        op = numba_kernel(renamed(matvec), rows, sharding_rule="i j, j -> i")
        with pytest.warns(KernbridgeWarning, match=r"\[KB6002\]"):
            found = check(op, placed(A, None, "x"), placed(X, "x"), moved=None)
        assert jax.typeof(found).sharding.spec == P(None)


@pytest.mark.parametrize("where", ["call", "vmap", "jvp", "grad", "custom"])
def test_an_explicit_mesh_refuses_what_would_be_gathered(where):
    """As JAX's own operations do. What the rule splits, and batches, are split as elsewhere."""
    placed = lambda x, *spec: put(x, *spec, kind=AxisType.Explicit)  # noqa: E731
    call = numba_kernel(
        renamed(matvec),
        rows,
        sharding_rule="i j, j -> i",
        vjp=lambda inputs, outputs, ct: (jnp.outer(ct, inputs[1]), None),
    )
    if where == "custom":
        custom = kernbridge.XLACustomKernel("refuses_gathers")
        custom.def_numba_kernel(lambda *, outs: numba_kernel(matvec, outs))
        call = lambda a, x: custom(a, x, outs=[S(a.shape[:1], a.dtype)])[0]  # noqa: E731
    run = {
        "vmap": jax.vmap(call, (0, None)),
        "jvp": lambda a, x: jax.jvp(lambda a: call(a, x), (a,), (a,)),
        "grad": jax.grad(lambda a, x: call(a, x).sum()),
    }.get(where, call)
    a, batch = (B, (None,)) if where == "vmap" else (A, ())
    with jax.set_mesh(mesh(*LINE, kind=AxisType.Explicit)):
        says = r"dimension 1 of input 0, f32\[8,8@x\], would be gathered .*reshard.*\[KB6002\]"
        with pytest.raises(ValueError, match=says):
            jax.jit(run)(placed(a, *batch, None, "x"), placed(X))
        split = ("x",) if where != "custom" else ()  # whose outputs would be whole
        found = jax.jit(run)(placed(a, *split), placed(X))
    for got, wanted in zip(jax.tree.leaves(found), jax.tree.leaves(run(a, X)), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5)


def test_two_inputs_on_the_same_devices_are_refused_on_explicit_axes():
    op = numba_kernel(
        renamed(outer), lambda x, y: S((*x.shape, *y.shape), x.dtype), sharding_rule="i, j -> i j"
    )
    placed = lambda x, *spec: put(x, *spec, kind=AxisType.Explicit)  # noqa: E731
    with jax.set_mesh(mesh(*LINE, kind=AxisType.Explicit)):
        with pytest.raises(ValueError, match=r"input 1, f32\[8@x\].* in another way.*\[KB6002\]"):
            jax.jit(op)(placed(X, "x"), placed(A[:, 0], "x"))
        check(op, placed(X, "x"), placed(A[:, 0]))


def test_an_axis_of_one_device_gathers_nothing():
    with jax.set_mesh(mesh(1, kind=AxisType.Explicit)):
        placed = (
            put(A, "x", on=(1,), kind=AxisType.Explicit),
            put(X, on=(1,), kind=AxisType.Explicit),
        )
        np.testing.assert_allclose(
            jax.jit(numba_kernel(renamed(matvec), rows))(*placed), A @ X, 1e-5
        )
        split = jax.jit(numba_kernel(renamed(matvec), rows, sharding_rule="i j, j -> i"))(*placed)
    assert jax.typeof(split).sharding.spec == P("x")


def test_gathers_on_other_meshes_are_refused_on_demand(gathers):
    op = numba_kernel(renamed(matvec), rows)
    gathers("error")
    assert config.get_gathers() == "error"
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"input 0, f32\[8,8\].*\[KB6002\]"):
        jax.jit(op)(put(A, "x"), X)
    check(op, put(A), put(X))
    gathers("warn")
    with pytest.warns(KernbridgeWarning, match=r"\[KB6002\]"):
        check(op, put(A, "x"), X, moved=None)
    with pytest.raises(ValueError, match=r"'warning', expected 'warn', 'error' or None"):
        gathers("warning")


def test_gradients_on_an_explicit_mesh():
    op = numba_kernel(
        scaled_sum, same, sharding_rule="i, i -> i", vjp=lambda inputs, outputs, ct: (2 * ct, ct)
    )
    placed = lambda x, *spec: put(x, *spec, kind=AxisType.Explicit)  # noqa: E731
    with jax.set_mesh(mesh(*LINE, kind=AxisType.Explicit)):
        f = jax.grad(lambda x, y: jnp.sum(op(x, y) ** 2), (0, 1))
        check(f, placed(X, "x"), placed(X + 1, "x"))
        check(jax.vmap(jax.grad(lambda x: jnp.sum(op(x, x)))), placed(A, "x"))


@numba.njit
def weighted(x, w, out):
    for i in range(x.size):
        out[i] = x[i] * x[i] * w[0]


def weighted_by_jax(x, w):
    return x * x * w[0]


DOUBLED = numba_kernel(renamed(scaled_sum), same)


@pytest.mark.filterwarnings("ignore:.*is gathered on each")
@pytest.mark.parametrize("rule", ["i, j -> i", None])
def test_derivatives_with_batch_axes_on_an_explicit_mesh(rule, gathers):
    gathers("warn")

    def vjp(inputs, outputs, ct):
        x, w = inputs
        if rule is None:
            return DOUBLED(x * ct * w[0], 0 * ct), jnp.zeros_like(w).at[0].set((ct * x * x).sum())
        return 2 * x * ct * w[0], jnp.zeros_like(w).at[0].set((ct * x * x).sum())

    op = numba_kernel(
        renamed(weighted), lambda x, w: S(x.shape, x.dtype), sharding_rule=rule, vjp=vjp
    )
    where = mesh(*LINE, kind=AxisType.Explicit)
    x, w = np.arange(1, 9, dtype=np.float32), np.array([2, 0.5, 1], np.float32)
    transformations = {
        "grad": lambda f, x, w: jax.grad(lambda x: f(x, w).sum())(x),
        "jacfwd": lambda f, x, w: jax.jacfwd(lambda w: f(x, w))(w),
        "hessian": lambda f, x, w: jax.hessian(lambda w: (f(x, w) ** 2).sum())(w),
        "vmap of grad": lambda f, x, w: jax.vmap(jax.grad(lambda w: f(x, w).sum()))(
            jnp.stack([w, w, 2 * w])
        ),
    }
    if rule is None:  # DOUBLED has no rule
        transformations = {"grad": transformations["grad"]}
    for name, transformed in transformations.items():
        with jax.set_mesh(where):
            placed = put(x, "x", kind=AxisType.Explicit), put(w, kind=AxisType.Explicit)
            found = jax.jit(lambda x, w, t=transformed: t(op, x, w))(*placed)
        expected = transformed(weighted_by_jax, x, w)
        np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=name)


def test_the_jacobian_of_each_slice_on_explicit_axes():
    """The axis of the outer vmap, which is split, was taken for that of the inner one."""

    @numba.njit
    def squares(x, out):
        for i in range(x.size):
            out[i] = x[i] * x[i]

    def vjp(inputs, outputs, ct):
        (x,) = inputs
        return (2 * x * ct,)

    op = numba_kernel(squares, lambda x: x, vjp=vjp)
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    with jax.set_mesh(mesh(*LINE, kind=AxisType.Explicit)):
        found = jax.jit(jax.vmap(jax.jacfwd(op)))(put(x, "x", kind=AxisType.Explicit))
    np.testing.assert_allclose(found, [np.diag(2 * row) for row in x])
    assert found.sharding.spec[0] == "x"


def test_a_sharding_in_outs_is_refused():
    for kind in (AxisType.Explicit, AxisType.Auto):
        where = NamedSharding(mesh(*LINE, kind=kind), P("x"))
        placed = S((8, 3), "float32", sharding=where)
        for outs in (placed, lambda x, placed=placed: placed):
            with pytest.raises(ValueError, match=r"has the sharding .*'x'.*sharding_rule=.*KB1002"):
                numba_kernel(renamed(numbered), outs)(X)


def test_devices_in_another_order():
    devices = np.array(jax.devices()[:4])[[2, 0, 3, 1]].reshape(2, 2)
    where = jax.sharding.Mesh(devices, ("x", "y"))
    a = jax.device_put(A, NamedSharding(where, P("x", "y")))
    x = jax.device_put(X, NamedSharding(where, P("y")))
    check(SUMMED, a, x, moved=["all-reduce"])
    check(jax.vmap(PLAIN, (0, None)), jax.device_put(B, NamedSharding(where, P("y"))), X)


def test_a_custom_kernel_is_split_as_the_operations_that_it_calls():
    def generator(*, outs):
        return numba_kernel(softmax_rows, outs, sharding_rule="i j -> i j")

    op = kernbridge.XLACustomKernel("sharded_softmax")
    op.def_numba_kernel(generator)
    call = lambda x: op(x, outs=[S(x.shape, x.dtype)])[0]  # noqa: E731
    assert check(call, put(A, "x")).sharding.spec == P("x")
    check(jax.vmap(call), put(B, "x"))
    with jax.set_mesh(mesh(*LINE, kind=AxisType.Explicit)):
        check(jax.vmap(call), put(B, "x", kind=AxisType.Explicit))


@pytest.mark.filterwarnings("ignore:.*is gathered on each")
def test_without_shardy():
    jax.config.update("jax_use_shardy_partitioner", False)
    try:
        check(ADD, put(X, "x"), put(X + 1, "x"))
        check(SUMMED, put(A, "x", "y", on=SQUARE), put(X, "y", on=SQUARE), moved=["all-reduce"])
        check(MATVEC, put(A, "x", "y", on=SQUARE), put(X, "y", on=SQUARE), moved=None)
        check(jax.vmap(PLAIN, (0, None)), put(B, "x"), put(X))
    finally:
        jax.config.update("jax_use_shardy_partitioner", True)


# Programs that travel.


def exported(function, *operands, **options):
    checks = [
        jax.export.DisabledSafetyCheck.custom_call(f"kernbridge.host{s}") for s in ("", ".split")
    ]
    return jax.export.deserialize(
        jax.export.export(jax.jit(function), disabled_checks=checks, **options)(
            *operands
        ).serialize()
    )


def test_exported_programs():
    operands = put(A, "x", "y", on=SQUARE), put(X, "y", on=SQUARE)
    program = exported(SUMMED, *operands)
    np.testing.assert_allclose(jax.jit(program.call)(*operands), A @ X, rtol=1e-5)
    assert collectives(program.call, *operands) == ["all-reduce"]


def test_exported_programs_with_symbolic_shapes():
    (n,) = jax.export.symbolic_shape("n")
    on = NamedSharding(mesh(*LINE), P("x"))
    s = S((4 * n, 8), np.float32, sharding=on)
    program = exported(lambda a, x: MATVEC(a, x), s, S((8,), np.float32))
    found = jax.jit(program.call)(put(A, "x"), put(X))
    np.testing.assert_allclose(found, A @ X, rtol=1e-5)


# The warning.


def test_a_gather_is_warned_about_once_with_the_operation_and_the_remedy():
    kernel = renamed(matvec)
    plain, ruled = (numba_kernel(kernel, rows, sharding_rule=r) for r in (None, "i j, j -> i"))
    signed = numba_kernel(renamed(matvec), signature="f32[n, m], f32[m] -> f32[n]")
    a, x = put(A, None, "x"), put(X, "x")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for f in (plain, plain, ruled, signed):  # JAX compiles each lambda anew
            jax.jit(lambda a, x, f=f: f(a, x) + 1)(a, x)
    first, second, third = [str(w.message) for w in caught if w.category is KernbridgeWarning]
    assert first.splitlines()[0] == (
        f"numba_kernel '{kernel.__name__}': dimension 1 of input 0, f32[8,8], is sharded over "
        "4 devices, and is gathered on each of them before the call, since the kernel may read "
        "every element of its inputs for each of its outputs. If it does not, pass "
        'sharding_rule="d0 d1, d2 -> d3" when wrapping the kernel, with one name for dimensions '
        "that are split together, or call the operation inside jax.shard_map. [KB6002]"
    )
    assert "the sharding rule names this dimension 'j', which some outputs lack. If" in second
    assert 'sharding_rule=kernbridge.ShardingRule(..., reduce="sum"), or shard ano' in second
    assert "pass sharding_rule=True when wrapping the kernel, which splits the dim" in third


def test_nothing_is_warned_about_where_nothing_is_gathered():
    with warnings.catch_warnings():
        warnings.simplefilter("error", KernbridgeWarning)
        jax.jit(SUMMED)(put(A, "x", "y", on=SQUARE), put(X, "y", on=SQUARE))
        jax.jit(jax.vmap(PLAIN))(put(B, "x"), put(A[:4], "x"))
        jax.jit(PLAIN)(put(A), put(X))


def test_a_warning_that_is_an_error_is_one_of_the_compilation():
    with warnings.catch_warnings():
        warnings.simplefilter("error", KernbridgeWarning)
        with pytest.raises(jax.errors.JaxRuntimeError, match=r"\[KB6002\]"):
            jax.jit(numba_kernel(renamed(scaled_sum), same))(put(X, "x"), put(X, "x"))
