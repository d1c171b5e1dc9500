"""A CPU kernel on a machine whose default device is a GPU."""

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest

try:
    jax.devices("gpu")
except RuntimeError as e:
    pytest.skip(f"no GPU that JAX can use: {e}", allow_module_level=True)

S = jax.ShapeDtypeStruct


@numba.njit
def add(x, y, out):
    for i in range(out.size):
        out[i] = x[i] + y[i]


op = kernbridge.numba_kernel(add, lambda x, y: S(x.shape, x.dtype))


def test_lowered_for_the_gpu_says_how_to_stay_on_the_cpu():
    x = jnp.ones(3)
    assert next(iter(x.devices())).platform == "gpu"
    with pytest.raises(
        kernbridge.KernelNotAvailableError, match=r"'add' has a kernel for cpu.*cuda.*device_put"
    ):
        op(x, x)


def test_committed_arrays_run_on_the_cpu():
    cpu = jax.devices("cpu")[0]
    x = jax.device_put(jnp.arange(5.0), cpu)
    np.testing.assert_array_equal(op(x, x), 2 * np.arange(5))
    np.testing.assert_array_equal(jax.jit(lambda x: op(x, x) + 1)(x), 2 * np.arange(5) + 1)


def test_default_device_runs_on_the_cpu_between_gpu_computations():
    on_gpu = jax.jit(lambda x: jnp.sin(x))(jnp.arange(5.0))
    with jax.default_device(jax.devices("cpu")[0]):
        summed = op(np.asarray(on_gpu), np.ones(5, np.float32))
    back = jax.device_put(summed, jax.devices("gpu")[0])
    np.testing.assert_allclose(jnp.cos(back), np.cos(np.sin(np.arange(5.0)) + 1), rtol=1e-5)
