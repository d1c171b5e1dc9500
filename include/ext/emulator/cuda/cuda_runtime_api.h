#include "cuda_runtime.h" // what CUDA has in cuda_runtime_api.h
