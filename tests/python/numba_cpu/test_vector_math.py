"""Math functions in loops by libmvec: which loops, with which options, and with what results.

tests/core/test_vector_math.c measures the functions themselves.
"""

import math
import re

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from kernbridge import _core, numba_kernel
from kernbridge._src.numba_cpu.entry import vector_math

X = jnp.linspace(-4, 4, 1003).astype(jnp.float32)
OUT = jax.ShapeDtypeStruct(X.shape, X.dtype)

pytestmark = pytest.mark.once
needs_libmvec = pytest.mark.skipif(not vector_math.provided(), reason="there is no libmvec")


@numba.njit
def sigmoid(x, out):
    for i in range(x.size):
        out[i] = 1 / (1 + math.exp(-x[i]))


@numba.njit
def helper(v):
    return np.tanh(v)


@numba.njit
def several(x, out):
    for i in range(x.size):
        v = x[i]
        out[i] = math.sin(v) + np.cos(v) + helper(v) + math.erf(v) + abs(v) ** np.float32(1.5)


@numba.njit
def at_some(x, out):
    for i in range(x.size):
        out[i] = math.tanh(x[i]) if x[i] > 0 else np.float32(0)


@numba.njit
def leaves_early(x, out):
    for i in range(x.size):
        out[i] = math.exp(x[i])
        if out[i] > 1e30:
            break


@numba.njit(fastmath=True)
def fast(x, out):
    for i in range(x.size):
        out[i] = math.exp(x[i])


@numba.njit(fastmath={"nnan", "afn"})
def approximate(x, out):
    for i in range(x.size):
        out[i] = math.exp(x[i])


@numba.njit(fastmath={"contract"})
def contracted(x, out):
    for i in range(x.size):
        out[i] = math.exp(x[i])


@numba.njit
def divides(x, out):
    for i in range(x.size):
        out[i] = 1 / (math.exp(x[i]) - 1)


def called(kernel, **options):
    """The functions of libmvec that the kernel calls, and its results."""
    op = numba_kernel(kernel, OUT, **options)
    code = op.inspect(X)[0].llvm_ir
    found = re.findall(r"call [^\n]*@_ZGV[a-z]N\d+v+_(\w+)\(", code)
    return set(found), np.asarray(op(X))


@pytest.mark.exhaustive
@needs_libmvec
@pytest.mark.parametrize(
    ("kernel", "functions"),
    [
        (sigmoid, {"expf"}),
        (several, {"sinf", "cosf", "tanhf", "erff", "powf"}),
        (at_some, {"tanhf"}),
        (leaves_early, set()),
    ],
)
def test_loops_are_vectorised(kernel, functions):
    names, fast = called(kernel, vector_math=True)
    assert names == functions
    names, plain = called(kernel)
    assert names == set()
    np.testing.assert_allclose(fast, plain, rtol=2e-6, atol=1e-6)


@pytest.mark.exhaustive
@needs_libmvec
@pytest.mark.parametrize(
    ("kernel", "options", "vectorised"),
    [
        (fast, {}, True),
        (fast, {"vector_math": False}, False),
        (approximate, {}, True),
        (contracted, {}, False),
        (contracted, {"vector_math": True}, True),
        (sigmoid, {"vector_math": np.True_, "check": True}, True),
    ],
)
def test_the_option_and_fastmath(kernel, options, vectorised):
    assert bool(called(kernel, **options)[0]) == vectorised


@pytest.mark.once
def test_a_division_that_may_be_by_zero_is_an_error_still():
    op = numba_kernel(divides, OUT, vector_math=True)
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"\[KB3001\]"):
        op(jnp.zeros_like(X)).block_until_ready()


ONE = "arccos arccosh arcsin arcsinh arctan arctanh cbrt cos cosh exp exp2 expm1 log log10 log1p"
ONE += " log2 sin sinh tan tanh"
TWO = ("arctan2", "hypot", "power")


def all_functions(functions, **options):
    """A kernel with a loop for each function; `out` has a row for each."""
    loop = "    for i in range(x.size):\n        out[{}, i] = {}\n"
    lines = "".join(loop.format(k, call) for k, call in enumerate(functions))
    scope = {"np": np, "math": math}
    exec(f"def kernel(x, y, out):\n{lines}", scope)
    return numba.njit(**options)(scope["kernel"])


def numbers(dtype, n):
    """Bit patterns, every second one of a number between 2^-12 and 2^8."""
    rng, size = np.random.default_rng(36), np.dtype(dtype).itemsize
    drawn = np.frombuffer(rng.bytes(n * size), dtype).copy()
    drawn[::2] = np.ldexp(rng.uniform(-1, 1, n // 2), rng.integers(-12, 8, n // 2))
    return drawn


def units(got, exact):
    """The distance from the exact value in units of the last place; infinite for other specials."""
    rounded = exact.astype(got.dtype)
    special = ~np.isfinite(rounded) | ~np.isfinite(got) | (rounded == 0) & (got == 0)
    same = np.isnan(rounded) & np.isnan(got)
    same |= (got == rounded) & (np.signbit(got) == np.signbit(rounded))
    distance = np.abs(got - exact) / np.spacing(np.abs(rounded)).astype(np.longdouble)
    return np.where(special, np.where(same, 0, np.inf), distance)


@needs_libmvec
@pytest.mark.exhaustive
@pytest.mark.parametrize("n", [1 << 12, 1 << 20])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_function_is_within_four_units(dtype, n):
    functions = [f"np.{name}(x[i])" for name in ONE.split()]
    functions += [f"np.{name}(x[i], y[i])" for name in TWO]
    functions += ["math.erf(x[i])", "math.erfc(x[i])"]
    x, y = np.split(numbers(dtype, 2 * n), 2)
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 1, -1, 8, -8], dtype)
    x[:121], y[:121] = np.tile(special, 11), np.repeat(special, 11)
    with jax.enable_x64(True), np.errstate(all="ignore"):
        y[121 : n // 2] = x[121 : n // 2] * y.dtype.type(1.5)
        out = jax.ShapeDtypeStruct((len(functions), n), dtype)
        kernel = all_functions(functions, error_model="numpy")
        got = np.asarray(numba_kernel(kernel, out, vector_math=True)(x, y))
        for row, call in zip(got, functions, strict=True):
            name, n_arguments = call[call.index(".") + 1 : call.index("(")], 1 + ("y" in call)
            if call.startswith("math."):  # of float64, exact to a unit
                exact = np.vectorize(getattr(math, name), [np.float64])(x.astype(np.float64))
            else:
                wide = (x.astype(np.longdouble), y.astype(np.longdouble))
                exact = getattr(np, name)(*wide[:n_arguments])
            far = units(row, exact)
            at = far.argmax()
            assert far[at] <= 4, (call, x[at], y[at], row[at])


@needs_libmvec
def test_the_cube_root_where_fastmath_is_on():
    x = numbers("float64", 1 << 12)
    x = np.append(x[np.isfinite(x)], [0, -0.0, 8, -27])
    kernel = all_functions(["np.cbrt(x[i])"], fastmath=True)
    with jax.enable_x64(True):
        got = numba_kernel(kernel, jax.ShapeDtypeStruct((1, x.size), "float64"))(x, x)
    assert units(np.asarray(got)[0], np.cbrt(x.astype(np.longdouble))).max() <= 4


@pytest.mark.once
@pytest.mark.parametrize("value", ["yes", 1, 0.5])
def test_unknown_values_are_refused(value):
    with pytest.raises(TypeError, match=r"numba_kernel.*'sigmoid'.*vector_math.*\[KB1005\]"):
        numba_kernel(sigmoid, OUT, vector_math=value)


@pytest.mark.once
def test_options_are_part_of_the_identity():
    def digest(kernel, **options):
        text = jax.jit(numba_kernel(kernel, OUT, **options)).lower(X).as_text()
        return re.search(r"digest = dense<([^>]*)>", text)[1]

    assert digest(sigmoid) == digest(sigmoid, vector_math=False)
    assert digest(sigmoid) != digest(sigmoid, vector_math=True)
    assert digest(fast) == digest(fast, vector_math=True)
    assert digest(fast) != digest(fast, vector_math=False)


LOADING = """
import sys
import numpy as np
for name in ("numba", "llvmlite"):
    sys.modules[name] = None  # an import of it fails
import jax
from jax import export

program = export.deserialize(bytearray(open({program!r}, "rb").read()))
np.testing.assert_array_equal(program.call(np.load({x!r})), np.load({out!r}))
"""


@pytest.mark.exhaustive
@needs_libmvec
@pytest.mark.once
def test_the_code_travels(run_python, tmp_path):
    op = numba_kernel(sigmoid, OUT, vector_math=True)
    assert "machine code" in op.inspect(X)[0].export
    paths = {name: str(tmp_path / name) for name in ("program", "x.npy", "out.npy")}
    program = jax.export.export(jax.jit(op))(X).serialize()
    (tmp_path / "program").write_bytes(program)
    np.save(paths["x.npy"], X)
    np.save(paths["out.npy"], op(X))
    run_python(LOADING.format(program=paths["program"], x=paths["x.npy"], out=paths["out.npy"]))


LOOP = """\
define double @f(double %x) {
  %e = call double @llvm.exp.f64(double %x)
  %s = fadd double %e, SUM
  %z = fcmp oeq double %s, 0.000000e+00
  %r = select i1 %z, double 1.0, double %s
  ret double %r
}
"""


@needs_libmvec
@pytest.mark.once
@pytest.mark.parametrize(
    ("summand", "is_tested"),
    [("1.000000e+00", False), ("0x3FF8000000000000", False), ("%e", True), ("%x", True)]
    + [(value, True) for value in ("-1.000000e+00", "0.000000e+00", "0x0000000000000001")],
)
def test_only_sums_that_cannot_be_zero_are_not_tested(summand, is_tested):
    text = vector_math.with_vectors(LOOP.replace("SUM", summand), "")
    assert ("fcmp oeq double %s" in text) == is_tested
    assert '"vector-function-abi-variant"="_ZGV_LLVM_N2v_llvm.exp.f64(_ZGVbN2v_exp)"' in text


@needs_libmvec
@pytest.mark.once
@pytest.mark.parametrize(
    ("features", "names"),
    [
        ("", {"_ZGVbN4v_expf"}),
        ("+avx2,-fma", {"_ZGVbN4v_expf"}),
        ("+avx2,+fma", {"_ZGVbN4v_expf", "_ZGVdN8v_expf"}),
    ],
)
def test_functions_fit_the_processor(features, names):
    text = "define float @f(float %x) {\n  %y = call float @expf(float %x)\n  ret float %y\n}\n"
    text += "declare float @expf(float) #0\n"
    changed = vector_math.with_vectors(text, features)
    assert set(re.findall(r"@(_ZGV\w+)", changed)) == names
    assert "declare float @expf(float) nounwind willreturn speculatable" in changed


@pytest.mark.once
def test_without_libmvec_nothing_changes(monkeypatch):
    monkeypatch.setattr(_core, "host_code_provides", lambda name: False)
    vector_math._variants.cache_clear()
    try:
        assert vector_math.with_vectors(LOOP, "+avx2,+fma") == LOOP
    finally:
        vector_math._variants.cache_clear()
