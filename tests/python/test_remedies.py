"""What the pages of the codes promise: the mistake is refused, and the remedy works.

Each test is named after its code. `ELSEWHERE` names the tests of the codes that need a GPU's
driver, a compiler, another process or a damaged file.
"""

import contextlib
import functools
import os
import re
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest
from kernbridge import XLACustomKernel, check_rules, config, numba_kernel
from kernbridge._src.tools import error_pages

pytestmark = pytest.mark.once

HERE = Path(__file__).parent
X = jnp.arange(3.0)
F32 = jax.ShapeDtypeStruct((3,), jnp.float32)
MESH = functools.partial(jax.make_mesh, (4,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))


@numba.njit
def double(x, out):
    for i in range(x.size):
        out[i] = 2 * x[i]


@numba.njit
def add(x, y, out):
    for i in range(out.size):
        out[i] = x[i] + y[i]


@numba.njit
def scale(x, factor, out):
    for i in range(out.size):
        out[i] = factor * x[i]


@contextlib.contextmanager
def refused(code, kind=Exception):
    """The block raises an error of this code, whose first line ends with it."""
    with pytest.raises(kind) as caught:
        yield caught
    assert str(caught.value).splitlines()[0].endswith(f"[{code}]"), caught.value


@contextlib.contextmanager
def warned(code):
    """The block warns once with this code."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    found = [w for w in caught if issubclass(w.category, kernbridge.KernbridgeWarning)]
    assert [re.findall(r"KB\d+", str(w.message)) for w in found] == [[code]]


@contextlib.contextmanager
def silent():
    """The block does not warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", kernbridge.KernbridgeWarning)
        yield


def equal(found, expected):
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected, np.float32))


def doubled(op, *args):
    with silent():
        equal(op(*(args or (X,))), 2 * X)


# 1: wrapping a kernel


def test_kb1001():
    with refused("KB1001", TypeError):
        numba_kernel(double.py_func, F32)
    op = numba_kernel(double, F32)
    with refused("KB1001", TypeError):
        numba_kernel(op, F32)
    doubled(op)  # it is called, not wrapped again


def test_kb1002():
    for outs in ((3,), jnp.float32, "float32[3]"):
        with refused("KB1002", TypeError):
            numba_kernel(double, outs)
    for outs in (F32, X, lambda x: x):
        doubled(numba_kernel(double, outs))
    for outs in ([F32], (F32,), {"out": F32}):
        equal(jax.tree.leaves(numba_kernel(double, outs)(X))[0], 2 * X)


@numba.njit
def lif(v, i, v_out, spikes):
    v_out[:] = v + i
    spikes[:] = 7


def test_kb1003():
    with refused("KB1003", ValueError):
        numba_kernel(lif, {"v_out": F32, "i": F32})(X, X)
    named = numba_kernel(lif, {"spikes": F32, "v_out": F32})(X, X)  # by name, in any order
    equal(named["v_out"], 2 * X)
    equal(named["spikes"], [7, 7, 7])
    v_out, spikes = numba_kernel(lif, (F32, F32))(X, X)
    equal(v_out, 2 * X)
    equal(spikes, [7, 7, 7])


def test_kb1004():
    with refused("KB1004", TypeError):
        numba_kernel(double, [F32, F32, F32])
    equal(numba_kernel(double, [F32])(X)[0], 2 * X)


def test_kb1005():
    with refused("KB1005", TypeError):  # when the kernel is wrapped
        numba_kernel(double, F32, vmap_threads=4)
    with refused("KB1005", ValueError) as caught:
        numba_kernel(double, F32, vmap_method="parallel")
    for method in ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all"):
        assert repr(method) in str(caught.value)
        doubled(numba_kernel(double, F32, vmap_method=method))


@numba.njit
def increment(x, out):
    for i in range(x.size):
        x[i] += 1  # `out` has the same memory


def test_kb1006():
    for aliases in ({0: 1}, [(0, 0)], {"x": 0}):
        with refused("KB1006"):
            numba_kernel(increment, F32, input_output_aliases=aliases)
    with refused("KB1006", ValueError):
        numba_kernel(add, F32, input_output_aliases={0: 0, 1: 0})
    op = numba_kernel(increment, F32, input_output_aliases={0: 0})
    with refused("KB1006", ValueError):
        op(X.astype(int))
    with silent():
        equal(op(X), X + 1)
        equal(X, [0, 1, 2])


def test_kb1007():
    for rules in ({"vjp": True}, {"vjp": lambda ct: ct}, {"jvp": lambda x, t: t}):
        with refused("KB1007", TypeError):
            numba_kernel(double, F32, **rules)
    op = numba_kernel(double, F32, vjp=lambda inputs, outputs, cotangents: (2 * cotangents,))
    equal(jax.grad(lambda x: op(x).sum())(X), [2, 2, 2])
    op = numba_kernel(double, F32, jvp=lambda inputs, outputs, tangents: 2 * tangents[0])
    equal(jax.jvp(op, (X,), (X,))[1], 2 * X)


def test_kb1008():
    @numba.njit
    def rebinds(x, out):
        out = x * 2  # noqa: F841

    @numba.njit
    def writes(x, out):
        out[...] = x * 2

    with warned("KB1008"):
        numba_kernel(rebinds, F32)
    doubled(numba_kernel(writes, F32))


def test_kb1009(x64):
    f64 = jax.ShapeDtypeStruct((3,), np.float64)
    jax.config.update("jax_enable_x64", False)
    with warned("KB1009"):
        assert numba_kernel(double, f64)(X).dtype == jnp.float32
    jax.config.update("jax_enable_x64", True)
    with silent():
        assert numba_kernel(double, f64)(np.arange(3.0)).dtype == jnp.float64


# 2: calling and transforming an operation


def test_kb2001():
    with refused("KB2001", TypeError):
        numba_kernel(double, F32)(X, X)
    with refused("KB2001", TypeError):
        numba_kernel(scale, F32)(X)
    equal(numba_kernel(scale, F32)(X, factor=2.0), 2 * X)  # its parameter is skipped
    equal(numba_kernel(add, F32)(X, X), 2 * X)


def test_kb2002():
    op = numba_kernel(double, F32)
    for wrong in ([0.0, 1.0, 2.0], "x", {"x": X}, None):
        with refused("KB2002", TypeError):
            op(wrong)
    doubled(op, jnp.asarray([0.0, 1.0, 2.0]))
    doubled(op, np.arange(3, dtype=np.float32))


def test_kb2003():
    op, bits = numba_kernel(double, F32), jax.ShapeDtypeStruct((3,), jnp.bfloat16)
    for dtype in (jnp.bfloat16, jnp.float16, jnp.float8_e4m3fn, jnp.int4):
        with refused("KB2003", ValueError):
            op(X.astype(dtype))
        doubled(op, X.astype(dtype).astype(jnp.float32))
    with refused("KB2003", TypeError):
        op(jax.random.key(0))

    @numba.njit
    def copy(x, out):
        for i in range(out.size):
            out[i] = x[i]

    key = jax.random.key(3)
    words = numba_kernel(copy, jax.ShapeDtypeStruct((2,), jnp.uint32))
    assert (words(jax.random.key_data(key)) == jax.random.key_data(key)).all()
    copied = numba_kernel(copy, bits, half_as_bits=True)(X.astype(jnp.bfloat16))
    assert copied.dtype == jnp.bfloat16 and (copied == X.astype(jnp.bfloat16)).all()


def test_kb2004():
    with refused("KB2004", TypeError):
        numba_kernel(scale, lambda x: x)(X, factor=2.0)
    seen = []

    def outs(x, factor):
        seen.extend((x, factor))
        return x

    equal(numba_kernel(scale, outs)(X, factor=2.0), 2 * X)
    assert [type(s) for s in seen[:2]] == [jax.ShapeDtypeStruct] * 2
    assert [s.shape for s in seen[:2]] == [(3,), ()]


def test_kb2005():
    op = numba_kernel(scale, F32)
    with refused("KB2005", ValueError):
        op(X, factor=X)
    equal(jax.vmap(lambda a: op(X, factor=a))(X), X[:, None] * X)
    with refused("KB2005", ValueError):
        batched = numba_kernel(scale, F32, vmap_method="expand_dims")
        jax.vmap(lambda a: batched(X, factor=a))(X)
    equal(numba_kernel(add, F32)(X, X), 2 * X)  # arrays, by position


def test_kb2101():
    op = numba_kernel(double, F32)
    with refused("KB2101", kernbridge.NoDerivativeError):
        jax.grad(lambda x: op(x).sum())(X)
    equal(jax.grad(lambda x: (x * op(jax.lax.stop_gradient(x))).sum())(X), 2 * X)


def test_kb2102():
    plain = numba_kernel(double, F32)
    vjp = {"vjp": lambda inputs, outputs, ct: (plain(ct),)}
    with refused("KB2102", kernbridge.NoDerivativeError):
        jax.jvp(numba_kernel(double, F32, **vjp), (X,), (X,))
    jvp = {"jvp": lambda inputs, outputs, tangents: plain(tangents[0])}
    with refused("KB2102", kernbridge.NoDerivativeError):
        jax.grad(lambda x: numba_kernel(double, F32, **jvp)(x).sum())(X)
    both = numba_kernel(double, F32, **vjp, **jvp)
    equal(jax.jvp(both, (X,), (X,))[1], 2 * X)
    equal(jax.grad(lambda x: both(x).sum())(X), [2, 2, 2])
    of_jax = numba_kernel(double, F32, vjp=lambda inputs, outputs, ct: (2 * ct,))
    equal(jax.jvp(of_jax, (X,), (X,))[1], 2 * X)


def test_kb2103():
    def gradient(rule):
        op = numba_kernel(add, F32, vjp=rule)
        return jax.grad(lambda x, y: op(x, y).sum(), argnums=(0, 1))(X, X)

    for wrong in (lambda i, o, ct: ct, lambda i, o, ct: None, lambda i, o, ct: (ct.sum(), ct)):
        with refused("KB2103", kernbridge.DerivativeRuleError):
            gradient(wrong)
    first, second = gradient(lambda inputs, outputs, ct: (ct, None))  # None in a tuple is zero
    equal(first, [1, 1, 1])
    equal(second, [0, 0, 0])


def test_kb2104():
    op = numba_kernel(double, lambda x: x)
    batched = functools.reduce(lambda f, _: jax.vmap(f), range(17), op)
    with refused("KB2104", NotImplementedError):
        batched(jnp.ones((1,) * 17 + (3,)))
    y = jnp.arange(6.0).reshape((1,) * 15 + (2, 1, 3))
    merged = functools.reduce(lambda f, _: jax.vmap(f), range(16), op)
    equal(merged(y.reshape((1,) * 15 + (2, 3))).reshape(y.shape), 2 * y)


def test_kb2105():
    def surrogate(inputs, outputs, ct):
        return (3 * ct,)

    op = numba_kernel(double, lambda x: x, vjp=surrogate)
    with refused("KB2105", kernbridge.RuleCheckError) as caught:
        check_rules(op, X)
    assert "at (" in str(caught.value)  # the element
    check_rules(op, X, finite_differences=False)
    check_rules(numba_kernel(double, lambda x: x, vjp=lambda i, o, ct: (2 * ct,)), X)


def test_kb2106():
    op = numba_kernel(double, F32)
    with refused("KB2106"):
        op.plan(X)
    assert op.inspect(X)


# 3: running a kernel


def test_kb3001():
    @numba.njit
    def beyond(x, out):
        for i in range(out.size):
            out[i] = 2 * x[i + 1] if i < 2 else x[i + 1]

    with refused("KB3001", jax.errors.JaxRuntimeError) as caught:
        jax.block_until_ready(numba_kernel(beyond, F32, check=True)(X))
    assert f"(in beyond at {__file__}:" in str(caught.value)
    assert "IndexError: index 3 is out of bounds for axis 0 of array 'x'" in str(caught.value)
    jax.block_until_ready(numba_kernel(beyond, F32)(X))  # reads whatever is there


LEFT_OUT = """
import jax, jax.numpy as jnp, numba, kernbridge

@numba.njit
def first(x, out):
    out[0] = x[0]

def run(**options):
    outs = jax.ShapeDtypeStruct((3,), jnp.float32)
    try:
        return kernbridge.numba_kernel(first, outs, **options)(jnp.ones(3)).tolist()
    except jax.errors.JaxRuntimeError as e:
        return "KB3002" in str(e)

print(run(), run(zero_outputs=True))
"""


def test_kb3002(run_python):
    assert run_python(LEFT_OUT, KERNBRIDGE_DEBUG="poison") == "True [1.0, 0.0, 0.0]\n"


# 4: compiling


def compiled(kernel, **options):
    return numba_kernel(kernel, F32, **options)(X)


def test_kb4001():
    @numba.njit
    def calls_jax(x, out):
        out[:] = jnp.sin(x)

    with refused("KB4001", kernbridge.KernelCompilationError):
        compiled(calls_jax)
    with pytest.raises(numba.TypingError, match="jax"):  # without kernbridge, as the page advises
        calls_jax(np.ones(3, np.float32), np.ones(3, np.float32))


def test_kb4002():
    @numba.njit
    def returns(x, out):
        return x[0]

    with refused("KB4002", TypeError):
        compiled(returns)


def test_kb4003():
    @numba.njit
    def writes(x, out):
        x[0] = 7
        out[0] = x[0]

    def written(x, out):
        local = x.copy()
        local[0] = 7
        out[:] = local

    with warned("KB4003"):
        assert compiled(writes)[0] == 7
    equal(X, [0, 1, 2])
    with silent():
        equal(compiled(numba.njit(written)), [7, 1, 2])
        equal(numba_kernel(increment, F32, input_output_aliases={0: 0})(X), X + 1)
    read_only = numba.types.Array(numba.float32, 1, "C", readonly=True)
    with silent():
        declared = numba.njit([(read_only, numba.float32[::1])])(double.py_func)
        equal(compiled(declared), 2 * X)


# 6: sharding and export


def test_kb6001():
    for rule in ("i j", "ij,jk->ik"):
        with refused("KB6001"):
            numba_kernel(double, F32, sharding_rule=rule)(X)
    doubled(numba_kernel(double, F32, sharding_rule="i -> i"))


def test_kb6002():
    spec = jax.sharding.NamedSharding(MESH(), jax.sharding.PartitionSpec("d"))
    y = jax.device_put(jnp.arange(8.0), spec)
    with warned("KB6002"):
        equal(jax.jit(numba_kernel(double, lambda x: x))(y), 2 * np.arange(8.0))
    with silent():
        ruled = jax.jit(numba_kernel(double, lambda x: x, sharding_rule="i -> i"))
        equal(ruled(y), 2 * np.arange(8.0))
        inside = jax.shard_map(
            numba_kernel(double, lambda x: x),
            mesh=MESH(),
            in_specs=jax.sharding.PartitionSpec("d"),
            out_specs=jax.sharding.PartitionSpec("d"),
        )
        equal(jax.jit(inside)(y), 2 * np.arange(8.0))


def test_kb6102():
    @numba.njit
    def local(x, out):
        with numba.objmode():
            print(end="")
        out[:] = x

    with refused("KB6101", ValueError):
        jax.export.export(jax.jit(numba_kernel(local, F32)))(F32)


# 7: platforms


def test_kb7001():
    run = jax.jit(numba_kernel(double, F32))
    with refused("KB7001", kernbridge.KernelNotAvailableError):
        jax.export.export(run, platforms=["cuda"])(F32)

    def chosen(x):
        return jax.lax.platform_dependent(x, cpu=run, default=lambda x: 2 * x)

    equal(jax.jit(chosen)(X), 2 * X)
    exported = jax.export.export(jax.jit(chosen), platforms=["cpu", "cuda"])(F32)
    equal(exported.call(X), 2 * X)


def custom(name, **kernels):
    op = XLACustomKernel(f"remedies_{name}")
    for backend, generator in kernels.items():
        op.def_kernel(backend, "cpu", generator)
    return op


def generator(outs, **_):
    return numba_kernel(double, outs)


def test_kb7006():
    op = custom("platform")
    for platform in ("gpus", 3):
        with refused("KB7006"):
            op.def_kernel("numba", platform, generator)
    op = custom("backend", numba=generator)
    with refused("KB7006") as caught:
        op(X, outs=[F32], backend="cpp")
    assert "'numba' on cpu" in str(caught.value)
    equal(op(X, outs=[F32])[0], 2 * X)
    op.def_kernel("cpp", "cpu", generator)
    equal(op(X, outs=[F32], backend="cpp")[0], 2 * X)


def test_kb7007():
    op = custom("ignored", numba=generator)
    config.set_backend("cpu", "nmuba")
    try:
        with warned("KB7007"):
            equal(op(X, outs=[F32])[0], 2 * X)
        op.def_kernel("nmuba", "cpu", lambda outs: lambda x: [3 * x])
        with silent():
            equal(op(X, outs=[F32])[0], 3 * X)
    finally:
        config.set_backend("cpu", None)


# 8: settings, benchmarks, custom operations


def test_kb8001():
    with refused("KB8001", ValueError) as caught:
        config.set_cuda_on_cpu(False)
    assert "'compile' or 'error'" in str(caught.value)
    with refused("KB8001"):
        config.set_exported_code("never")
    with refused("KB8001"):
        config.set_cuda_architectures("hopper")


def test_kb8005():
    op = custom("data", numba=generator)
    with refused("KB8005", ValueError):
        op.benchmark(platform="cpu")
    op.def_call(lambda x: op(x, outs=[F32]))
    with refused("KB8005", kernbridge.BenchmarkDataFnNotProvidedError):
        op.benchmark(platform="cpu")
    op.def_benchmark_data(
        lambda *, platform: [kernbridge.BenchmarkConfig("three", (X,))]
    )
    result = op.benchmark(platform="cpu", n_runs=1, n_warmup=1)
    assert [r.label for r in result] == ["three"]
    with refused("KB8005"):
        op.benchmark(platform="cpu", n_runs=0)


def test_kb8006():
    with refused("KB8006", TypeError):
        custom("operation", numba=numba_kernel(double, F32))
    op = custom("function", numba=lambda outs: numba_kernel(double, outs))
    equal(op(X, outs=[F32])[0], 2 * X)


def test_kb8007():
    first = custom("twice", numba=generator)
    with warned("KB8007"):
        second = custom("twice")
    assert kernbridge.get_primitives_by_tags is not None
    equal(first(X, outs=[F32])[0], 2 * X)
    assert second is not first


def test_kb8008():
    op = custom("static", numba=generator)

    def run(x, a):
        return op(x, outs=[F32], alpha=a)[0]

    with refused("KB8008", TypeError):
        jax.jit(run)(X, 2.0)
    equal(jax.jit(run, static_argnames="a")(X, a=2.0), 2 * X)
    equal(jax.jit(lambda x: run(x, 2.0))(X), 2 * X)


ELSEWHERE = {}


def test_each_code_has_a_test():
    here = {name[5:].upper() for name in globals() if name.startswith("test_kb")}
    assert not here & ELSEWHERE.keys()
    print(sorted(error_pages.pages().keys() - here))
    assert os
