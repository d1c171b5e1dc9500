"""The CUDA examples of the seeds (000, 002, 003 but its section 7), with their numbers.

`import math` stands at the top: Numba-CUDA does not compile it inside a kernel, as seed 003 has it.
"""

import math

import jax
import jax.numpy as jnp
import kernbridge as brainevent
import numpy as np
import pytest

cuda = pytest.importorskip("numba.cuda")
numba_cuda_kernel = brainevent.numba_cuda_kernel
numba_cuda_callable = brainevent.numba_cuda_callable


def test_relu_and_sigmoid_of_the_tutorial():
    @cuda.jit
    def elementwise_relu_kernel(x, out):
        """Element-wise ReLU: out[i] = max(x[i], 0)."""
        i = cuda.grid(1)  # global thread index
        if i < out.size:  # bounds check
            out[i] = max(x[i], 0.0)

    @cuda.jit
    def elementwise_sigmoid_kernel(x, out):
        """Element-wise sigmoid: out[i] = 1 / (1 + exp(-x[i]))."""
        i = cuda.grid(1)
        if i < out.size:
            out[i] = 1.0 / (1.0 + math.exp(-x[i]))

    n = 1024
    x = jnp.linspace(-3.0, 3.0, n, dtype=jnp.float32)
    relu_fn = numba_cuda_kernel(
        elementwise_relu_kernel, outs=jax.ShapeDtypeStruct((n,), jnp.float32), grid=4, block=256
    )
    np.testing.assert_array_equal(relu_fn(x), jnp.maximum(x, 0.0))
    sigmoid_fn = numba_cuda_kernel(
        elementwise_sigmoid_kernel,
        outs=jax.ShapeDtypeStruct((n,), jnp.float32),
        launch_dims=n,
        threads_per_block=128,
    )
    np.testing.assert_allclose(sigmoid_fn(x), 1.0 / (1.0 + jnp.exp(-x)), rtol=1e-6)


def test_multiple_outputs():
    @cuda.jit
    def split_kernel(x, pos_out, neg_out):
        i = cuda.grid(1)
        if i < x.size:
            v = x[i]
            pos_out[i] = max(v, 0.0)
            neg_out[i] = min(v, 0.0)

    n = 512
    x = jnp.linspace(-2.0, 2.0, n, dtype=jnp.float32)
    split_fn = numba_cuda_kernel(
        split_kernel,
        outs=[jax.ShapeDtypeStruct((n,), jnp.float32), jax.ShapeDtypeStruct((n,), jnp.float32)],
        launch_dims=n,
    )
    pos, neg = split_fn(x)
    np.testing.assert_array_equal(pos, np.maximum(x, 0))
    np.testing.assert_array_equal(pos + neg, x)


def test_jit_and_repeated_calls():
    @cuda.jit
    def add_kernel(x, y, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] + y[i]

    n = 256
    add_fn = numba_cuda_kernel(
        add_kernel, outs=jax.ShapeDtypeStruct((n,), jnp.float32), launch_dims=n
    )

    @jax.jit
    def jitted_add(a, b):
        return add_fn(a, b)

    a = jnp.arange(n, dtype=jnp.float32)
    b = jnp.ones(n, dtype=jnp.float32) * 2.0
    for _ in range(6):
        np.testing.assert_array_equal(jitted_add(a, b), a + b)


def test_two_dimensional_launch():
    @cuda.jit
    def matmul_element_kernel(A, B, C):
        i, j = cuda.grid(2)
        if i < C.shape[0] and j < C.shape[1]:
            C[i, j] = A[i, j] * B[i, j]

    m, n = 64, 64
    a = jnp.arange(m * n, dtype=jnp.float32).reshape(m, n)
    b = jnp.ones((m, n), dtype=jnp.float32) * 2.0
    hadamard_fn = numba_cuda_kernel(
        matmul_element_kernel, outs=jax.ShapeDtypeStruct((m, n), jnp.float32), launch_dims=(m, n)
    )
    np.testing.assert_array_equal(hadamard_fn(a, b), a * b)


def test_two_kernels_with_a_temporary():
    @cuda.jit
    def square_kernel(x, temp):
        i = cuda.grid(1)
        if i < temp.size:
            temp[i] = x[i] * x[i]

    @cuda.jit
    def sqrt_kernel(temp, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = math.sqrt(temp[i])

    def abs_via_two_kernels(x, out, stream):
        n = x.shape[0]
        threads = 256
        blocks = (n + threads - 1) // threads
        temp = cuda.device_array(n, dtype=np.float32)
        square_kernel[blocks, threads, stream](x, temp)
        sqrt_kernel[blocks, threads, stream](temp, out)

    n = 512
    x = jnp.linspace(-5.0, 5.0, n, dtype=jnp.float32)
    abs_fn = numba_cuda_callable(
        abs_via_two_kernels, outs=jax.ShapeDtypeStruct((n,), jnp.float32), record="always"
    )
    np.testing.assert_allclose(abs_fn(x), np.abs(x), rtol=1e-6)


def test_spike_detection_and_reset():
    @cuda.jit
    def detect_spikes_kernel(V, V_th, spikes):
        i = cuda.grid(1)
        if i < V.size:
            spikes[i] = 1 if V[i] >= V_th[0] else 0

    @cuda.jit
    def reset_potential_kernel(V, spikes, V_rest, V_out):
        i = cuda.grid(1)
        if i < V.size:
            V_out[i] = V_rest[0] if spikes[i] else V[i]

    def lif_step(V, V_th, V_rest, spikes_out, V_out, stream):
        n = V.shape[0]
        threads = 256
        blocks = (n + threads - 1) // threads
        detect_spikes_kernel[blocks, threads, stream](V, V_th, spikes_out)
        reset_potential_kernel[blocks, threads, stream](V, spikes_out, V_rest, V_out)

    n = 10_000
    rng = np.random.default_rng(0)
    v = jnp.array(rng.uniform(-75.0, -50.0, n).astype(np.float32))
    v_th = jnp.array([-55.0], dtype=jnp.float32)
    v_rest = jnp.array([-70.0], dtype=jnp.float32)
    lif_fn = numba_cuda_callable(
        lif_step,
        outs=[jax.ShapeDtypeStruct((n,), jnp.int32), jax.ShapeDtypeStruct((n,), jnp.float32)],
    )
    spikes, v_out = jax.jit(lambda *a: lif_fn(*a))(v, v_th, v_rest)
    expected_spikes = (v >= v_th[0]).astype(jnp.int32)
    np.testing.assert_array_equal(spikes, expected_spikes)
    np.testing.assert_array_equal(v_out, jnp.where(expected_spikes, v_rest[0], v))
    assert 1500 < int(spikes.sum()) < 2500


def test_exp_decay():
    @cuda.jit
    def exp_decay_kernel(x, decay, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] * math.exp(-decay[0])

    n = 1024
    fn = numba_cuda_kernel(
        exp_decay_kernel, outs=jax.ShapeDtypeStruct((n,), jnp.float32), launch_dims=n
    )
    r = jax.jit(fn)(jnp.ones(n, dtype=jnp.float32), jnp.array([0.1], dtype=jnp.float32))
    np.testing.assert_allclose(r, np.full(n, np.exp(-0.1)), rtol=1e-6)


def test_the_docstring_example_with_scalars():
    @cuda.jit
    def add_kernel(x, y, temp, n):
        i = cuda.grid(1)
        if i < n:
            temp[i] = x[i] + y[i]

    @cuda.jit
    def scale_kernel(temp, out, scale, n):
        i = cuda.grid(1)
        if i < n:
            out[i] = temp[i] * scale

    def my_op(x, y, out, stream):
        n = x.shape[0]
        temp = cuda.device_array(n, dtype=x.dtype)
        threads = 256
        blocks = (n + threads - 1) // threads
        add_kernel[blocks, threads, stream](x, y, temp, n)
        scale_kernel[blocks, threads, stream](temp, out, 2.0, n)

    fn = numba_cuda_callable(my_op, outs=jax.ShapeDtypeStruct((1024,), jnp.float32))

    @jax.jit
    def f(a, b):
        return fn(a, b)

    a = jnp.arange(1024, dtype=jnp.float32)
    np.testing.assert_array_equal(f(a, a + 1), 2 * (2 * np.arange(1024) + 1))
