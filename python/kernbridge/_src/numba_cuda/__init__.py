"""Numba-CUDA kernels: the front end of `numba_cuda_kernel`."""
