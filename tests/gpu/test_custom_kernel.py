"""One operation with many backends on a real GPU, and derivatives of GPU operations."""

import importlib.util

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import operations
import pytest
from kernbridge import check_rules, config
from numba import cuda

S = jax.ShapeDtypeStruct
NEEDS = {"triton": "jax_triton", "warp": "warp"}
gpu_only = pytest.mark.gpu_only


@pytest.fixture(scope="module", autouse=True)
def numba_cuda_for_the_cpu(on_cpu):
    """Where these tests run on the CPU, the same generators are its kernels of this name."""
    if on_cpu:
        operations.leaky_op.def_kernel("numba_cuda", "cpu", operations.leaky_numba_cuda)
        operations.lif_op.def_kernel("numba_cuda", "cpu", operations.lif_numba_cuda)


def alone(*backends):
    """Backends whose kernels GPUs alone run."""
    return [pytest.param(b, marks=gpu_only(f"{b} has no code for CPUs")) for b in backends]


def need(backend):
    package = NEEDS.get(backend)
    if package and importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")


@pytest.mark.parametrize("backend", ["numba_cuda", *alone("cuda_raw", "pallas", "triton", "warp")])
def test_leaky_relu(backend):
    need(backend)
    operations.check_leaky(backend)


@pytest.mark.parametrize("backend", ["numba_cuda", *alone("cuda_raw")])
def test_lif_step(backend):
    operations.check_lif(backend)


@pytest.mark.parametrize("backend", ["numba", "cpp"])
@gpu_only("tests/python/custom/test_seed_003.py runs these without a GPU")
def test_the_same_operations_on_the_cpu_beside_a_gpu(backend):
    with jax.default_device(jax.devices("cpu")[0]):
        operations.check_leaky(backend)
        operations.check_lif(backend)


def test_rules(on_cpu):
    x = jnp.linspace(-3.0, 3.0, 8)
    backends = ["numba_cuda"] if on_cpu else ["numba_cuda", "cuda_raw"]
    checks = check_rules(operations.leaky_op, x, alpha=0.1, backends=backends)
    assert {c.status for c in checks} == {"passed"}
    V = jnp.linspace(-75, -50, 9)
    checks = check_rules(operations.lif_op, V, jnp.array([-55.0]), jnp.array([-70.0]))
    assert {c.status for c in checks} == {"passed"}


@gpu_only("switches between backends, of which CPUs run one")
def test_switching_reaches_jitted_functions():
    traces = []

    @jax.jit
    def f(x):
        traces.append(1)
        return operations.leaky(x, 0.1)

    x = jnp.linspace(-1, 1, 9, dtype=jnp.float32)
    names = {"numba_cuda": "kernbridge.cuda", "cuda_raw": "kernbridge.cuda", "pallas": "pallas"}
    try:
        for backend in (*names, *names):
            config.set_backend("gpu", backend)
            np.testing.assert_array_equal(f(x), operations.leaky_in_jax(x))
            assert f"gpu:{backend}" in str(jax.make_jaxpr(operations.leaky)(x))
    finally:
        config.clear_backends()
    assert len(traces) == 3


def test_a_batch_of_a_numba_cuda_kernel_is_one_launch():
    text = jax.jit(jax.vmap(lambda x: operations.leaky(x, 0.1, "numba_cuda")))
    text = text.lower(jnp.ones((3, 8))).as_text()
    carriers = text.count(".carrier")  # of the kernel itself, on CPUs
    assert text.count("custom_call @kernbridge.cuda") == 1 + carriers
    assert "while" not in text


def test_derivatives_of_gpu_kernels():
    @cuda.jit
    def cube(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] * x[i] * x[i]

    @cuda.jit
    def cube_backward(x, ct, dx):
        i = cuda.grid(1)
        if i < dx.size:
            dx[i] = 3 * x[i] * x[i] * ct[i]

    n = 1000
    backward = kernbridge.numba_cuda_kernel(
        cube_backward, lambda x, ct: S(x.shape, x.dtype), launch_dims=n
    )
    op = kernbridge.numba_cuda_kernel(
        cube,
        lambda x: S(x.shape, x.dtype),
        launch_dims=n,
        vjp=lambda inputs, outputs, ct: (backward(inputs[0], ct),),
        jvp=lambda inputs, outputs, tangents: 3 * inputs[0] ** 2 * tangents[0],
    )
    x = jnp.linspace(-1, 1, n, dtype=jnp.float32)
    assert {c.status for c in check_rules(op, x)} == {"passed"}
    X = jnp.stack([x, 2 * x])
    for run in (
        lambda f: jax.jit(jax.grad(lambda x: (f(x) ** 2).sum()))(x),
        lambda f: jax.vmap(jax.grad(lambda x: (f(x) ** 2).sum()))(X),
        lambda f: jax.grad(lambda X: (jax.vmap(f)(X) ** 2).sum())(X),
        lambda f: jax.grad(lambda x: jax.lax.scan(lambda c, _: (f(c), c), x, None, 4)[0].sum())(x),
    ):
        np.testing.assert_allclose(run(op), run(lambda x: x * x * x), rtol=1e-5, atol=1e-7)
