"""`kernbridge.inline`: JAX functions of scalars in kernels."""

import enum
import functools
import itertools

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest
from jax import lax
from jax.scipy import special
from kernbridge import numba_cuda_kernel, numba_kernel
from kernbridge._src.forge.obtain import held
from numba import cuda

POINTS = [-1.7, -0.6, -0.2, 0.1, 0.35, 0.8, 2.3]
UNITS = 2  # in the last place


def on_cpu(function, outs, *inputs):
    """Apply a function to elements, in a kernel that was made for the number of inputs."""
    inlined = kernbridge.inline(function)

    @numba.njit
    def of_one(x, out):
        for i in range(x.size):
            out[i] = inlined(x[i])

    @numba.njit
    def of_two(x, y, out):
        for i in range(x.size):
            out[i] = inlined(x[i], y[i])

    return numba_kernel(of_one if len(inputs) == 1 else of_two, outs)(*inputs)


def as_on_gpu(function, outs, *inputs):
    inlined = kernbridge.inline(function)

    @cuda.jit
    def of_one(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = inlined(x[i])

    @cuda.jit
    def of_two(x, y, out):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = inlined(x[i], y[i])

    kernel = of_one if len(inputs) == 1 else of_two
    return numba_cuda_kernel(kernel, outs, launch_dims=lambda x, *_: x.size)(*inputs)


def assert_as_jax(function, run, *inputs, units=UNITS):
    """Compare with JAX, and where JAX itself is not exact, with its values in float64."""
    mapped = jax.jit(jax.vmap(function))
    want = mapped(*inputs)
    got = np.asarray(run(function, jax.ShapeDtypeStruct(want.shape, want.dtype), *inputs))
    want = np.asarray(want)
    if want.dtype.kind != "f":
        np.testing.assert_array_equal(got, want)
        return
    wide = [np.asarray(x, np.float64) if x.dtype == np.float32 else x for x in inputs]
    with jax.enable_x64(True):
        exact = np.asarray(mapped(*wide), np.float64)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(got[np.isinf(want)], want[np.isinf(want)])
    finite = np.isfinite(want)
    got, want, exact = (a[finite].astype(np.float64) for a in (got, want, exact))
    unit = np.spacing(np.abs(want).astype(np.float32 if inputs[0].dtype == np.float32 else float))
    error, of_jax = np.abs(got - exact) / unit, np.abs(want - exact) / unit
    bound = np.maximum(units, 3 * of_jax)
    if inputs[0].dtype == np.float64:  # of which nothing more exact is known
        bound = 40 * units
    wrong = (np.abs(got - want) > units * unit) & (error > bound)
    assert not wrong.any(), (got, want, exact, error, of_jax)


def derivative(function, order):
    for _ in range(order):
        function = jax.grad(lambda *a, f=function: f(*a).astype(a[0].dtype))
    return function


OF_ONE = {
    jax.nn: "relu relu6 sigmoid softplus soft_sign silu log_sigmoid leaky_relu hard_sigmoid "
    "hard_silu hard_tanh elu celu selu gelu squareplus mish sparse_plus sparse_sigmoid identity",
    jnp: "abs exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh "
    "arcsinh arccosh arctanh sqrt cbrt square reciprocal sign floor ceil rint trunc deg2rad "
    "isfinite isnan negative sinc i0 nan_to_num signbit",
    special: "erf erfc erfinv gammaln digamma expit logit entr ndtr ndtri log_ndtr i0e i1 i1e",
}
OF_TWO = {
    jnp: "add subtract multiply divide power maximum minimum arctan2 hypot fmod mod floor_divide "
    "logaddexp copysign heaviside greater logical_and fmax fmin remainder nextafter",
    special: "xlogy xlog1py betaln zeta gammainc",
}
ALL = [
    pytest.param(getattr(module, name), n, id=f"{module.__name__}.{name}")
    for n, table in ((1, OF_ONE), (2, OF_TWO))
    for module, names in table.items()
    for name in names.split()
    if hasattr(module, name)
]


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", range(3))
@pytest.mark.parametrize(("function", "n"), ALL)
def test_functions_of_jax(function, n, order, dtype):
    with jax.enable_x64(dtype == np.float64):
        inputs = [jnp.array(POINTS, dtype), jnp.full(len(POINTS), 0.7, dtype)][:n]
        of_order = derivative(function, order)
        if function is special.zeta and order > (dtype == np.float32):
            pytest.skip("the series of the derivative cancel, in JAX too")
        try:
            jax.eval_shape(of_order, *(x[0] for x in inputs))
        except Exception as e:
            pytest.skip(f"JAX has no derivative: {e}")
        assert_as_jax(of_order, on_cpu, *inputs, units=UNITS * (1 + 2 * order))


def several(*functions):
    """A function that returns the value of the function whose number is its second argument."""

    def chosen(x, i):
        return lax.switch(i, [lambda x, f=f: f(x).astype(x.dtype) for f in functions], x)

    return chosen


@pytest.mark.brief
@pytest.mark.parametrize("run", [on_cpu, as_on_gpu])
def test_a_dozen_functions(run):
    functions = [
        *(jax.grad(jnp.tanh), jax.grad(jax.nn.softplus), jax.nn.gelu, jnp.log2, jnp.sinc, jnp.cbrt),
        *(jnp.floor, jnp.rint, special.erfinv, special.digamma, special.log_ndtr, special.i1e),
    ]
    pairs = list(itertools.product(POINTS, range(len(functions))))
    x, i = (jnp.array(a) for a in zip(*pairs, strict=True))
    assert_as_jax(several(*functions), run, x.astype(np.float32), i.astype(np.int32))


BITS = [0, 1, 2, 5, 31, 32, -1, -7, 2**31 - 1, -(2**31)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("run", [on_cpu, as_on_gpu])
@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int8, np.int64, np.uint64])
def test_integers(run, dtype):
    operations = [
        *(lax.div, lax.rem, lax.shift_left, lax.shift_right_logical, lax.shift_right_arithmetic),
        *(lax.bitwise_xor, lambda x, y: ~x | y, lax.max, lambda x, y: x // jnp.where(y == 0, 3, y)),
        *(lambda x, y: lax.population_count(x) + y, lambda x, y: lax.clz(x), lambda x, y: -x * y),
        *(lambda x, y: jnp.sign(x), lambda x, y: jnp.abs(x), lambda x, y: x**3),
        lambda x, y: lax.bitcast_convert_type(x, dtype),
    ]
    if np.dtype(dtype).kind == "u":
        operations.pop(4)
    with jax.enable_x64(np.dtype(dtype).itemsize == 8):
        pairs = np.array(list(itertools.product(BITS, BITS)), np.int64).astype(dtype)

        def together(x, y):
            total = jnp.zeros_like(x)
            for operation in operations:
                total = total * dtype(31) + operation(x, y).astype(dtype)
            return total

        assert_as_jax(together, run, *jnp.array(pairs).T)


@pytest.mark.brief
@pytest.mark.parametrize("run", [on_cpu, as_on_gpu])
@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.int64, np.uint64, np.bool_])
def test_casts_beyond_the_range(run, dtype):
    with jax.enable_x64(np.dtype(dtype).itemsize == 8):
        x = jnp.array([0.0, -0.7, 1.9, 300.5, -3e9, 3e9, 1e30, -1e30, np.inf, np.nan], np.float32)
        assert_as_jax(lambda x: x.astype(dtype), run, x)
        assert_as_jax(lambda x: lax.bitcast_convert_type(x, np.int32).astype(dtype), run, x)


def looped(x, n):
    """All kinds of control flow, an array of four elements, and a function that is jitted."""
    total = lax.fori_loop(0, n, lambda i, t: t + x / (i + 1), x)
    total, powers = lax.scan(lambda c, w: (c * x + w, c), total, jnp.arange(4.0))
    total = lax.while_loop(lambda t: jnp.abs(t) > 1, lambda t: t / 2, total)
    total += (
        lax.cond(n > 2, jnp.sin, lambda v: -v, x) + powers.sum() + jnp.dot(powers, powers[::-1])
    )
    total += jnp.max(jnp.stack([x, total, -total]).reshape(3, 1).T) + jnp.select(
        [n > 3], [x], total
    )
    return jax.jit(lambda t: jax.checkpoint(jnp.arctan)(t))(total)


@pytest.mark.brief
@pytest.mark.parametrize("run", [on_cpu, as_on_gpu])
@pytest.mark.parametrize("function", [looped, jax.jacfwd(looped)])
def test_control_flow(run, function):
    x, n = jnp.array(POINTS, np.float32), jnp.arange(len(POINTS), dtype=np.int32)
    want = jax.vmap(function)(x, n)
    got = run(function, jax.ShapeDtypeStruct(x.shape, x.dtype), x, n)
    np.testing.assert_allclose(got, want, rtol=2e-5)


def in_another_order(a):
    try:
        return lax.broadcast_in_dim(a, (3, 4, 2), (2, 0))
    except TypeError:  # in older versions of JAX, axes keep their order
        return lax.broadcast_in_dim(a.T, (3, 4, 2), (0, 2))


def with_gaps(a):
    return lax.pad(a, a[1, 0], [(-1, 3, 2), (1, -1, 1)])


def by_columns(a):
    return a.reshape((3, 2), order="F")


@pytest.mark.parametrize("place", [in_another_order, with_gaps, by_columns])
def test_elements_are_placed_as_by_jax(place):
    def function(x, y):
        placed = place(jnp.stack([x, y, x * y, x + y, x - y, 2 * x]).reshape(2, 3))
        return (placed * np.arange(placed.size, dtype=np.float32).reshape(placed.shape)).sum()

    x, y = jnp.array([1.5, -2, 0.25]), jnp.array([3, 0.5, -1.0])
    got = on_cpu(function, jax.ShapeDtypeStruct(x.shape, x.dtype), x, y)
    np.testing.assert_allclose(got, jax.vmap(function)(x, y), rtol=1e-6)


def test_dtypes_are_those_of_the_kernel():
    """A float64 remains one although `jax_enable_x64` is not set."""
    third = kernbridge.inline(lambda x: (x / 3, x > 1, jnp.int32(x)))

    @numba.njit
    def kernel(x, out):
        exact, is_large, whole = third(np.float64(x[()]))
        out[0] = exact == x[()] / np.float64(3)
        out[1] = is_large
        out[2] = whole == 7

    assert not jax.config.jax_enable_x64
    np.testing.assert_array_equal(
        numba_kernel(kernel, jax.ShapeDtypeStruct((3,), np.bool_))(np.float32(7)), True
    )


def applied(function):
    inlined = kernbridge.inline(function)

    @numba.njit
    def call(v):
        return inlined(v)

    @numba.njit
    def apply(x, out):
        for i in range(x.size):
            out[i] = call(x[i])

    return apply


@pytest.mark.exhaustive
def test_equal_kernels_of_other_functions():
    """Kernels whose code differs only in a function that they call share no machine code."""
    x = jnp.array(POINTS, np.float32)
    scale = jnp.float32(2.5)
    functions = [
        jnp.sin,
        lambda x: x * scale,
        functools.partial(jax.nn.leaky_relu, negative_slope=3),
    ]
    functions += [lambda x: jnp.where(x.dtype == np.int32, 2, 3) * x]
    for function in functions:
        got = numba_kernel(applied(function), lambda x: x)(x)
        np.testing.assert_allclose(got, function(x), rtol=1e-6)
    whole = jnp.arange(4)
    for factor in (2, 3):  # differ for integers alone

        def scaled(x, factor=factor):
            return x * factor if x.dtype == np.int32 else x

        op = numba_kernel(applied(scaled), lambda x: x)
        np.testing.assert_array_equal(op(x), x)
        np.testing.assert_array_equal(op(whole), factor * whole)


PROGRAM = """
import jax, jax.numpy as jnp, kernbridge, numba, numba.core.compiler, numpy as np
from numba import cuda
if not COMPILES:
    numba.core.compiler.compile_extra = numba.cuda.compiler.compile_cuda = None
    numba.cuda.dispatcher.compile_cuda = None
x = jnp.ones(4)
for factor in (2.0, 3.0):
    silu = kernbridge.inline(lambda x: jax.nn.silu(x) * factor)
    @numba.njit
    def kernel(x, out):
        for i in range(x.size):
            out[i] = silu(x[i])
    @cuda.jit
    def on_gpu(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = silu(x[i])
    for op in (
        kernbridge.numba_kernel(kernel, lambda x: x),
        kernbridge.numba_cuda_kernel(on_gpu, lambda x: x, launch_dims=4),
    ):
        np.testing.assert_allclose(op(x), jax.nn.silu(x) * factor, rtol=1e-6)
"""


@pytest.mark.exhaustive
@pytest.mark.once
def test_a_second_process_compiles_nothing(root, run_python):
    for compiles in ("True", "False"):
        run_python(PROGRAM.replace("COMPILES", compiles))


ASKED = """
import jax, jax.numpy as jnp, kernbridge, numba, numpy as np
x = jnp.array([1.5, -2.5])
def halved(v): return v / 2
def whole(v): return jnp.int32(v * 2)
def positive(v): return v > 0

def by_number(f):
    g = kernbridge.inline(f)
    def call(a): return g(a)
    return kernbridge.elementwise(call)(x)

def by_array(f):
    g = kernbridge.inline(f)
    def call(a): return np.array([g(a[0]), g(a[1])])
    return kernbridge.kernel(numba.njit(call))(x)

def helped(f):
    g = kernbridge.inline(f)
    @numba.njit
    def helper(a): return g(a), 1
    def call(a): return helper(a)[0]
    return kernbridge.elementwise(call)(x)

def fixed(f): return kernbridge.elementwise(lambda v, f: f(v), static={"f": f})(x)
def given(f): return kernbridge.elementwise(lambda v, f: f(v))(x, f=f)
def given_whole(f):
    @kernbridge.kernel
    @numba.njit
    def call(v, f): return np.array([f(v[0]), f(v[1])])
    return call(x, f=f)

def extent(f):
    g = kernbridge.inline(lambda v: jnp.int32(v * 0 + f.__code__.co_firstlineno))
    def call(a): return np.zeros(g(a[0]))
    return kernbridge.kernel(numba.njit(call))(x).shape[0] - f.__code__.co_firstlineno

for ask in (ASKING):
    for f in (ORDER):
        got, want = ask(f), 0 if ask is extent else jax.vmap(f)(x)
        assert ask is extent or got.dtype == want.dtype, (ask, f, got, want)
        np.testing.assert_array_equal(got, want, str((ask, f)))
"""


@pytest.mark.parametrize(
    "asking",
    [
        "by_number, extent",
        pytest.param(
            "by_number, by_array, helped, fixed, given, given_whole, extent",
            marks=pytest.mark.exhaustive,
        ),
    ],
)
@pytest.mark.once
def test_results_are_those_of_the_inlined_function(run_python, asking):
    """Kernels that differ in it alone return other dtypes and shapes, in other processes too."""
    for order in ("halved, whole, positive", "positive, halved, whole"):
        run_python(ASKED.replace("ASKING", asking).replace("ORDER", order))


@pytest.mark.once
def test_another_setting_of_64_bits():
    """A function that Numba has compiled for one setting is not linked for the other."""
    inlined = kernbridge.inline(lambda v: jnp.asarray(v, float) + 1e-9)

    @numba.njit
    def helper(v):
        return inlined(v)

    op = kernbridge.elementwise(lambda v: helper(v))
    assert op(np.float32(3)).dtype == np.float32
    with (
        jax.enable_x64(True),
        pytest.raises(kernbridge.errors.KernelCompilationError, match="jax_enable_x64 is True now"),
    ):
        op(np.float32(3))


@pytest.mark.parametrize("run", ["vmap", "check", "export"])
def test_calls_of_other_kinds(run):
    x = jnp.array(POINTS, np.float32)
    op = numba_kernel(applied(jax.nn.gelu), lambda x: x, check=run == "check")
    if run == "vmap":
        np.testing.assert_allclose(jax.vmap(op)(jnp.stack([x, -x]))[1], jax.nn.gelu(-x), rtol=1e-5)
    elif run == "check":
        np.testing.assert_allclose(op(x), jax.nn.gelu(x), rtol=1e-5)
    else:
        program = jax.export.export(jax.jit(op))(x).serialize()
        got = jax.export.deserialize(program).call(x)
        np.testing.assert_allclose(got, jax.nn.gelu(x), rtol=1e-5)


def test_an_array_is_iterated_over():
    """JAX 0.12 has a primitive of its own for this."""
    x = jnp.array(POINTS, np.float32)

    def function(v):
        return sum(k * row[1] for k, row in enumerate(jnp.ones((2, 3)) * jnp.stack([v, v * v, v])))

    np.testing.assert_allclose(on_cpu(function, x, x), x * x, rtol=1e-6)


def refused(function, *inputs):
    with pytest.raises(kernbridge.errors.KernelCompilationError) as e:
        on_cpu(function, jax.ShapeDtypeStruct((3,), np.float32), *inputs)
    return str(e.value)


def test_what_cannot_be_inlined():
    x, table = jnp.ones(3), jnp.ones(100)
    here = f"({__file__}:"
    text = refused(lambda x: jnp.sort(jnp.stack([x, -x]))[0], x)
    assert "kernbridge.inline(<lambda>): the primitive 'sort' " + here in text
    text = refused(lambda x: jnp.float16(x) * x, x)
    assert "the primitive 'convert_element_type' " + here in text
    assert "<lambda>) returns float16, which kernels do not compute" in text
    assert "'reduce_sum' " + here in refused(lambda x: x * jnp.zeros((0,)).sum(), x)
    assert "reads an array of shape (100,)" in refused(lambda x: x * table.sum(), x)
    assert "expected a scalar or a tuple of scalars" in refused(lambda x: {"a": x}, x)
    assert "JAX cannot trace the function for (float32, float32)" in refused(lambda x: x, x, x)
    text = refused(lambda x: x, jnp.ones((3, 2)))
    assert "argument 0 is array(float32, 1d, C), expected a scalar" in text
    with pytest.raises(TypeError, match="KB1005"):
        kernbridge.inline(3)


def test_outside_of_kernels():
    silu = kernbridge.inline(jax.nn.silu)
    assert kernbridge.inline(silu) is silu
    assert repr(silu) == "<kernbridge.inline(silu)>"
    np.testing.assert_array_equal(silu(jnp.ones(3)), jax.nn.silu(jnp.ones(3)))


class Mode(enum.Enum):
    PLAIN = 1
    NEGATED = 2


@numba.njit
def activated(x, activation, scale, mode, out, name="identity"):
    for i in range(x.size):
        value = activation(x[i]) * scale
        if mode is not None and mode == Mode.NEGATED:
            value = -value
        out[i] = value + (1 if name == "one more" else 0)


@cuda.jit
def activated_on_gpu(x, activation, scale, mode, out):
    i = cuda.grid(1)
    if i < x.size:
        value = activation(x[i]) * scale
        out[i] = -value if mode == Mode.NEGATED else value


def like(x, **_):
    return x


def taking_functions(run, **static):
    if run == "cpu":
        return numba_kernel(activated, like, static=static)
    return numba_cuda_kernel(activated_on_gpu, like, launch_dims=7, static=static)


@pytest.mark.brief
@pytest.mark.parametrize("run", ["cpu", "cuda"])
def test_functions_as_arguments(run):
    x = jnp.array(POINTS, np.float32)
    op = taking_functions(run, mode=Mode.PLAIN)

    @numba.njit
    def cubed(v):
        return v**3

    for function in (jnp.sin, jax.grad(jnp.sin), lambda v: 3 * v, kernbridge.inline(jnp.cos)):
        want = 2 * jax.vmap(function)(x)
        np.testing.assert_allclose(op(x, activation=function, scale=2.0), want, rtol=1e-6)
        jitted = jax.jit(functools.partial(op, activation=function))
        np.testing.assert_allclose(jitted(x, scale=2.0), want, rtol=1e-6)
    np.testing.assert_allclose(op(x, activation=cubed, scale=1.0), x**3, rtol=1e-6)
    fixed = taking_functions(run, activation=jnp.sin, mode=Mode.NEGATED, scale=2.0)
    np.testing.assert_allclose(fixed(x), -2 * jnp.sin(x), rtol=1e-6)
    np.testing.assert_allclose(fixed(x, activation=jnp.cos), -2 * jnp.cos(x), rtol=1e-6)
    assert taking_functions(run, activation=jnp.sin, mode=Mode.NEGATED, scale=2.0) is fixed
    assert fixed.__wrapped__ in (activated, activated_on_gpu)
    with pytest.raises(TypeError, match=r"no parameter 'function', which the call passes"):
        op(x, function=jnp.sin, scale=2.0)


def test_static_arguments_on_cpus():
    x = jnp.array(POINTS, np.float32)
    op = taking_functions("cpu", activation=abs, mode=None, scale=np.float32(2), name="one more")
    np.testing.assert_allclose(op(x), 2 * abs(x) + 1)
    op = taking_functions("cpu", activation=np.sin, mode=None)
    np.testing.assert_allclose(op(x, scale=3.0), 3 * np.sin(x), rtol=1e-6)
    with pytest.raises(ValueError, match=r"static contains 'other'.*\[KB1103\]"):
        taking_functions("cpu", other=1)
    for value, words in ((np.ones(3), "ndarray"), ((1, [2]), "list, in a tuple")):
        with pytest.raises(TypeError, match=f"type {words}; expected None.*Pass arrays as inputs"):
            taking_functions("cpu", scale=value)


def test_equal_functions_are_compiled_once():
    x = jnp.array(POINTS, np.float32)
    op, before = taking_functions("cpu", mode=None), len(held("numba_cpu_code"))
    for _ in range(3):
        op(x, activation=lambda v: v * 7, scale=1.0)
    assert len(held("numba_cpu_code")) == before + 1
    op(x, activation=lambda v: v * 8, scale=1.0)
    assert len(held("numba_cpu_code")) == before + 2
