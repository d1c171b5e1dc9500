"""The IR of Numba-CUDA's kernels, compiled for CPUs."""
