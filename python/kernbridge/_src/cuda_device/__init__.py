"""The processor as a device of Numba-CUDA: kernels launched as Numba writes it run on the CPU."""
