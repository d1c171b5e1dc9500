"""numba-cuda-mlir's functions for the host, which functions of `numba_cuda_callable` may call."""

from typing import Any

from kernbridge._ext.mlir import private_mlir_host as mlir


def api(make: Any) -> Any:
    """The package's API, made by the class `HostApi` of numba_cuda/callback.py."""
    modules, array = (mlir.cuda, mlir.numba_cuda, mlir.api), mlir.devicearray.DeviceNDArrayBase
    kernels, configured = mlir.descriptor.MLIRDispatcher, mlir.descriptor._ArgMarshaller
    return make("numba_cuda_mlir", modules, kernels, configured, mlir.driver, array)
