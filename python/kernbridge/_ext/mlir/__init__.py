"""Kernels of numba-cuda-mlir on GPUs: their entry, and their machine code."""
