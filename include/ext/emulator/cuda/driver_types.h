#include "cuda_runtime.h" // what CUDA has in driver_types.h
