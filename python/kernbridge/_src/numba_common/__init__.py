"""Code that the front ends of Numba and of Numba-CUDA share.

The modules `private_*`, and those that import them, here and in `numba_cpu` and `numba_cuda`, are
imported only when a kernel is wrapped or compiled, since Numba and llvmlite take time to import.
"""
