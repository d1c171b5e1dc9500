"""Kernels for tests of launches, once for each package of CUDA kernels that is installed."""

import importlib
import importlib.util
from types import SimpleNamespace

from numba import cuda


def kernels_of(cuda, errors):
    @cuda.jit
    def add_one(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] + 1

    @cuda.jit(device=True)
    def twice(x):
        return 2 * x

    @cuda.jit
    def doubled(x):
        i = cuda.grid(1)
        if i < x.shape[0]:
            x[i] = twice(x[i])

    error = importlib.import_module(errors).CudaSupportError
    return SimpleNamespace(cuda=cuda, add_one=add_one, twice=twice, doubled=doubled, error=error)


# These are made before any thread is on the CPU.
PACKAGES = {"numba-cuda": kernels_of(cuda, "numba.cuda.cudadrv.error")}
if importlib.util.find_spec("numba_cuda_mlir"):
    of_mlir = importlib.import_module("numba_cuda_mlir.cuda")
    PACKAGES["mlir"] = kernels_of(of_mlir, "numba_cuda_mlir.numba_cuda.cudadrv.error")
