"""Derivatives by rules, against JAX's own of an equal function."""

import functools

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from kernbridge import XLACustomKernel, load_cpp_inline, numba_cuda_callable, numba_kernel

S = jax.ShapeDtypeStruct


@numba.njit
def wave(x, y, out, count):
    """out = sin(x) y; count = how many of the result are positive, so far."""
    n = 0
    for i in range(x.shape[0]):
        out[i] = np.sin(x[i]) * y[i]
        n += out[i] > 0
        count[i] = n


@numba.njit
def wave_backward(x, y, ct, dx, dy):
    for i in range(x.shape[0]):
        dx[i] = np.cos(x[i]) * y[i] * ct[i]
        dy[i] = np.sin(x[i]) * ct[i]


def outs_of(x, y):
    return {"out": S(x.shape, x.dtype), "positives": S(x.shape, jnp.int32)}


def pure(x, y):
    out = jnp.sin(x) * y
    return {"out": out, "positives": jnp.cumsum(out > 0, dtype=jnp.int32)}


backward = numba_kernel(wave_backward, lambda x, y, ct: (S(x.shape, x.dtype), S(y.shape, y.dtype)))


def jvp(inputs, outputs, tangents):
    (x, y), (dx, dy) = inputs, tangents
    return {"out": jnp.cos(x) * y * dx + jnp.sin(x) * dy, "positives": None}


def vjp_in_jax(inputs, outputs, cotangents):
    (x, y), ct = inputs, cotangents["out"]
    assert cotangents["positives"] is None
    return jnp.cos(x) * y * ct, jnp.sin(x) * ct


def vjp_in_kernel(inputs, outputs, cotangents):
    return backward(*inputs, cotangents["out"])


def custom(name, **rules):
    """The same as an XLACustomKernel."""
    op = XLACustomKernel(name)
    op.def_numba_kernel(lambda outs: numba_kernel(wave, outs))
    if "jvp2" in rules:
        op.def_jvp_rule2(
            lambda t, x, y, outs: (jnp.cos(x) * y * t, None),
            lambda t, x, y, outs: (jnp.sin(x) * t, None),
        )
    if "jvp" in rules:

        def whole(primals, tangents, outs):
            x, y = primals
            dx, dy = tangents
            out, count = op(x, y, outs=outs)
            return [out, count], [jnp.cos(x) * y * dx + jnp.sin(x) * dy, no_tangent(count)]

        op.def_jvp_rule(whole, symbolic_zeros=False)
    if "vjp" in rules:
        op.def_vjp_rule(
            lambda inputs, results, cts, outs: (
                jnp.cos(inputs[0]) * inputs[1] * cts[0],
                jnp.sin(inputs[0]) * cts[0],
            )
        )

    def call(x, y):
        out, count = op(x, y, outs=(S(x.shape, x.dtype), S(x.shape, jnp.int32)))
        return {"out": out, "positives": count}

    return call


def no_tangent(x):
    return jax.interpreters.ad.Zero(jax.typeof(x).to_tangent_aval())


MADE = {
    "jvp": lambda: numba_kernel(wave, outs_of, jvp=jvp),
    "vjp": lambda: numba_kernel(wave, outs_of, vjp=vjp_in_jax),
    "both": lambda: numba_kernel(wave, outs_of, jvp=jvp, vjp=vjp_in_jax),
    "custom jvp2": lambda: custom("test_derivatives_jvp2", jvp2=1),
    "custom jvp": lambda: custom("test_derivatives_jvp", jvp=1),
    "custom vjp": lambda: custom("test_derivatives_vjp", vjp=1),
    "custom jvp2 and vjp": lambda: custom("test_derivatives_jvp2_vjp", jvp2=1, vjp=1),
    "custom jvp and vjp": lambda: custom("test_derivatives_both", jvp=1, vjp=1),
}
made = functools.cache(lambda name: MADE[name]())

x = jnp.asarray([0.3, -1.2, 2.0, 0.7], jnp.float32)
y = jnp.asarray([1.5, 0.2, -0.9, 3.0], jnp.float32)
dx = jnp.asarray([1.0, -2.0, 0.5, 3.0], jnp.float32)
X = jnp.stack([x, -x, 2 * x])


def out(f):
    return lambda x, y: f(x, y)["out"]


def loss(f):
    return lambda x, y: jnp.sum(jnp.sin(f(x, y)["out"]) * f(x, y)["positives"])


def chain(f):
    def run(x):
        return jax.lax.scan(lambda c, b: (out(f)(c, b), out(f)(b, c)), x, X)[1].sum()

    return run


TRANSFORMED = {
    "grad": lambda f: jax.grad(loss(f), (0, 1))(x, y),
    "grad by one input": lambda f: jax.grad(loss(f))(x, y),
    "jit of grad": lambda f: jax.jit(jax.grad(loss(f), (0, 1)))(x, y),
    "grad of jit": lambda f: jax.grad(jax.jit(loss(f)), (0, 1))(x, y),
    "vmap of grad": lambda f: jax.vmap(jax.grad(loss(f), (0, 1)), (0, None))(X, y),
    "grad of vmap": lambda f: jax.grad(
        lambda x, y: (jax.vmap(out(f), (0, None))(x, y) ** 2).sum(), (0, 1)
    )(X, y),
    "grad of vmap of vmap": lambda f: jax.grad(
        lambda a, b: (jax.vmap(jax.vmap(out(f), (None, 0)), (0, None))(a, b) ** 2).sum(), (0, 1)
    )(X, X + 1),
    "vmap of grad of vmap": lambda f: jax.vmap(
        jax.grad(lambda a, b: jax.vmap(loss(f), (None, 0))(a, b).sum(), (0, 1)), (0, None)
    )(X, X + 1),
    "jvp": lambda f: jax.jvp(out(f), (x, y), (dx, x)),
    "jvp by one input": lambda f: jax.jvp(lambda a: out(f)(a, y), (x,), (dx,)),
    "jit of jvp": lambda f: jax.jit(lambda a: jax.jvp(out(f), (a, y), (dx, x)))(x),
    "vmap of jvp by its tangent": lambda f: jax.vmap(lambda t: jax.jvp(out(f), (x, y), (t, t))[1])(
        X
    ),
    "jacfwd": lambda f: jax.jacfwd(out(f), (0, 1))(x, y),
    "jacrev": lambda f: jax.jacrev(out(f), (0, 1))(x, y),
    "linearize": lambda f: jax.linearize(out(f), x, y)[1](dx, x),
    "vmap of linearize": lambda f: jax.vmap(jax.linearize(out(f), x, y)[1])(X, X),
    "transpose of linearize": lambda f: jax.linear_transpose(jax.linearize(out(f), x, y)[1], x, y)(
        dx
    ),
    "checkpoint": lambda f: jax.grad(jax.checkpoint(loss(f)), (0, 1))(x, y),
    "scan": lambda f: jax.grad(chain(f))(x),
    "remat of scan": lambda f: jax.grad(jax.checkpoint(chain(f)))(x),
    "forward over reverse": lambda f: jax.jacfwd(jax.jacrev(loss(f)))(x, y),
    "reverse over reverse": lambda f: jax.jacrev(jax.jacrev(loss(f)))(x, y),
    "forward over forward": lambda f: jax.jacfwd(jax.jacfwd(loss(f)))(x, y),
    "reverse over forward": lambda f: jax.jacrev(jax.jacfwd(loss(f)))(x, y),
    "hessian": lambda f: jax.hessian(loss(f), (0, 1))(x, y),
    "vmap of hessian": lambda f: jax.vmap(jax.hessian(loss(f)), (0, None))(X, y),
    "value and grad in cond": lambda f: jax.grad(
        lambda a: jax.lax.cond(a[0] > 0, lambda: loss(f)(a, y), lambda: a.sum())
    )(x),
}


derived = functools.cache(lambda name: jax.tree.leaves(TRANSFORMED[name](pure)))  # by JAX itself

OFTEN = ("jvp", "grad", "hessian", "vmap of grad", "reverse over reverse")
# What is different if JAX derives the forward mode of a vjp rule.
OF_VJP = (*OFTEN, "jacfwd", "linearize", "transpose of linearize", "vmap of jvp by its tangent")
OF_VJP += ("checkpoint", "grad of vmap of vmap", "forward over reverse")
RARELY = {"jvp": OFTEN, "custom jvp2": OFTEN, "vjp": OF_VJP}


def of_rules(rules):
    """The marks of a kind of rules, of which some stand for the others."""
    if rules not in ("jvp", "vjp", "both", "custom jvp2"):
        return [pytest.mark.exhaustive]
    return [] if rules == "both" else [pytest.mark.once]


def pairs():
    """Every kind of rule with every transformation; rarely where a simpler pair shows the same."""
    for rules in MADE:
        for transformed in TRANSFORMED:
            marks = list(of_rules(rules))
            if transformed not in RARELY.get(rules, TRANSFORMED):
                marks.append(pytest.mark.exhaustive)
            yield pytest.param(transformed, rules, marks=marks)


@pytest.mark.brief
@pytest.mark.parametrize(("transformed", "rules"), list(pairs()))
def test_equals_autodiff(transformed, rules):
    want, got = derived(transformed), jax.tree.leaves(TRANSFORMED[transformed](made(rules)))
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


@pytest.mark.brief
@pytest.mark.parametrize(
    "transformed", [t for t in TRANSFORMED if "grad" in t and "forward" not in t]
)
def test_a_vjp_may_be_a_kernel(transformed):
    f = numba_kernel(wave, outs_of, vjp=vjp_in_kernel)
    got = jax.tree.leaves(TRANSFORMED[transformed](f))
    for a, b in zip(got, derived(transformed), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


def test_a_vjp_that_cannot_be_transposed_wants_a_jvp_in_forward_mode():
    f = numba_kernel(wave, outs_of, vjp=vjp_in_kernel)
    with pytest.raises(NotImplementedError, match=r"'wave'.*\[KB2102\]"):
        jax.jvp(f, (x, y), (dx, dx))
    both = numba_kernel(wave, outs_of, vjp=vjp_in_kernel, jvp=jvp)
    got = jax.jvp(out(both), (x, y), (dx, dx))
    np.testing.assert_allclose(got[1], jax.jvp(out(pure), (x, y), (dx, dx))[1], rtol=1e-6)
    with pytest.raises(NotImplementedError, match=r"'wave_backward'.*\[KB2101\]"):
        jax.jacrev(jax.jacrev(loss(both)))(x, y)


def test_keyword_scalars_come_last_and_are_differentiated():
    @numba.njit
    def scaled(x, b, a, out):
        for i in range(x.size):
            out[i] = a * x[i] + b * b

    def vjp(inputs, outputs, ct):
        x, a, b = inputs
        return a * ct, jnp.vdot(x, ct), 2 * b * ct.sum()

    op = numba_kernel(scaled, lambda x, a, b: S(x.shape, x.dtype), vjp=vjp)
    got = jax.grad(lambda x, a, b: (op(x, b=b, a=a) ** 2).sum(), (0, 1, 2))(x, 3.0, 0.5)
    want = jax.grad(lambda x, a, b: ((a * x + b * b) ** 2).sum(), (0, 1, 2))(x, 3.0, 0.5)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-5)


@pytest.mark.exhaustive
def test_inputs_of_integers_have_no_tangents():
    @numba.njit
    def gather(x, index, out):
        for i in range(index.size):
            out[i] = x[index[i]]

    def vjp(inputs, outputs, ct):
        return jnp.zeros_like(inputs[0]).at[inputs[1]].add(ct), None

    def jvp(inputs, outputs, tangents):
        assert tangents[1] is None
        return tangents[0][inputs[1]]

    index = jnp.asarray([2, 2, 0])
    for rules in ({"vjp": vjp}, {"jvp": jvp}, {"vjp": vjp, "jvp": jvp}):
        op = numba_kernel(gather, lambda x, i: S(i.shape, x.dtype), **rules)
        np.testing.assert_array_equal(
            jax.grad(lambda x, op=op: (op(x, index) * jnp.arange(3)).sum())(x), [2, 0, 1, 0]
        )
        np.testing.assert_array_equal(
            jax.jvp(lambda x, op=op: op(x, index), (x,), (dx,))[1], dx[index]
        )


def test_none_is_zero():
    op = numba_kernel(wave, outs_of, vjp=lambda i, o, ct: (ct["out"], None))
    gx, gy = jax.grad(lambda x, y: op(x, y)["out"].sum(), (0, 1))(x, y)
    np.testing.assert_array_equal(gx, np.ones(4))
    np.testing.assert_array_equal(gy, np.zeros(4))


@pytest.mark.exhaustive
def test_vmap_methods_and_aliases_keep_their_rules():
    @numba.njit
    def double(x, out):
        out[...] = 2 * x

    for options in ({"vmap_method": "broadcast_all"}, {"input_output_aliases": {0: 0}}):
        op = numba_kernel(
            double, lambda x: S(x.shape, x.dtype), vjp=lambda i, o, ct: 2 * ct, **options
        )
        got = jax.grad(lambda X, op=op: (jax.vmap(op)(X) ** 2).sum())(X)
        np.testing.assert_allclose(got, 8 * X, rtol=1e-6)
        got = jax.vmap(jax.grad(lambda x, op=op: (op(x) ** 2).sum()))(X)
        np.testing.assert_allclose(got, 8 * X, rtol=1e-6)


def test_side_effects_are_kept_with_rules():
    seen = np.zeros(1, np.int64)
    address = seen.ctypes.data

    @numba.njit
    def count(x, out):
        numba.carray(numba_pointer(address), 1)[0] += 1
        out[:] = x

    op = numba_kernel(
        count, lambda x: S(x.shape, x.dtype), has_side_effect=True, vjp=lambda i, o, ct: ct
    )
    jax.block_until_ready(jax.jit(lambda x: (op(x), x)[1])(x))
    jax.effects_barrier()
    assert seen[0] == 1


@numba.extending.intrinsic
def numba_pointer(typingctx, address):
    from numba.core import types

    def code(context, builder, signature, args):
        return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

    return types.CPointer(types.int64)(address), code


@pytest.mark.exhaustive
def test_rules_under_shard_map():
    from jax.sharding import Mesh, PartitionSpec

    mesh = Mesh(np.array(jax.devices()[:2]), ("i",))
    for name in ("both", "custom vjp", "custom jvp2"):
        f = made(name)
        sharded = jax.shard_map(
            lambda a, b, f=f: f(a, b)["out"],
            mesh=mesh,
            in_specs=(PartitionSpec("i"), PartitionSpec("i")),
            out_specs=PartitionSpec("i"),
        )
        got = jax.jit(jax.grad(lambda a, b, s=sharded: (s(a, b) ** 2).sum(), (0, 1)))(x, y)
        want = jax.grad(lambda a, b: (pure(a, b)["out"] ** 2).sum(), (0, 1))(x, y)
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-5)
        replicated = jax.shard_map(
            lambda a, b, f=f: f(a, b)["out"],
            mesh=mesh,
            in_specs=(PartitionSpec("i"), PartitionSpec()),
            out_specs=PartitionSpec("i"),
        )
        two = jnp.concatenate([x, x])
        got = jax.jit(jax.grad(lambda a, b, s=replicated: (s(a, b) ** 2).sum(), (0, 1)))(two, y)
        want = jax.grad(lambda a, b: 2 * (pure(a, b)["out"] ** 2).sum(), (0, 1))(x, y)
        np.testing.assert_allclose(got[0][:4] * 2, want[0], rtol=1e-5)
        np.testing.assert_allclose(got[1], want[1], rtol=1e-5)


def test_a_rule_that_calls_vjp_is_transposed_under_shard_map():
    def vjp(inputs, outputs, cts):
        ct = {"out": cts["out"], "positives": np.zeros(cts["out"].shape, jax.dtypes.float0)}
        return jax.vjp(pure, *inputs)[1](ct)

    op = numba_kernel(wave, outs_of, vjp=vjp)
    mesh = jax.make_mesh((2,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("i")
    two, other = jnp.concatenate([x, x + 0.5]), jnp.concatenate([y, y - 2])

    def tangents(f):
        return lambda a, b: jax.jvp(lambda a: f(a, b)["out"], (a,), (b,))[1]

    def linearized(f):
        return lambda a, b: jax.linearize(lambda a: f(a, b)["out"], a)[1](b)

    for transformed in (tangents, linearized):
        sharded = jax.shard_map(transformed(op), mesh=mesh, in_specs=spec, out_specs=spec)
        expected = transformed(pure)(two, other)
        np.testing.assert_allclose(jax.jit(sharded)(two, other), expected, rtol=1e-5)


def test_functions_from_source_get_their_attributes():
    module = load_cpp_inline(
        "derivatives",
        """
        #include <kernbridge/kernbridge.hpp>
        // @BE power arg ret attr.factor:float32
        void power(kernbridge::Tensor x, kernbridge::Tensor y, float factor) {
            for (int64_t i = 0; i < x.numel(); i++)
                y.data_ptr<float>()[i] = factor * x.data_ptr<float>()[i] * x.data_ptr<float>()[i];
        }
        """,
    )

    def vjp(inputs, outputs, ct, factor):
        return (2 * factor * inputs[0] * ct,)

    def run(x):
        return module.power(x, outs=S(x.shape, x.dtype), factor=np.float32(1.5), vjp=vjp)

    np.testing.assert_allclose(jax.grad(lambda x: run(x).sum())(x), 3 * x, rtol=1e-6)
    np.testing.assert_allclose(jax.jvp(run, (x,), (dx,))[1], 3 * x * dx, rtol=1e-6)
    with pytest.raises(TypeError, match=r"factor.*\[KB1007\]"):
        module.power(x, outs=x, factor=1.5, vjp=lambda i, o, ct: ct)


def test_rules_of_gpu_operations(gpu):
    import cuda_kernels
    from kernbridge import numba_cuda_kernel

    op = numba_cuda_kernel(
        cuda_kernels.add,
        lambda x, y: S(x.shape, x.dtype),
        launch_dims=4,
        vjp=lambda i, o, ct: (ct, ct),
    )
    gx, gy = jax.grad(lambda a, b: (op(a, b) ** 2).sum(), (0, 1))(x, y)
    np.testing.assert_allclose(gx, 2 * (x + y), rtol=1e-6)
    np.testing.assert_allclose(gy, 2 * (x + y), rtol=1e-6)

    def twice(x, out, stream):
        cuda_kernels.add[1, 32, stream](x, x, out)

    op = numba_cuda_callable(twice, lambda x: S(x.shape, x.dtype), jvp=lambda i, o, t: 2 * t[0])
    np.testing.assert_allclose(jax.grad(lambda a: (op(a) ** 2).sum())(x), 8 * x, rtol=1e-6)


def bad(rules, error, match):
    def run():
        op = numba_kernel(wave, outs_of, **rules)
        jax.grad(loss(op))(x, y)

    with pytest.raises(error, match=match):
        run()


def test_rules_that_do_not_fit_are_refused():
    bad({"vjp": 3}, TypeError, r"numba_kernel 'wave': vjp is 3, expected a function \(inputs, out")
    bad({"jvp": lambda i, t: t}, TypeError, r"jvp is a function of \(i, t\), but is called as")
    bad({"vjp": lambda i, o, ct: ct["out"]}, TypeError, "expected a tuple of 2 cotangents")
    bad({"vjp": lambda i, o, ct: (1.0,)}, TypeError, "returned 1, expected a tuple of 2 cotangents")
    bad({"vjp": lambda i, o, ct: ("a", None)}, TypeError, "'a' as the cotangent of input 0")
    bad(
        {"vjp": lambda i, o, ct: (ct["out"][:2], None)},
        TypeError,
        r"f32\[2\] as the cotangent of input 0, expected f32\[4\]",
    )
    bad(
        {"vjp": lambda i, o, ct: (ct["out"].astype(jnp.bfloat16), None)},
        TypeError,
        r"bf16\[4\] as the cotangent of input 0, expected f32\[4\]",
    )
    bad({"jvp": lambda i, o, t: t[0]}, TypeError, "expected a tangent for each output")
    bad(
        {"jvp": lambda i, o, t: {"out": t[0][None], "positives": None}},
        TypeError,
        r"f32\[1,4\] as the tangent of output 0, expected f32\[4\]",
    )


def test_without_rules_the_message_says_what_to_do():
    op = numba_kernel(wave, outs_of)
    with pytest.raises(NotImplementedError, match=r"\[KB2101\]"):
        jax.grad(loss(op))(x, y)


def test_rules_are_part_of_what_is_remembered():
    first = numba_kernel(wave, outs_of, vjp=vjp_in_jax)
    assert numba_kernel(wave, outs_of, vjp=vjp_in_jax) is first
    assert numba_kernel(wave, outs_of) is not first
    assert numba_kernel(wave, outs_of, jvp=jvp) is not first


WITHOUT_EXTENSION = """
import sys
sys.modules["kernbridge._ext.enzyme"] = None  # as if its folder were deleted
import jax
import jax.numpy as jnp
import kernbridge as kb
import numba

@numba.njit
def twice(x, out):
    for i in range(x.size):
        out[i] = 2 * x[i]

like = jax.ShapeDtypeStruct((3,), jnp.float32)
kernel = kb.XLACustomKernel("twice")
for wrap in (
    lambda: kb.numba_kernel(twice, like, derivatives="enzyme"),
    lambda: kb.XLACustomKernel("by_enzyme", derivatives="enzyme"),
    lambda: kernel.def_jvp_rule("enzyme"),
    lambda: kernel.def_vjp_rule("enzyme"),
):
    try:
        wrap()
    except kb.errors.KernelToolchainError as e:
        print("missing:", e)
op = kb.numba_kernel(twice, like, vjp=lambda inputs, outputs, ct: (2 * ct,))
print("by a rule:", jax.grad(lambda x: op(x).sum())(jnp.ones(3)))
try:
    jax.grad(lambda x: kb.numba_kernel(twice, like)(x).sum())(jnp.ones(3))
except kb.errors.NoDerivativeError as e:
    print("without a rule:", e)
"""


@pytest.mark.once
def test_an_installation_without_the_extension_has_rules_only(run_python):
    found = run_python(WITHOUT_EXTENSION)
    needs = r""": derivatives="enzyme" needs the extension 'kernbridge/_ext/enzyme', which this"""
    assert [line.split(needs)[0] for line in found.splitlines() if needs in line] == [
        "missing: numba_kernel 'twice'",
        "missing: 'by_enzyme'",
        "missing: 'twice'",
        "missing: 'twice'",
    ]
    assert found.count("KB4011") == 4
    assert "by a rule: [2. 2. 2.]" in found
    assert "wrapped, pass a rule, vjp=" in found
