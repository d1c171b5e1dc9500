#include "cuda_runtime.h" // what CUDA has in device_functions.h
