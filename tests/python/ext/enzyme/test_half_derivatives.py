"""Derivatives of kernels of half precision on the CPU, against JAX's own of equal functions."""

import cuda_halves
import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest
from kernbridge import cuda_kernel, numba_kernel
from kernbridge.errors import NoDerivativeError, NvccNotFoundError
from needs_enzyme import assert_derivatives, needs_enzyme

pytestmark = [
    pytest.mark.once,
    needs_enzyme,
    pytest.mark.usefixtures("without_fake_gpu"),
    pytest.mark.filterwarnings("ignore:.*KB7002"),
]
S = jax.ShapeDtypeStruct
FAST = {("scatter", "float16"), ("lengths", "bfloat16")}


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        pytest.param(name, dtype, marks=() if (name, dtype) in FAST else pytest.mark.exhaustive)
        for name in cuda_halves.KERNELS
        for dtype in cuda_halves.C
    ],
)
def test_derivatives_agree_with_jax(name, dtype):
    op, reference, arguments = cuda_halves.operation(name, dtype)
    batched, second = name in ("dot", "stencil"), name == "polynomial"
    assert_derivatives(op, reference, *arguments, batched=batched, second=second)


@pytest.mark.brief
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("kind", ["kernel", "elementwise"])
def test_kernels_of_numba_compute_in_float32(kind, dtype):
    def polynomial(x, w):
        return x * x * w + w

    def kernel(x, w, out):
        for i in range(out.size):
            out[i] = x[i] * x[i] * w[i] + w[i]

    op = kernbridge.elementwise(polynomial, derivatives="enzyme")
    if kind == "kernel":
        signature = "x: T[n], w: T[n] -> T[n]"
        op = numba_kernel(numba.njit(kernel), signature=signature, derivatives="enzyme")
    x, w, t = (jnp.asarray(np.linspace(k, k + 1, 5), dtype) for k in (-1, 1, 2))
    wide = [v.astype(jnp.float32) for v in (x, w, t)]
    for derivative in (
        lambda f, x, w, t: jax.jvp(f, (x, w), (t, w))[1],
        lambda f, x, w, t: jax.vjp(f, x, w)[1](t),
        lambda f, x, w, t: jax.jvp(jax.grad(lambda x: f(x, w).sum()), (x,), (t,))[1],
    ):
        found = jax.tree.leaves(jax.jit(derivative, static_argnums=0)(op, x, w, t))
        for a, b in zip(found, jax.tree.leaves(derivative(polynomial, *wide)), strict=True):
            assert a.dtype == dtype
            np.testing.assert_array_equal(a, b.astype(dtype))


def by_enzyme(body, n=32, arguments="const T *x, T *y"):
    source = f"__global__ void k({arguments})\n{{\n    int i = threadIdx.x;\n    {body}\n}}\n"
    source = cuda_halves.HEAD.format(*cuda_halves.C["float16"]) + source
    return cuda_kernel(source, "k", S((n,), "float16"), grid=1, block=32, derivatives="enzyme")


def test_cotangents_are_summed_in_float32():
    # The sum of halves would not grow beyond 1024.
    op = by_enzyme("for (int k = i; k < 8192; k += 32)\n        y[k] = x[0] * T(0.5);", 8192)
    x = jnp.ones(1, jnp.float16)
    (ct,) = jax.vjp(op, x)[1](jnp.ones(8192, jnp.float16))
    assert ct.dtype == x.dtype
    np.testing.assert_array_equal(ct, [4096])


REFUSED = {
    "((float4 *)y)[i % 4] = ((const float4 *)x)[i % 4];": "as other data .load float",
    "y[i] = ((const short *)x)[i];": "as other data .load i16",
    "y[i] = T(float((long long)(x + i) >> 4));": "as other data .ptrtoint",
    "extern __shared__ char s[];\n    ((T *)s)[i] = x[i], ((float *)s)[32 + i] = x[i];\n"
    "    __syncthreads();\n    y[i] = ((T *)s)[31 - i] * T(((float *)s)[63 - i]);": "as other data",
    "y[i] = x[i] * __ushort_as_half(i);": "undeclared identifier '__ushort_as_half'",
}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(body, marks=() if k == 0 else pytest.mark.exhaustive)
        for k, body in enumerate(REFUSED)
    ],
)
def test_kernels_that_know_the_size_of_halves_are_refused(body):
    op, x = by_enzyme(body), jnp.ones(32, jnp.float16)
    with pytest.raises(NoDerivativeError, match=rf"'k'.*{REFUSED[body]}.*KB2107"):
        jax.jit(jax.grad(lambda x: op(x).sum())).lower(x)


@pytest.mark.exhaustive
def test_bits_in_other_arrays_are_refused():
    body, arguments = "y[i] = ((const T *)bits)[i] * x[i];", "const short *bits, const T *x, T *y"
    op, x = by_enzyme(body, arguments=arguments), jnp.ones(32, jnp.float16)
    with pytest.raises(NoDerivativeError, match="an array of int16 as one of half precision"):
        jax.jit(jax.grad(lambda x: op(jnp.arange(32, dtype=jnp.int16), x).sum())).lower(x)


@pytest.mark.exhaustive
def test_addresses_of_halves_in_other_arrays_are_what_they_are():
    body = "y[i] = x[i] * T(float(*(const short *)((const T *)n + i)));"
    op = by_enzyme(body, arguments="const short *n, const T *x, T *y")
    n, x = jnp.arange(32, dtype=jnp.int16), jnp.linspace(0, 1, 32, dtype=jnp.float16)
    np.testing.assert_array_equal(jax.grad(lambda x: op(n, x).sum())(x), n.astype(x.dtype))


def loaded(dtype):
    try:
        cuda_halves.module(dtype, compute_capability="9.0")
    except NvccNotFoundError as e:
        pytest.skip(f"no nvcc: {str(e).splitlines()[0]}")
    return cuda_halves.module(dtype)


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", cuda_halves.C)
def test_functions_of_modules(dtype):
    assert_derivatives(*cuda_halves.energy(loaded(dtype), dtype), batched=True)


@pytest.mark.exhaustive
def test_bytes_in_arrays_of_functions_are_refused():
    x = jnp.ones(8, jnp.float16)
    op = loaded("float16").filled.operation(x, derivatives="enzyme")
    with pytest.raises(
        NoDerivativeError, match=r"filled.*arrays of half precision as bytes.*KB2107"
    ):
        jax.jit(jax.grad(lambda x: op(x).sum())).lower(x)
