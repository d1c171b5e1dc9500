"""Keyword scalars, positional scalars, outputs as a function, dtypes that Numba lacks."""

import dataclasses
import inspect
import warnings

import jax
import jax.numpy as jnp
import kernbridge
import kernbridge._core as _core
import numba
import numpy as np
import pytest
from kernbridge import numba_kernel
from kernels import scale

S = jax.ShapeDtypeStruct
x = jnp.arange(5, dtype=jnp.float32)


def like_first(x, *_, **__):
    return S(x.shape, x.dtype)


def test_keywords_are_scalars_bound_by_name():
    op = numba_kernel(scale, like_first)
    for alpha in (2.5, np.float32(2.5), jnp.float32(2.5), 3, True):
        np.testing.assert_array_equal(op(x, alpha=alpha), np.asarray(x) * np.float32(alpha))


def test_keyword_values_compile_nothing():
    op = numba_kernel(scale, like_first)
    op(x, alpha=1.0)
    before = _core.registry_stats()
    traces = op._jitted._cache_size()
    for alpha in range(50):
        np.testing.assert_allclose(op(x, alpha=float(alpha)), alpha * np.asarray(x))
    assert _core.registry_stats() == before
    assert op._jitted._cache_size() == traces


def test_keyword_may_be_traced_and_mapped():
    op = numba_kernel(scale, like_first)
    np.testing.assert_allclose(jax.jit(lambda a: op(x, alpha=a))(4.0), 4 * np.asarray(x))
    alphas = jnp.arange(3.0)
    got = jax.vmap(lambda a: op(x, alpha=a))(alphas)
    np.testing.assert_allclose(got, np.outer(alphas, x))


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("bool", True),
        ("int8", -3),
        ("uint64", 2**63 + 1),
        ("float64", 1 / 3),
        ("complex64", 1 + 2j),
    ],
)
def test_keyword_of_every_kind(x64, dtype, value):
    @numba.njit
    def store(c, out):
        out[()] = c

    scalar = np.dtype(dtype).type(value)
    op = numba_kernel(store, S((), dtype))
    assert op(c=jnp.asarray(scalar)) == scalar


def test_several_keywords_in_any_order_between_arrays():
    @numba.njit
    def kernel(a, x, b, out, c):
        out[:] = a * x + b * 10 + c * 100

    op = numba_kernel(kernel, like_first)
    want = 2 * np.asarray(x) + 30 + 400
    np.testing.assert_allclose(op(x, c=4.0, a=2.0, b=3), want)
    np.testing.assert_allclose(op(x, b=3, a=2.0, c=4.0), want)


@pytest.mark.exhaustive
def test_default_values_of_the_kernel_hold():
    @numba.njit
    def kernel(x, out, alpha=2.0, beta=1.0):
        out[:] = alpha * x + beta

    op = numba_kernel(kernel, like_first)
    np.testing.assert_allclose(op(x), 2 * np.asarray(x) + 1)
    np.testing.assert_allclose(op(x, alpha=3.0), 3 * np.asarray(x) + 1)
    np.testing.assert_allclose(op(x, beta=5.0), 2 * np.asarray(x) + 5)


def test_an_output_is_not_passed_for_a_parameter_with_a_default():
    def distance(u, v, w=None):
        return abs(u - v).sum() if w is None else (w * abs(u - v)).sum()

    def copies(x, out, scale=None):
        out[:] = x if scale is None else x * scale[0]

    def launches(x, out=None, stream=0):
        pass

    message = r"for the parameter '{}' of the .*, which has a default\..*\[KB2001\]"
    with pytest.raises(TypeError, match=message.format("w")):
        numba_kernel(numba.njit(distance), S((), jnp.float32))(x, x)
    with pytest.raises(TypeError, match=message.format("scale")):
        numba_kernel(numba.njit(copies), like_first)(x, x)
    with pytest.raises(TypeError, match=message.format("out")):
        kernbridge.numba_cuda_callable(launches, like_first)(x)


@pytest.mark.exhaustive
def test_scalar_is_converted_to_a_declared_signature():
    @numba.njit("void(float32[::1], float64, float32[::1])")
    def kernel(x, alpha, out):
        out[:] = alpha * x

    op = numba_kernel(kernel, like_first)
    with pytest.warns(kernbridge.KernbridgeWarning, match=r"\[KB4003\]"):
        np.testing.assert_allclose(op(x, alpha=2), 2 * np.asarray(x))


@pytest.mark.parametrize(
    ("declared", "fitting", "others"),
    [
        ("i1", (-128, 127, 5.0, np.uint32(7)), (300, -129, 3.7, np.nan, np.uint32(2**32 - 1))),
        ("u4", (2**31 - 1, 0.0), (-1, np.int8(-1), 2.0**32)),
        ("i4", (np.uint32(2**31 - 1), -(2.0**31)), (np.uint32(2**31), 2.0**31)),
    ],
)
def test_a_number_that_a_declared_signature_does_not_hold(declared, fitting, others):
    @numba.njit(f"void({declared}, f4[::1])")
    def kernel(k, out):
        out[0] = k

    op = jax.jit(numba_kernel(kernel, S((1,), jnp.float32)))
    for k in fitting:
        assert op(k=k) == np.float32(k)
    for k in others:
        with pytest.raises(
            (jax.errors.JaxRuntimeError, ValueError),
            match=r"'k' is no number of u?int\d+ .*\[KB3001\]",
        ):
            op(k=k).block_until_ready()


@pytest.mark.exhaustive
def test_positional_scalars_arrive_as_0d_arrays():
    @numba.njit
    def kernel(x, a, out):
        out[:] = x * a[()]

    op = numba_kernel(kernel, like_first)
    for a in (3.0, 3, np.float32(3), jnp.float32(3)):
        np.testing.assert_allclose(op(x, a), 3 * np.asarray(x))


def test_numpy_arrays_are_inputs():
    op = numba_kernel(scale, like_first)
    np.testing.assert_array_equal(op(np.asarray(x), alpha=2.0), 2 * np.asarray(x))


def test_no_inputs():
    @numba.njit
    def count(out):
        for i in range(out.size):
            out[i] = i

    np.testing.assert_array_equal(numba_kernel(count, S((7,), jnp.int32))(), np.arange(7))


def test_outs_as_function_serves_every_shape():
    seen = []

    def outs(x, y, *, alpha):
        seen.append((x, y, alpha))
        return {"total": S(x.shape, x.dtype), "n": S((), jnp.int32)}

    @numba.njit
    def kernel(x, y, alpha, n, total):
        n[()] = x.size
        total[:] = x + alpha * y

    op = numba_kernel(kernel, outs)
    for size in (3, 0, 11):
        x = jnp.arange(size, dtype=jnp.float32)
        got = op(x, x, alpha=2.0)
        np.testing.assert_allclose(got["total"], 3 * np.arange(size))
        assert got["n"] == size
    assert all(isinstance(t, S) for call in seen for t in call)
    assert [call[0].shape for call in seen] == [(3,), (0,), (11,)]
    assert seen[0][2].shape == ()


def test_outs_may_be_an_object_that_cannot_be_hashed():
    @dataclasses.dataclass
    class Repeated:
        times: int

        def __call__(self, x):
            return S((self.times * x.size,), x.dtype)

    @numba.njit
    def repeat(x, out):
        for i in range(out.size):
            out[i] = x[i % x.size]

    for times in (2, 3):
        op = numba_kernel(repeat, Repeated(times))
        np.testing.assert_array_equal(op(x), np.tile(x, times))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_as_bits(dtype):
    @numba.njit
    def flip_sign(x, out):
        for i in range(x.size):
            out[i] = x[i] ^ np.uint16(0x8000)

    h = jnp.array([1.5, -2.0, 0.0], dtype)
    op = numba_kernel(flip_sign, S((3,), dtype), half_as_bits=True)
    assert op(h).dtype == h.dtype
    np.testing.assert_array_equal(op(h).astype(np.float32), [-1.5, 2.0, -0.0])
    batch = jnp.stack([h, 2 * h])
    np.testing.assert_array_equal(jax.vmap(op)(batch).astype(np.float32), -batch.astype(np.float32))


UNSUPPORTED = ["float8_e4m3fn", "float8_e5m2", "int4", "uint4"]


@pytest.mark.parametrize("dtype", UNSUPPORTED)
def test_dtype_without_numba_type_is_refused_at_trace_time(dtype):
    op = numba_kernel(scale, S((5,), jnp.float32))
    with pytest.raises(ValueError, match=rf"numba_kernel 'scale': input 'x' is {dtype}"):
        jax.eval_shape(lambda x: op(x, alpha=1.0), S((5,), dtype))
    with pytest.raises(ValueError, match=rf"output 'out' is {dtype}"):
        jax.eval_shape(
            lambda x: numba_kernel(scale, S((5,), dtype))(x, alpha=1.0), S((5,), jnp.float32)
        )


def test_random_key_is_refused_by_name():
    op = numba_kernel(scale, S((5,), jnp.float32))
    with pytest.raises(TypeError, match=r"\[KB2003\]"):
        op(jax.random.key(0), alpha=1.0)


@pytest.mark.parametrize("dtype", ["float64", "int64", "uint64", "complex128"])
def test_64_bit_output_without_x64_warns(dtype):
    @numba.njit
    def fill(out):
        out[:] = 1

    op = numba_kernel(fill, S((2,), dtype))
    with pytest.warns(UserWarning, match=rf"output 0 has dtype {dtype}.*jax_enable_x64"):
        result = op()
    assert result.dtype == jnp.zeros((), jax.dtypes.canonicalize_dtype(dtype)).dtype
    np.testing.assert_array_equal(result, [1, 1])


def test_64_bit_output_with_x64_does_not_warn(x64):
    @numba.njit
    def third(out):
        out[:] = 1 / 3

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = numba_kernel(third, S((2,), jnp.float64))()
    assert result.dtype == np.float64
    np.testing.assert_array_equal(result, np.float64(1) / 3)


def test_arrays_without_elements_have_an_address_and_their_extents():
    @numba.njit
    def kernel(x, empty, out):
        out[0] = x.ctypes.data != 0
        out[1] = x.shape[0] * 10 + x.shape[1]
        out[2] = empty.size

    op = numba_kernel(kernel, [S((0, 4), jnp.float32), S((3,), jnp.int32)])
    with pytest.warns(kernbridge.KernbridgeWarning):  # it takes the address of x
        empty, out = op(jnp.zeros((2, 0)))
    assert empty.shape == (0, 4)
    np.testing.assert_array_equal(out, [1, 20, 0])


def test_functions_of_equal_code_have_their_own_defaults():
    def kernel(x, gain, out):
        out[:] = x * gain

    def of(**attributes):
        made = type(kernel)(kernel.__code__, globals())
        for name, value in attributes.items():
            setattr(made, name, value)
        return numba_kernel(numba.njit(made), x)

    swapped = inspect.signature(lambda out, x: None)
    for attributes, words in (
        ({}, r"\(x, gain, out\) has 3 parameters"),
        ({"__defaults__": (2.0, None)}, "for the parameter 'gain'"),
        ({}, r"\(x, gain, out\) has 3 parameters"),
        ({"__signature__": swapped}, r"\(out, x\) has 2 parameters"),
        ({"__annotations__": {"x": "float"}}, r"\(x, gain, out\) has 3 parameters"),
    ):
        inputs = [x] if len(attributes.get("__defaults__", ())) else [x] * 3
        with pytest.raises(TypeError, match=rf"{words}.*\[KB2001\]"):
            of(**attributes)(*inputs)


@pytest.mark.parametrize("name", ["inputs", "self", "scalars"])
def test_a_scalar_with_the_name_of_our_own_parameters(name):
    scope = {}
    exec(f"def kernel(x, {name}, out):\n    out[0] = {name} * x[0]\n", scope)
    op = numba_kernel(numba.njit(scope["kernel"]), S((1,), jnp.float32))
    assert op(jnp.ones(1), **{name: 3.0}) == 3
    assert jax.vmap(lambda x: op(x, **{name: 3.0}))(jnp.ones((2, 1))).tolist() == [[3], [3]]


def test_a_function_as_an_argument_of_a_kernel_in_place():
    """The names that `inplace=` alone gives to inputs contained the function's, too."""

    @numba.njit
    def changed(a, w, s, f):
        for i in range(a.size):
            a[i] = f(a[i] * w[0]) * s

    double = numba.njit(lambda v: 2 * v)
    a, w = jnp.arange(4.0), jnp.array([3.0, 1.0])
    op = numba_kernel(changed, inplace="a")
    for f, wanted in ((double, 12 * np.asarray(a)), (jnp.square, 18 * np.asarray(a) ** 2)):
        np.testing.assert_allclose(op(a, w, s=2.0, f=f), wanted)
        np.testing.assert_allclose(jax.jit(lambda *x, f=f: op(*x, f=f))(a, w, 2.0), wanted)
