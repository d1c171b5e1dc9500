"""Numba-CUDA kernels in the styles people write: a GPU's values are kept, a CPU must give them."""
