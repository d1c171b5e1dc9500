"""Runs CUDA kernels on CPUs: compiles their IR, and makes the CPU a device of Numba-CUDA."""
