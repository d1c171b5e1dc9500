#include "cuda_runtime.h" // what CUDA has in sm_20_atomic_functions.h
