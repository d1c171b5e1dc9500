"""Bad input: the earliest moment, the right type, and the words that help."""

import functools
import sys

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest
from kernbridge import numba_kernel
from kernels import add, raise_if_negative, scale

S = jax.ShapeDtypeStruct
OUT = S((4,), jnp.float32)
x = jnp.arange(4, dtype=jnp.float32)


# --- when the kernel is wrapped


@pytest.mark.parametrize(
    "kernel",
    [lambda x, out: None, np.add, 3, None, "add", functools.partial(add, 1)],
    ids=["lambda", "ufunc", "int", "None", "str", "partial"],
)
def test_kernel_that_is_no_dispatcher(kernel):
    with pytest.raises(TypeError, match=r"\[KB1001\]"):
        numba_kernel(kernel, OUT)


def test_vmap_method_unknown():
    with pytest.raises(ValueError, match=r"vmap_method.*'fast'.*\[KB1005\]"):
        numba_kernel(add, OUT, vmap_method="fast")


@pytest.mark.parametrize(
    ("outs", "error", "words"),
    [
        ([OUT, 3], TypeError, "output 1 in `outs` is 3 of type int.*ShapeDtypeStruct"),
        ("float32", TypeError, "output 0 in `outs` is 'float32'"),
        ([OUT] * 4, TypeError, r"`outs` has 4 outputs, but the kernel \(x, y, out\) takes 3"),
    ],
    ids=repr,
)
def test_outs_that_are_none(outs, error, words):
    with pytest.raises(error, match=words):
        numba_kernel(add, outs)


@pytest.mark.parametrize(
    ("aliases", "error", "words"),
    [
        ({0: 1}, ValueError, "maps input 0 to output 1, but the call has 1 output"),
        ({-1: 0}, ValueError, "negative index -1"),
        ({0: 0, 1: 0}, ValueError, "several inputs to output 0"),
        ({"x": 0}, TypeError, "contains 'x', expected the index"),
    ],
    ids=repr,
)
def test_wrong_alias_at_wrap_time(aliases, error, words):
    with pytest.raises(error, match=rf"{words}.*\[KB1006\]"):
        numba_kernel(add, OUT, input_output_aliases=aliases)


# --- when the call is traced: no value is needed, nothing is compiled


@pytest.mark.parametrize(
    ("aliases", "words"),
    [
        ({2: 0}, "names input 2, but the call has 2 inputs"),
        ({0: 0}, r"maps input 0, f32\[3\], to output 0, f32\[4\]"),
        ({1: 0}, r"maps input 1, i32\[4\], to output 0, f32\[4\]"),
    ],
)
def test_wrong_alias_at_trace_time(aliases, words):
    op = numba_kernel(add, OUT, input_output_aliases=aliases)
    with pytest.raises(ValueError, match=rf"{words}.*\[KB1006\]"):
        jax.eval_shape(op, S((3,), jnp.float32), S((4,), jnp.int32))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda op: op(x),
            r"1 input and 1 output, 2 arrays.*\(x, y, out\) has 3.*nothing would be passed for out",
        ),
        (lambda op: op(x, x, x), "3 inputs and 1 output, 4 arrays"),
        (lambda op: op(x, x, gamma=1.0), "no parameter 'gamma'"),
    ],
)
def test_wrong_arity(call, words):
    with pytest.raises(TypeError, match=rf"{words}.*\[KB2001\]"):
        jax.eval_shape(lambda: call(numba_kernel(add, OUT)))


@pytest.mark.parametrize(
    "value",
    ["a", None, [1.0, 2.0], {"x": x}, object(), b"x", np.zeros(4, "V4"), np.array(["a"])],
    ids=["str", "None", "list", "dict", "object", "bytes", "void", "texts"],
)
def test_argument_that_is_neither_array_nor_scalar(value):
    op = numba_kernel(add, OUT)
    with pytest.raises(TypeError, match=r"numba_kernel.*'add'.*input 1.*\[KB2002\]"):
        op(x, value)
    with pytest.raises(TypeError, match=r"'alpha'.*\[KB2002\]"):
        numba_kernel(scale, OUT)(x, alpha=value)


def test_call_that_outs_cannot_take():
    op = numba_kernel(scale, lambda x, alpha: OUT)
    with pytest.raises(TypeError, match=r"has 1 input.*`outs`.*\(x, alpha\).*\[KB2004\]"):
        op(x)
    with pytest.raises(TypeError, match=r"no parameter .beta.*\[KB2001\]"):
        op(x, beta=1.0)


def test_keyword_that_is_an_array():
    with pytest.raises(ValueError, match=r"'alpha'.*f32\[4\].*\[KB2005\]"):
        numba_kernel(scale, OUT)(x, alpha=x)


def test_kernel_that_returns_a_value():
    @numba.njit
    def total(x, out):
        return x.sum()

    with pytest.raises(TypeError, match=r"\[KB4002\]"):
        numba_kernel(total, OUT)(x)


@pytest.mark.exhaustive
@pytest.mark.once
def test_kernel_that_returns_what_a_helper_returns_nothing():
    @numba.njit
    def helper(x, out):
        out[:] = x + 1

    @numba.njit
    def kernel(x, out):
        if x.size == 0:
            return None
        return helper(x, out)

    np.testing.assert_array_equal(numba_kernel(kernel, OUT)(x), np.asarray(x) + 1)


def test_kernel_that_numba_cannot_compile():
    @numba.njit
    def wrong(x, out):
        out[:] = x.no_such_method()

    op = numba_kernel(wrong, OUT)
    with pytest.raises(
        kernbridge.KernelCompilationError, match=r"numba_kernel 'wrong'.*x: f32\[1d\].*\[KB4001\]"
    ) as e:
        op(x)
    assert "no_such_method" in str(e.value)
    assert isinstance(e.value.__context__, numba.core.errors.NumbaError)  # not printed
    assert e.value.__cause__ is None


def test_derivative_without_a_rule():
    op = numba_kernel(scale, OUT)
    loss = lambda x: op(x, alpha=2.0).sum()  # noqa: E731
    for transform in (jax.grad, jax.linearize):
        with pytest.raises(NotImplementedError, match=r"'scale'.*\[KB2101\]"):
            transform(loss)(x) if transform is jax.grad else transform(loss, x)
    with pytest.raises(NotImplementedError, match=r"\[KB2101\]"):
        jax.jvp(loss, (x,), (x,))


def test_other_platform_says_how_to_stay_on_the_cpu():
    op = numba_kernel(add, OUT)
    with pytest.raises(
        kernbridge.KernelNotAvailableError, match=r"numba_kernel.*'add'.*device_put.*\[KB7001\]"
    ):
        jax.export.export(jax.jit(op), platforms=["cuda"])(x, x)


# --- when the kernel runs


def raised(op, *args):
    with pytest.raises(jax.errors.JaxRuntimeError) as e:
        jax.block_until_ready(op(*args))
    return str(e.value)


def test_exception_names_operation_type_message_file_and_line():
    op = numba_kernel(raise_if_negative, OUT)
    line = raise_if_negative.py_func.__code__.co_firstlineno + 4
    message = raised(op, jnp.array([4.0, 1, -1, 0]))
    assert "numba_kernel 'raise_if_negative': ValueError: ('negative value', 2)" in message
    assert f"kernels.py:{line})" in message
    np.testing.assert_array_equal(op(x), np.sqrt(x))  # later calls are unharmed


@pytest.mark.exhaustive
@pytest.mark.once
def test_a_long_message_is_cut_at_a_character():
    @numba.njit
    def kernel(x, out):
        raise ValueError("é" * 5000)

    assert "ValueError: éééé" in raised(numba_kernel(kernel, OUT), x)


class Odd(Exception):
    def __init__(self, a, b, c=3):
        super().__init__(f"{a}-{b}-{c}")


@pytest.mark.brief
@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("raise ValueError('static text')", "ValueError: static text"),
        ("raise KeyError", "KeyError"),
        ("raise Odd(1, 2)", "Odd: 1-2-3"),
        ("raise IndexError('i', x[0], x.size)", "IndexError: ('i', 1.5, 1)"),
        ("assert x[0] == 0, 'must be zero'", "AssertionError: must be zero"),
        ("np.empty(3).reshape(2, 2)", "ValueError"),
        ("np.linalg.inv(np.zeros((2, 2)))", "LinAlgError"),
    ],
)
def test_exceptions_of_many_kinds(statement, words):
    scope = {"Odd": Odd, "np": np}
    exec(f"def kernel(x, out):\n    {statement}\n    out[0] = x[0]\n", scope)
    op = numba_kernel(numba.njit(scope["kernel"]), S((1,), jnp.float32))
    for _ in range(3):
        assert words in raised(op, jnp.full(1, 1.5, jnp.float32))


def test_exception_in_object_mode():
    def python_side(value):
        raise RuntimeError(f"from Python: {value}")

    @numba.njit
    def kernel(x, out):
        with numba.objmode():
            python_side(x[0])
        out[0] = 1

    op = numba_kernel(kernel, S((1,), jnp.float32))
    assert "RuntimeError: from Python: 2.0" in raised(op, jnp.full(1, 2.0, jnp.float32))
    assert sys.exc_info() == (None, None, None)
    int("3")  # no Python error is left behind


def test_exception_in_a_batch_names_the_slice():
    op = jax.vmap(numba_kernel(raise_if_negative, OUT))
    batch = jnp.ones((5, 4)).at[3, 1].set(-1)
    assert raised(op, batch).splitlines()[0].endswith(" [slice 3 of a batch of 5] [KB3001]")


def test_a_failed_call_inside_a_loop_ends_it():
    op = numba_kernel(raise_if_negative, OUT)
    message = raised(jax.jit(lambda x: jax.lax.fori_loop(0, 9, lambda i, y: op(y - 1), x)), x)
    assert "ValueError" in message


@pytest.mark.exhaustive
@pytest.mark.once
@pytest.mark.parametrize("n", [1_000, pytest.param(9_000, marks=pytest.mark.exhaustive)])
def test_thousands_of_exceptions_leak_nothing(n):
    import psutil

    op = numba_kernel(raise_if_negative, OUT)
    bad = jnp.array([4.0, 1, -1, 0])

    def fail(n):
        for _ in range(n):
            with pytest.raises(jax.errors.JaxRuntimeError):
                op(bad)

    fail(500)
    before = psutil.Process().memory_info().rss
    fail(n)
    assert psutil.Process().memory_info().rss - before < 10 * 2**20
