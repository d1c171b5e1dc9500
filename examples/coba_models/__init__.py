"""Other forms of the network of examples/coba.py: in pure JAX, and as Numba-CUDA kernels."""
