"""Numba kernels on CPUs: the front end of `numba_kernel`."""
