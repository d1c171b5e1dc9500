"""jax-tvm-ffi: a C++ handler. On the CPU it calls a function in Python that does nothing: its
arrays cannot be handed to a Numba kernel (0.1.3: `numpy.from_dlpack` on one of them ends the
process). On a GPU it calls C++ that launches nvcc's kernel: it takes no Numba kernel either."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable
from typing import Any

import jax

NAME = "jax-tvm-ffi, empty Python function"
_serial = itertools.count()


def available() -> bool:
    return all(importlib.util.find_spec(name) for name in ("jax_tvm_ffi", "tvm_ffi"))


def wrap(kernel: Any, outs: Any) -> Callable[..., Any]:
    import jax_tvm_ffi
    import tvm_ffi

    name = f"benchmark_{next(_serial)}"
    function = tvm_ffi.convert(lambda *buffers: None)
    jax_tvm_ffi.register_ffi_target(name, function, ["args", "rets"], platform="cpu")
    return jax.ffi.ffi_call(name, outs)


SOURCE = """
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>

static __global__ void add_kernel(const float *x, const float *y, float *out, int64_t n)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = x[i] + y[i];
}

void add(tvm::ffi::TensorView x, tvm::ffi::TensorView y, tvm::ffi::TensorView out)
{
    DLDevice device = out.device();
    auto stream = (cudaStream_t)TVMFFIEnvGetStream(device.device_type, device.device_id);
    int64_t n = out.size(0);
    add_kernel<<<(n + 255) / 256, 256, 0, stream>>>((const float *)x.data_ptr(),
        (const float *)y.data_ptr(), (float *)out.data_ptr(), n);
}
"""


def wrap_cuda(kernel: Any, outs: Any) -> Callable[..., Any]:
    import jax_tvm_ffi
    import tvm_ffi.cpp

    name = f"benchmark_{next(_serial)}"
    module = tvm_ffi.cpp.load_inline(name, cuda_sources=SOURCE, functions=["add"])
    jax_tvm_ffi.register_ffi_target(
        name, module.add, ["args", "rets"], platform="gpu", allow_cuda_graph=True
    )
    return jax.ffi.ffi_call(name, outs)


CUDA = {"jax-tvm-ffi, C++ and nvcc": wrap_cuda}
