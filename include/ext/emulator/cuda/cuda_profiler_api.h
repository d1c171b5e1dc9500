#include "cuda_runtime.h" // what CUDA has in cuda_profiler_api.h
