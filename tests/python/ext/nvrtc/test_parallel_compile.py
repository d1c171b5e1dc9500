"""Kernels of one program are compiled by several threads where compilers allow it."""

import gc
import os
import threading
import weakref

import jax
import jax.numpy as jnp
import kernbridge
import pytest
from kernbridge._ext.nvrtc import nvrtc
from numba import cuda

S = jax.ShapeDtypeStruct
F32 = jnp.float32
MANY = len(os.sched_getaffinity(0)) > 1

pytestmark = pytest.mark.usefixtures("gpu")


def meeting(original, n):
    """A function that returns only if `n` threads call it at the same time."""
    barrier = threading.Barrier(n)

    def met(*args):
        barrier.wait(30)
        return original(*args)

    return met


def scaled(factor):
    return kernbridge.cuda_kernel(
        f"""extern "C" __global__ void scaled(const float *x, float *out, long n) {{
            long i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) out[i] = {factor}.f * x[i] + {os.getpid()}.f;
        }}""",
        "scaled", outs=S((4,), F32), launch_dims=4, attrs={"n": 4},
    )  # fmt: skip


@pytest.mark.skipif(not MANY, reason="there is one processor")
def test_nvrtc_compiles_two_kernels_at_once(monkeypatch):
    jax.jit(scaled(1)).lower(jnp.arange(4.0))  # compiles what earlier tests traced and left
    monkeypatch.setattr(nvrtc, "_compile", meeting(nvrtc._compile, 2))
    one, other = scaled(2), scaled(3)
    lowered = jax.jit(lambda x: (one(x), other(x))).lower(jnp.arange(4.0))
    assert lowered.as_text().count("kernbridge.cuda") >= 2
    jax.jit(lambda x: (one(x), other(x))).lower(jnp.arange(4.0))  # compiles nothing


def test_equal_kernels_are_compiled_once(monkeypatch):
    compiled = []
    compile_ = nvrtc._compile
    monkeypatch.setattr(
        nvrtc,
        "_compile",
        lambda request, *rest: compiled.append(request) or compile_(request, *rest),
    )
    ops = [scaled(11), scaled(11), scaled(12)]
    jax.jit(lambda x: [op(x) for op in ops]).lower(jnp.arange(4.0))
    assert len(compiled) == 2


def test_an_error_is_that_of_its_call_and_the_others_are_compiled():
    right = scaled(5)
    wrong = kernbridge.cuda_kernel(
        'extern "C" __global__ void wrong(const float *x, float *out) { nothing; }',
        "wrong", outs=S((4,), F32), launch_dims=4,
    )  # fmt: skip
    with pytest.raises(kernbridge.errors.CompilationError, match=r"\[KB4006\]"):
        jax.jit(lambda x: (right(x), wrong(x))).lower(jnp.arange(4.0))
    jax.jit(right).lower(jnp.arange(4.0))


def test_one_kernel_is_compiled_by_the_thread_that_lowers_it(monkeypatch):
    threads, compile_ = [], nvrtc._compile
    monkeypatch.setattr(
        nvrtc, "_compile", lambda *given: threads.append(threading.get_ident()) or compile_(*given)
    )
    op = scaled(7)
    jax.eval_shape(op, jnp.arange(4.0))
    jax.jit(op).lower(jnp.arange(4.0))
    jax.jit(lambda x: op(op(x))).lower(jnp.arange(4.0))
    assert threads == [threading.get_ident()]


@pytest.mark.exhaustive  # what JAX has cached is traced again by the tests that follow
def test_what_was_traced_keeps_no_front_end_alive():
    kernel = cuda.jit(lambda x, out: None)
    op = kernbridge.numba_cuda_kernel(kernel, S((4,), F32), launch_dims=4)
    jax.eval_shape(op, jnp.arange(4.0))
    alive = weakref.ref(op._frontend)
    assert alive() is not None
    del op, kernel
    jax.clear_caches()
    gc.collect()
    assert alive() is None
