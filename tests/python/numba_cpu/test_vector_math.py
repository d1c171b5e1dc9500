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
from kernbridge._src.numba_common import vector_math

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
    with pytest.raises(jax.errors.JaxRuntimeError, match="ZeroDivisionError"):
        op(jnp.zeros_like(X)).block_until_ready()


def test_special_values():
    special = [0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 88.7, 89, -87.4, -103, -104]
    x = jnp.asarray(np.repeat(np.array(special, np.float32), 37))

    @numba.njit
    def exponentials(x, out):
        for i in range(x.size):
            out[i] = math.exp(x[i])

    op = numba_kernel(exponentials, jax.ShapeDtypeStruct(x.shape, x.dtype), vector_math=True)
    got = np.asarray(op(x))
    with np.errstate(over="ignore"):
        want = np.exp(np.asarray(x, np.float64)).astype(np.float32)
    assert (want[want < 1e-38] > 0).any()  # subnormal results
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    units = np.abs(got.view(np.int32).astype(np.int64) - want.view(np.int32))
    assert units[~np.isnan(want)].max() <= 4


@pytest.mark.once
@pytest.mark.parametrize("value", ["yes", 1, 0.5])
def test_unknown_values_are_refused(value):
    with pytest.raises(
        TypeError, match=r"numba_kernel 'sigmoid': vector_math is .*expected True, F"
    ):
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
    vector_math.provided.cache_clear()
    try:
        assert vector_math.with_vectors(LOOP, "+avx2,+fma") == LOOP
    finally:
        vector_math._variants.cache_clear()
        vector_math.provided.cache_clear()
