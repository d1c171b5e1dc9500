"""Callables that launch several kernels, recorded: `numba_cuda_callable`."""
