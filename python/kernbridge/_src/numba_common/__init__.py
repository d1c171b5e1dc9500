"""Code that the front ends of Numba and of Numba-CUDA share."""
