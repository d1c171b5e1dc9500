#include "cuda_runtime.h" // what CUDA has in builtin_types.h
