"""What programs that were written for BrainEvent rely on: results, and the words of errors."""

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest
from jax.interpreters import ad
from kernbridge import XLACustomKernel, errors
from kernbridge.compat import brainevent as compat
from numba import cuda

S = jax.ShapeDtypeStruct
F32 = jnp.float32
X = np.arange(3, dtype=np.float32)
INCLUDE = '#include "brainevent/common.h"\n'


@pytest.mark.once
def test_a_platform_that_is_unknown_has_no_backends():
    op = XLACustomKernel("semantics_platforms")
    op.def_numba_kernel(lambda **_: None)
    assert op.available_backends("cpu") == ["numba"]
    assert op.available_backends("xyz") == []
    assert op.get_default("xyz") is None


def twice_op(name):
    """An operation with rules of every kind."""
    op = XLACustomKernel(name)
    op.def_kernel("jax", "cpu", lambda outs: lambda x: (2 * x.astype(outs[0].dtype),))
    op.def_jvp_rule2(lambda dot, x, outs: (2 * dot,))
    op.def_transpose_rule(lambda cts, x, **_: [2 * cts[0]])
    return op


@pytest.mark.once
def test_rules_are_called_with_the_parameters_of_the_user():
    prim = twice_op("semantics_rules").primitive
    outs = (jax.core.ShapedArray((3,), F32),)
    linear = ad.UndefinedPrimal(jax.core.ShapedArray((3,), F32))
    (ct,) = ad.primitive_transposes[prim]([jnp.asarray(X)], linear, backend=None)
    np.testing.assert_array_equal(ct, 2 * X)
    (out,), (dot,) = ad.primitive_jvps[prim]([X], [jnp.ones(3)], outs=outs)
    np.testing.assert_array_equal((out, dot), (2 * X, [2, 2, 2]))


def test_nothing_mapped_is_one_call_without_batch_axes():
    calls = []

    def add(x, y):
        calls.append(x)
        return x + y

    def rule(function, *axes):
        return compat.general_batching_rule(function, (jnp.ones(2), jnp.ones(2)), axes)

    out, dim = rule(add, None, None)
    np.testing.assert_array_equal(out, [2, 2])
    assert dim is None
    assert len(calls) == 1
    outs, dims = rule(lambda x, y: [x + y, (x,)], None, None)
    assert dims == [None, (None,)]
    np.testing.assert_array_equal(outs[1][0], [1, 1])
    out, dim = rule(jax.lax.add_p, None, None)
    np.testing.assert_array_equal(out, [2, 2])
    assert dim is None
    assert rule(add, 0, None)[1] == 0


@pytest.mark.once
def test_the_text_of_a_compilers_error():
    error = errors.CompilationError("f: refused", "f.c:1: error: no\n1 error", "cc f.c")
    words = "f: refused\n\nCommand:\n  cc f.c\n\nCompiler output:\nf.c:1: error: no\n1 error"
    assert str(error) == words
    assert str(errors.CompilationError("f: refused")) == "f: refused"
    assert str(errors.CompilationError("f: refused", " \n")) == "f: refused"
    error = errors.HostCompilerIncompatibleError("too new", "no\n" * 300, "nvcc")
    assert len(str(error).splitlines()) <= 24
    assert "no\nThis exception's compiler_output contains all 300 lines" in str(error)


@pytest.mark.once
def test_the_text_of_an_unsupported_architecture():
    error = errors.UnsupportedArchError("no sm_10")
    assert (error.stage, error.command, error.compiler_output) == ("", "", "")
    error = errors.UnsupportedArchError("no sm_10", compiler_output="x", command="nvcc", stage="s")
    assert str(error) == "no sm_10"
    assert (error.stage, error.command, error.compiler_output) == ("s", "nvcc", "x")


TWO = "void f(const BE::Tensor x, BE::Tensor o{}) {{}}\n"
REFUSED = {
    "a pointer": (
        "attr.p", ", float *p",
        r"parameter 3 'p' is `float ?\*` \(a pointer\): Cannot map C\+\+ type to that of an "
        r"attribute, which is a number by value; use a type such as int32_t or float",
    ),
    "a struct": (
        "attr.p", ", Q p",
        r"parameter 3 'p' is `Q` \(a type that is not a number\): Cannot map C\+\+ type .*, or "
        r"write attr\.p:TYPE",
    ),
    "another type": ("attr.p:int32", ", float p", r"parameter 3 'p' is `float` \(float32\), and"),
    "no such parameter": (
        "attr.p attr.q", ", float p",
        r"the annotation describes 4 parameters, and C\+\+ has 3 \(.*\): attr\.q not found in "
        r"signature",
    ),
    "an unknown token": ("out", "", "Invalid arg_spec token 'out'; expected arg, ret, stream,"),
    "an unknown type": (
        "attr.p:float128", ", float p",
        "Invalid arg_spec token 'attr.p:float128': 'float128' is no type of an attribute",
    ),
    "no name": (
        "attr.a-b", ", float p",
        "Invalid arg_spec token 'attr.a-b': 'a-b' is not a valid name for an attribute",
    ),
}  # fmt: skip


@pytest.mark.brief
@pytest.mark.once
@pytest.mark.parametrize("what", REFUSED)
def test_the_words_that_users_search_for(what):
    tokens, parameters, words = REFUSED[what]
    source = INCLUDE + "struct Q {};\n" + TWO.format(parameters)
    annotated = source.replace("void", f"// @BE f arg ret {tokens}\nvoid")
    with pytest.raises(kernbridge.KernelError, match=words):
        compat.load_cpp_inline("semantics_refused", annotated)
    with pytest.raises(kernbridge.KernelError, match=words):
        compat.load_cpp_inline("semantics_refused", source, {"f": ["arg", "ret", *tokens.split()]})


@pytest.mark.once
def test_no_result_and_no_compilation():
    source = INCLUDE + TWO.format("")
    with pytest.raises(kernbridge.KernelError, match=r"\[KB4007\]"):
        compat.load_cpp_inline("semantics_no_result", source, {"f": ["arg"]})
    with pytest.raises(kernbridge.KernelError, match=r"\[KB4007\]"):
        compat.load_cpp_inline("semantics_no_result", source.replace("void", "// @BE f arg\nvoid"))
    with pytest.raises(errors.CompilationError, match=r"\[KB4006\]"):
        compat.load_cpp_inline("semantics_wrong", source.replace("{}", "{ wrong; }"), ["f"])
    with pytest.raises(
        errors.CompilationError, match=r"compilation failed: the compiler knows no.*\[KB4006\]"
    ):
        compat.load_cpp_inline("semantics_absent", INCLUDE, {"f": ["arg", "ret"]})


def failing(name):
    op = XLACustomKernel(name)

    def broken(**_):
        raise LookupError("no table")

    op.def_kernel("broken", "cpu", broken)
    op.def_kernel("other", "cpu", lambda outs, **_: lambda x: x + 1)
    return op


def test_a_failing_generator_is_the_cause():
    op = failing("semantics_failing")
    words = r"backend 'broken' on cpu .* no table \[KB4015\]\nOther backends on cpu: 'other'"
    with pytest.raises(kernbridge.KernelCompilationError, match=words) as e:
        op(X, outs=S((3,), F32))
    assert type(e.value.__cause__) is LookupError
    with pytest.raises(kernbridge.KernelCompilationError, match=words):
        jax.jit(lambda x: op(x, outs=S((3,), F32)))(X)
    np.testing.assert_array_equal(op(X, outs=S((3,), F32), backend="other"), X + 1)


@pytest.mark.once
def test_a_keyword_that_is_not_hashable():
    op = failing("semantics_hashable")
    for value in ([1, 2], ([1],), np.ones(2)):
        with pytest.raises(TypeError, match=r"'sizes'.*\[KB8008\]"):
            op(X, outs=S((3,), F32), sizes=value)


@cuda.jit
def twice(x, y, out):
    i = cuda.grid(1)
    if i < out.shape[0]:
        out[i] = 2 * x[i] + y[i]


LAUNCHES = ({"launch_dims": 3}, {"grid": 1, "block": 32})


@pytest.mark.parametrize("launch", LAUNCHES, ids=["launch_dims", "grid"])
@pytest.mark.parametrize("method", ["expand_dims", "broadcast_all", "legacy_vectorized"])
def test_a_kernel_with_a_fixed_launch_sees_slices(method, launch):
    op = kernbridge.numba_cuda_kernel(twice, S((3,), F32), vmap_method=method, **launch)
    x, y = np.arange(24, dtype=np.float32).reshape(4, 2, 3), np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(jax.vmap(op, (0, None))(x[0], y), 2 * x[0] + y)
    nested = jax.jit(jax.vmap(jax.vmap(op, (0, None)), (0, None)))
    np.testing.assert_array_equal(nested(x, y), 2 * x + y)


@cuda.jit
def twice_of_any_rank(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out.flat[i] = 2 * x.flat[i] + out.ndim


def test_a_launch_that_is_a_function_covers_the_batch():
    op = kernbridge.numba_cuda_kernel(
        twice_of_any_rank,
        lambda x: S(x.shape, x.dtype),
        launch_dims=lambda x: x.size,
        vmap_method="expand_dims",
    )
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(jax.vmap(op)(x), 2 * x + 2)


SOURCE = """
__global__ void twice(const float *x, float *out) { out[threadIdx.x] = 2 * x[threadIdx.x]; }
"""


def calls(jaxpr):
    """The calls of kernels in a program, those in programs within included."""
    for equation in jaxpr.eqns:
        if "call" in equation.params:
            yield equation.params["call"]
        elif "jaxpr" in equation.params:
            yield from calls(equation.params["jaxpr"])


def test_a_cuda_source_with_a_fixed_launch_sees_slices():
    try:
        op = kernbridge.cuda_kernel(
            SOURCE, "twice", S((3,), F32), grid=1, block=3, vmap_method="broadcast_all"
        )
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        lowered = jax.jit(jax.vmap(op)).trace(x)
    except kernbridge.KernelToolchainError as e:
        pytest.skip(str(e).splitlines()[0])
    assert lowered.jaxpr.out_avals[0].shape == (2, 3)
    (call,) = calls(lowered.jaxpr)
    assert call.levels
