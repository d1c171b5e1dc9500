#include "cuda_runtime.h" // what CUDA has in device_atomic_functions.h
