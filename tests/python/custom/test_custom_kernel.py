"""XLACustomKernel: calls, kernels and rules."""

import itertools
import warnings

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest
from jax.interpreters import ad
from kernbridge import (
    KernelCompilationError,
    KernelEntry,
    KernelFallbackExhaustedError,
    XLACustomKernel,
    defjvp,
    general_batching_rule,
    numba_kernel,
)
from kernels import add, scale

S = jax.ShapeDtypeStruct
x = jnp.asarray([-1.5, 0.25, 2.0, -0.5], jnp.float32)
X = jnp.stack([x, -x, 2 * x])
names = (f"test_custom_kernel_{i}" for i in itertools.count())


def scaling(outs, alpha=1.0):
    return lambda x: numba_kernel(scale, outs[0])(x, alpha=alpha)


def scaled_op():
    op = XLACustomKernel(next(names))
    op.def_numba_kernel(scaling)
    return op


def test_a_generator_may_return_a_bare_array_a_list_or_a_tuple():
    for wrap in (lambda y: y, lambda y: [y], lambda y: (y,)):
        op = XLACustomKernel(next(names))
        op.def_numba_kernel(lambda outs, wrap=wrap: lambda x: wrap(scaling(outs, 2.0)(x)))
        np.testing.assert_array_equal(op(x, outs=[S(x.shape, x.dtype)])[0], 2 * x)
        np.testing.assert_array_equal(jax.jit(lambda x, op=op: op(x, outs=x))(x), 2 * x)


def test_outs_gives_the_form_of_the_result():
    op = scaled_op()
    for outs in (x, [x], (x,), {"y": {"z": x}}):
        got = op(x, outs=outs, alpha=3.0)
        assert jax.tree.structure(got) == jax.tree.structure(outs)
        np.testing.assert_array_equal(jax.tree.leaves(got)[0], 3 * x)
    none = XLACustomKernel(next(names))
    none.def_kernel("jnp", "cpu", lambda outs: lambda x: [])
    assert none(x, outs=[]) == []


def test_keywords_that_compare_equal_are_not_the_same():
    seen = []

    def generator(outs, value):
        seen.append(value)
        return lambda x: jnp.copysign(x, value) + (10 if value is True else 0)

    op = XLACustomKernel(next(names))
    op.def_kernel("jnp", "cpu", generator)
    one = jnp.ones(1)
    run = jax.jit(lambda x, value: op(x, outs=x, value=value)[0], static_argnames="value")
    for value, want in ((0.0, 1), (-0.0, -1), (1, 1), (True, 11), (1.0, 1), ((0.0,), None)):
        if want is not None:
            assert op(one, outs=one, value=value)[0] == want, value
    assert [repr(v) for v in seen] == ["0.0", "-0.0", "1", "True", "1.0"]
    assert run(one, 0.0) == 1
    with pytest.raises(KernelCompilationError, match=r"\[KB4015\]"):
        op(one, outs=one, value=("a", 1))


def test_a_traced_keyword_is_named():
    op = scaled_op()

    @jax.jit
    def jitted(x, alpha=0.1):
        return op(x, outs=[S(x.shape, x.dtype)], alpha=alpha)[0]

    np.testing.assert_allclose(jitted(x), 0.1 * x, rtol=1e-6)
    with pytest.raises(TypeError, match=r"\[KB8008\]"):
        jitted(x, alpha=0.1)
    static = jax.jit(jitted.__wrapped__, static_argnames="alpha")
    np.testing.assert_allclose(static(x, alpha=0.2), 0.2 * x, rtol=1e-6)
    with pytest.raises(TypeError, match=r"'alpha'.*1.*\[KB8008\]"):
        op(x, outs=x, alpha=[1])
    with pytest.raises(TypeError, match=r"'alpha'.*alpha\.item.*\[KB8008\]"):
        op(x, outs=x, alpha=jnp.float32(2))
    with pytest.raises(TypeError, match=r"\[KB8008\]"):
        jax.jit(lambda a: op(x, outs=x, alpha=(1.0, a)))(2.0)


def test_inputs_that_are_no_arrays_are_refused():
    op = scaled_op()
    with pytest.raises(TypeError, match=r"input 0.*1\.0.*\[KB2002\]"):
        op([1.0], outs=x)
    np.testing.assert_array_equal(op(np.asarray(x), outs=x, alpha=2.0), 2 * x)


def test_kernels_and_defaults():
    op = XLACustomKernel(next(names), "what it does")
    assert op.__doc__ == "what it does"
    assert op.available_backends("cpu") == []
    assert op.get_default("cpu") is None
    methods = {
        "numba": (op.def_numba_kernel, "cpu"),
        "cpp": (op.def_cpp_kernel, "cpu"),
        "numba_cuda": (op.def_numba_cuda_kernel, "gpu"),
        "cuda_raw": (op.def_cuda_raw_kernel, "gpu"),
        "warp": (op.def_warp_kernel, "gpu"),
        "triton": (op.def_triton_kernel, "gpu"),
    }
    for define, _ in methods.values():
        define(scaling)
    op.def_pallas_kernel("gpu", scaling)
    op.def_pallas_kernel("tpu", scaling)
    assert op.available_backends("cpu") == ["numba", "cpp"]
    assert op.available_backends("cuda") == ["numba_cuda", "cuda_raw", "warp", "triton", "pallas"]
    assert op.defaults == {"cpu": "numba", "gpu": "numba_cuda", "tpu": "pallas"}
    op.def_numba_cuda_kernel(scaling, asdefault=True)
    op.def_cuda_raw_kernel(scaling, asdefault=True)
    assert op.get_default("gpu") == "cuda_raw"
    op.set_default("gpu", "triton")
    op.defaults["gpu"] = "changed"
    assert op.get_default("gpu") == "triton"
    entry = op._kernels["cpu"]["numba"]
    assert isinstance(entry, KernelEntry)
    assert (entry.backend, entry.platform, entry.kernel_generator) == ("numba", "cpu", scaling)


def test_wrong_definitions_are_refused():
    op = XLACustomKernel(next(names))
    for call, error, match in (
        (lambda: XLACustomKernel(3), TypeError, "name is 3"),
        (lambda: op.def_kernel(1, "cpu", scaling), TypeError, "backend is 1"),
        (lambda: op.def_kernel("", "cpu", scaling), ValueError, "empty"),
        (lambda: op.def_kernel("a", 1, scaling), TypeError, "platform is 1"),
        (lambda: op.def_kernel("a", "abacus", scaling), ValueError, "abacus.*'cpu', 'gpu'"),
        (lambda: op.def_numba_kernel(3), TypeError, "KB1005"),
        (lambda: op.def_pallas_kernel("cpu", scaling), ValueError, "interpret=True"),
        (lambda: op.set_default("cpu", "numba"), ValueError, "no backend 'numba' on cpu"),
        (lambda: op.def_call(3), TypeError, "KB1005"),
        (lambda: op.call(1), ValueError, "def_call"),
        (lambda: op.def_tags(1), TypeError, "tag 1"),
        (lambda: op.def_benchmark_data([]), TypeError, "def_benchmark_data"),
        (lambda: op.def_jvp_rule(3), TypeError, "jvp rule is 3"),
        (lambda: op.def_jvp_rule(lambda p: p), TypeError, r"function of \(p\)"),
        (lambda: op.def_jvp_rule2(lambda: 0), TypeError, "jvp rule 0"),
        (lambda: op.def_jvp_rule2(None, 3), TypeError, "jvp rule 1 is 3"),
        (lambda: op.def_vjp_rule(lambda a, b: a), TypeError, "vjp rule is a function"),
        (lambda: op.def_transpose_rule(lambda *, outs: []), TypeError, "transpose rule"),
        (lambda: op.def_batching_rule(lambda a: a), TypeError, "batching rule"),
    ):
        with pytest.raises(error, match=match):
            call()


def test_rules_and_generators_are_checked_against_the_first_call():
    op = scaled_op()
    op.def_jvp_rule2(lambda t, *primals, **_: t, None)
    with pytest.raises(ValueError, match=r"has 2 jvp.*with 1 inputs.*\[KB2103\]"):
        op(x, outs=x)
    op.def_jvp_rule2(lambda t, x, outs: t)
    with pytest.raises(TypeError, match=r"rule 0.*'alpha'.*\[KB1007\]"):
        op(x, outs=x, alpha=2.0)
    op.def_jvp_rule2(lambda t, x, *, outs, alpha: t)
    op.def_vjp_rule(lambda inputs, outs, cts, **params: cts)
    with pytest.raises(TypeError, match=r"'outs'.*\[KB1007\]"):
        op(x, outs=x, alpha=2.0)
    op.def_vjp_rule(lambda inputs, results, cts, **params: cts)
    with pytest.raises(TypeError, match=r"'numba'.*'beta'.*\[KB1007\]"):
        op(x, outs=x, alpha=2.0, beta=1)


def test_what_a_kernel_gives_is_checked():
    for generator, match in (
        (lambda outs: lambda x: (x, x), r"returned 2 outputs, but `outs` declares 1"),
        (lambda outs: lambda x: x[:2], r"f32\[2\] as output 0, but `outs` declares f32\[4\]"),
        (lambda outs: lambda x: x.astype(int), r"i32\[4\] as output 0"),
        (lambda outs: lambda x: "text", "returned 'text' as output 0"),
        (lambda outs: x, "expected an operation, such as"),
        (lambda outs: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda outs: lambda x: 1 / 0, "ZeroDivisionError"),
    ):
        op = XLACustomKernel(next(names))
        op.def_kernel("mine", "cpu", generator)
        for run in (op, lambda *a, op=op, **k: jax.vmap(lambda x: op(x, **k))(a[0][None])):
            with pytest.raises(KernelCompilationError, match=match) as caught:
                run(x, outs=x)
            assert "backend 'mine' on cpu" in str(caught.value)
            assert "There is no other backend on cpu" in str(caught.value)
    op.def_numba_kernel(scaling)
    with pytest.raises(KernelCompilationError, match=r"(?s)\[KB4015\].*'numba'"):
        op(x, outs=x, backend="mine")


def test_without_a_kernel_the_message_names_what_there_is():
    op = XLACustomKernel(next(names))
    with pytest.raises(KernelFallbackExhaustedError, match=r"\[KB7001\]"):
        op(x, outs=x)
    op.def_kernel("tpu_only", "tpu", scaling)
    with pytest.raises(KernelFallbackExhaustedError, match=r"'tpu_only'.*\[KB7001\]"):
        jax.jit(lambda x: op(x, outs=x))(x)
    with pytest.raises(KernelFallbackExhaustedError, match=r"\[KB7001\]"):
        op(x, outs=x, backend="tpu_only")
    with pytest.raises(KernelFallbackExhaustedError, match=r"'none'.*\[KB7006\]"):
        op(x, outs=x, backend="none")
    with pytest.raises(ValueError, match=r"\[KB7006\]"):
        op(x, outs=x, backend="")
    op.def_numba_kernel(scaling)
    np.testing.assert_array_equal(op(x, outs=x, alpha=2.0), 2 * x)


def test_a_kernel_defined_after_the_trace_is_found():
    op = XLACustomKernel(next(names))
    traced = jax.jit(lambda x: op(x, outs=x, alpha=2.0)).trace(x)
    op.def_numba_kernel(scaling)
    np.testing.assert_array_equal(traced.lower().compile()(x), 2 * x)


def test_transformations_and_control_flow():
    op = scaled_op()

    def f(x):
        return op(x, outs=S(x.shape, x.dtype), alpha=2.0)

    np.testing.assert_array_equal(jax.vmap(f)(X), 2 * X)
    np.testing.assert_array_equal(jax.vmap(jax.vmap(f))(X[None]), 2 * X[None])
    np.testing.assert_array_equal(jax.vmap(f, 1, 1)(X.T), 2 * X.T)
    np.testing.assert_array_equal(jax.lax.map(f, X), 2 * X)
    np.testing.assert_array_equal(jax.lax.fori_loop(0, 3, lambda i, y: f(y), x), 8 * x)
    with jax.disable_jit():
        np.testing.assert_array_equal(f(x), 2 * x)
    empty = jax.vmap(f)(jnp.zeros((0, 4)))
    assert empty.shape == (0, 4)
    from jax.sharding import Mesh, PartitionSpec

    mesh = Mesh(np.array(jax.devices()[:2]), ("i",))
    sharded = jax.shard_map(
        lambda X: jax.vmap(f)(X),
        mesh=mesh,
        in_specs=PartitionSpec("i"),
        out_specs=PartitionSpec("i"),
    )
    np.testing.assert_array_equal(jax.jit(sharded)(X.repeat(2, 0)), 2 * X.repeat(2, 0))


def test_one_call_of_c_serves_a_batch():
    """The operation's own loop, and no scan."""
    op = scaled_op()
    text = (
        jax.jit(jax.vmap(jax.vmap(lambda x: op(x, outs=S((4,), x.dtype), alpha=2.0))))
        .lower(X[None])
        .as_text()
    )
    assert text.count("kernbridge.host") == 1
    assert "while" not in text


def test_a_kernel_that_jax_cannot_batch_runs_slice_by_slice():
    kernbridge.load_cpp_inline(
        "unbatched",
        """
        #include <kernbridge/kernbridge.hpp>
        // @BE first arg ret
        void first(const kernbridge::Tensor x, kernbridge::Tensor y) {
            for (int64_t i = 0; i < y.numel(); i++)
                y.data_ptr<float>()[i] = x.data_ptr<float>()[i] - x.data_ptr<float>()[0];
        }
        """,
    )

    def generator(outs):
        return lambda x: jax.ffi.ffi_call("unbatched.first", outs)(x)

    op = XLACustomKernel(next(names))
    op.def_kernel("ffi", "cpu", generator)

    def f(a):
        return op(a, outs=S(a.shape, a.dtype))

    np.testing.assert_array_equal(jax.vmap(f)(X), X - X[:, :1])
    np.testing.assert_array_equal(jax.vmap(jax.vmap(f))(X[None]), (X - X[:, :1])[None])
    assert "while" in jax.jit(jax.vmap(f)).lower(X).as_text()


def test_warp_kernels_run_slice_by_slice():
    shapes = []

    def generator(outs):
        def kernel(x, y):
            shapes.append(x.shape)
            return x + y

        return kernel

    op = XLACustomKernel(next(names))
    op.def_kernel("warp", "cpu", generator)
    f = jax.vmap(lambda a, b: op(a, b, outs=S(a.shape, a.dtype)), (0, None))
    np.testing.assert_array_equal(f(X, x), X + x)
    assert set(shapes) == {(4,)}
    assert "while" in jax.jit(f).lower(X, x).as_text()


def test_a_batching_rule_of_the_users_own():
    op = scaled_op()
    seen = []

    def rule(args, axes, **params):
        seen.append((axes, dict(params)))
        (X,), (axis,) = args, axes
        flat = jnp.moveaxis(X, axis, 0)
        out = S((flat.size,), flat.dtype)
        y = op(flat.reshape(-1), outs=(out,), alpha=params["alpha"] * 10)[0]
        return [y.reshape(flat.shape)], [0]

    op.def_batching_rule(rule)
    f = jax.vmap(lambda x: op(x, outs=S(x.shape, x.dtype), alpha=2.0), 1)
    np.testing.assert_array_equal(f(X.T), 20 * X)
    assert set(seen[0][1]) == {"outs", "alpha"}
    op.def_batching_rule(
        lambda args, axes, **params: general_batching_rule(op.primitive, args, axes, **params)
    )
    np.testing.assert_array_equal(f(X.T), 2 * X)
    op.register_general_batching()
    np.testing.assert_array_equal(f(X.T), 2 * X)


@pytest.mark.exhaustive
def test_linear_operations_transpose():
    op = scaled_op()

    def f(x):
        return op(x, outs=S(x.shape, x.dtype), alpha=2.0)

    with pytest.raises(NotImplementedError, match=r"def_transpose_rule.*\[KB2102\]"):
        jax.linear_transpose(f, x)(x)

    def rule(cts, x, *, outs, alpha):
        assert ad.is_undefined_primal(x)
        assert x.aval.shape == outs[0].shape == (4,)
        return [op(cts[0], outs=outs, alpha=alpha)[0]]

    op.def_transpose_rule(rule)
    op.def_jvp_rule2(lambda t, x, *, outs, alpha: op(t, outs=outs, alpha=alpha))
    np.testing.assert_array_equal(jax.linear_transpose(f, x)(x)[0], 2 * x)
    np.testing.assert_array_equal(jax.linear_transpose(jax.vmap(f), X)(X)[0], 2 * X)
    np.testing.assert_allclose(jax.grad(lambda x: (f(x) ** 2).sum())(x), 8 * x)
    np.testing.assert_allclose(jax.grad(lambda X: (jax.vmap(f)(X) ** 2).sum())(X), 8 * X)
    np.testing.assert_allclose(jax.vmap(jax.grad(lambda x: (f(x) ** 2).sum()))(X), 8 * X)
    np.testing.assert_allclose(jax.hessian(lambda x: (f(x) ** 2).sum())(x), 8 * np.eye(4))
    op.def_transpose_rule(lambda cts, *args, **params: [])
    with pytest.raises(TypeError, match=r"returned 0.*of 1.*\[KB2103\]"):
        jax.linear_transpose(f, x)(x)


def test_transposes_sum_over_a_batch_that_an_operand_does_not_have():
    op = XLACustomKernel(next(names))
    op.def_kernel("jnp", "cpu", lambda outs: lambda a, b: a * b)

    def rule(cts, a, b, outs):
        if ad.is_undefined_primal(a):
            return [cts[0] * b, None]
        return [None, cts[0] * a]

    op.def_transpose_rule(rule)

    def f(a, b):
        return op(a, b, outs=S(a.shape, a.dtype))

    batched = jax.vmap(f, (0, None))
    got = jax.linear_transpose(lambda b: batched(X, b), x)(X)[0]
    np.testing.assert_allclose(got, (X * X).sum(0), rtol=1e-6)
    got = jax.linear_transpose(lambda a: batched(a, x), X)(X)[0]
    np.testing.assert_allclose(got, X * x, rtol=1e-6)


def test_jvp_rules_of_jaxs_form_see_symbolic_zeros():
    op = XLACustomKernel(next(names))
    op.def_kernel("jnp", "cpu", lambda outs: lambda a, b: a * b)
    seen = []

    def rule(primals, tangents, outs):
        a, b = primals
        seen.append([type(t) is ad.Zero for t in tangents])
        da, db = tangents
        out = op(a, b, outs=outs)
        dot = da * b if type(db) is ad.Zero else da * b + a * db
        return out, [dot]

    op.def_jvp_rule(rule)

    def f(a, b):
        return op(a, b, outs=S(a.shape, a.dtype))

    np.testing.assert_allclose(jax.grad(lambda a: f(a, x + 1).sum())(x), x + 1)
    assert seen == [[False, True]]
    batched = jax.grad(lambda a: jax.vmap(f, (0, None))(a, x + 1).sum())(X)
    np.testing.assert_allclose(batched, jnp.broadcast_to(x + 1, X.shape))
    assert seen[-1] == [False, True]
    op.def_jvp_rule(lambda primals, tangents, outs: [primals[0]])
    with pytest.raises(TypeError, match=r"jvp.*pair.*\[KB2103\]"):
        jax.grad(lambda a: f(a, x).sum())(x)


def test_defjvp_for_primitives_and_operations():
    op = scaled_op()
    defjvp(op, lambda t, x, outs, alpha: alpha * t)
    np.testing.assert_allclose(jax.grad(lambda x: op(x, outs=x, alpha=3.0).sum())(x), [3] * 4)
    defjvp(op.primitive, lambda t, x, outs, alpha: 2 * alpha * t)
    np.testing.assert_allclose(jax.grad(lambda x: op(x, outs=x, alpha=3.0).sum())(x), [6] * 4)

    from jax.extend.core import Primitive

    for multiple in (False, True):
        primitive = Primitive("test_defjvp")
        primitive.multiple_results = multiple
        wrap = (lambda y: [y, y]) if multiple else (lambda y: y)
        primitive.def_impl(lambda a, b, wrap=wrap: wrap(a * b))
        primitive.def_abstract_eval(lambda a, b, wrap=wrap: wrap(a))
        defjvp(primitive, lambda t, a, b, wrap=wrap: wrap(t * b), None)

        def run(a, b, primitive=primitive, multiple=multiple):
            out = primitive.bind(a, b)
            return out[1] if multiple else out

        out, dot = jax.jvp(run, (x, x + 1), (x, x))
        np.testing.assert_allclose(out, x * (x + 1))
        np.testing.assert_allclose(dot, x * (x + 1))
        defjvp(primitive, lambda t, a, b: t)
        with pytest.raises(ValueError, match=r"'test_defjvp'.*has 1 jvp.*\[KB2103\]"):
            jax.jvp(run, (x, x), (x, x))
    defjvp(primitive, lambda t, a, b: t, None)
    with pytest.raises(TypeError, match=r"tangents, expected 2.*\[KB2103\]"):
        jax.jvp(run, (x, x), (x, x))
    defjvp(primitive, lambda t, a, b: [t], None)
    with pytest.raises(
        ValueError, match=r"rule 0 returned a list of 1 as the tangents, expected 2.*\[KB2103\]"
    ):
        jax.jvp(run, (x, x), (x, x))


def test_general_batching_rule():
    outs, dims = general_batching_rule(lambda a, b, k: (a + b, k * a), (X, x), (0, None), k=2)
    np.testing.assert_array_equal(outs[0], X + x)
    np.testing.assert_array_equal(outs[1], 2 * X)
    assert dims == (0, 0)
    assert general_batching_rule(jnp.sin, (jnp.zeros((0, 2)),), (0,))[0].shape == (0, 2)


def test_registry_and_tags():
    op = XLACustomKernel(name := next(names))
    op.def_tags("sparse", "test")
    assert kernbridge.get_registry()[name] is op
    assert name in kernbridge.get_all_primitive_names()
    assert kernbridge.get_all_primitive_names() == sorted(kernbridge.get_registry())
    assert kernbridge.get_primitives_by_tags({"sparse", "test"})[name] is op
    assert name not in kernbridge.get_primitives_by_tags({"sparse", "other"})
    op.def_tags("other")
    assert name not in kernbridge.get_primitives_by_tags({"sparse"})
    with pytest.raises(TypeError, match=r"set.*\[KB1005\]"):
        kernbridge.get_primitives_by_tags("sparse")
    kernbridge.get_registry().clear()
    assert name in kernbridge.get_registry()
    with pytest.warns(UserWarning, match=f"named '{name}' is already registered"):
        newer = XLACustomKernel(name)
    assert kernbridge.get_registry()[name] is newer


def test_call_and_its_function():
    op = scaled_op()
    op.def_call(lambda x, alpha, backend=None: op(x, outs=x, alpha=alpha, backend=backend))
    np.testing.assert_array_equal(op.call(x, 2.0), 2 * x)
    np.testing.assert_array_equal(op.call(x, 2.0, backend="numba"), 2 * x)


def test_x64_is_known_when_a_call_is_traced(x64):
    op = scaled_op()
    wide = jnp.arange(4.0, dtype=jnp.float64)
    assert op(wide, outs=S((4,), jnp.float64), alpha=2.0).dtype == jnp.float64
    jax.config.update("jax_enable_x64", False)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert op(x, outs=S((4,), jnp.float64), alpha=2.0).dtype == jnp.float32
    assert any("has dtype float64" in str(w.message) for w in told)


def test_exported_programs_hold_the_kernel():
    op = scaled_op()
    from jax import export

    f = jax.jit(lambda x: op(x, outs=S(x.shape, x.dtype), alpha=2.0))
    exported = export.export(
        f, disabled_checks=[export.DisabledSafetyCheck.custom_call("kernbridge.host")]
    )(S((4,), jnp.float32))
    again = export.deserialize(exported.serialize())
    np.testing.assert_array_equal(again.call(x), 2 * x)
    symbolic = export.symbolic_shape("n")
    exported = export.export(
        f, disabled_checks=[export.DisabledSafetyCheck.custom_call("kernbridge.host")]
    )(S(symbolic, jnp.float32))
    np.testing.assert_array_equal(exported.call(X[0, :3]), 2 * X[0, :3])


def test_several_kernels_and_jax_in_one_generator():
    op = XLACustomKernel(next(names))

    def generator(outs):
        def kernel(x, y):
            total = numba_kernel(add, outs[0])(jnp.sin(x), y)
            return total, numba_kernel(add, outs[1])(total, total)

        return kernel

    op.def_numba_kernel(generator)
    both = jax.vmap(lambda a, b: op(a, b, outs=(S(a.shape, a.dtype),) * 2), (0, None))(X, x)
    np.testing.assert_allclose(both[0], jnp.sin(X) + x, rtol=1e-6)
    np.testing.assert_allclose(both[1], 2 * (jnp.sin(X) + x), rtol=1e-6)
