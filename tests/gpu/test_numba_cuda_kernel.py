"""`numba_cuda_kernel` on a GPU: values of every dtype, launch, alias and transformation."""

import threading

import jax
import jax.numpy as jnp
import kernbridge
import ml_dtypes
import numpy as np
import pytest

cuda = pytest.importorskip("numba.cuda")

from cuda_kernels import (  # noqa: E402
    add,
    copy,
    elementwise,
    hadamard,
    increment,
    plus_z,
    plus_zero_d,
    same_shape,
    scale,
    volume,
)

S = jax.ShapeDtypeStruct
F32 = jnp.float32


DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64", "complex128", ml_dtypes.bfloat16,
]  # fmt: skip


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_every_dtype(dtype):
    x = np.random.default_rng(0).normal(size=257).astype(dtype)
    op = elementwise(copy)
    np.testing.assert_array_equal(np.asarray(op(x)), x)


@pytest.mark.parametrize("n", [0, 1, 31, 256, 257, 100_003])
def test_sizes(n):
    x = jnp.arange(n, dtype=F32)
    np.testing.assert_array_equal(elementwise(add)(x, x), 2 * np.arange(n, dtype=np.float32))


def test_one_operation_serves_two_dtypes(x64):
    op = elementwise(add)
    for dtype in (np.float32, np.float64):
        x = jnp.arange(10, dtype=dtype)
        assert op(x, x).dtype == dtype
        np.testing.assert_array_equal(op(x, x), 2 * np.arange(10))


def test_two_and_three_dimensions():
    a = jnp.arange(33 * 65, dtype=F32).reshape(33, 65)
    np.testing.assert_array_equal(elementwise(hadamard)(a, a), np.asarray(a) ** 2)
    v = jnp.arange(5 * 7 * 9, dtype=F32).reshape(5, 7, 9)
    np.testing.assert_array_equal(elementwise(volume)(v), 2 * np.asarray(v))


def test_explicit_grid_and_zero_grid():
    x = jnp.arange(1000, dtype=F32)
    op = kernbridge.numba_cuda_kernel(add, S((1000,), F32), grid=4, block=256)
    np.testing.assert_array_equal(op(x, x), 2 * np.arange(1000))
    of_shape = {"grid": lambda x, y: x.shape[0], "block": 256}
    empty = kernbridge.numba_cuda_kernel(add, S((1000,), F32), **of_shape)
    np.testing.assert_array_equal(empty(x[:0], x[:0]), np.zeros(1000))


def test_auto_block_and_zero_outputs():
    x = jnp.arange(5000, dtype=F32)
    op = kernbridge.numba_cuda_kernel(
        add, S((5000,), F32), launch_dims=5000, threads_per_block="auto"
    )
    np.testing.assert_array_equal(op(x, x), 2 * np.arange(5000))
    half = kernbridge.numba_cuda_kernel(add, S((5000,), F32), launch_dims=256, zero_outputs=True)
    result = np.asarray(half(x, x))
    np.testing.assert_array_equal(result[:256], 2 * np.arange(256))
    assert not result[256:].any()


def test_zero_dimensional_and_keyword_scalars():
    x = jnp.arange(100, dtype=F32)
    np.testing.assert_array_equal(elementwise(plus_zero_d)(x, jnp.float32(3)), np.arange(100) + 3)
    op = elementwise(scale)
    for factor in (2.0, 3.5):
        np.testing.assert_array_equal(op(x, factor=jnp.float32(factor)), np.arange(100) * factor)
    np.testing.assert_array_equal(jax.jit(lambda x, f: op(x, factor=f))(x, 4.0), np.arange(100) * 4)


def test_alias_works_in_place():
    op = elementwise(increment, input_output_aliases={0: 0})
    x = jnp.arange(1000, dtype=F32)
    np.testing.assert_array_equal(op(x), np.arange(1000) + 1)
    np.testing.assert_array_equal(x, np.arange(1000))
    donated = jax.jit(op, donate_argnums=0)
    pointer = x.unsafe_buffer_pointer()
    y = donated(x)
    assert y.unsafe_buffer_pointer() == pointer
    assert x.is_deleted()


def test_inputs_are_protected_from_atomics():
    @cuda.jit
    def count(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = cuda.atomic.add(x, 0, 1.0)

    x = jnp.zeros(10, F32)
    with pytest.warns(kernbridge.KernbridgeWarning, match=r"input 0 \(x\)"):
        result = elementwise(count)(x)
    np.testing.assert_array_equal(np.sort(result), np.arange(10))
    np.testing.assert_array_equal(x, np.zeros(10))


def test_scan_of_ten_thousand_steps():
    op = elementwise(add)
    ones = jnp.ones(64, F32)
    total, _ = jax.jit(lambda x: jax.lax.scan(lambda c, _: (op(c, ones), None), x, None, 10_000))(
        jnp.zeros(64, F32)
    )
    np.testing.assert_array_equal(total, np.full(64, 10_000))


@pytest.mark.parametrize("kernel", [increment, plus_z], ids=["z free", "z used"])
@pytest.mark.parametrize("n", [0, 1, 7, 300])
def test_vmap(kernel, n):
    x = jnp.arange(n * 33, dtype=F32).reshape(n, 33)
    op = elementwise(kernel)
    expected = np.asarray(x) + (kernel is increment)
    np.testing.assert_array_equal(jax.vmap(op)(x), expected)
    np.testing.assert_array_equal(jax.jit(jax.vmap(op))(x), expected)


def test_vmap_beyond_the_grid():
    x = jnp.arange(65_536 * 3, dtype=F32).reshape(65_536, 3)
    np.testing.assert_array_equal(jax.vmap(elementwise(increment))(x), np.asarray(x) + 1)
    np.testing.assert_array_equal(
        jax.vmap(elementwise(increment, input_output_aliases={0: 0}))(x), np.asarray(x) + 1
    )


def test_nested_and_unmapped_vmap():
    op = elementwise(add)
    x = jnp.arange(4 * 5 * 6, dtype=F32).reshape(4, 5, 6)
    y = jnp.arange(5 * 6, dtype=F32).reshape(5, 6)
    np.testing.assert_array_equal(jax.vmap(jax.vmap(op))(x, x), 2 * np.asarray(x))
    np.testing.assert_array_equal(
        jax.vmap(jax.vmap(op), in_axes=(0, None))(x, y), np.asarray(x) + np.asarray(y)
    )
    z = jnp.arange(3 * 6, dtype=F32).reshape(3, 6)
    crossed = jax.vmap(jax.vmap(op, in_axes=(0, None)), in_axes=(None, 0))(y, z)
    np.testing.assert_array_equal(crossed, np.asarray(y)[None] + np.asarray(z)[:, None])


@pytest.mark.parametrize(
    "method",
    ["sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized"],
)
def test_named_vmap_methods(method):
    @cuda.jit
    def twice(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out.flat[i] = 2 * x.flat[i]

    op = kernbridge.numba_cuda_kernel(
        twice, same_shape, launch_dims=lambda x: x.size, vmap_method=method
    )
    x = jnp.arange(12, dtype=F32).reshape(3, 4)
    np.testing.assert_array_equal(jax.vmap(op)(x), 2 * np.asarray(x))


@pytest.mark.parametrize("launch", [{"launch_dims": 4}, {"grid": 1, "block": 32}])
@pytest.mark.parametrize("method", ["expand_dims", "broadcast_all", "legacy_vectorized"])
def test_a_fixed_launch_sees_slices_under_every_method(method, launch):
    @cuda.jit
    def add_rows(x, y, out):
        i = cuda.grid(1)
        if i < out.shape[0]:
            out[i] = x[i] + y[i]

    op = kernbridge.numba_cuda_kernel(
        add_rows, jax.ShapeDtypeStruct((4,), F32), vmap_method=method, **launch
    )
    x, y = jnp.arange(24, dtype=F32).reshape(2, 3, 4), jnp.arange(4, dtype=F32)
    got = jax.jit(jax.vmap(jax.vmap(op, (0, None)), (0, None)))(x, y)
    np.testing.assert_array_equal(got, np.asarray(x) + np.asarray(y))


def test_four_threads():
    op = jax.jit(elementwise(add))
    results = [None] * 4

    def work(k):
        x = jnp.full(1000, k, F32)
        for _ in range(50):
            x = op(x, x) - x
        results[k] = np.asarray(x)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for k, r in enumerate(results):
        np.testing.assert_array_equal(r, np.full(1000, k))


def test_no_python_while_it_runs():
    op = jax.jit(elementwise(add))
    x = jnp.ones(100, F32)
    op(x, x)
    before = kernbridge._core.python_entries()
    for _ in range(10):
        x = op(x, x)
    x.block_until_ready()
    assert kernbridge._core.python_entries() == before
    assert x[0] == 1024


def test_more_shared_memory_than_there_is_is_an_error_at_compile_time():
    op = kernbridge.numba_cuda_kernel(add, S((10,), F32), grid=1, block=32, shared_mem=1 << 20)
    x = S((10,), F32)
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"'add'.*1048576 bytes of dynamic shared"):
        jax.jit(op).lower(x, x).compile()


@pytest.mark.gpu_only("a CPU runs as many blocks of a cooperative launch as are asked for")
def test_a_failed_launch_names_kernel_grid_and_block():
    op = kernbridge.numba_cuda_kernel(
        add, S((10,), F32), grid=1_000_000, block=1024, cooperative=True
    )
    x = jnp.ones(10, F32)
    with pytest.raises(
        jax.errors.JaxRuntimeError,
        match=r"'add': launch of .*add.*, grid \(1000000, 1, 1\), block \(1024, 1, 1\).*"
        "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE",
    ):
        op(x, x).block_until_ready()


CHECKS = [
    jax.export.DisabledSafetyCheck.custom_call(f"kernbridge.cuda.{t}") for t in ("graph", "host")
]


def test_export():
    exported = jax.export.export(jax.jit(elementwise(add)), disabled_checks=CHECKS)(
        S((16,), F32), S((16,), F32)
    )
    x = jnp.arange(16, dtype=F32)
    back = jax.export.deserialize(exported.serialize())
    np.testing.assert_array_equal(back.call(x, x), 2 * np.arange(16))


def test_symbolic_shapes():
    (n,) = jax.export.symbolic_shape("n")
    exported = jax.export.export(jax.jit(elementwise(add)), disabled_checks=CHECKS)(
        S((n,), F32), S((n,), F32)
    )
    for size in (1, 255, 1000):
        x = jnp.arange(size, dtype=F32)
        np.testing.assert_array_equal(exported.call(x, x), 2 * np.arange(size))


def test_random_states_are_taken_as_their_words():
    from numba.cuda.random import (
        init_xoroshiro128p_states_cpu,
        xoroshiro128p_dtype,
        xoroshiro128p_uniform_float32,
    )

    @cuda.jit
    def draw(states, out_states, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = xoroshiro128p_uniform_float32(out_states, i)

    n = 512
    states = np.zeros(n, xoroshiro128p_dtype)
    init_xoroshiro128p_states_cpu(states, np.uint64(7), np.uint64(0))
    words = jnp.asarray(states.view(np.uint32).reshape(n, -1))
    op = kernbridge.numba_cuda_kernel(
        draw,
        [S(words.shape, words.dtype), S((n,), F32)],
        launch_dims=n,
        view={"states": xoroshiro128p_dtype, "out_states": xoroshiro128p_dtype},
        input_output_aliases={0: 0},
    )
    words, first = op(words)
    _, second = op(words)
    for sample in (first, second):
        assert 0 <= sample.min() < 0.05
        assert 0.95 < sample.max() < 1
        assert 0.4 < sample.mean() < 0.6
    assert not np.array_equal(first, second)


@cuda.jit
def delayed(x, factor, out):
    """Take 50 ms, so that what comes after it has not begun when it has been launched."""
    i = cuda.grid(1)
    for _ in range(50):
        cuda.nanosleep(1_000_000)
    if i < out.size:
        out[i] = x[i] * factor


@pytest.mark.gpu_only("debug=True is launched by Numba, which needs a GPU")
def test_a_debugged_kernel_is_launched_by_numba_and_raises():
    @cuda.jit(debug=True, opt=False)
    def checked(x, factor, out):
        i = cuda.grid(1)
        if i < out.size:
            if x[i] < 0:
                raise ValueError("negative")
            out[i] = x[i] * factor

    op = elementwise(checked)
    x = jnp.arange(100, dtype=F32)
    with pytest.warns(kernbridge.KernbridgeWarning, match="debug=True is launched by Numba"):
        result = op(x, factor=F32(3))
    np.testing.assert_array_equal(result, 3 * np.arange(100))
    np.testing.assert_array_equal(jax.vmap(lambda x: op(x, factor=2.0))(x.reshape(4, 25)).ravel(),
                                  2 * np.arange(100))  # fmt: skip
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"'checked': ValueError: .*negative"):
        jax.jit(op)(-x, factor=2.0).block_until_ready()
    slow = elementwise(delayed)
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"'checked': ValueError: .*negative"):
        jax.jit(lambda x: op(slow(x, factor=-1.0), factor=2.0))(x).block_until_ready()
    of_shape = {"grid": lambda x, **_: x.shape[0], "block": 32}
    nothing = kernbridge.numba_cuda_kernel(checked, S((100,), F32), **of_shape)
    np.testing.assert_array_equal(nothing(x[:0], factor=2.0), np.zeros(100))
    with pytest.raises(
        ValueError, match=r"debug=True is launched by Numba, which does not support"
    ):
        kernbridge.numba_cuda_kernel(checked, S((100,), F32), grid=1, block=1, zero_outputs=True)(
            x, factor=2.0
        )


@pytest.mark.gpu_only("Numba compiles a declared signature at once, for the GPU that is there")
def test_declared_signatures_are_checked():
    @cuda.jit("void(float32[:], float32[:])")
    def declared(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] + 1

    x = jnp.arange(10, dtype=F32)
    np.testing.assert_array_equal(elementwise(declared)(x), np.arange(10) + 1)
    with pytest.raises(TypeError, match=r"'declared': the kernel was declared for"):
        elementwise(declared)(x.astype(jnp.int32))


def test_jax_functions_in_a_kernel_with_a_signature():
    gelu, slope = kernbridge.inline(jax.nn.gelu), kernbridge.inline(jax.grad(jax.nn.silu))

    @kernbridge.kernel("dt: f32, v: f32[n], i: i32[n + 1] -> v, f32[n]", launch_dims="n")
    @cuda.jit
    def step(v, i, dt, out):
        k = cuda.grid(1)
        if k < v.size:
            v[k] += dt * gelu(v[k])
            out[k] = slope(v[k]) * (i[k + 1] - i[k])

    v, i = jnp.linspace(-3, 3, 1001, dtype=F32), jnp.arange(1002, dtype=jnp.int32)
    new = v + 0.5 * jax.nn.gelu(v)
    for got, want in zip(step(0.5, v, i), (new, jax.vmap(jax.grad(jax.nn.silu))(new)), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6)
    many = jax.vmap(step, (0, None, None))(jnp.array([0.5, 0.5]), v, i)
    np.testing.assert_allclose(many[0][1], new, rtol=2e-5, atol=1e-6)


def test_a_jax_function_as_an_argument():
    @cuda.jit
    def apply(x, f, out):
        k = cuda.grid(1)
        if k < x.size:
            out[k] = f(x[k])

    op = kernbridge.numba_cuda_kernel(apply, lambda x: x, launch_dims=lambda x: x.size)
    x = jnp.linspace(-3, 3, 1001, dtype=F32)
    for f in jnp.tanh, jax.nn.sigmoid:
        np.testing.assert_allclose(op(x, f=f), f(x), rtol=2e-5, atol=1e-6)
