"""CUDA source on a GPU: operations, public targets, graphs, errors, batches, binaries."""

import functools
import shutil
import subprocess

import jax
import jax.numpy as jnp
import kernbridge
import kernbridge._core as _core
import numpy as np
import pytest
from kernbridge._src.toolchain.nvcc import find_nvcc

SOURCE = r"""
#include <cuda_runtime.h>
#include "brainevent/common.h"

template <typename T>
__global__ void axpy_kernel(const T* x, const T* y, T* out, int64_t n, T a) {
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i < n) out[i] = a * x[i] + y[i];
}

// @BE axpy arg arg ret attr.a stream
void axpy(const BE::Tensor x, const BE::Tensor y, BE::Tensor out, double a, int64_t stream) {
    BE_CHECK(x.numel() == y.numel()) << "x has " << x.numel() << ", y " << y.numel();
    int64_t n = x.numel();
    if (n == 0) return;
    BE_DISPATCH_FLOATING_AND_HALF(x.dtype(), T, {
        axpy_kernel<T><<<(n + 255) / 256, 256, 0, (cudaStream_t)stream>>>(
            x.data_ptr<T>(), y.data_ptr<T>(), out.data_ptr<T>(), n, T(a));
    });
}

__global__ void nothing() {}

// @BE bad_launch ret stream
void bad_launch(BE::Tensor out, int64_t stream) {
    nothing<<<1, 5000, 0, (cudaStream_t)stream>>>();  // and nobody looks
}

// @BE checked_launch ret stream
void checked_launch(BE::Tensor out, cudaStream_t stream) {
    nothing<<<1, 5000, 0, stream>>>();
    BE_CHECK_KERNEL_LAUNCH();
}

// @BE waits ret stream
void waits(BE::Tensor out, int64_t stream) {
    BE_CUDA_CHECK(cudaMemsetAsync(out.data_ptr(), 0, out.nbytes(), (cudaStream_t)stream));
    BE_CHECK_KERNEL_LAUNCH_SYNC();
}

// @BE throws_an_int ret stream
void throws_an_int(BE::Tensor out, int64_t stream) { throw 7; }

__global__ void shape_kernel(BE::Tensor x, int64_t* out) {
    for (int i = 0; i < x.ndim(); i++) out[i] = x.shape(i) * 1000 + x.stride(i);
}

// @BE shape_of arg ret stream
void shape_of(const BE::Tensor x, BE::Tensor out, int64_t stream) {
    shape_kernel<<<1, 1, 0, (cudaStream_t)stream>>>(x, out.data_ptr<int64_t>());
}
"""


@pytest.fixture(scope="module")
def module():
    return kernbridge.load_cuda_inline("test_load_cuda", SOURCE)


def like(x, dtype=None):
    return jax.ShapeDtypeStruct(x.shape, dtype or x.dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_values(module, x64, dtype):
    x = jnp.arange(1000).astype(dtype)
    y = jnp.ones_like(x)
    got = module.axpy(x, y, outs=like(x), a=0.5)
    np.testing.assert_array_equal(np.asarray(got), np.asarray(x * jnp.asarray(0.5, dtype) + y))
    again = jax.ffi.ffi_call("test_load_cuda.axpy", like(x))(x, y, a=np.float64(0.5))
    np.testing.assert_array_equal(np.asarray(got), np.asarray(again))


def test_empty(module):
    x = jnp.zeros((0, 3), jnp.float32)
    assert module.axpy(x, x, outs=like(x), a=1.0).shape == (0, 3)


def test_shape_in_a_kernel(module, x64):
    x = jnp.zeros((2, 3, 4, 1, 5), jnp.float32)
    out = module.shape_of(x, outs=jax.ShapeDtypeStruct((5,), jnp.int64))
    assert out.tolist() == [2060, 3020, 4005, 1005, 5001]


def test_batches(module):
    x = jax.random.normal(jax.random.key(0), (3, 4, 100))
    y = jnp.arange(100.0)

    def f(x, y):
        return module.axpy(x, y, outs=like(x), a=2.0)

    want = 2 * x + y
    got = jax.jit(jax.vmap(jax.vmap(f, (0, None)), (1, None), 1))(x, y)
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_scan(module):
    x = jnp.ones(10)

    def step(v, _):
        return module.axpy(v, x, outs=like(v), a=0.5), None

    assert jax.jit(lambda v: jax.lax.scan(step, v, length=200)[0])(x)[0] == 2.0


def test_no_python_and_graphs(module):
    """200 dependent calls: XLA records them, and replays what it recorded."""
    x = jnp.arange(8.0)

    @jax.jit
    def chain(v):
        for _ in range(200):
            v = module.axpy(v, x, outs=like(v), a=0.5)
        return v

    want = np.asarray(chain(x))
    before = _core.python_entries()
    for _ in range(5):
        np.testing.assert_array_equal(chain(x), want)
    assert _core.python_entries() == before
    np.testing.assert_allclose(want, 2 * np.arange(8.0), rtol=1e-6)


@pytest.mark.parametrize("name", ["bad_launch", "checked_launch"])
def test_errors_of_launches(module, name):
    outs = jax.ShapeDtypeStruct((1,), jnp.float32)
    with pytest.raises(Exception, match=r"invalid (configuration|argument)"):
        jax.block_until_ready(module[name](outs=outs))
    with pytest.raises(Exception, match=r"invalid (configuration|argument)"):
        jax.block_until_ready(jax.ffi.ffi_call(f"test_load_cuda.{name}", outs)())
    x = jnp.ones(4)  # the process and its context live
    assert module.axpy(x, x, outs=like(x), a=1.0).tolist() == [2.0] * 4


def test_exceptions(module):
    outs = jax.ShapeDtypeStruct((1,), jnp.float32)
    with pytest.raises(Exception, match="no std::exception"):
        jax.block_until_ready(module.throws_an_int(outs=outs))
    with pytest.raises(Exception, match="x has 3, y 4"):
        jax.block_until_ready(module.axpy(jnp.ones(3), jnp.ones(4), outs=outs, a=1.0))
    x = jnp.ones(3, jnp.int32)
    with pytest.raises(Exception, match="a tensor of int32, expected one of float32"):
        jax.block_until_ready(module.axpy(x, x, outs=outs, a=1.0))


def test_waiting_launch_check(module):
    outs = jax.ShapeDtypeStruct((3,), jnp.float32)
    assert module.waits(outs=outs).tolist() == [0, 0, 0]

    @jax.jit
    def twice():
        return [module.waits(outs=outs) for _ in range(8)]

    assert all(o.tolist() == [0, 0, 0] for o in twice())


def test_replace():
    def source(factor):
        return SOURCE.replace("a * x[i] + y[i]", f"T({factor}) * x[i]")

    x = jnp.ones(3)
    call = jax.jit(lambda x: jax.ffi.ffi_call("replaced.axpy", like(x))(x, x, a=np.float64(1)))
    first = kernbridge.load_cuda_inline("replaced", source(2))
    assert call(x).tolist() == [2, 2, 2]
    kernbridge.load_cuda_inline("replaced", source(2))
    with pytest.raises(kernbridge.KernelRegistrationError, match="replace=True"):
        kernbridge.load_cuda_inline("replaced", source(3))
    second = kernbridge.load_cuda_inline("replaced", source(3), replace=True)
    assert call(x).tolist() == [3, 3, 3]
    assert first.axpy(x, x, outs=like(x), a=1).tolist() == [2, 2, 2]
    assert second.axpy(x, x, outs=like(x), a=1).tolist() == [3, 3, 3]
    with pytest.raises(kernbridge.KernelRegistrationError, match="allow_cuda_graph=False"):
        kernbridge.load_cuda_inline("replaced", source(4), replace=True, allow_cuda_graph=False)


def test_without_graphs():
    module = kernbridge.load_cuda_inline("no_graph", SOURCE, allow_cuda_graph=False)
    x = jnp.ones(3)

    @jax.jit
    def chain(v):
        for _ in range(20):
            v = module.axpy(v, x, outs=like(v), a=0.5)
        return v

    np.testing.assert_allclose(chain(x), 2, rtol=1e-5)
    assert "kernbridge.cuda.graph" not in chain.lower(x).as_text()


SCALE = r"""
#include <cuda_fp16.h>
template <typename T, int N>
__global__ void scale(const T* x, T* out, int n, T factor) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = T(N) * factor * x[i];
}
"""


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_cuda_kernel_of_a_template(dtype):
    c_type = {"float32": "float", "float16": "__half"}[dtype]
    op = kernbridge.cuda_kernel(
        SCALE,
        f"scale<{c_type}, 3>",
        lambda x: like(x),
        launch_dims=lambda x: x.size,
        attrs={"n": lambda x: x.size},
    )
    x = jnp.arange(300).astype(dtype)
    got = op(x, factor=jnp.asarray(2, dtype))
    np.testing.assert_array_equal(np.asarray(got), np.asarray(x * 6))
    batch = jnp.stack([x, x + 1])
    np.testing.assert_array_equal(
        np.asarray(jax.vmap(lambda x: op(x, factor=np.dtype(dtype).type(2)))(batch)),
        np.asarray(batch * 6),
    )


PLAIN = r"""
#include <cstdint>
extern "C" __global__ void fma3(const float* x, float* out, float a, double b, int64_t n,
                                unsigned char flag, double2 z) {
    int64_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = flag ? float(a * x[i] + b + z.x - z.y) : 0.0f;
}
"""

DESCRIBED = "x: f32[n], a: f32, b: f64, flag: u8, z: c128 -> f32[n]"


@pytest.mark.gpu_only("CPUs have no CUDA graphs")
def test_cuda_kernel_parameters_of_every_size():
    op = kernbridge.cuda_kernel(PLAIN, "fma3", lambda x: like(x), launch_dims=lambda x: x.shape[0])
    x = jnp.arange(100, dtype=jnp.float32)
    got = op(x, a=2.0, b=0.5, n=100, flag=1, z=10 + 4j)
    np.testing.assert_array_equal(got, 2 * np.arange(100) + 0.5 + 6)
    assert op(x, a=2.0, b=0.5, n=100, flag=0, z=0).sum() == 0

    @jax.jit
    def chain(v):
        for _ in range(50):
            v = op(v, a=0.5, b=1.0, n=100, flag=1, z=0)
        return v

    np.testing.assert_allclose(chain(x), 2, rtol=1e-6)
    assert "kernbridge.cuda.graph" in chain.lower(x).as_text()
    (code,) = op.inspect(x, a=2.0, b=0.5, n=100, flag=1, z=0)
    assert code.registers > 0
    assert "fma3" in code.assembly


def test_cuda_kernel_export(tmp_path):
    op = kernbridge.cuda_kernel(
        PLAIN,
        "fma3",
        lambda x: like(x),
        launch_dims=lambda x: x.shape[0],
        attrs={"n": lambda x: x.size, "a": 2.0, "b": 0.5, "flag": 1, "z": 0j},
    )
    (n,) = jax.export.symbolic_shape("n")
    checks = [
        jax.export.DisabledSafetyCheck.custom_call(f"kernbridge.cuda{s}") for s in ("", ".graph")
    ]
    exported = jax.export.export(jax.jit(op), disabled_checks=checks)(
        jax.ShapeDtypeStruct((n,), jnp.float32)
    )
    data = exported.serialize()
    for size in (3, 1000):
        x = jnp.arange(size, dtype=jnp.float32)
        got = jax.export.deserialize(data).call(x)
        np.testing.assert_array_equal(got, 2 * np.arange(size) + 0.5)


DECAY = r"""
extern "C" __global__ void decay(float *v, const float *x, int rows, int cols, float leak) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y;
    if (i < cols && j < rows) v[j * cols + i] = leak * v[j * cols + i] + x[i];
}
"""


def test_cuda_kernel_by_a_signature():
    x = jnp.arange(1000, dtype=jnp.float32)
    want = 2 * np.arange(1000) + 0.5
    for launch in ({"launch_dims": "n"}, {"grid": "n", "block": 1}):
        named = kernbridge.cuda_kernel(PLAIN, "fma3", signature=DESCRIBED, **launch)
        jitted = jax.jit(functools.partial(named, a=2, b=0.5, flag=1, z=0))
        for got in named(x, 2, 0.5, flag=1, z=0), jitted(x):
            np.testing.assert_array_equal(got, want)
    signature = "v: f32[rows, cols], x: f32[cols], leak: f32 -> v"
    decay = kernbridge.cuda_kernel(
        DECAY, "decay", signature=signature, grid=("cols", "rows"), block=1
    )
    given = {"grid": lambda v, x: v.shape[::-1], "attrs": {"rows": 3, "cols": lambda v, x: x.size}}
    changes = kernbridge.cuda_kernel(DECAY, "decay", inplace="v", block=1, **given)
    v = jnp.arange(30, dtype=jnp.float32).reshape(3, 10)
    want = 0.5 * np.asarray(v) + np.arange(10)
    for op in decay, changes:
        step = functools.partial(op, x=x[:10], leak=0.5)
        for got in op(v, x[:10], leak=0.5), jax.jit(step)(v=v):
            np.testing.assert_array_equal(got, want)
        batch = jax.vmap(step)(v=jnp.stack([v, 0 * v]))
        np.testing.assert_array_equal(batch, [want, 0 * want + np.arange(10)])
    np.testing.assert_array_equal(v, np.arange(30).reshape(3, 10))  # JAX's array is as it was
    with pytest.raises(TypeError, match=r"cols is 10.*KB2007"):
        decay(v, x[:3], 0.5)


@pytest.mark.gpu_only("NVRTC writes the message")
def test_cuda_kernel_refused():
    x = jnp.ones(3)
    op = kernbridge.cuda_kernel(PLAIN, "fma3", lambda *a: like(a[0]), launch_dims=3)
    good = {"a": 1.0, "b": 1.0, "n": 3, "flag": 1, "z": 0}
    with pytest.raises(TypeError, match="takes 1 input, and the call has 2"):
        op(x, x, **good)
    with pytest.raises(TypeError, match="'x' is const float"):
        op(x.astype(jnp.int32), **good)
    with pytest.raises(TypeError, match="needs attribute 'z'"):
        op(x, a=1.0, b=1.0, n=3, flag=1)
    with pytest.raises(ValueError, match="is out of range for uint8"):
        op(x, **{**good, "flag": 256})
    broken = kernbridge.cuda_kernel(
        "__global__ void k(const float* x, float* out) { undefined(); }",
        "k",
        lambda x: like(x),
        launch_dims=1,
    )
    with pytest.raises(kernbridge.CompilationError, match=r"k\.cu\(1\): error.*undefined"):
        broken(x)


@pytest.mark.gpu_only("a cubin has machine code for GPUs")
@pytest.mark.parametrize("kind", ["cubin", "fatbin"])
def test_binary(tmp_path, kind):
    nvcc = find_nvcc().path
    capability = jax.devices("gpu")[0].compute_capability.replace(".", "")
    source = tmp_path / "k.cu"
    source.write_text(PLAIN.replace("#include <cstdint>", "#include <stdint.h>"))
    made = tmp_path / f"k.{kind}"
    command = [nvcc, f"-{kind}", f"-arch=sm_{capability}", str(source), "-o", str(made)]
    subprocess.run(command, check=True)
    binary = kernbridge.load_binary(made)
    numbers = "attr.a:float32 attr.b:float64 attr.n:int64 attr.flag:uint8 attr.z:complex128"
    tokens = f"arg:f32[n] ret:f32[n] {numbers}"
    op = binary.kernel("fma3", lambda x: like(x), tokens, launch_dims=lambda x: x.size)
    x = jnp.arange(10, dtype=jnp.float32)
    assert op(x, a=2.0, b=0.5, n=10, flag=1, z=0).tolist() == (2 * np.arange(10) + 0.5).tolist()
    described = kernbridge.load_binary(made, header=PLAIN).kernel(
        "fma3", signature=DESCRIBED, launch_dims="n"
    )
    assert described(x, 2, 0.5, flag=1, z=0).tolist() == (2 * np.arange(10) + 0.5).tolist()
    if kind == "cubin":
        with pytest.raises(kernbridge.KernelError, match="describes parameters of"):
            binary.kernel(
                "fma3", lambda x: like(x), "arg:any ret:any attr.a:float64", launch_dims=1
            )


def test_library(module, tmp_path):
    copy = tmp_path / "copy.so"
    shutil.copyfile(module.path, copy)
    loaded = kernbridge.load_binary(copy, name="copied")
    x = jnp.ones(3)
    assert loaded.axpy(x, x, outs=like(x), a=1.0).tolist() == [2, 2, 2]
    got = jax.ffi.ffi_call("copied.axpy", like(x))(x, x, a=np.float64(1))
    assert got.tolist() == [2, 2, 2]
