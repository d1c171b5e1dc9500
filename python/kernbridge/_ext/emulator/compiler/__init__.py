"""Compiles the IR of Numba-CUDA's kernels for CPUs."""
