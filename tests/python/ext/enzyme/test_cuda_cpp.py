"""Derivatives of CUDA C++ kernels by Enzyme, on the CPU, against JAX's own of equal functions."""

import cuda_cpp_warps  # noqa: F401
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cuda_cpp import KERNELS, assert_members_of_a_structure, operation
from kernbridge import check_rules, cuda_kernel
from kernbridge.errors import NoDerivativeError
from needs_enzyme import assert_derivatives, needs_enzyme

pytestmark = [
    pytest.mark.once,
    needs_enzyme,
    pytest.mark.usefixtures("without_fake_gpu"),
    pytest.mark.filterwarnings("ignore:.*KB7002"),
]
S = jax.ShapeDtypeStruct


def marked(name, dtype):
    is_fast = KERNELS[name].is_fast and dtype == ("float64" if name == "scatter" else "float32")
    return pytest.param(name, dtype, marks=() if is_fast else pytest.mark.exhaustive)


@pytest.mark.parametrize(
    ("name", "dtype"), [marked(n, d) for n in KERNELS for d in ("float32", "float64")]
)
def test_derivatives_agree_with_jax(name, dtype):
    with jax.enable_x64(True):
        op, reference, arguments = operation(name, dtype)
        small = name in ("stencil", "scatter", "csr", "curved", "neurons", "histogram", "fours")
        assert_derivatives(op, reference, *arguments, second=small, batched=name == "scatter")


def by_enzyme(source, dtype="float32", name="k", **options):
    options = {"launch_dims": 32, "threads_per_block": 32, "attrs": {"n": 32}, **options}
    return cuda_kernel(source, name, S((32,), dtype), derivatives="enzyme", **options)


HEAD = "__global__ void k(const float *x, float *y, int n)\n{\n    int i = threadIdx.x;\n"
REFUSED = {
    "volatile float *v = y;\n    v[i] = x[i];": ("it has volatile accesses", 5),
    "y[i] = __int_as_float(__float_as_int(x[i]) & 0x7fffffff);": ("it uses the bits of real", 4),
    "int v = ((const int *)x)[i];\n    y[i] = v;": ("it uses the bits of real numbers", 4),
    "double *d = (double *)y;\n    d[i / 2] = x[i];": ("an array of float32 as float64", 5),
    "y[i] = atomicAdd(&y[0], x[i]);": ("it uses the value that an atomic", 4),
    "__syncwarp();\n    y[i] = x[i];": ("undeclared identifier '__syncwarp'", 4),
    "__shared__ float s[2];\n    y[i] = *__shfl_sync(~0u, s, 1);": ("no matching function", 5),
    "y[i] = x[i];\n    __threadfence();": ("undeclared identifier '__threadfence'", 5),
    "float (*f)(float) = x[0] > 0 ? one : two;\n    y[i] = f(x[i]);": ("by its address", 5),
    "total += x[i];\n    y[i] = total;": ("it uses total, which is no constant", 4),
    "y[i] = again(x[i], n);": ("calls itself, which Enzyme differentiates wrongly", 4),
    "__shared__ char s[256];\n    float *f = (float *)s;\n    int *q = (int *)(s + 128);\n"
    "    f[i] = x[i], q[i] = i;\n    __syncthreads();\n    y[i] = f[q[31 - i]];": (
        "it uses the bits of real numbers as integers",
        7,
    ),
}
DEFINED = """__device__ float total;
__device__ float one(float a) { return a; }
__device__ float two(float a) { return 2 * a; }
__device__ float again(float a, int n) { return n ? again(a, n - 1) * a : 1; }
#line 1
"""


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(body, marks=() if k == 0 else pytest.mark.exhaustive)
        for k, body in enumerate(REFUSED)
    ],
)
def test_refusals_name_what_and_where(body):
    why, line = REFUSED[body]
    op, x = by_enzyme(f"{DEFINED}{HEAD}    {body}\n}}\n"), jnp.ones(32)
    with pytest.raises(NoDerivativeError, match="KB2107") as refused:
        jax.grad(lambda x: op(x).sum())(x)
    assert why in str(refused.value)
    assert f" (k.cu:{line})" in str(refused.value)


@pytest.mark.exhaustive
def test_a_source_of_several_kernels():
    other = HEAD.replace("void k", "void other") + "    y[i] = x[n - i] + total;\n}\n"
    source = f"{DEFINED}namespace {{\n{other}}}\n{HEAD}    y[i] = x[i] * x[i];\n}}\n"
    x = np.linspace(0, 1, 32, dtype=np.float32)
    assert_derivatives(by_enzyme(source), lambda x: x * x, x)


@pytest.mark.exhaustive
def test_headers_that_are_not_differentiated_are_named():
    op = by_enzyme(f"#include <cooperative_groups.h>\n{HEAD}    y[i] = x[i];\n}}\n")
    with pytest.raises(NoDerivativeError, match=r"refuses cooperative_groups\.h.*\(k\.cu:1\)"):
        jax.grad(lambda x: op(x).sum())(jnp.ones(32))


@pytest.mark.exhaustive
def test_shared_memory_of_integers_may_hold_real_numbers():
    op = by_enzyme(
        f"{HEAD}    __shared__ int s[32];\n    float *f = (float *)s;\n    f[i] = x[i] * x[i];\n"
        "    __syncthreads();\n    y[i] = f[31 - i] * x[i];\n}\n"
    )
    assert_derivatives(op, lambda x: x[::-1] ** 2 * x, np.linspace(0, 1, 32, dtype=np.float32))


@pytest.mark.exhaustive
def test_arrays_that_a_kernel_changes_and_options(tmp_path):
    (tmp_path / "scaled.h").write_text("__device__ float scaled(float a) { return a * SCALE; }\n")
    op = cuda_kernel(
        '#include "scaled.h"\n'
        "__global__ void k(const float *x, float *v, long n, int rows)\n{\n"
        "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "    if (i < n)\n        v[i] = scaled(v[i]) * x[i % rows] * v[i];\n}\n",
        "k",
        inplace="v",
        launch_dims=lambda x, v: v.size,
        attrs={"n": lambda x, v: v.size, "rows": lambda x, v: x.size},
        options=["-DSCALE=0.5f", "-lineinfo"],
        include_paths=[str(tmp_path)],
        derivatives="enzyme",
    )
    rng = np.random.default_rng(0)
    x, v = (rng.normal(size=n).astype(np.float32) for n in (7, 40))
    assert_derivatives(op, lambda x, v: 0.5 * v * v * x[np.arange(40) % 7], x, v, second=True)


@pytest.mark.exhaustive
def test_numbers_of_symbolic_shapes():
    op = cuda_kernel(
        "__global__ void k(const float *x, float *y, int rows, int n)\n{\n"
        "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "    if (i < n)\n        y[i] = x[i] * x[i] * rows;\n}\n",
        "k",
        lambda x: S(x.shape, x.dtype),
        launch_dims=lambda x: x.size,
        attrs={"rows": lambda x: x.shape[0], "n": lambda x: x.size},
        derivatives="enzyme",
    )
    shape = jax.export.symbolic_shape("a, b")
    exported = jax.export.export(jax.jit(jax.grad(lambda x: op(x).sum())))(S(shape, "float32"))
    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    np.testing.assert_array_equal(exported.call(x), 6 * x)


@pytest.mark.exhaustive
def test_check_rules_tests_the_derivatives():
    op, _, arguments = operation("stencil", "float32")
    assert all(check.status == "passed" for check in check_rules(op, *arguments))


@pytest.mark.exhaustive
def test_structures_are_copied_as_the_numbers_that_they_hold():
    op = cuda_kernel(
        "struct Three { float a, b, c; };\n"
        "__global__ void k(const float *x, float *y)\n{\n"
        "    __shared__ float2 s[32];\n    __shared__ Three q[32];\n    int i = threadIdx.x;\n"
        "    s[i] = reinterpret_cast<const float2 *>(x)[i];\n"
        "    q[i] = Three{x[i], x[i + 1], x[i + 2]};\n    Three r = q[i];\n"
        "    __syncthreads();\n    q[i] = i % 2 ? q[i] : r;\n    float2 v = s[31 - i];\n"
        "    float2 *out = reinterpret_cast<float2 *>(y);\n"
        "    out[i] = make_float2(v.x * v.x + q[i].b * r.a, v.y);\n"
        "    if (i == 3)\n        out[i] = s[5];\n}\n",
        "k",
        S((64,), "float32"),
        grid=1,
        block=32,
        derivatives="enzyme",
    )

    def by_jax(x):
        pairs = x.reshape(32, 2)
        first = pairs[::-1, 0] ** 2 + x[1:33] * x[:32]
        return jnp.stack([first, pairs[::-1, 1]], 1).at[3].set(pairs[5]).reshape(-1)

    assert_derivatives(op, by_jax, np.linspace(-1, 2, 64, dtype=np.float32))


def test_a_derivative_compares_arrays_with_the_types_of_a_template():
    source = """
    template <typename I> __global__ void squares(const float *x, const I *at, float *out, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) out[i] = x[at[i]] * x[at[i]];
    }"""
    op = cuda_kernel(
        source,
        "squares<long long>",
        lambda x, at: jax.ShapeDtypeStruct(at.shape, x.dtype),
        launch_dims=lambda x, at: at.size,
        attrs={"n": lambda x, at: at.size},
        derivatives="enzyme",
    )
    at = jnp.array([1, 0], jnp.int32)  # whose gradient does not need the kernel itself
    with pytest.raises(TypeError, match=r"input 1 is i32\[2\].*expected int64.*KB2007"):
        jax.jit(jax.grad(lambda x: op(x, at).sum()))(jnp.arange(4.0))


@pytest.mark.exhaustive
def test_members_of_a_structure():
    assert_members_of_a_structure()
