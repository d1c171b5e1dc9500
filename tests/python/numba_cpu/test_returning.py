"""Functions that return values: `elementwise`, `guvectorize`, and functions that return arrays."""

import logging
import math
import os
import signal
import threading
import warnings

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from returning_functions import ENZYME, damped, filtered, mixed, polar, positive, quantile, summary

pytestmark = pytest.mark.once
FAILURES = (jax.errors.JaxRuntimeError, ValueError)
DTYPES = (
    "bool",
    "int8",
    "int32",
    "int64",
    "uint16",
    "float32",
    "float64",
    "complex64",
    "complex128",
)


def numbers(dtype, *shape, seed=0):
    drawn = np.random.default_rng(seed).uniform(1, 9, (*shape, 2))
    if np.dtype(dtype).kind == "c":
        return (drawn[..., 0] + 1j * drawn[..., 1]).astype(dtype)
    return (drawn[..., 0] > 5).astype(dtype) if dtype == "bool" else drawn[..., 0].astype(dtype)


@pytest.mark.brief
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_are_those_of_numba(x64, dtype):
    x, y = numbers(dtype, 3, 1), numbers(dtype, 5, seed=1)
    expected = numba.vectorize(lambda x, y: x * x + y)(x, y)
    found = jax.jit(mixed)(x, y)
    assert (found.dtype, found.shape) == (expected.dtype, (3, 5))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_narrow_dtypes_where_jax_has_no_others(recwarn):
    found = mixed(jnp.arange(4), jnp.float32(0.5))
    assert found.dtype == jnp.float32
    assert not recwarn.list
    np.testing.assert_array_equal(found, [0.5, 1.5, 4.5, 9.5])


SHAPES = [
    ((), ()),
    ((4,), ()),
    ((1, 1), (3,)),
    ((2, 3), (2, 1)),
    ((2, 1, 4), (3, 1)),
    ((5, 1, 3, 2), (5, 4, 1, 1)),
    ((2, 3, 4), (2, 3, 4)),
    ((0, 3), (1, 3)),
    ((3, 1, 2, 1, 5), (2, 1, 5)),
]


@pytest.mark.brief
@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_broadcasts_as_numpy(left, right):
    x, y = numbers("float32", *left), numbers("float32", *right, seed=1)
    expected = x * x + y
    found = mixed(x, y)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_vmap_is_nested_and_mixed():
    x, y = numbers("float32", 4, 3, 2), numbers("float32", 5, 2, seed=1)
    inner = jax.vmap(mixed, (None, 0), 1)
    found = jax.jit(jax.vmap(jax.vmap(inner, (0, None)), (1, None)))(x, y)
    expected = np.moveaxis(x, 1, 0)[..., None] ** 2 + y.T
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    rows = jax.vmap(lambda x, y: mixed(x, y[:, None]), (2, 0), 2)(x, y[:2, :1])
    np.testing.assert_allclose(rows, x**2 + y[:2, 0], rtol=1e-6)


def test_a_batch_is_one_call_of_the_loop():
    def text(f, *args):
        return jax.jit(f).lower(*args).as_text()

    x = jnp.ones((64, 8))
    batch = text(jax.vmap(lambda row: mixed(row, 2.0)), x)
    assert batch.count("custom_call @kernbridge") == 1
    assert "(tensor<64x8xf32>, tensor<1x1xf32>) -> tensor<64x8xf32>" in batch


@pytest.mark.exhaustive
def test_numbers_names_and_defaults():
    x = jnp.array([3.0, 0.0])
    np.testing.assert_allclose(polar(x)[0], np.hypot(x, 1), rtol=1e-6)
    np.testing.assert_allclose(polar(y=2, x=x)[1], np.arctan2(2, x), rtol=1e-6)
    np.testing.assert_allclose(polar(x, y=x)[0], np.hypot(x, x), rtol=1e-6)
    assert mixed(jnp.float32(1), 2.0).shape == ()


@pytest.mark.exhaustive
def test_python_floats_have_the_precision_of_arrays(x64):
    x = jnp.ones(3, jnp.float32)
    assert mixed(x, 2.5).dtype == jnp.float32
    assert mixed(x, jnp.float64(2.5)).dtype == jnp.float64
    assert mixed(jnp.ones(3, jnp.complex64), 2.5).dtype == jnp.complex64
    assert mixed(jnp.arange(3), 2.5).dtype == jnp.float64


@pytest.mark.exhaustive
def test_declared_types_convert_as_numpy(x64):
    @numba.vectorize(["f4(f4)", "f8(f8)"])
    def third(x):
        return x / 3

    op = kernbridge.kernel(third)
    for dtype in ("int8", "int32", "float32", "float64"):
        x = numbers(dtype, 4)
        assert op(x).dtype == third(x).dtype
        np.testing.assert_array_equal(op(x), third(x))
    with pytest.raises(TypeError, match=r"complex64.*\[KB2003\]"):
        op(jnp.ones(2, jnp.complex64))


@pytest.mark.brief
@pytest.mark.parametrize(
    "declare",
    [
        lambda f: kernbridge.elementwise(numba.njit("f4(f4, u1)")(f)),
        lambda f: kernbridge.elementwise(numba.vectorize(["f4(f4, u1)"])(f)),
        lambda f: kernbridge.kernel(numba.njit("f4[::1](f4[::1], u1)")(f)),
        lambda f: kernbridge.kernel("x: f32[n], k: u8 -> f32[n]")(numba.njit(f)),
        lambda f: kernbridge.kernel(
            numba.guvectorize(["(f4[:], u1, f4[:])"], "(n),()->(n)")(fill_product)
        ),
    ],
)
def test_numbers_that_a_declared_type_does_not_hold(declare):
    op, x = declare(lambda x, k: x * np.float32(k)), jnp.arange(3.0)
    for k in 3, np.uint8(3), jnp.asarray(3):
        np.testing.assert_array_equal(op(x, k), 3 * x)
    for k in 300, -1, jnp.asarray(300):
        with pytest.raises(TypeError, match=r"'k' is -?\d+, which is out of range for uint8"):
            op(x, k)
    with pytest.raises(TypeError, match=r"'k' is traced, and may be out of range for uint8"):
        jax.jit(op)(x, 3)
    with pytest.raises(TypeError, match=r"i(nt)?32.*\[KB200[37]\]"):
        op(x, np.int32(3))


def fill_product(x, k, out):
    for i in range(x.size):
        out[i] = x[i] * k


@pytest.mark.exhaustive
def test_a_signature_names_the_order_of_a_call_and_omits_static_arguments():
    scaled = numba.njit(lambda x, k, c: x * k + c)
    op = kernbridge.kernel("k: f32, x: f32[n] -> f32[n]", static={"c": np.float32(1)})(scaled)
    for made in op(2, jnp.ones(2)), op(x=jnp.ones(2), k=2.0):
        np.testing.assert_array_equal(made, [3, 3])
    assert [*op.__signature__.parameters] == ["k", "x"]


def test_scan_and_loops():
    def step(x, _):
        return mixed(x, -0.75), x[0]

    last, first = jax.lax.scan(step, jnp.full(3, 0.1), length=6)
    x = np.float32(0.1)
    for k in range(6):
        assert first[k] == pytest.approx(x, rel=1e-5)
        x = x * x - np.float32(0.75)
    np.testing.assert_allclose(last, np.full(3, x), rtol=1e-5)


def of_jax(x, k, w):
    return jnp.exp(-k * x) * jnp.cos(w * x)


@pytest.mark.exhaustive
def test_derivatives_of_a_broadcast_call():
    x, k, w = jnp.linspace(0, 1, 12).reshape(3, 4), jnp.ones((3, 1)) / 2, jnp.float32(3)

    def loss(f):
        return lambda *args: (f(*args) ** 2).sum()

    if ENZYME is None:
        pytest.skip("needs the extension 'enzyme'")
    try:
        found = jax.grad(loss(damped), (0, 1, 2))(x, k, w)
    except kernbridge.errors.KernelToolchainError:
        pytest.skip("Enzyme is not installed")
    for mine, theirs in zip(found, jax.grad(loss(of_jax), (0, 1, 2))(x, k, w), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)
    rows = jax.vmap(jax.grad(loss(damped), 1), (0, 0, None))(x, k, w)
    np.testing.assert_allclose(rows, found[1], rtol=1e-4, atol=1e-5)
    hessian = jax.jacfwd(jax.grad(lambda w: loss(damped)(x, k, w)))(w)
    expected = jax.jacfwd(jax.grad(lambda w: loss(of_jax)(x, k, w)))(w)
    np.testing.assert_allclose(hessian, expected, rtol=1e-3)


def test_rules_of_the_user():
    def backward(inputs, outputs, ct):
        return 2 * inputs[0] * ct, ct

    op = kernbridge.elementwise(lambda x, y: x * x + y, vjp=backward)
    x, y = jnp.arange(6.0).reshape(2, 3), jnp.arange(3.0)
    dx, dy = jax.grad(lambda x, y: op(x, y).sum(), (0, 1))(x, y)
    np.testing.assert_array_equal(dx, 2 * x)
    np.testing.assert_array_equal(dy, [2, 2, 2])
    assert jax.grad(lambda y: op(x, y).sum())(1.0) == 6
    forward = kernbridge.elementwise(
        lambda x, y: x * x + y, jvp=lambda inputs, outputs, ts: 2 * inputs[0] * ts[0] + ts[1]
    )
    assert jax.jvp(lambda x: forward(x, x).sum(), (x,), (jnp.ones_like(x),))[1] == 36


def test_shards_every_axis():
    mesh = jax.make_mesh((2, 2), ("a", "b"))
    x = jax.device_put(jnp.ones((4, 6)), NamedSharding(mesh, PartitionSpec("a", "b")))
    y = jax.device_put(jnp.arange(6.0), NamedSharding(mesh, PartitionSpec("b")))
    compiled = jax.jit(mixed).lower(x, y).compile()
    assert "all-gather" not in compiled.as_text()
    found = compiled(x, y)
    assert found.sharding.is_equivalent_to(x.sharding, 2)
    np.testing.assert_array_equal(found, 1 + np.broadcast_to(np.arange(6), (4, 6)))


def test_guvectorize(x64):
    op = kernbridge.kernel(filtered)
    x, w = numbers("float32", 2, 1, 6), numbers("float32", 3, 2, seed=1)
    found = jax.jit(op)(x, w)
    expected = filtered(x, w)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    rows = jax.vmap(op, (0, None))(x, w[0])
    np.testing.assert_allclose(rows, filtered(x, w[0]), rtol=1e-6)
    many = kernbridge.kernel(quantile)(numbers("float64", 4, 1, 7), np.array([0.1, 0.5, 0.9]))
    np.testing.assert_array_equal(
        many, quantile(numbers("float64", 4, 1, 7), np.array([0.1, 0.5, 0.9]))
    )


def test_guvectorize_without_types_and_with_a_new_axis():
    @numba.guvectorize("(n),(m)->(m)")
    def thinned(x, like, out):
        for i in range(out.size):
            out[i] = x[i * x.size // out.size]

    with pytest.raises(TypeError, match=r"declares no types.*outs=.*\[KB1002\]"):
        kernbridge.kernel(thinned)
    op = kernbridge.kernel(lambda x, like: like)(thinned)
    x, like = jnp.arange(12.0).reshape(2, 6), jnp.zeros(3)
    np.testing.assert_array_equal(op(x, like), [[0, 2, 4], [6, 8, 10]])
    with pytest.raises(ValueError, match=r"`outs` has f32\[6\].*\(m\).*\(3,\).*\[KB1002\]"):
        kernbridge.kernel(lambda x, like: x)(thinned)(x, like)


def test_returned_arrays_and_numbers():
    x = jnp.array([[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]])
    ordered, mean, n = jax.jit(summary)(x[0], 2.0)
    np.testing.assert_array_equal(ordered, [2, 4, 6])
    assert (float(mean), int(n), mean.shape) == (2, 3, ())
    ordered, mean, n = jax.vmap(summary)(x, jnp.array([1.0, 10.0]))
    np.testing.assert_array_equal(ordered, [[1, 2, 3], [40, 50, 60]])
    np.testing.assert_array_equal(n, [3, 3])


@pytest.mark.exhaustive
def test_a_signature_shards_what_a_function_returns():
    @kernbridge.kernel("x: T[rows, n], k: T -> T[rows]", sharding_rule=True)
    @numba.njit
    def row_sums(x, k):
        return k * x.sum(axis=1)

    rows = NamedSharding(jax.make_mesh((4,), ("a",)), PartitionSpec("a"))
    compiled = jax.jit(row_sums).lower(jax.device_put(jnp.ones((4, 6)), rows), 2.0).compile()
    assert "all-gather" not in compiled.as_text()
    found = compiled(jax.device_put(jnp.arange(24.0).reshape(4, 6), rows), 2.0)
    assert found.sharding.is_equivalent_to(rows, 1)
    np.testing.assert_array_equal(found, [30, 102, 174, 246])
    assert "rows" in str(row_sums.__signature__)


@pytest.mark.exhaustive
def test_another_shape_than_that_of_the_trial_is_an_error(caplog):
    with caplog.at_level("INFO", "kernbridge"):
        np.testing.assert_array_equal(positive(jnp.arange(4.0)), [0, 1, 2, 3])
    with pytest.raises(FAILURES, match=r"positive.*shape.*\(3,\), \(4,\)"):
        positive(jnp.array([1.0, -1.0, 0.0, 2.0])).block_until_ready()


def test_a_shape_that_is_empty_for_zeros_alone_is_refused():
    for f in (lambda x: x[x > 0], lambda x: np.ones(int(x.sum())), lambda x: x[x > 5]):
        with pytest.raises(ValueError, match=r"depend on values.*static=.*\[KB1002\]"):
            kernbridge.kernel(numba.njit(f))(jnp.arange(3.0))
    x = jnp.array([[1, 7], [1, 2]])
    large = kernbridge.kernel(numba.njit(lambda x: x[x > 5]))  # also empty for ones
    for call, given in ((large, x[0]), (jax.vmap(large), x)):
        with pytest.raises(FAILURES, match=r"shape.*\(1,\), \(0,\)"):
            call(given).block_until_ready()
    assert large(x[1]).shape == (0,)
    mesh = jax.make_mesh((2,), ("a",), axis_types=(AxisType.Auto,))
    rows = NamedSharding(mesh, PartitionSpec("a"))
    with pytest.raises(ValueError, match=r"empty.*several devices.*\[KB1002\]"):
        large(jax.device_put(x[0], rows))


def test_a_trial_that_fails_says_so():
    @kernbridge.kernel
    @numba.njit
    def inverse(x):
        if x[0] <= 1:
            raise ValueError("too small")
        return 1 / x

    x = jnp.full(3, 2.0)
    with pytest.raises(ValueError, match=r"kernel 'inverse'.*zeros or ones.*small.*\[KB1002\]"):
        inverse(x)
    np.testing.assert_array_equal(kernbridge.kernel(lambda x: x)(inverse.__wrapped__)(x), 1 / x)
    with pytest.raises(ValueError, match=r"`outs` has i32\[3\].*float32.*\[KB1002\]"):
        kernbridge.kernel(lambda x: jax.ShapeDtypeStruct(x.shape, jnp.int32))(inverse.__wrapped__)(
            x
        )


def test_mistakes():
    with pytest.raises(TypeError, match=r"elementwise 'mixed': missing a required argument: 'y'"):
        mixed(1.0)
    with pytest.raises(ValueError, match=r"x: f32\[2\], y: f32\[3\].*\[KB2007\]"):
        mixed(jnp.ones(2), jnp.ones(3))
    with pytest.raises(ValueError, match=r"input 'x' is float8_e5m2.*\[KB2003\]"):
        mixed(jnp.ones(2, jnp.float8_e5m2), 1.0)
    whole = kernbridge.elementwise(lambda x: np.array([x, x]))
    with pytest.raises(TypeError, match=r"returns an? array.*\[KB4002\]"):
        whole(jnp.ones(2))
    nothing = kernbridge.elementwise(lambda x: None)
    with pytest.raises(TypeError, match=r"returns nothing, .*write `return`.*\[KB4002\]"):
        nothing(jnp.ones(2))
    with pytest.raises(
        kernbridge.errors.KernelCompilationError, match=r"float32; .* as a number.*\[KB4001\]"
    ):
        kernbridge.elementwise(lambda x: x.sort())(jnp.ones(2))
    with pytest.raises(TypeError, match=r"it has no input 'z'; .* is mixed\(x, y.*\[KB2001\]"):
        mixed(1.0, z=2.0)
    with pytest.raises(TypeError, match=r"static is 'y', expected a dict.*\[KB1103\]"):
        kernbridge.elementwise(lambda x, y: x, static="y")
    with pytest.raises(TypeError, match=r"elementwise: `function` is 3.*\[KB1001\]"):
        kernbridge.elementwise(3)
    with pytest.raises(ValueError, match=r"the axis 'n' of .*\[KB2007\]"):
        kernbridge.kernel(
            numba.guvectorize(["(f4[:], f4[:], f4[:])"], "(n),(n)->(n)")(lambda x, y, out: None)
        )(jnp.ones(2), jnp.ones(3))
    with pytest.raises(TypeError, match=r"grid is an option of numba_cuda_kernel.*\[KB1005\]"):
        kernbridge.kernel(grid=1)(mixed.__wrapped__)

    @numba.njit
    def fills(x, out):
        out[0] = x[0]

    with pytest.raises(TypeError, match=r"'fills'.*`return`.*outs=.*\[KB1002\]"):
        kernbridge.kernel(fills)


def test_an_error_names_the_function_and_its_line():
    @kernbridge.elementwise
    @numba.njit
    def root(x):
        if x < 0:
            raise ValueError("negative", x)
        return math.sqrt(x)

    with pytest.raises(FAILURES, match=r"elementwise 'root': ValueError.*-1"):
        root(jnp.array([4.0, -1.0])).block_until_ready()


def test_export_carries_the_loop():
    blob = jax.export.export(jax.jit(mixed))(jnp.ones((2, 3)), jnp.ones(3)).serialize()
    found = jax.export.deserialize(blob).call(jnp.full((2, 3), 2.0), jnp.arange(3.0))
    np.testing.assert_array_equal(found, [[4, 5, 6], [4, 5, 6]])
    n = jax.export.symbolic_shape("n")[0]
    shape = jax.ShapeDtypeStruct((n, 3), jnp.float32)
    exported = jax.export.export(jax.jit(mixed))(shape, jax.ShapeDtypeStruct((3,), jnp.float32))
    np.testing.assert_array_equal(exported.call(jnp.ones((4, 3)), jnp.zeros(3)), np.ones((4, 3)))
    twice = kernbridge.kernel(lambda x: x)(numba.njit(lambda x: x + x))
    for _ in range(2):  # each time with another n
        shape = jax.ShapeDtypeStruct(jax.export.symbolic_shape("n"), jnp.float32)
        exported = jax.export.export(jax.jit(twice))(shape)
    np.testing.assert_array_equal(exported.call(jnp.ones(4)), np.full(4, 2))


PROGRAM = """
import jax, jax.numpy as jnp, numba.core.compiler as compiler
from returning_functions import damped, summary
compiled, original = [], compiler.compile_extra
compiler.compile_extra = lambda *a, **k: compiled.append(1) or original(*a, **k)
x = jnp.arange(4.0)
print(damped(x, 1.0, 2.0).sum(), summary(x, 2.0)[1], len(compiled))
"""


@pytest.mark.exhaustive
def test_another_process_compiles_nothing(run_python, root):
    first, second = (run_python(PROGRAM, KERNBRIDGE_CACHE_DIR=str(root)).split() for _ in range(2))
    assert first[:2] == second[:2]
    assert int(first[2]) > 0
    assert second[2] == "0"


def test_attributes_are_those_of_the_function():
    assert damped.__doc__ == "A damped oscillation."
    assert damped.__name__ == "damped"
    assert str(damped.__signature__) == "(x, k, w)"
    assert "'damped'" in repr(damped)
    (code,) = damped.inspect(jnp.ones((2, 3)), 1.0, 2.0)
    assert code.name == "damped"
    assert "machine code" in code.export


def test_names_of_parameters_that_a_loop_might_use():
    @kernbridge.elementwise
    @numba.njit
    def mixed(f, n0, r, i0):
        return f * n0 + r, r - i0

    a, b = np.arange(4.0, dtype="f").reshape(2, 2), np.ones((1, 2), "f")
    found = mixed(a, b, a[:, :1], 2)
    np.testing.assert_array_equal(found[0], a * b + a[:, :1])
    np.testing.assert_array_equal(found[1], a[:, :1] - 2 + 0 * a)


def test_a_layout_whose_numbers_are_declared_as_arrays(recwarn):
    @numba.guvectorize(["void(float64[:], float64[:], float64[:])"], "(n),()->(n)")
    def scaled(x, f, out):
        for i in range(x.size):
            out[i] = x[i] * f[0]

    x = np.arange(3.0)
    with jax.enable_x64(True):
        op = kernbridge.kernel(scaled)
        np.testing.assert_array_equal(op(x, 2.0), scaled(x, 2.0))
        assert not recwarn.list  # nothing is copied
        np.testing.assert_array_equal(jax.vmap(op, (None, 0))(x, np.arange(2.0)), [0 * x, x])


FACTOR, TABLE = 1.0, np.zeros(2)


def test_globals_and_defaults_are_read_when_a_function_is_wrapped():
    """A function that was wrapped before had kept what it read then."""
    x = jnp.arange(3.0)

    def reads(v, k=1.0):
        return v * FACTOR + TABLE[1] + k

    @numba.njit
    def apply(v, f):
        return f(v)

    for value in (2.0, 3.0):
        globals()["FACTOR"], TABLE[1], reads.__defaults__ = value, 10 * value, (100 * value,)
        want = x * value + 110 * value
        np.testing.assert_array_equal(kernbridge.elementwise(reads)(x), want)
        np.testing.assert_array_equal(kernbridge.kernel(apply)(2.0, f=reads), want[2])
        static = kernbridge.elementwise(apply, static={"f": reads})
        np.testing.assert_array_equal(static(x), want)
        inlined = kernbridge.inline(reads)
        np.testing.assert_array_equal(kernbridge.elementwise(lambda v: inlined(v))(x), want)  # noqa: B023
    again = kernbridge.elementwise(reads)
    assert again is kernbridge.elementwise(reads)


def test_a_trial_that_does_not_end_is_ended(caplog):
    """Nothing ended it, not even Ctrl-C."""

    @kernbridge.kernel
    @numba.njit
    def flips(n):
        while n < 2:
            n = 1 - n
        return np.full(3, n)

    class Presses(logging.Handler):
        def emit(self, record):
            if "now on zeros" in record.getMessage():
                threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()

    log, presses = logging.getLogger("kernbridge"), Presses()
    log.addHandler(presses)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    with caplog.at_level("INFO", "kernbridge"), pytest.raises(KeyboardInterrupt):
        flips(12)
    log.removeHandler(presses)
    kernbridge.config.set_compiler_limits(seconds=0.5)
    try:
        with pytest.raises(
            ValueError, match=r"did not end within 0.5 s for zeros; pass outs=.*02\]"
        ):
            flips(12)
    finally:
        kernbridge.config.set_compiler_limits(seconds=600)
    declared = kernbridge.kernel(lambda n: jax.ShapeDtypeStruct((3,), jnp.int32))(flips.__wrapped__)
    np.testing.assert_array_equal(declared(12), [12] * 3)


@pytest.mark.exhaustive
def test_a_trial_of_a_parallel_loop_is_ended():
    """A forked process lacks Numba's threads, so that it ran in this process, without an end."""

    @numba.njit
    def doubled_until(v, least):
        while v < least:
            v = 2 * v if v > 0 else v
        return v

    @kernbridge.kernel
    @numba.njit(parallel=True)
    def each(x):
        out = np.empty(x.size)
        for i in numba.prange(x.size):
            out[i] = doubled_until(x[i], 5.0)
        return out

    kernbridge.config.set_compiler_limits(seconds=3)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            np.testing.assert_array_equal(each(jnp.arange(1.0, 8.0)), [8, 8, 6, 8, 5, 6, 7])
    finally:
        kernbridge.config.set_compiler_limits(seconds=600)


def test_equal_functions_with_variables_of_their_own():
    """They shared one dispatcher, which read the first one's variables for further types."""

    def read():
        space = {"FACTOR": 2.0}
        exec(compile("def scaled(x):\n    return x * FACTOR\n", "<the same>", "exec"), space)
        return space

    one, other = read(), read()
    of_one, of_other = (kernbridge.elementwise(space["scaled"]) for space in (one, other))
    assert list(of_one(jnp.arange(3.0))) == [0, 2, 4]
    one["FACTOR"] = 10.0
    assert list(of_other(jnp.arange(4))) == [0, 2, 4, 6]


def test_equal_closures_with_variables_of_their_own():
    def made():
        factor = 2.0

        def change(value):
            nonlocal factor
            factor = value

        return lambda x: x * factor, change

    (one, change), (other, _) = made(), made()
    of_one, of_other = kernbridge.elementwise(one), kernbridge.elementwise(other)
    assert list(of_one(jnp.arange(3.0))) == [0, 2, 4]
    change(10.0)
    assert list(of_other(jnp.arange(4))) == [0, 2, 4, 6]
