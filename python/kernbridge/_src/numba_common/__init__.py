"""Code that the front ends of Numba and of Numba-CUDA share.

The modules `private_*`, and all modules here and in `numba_cpu` and `numba_cuda` that import them,
are imported only when a kernel is wrapped or compiled: Numba and llvmlite take time to import.
"""
