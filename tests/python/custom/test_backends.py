"""Which kernel runs: by call, by operation, for all; also in functions that were jitted before."""

import itertools
import threading
import warnings

import jax
import jax.numpy as jnp
import pytest
from kernbridge import KernelFallbackExhaustedError, XLACustomKernel, config

S = jax.ShapeDtypeStruct
names = (f"test_backends_{i}" for i in itertools.count())
x = jnp.arange(3.0)


@pytest.fixture(autouse=True)
def no_global_choice():
    config.clear_backends()
    yield
    config.clear_backends()


class Counted:
    """An operation of constants, whose generators tell when they ran."""

    def __init__(self, **backends):
        self.ran = []
        self.op = XLACustomKernel(next(names))
        for backend, value in backends.items():
            self.define(backend, value)

    def define(self, backend, value, **options):
        def generator(outs):
            self.ran.append(backend)
            return lambda x: x + value

        self.op.def_kernel(backend, "cpu", generator, **options)

    def __call__(self, x, **keywords):
        return self.op(x, outs=S(x.shape, x.dtype), **keywords)


def test_the_order_of_choices():
    op = Counted(first=1, second=2, third=3)
    assert op(x)[0] == 1
    op.op.set_default("cpu", "second")
    assert op(x)[0] == 2
    config.set_backend("cpu", "third")
    assert op(x)[0] == 3
    assert op(x, backend="first")[0] == 1
    assert op(x, backend=None)[0] == 3
    config.set_backend("cpu", None)
    assert op(x)[0] == 2


@pytest.mark.brief
@pytest.mark.parametrize("wrap", ["jit", "vmap", "scan", "grad", "nested", "cond", "closed"])
def test_a_switch_reaches_functions_jitted_before(wrap):
    op = Counted(first=1, second=2)
    op.op.def_jvp_rule2(lambda t, x, outs: op(t))
    op.op.def_transpose_rule(lambda cts, x, outs: [op(cts[0])])
    inner = jax.jit(lambda x: op(x))
    run = {
        "jit": lambda x: op(x)[0],
        "vmap": lambda x: jax.vmap(op)(x[None])[0, 0],
        "scan": lambda x: jax.lax.scan(lambda c, _: (op(c) - c, None), x, None, length=1)[0][0],
        "grad": lambda x: jax.grad(lambda x: op(x)[0])(x)[2],
        "nested": lambda x: inner(x)[0],
        "cond": lambda x: jax.lax.cond(x[1] > 0, lambda: op(x), lambda: x)[0],
        "closed": jax.checkpoint(lambda x: inner(x)[0]),
    }[wrap]
    f = jax.jit(run)
    values = []
    for change in (
        lambda: None,
        lambda: config.set_backend("cpu", "second"),
        lambda: config.set_backend("cpu", "first"),
        lambda: config.clear_backends(),
        lambda: op.op.set_default("cpu", "second"),
        lambda: op.op.set_default("cpu", "first"),
        lambda: op.define("third", 3, asdefault=True),
        lambda: op.define("third", 4),
    ):
        change()
        values.append(float(f(x)))
    assert values == [1, 2, 1, 1, 2, 1, 3, 4]


def test_unchanged_costs_nothing_and_a_switch_back_finds_what_was_compiled():
    op = Counted(first=1, second=2)
    traces = []

    @jax.jit
    def f(x):
        traces.append(1)
        return op(x)

    f(x)
    assert (len(traces), op.ran) == (1, ["first"])
    config.set_backend("cpu", None)
    config.clear_backends()
    op.op.set_default("cpu", "first")
    config.set_backend("tpu", None)
    f(x)
    assert len(traces) == 1
    for _ in range(3):
        config.set_backend("cpu", "second")
        assert f(x)[0] == 2
        config.set_backend("cpu", None)
        assert f(x)[0] == 1
    assert (len(traces), op.ran) == (2, ["first", "second"])
    for _ in range(3):
        op.op.set_default("cpu", "second")
        assert f(x)[0] == 2
        op.op.set_default("cpu", "first")
        assert f(x)[0] == 1
    assert len(traces) == 3


def test_operations_defined_later_disturb_no_function():
    traces = []

    @jax.jit
    def f(x):
        traces.append(1)
        return x + 1

    f(x)
    op = Counted(first=1)
    op.define("second", 2, asdefault=True)
    op.op.def_jvp_rule2(lambda t, x, outs: t)
    f(x)
    assert len(traces) == 1
    assert op(x)[0] == 2
    f(x)
    assert len(traces) == 1


def test_new_rules_reach_functions_jitted_before():
    op = Counted(first=1)
    op.op.def_jvp_rule2(lambda t, x, outs: 2 * t)
    f = jax.jit(jax.grad(lambda x: op(x)[0]))
    assert f(x)[0] == 2
    op.op.def_jvp_rule2(lambda t, x, outs: 3 * t)
    assert f(x)[0] == 3
    g = jax.jit(jax.vmap(op))
    assert g(x[None])[0, 0] == 1
    op.op.def_batching_rule(lambda args, axes, outs: ([args[0] + 7], axes))
    assert g(x[None])[0, 0] == 7


def test_a_choice_that_an_operation_does_not_have_is_told_once():
    op = Counted(first=1)
    config.set_backend("cpu", "second")
    with pytest.warns(UserWarning, match=r"'second'.*'first'.*\[KB7007\]"):
        assert op(x)[0] == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert op(x + 1)[0] == 2
        assert jax.jit(op)(jnp.ones(2))[0] == 2
        config.set_backend("tpu", "other")  # not where it runs
        assert op(jnp.ones(5))[0] == 2
    with pytest.raises(KernelFallbackExhaustedError, match=r"'second'.*'first'.*\[KB7006\]"):
        op(x, backend="second")


def test_every_thread_sees_the_choice():
    op = Counted(first=1, second=2)
    f = jax.jit(op)
    seen = []

    def look():
        seen.append(float(f(x)[0]))

    for backend in (None, "second"):
        config.set_backend("cpu", backend)
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        look()
    assert seen == [1, 1, 2, 2]


def test_settings_are_checked():
    for call, error, match in (
        (lambda: config.set_backend("cpu", ""), ValueError, "backend is an empty string"),
        (lambda: config.set_backend("cpu", 3), TypeError, "backend is 3"),
        (lambda: config.set_backend("abacus", "a"), ValueError, "abacus"),
        (lambda: config.get_backend(3), TypeError, "platform is 3"),
    ):
        with pytest.raises(error, match=match):
            call()
    config.set_backend("cuda", "a")
    assert config.get_backend("gpu") == "a"
    assert config.get_backend("cpu") is None
    config.clear_backends()
    assert config.get_backend("gpu") is None


def test_the_jaxpr_tells_the_kernels():
    op = Counted(first=1, second=2)
    op.op.def_numba_cuda_kernel(lambda outs: lambda x: x)
    assert "<cpu:first gpu:numba_cuda>" in str(jax.make_jaxpr(op)(x))
    text = str(jax.make_jaxpr(lambda x: op(x, backend="second"))(x))
    assert "<cpu:second>" in text


def test_kernels_of_cuda_run_on_cpus_if_asked_for_or_alone():
    def adding(n):
        return lambda outs: lambda x: x + n

    op = XLACustomKernel("backends_of_cuda")
    op.def_pallas_kernel("gpu", adding(10))
    op.def_cuda_raw_kernel(adding(20))
    assert op(x, outs=x)[0] == x[0] + 20  # the default of GPUs has no meaning here
    op.def_numba_cuda_kernel(adding(30))
    assert op(x, outs=x, backend="cuda_raw")[0] == x[0] + 20
    op.set_default("gpu", "cuda_raw")
    assert jax.jit(lambda x: op(x, outs=x))(x)[0] == x[0] + 20
    op.def_numba_kernel(adding(40))
    assert op(x, outs=x)[0] == x[0] + 40
    assert op(x, outs=x, backend="numba_cuda")[0] == x[0] + 30
    with pytest.raises(KernelFallbackExhaustedError, match="no backend 'pallas' on cpu"):
        op(x, outs=x, backend="pallas")


def test_no_backend_is_pinned_by_a_trace_of_another():
    """A jaxpr keeps the kernels that it was traced with."""
    op = Counted(first=1, second=2)
    closed = jax.make_jaxpr(op)(x)
    config.set_backend("cpu", "second")
    assert jax.core.eval_jaxpr(closed.jaxpr, closed.consts, x)[0][0] == 1
    assert op(x)[0] == 2


@pytest.mark.exhaustive
@pytest.mark.once
def test_calls_are_remembered_within_bounds():
    kept = 256
    op = Counted(first=1)
    for n in range(kept + 20):
        op(jnp.zeros(1), backend="first") if n % 2 else op(jnp.zeros(n % 7 + 1))
    assert len(op.op._calls) <= 8
    for n in range(kept + 5):
        jax.eval_shape(jax.vmap(op), S((1, n), jnp.float32))
    assert len(op.op._calls) == kept


def test_a_call_in_a_program_is_not_remembered():
    """It becomes a part of the program, which is traced without a `jax.jit` of the call."""
    op = Counted(first=1)
    for n in range(8):
        jax.eval_shape(op, S((n,), jnp.float32))
    assert len(op.op._calls) == 0
    op(jnp.zeros(1))
    assert len(op.op._calls) == 1
