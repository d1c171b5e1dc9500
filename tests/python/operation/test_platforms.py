"""Programs for several platforms, on some of which an operation has no kernel."""

import re

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest
from kernbridge import XLACustomKernel, numba_kernel
from kernels import add

S = jax.ShapeDtypeStruct
X = np.arange(4, dtype=np.float32)
BOTH = ("cpu", "cuda")
double = numba_kernel(add, lambda x, y: S(x.shape, x.dtype))
twice = jax.jit(lambda x: double(x, x))


def custom(platform):
    op = XLACustomKernel(f"test_platforms_{platform}")
    op.def_kernel("jnp", platform, lambda outs: lambda x: 2 * x)
    return jax.jit(lambda x: op(x, outs=S(x.shape, x.dtype)))


def exported(f, *shapes, platforms=BOTH):
    return jax.export.export(f, platforms=platforms)(*shapes)


def called_targets(program):
    return sorted(set(re.findall(r"custom_call @([\w.]+)", program.mlir_module())))


@pytest.mark.parametrize("f", [twice, custom("cpu")], ids=["numba", "custom"])
def test_a_kernel_for_the_cpu_in_a_program_for_both(f):
    program = jax.export.deserialize(exported(f, X).serialize())
    assert program.platforms == BOTH
    np.testing.assert_array_equal(program.call(X), 2 * X)
    np.testing.assert_array_equal(jax.jit(program.call)(X), 2 * X)
    assert "kernbridge.absent" in called_targets(program)


def test_cpp_in_a_program_for_both():
    module = kernbridge.load_cpp_inline(
        "test_platforms",
        """
#include "kernbridge/kernbridge.hpp"
// @BE twice arg ret
void twice(const kernbridge::Tensor x, kernbridge::Tensor out) {
    for (int64_t i = 0; i < x.numel(); i++)
        out.data_ptr<float>()[i] = 2 * x.data_ptr<float>()[i];
}
""",
    )
    program = exported(jax.jit(lambda x: module.twice(x, outs=x)), X)
    np.testing.assert_array_equal(program.call(X), 2 * X)


def test_symbolic_shapes_and_vmap():
    (n,) = jax.export.symbolic_shape("n")
    program = exported(jax.jit(jax.vmap(twice)), S((n, 4), jnp.float32))
    np.testing.assert_array_equal(program.call(np.stack([X, -X])), np.stack([2 * X, -2 * X]))


def test_each_platform_has_a_function_of_its_own():
    f = jax.jit(lambda x: jax.lax.platform_dependent(x, cpu=twice, cuda=lambda x: x + x))
    np.testing.assert_array_equal(f(X), 2 * X)
    np.testing.assert_array_equal(exported(f, X).call(X), 2 * X)
    alone = exported(f, X, platforms=["cuda"])
    assert called_targets(alone) == []


def test_the_call_fails_where_there_is_no_kernel_and_is_not_avoided():
    f = custom("gpu")
    with pytest.raises(jax.errors.JaxRuntimeError) as e:
        exported(f, X).call(X).block_until_ready()
    message = str(e.value)
    assert "'test_platforms_gpu' was lowered for cpu, where it has no kernel" in message
    assert "Define one with def_numba_kernel or def_cpp_kernel" in message
    assert (
        "Alternatively, call another function on that platform with jax.lax.platform_dependent."
        in message
    )
    avoided = jax.jit(lambda x: jax.lax.platform_dependent(x, cpu=lambda x: x + 1, cuda=f))
    np.testing.assert_array_equal(exported(avoided, X).call(X), X + 1)


@pytest.mark.once
def test_a_front_end_that_refuses_a_platform_when_it_is_lowered(run_python):
    pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
    said = run_python(
        """
import jax, jax.numpy as jnp, kernbridge
from numba import cuda

@cuda.jit
def one(x, out):
    out[0] = x[0]

kernbridge.config.set_cuda_on_cpu("error")
kernbridge.config.set_cuda_architectures("9.0")
op = kernbridge.numba_cuda_kernel(one, jax.ShapeDtypeStruct((1,), jnp.float32), launch_dims=1)
x = jnp.ones(1)
try:
    jax.export.export(jax.jit(op), platforms=["cpu", "cuda"])(x).call(x).block_until_ready()
except jax.errors.JaxRuntimeError as e:
    print(e)
try:
    op(x)
except kernbridge.KernelNotAvailableError as e:
    print(e)
"""
    )
    at_run, way, when_lowered = said.splitlines()
    assert way.startswith("`kernbridge explain KB")
    assert "UNIMPLEMENTED: numba_cuda_kernel 'one' was lowered for the CPU, and" in at_run
    assert "platform_dependent" in at_run
    assert when_lowered.startswith("numba_cuda_kernel 'one' was lowered for the CPU, and")
    assert "platform_dependent" not in when_lowered


def test_a_platform_that_cannot_say_so_is_refused():
    with pytest.raises(kernbridge.KernelNotAvailableError, match=r"tpu.*\[KB7001\]"):
        exported(twice, X, platforms=["cpu", "tpu"])


def test_a_side_effect_is_missed_where_there_is_no_kernel():
    op = numba_kernel(add, S((4,), jnp.float32), has_side_effect=True)
    text = exported(jax.jit(lambda x: (op(x, x), x)[1]), X).mlir_module()
    calls = re.findall(r"custom_call @kernbridge\.\w+.*", text)
    assert len(calls) == 2
    assert all("has_side_effect = true" in call for call in calls)
