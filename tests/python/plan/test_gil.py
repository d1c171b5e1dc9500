"""No operation needs Python while it runs: another thread holds the GIL all the while."""

import fake_gpu
import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest
from gil import Gate
from kernels import double

S = jax.ShapeDtypeStruct


@pytest.fixture(scope="module")
def gate(tmp_path_factory):
    compiler = fake_gpu.compiler()
    if compiler is None:
        pytest.skip("no C compiler")
    return Gate(compiler, tmp_path_factory.mktemp("gate"))


def test_a_cpu_kernel_runs_while_another_thread_holds_the_gil(gate):
    op = kernbridge.numba_kernel(double, S((5,), jnp.float32))
    x = jnp.arange(5.0)
    result, reached = gate.run(gate.compile(op, x), x)
    assert reached
    np.testing.assert_array_equal(result, 2 * np.arange(5))


@pytest.mark.once
@pytest.mark.exhaustive
def test_a_python_callback_cannot(gate):
    """That the gate does hold the GIL: without it the callback would be through."""
    f = gate.compile(lambda x: jax.pure_callback(lambda x: x, S((5,), jnp.float32), x), jnp.ones(5))
    _, reached = gate.run(f, jnp.ones(5))
    assert not reached


def test_a_recorded_callable_is_launched_while_another_thread_holds_the_gil(gate, gpu):
    from numba import cuda

    @cuda.jit
    def add(x, y, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] + y[i]

    def run(x, out, stream):
        temporary = cuda.device_array_like(x)
        add[1, 8, stream](x, x, temporary)
        add[1, 8, stream](temporary, x, out)

    op = kernbridge.numba_cuda_callable(run, S((5,), jnp.float32), record="always")
    x = jnp.arange(5.0)
    compiled = gate.compile(op, x)
    before = kernbridge._core.python_entries()
    _, reached = gate.run(compiled, x)
    assert reached
    assert kernbridge._core.python_entries() == before
    assert len(gpu.launches) == 2
