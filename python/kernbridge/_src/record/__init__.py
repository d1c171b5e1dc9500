"""Records functions that launch several kernels: `numba_cuda_callable`."""
