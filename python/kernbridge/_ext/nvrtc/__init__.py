"""CUDA C++ kernels compiled by NVRTC: the front end of `cuda_kernel`."""
