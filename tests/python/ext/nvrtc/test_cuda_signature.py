"""What the compiler says about a kernel's parameters counts, not what its text looks like."""

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest
from kernbridge._ext.nvrtc import nvrtc as cuda_kernel_nvrtc

pytestmark = pytest.mark.once


@pytest.fixture(autouse=True)
def nvrtc(gpu):
    try:
        cuda_kernel_nvrtc.library()
    except kernbridge.KernelToolchainError as e:
        pytest.skip(str(e))


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def kernel(source, name="k", outs=like, **more):
    return kernbridge.cuda_kernel(source, name, outs, launch_dims=1, **more)


def words(plan):
    """The words of the plan's launch."""
    return plan.steps[-1].words


BRANCHES = """
#ifdef AS_INT
extern "C" __global__ void k(const float *x, float *o, int a) {}
#else
extern "C" __global__ void k(const float *x, float *o, float a) {}
#endif
"""


@pytest.mark.parametrize("linkage", ['extern "C" ', ""])
def test_a_branch_that_the_compiler_does_not_take(linkage):
    source = BRANCHES.replace('extern "C" ', linkage)
    x = jnp.ones(3)
    bits = int(np.float32(2).view(np.int32))
    assert words(kernel(source).plan(x, a=2))[-1].value == bits
    assert words(kernel(source, options=["-DAS_INT"]).plan(x, a=2))[-1].value == 2
    with pytest.raises(TypeError, match=r"'a'.*is 2\.5 of.*int32.*\[KB2006\]"):
        kernel(source, options=["-DAS_INT"]).plan(x, a=2.5)


def test_an_unqualified_name_means_global_scope():
    source = (
        "namespace app { __global__ void k(const float *x, float *o, int a) {} }\n"
        "__global__ void k(const float *x, float *o, float a) {}"
    )
    x = jnp.ones(3)
    bits = int(np.float32(2).view(np.int32))
    assert words(kernel(source).plan(x, a=2))[-1].value == bits
    assert words(kernel(source, "::k").plan(x, a=2))[-1].value == bits
    assert words(kernel(source, "app::k").plan(x, a=2))[-1].value == 2


def test_namespaces_that_end_alike():
    source = (
        "namespace x { namespace app { __global__ void k(const float *x, float *o, int a) {} } }\n"
        "namespace app { __global__ void k(const float *x, float *o, float a) {} }"
    )
    x = jnp.ones(3)
    assert words(kernel(source, "app::k").plan(x, a=2.5))
    assert words(kernel(source, "x::app::k").plan(x, a=2))[-1].value == 2


DIFFERENT = {
    "const": ("float *x, float *o", "const float *x, float *o", "'x' is `float"),
    "result": ("const float *x, float *o", "const float *x, const float *o", "must not be const"),
    "value": ("const float *x, float *o, int64_t a", "const float *x, float *o, char *a", "'a'"),
    "pointer": ("const float *x, float *o", "const float *x, long long o", "takes a pointer"),
    "number": ("const float *x, float *o", "const float *x, float *o, int a", "3 parameters"),
    "pointers": ("const float *x, float *o", "const float *x, float **o", "a pointer or a value"),
    "reference": ("const float *x, float *o, int a", "const float *x, float *o, int &a", "'a'"),
}


@pytest.mark.parametrize("case", DIFFERENT)
def test_every_difference_is_refused(case):
    text, compiled, message = DIFFERENT[case]
    source = (
        f"#if defined(NEVER)\n__global__ void k({text}) {{}}\n#else\n"
        f"__global__ void k({compiled}) {{}}\n#endif"
    )
    x = jnp.ones(3)
    n_inputs = text.count("const")
    attributes = {"a": 1} if " a" in text else {}
    outs = lambda *a: [jax.ShapeDtypeStruct((3,), jnp.float32)] * (2 - n_inputs)  # noqa: E731
    with pytest.raises(kernbridge.KernelError, match=message):
        kernel(source, outs=outs).plan(*[x] * n_inputs, **attributes)


def test_hidden_names_of_types(tmp_path):
    """The text looks like one type, and a header that is not read gives it another meaning."""
    header = tmp_path / "int.h"
    header.write_text("#define int unsigned\n#define double float\n")
    source = f'#include "{header}"\n__global__ void k(const double *x, float *o, int a) {{}}'
    op = kernel(source)
    assert words(op.plan(jnp.ones(3), a=2**31))[-1].value == 2**31
    with pytest.raises(ValueError, match=r"uint32.*\[KB2006\]"):
        op.plan(jnp.ones(3), a=-1)
    with pytest.raises(TypeError, match=r"input 0.*i32\[3\].*'x'.*\[KB2007\]"):
        op.plan(jnp.ones(3, jnp.int32), a=2)


TEMPLATE = """
template <typename T, typename U> __global__ void k(const T *x, U *o, T a, U b) {}
typedef float real;
__global__ void typedefed(const real *x, real *o, real a, unsigned short b) {}
"""


def test_types_of_templates_come_from_the_compiler():
    x, i = jnp.ones(3), jnp.ones(3, jnp.int32)
    op = kernel(TEMPLATE, "k<float, int>", outs=lambda x: jax.ShapeDtypeStruct((3,), jnp.int32))
    plan = op.plan(x, a=1.0, b=-1)
    assert [w.value for w in words(plan)[2:]] == [int(np.float32(1).view(np.int32)), 0xFFFFFFFF]
    with pytest.raises(TypeError, match=r"input 0.*i32\[3\].*'x'.*\[KB2007\]"):
        op.plan(i, a=1.0, b=1)
    with pytest.raises(TypeError, match=r"'b'.*is 1\.5 of.*int32.*\[KB2006\]"):
        op.plan(x, a=1.0, b=1.5)
    with pytest.raises(TypeError, match=r"'a'.*int32.*float32.*\[KB2006\]"):
        op.plan(x, a=np.int32(1), b=1)
    with pytest.raises(ValueError, match=r"uint16.*\[KB2006\]"):
        kernel(TEMPLATE, "typedefed").plan(x, a=1.0, b=70000)
    with pytest.raises(TypeError, match=r"\[KB2007\]"):
        kernel(TEMPLATE, "typedefed").plan(i, a=1.0, b=7)


EVERY = {
    "bool": "bool",
    "char": "int8",
    "signed char": "int8",
    "unsigned char": "uint8",
    "short": "int16",
    "unsigned short": "uint16",
    "int": "int32",
    "unsigned": "uint32",
    "long": "int64",
    "unsigned long": "uint64",
    "long long": "int64",
    "unsigned long long": "uint64",
    "float": "float32",
    "double": "float64",
    "float2": "complex64",
    "double2": "complex128",
    "__half": "float16",
    "__nv_bfloat16": "bfloat16",
    "pair_of": "complex64",
    "odd": "",
    "float4": "",
    "kind": "",
}


def test_every_type():
    """As a value, behind a pointer and behind a pointer to const, in a function of C."""
    names = list(EVERY)
    source = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\nstruct odd { char c[3]; };\n"
    source += "enum kind { first };\nstruct pair_of { typedef float value_type; float r, i;\n"
    source += "  __device__ float real() const { return r; } };\n"
    values = ", ".join(f"{t} v{i}" for i, t in enumerate(names))
    pointers = ", ".join(f"{t} *p{i}, volatile const {t} *c{i}" for i, t in enumerate(names))
    source += f'extern "C" __global__ void k({values}, {pointers}) {{}}'
    request = cuda_kernel_nvrtc.Compilation("k", source, "k.cu", "k", (), ())
    types = cuda_kernel_nvrtc.compile_kernel(request).types
    values, pointers = types[: len(names)], types[len(names) :]
    assert [(t.dtype, t.pointer, t.constant) for t in values] == [
        (dtype, False, False) for dtype in EVERY.values()
    ]
    expected = [(d, True, c) for d in EVERY.values() for c in (False, True)]
    assert [(t.dtype, t.pointer, t.constant) for t in pointers] == expected


@pytest.mark.parametrize("standard", ["-std=c++11", "-std=c++14", "-std=c++20"])
def test_every_standard(standard):
    source = BRANCHES + "template <class T> __global__ void t(const T *x, T *o, T a) {}"
    x = jnp.ones(3)
    for name in ("k", "t<int>"):
        op = kernel(source, name, options=[standard, "-DAS_INT"])
        array = x if name == "k" else x.astype(jnp.int32)
        assert words(op.plan(array, a=2))[-1].value == 2


@pytest.mark.parametrize(
    ("new", "old", "message"),
    [
        ("typedef int T;", "typedef float T;", r"8\.0: .*float32.\n *9\.0: .*int32"),
        (
            "struct A { float v; };\ntypedef A T;",
            "struct B { float v; };\ntypedef B T;",
            r"8\.0: .*1B.*\n *9\.0: .*1A",
        ),
    ],
)
def test_types_that_differ_between_architectures(new, old, message):
    source = (
        f"#if __CUDA_ARCH__ >= 900\n{new}\n#else\n{old}\n#endif\n"
        "__global__ void k(const float *x, float *o, T a) {}"
    )
    kernbridge.config.set_cuda_architectures("8.0, 9.0")
    try:
        with pytest.raises(kernbridge.KernelError, match=rf"(?s)\[KB4006\].*{message}"):
            kernel(source).plan(jnp.ones(3), a=np.float32(2))
    finally:
        kernbridge.config.set_cuda_architectures(None)


def test_described_parameters_are_checked_too(tmp_path):
    """Of a kernel that stands in a header, which is not read."""
    header = tmp_path / "k.h"
    header.write_text("__global__ void k(const float *x, float *o, float a) {}")
    source, x = f'#include "{header}"\n', jnp.ones(3)
    with pytest.raises(kernbridge.KernelError, match=r"(?s)\[KB4007\].*'a'.*int32.*float32"):
        kernel(source, params="arg ret attr.a:int32").plan(x, a=2)
    assert words(kernel(source, params="arg ret attr.a:float32").plan(x, a=2))
    with pytest.raises(kernbridge.KernelError, match=r"(?s)\[KB4007\].*const"):
        kernel(source, params="ret arg attr.a:float32").plan(x, a=2)


def test_declared_arrays_are_compared_before_anything_is_compiled():
    source = "// @BE k arg:f32[n] ret:f32[n, 2]\n__global__ void k(const float *x, float *o) {}"
    op = kernel(source, outs=lambda x: jax.ShapeDtypeStruct((3, 2), x.dtype))
    assert words(op.plan(jnp.ones(3)))
    for call in (op, jax.vmap(op), op.plan):
        with pytest.raises(TypeError, match=r"input 0 'x' is i32\[.*declared as f32\[n\].*KB2007"):
            call(jnp.ones((4, 3) if call is not op.plan else 3, jnp.int32))
    with pytest.raises(TypeError, match=r"output 0.*'o'.*f32\[3,2\].*\[KB2007\]"):
        jax.eval_shape(op, jnp.ones(4))
    with pytest.raises(TypeError, match=r"output 0.*'o'.*f32\[5\].*\[KB2007\]"):
        kernel(source, params="arg ret:f32[5]")(jnp.ones(3))


def test_errors_of_the_user_stay_in_the_users_lines():
    source = "__global__ void k(const float *x, float *o) { *o = nowhere; }"
    with pytest.raises(kernbridge.CompilationError) as e:
        kernel(source).plan(jnp.ones(3))
    assert "k.cu(1): error" in e.value.compiler_output
    assert "kernbridge" not in e.value.compiler_output


def test_a_source_that_hides_its_types_is_refused():
    source = "__global__ void k(const float *x, float *o) {}\n#define kernbridge_signature 1\n"
    source += "#define template 1\n#define decltype 1\n"
    with pytest.raises(kernbridge.KernelError, match=r"types of its parameters.*\[KB4006\]"):
        kernel(source).plan(jnp.ones(3))
