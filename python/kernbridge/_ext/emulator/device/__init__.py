"""Makes the CPU a device of Numba-CUDA and numba-cuda-mlir, on which their launches run."""
