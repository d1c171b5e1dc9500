"""The processor as a device of Numba-CUDA and numba-cuda-mlir, whose launches run on the CPU."""
